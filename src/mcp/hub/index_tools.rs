//! Index mode: two tools stand for all tools of the servers. `get_tool_details` describes tools,
//! and `run_tool_batch` calls them.
//!
//! A client does not update the tools and instructions that it got at the start, so the list of
//! tools is fixed. Later changes appear in `catalog/index.json` and in answers of
//! `get_tool_details`.

use std::sync::Arc;

use rmcp::model::{Tool as ListedTool, ToolAnnotations};
use serde_json::{Value, json};

use crate::context::location;
use crate::hub::{BATCH, DETAILS, Hub, IndexMode};
use crate::index::overview::OVERVIEW_BYTES;
use crate::index::{self, Index, Tool};
use crate::json_rpc::failed_call;
use crate::lists::ListKind;
use crate::own;
use crate::permission::rules::Annotations;
use crate::relay::Relay;
use crate::shelf::LazyShelf;
use crate::tool_name::ServerTool;
use ctxfs_core::materialize::token_count;
use ctxfs_core::model::{Component, Counts, IndexCounts};

// Instructions that come before the index.
const WORDS: &str = "The tools of several servers are called through two: get_tool_details tells \
    what a tool takes, run_tool_batch calls one or several. Results are stored whole; long ones are \
    shown as a stand-in with a reference (ctx://...)";
const ABOUT_TOOLS: &str = " that context_read and context_grep take";
const ABOUT_REFERENCES: &str = " that {\"$ctx\": REF} puts into the arguments of another call";
const HEADING: &str = ".\n\nTools:\n";
const ABOUT_DETAILS: &str = "Describe tools: their arguments, as JSON Schema, and risks. `names` are \
    names or patterns (github__*); without any, all tools are listed. There are:\n";
const ABOUT_BATCH: &str = "Call tools of the servers, one or several at once: calls that only read run side by side, any \
    other alone and in its turn. The reply has the results in the order of the calls; long ones are \
    stand-ins with a reference.";
const ABOUT_ARGUMENTS: &str = " `{\"$ctx\": REF}` in arguments stands for a stored text.";
// Minimum number of bytes left for the servers' own instructions. With less room, they are left
// out.
const MIN_INSTRUCTIONS: usize = 200;
// Members of a tool that clients show to models.
const TOLD: [&str; 3] = ["name", "description", "inputSchema"];

