//! The context tools: reading what is stored, for clients without file tools.
//!
//! No name leads out of the conversation.

mod artifacts;
pub(crate) mod extraction;
mod locate;
mod search;
mod text;

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use rmcp::model::{Resource, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::context::artifacts::{artifacts, listed};
use crate::context::extraction::AnswerWaiter;
pub(super) use crate::context::locate::Location;
use crate::context::text::{Slice, most_bytes, shown};
use crate::shelf::OpenShelf;
use ctxfs_core::model::Content as _;

/// The most artifacts that are listed as resources.
const MOST_RESOURCES: usize = 100;
/// The most bytes of a resource that is read at once.
const MOST_READ: u64 = 4 << 20;
/// The names of the tools.
pub(super) const NAMES: [&str; 6] = [
    "context_list",
    "context_read",
    "context_tail",
    "context_grep",
    "context_view",
    extraction::NAME,
];
const REF: &str = "Reference of a stored output: its ctx:// id, call id, handle or path.";

/// Returns true if a tool of this name is the gateway's own.
pub(super) fn is_tool(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the tools.
pub(super) fn tools() -> Vec<Tool> {
    let reference = json!({"type": "string", "description": REF});
    let whole = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let text = |about: &str| json!({"type": "string", "description": about});
    vec![
        tool(
            "context_list",
            "List the stored outputs of this conversation, newest first.",
            json!({
                "kind": text("artifact, history or catalog"),
                "since": whole("Only those created at or after this time, in ms since 1970."),
                "limit": whole("At most so many (default 50)."),
                "cursor": text("The `next` of the answer before."),
            }),
            &[],
        ),
        tool(
            "context_read",
            "Read a stored output, or one of the ctx:// names in a summary, from a byte on. The \
             structured content says where to go on.",
            json!({
                "ref": reference,
                "offset": whole("First byte (default 0)."),
                "limit": whole("At most so many bytes."),
                "lines": text("Lines A-B instead of bytes, such as 100-150."),
            }),
            &["ref"],
        ),
        tool(
            "context_tail",
            "Read the last lines of a stored output.",
            json!({"ref": reference, "lines": whole("So many lines (default 200).")}),
            &["ref"],
        ),
        tool(
            "context_grep",
            "Search a stored output, or all of this conversation, for a regular expression. \
             Prints lines with their numbers, as ripgrep does.",
            json!({
                "ref": reference,
                "pattern": text("Regular expression, in ripgrep's syntax."),
                "ignore_case": {"type": "boolean"},
                "fixed": {"type": "boolean", "description": "The pattern is plain text."},
                "context": whole("Lines around each match."),
                "max": whole("At most so many matching lines."),
            }),
            &["pattern"],
        ),
        tool(
            "context_view",
            "Show a computed view of a stored output: summary, errors, shape, terms, \
             lines/10-20, pages/0001, find/WORDS, jq/FILTER, pretty.grep/PATTERN.",
            json!({"ref": reference, "view": text("Name of the view, such as jq/.items[0].")}),
            &["ref", "view"],
        ),
        extraction::tool(),
    ]
}

fn tool(name: &'static str, about: &'static str, properties: Value, required: &[&str]) -> Tool {
    let mut schema = serde_json::Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let annotations = ToolAnnotations::new()
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Tool::new(name, about, Arc::new(schema)).with_annotations(annotations)
}

/// Returns the result of a call. The error is for the model.
pub(super) fn call(
    open: &OpenShelf,
    (name, arguments): (&str, &Value),
    waiter: &AnswerWaiter<'_>,
) -> Result<Value, String> {
    match name {
        extraction::NAME => extraction::answer(open, arguments, waiter),
        "context_list" => list(open, arguments),
        "context_read" => read(open, arguments),
        "context_tail" => tail(open, arguments),
        "context_grep" => grep(open, arguments),
        "context_view" => view(open, arguments),
        _ => Err(format!("there is no tool `{name}`")),
    }
}

fn list(open: &OpenShelf, arguments: &Value) -> Result<Value, String> {
    let found = listed(open, arguments)?;
    Ok(json!({
        "content": [{"type": "text", "text": found.to_string()}],
        "structuredContent": found,
    }))
}

fn read(open: &OpenShelf, arguments: &Value) -> Result<Value, String> {
    let place = Location::find(open, reference(arguments)?)?;
    if let Some(lines) = arguments["lines"].as_str() {
        return text_result(open, &place.view(&format!("lines/{lines}")));
    }
    let file = place.open()?;
    let limit = number(arguments, "limit")?.unwrap_or(u64::MAX).min(most_bytes(open));
    let offset = number(arguments, "offset")?.unwrap_or(0);
    let slice = Slice::read(&file, offset, limit).map_err(|error| error.to_string())?;
    if slice.is_binary {
        return Err(format!(
            "`{}` is binary; context_view with `meta.json` describes it",
            place.name()
        ));
    }
    Ok(json!({
        "content": [{"type": "text", "text": slice.text}],
        "structuredContent": {"offset": slice.offset, "next": slice.next, "total": file.len()},
    }))
}

fn tail(open: &OpenShelf, arguments: &Value) -> Result<Value, String> {
    let place = Location::find(open, reference(arguments)?)?;
    let view = match number(arguments, "lines")? {
        None | Some(200) => "tail".to_owned(),
        Some(lines) => format!("lines/-{lines}"),
    };
    text_result(open, &place.view(&view))
}

fn grep(open: &OpenShelf, arguments: &Value) -> Result<Value, String> {
    let query = search::query(arguments)?;
    let place = match arguments["ref"].as_str() {
        Some(reference) => Location::find(open, reference)?.view(&format!("grep/{query}")),
        None => Location::at(open, &format!(".grep/{query}")),
    };
    text_result(open, &place)
}

fn view(open: &OpenShelf, arguments: &Value) -> Result<Value, String> {
    let place = Location::find(open, reference(arguments)?)?;
    let view = arguments["view"].as_str().ok_or("`view` is missing")?.trim_start_matches('.');
    let view = match view.split_once('/') {
        Some((kind, argument)) => format!("{kind}/{}", argument.replace('/', "%2F")),
        None => view.to_owned(),
    };
    text_result(open, &place.view(&view))
}

fn text_result(open: &OpenShelf, place: &Location<'_>) -> Result<Value, String> {
    let text = shown(&place.open()?, most_bytes(open)).map_err(|error| error.to_string())?;
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

fn reference(arguments: &Value) -> Result<&str, String> {
    arguments["ref"].as_str().ok_or_else(|| "`ref` is missing".to_owned())
}

/// Returns a whole number, which a model may have written as a string.
fn number(arguments: &Value, name: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("`{name}` is no whole number");
    match &arguments[name] {
        Value::Null => Ok(None),
        Value::String(text) => text.trim().parse().map(Some).map_err(|_| wrong()),
        value => value.as_u64().map(Some).ok_or_else(wrong),
    }
}

/// Returns the newest artifacts as resources.
pub(super) fn resources(open: &OpenShelf) -> Result<Vec<Resource>, String> {
    let newest = artifacts(open)?.into_iter().take(MOST_RESOURCES);
    Ok(newest
        .map(|found| {
            let name = Path::new(&found.id).file_name().unwrap_or_default().to_string_lossy();
            let resource = Resource::new(found.id.clone(), name).with_description(found.hint);
            let resource = match found.byte_size {
                Some(size) => resource.with_size(size),
                None => resource,
            };
            match found.mime_type {
                Some(mime) => resource.with_mime_type(mime),
                None => resource,
            }
        })
        .collect())
}

/// Returns the contents of the resource `uri`.
pub(super) fn resource(open: &OpenShelf, uri: &str) -> Result<Value, String> {
    let place = Location::find(open, uri)?;
    let file = place.open()?;
    if file.len() > MOST_READ {
        return Err(format!(
            "`{uri}` has {} bytes, and at most {MOST_READ} are read at once: \
             read `{uri}.pages/0001` and so on, or use context_read",
            file.len()
        ));
    }
    let bytes = file.bytes(0, MOST_READ as usize).map_err(|error| error.to_string())?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}),
        Err(error) => {
            let blob = base64::engine::general_purpose::STANDARD.encode(error.as_bytes());
            let mime = "application/octet-stream";
            json!({"contents": [{"uri": uri, "mimeType": mime, "blob": blob}]})
        }
    })
}
