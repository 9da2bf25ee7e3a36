//! `ctxfs ls`: lists conversations and outputs.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::args::{Cli, LsArgs};
use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use crate::{page_link, remote, unread};
use ctxfs_core::model::{Component, Record, Removal, visible};
use ctxfs_engine::{Engine, EngineOptions, ListedArtifact, ListedConversation, Listing};
use ctxfs_store::{Conversation, Store};
use ctxfs_view::Title;

/// A line of the listing: a conversation, an artifact, or the trace of one.
struct ListingRow {
    name: String,
    bytes: u64,
    /// Milliseconds since the epoch.
    modified: i64,
    about: String,
    value: serde_json::Value,
}

pub(super) fn run(args: &LsArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    if args.remote {
        return remote::list(args, cli, context);
    }
    let settings = context.settings(cli, Vec::new())?;
    let options = EngineOptions { redaction: settings.redaction()?, ..EngineOptions::default() };
    let store = Store::open(&settings.store(&context.environment)?)?;
    let options = remote::ask(&store, &settings, options);
    let engine = Engine::new(store, options);
    let Listing { mut rows, unread, .. } = match &args.conversation {
        Some(id) => {
            let id = find_anywhere(&engine, id)?.id().clone();
            let mut listing = engine.list_artifacts(&id, ListingRow::of_artifact)?;
            let traces = engine.list_traces(&id)?;
            listing.rows.extend(traces.iter().filter_map(ListingRow::of_trace));
            listing
        }
        None => conversations(&engine)?,
    };
    newest_first(&mut rows);
    if rows.is_empty() && unread.is_empty() {
        context
            .printer
            .say(&"nothing is stored yet; `ctxfs put` and writes under the mount store outputs");
    }
    let text = if cli.json {
        let values: Vec<_> = rows.into_iter().map(|row| row.value).collect();
        serde_json::to_string(&values)? + "\n"
    } else {
        table(&rows)
    };
    context.printer.data(&text)?;
    let shown = match &args.conversation {
        Some(id) => Some(find(engine.store(), id)?.id().clone()),
        None => None,
    };
    page_link::tell(context, engine.store().root(), shown.as_ref(), None);
    unread::report(&unread, context)
}

fn conversations(engine: &Engine) -> anyhow::Result<Listing<ListingRow>> {
    let Listing { rows, closed, unread } = engine.list_conversations()?;
    let rows = rows.iter().map(ListingRow::of_conversation).collect();
    Ok(Listing { rows, closed, unread })
}

/// Finds the conversation that a user names `id`.
pub(super) fn find(store: &Store, id: &str) -> anyhow::Result<Arc<Conversation>> {
    // As given, or as the listing prints a name that is not text.
    for name in [Component::new(id), Component::from_text(id)].into_iter().flatten() {
        if let Some(found) = store.conversation(&name)? {
            return Ok(found);
        }
    }
    let text = format!("there is no conversation `{id}`");
    Err(Failure::new(FailureKind::Failed, text, "`ctxfs ls` lists them").into())
}

/// Does what [`find`] does, and asks other hosts for a conversation that is not here.
pub(super) fn find_anywhere(engine: &Engine, id: &str) -> anyhow::Result<Arc<Conversation>> {
    for name in [Component::new(id), Component::from_text(id)].into_iter().flatten() {
        engine.others().ask_for_conversation(&name)?;
    }
    find(engine.store(), id)
}

impl ListingRow {
    fn of_conversation(listed: &ListedConversation) -> Self {
        let ListedConversation { id, artifacts, bytes, modified } = listed;
        let name = id.to_text();
        let value = json!({ "conversation": name, "artifacts": artifacts, "bytes": bytes,
            "modifiedAt": modified });
        let about = counted(*artifacts, "output");
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

    /// Returns the row of an artifact that was removed or renamed.
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

/// Returns the command, or what the call was about.
fn title(record: &Record) -> Option<String> {
    Title::of(&record.provenance).map(|title| title.to_string())
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
        let (bytes, age) = (size(row.bytes), age(now.saturating_sub(then)));
        let (name, about) = (visible::whole(&row.name), visible::whole(&row.about));
        let _ = writeln!(text, "{bytes:>9} {age:>5}  {name}  {about}");
    }
    // Rows without a description end at the name.
    text.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Returns `1 output`, `2 outputs`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Formats a size as `ls -h` does, in powers of 1024.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// Formats an age, in the largest unit that fits.
pub(super) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_short() {
        let sizes = [0, 1023, 1024, 10 * 1024, 1536 * 1024, 3 << 40].map(size);
        assert_eq!(sizes, ["0", "1023", "1.0K", "10K", "1.5M", "3.0T"]);
        let ages = [0, 59, 60, 7200, 90000].map(|s| age(Duration::from_secs(s)));
        assert_eq!(ages, ["0s", "59s", "1m", "2h", "1d"]);
    }
}
