//! `ctxfs push` and `put --durable`: send changes of this host to the bucket.

use std::time::{Duration, Instant};
use std::{collections::BTreeSet, thread};

use serde_json::{Value, json};

use crate::args::PushArgs;
use crate::remote::opened::{OpenBucket, Purpose};
use crate::remote::report::{CommandReport, Problems};
use crate::{Cli, Context, Failure, FailureKind, SettingKey, Settings, output, places};
use ctxfs_core::model::{Component, visible};
use ctxfs_sync::remote::{GcMode, RemoteError, RepairReport, Sent, look, standing};

const DURABLE: Duration = Duration::from_secs(30);
// A file that was just written counts as live until the clock of its disk advances, so live files
// are checked several times. Number of checks, and time between two checks.
const LOOKS: usize = 5;
const MOMENT: Duration = Duration::from_millis(20);
const WHAT: [&str; 2] = ["file was left out", "files were left out"];
const HINT: &str = "the rest is sent; `ctxfs push` sends these once they are complete or mended";

struct PushedConversation {
    id: String,
    sent: Sent,
    resent: RepairReport,
    problems: Problems,
    blind: Option<RemoteError>,
}

pub(crate) fn run(args: &PushArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let purpose = if args.new_bucket { Purpose::Begin } else { Purpose::Publish };
    let opened = OpenBucket::new(&settings, (purpose, args.quiet || cli.json), context)?;
    let ids = selected(&opened, &args.conversations)?;
    let (are_named, sweeps) =
        (!args.conversations.is_empty(), settings.is_on(SettingKey::RemoteSweep));
    let done =
        CommandReport::of_each(&ids, ("sending", args.quiet || cli.json), &opened.bucket, |id| {
            push_some(&opened, id, are_named, sweeps)
        });
    if done.is_nothing() {
        context.printer.message(&"the bucket has everything already");
    }
    done.print(line_of, value_of, context)?;
    for blind in done.reports.iter().filter_map(|report| report.blind.as_ref()) {
        context.printer.message(&format_args!("all is sent, but {blind}"));
    }
    done.end(|report, all| all.0.extend(report.problems.0), (WHAT, HINT), context)
}

/// Sends the conversation of an output immediately. Fails if the output is not in the bucket within
/// 30 seconds.
pub(crate) fn durably(
    output: &ctxfs_engine::StoredOutput,
    settings: &Settings,
    context: &mut Context,
) -> anyhow::Result<()> {
    let until = Instant::now() + DURABLE;
    let sent = OpenBucket::until(settings, (Purpose::Publish, true), until, context)
        .and_then(|opened| Ok(push(&opened, output.conversation(), false)?));
    let path = output.path().to_text();
    let why = match sent {
        Ok(PushedConversation { sent, .. }) if sent.live.contains(&path) => {
            "somebody writes it".to_owned()
        }
        Ok(PushedConversation { sent, .. }) => match sent.left.get(&path) {
            Some(why) => why.to_string(),
            None => return Ok(()),
        },
        Err(error) => format!("{error:#}"),
    };
    let text = format!("the output is safe here only: {why}");
    Err(Failure::new(FailureKind::Failed, text, "`ctxfs push` sends it later").into())
}

// Returns the named conversations. Without names, returns all conversations, and those whose
// removal has not been sent to the bucket.
fn selected(opened: &OpenBucket, named: &[String]) -> anyhow::Result<BTreeSet<Component>> {
    if named.is_empty() {
        let mut all: BTreeSet<_> = opened.store.conversations()?.into_iter().collect();
        for id in opened.home.known_conversations()? {
            if !all.contains(&id) && opened.home.is_removed(&opened.store, &id)? {
                all.insert(id);
            }
        }
        return Ok(all);
    }
    named.iter().map(|id| find(opened, id)).collect()
}

fn find(opened: &OpenBucket, id: &str) -> anyhow::Result<Component> {
    let given = places::conversation_id(id)?;
    if opened.home.is_removed(&opened.store, &given)? {
        return Ok(given);
    }
    Ok(places::find_conversation(&opened.store, id)?.id().clone())
}