/// Returns the index of all tools of the introduced servers. A new index is also written to the
/// conversation.
pub(crate) fn index(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Arc<Index> {
    let version = hub.names.lock().version;
    if let Some((of, known)) = &*mode.built.lock()
        && *of == version
    {
        return Arc::clone(known);
    }
    let made = Arc::new(build(relay, hub, mode));
    *mode.built.lock() = Some((version, Arc::clone(&made)));
    let (shelf, written) = (Arc::clone(&relay.shelf), Arc::clone(&made));
    tokio::task::spawn_blocking(move || write_files(&shelf, &written));
    made
}

pub(crate) fn build(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Index {
    let names = hub.offered_names(ListKind::Tools);
    let mut tools = Vec::new();
    for (server, rows) in hub.lists(ListKind::Tools) {
        let trust = hub.servers[server].offer.trust;
        for row in rows.iter() {
            let server = relay.upstreams[server].name.clone();
            let true_name = ServerTool { server, tool: row.key.clone() };
            let Some(name) = names.name_of(&true_name).map(str::to_owned) else { continue };
            let listed: Value = serde_json::from_str(row.raw.get()).unwrap_or_default();
            let annotations = trust.then(|| Annotations::of_tool(&listed));
            let risk = mode.options.risks.risk(&true_name.to_string(), annotations);
            tools.push(Tool { name, true_name, risk, listed });
        }
    }
    Index::new(tools)
}

fn at_start(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Arc<Index> {
    let begin = || {
        let index = index(relay, hub, mode);
        count(relay, &index);
        index
    };
    Arc::clone(mode.start.get_or_init(begin))
}

fn count(relay: &Relay, index: &Arc<Index>) {
    let (shelf, index) = (Arc::clone(&relay.shelf), Arc::clone(index));
    let offered = (relay.context_tools, relay.references);
    tokio::task::spawn_blocking(move || {
        let schemas = index.tools.values().map(|tool| tool_tokens(&tool.listed)).sum();
        let instructions = instructions_of(&index, offered, "");
        let tokens = index_tokens(&rows_of(&index, offered.1), &instructions);
        let index = IndexCounts { times: 1, tokens, schemas };
        shelf.count(String::new(), &Counts { index, ..Counts::default() });
    });
}

pub(crate) fn rows(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Vec<String> {
    rows_of(&at_start(relay, hub, mode), relay.references)
}

pub(crate) fn rows_of(index: &Index, references: bool) -> Vec<String> {
    let overview = overview(index, ABOUT_DETAILS);
    let details = json!({
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string"}, "maxItems": index::MOST_NAMES}},
    });
    let call = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
    });
    let batch = json!({
        "type": "object",
        "properties": {
            "calls": {"type": "array", "items": call, "minItems": 1},
            "parallelLimit": {"type": "integer", "minimum": 1, "maximum": 16, "default": 4},
            "stopOnError": {"type": "boolean", "default": false},
        },
        "required": ["calls"],
    });
    let about_arguments = if references { ABOUT_ARGUMENTS } else { "" };
    let about_batch = format!("{ABOUT_BATCH}{about_arguments}");
    let reads = ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    let row = |name: &'static str, about: String, schema: Value, annotations| {
        let schema = Arc::new(schema.as_object().cloned().unwrap_or_default());
        let tool = ListedTool::new(name, about, schema).with_annotations(annotations);
        serde_json::to_string(&tool).unwrap_or_default()
    };
    vec![
        row(DETAILS, overview, details, reads),
        row(BATCH, about_batch, batch, ToolAnnotations::new()),
    ]
}

fn overview(index: &Index, words: &str) -> String {
    format!("{words}{}", index::overview(index, OVERVIEW_BYTES - words.len()))
}

pub(crate) fn instructions(
    relay: &Relay,
    hub: &Hub,
    mode: &IndexMode,
    of_servers: &[String],
) -> String {
    let offered = (relay.context_tools, relay.references);
    instructions_of(&at_start(relay, hub, mode), offered, &of_servers.join("\n\n"))
}

/// Returns the instructions: the index first, then as much of the servers' own instructions as
/// fits.
pub(crate) fn instructions_of(
    index: &Index,
    (tools, references): (bool, bool),
    of_servers: &str,
) -> String {
    let about_tools = if tools { ABOUT_TOOLS } else { "" };
    let about_references = if references { ABOUT_REFERENCES } else { "" };
    let and = if tools && references { ", and" } else { "" };
    let words = format!("{WORDS}{about_tools}{and}{about_references}{HEADING}");
    let room = OVERVIEW_BYTES - words.len() - of_servers.len().min(MIN_INSTRUCTIONS + 2);
    let mut text = format!("{words}{}", index::overview(index, room));
    let left = OVERVIEW_BYTES.saturating_sub(text.len() + 1);
    if !of_servers.is_empty() && left >= MIN_INSTRUCTIONS {
        text.push('\n');
        text += &cut(of_servers, left);
    }
    text
}

fn cut(text: &str, bytes: usize) -> String {
    const MORE: &str = " ... (more is not shown)";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(MORE.len()));
    format!("{}{MORE}", &text[..end])
}

pub(crate) fn details(relay: &Relay, hub: &Hub, mode: &IndexMode, params: &Value) -> String {
    let index = index(relay, hub, mode);
    let names = names_of(&params["arguments"]["names"]);
    let answer = match names {
        None => whole_index(relay, &index),
        Some(names) => match index::details(&index, &names, inline_bytes(relay)) {
            Ok(details) => {
                json!({"content": [{"type": "text", "text": details.to_string()}]}).to_string()
            }
            Err(error) => return failed_call(&error.to_string()),
        },
    };
    own::for_client(params, answer, false)
}

