//! Index mode: two tools stand for all those of the servers. One says what there is, the other makes
//! calls.
//!
//! The client keeps what it is told at the start, whatever the servers do later: the list of tools
//! is fixed. Later changes are in `catalog/index.json` and in the answers of `get_tool_details`.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rmcp::model::{Tool as ListedTool, ToolAnnotations};
use serde_json::{Value, json};

use crate::held_state::HeldKey;
use crate::hub::batch::HeldBatches;
use crate::hub::catalog::CatalogKind;
use crate::hub::names::{BATCH, DETAILS};
use crate::hub::{Hub, index_file, names, weight};
use crate::index::{Index, OVERVIEW_BYTES, Tool};
use crate::permission::{Annotations, Remembered, RiskRules, Rules};
use crate::relay::{Relay, failure};
use crate::tool_name::TrueName;
use crate::{index, own};
use ctxfs_core::model::{Counts, IndexCounts};

/// The words of the instructions, before the index.
const WORDS: &str = "The tools of several servers are called through two: get_tool_details tells \
    what a tool takes, run_tool_batch calls one or several. Results are stored whole; long ones are \
    shown as a stand-in with a reference (ctx://...) that context_read and context_grep take";
const ABOUT_REFERENCES: &str = ", and that {\"$ctx\": REF} puts into the arguments of another call";
const HEADING: &str = ".\n\nTools:\n";
const ABOUT_DETAILS: &str = "Describe tools: their arguments, as JSON Schema, and risks. `names` are \
    names or patterns (github__*); without any, all tools are listed. There are:\n";
const ABOUT_BATCH: &str = "Call tools of the servers, one or several at once (tool_output, too): calls that only read \
    run side by side, any other alone and in its turn. The reply has the results in the order of the \
    calls; long ones are stand-ins with a reference.";
const ABOUT_ARGUMENTS: &str = " `{\"$ctx\": REF}` in arguments stands for a stored text.";
/// Bytes of the servers' own instructions, of those that the index leaves.
const LEAST_SAID: usize = 200;

/// Options of the index.
#[derive(Debug, Clone, Default)]
pub struct IndexOptions {
    /// The user's risks of tools.
    pub risks: RiskRules,
    /// The user's rules of what may be called, without those in the store.
    pub rules: Rules,
    /// The most bytes of the reply to a batch.
    pub batch_budget: usize,
}

/// The state of index mode.
pub(crate) struct IndexMode {
    pub(super) options: IndexOptions,
    /// The index as it is, by the version of the names that it was made of.
    built: Mutex<Option<(u64, Arc<Index>)>>,
    /// The index of the start.
    start: OnceLock<Arc<Index>>,
    pub(super) remembered: Mutex<Remembered>,
    pub(super) key: HeldKey,
    pub(super) held: HeldBatches,
}

impl IndexMode {
    pub(crate) fn new(options: IndexOptions, random: [u8; 32]) -> Self {
        Self {
            options,
            built: Mutex::default(),
            start: OnceLock::new(),
            remembered: Mutex::default(),
            key: HeldKey::new(random),
            held: HeldBatches::default(),
        }
    }
}

/// Returns the index of all tools of the servers that are known.
pub(super) fn index(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Arc<Index> {
    let version = hub.names.lock().version();
    if let Some((of, known)) = &*mode.built.lock()
        && *of == version
    {
        return Arc::clone(known);
    }
    let made = Arc::new(build(relay, hub, mode));
    *mode.built.lock() = Some((version, Arc::clone(&made)));
    let (shelf, written) = (Arc::clone(&relay.shelf), Arc::clone(&made));
    tokio::task::spawn_blocking(move || index_file::write(&shelf, &written));
    made
}

/// Makes the index anew.
pub(super) fn build(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Index {
    let names = names::names(relay, hub, CatalogKind::Tools);
    let mut tools = Vec::new();
    for (server, rows) in names::lists(hub, CatalogKind::Tools) {
        let trust = hub.servers[server].offer.trust;
        for row in rows.iter() {
            let server = relay.upstreams[server].name.clone();
            let true_name = TrueName { server, tool: row.key.clone() };
            let Some(name) = names.name_of(&true_name).map(str::to_owned) else { continue };
            let listed: Value = serde_json::from_str(row.raw.get()).unwrap_or_default();
            let said = trust.then(|| Annotations::of_tool(&listed));
            let risk = mode.options.risks.risk(&true_name.to_string(), said);
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

/// Counts an index that a client is told, and the schemas that it stands for.
fn count(relay: &Relay, index: &Arc<Index>) {
    let (shelf, index, references) =
        (Arc::clone(&relay.shelf), Arc::clone(index), relay.references);
    tokio::task::spawn_blocking(move || {
        let schemas = index.tools().map(|tool| weight::of_tool(&tool.listed)).sum();
        let instructions = instructions_of(&index, references, "");
        let tokens = weight::of_index(&rows_of(&index, references), &instructions);
        let index = IndexCounts { times: 1, tokens, schemas };
        shelf.count(String::new(), &Counts { index, ..Counts::default() });
    });
}

/// Returns the rows of the two tools, as they were at the start.
pub(super) fn rows(relay: &Relay, hub: &Hub, mode: &IndexMode) -> Vec<String> {
    rows_of(&at_start(relay, hub, mode), relay.references)
}

/// Returns the rows of the two tools of an index.
pub(super) fn rows_of(index: &Index, references: bool) -> Vec<String> {
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

/// Returns `words` and the index, as far as clients keep a text.
fn overview(index: &Index, words: &str) -> String {
    format!("{words}{}", index::overview(index, OVERVIEW_BYTES - words.len()))
}

/// Returns the instructions of the start.
pub(super) fn instructions(relay: &Relay, hub: &Hub, mode: &IndexMode, said: &[String]) -> String {
    instructions_of(&at_start(relay, hub, mode), relay.references, &said.join("\n\n"))
}

/// Returns the instructions: the index first, then what the servers `said`, as far as there is room.
pub(super) fn instructions_of(index: &Index, references: bool, said: &str) -> String {
    let about_references = if references { ABOUT_REFERENCES } else { "" };
    let words = format!("{WORDS}{about_references}{HEADING}");
    let room = OVERVIEW_BYTES - words.len() - said.len().min(LEAST_SAID + 2);
    let mut text = format!("{words}{}", index::overview(index, room));
    let left = OVERVIEW_BYTES.saturating_sub(text.len() + 1);
    if !said.is_empty() && left >= LEAST_SAID {
        text.push('\n');
        text += &cut(said, left);
    }
    text
}

/// Returns at most `bytes` of a text, and says so if that is not all.
fn cut(text: &str, bytes: usize) -> String {
    const MORE: &str = " ... (more is not shown)";
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(MORE.len()));
    format!("{}{MORE}", &text[..end])
}

/// Answers `get_tool_details`.
pub(super) fn details(relay: &Relay, hub: &Hub, mode: &IndexMode, params: &Value) -> String {
    let index = index(relay, hub, mode);
    let names = names_of(&params["arguments"]["names"]);
    let answer = match names {
        None => index_file::answer(relay, &index),
        Some(names) => match index::details(&index, &names) {
            Ok(details) => {
                json!({"content": [{"type": "text", "text": details.to_string()}]}).to_string()
            }
            Err(error) => return failure(&error.to_string()),
        },
    };
    own::for_client(params, answer, false)
}

/// Returns the names that are asked about. A model may have written one as a text.
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
        let words = WORDS.len() + ABOUT_REFERENCES.len() + HEADING.len();
        assert!(words < 700 && ABOUT_DETAILS.len() < 300);
    }
}
