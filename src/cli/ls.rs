//! `ctxfs ls`: lists conversations and outputs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::{Cli, Context, args::LsArgs, context, output, page_link, places, remote};
use ctxfs_core::model::{Record, Removal, visible};
use ctxfs_engine::{Engine, EngineOptions, ListedArtifact, ListedConversation, Listing};

struct ListingRow {
    // What the output or the conversation is of.
    title: String,
    about: String,
    bytes: u64,
    // Milliseconds since the epoch.
    modified: i64,
    name: String,
    value: serde_json::Value,
}

// Maximum number of characters to which titles are padded. Longer ones move their row.
const PADDED: usize = 48;
// Maximum number of characters of a prompt.
const PROMPT: usize = 100;
// The title of a row of which nothing is known.
const UNKNOWN: &str = "-";

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
    let Listing { mut rows, unread } = if let Some(id) = id {
        let mut listing = engine.list_artifacts(id, ListingRow::of_artifact)?;
        let traces = engine.list_traces(id)?;
        listing.rows.extend(traces.iter().filter_map(ListingRow::of_trace));
        listing
    } else {
        let Listing { rows, unread } = engine.list_conversations()?;
        let home = context.environment.home.as_deref();
        let rows = rows.iter().map(|row| ListingRow::of_conversation(row, home)).collect();
        Listing { rows, unread }
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

impl ListingRow {
    // The title has the first words of the user, or else the last call. `home` is shown as `~`.
    fn of_conversation(listed: &ListedConversation, home: Option<&Path>) -> Self {
        let ListedConversation { id, about, artifacts, bytes, modified, last } = listed;
        let name = id.to_text();
        let last = last.as_ref().and_then(|record| {
            let outcome = Some(outcome(record)).filter(|outcome| !outcome.is_empty());
            let parts = [Some(title(record)?), outcome].into_iter().flatten();
            Some(parts.collect::<Vec<String>>().join(", "))
        });
        let value = json!({ "conversation": name, "artifacts": artifacts, "bytes": bytes,
            "modifiedAt": modified, "directory": about.directory, "host": about.host,
            "prompt": about.prompt, "last": last });
        let in_home = |directory: &String| {
            let below = home.and_then(|home| Path::new(directory).strip_prefix(home).ok());
            below.map_or(directory.clone(), |below| format!("~/{}", below.display()))
        };
        let (title, last) = match &about.prompt {
            Some(prompt) => {
                (ctxfs_view::cleaned(prompt, PROMPT), last.map(|last| format!("last: {last}")))
            }
            None => (last.unwrap_or_else(|| UNKNOWN.to_owned()), None),
        };
        let directory = about.directory.as_ref().map(in_home);
        let outputs = Some(output::counted(*artifacts, "output"));
        let about = [directory, about.host.clone(), outputs, last].into_iter().flatten();
        let about = about.collect::<Vec<_>>().join(", ");
        Self { title, about, bytes: *bytes, modified: *modified, name, value }
    }

    fn of_artifact(listed: &ListedArtifact) -> Self {
        let ListedArtifact { path, stat, record } = listed;
        let (name, bytes, modified) = (path.to_text(), stat.size, stat.mtime.as_millis());
        let errors = record.analysis.as_ref().map(|analysis| analysis.errors.count);
        let value = json!({ "path": name, "bytes": bytes, "modifiedAt": modified,
            "call": record.call(), "title": title(record), "tool": record.provenance.tool,
            "server": record.provenance.server, "exitCode": record.provenance.exit_code, "errors": errors, "incomplete": record.incomplete() });
        Self { title: known(record), about: outcome(record), bytes, modified, name, value }
    }

    fn of_trace(record: &Record) -> Option<Self> {
        let Removal { at, rule, why, .. } = record.removed.as_ref()?;
        let digest = record.analysis.as_ref().map(|analysis| &analysis.digest);
        let value = json!({ "path": record.path, "bytes": record.size, "removedAt": at,
            "rule": rule, "why": why, "digest": digest, "call": record.call(),
            "tool": record.provenance.tool, "server": record.provenance.server });
        let what = if rule == Removal::RENAME { "renamed" } else { "removed" };
        let about = format!("{what}: {why}");
        let (title, name) = (known(record), record.path.clone());
        Some(Self { title, about, bytes: record.size, modified: *at, name, value })
    }
}

fn title(record: &Record) -> Option<String> {
    ctxfs_view::Title::of(&record.provenance).map(|title| title.to_string())
}

// Returns the title, or else the tool.
fn known(record: &Record) -> String {
    let known = title(record).or_else(|| record.provenance.tool_name());
    known.unwrap_or_else(|| UNKNOWN.to_owned())
}

fn outcome(record: &Record) -> String {
    ctxfs_view::outcome(record, record.analysis.as_ref())
}

fn newest_first(rows: &mut [ListingRow]) {
    rows.sort_by(|a, b| (b.modified, &a.name).cmp(&(a.modified, &b.name)));
}

fn table(rows: &[ListingRow]) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let widest = |width: fn(&ListingRow) -> usize| rows.iter().map(width).max().unwrap_or(0);
    let title = widest(|row| visible::whole(&row.title).chars().count()).min(PADDED);
    let about = widest(|row| visible::whole(&row.about).chars().count()).min(PADDED);
    let mut text = String::new();
    for row in rows {
        let then = Duration::from_millis(row.modified.try_into().unwrap_or(0));
        let (bytes, age) = (output::size(row.bytes), ctxfs_view::age(now.saturating_sub(then)));
        let (shown, name) = (visible::whole(&row.title), visible::whole(&row.name));
        let told = visible::whole(&row.about);
        let _ = writeln!(text, "{shown:title$}  {told:about$}  {bytes:>6} {age:>4}  {name}");
    }
    text
}