// Sends a conversation. Returns `None` without a request if the conversation was not named and has
// no changes.
fn push_some(
    opened: &OpenBucket,
    id: &Component,
    is_named: bool,
    sweeps: bool,
) -> Result<Option<PushedConversation>, RemoteError> {
    let (conversation, notes) = (opened.store.conversation(id)?, opened.home.conversation(id)?);
    let standing = standing(conversation.as_deref(), &notes, opened.store.clock())?;
    if !is_named && standing.is_sent() && standing.live == 0 {
        return Ok(None);
    }
    push(opened, id, sweeps).map(Some)
}

fn push(
    opened: &OpenBucket,
    id: &Component,
    sweeps: bool,
) -> Result<PushedConversation, RemoteError> {
    let mut problems = Problems::default();
    let (sent, resent) = match opened.store.conversation(id)? {
        Some(conversation) => send(opened, &conversation)?,
        None => (opened.sync(|sync| sync.push_removal(id))?, RepairReport::default()),
    };
    let name = id.to_text();
    for path in &sent.live {
        problems.add(format!("{name}/{path}"), "it is live: it is sent once its writer has gone");
    }
    for (path, why) in &sent.left {
        problems.add(format!("{name}/{path}"), why);
    }
    if sent.is_partial {
        problems.add(name.as_str(), "not all of it can be read, and that was left as it is");
    }
    for path in &resent.lost {
        let why = "the bucket has lost its bytes, and this host has them no more";
        problems.add(format!("{name}/{path}"), why);
    }
    problems.add_taken(&resent);
    let blind =
        if sent.segments.is_empty() { None } else { tidy(opened, id, sweeps, &mut problems)? };
    Ok(PushedConversation { id: name, sent, resent, problems, blind })
}

fn send(
    opened: &OpenBucket,
    conversation: &std::sync::Arc<ctxfs_store::Conversation>,
) -> Result<(Sent, RepairReport), RemoteError> {
    let mut sent = opened.sync(|sync| sync.push(conversation))?;
    for _ in 1..LOOKS {
        if sent.live.is_empty() {
            break;
        }
        thread::sleep(MOMENT);
        let mut more = opened.sync(|sync| sync.push(conversation))?;
        more.follow(sent);
        sent = more;
    }
    let looked =
        look(&opened.bucket, &opened.home.conversation(conversation.id())?, &|| opened.deadline())?;
    let resent = opened.sync(|sync| sync.resend(conversation, &looked))?;
    Ok((sent, resent))
}

/// Merges the segments of a conversation if there are many, and deletes garbage. A bucket that
/// refuses deletions is reported as a problem, and is no error. If nothing was deleted because some
/// segments could not be read, returns the reason.
fn tidy(
    opened: &OpenBucket,
    id: &Component,
    sweeps: bool,
    problems: &mut Problems,
) -> Result<Option<RemoteError>, RemoteError> {
    let tidying = if sweeps { GcMode::Delete } else { GcMode::Merge };
    let Some(tidied) = opened.sync(|sync| sync.tidy_due(id, tidying, false))? else {
        return Ok(None);
    };
    if tidied.is_hindered() {
        problems.add(id.to_text(), "this host may not delete: set `sweep = false` in `[remote]`");
    }
    Ok(tidied.blind)
}

fn line_of(report: &PushedConversation) -> String {
    let PushedConversation { id, sent, resent, .. } = report;
    let name = visible::whole(id);
    let again = match resent.segments.len() {
        0 => String::new(),
        count => format!(", {count} sent again that the bucket had lost"),
    };
    match sent.segments.len() {
        0 => format!("{name}: nothing new{again}\n"),
        count => format!("{name}: sent, {}{again}\n", output::counted(count, "segment")),
    }
}

fn value_of(report: &PushedConversation) -> Value {
    let PushedConversation { id, sent, resent, problems, .. } = report;
    let segments: Vec<_> = sent.segments.iter().map(ToString::to_string).collect();
    let again: Vec<_> = resent.segments.iter().map(ToString::to_string).collect();
    json!({ "conversation": id, "segments": segments, "live": sent.live, "sentAgain": again,
        "left": problems.json() })
}