fn names_of(names: &Value) -> Option<Vec<String>> {
    let names = match names {
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(name) if name.trim_start().starts_with('[') => {
            serde_json::from_str(name).unwrap_or_else(|_| vec![name.clone()])
        }
        Value::String(name) => vec![name.clone()],
        _ => Vec::new(),
    };
    (!names.is_empty()).then_some(names)
}

/// Writes `catalog/index.json` and `catalog/tools/<name>.json`. Failures are only logged, because
/// answers do not depend on these files.
fn write_files(shelf: &LazyShelf, index: &Index) {
    let tools = index.tools.values().filter_map(|tool| {
        let name = Component::new(format!("{}.json", tool.name)).ok()?;
        Some((name, index::tool_json(tool)))
    });
    let text = index::index_json(index);
    let written = shelf.open().and_then(|open| {
        let written = open.engine.write_catalog(&open.conversation, &text, tools);
        written.map_err(|error| error.to_string())
    });
    if let Err(why) = written {
        tracing::warn!("the index of tools is not written: {why}");
    }
}

fn uri(relay: &Relay) -> String {
    format!("ctx://{}/catalog/index.json", relay.shelf.source.conversation())
}

/// Returns the entry of the whole index in the list of resources.
pub(crate) fn resource(relay: &Relay) -> String {
    let uri = location::uri(&uri(relay));
    let about = "All tools of the servers, each on one line";
    json!({"uri": uri, "name": "index.json", "description": about, "mimeType": "application/json"})
        .to_string()
}

fn inline_bytes(relay: &Relay) -> u64 {
    relay.shelf.source.limits("").max_inline_bytes
}

fn whole_index(relay: &Relay, index: &Index) -> String {
    let text = index::index_json(index);
    let most = inline_bytes(relay).min(text.len() as u64) as usize;
    if most == text.len() {
        return json!({"content": [{"type": "text", "text": text}]}).to_string();
    }
    let uri = uri(relay);
    let end = text[..text.floor_char_boundary(most)].rfind('\n').unwrap_or(0);
    let tools = if relay.context_tools { " (context_read, context_grep)" } else { "" };
    let shown =
        format!("{}\n[ctxfs] {} of {} bytes; all: {uri}{tools}", &text[..end], end, text.len());
    let link = json!({
        "type": "resource_link", "uri": location::uri(&uri), "name": "index.json", "mimeType": "application/json",
        "size": text.len(),
    });
    let mut content = vec![json!({"type": "text", "text": shown})];
    content.extend(relay.client.knows_links().then_some(link));
    json!({"content": content}).to_string()
}

pub(crate) fn text_tokens(text: &str) -> u64 {
    token_count(text.as_bytes())
}

pub(crate) fn tool_tokens(listed: &Value) -> u64 {
    let [name, description, schema] = TOLD.map(|key| listed.get(key).unwrap_or(&Value::Null));
    let details = json!({"name": name, "description": description, "inputSchema": schema});
    text_tokens(&details.to_string())
}

pub(crate) fn index_tokens(rows: &[String], instructions: &str) -> u64 {
    let rows = rows.iter().map(|row| tool_tokens(&serde_json::from_str(row).unwrap_or_default()));
    rows.sum::<u64>() + text_tokens(instructions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_written_as_a_text() {
        for (names, expected) in [
            (json!(["a", "b"]), Some(vec!["a", "b"])),
            (json!("[\"a\"]"), Some(vec!["a"])),
            (json!("a"), Some(vec!["a"])),
            (json!("[a]*"), Some(vec!["[a]*"])),
            (json!([]), None),
            (json!(null), None),
        ] {
            let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(names_of(&names), expected, "{names}");
        }
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(cut("abc", 3), "abc");
        let shown = cut(&"\u{e9}".repeat(100), 51);
        assert!(shown.len() <= 51 && shown.ends_with(" ... (more is not shown)"), "{shown}");
    }

    #[test]
    fn the_words_leave_room_for_the_index() {
        let more = ABOUT_TOOLS.len() + ", and".len() + ABOUT_REFERENCES.len();
        let words = WORDS.len() + more + HEADING.len();
        assert!(words < 700 && ABOUT_DETAILS.len() < 300);
    }
}
