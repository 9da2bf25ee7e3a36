//! `ctxfs ls`: lists conversations and outputs.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::{Cli, Context, args::LsArgs, context, output, page_link, places, remote};
use ctxfs_core::model::{Record, Removal, visible};
use ctxfs_engine::{Engine, EngineOptions, ListedArtifact, ListedConversation, Listing};

struct ListingRow {
    name: String,
    bytes: u64,
    // Milliseconds since the epoch.
    modified: i64,
    about: String,
    value: serde_json::Value,
}

pub(crate) fn run(args: &LsArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    if args.remote {
        return remote::list(args, cli, context);
    }
    let settings = context.settings(cli, Vec::new())?;
    let options = EngineOptions { redaction: settings.redaction()?, ..EngineOptions::default() };
    let store = ctxfs_store::Store::open(&settings.store(&context.environment)?)?;
    let options = remote::ask(&store, &settings, options);
    let engine = Engine::new(store, options);
    let find = |id: &String| places::find_conversation_anywhere(&engine, id);
    let conversation = args.conversation.as_ref().map(find).transpose()?;
    let id = conversation.as_ref().map(|found| found.id());
    let Listing { mut rows, unread } = match id {
        Some(id) => {
            let mut listing = engine.list_artifacts(id, ListingRow::of_artifact)?;
            let traces = engine.list_traces(id)?;
            listing.rows.extend(traces.iter().filter_map(ListingRow::of_trace));
            listing
        }
        None => conversations(&engine)?,
    };
    newest_first(&mut rows);
    if rows.is_empty() && unread.is_empty() {
        context.printer.message(
            &"nothing is stored yet; `ctxfs put` and writes under the mount store outputs",
        );
    }
    let values = || rows.iter().map(|row| row.value.clone()).collect();
    context.printer.report(|| table(&rows), values)?;
    page_link::print_link(context, engine.store().root(), id, None);
    context::report_unread(&unread, context)
}

fn conversations(engine: &Engine) -> anyhow::Result<Listing<ListingRow>> {
    let Listing { rows, unread } = engine.list_conversations()?;
    let rows = rows.iter().map(ListingRow::of_conversation).collect();
    Ok(Listing { rows, unread })
}

impl ListingRow {
    fn of_conversation(listed: &ListedConversation) -> Self {
        let ListedConversation { id, artifacts, bytes, modified } = listed;
        let name = id.to_text();
        let value = json!({ "conversation": name, "artifacts": artifacts, "bytes": bytes,
            "modifiedAt": modified });
        let about = output::counted(*artifacts, "output");
        Self { name, bytes: *bytes, modified: *modified, about, value }
    }

    fn of_artifact(listed: &ListedArtifact) -> Self {
        let ListedArtifact { path, stat, record } = listed;
        let (name, bytes, modified) = (path.to_text(), stat.size, stat.mtime.as_millis());
        let value = json!({ "path": name, "bytes": bytes, "modifiedAt": modified,
            "call": record.call(), "title": title(record), "tool": record.provenance.tool,
            "server": record.provenance.server, "exitCode": record.provenance.exit_code, "incomplete": record.incomplete() });
        Self { name, bytes, modified, about: about(record), value }
    }

    fn of_trace(record: &Record) -> Option<Self> {
        let Removal { at, rule, why, .. } = record.removed.as_ref()?;
        let digest = record.analysis.as_ref().map(|analysis| &analysis.digest);
        let value = json!({ "path": record.path, "bytes": record.size, "removedAt": at,
            "rule": rule, "why": why, "digest": digest, "call": record.call(),
            "tool": record.provenance.tool, "server": record.provenance.server });
        let what = if rule == Removal::RENAME { "renamed" } else { "removed" };
        let about = format!("{what}: {why}");
        Some(Self { name: record.path.clone(), bytes: record.size, modified: *at, about, value })
    }
}

fn title(record: &Record) -> Option<String> {
    ctxfs_view::Title::of(&record.provenance).map(|title| title.to_string())
}

fn about(record: &Record) -> String {
    let tool = record.provenance.tool_name();
    let exit = record.provenance.exit_code.map(|code| format!("exit {code}"));
    let incomplete = record.incomplete().map(|_| "incomplete".to_owned());
    let parts: Vec<_> = [title(record), tool, exit, incomplete].into_iter().flatten().collect();
    parts.join(", ")
}

fn newest_first(rows: &mut [ListingRow]) {
    rows.sort_by(|a, b| (b.modified, &a.name).cmp(&(a.modified, &b.name)));
}

fn table(rows: &[ListingRow]) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut text = String::new();
    for row in rows {
        let then = Duration::from_millis(row.modified.try_into().unwrap_or(0));
        let (bytes, age) = (output::size(row.bytes), output::age(now.saturating_sub(then)));
        let (name, about) = (visible::whole(&row.name), visible::whole(&row.about));
        let _ = writeln!(text, "{bytes:>9} {age:>5}  {name}  {about}");
    }
    // A row without a description ends with the name, without trailing blanks.
    text.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}
