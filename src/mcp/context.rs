//! The context tools, which read stored outputs of one conversation, for clients without file
//! tools.

pub(crate) mod extraction;
pub(crate) mod location;

use std::cmp::Reverse;
use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use rmcp::model::{Resource, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::context::extraction::QuestionMonitor;
use crate::context::location::Location;
use crate::shelf::GatewayConversation;
use ctxfs_core::materialize::{PlainText, SNIFFED, reading};
use ctxfs_core::model::{Content, ContextRef, Limits, Reading};
use ctxfs_view::context_ref;

// Maximum number of artifacts listed as resources, newest first.
const MAX_RESOURCES: usize = 100;
// Maximum number of bytes per read of a resource.
const MAX_READ: u64 = 4 << 20;
pub(crate) const NAMES: [&str; 6] = [
    "context_list",
    "context_read",
    "context_tail",
    "context_grep",
    "context_view",
    extraction::NAME,
];
const REF: &str = "Reference of a stored output: its ctx:// id, call id, handle or path.";
// Default and maximum number of rows in a listing.
const ROWS: u64 = 50;
const MAX_ROWS: u64 = 200;
// Maximum length of an answer in bytes, unless the limits are lower.
const MAX_TEXT: u64 = 1 << 20;

/// Returns the context tools. `tool_output` is only among them if `answers_questions` is true,
/// because without a language model it shows no more than the others.
pub(crate) fn tools(answers_questions: bool) -> Vec<Tool> {
    let reference = json!({"type": "string", "description": REF});
    let whole = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let text = |about: &str| json!({"type": "string", "description": about});
    let mut tools = vec![
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
    ];
    tools.extend(answers_questions.then(extraction::tool));
    tools
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

/// Runs a context tool and returns its result. Errors are worded for the model. Blocks on disk
/// reads; `tool_output` also blocks on a language model.
pub(crate) fn call(
    open: &GatewayConversation,
    (name, arguments): (&str, &Value),
    waiter: &QuestionMonitor<'_>,
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

fn list(open: &GatewayConversation, arguments: &Value) -> Result<Value, String> {
    let found = listed(open, arguments)?;
    Ok(json!({
        "content": [{"type": "text", "text": found.to_string()}],
        "structuredContent": found,
    }))
}

fn read(open: &GatewayConversation, arguments: &Value) -> Result<Value, String> {
    let place = Location::find(open, reference(arguments)?)?;
    if let Some(lines) = arguments["lines"].as_str() {
        return text_result(open, &place.view(&format!("lines/{lines}")));
    }
    let file = place.open()?;
    let limit = number(arguments, "limit")?.unwrap_or(u64::MAX).min(most_bytes(open));
    let offset = number(arguments, "offset")?.unwrap_or(0);
    let Some(text) = decoded(&file).map_err(|error| error.to_string())? else {
        return Err(format!(
            "`{}` is binary; context_view with `meta.json` describes it",
            place.name()
        ));
    };
    let slice = TextRange::read(&*text, offset, limit).map_err(|error| error.to_string())?;
    Ok(json!({
        "content": [{"type": "text", "text": slice.text}],
        "structuredContent": {"offset": slice.offset, "next": slice.next, "total": text.len()},
    }))
}

/// Returns the content of `file` as UTF-8, or `None` if it is binary.
fn decoded(file: &dyn Content) -> io::Result<Option<Box<dyn Content + '_>>> {
    let Some(reading) = reading(&file.bytes(0, SNIFFED)?, false) else { return Ok(None) };
    let reading = Reading { charset: reading.charset, ..Reading::default() };
    if reading.is_plain() {
        return Ok(Some(Box::new(file)));
    }
    Ok(Some(Box::new(PlainText::whole(file, reading)?)))
}

fn tail(open: &GatewayConversation, arguments: &Value) -> Result<Value, String> {
    let place = Location::find(open, reference(arguments)?)?;
    let view = match number(arguments, "lines")?.unwrap_or(Limits::TAIL_LINES) {
        Limits::TAIL_LINES => "tail".to_owned(),
        lines => format!("lines/-{lines}"),
    };
    let text = end_of(&place.view(&view).open()?, most_bytes(open));
    Ok(text_block(&text.map_err(|error| error.to_string())?))
}

/// Returns the end of a view in `most` bytes. The first line of a truncated text states how many
/// lines are shown, or how many bytes of the last line.
fn end_of(file: &dyn Content, most: u64) -> io::Result<String> {
    let from = file.len().saturating_sub(most);
    let bytes = file.bytes(from, most as usize)?;
    let text = String::from_utf8_lossy(&bytes);
    if from == 0 && text.len() as u64 <= most {
        return Ok(text.into_owned());
    }
    let lines = |count: usize| format!("# the last {count} lines follow, in {most} bytes\n");
    let part = |bytes: usize| format!("# the last {bytes} bytes of the last line follow\n");
    let first = lines(text.len()).len().max(part(text.len()).len());
    let room = (most as usize).saturating_sub(first);
    let start = text.len().saturating_sub(room);
    let start = (start..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(start);
    let rest = &text[start..];
    let whole = if text[..start].ends_with('\n') {
        Some(rest)
    } else {
        let cut = rest.trim_end_matches('\n').find('\n');
        cut.map(|end| &rest[end + 1..])
    };
    Ok(match whole {
        Some(rest) => lines(rest.lines().count()) + rest,
        None => part(rest.len()) + rest,
    })
}

fn grep(open: &GatewayConversation, arguments: &Value) -> Result<Value, String> {
    let query = query(arguments)?;
    let place = match arguments["ref"].as_str() {
        Some(reference) => Location::find(open, reference)?.view(&format!("grep/{query}")),
        None => Location::at(open, &format!(".grep/{query}")),
    };
    let (file, most) = (place.open()?, most_bytes(open));
    if file.len() <= most {
        return text_result(open, &place);
    }
    let bytes = file.bytes(0, most as usize).map_err(|error| error.to_string())?;
    // The first line tells of more lines than are shown here.
    let told = memchr::memchr(b'\n', &bytes).filter(|_| bytes.starts_with(b"# "));
    let start = told.map_or(0, |end| end + 1);
    let first = told.map_or_else(
        || "# too many lines match".to_owned(),
        |end| String::from_utf8_lossy(&bytes[..end]).into_owned(),
    );
    let found = first.split("; the first").next().unwrap_or(&first);
    let name = location::uri(&place.name());
    let notice = |offset: usize| {
        format!(
            "{found}; the first follow, in {most} bytes. Go on: context_read of {name} from offset {offset}\n"
        )
    };
    let mut room = (most as usize).saturating_sub(notice(bytes.len()).len());
    let lines = bytes[start..].split_inclusive(|byte| *byte == b'\n');
    let fits = |line: &&[u8]| {
        let length = String::from_utf8_lossy(line).len();
        let fits = line.ends_with(b"\n") && length <= room;
        room -= length.min(room);
        fits
    };
    let end = start + lines.take_while(fits).map(<[u8]>::len).sum::<usize>();
    Ok(text_block(&(notice(end) + &String::from_utf8_lossy(&bytes[start..end]))))
}

fn view(open: &GatewayConversation, arguments: &Value) -> Result<Value, String> {
    let place = Location::find(open, reference(arguments)?)?;
    let view = arguments["view"].as_str().ok_or("`view` is missing")?.trim_start_matches('.');
    let view = match view.split_once('/') {
        Some((kind, argument)) => format!("{kind}/{}", argument.replace('/', "%2F")),
        None => view.to_owned(),
    };
    text_result(open, &place.view(&view))
}

fn text_result(open: &GatewayConversation, place: &Location<'_>) -> Result<Value, String> {
    let text = shown(&place.open()?, most_bytes(open)).map_err(|error| error.to_string())?;
    Ok(text_block(&text))
}

fn text_block(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn reference(arguments: &Value) -> Result<&str, String> {
    arguments["ref"].as_str().ok_or_else(|| "`ref` is missing".to_owned())
}

fn number(arguments: &Value, name: &str) -> Result<Option<u64>, String> {
    let wrong = || format!("`{name}` is no whole number");
    match &arguments[name] {
        Value::Null => Ok(None),
        Value::String(text) => text.trim().parse().map(Some).map_err(|_| wrong()),
        value => value.as_u64().map(Some).ok_or_else(wrong),
    }
}

pub(crate) fn resources(open: &GatewayConversation) -> Result<Vec<Resource>, String> {
    let newest = artifacts(open)?.into_iter().take(MAX_RESOURCES);
    Ok(newest
        .map(|found| {
            let name = Path::new(&found.id).file_name().unwrap_or_default().to_string_lossy();
            let resource =
                Resource::new(location::uri(&found.id), name).with_description(found.hint);
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

pub(crate) fn resource(open: &GatewayConversation, uri: &str) -> Result<Value, String> {
    let place = Location::find(open, uri)?;
    let file = place.open()?;
    if file.len() > MAX_READ {
        return Err(format!(
            "`{uri}` has {} bytes, and at most {MAX_READ} are read at once: \
             read `{uri}.pages/0001` and so on, or use context_read",
            file.len()
        ));
    }
    let bytes = file.bytes(0, MAX_READ as usize).map_err(|error| error.to_string())?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}),
        Err(error) => {
            let blob = base64::engine::general_purpose::STANDARD.encode(error.as_bytes());
            let mime = "application/octet-stream";
            json!({"contents": [{"uri": uri, "mimeType": mime, "blob": blob}]})
        }
    })
}

pub(crate) fn artifacts(open: &GatewayConversation) -> Result<Vec<ContextRef>, String> {
    let (engine, id) = (&open.engine, open.conversation.id());
    let listing = engine.list_artifacts(id, |artifact| {
        let place = engine.options.place(id, &artifact.path);
        let analysis = artifact.record.analysis.as_ref();
        context_ref(&artifact.record, &place, artifact.stat.size, analysis)
    });
    let mut rows = listing.map_err(|error| error.to_string())?.rows;
    rows.sort_by(|one, other| {
        let key = |row: &ContextRef| (Reverse(row.created_at), row.id.clone());
        key(one).cmp(&key(other))
    });
    Ok(rows)
}

pub(crate) fn listed(open: &GatewayConversation, arguments: &Value) -> Result<Value, String> {
    let since = number(arguments, "since")?.unwrap_or(0);
    let limit = number(arguments, "limit")?.unwrap_or(ROWS).clamp(1, MAX_ROWS) as usize;
    let kind = arguments["kind"].as_str();
    let after = arguments["cursor"].as_str().map(cursor).transpose()?;
    let mut rows = artifacts(open)?;
    rows.retain(|row| {
        let is_after = after
            .is_none_or(|(time, id)| (Reverse(row.created_at), &*row.id) > (Reverse(time), id));
        is_after && row.created_at >= since as i64 && kind.is_none_or(|kind| row.kind == kind)
    });
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more);
    let next = last.map(|last| format!("{} {}", last.created_at, last.id));
    let mut page = json!({"artifacts": rows});
    if let Some(next) = next {
        page["next"] = next.into();
    }
    Ok(page)
}

fn cursor(text: &str) -> Result<(i64, &str), String> {
    let parts = text.split_once(' ').and_then(|(time, id)| Some((time.parse().ok()?, id)));
    parts.ok_or_else(|| format!("`{text}` is no cursor of an earlier answer"))
}

pub(crate) fn query(arguments: &Value) -> Result<String, String> {
    let pattern = arguments["pattern"].as_str().filter(|pattern| !pattern.is_empty());
    let pattern = pattern.ok_or("`pattern` is missing")?;
    let mut words = Vec::new();
    for (name, option) in [("ignore_case", "-i"), ("fixed", "-F")] {
        if arguments[name].as_bool() == Some(true) {
            words.push(option.to_owned());
        }
    }
    for (name, option) in [("context", "-C"), ("max", "-m")] {
        if let Some(number) = number(arguments, name)? {
            words.push(format!("{option}{number}"));
        }
    }
    words.extend(["--".to_owned(), pattern.replace('%', "%25").replace('/', "%2F")]);
    Ok(words.join(" "))
}

fn most_bytes(open: &GatewayConversation) -> u64 {
    open.engine.options.limits.limits(None).max_inline_bytes.clamp(4, MAX_TEXT)
}

/// A part of a file that starts and ends at character boundaries. `next` is the offset to continue
/// at, or `None` at the end of the file.
struct TextRange {
    pub(crate) offset: u64,
    pub(crate) next: Option<u64>,
    pub(crate) text: String,
}

impl TextRange {
    pub(crate) fn read(file: &dyn Content, offset: u64, limit: u64) -> io::Result<Self> {
        // A UTF-8 character has at most four bytes.
        let mut bytes = file.bytes(offset, limit.max(4) as usize)?;
        let begins = |byte: &u8| byte & 0xC0 != 0x80;
        let skipped = bytes.iter().take(3).take_while(|byte| offset > 0 && !begins(byte)).count();
        bytes.drain(..skipped);
        let offset = offset + skipped as u64;
        let whole = offset + bytes.len() as u64 >= file.len();
        if !whole {
            bytes.truncate(end_of_last(&bytes));
        }
        let end = offset + bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { offset, next: (end < file.len()).then_some(end), text })
    }
}

fn end_of_last(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3)..bytes.len();
    for at in tail.rev() {
        let needs = match bytes[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        return if at + needs > bytes.len() { at } else { bytes.len() };
    }
    bytes.len()
}

/// Returns the text of a view in `most` bytes. The last line of a truncated text states how many
/// bytes are shown.
pub(crate) fn shown(file: &dyn Content, most: u64) -> io::Result<String> {
    let total = file.len();
    if total <= most {
        return Ok(TextRange::read(file, 0, total)?.text);
    }
    let notice = |next| format!("\n# cut: the first {next} of {total} bytes are shown\n");
    let slice = TextRange::read(file, 0, most.saturating_sub(notice(total).len() as u64))?;
    Ok(slice.text.trim_end().to_owned() + &notice(slice.next.unwrap_or(total)))
}

#[cfg(test)]
mod tests;
