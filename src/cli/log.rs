//! `ctxfs log`: prints the messages of a conversation.

mod append;
mod entry;

use std::io::Write;
use std::sync::Arc;

use crate::args::{Cli, LogAction, LogArgs};
use crate::context::Context;
use crate::ls::find;
use crate::outcome::{Failure, FailureKind};
use crate::{engine, page_link, pager};
use ctxfs_core::model::Content as _;
use ctxfs_core::redact::SecretRules;
use ctxfs_engine::{MaskedForm, Redaction};
use ctxfs_store::message::{Log, LogLine, LogLines, MessageEntry};
use ctxfs_store::{Conversation, Store, message};
use ctxfs_view::cleaned;

pub(super) fn run(args: &LogArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    match (&args.action, &args.conversation) {
        (Some(LogAction::Append(args)), None) => return append::run(args, cli, context),
        (Some(_), Some(id)) => {
            let text = format!("the conversation `{id}` belongs after `append`");
            return Err(Failure::usage(text, format!("use `ctxfs log append {id}`")).into());
        }
        (None, _) => {}
    }
    let settings = context.settings(cli, Vec::new())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let found = match &args.conversation {
        Some(id) => Some(find(&store, id)?),
        None => latest(&store)?,
    };
    let Some(conversation) = found else { return Err(no_log().into()) };
    let others = engine::other_messages(&store);
    let log = message::log_of(&conversation, others.as_deref())?;
    let Some(log) = log else { return Err(no_log().into()) };
    let redaction = settings.redaction()?;
    let rules = redaction.as_ref().map(|redaction| &*redaction.rules);
    pager::page(&context.environment, args.no_pager, |out| {
        if cli.json {
            raw(log, redaction.as_ref(), out)
        } else {
            print(log, &conversation, rules, out)
        }
    })?;
    page_link::tell(context, store.root(), Some(conversation.id()), None);
    Ok(())
}

fn no_log() -> Failure {
    let hint = "add messages with `ctxfs log append CONVERSATION`, or append to its \
                history/messages.jsonl under the mount";
    Failure::new(FailureKind::Failed, "there is no message log yet", hint)
}

/// Finds the conversation whose log was written last. Passes over those that cannot be read.
fn latest(store: &Store) -> anyhow::Result<Option<Arc<Conversation>>> {
    let mut newest = None;
    for id in store.conversations()? {
        let Ok(Some(conversation)) = store.conversation(&id) else { continue };
        let Ok(Some(log)) = conversation.log_file() else { continue };
        let written = log.metadata()?.modified()?;
        if newest.as_ref().is_none_or(|(than, _)| written > *than) {
            newest = Some((written, conversation));
        }
    }
    Ok(newest.map(|(_, conversation)| conversation))
}

/// Prints each line of the log unchanged, except for its secrets.
fn raw(log: Log, redaction: Option<&Redaction>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut out = MaskedForm::shown(redaction, out);
    for line in LogLines::of(log) {
        line?.read(|block| out.write_all(block))?;
        out.write_all(b"\n")?;
    }
    Ok(out.finish()?)
}

/// Prints each message for a person.
fn print(
    log: Log,
    conversation: &Conversation,
    rules: Option<&SecretRules>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut between = "";
    for line in LogLines::of(log) {
        let text = match line? {
            LogLine::Bytes(bytes) => shown(&String::from_utf8_lossy(&bytes), conversation, rules),
            long @ LogLine::Part(..) => {
                format!("[a message of {} bytes: `ctxfs log --json` prints it]\n", long.len())
            }
        };
        write!(out, "{between}{text}")?;
        between = "\n";
    }
    Ok(())
}

fn shown(line: &str, conversation: &Conversation, rules: Option<&SecretRules>) -> String {
    let mask = rules.map(|rules| |text: &str| rules.mask_text(text));
    let mask = mask.as_ref().map(|mask| mask as &dyn Fn(&str) -> String);
    if let Ok(message) = MessageEntry::parse(line, mask) {
        return entry::text(&message, conversation);
    }
    let line = mask.map_or_else(|| line.to_owned(), |mask| mask(line));
    format!("[not a message] {}\n", cleaned(&line, usize::MAX))
}
