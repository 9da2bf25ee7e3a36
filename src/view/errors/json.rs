//! The errors that JSON content reports. The fields of a record decide if the record is an error.
//! This applies to documents, to reports, and to single lines that are objects, as logs, linters
//! and `go test -json` print them.

use std::io;

use memchr::memmem;

use crate::scan;
use ctxfs_core::materialize::json::{
    CERTAIN, Events, FieldRole, LONGEST_ESCAPE, Scalar, Scanner, role,
};
use ctxfs_core::model::{Content, ErrorLine, ErrorRank, Json, Subject, TroubleRecord};

const RECORD_BYTES: usize = 32 << 10;
const MAX_TEXT_BYTES: usize = 400;
const MAX_LEVELS: usize = 6;
const MAX_FIELDS: usize = 64;
const MESSAGE_LINES: usize = 3;

/// Returns the errors that JSON content reports, most informative first.
///
/// Returns `None` if the content is not JSON or if its lines have to be judged like a log. JSON
/// Lines are judged by their fields only if they are a linter's report of problems in files.
pub(super) fn records(subject: &Subject<'_>) -> io::Result<Option<Vec<ErrorRecord>>> {
    let is_document = match subject.analysis.json {
        Json::Document { .. } => true,
        Json::Lines { .. } => false,
        Json::No | Json::Broken { .. } => return Ok(None),
    };
    let succeeded = subject.record.provenance.exit_code == Some(0);
    let trouble = subject.analysis.trouble.first().filter(|_| !succeeded);
    let records = trouble.iter().flat_map(|trouble| &trouble.records);
    let found =
        records.map(|at| read_record(subject.content, at)).collect::<io::Result<Vec<_>>>()?;
    let found: Vec<ErrorRecord> = found.into_iter().flatten().collect();
    let is_report = !found.is_empty() && found.iter().all(|record| record.has_line);
    Ok((is_document || is_report).then_some(found))
}

/// An error in a JSON record. `owner` is the file, test or object that the error is about.
/// `has_line` is true if `owner` has a line number.
pub(super) struct ErrorRecord {
    pub(super) at: ErrorLine,
    pub(super) message: String,
    pub(super) owner: Option<String>,
    has_line: bool,
}

fn read_record(content: &dyn Content, at: &TroubleRecord) -> io::Result<Option<ErrorRecord>> {
    let own = fields(content, at.offset)?;
    let outer = at.outer.map(|offset| fields(content, offset)).transpose()?.unwrap_or_default();
    let told = |role| best(&own, role).or_else(|| best(&outer, role));
    let Some(message) = told(FieldRole::Message) else { return Ok(None) };
    let kind = best(&own, FieldRole::Kind).filter(|kind| !message.contains(*kind));
    let kind = kind.map(|kind| format!("{kind}: ")).unwrap_or_default();
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take(MESSAGE_LINES).collect();
    let line = best(&own, FieldRole::Line);
    let after = line.map(|line| format!(":{line}")).unwrap_or_default();
    let owner = told(FieldRole::Place).map(|place| format!("{place}{after}"));
    let has_line = owner.is_some() && line.is_some();
    let TroubleRecord { line, offset, times, .. } = *at;
    let at = ErrorLine { line, offset, length: 0, rank: ErrorRank::Cause, times, last: None };
    Ok(Some(ErrorRecord { at, message: kind + &lines.join(" | "), owner, has_line }))
}

/// A field with a role in an error record. Of the fields with the same role, the one with the
/// smallest `weight` is used. The weight has these parts, most important first:
///
/// - true for the message of an array item,
/// - true for the end of a range of lines or columns,
/// - true for an ambiguous name,
/// - the level of the field,
/// - the place of its name in the list of known names.
struct ErrorField {
    role: FieldRole,
    weight: (bool, bool, bool, usize, usize),
    text: String,
}

fn best(fields: &[ErrorField], role: FieldRole) -> Option<&str> {
    let told = fields.iter().filter(|told| told.role == role);
    told.min_by_key(|told| told.weight).map(|told| told.text.as_str())
}

// Reads the fields of the object at `offset`, limited to its first `RECORD_BYTES` bytes.
fn fields(content: &dyn Content, offset: u64) -> io::Result<Vec<ErrorField>> {
    let bytes = content.bytes(offset, RECORD_BYTES)?;
    let mut reader = FieldReader::default();
    Scanner::default().push(&bytes, &mut reader);
    Ok(reader.fields)
}

// Collects the fields of an object and of the objects in it. Reads only the first item of an array.
#[derive(Default)]
struct FieldReader {
    fields: Vec<ErrorField>,
    open: Vec<OpenValue>,
    key: Vec<u8>,
}

/// An object or array that the scanner has not read to its end. If `is_skipped` is true, the fields
/// of the value are not collected. `is_end` is true if the value is inside a field such as `end`,
/// which describes the end of a range of lines or columns.
#[derive(Clone, Copy)]
struct OpenValue {
    is_array: bool,
    items: usize,
    is_skipped: bool,
    is_end: bool,
}

impl FieldReader {
    fn begin(&mut self, is_array: bool) {
        let above = self.open.last_mut();
        let above = above.map(|above| {
            above.items += 1;
            *above
        });
        let other =
            above.is_some_and(|above| above.is_skipped || (above.is_array && above.items > 1));
        let is_end = above.is_some_and(|above| above.is_end || (!above.is_array && self.is_end()));
        let is_skipped = other || self.open.len() >= MAX_LEVELS;
        self.open.push(OpenValue { is_array, items: 0, is_skipped, is_end });
    }

    fn is_end(&self) -> bool {
        self.key.to_ascii_lowercase().starts_with(b"end")
    }

    fn take(&mut self, text: impl Fn() -> String, is_text: bool) {
        let Some(above) = self.open.last().filter(|above| !above.is_array && !above.is_skipped)
        else {
            return;
        };
        let Some((role, order)) = role(&self.key) else { return };
        if (role == FieldRole::Message && !is_text) || self.fields.len() == MAX_FIELDS {
            return;
        }
        let is_end = above.is_end || self.is_end();
        let is_item = self.open.iter().any(|open| open.is_array);
        let is_of_item = role == FieldRole::Message && is_item;
        let weight = (is_of_item, is_end, order >= CERTAIN, self.open.len(), order);
        let text = text();
        if !text.trim().is_empty() {
            self.fields.push(ErrorField { role, weight, text });
        }
    }
}

impl Events for FieldReader {
    const KEY_BYTES: usize = 64;
    const TEXT_BYTES: usize = MAX_TEXT_BYTES;

    fn key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn text(&mut self, start: &[u8], _: u64) {
        self.take(|| unescaped(start), true);
    }

    fn scalar(&mut self, scalar: Scalar, written: &[u8]) {
        if scalar == Scalar::Int {
            self.take(|| String::from_utf8_lossy(written).into_owned(), false);
        }
    }

    fn bracket(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.begin(byte == b'['),
            _ => drop(self.open.pop()),
        }
    }
}

/// Decodes a raw JSON string whose end may be missing. Drops a truncated escape sequence.
fn unescaped(written: &[u8]) -> String {
    let whole = String::from_utf8_lossy(written);
    let whole = whole.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let cuts = whole.char_indices().rev().map(|(at, _)| at).take(LONGEST_ESCAPE);
    let mut texts = std::iter::once(whole.len()).chain(cuts).map(|end| &whole[..end]);
    let text = texts.find_map(|text| serde_json::from_str(&format!("\"{text}\"")).ok());
    text.unwrap_or_else(|| whole.to_owned())
}

// Fields that hold a sentence about the event, and fields that hold the error itself.
const MESSAGE_FIELDS: [&str; 4] = ["message", "msg", "event", "text"];
const ERROR_FIELDS: [&str; 6] =
    ["error", "err", "exception", "errorMessage", "error_message", "reason"];
const FILE_FIELDS: [&str; 4] = ["file", "path", "filename", "filePath"];
const LINE_FIELDS: [&str; 3] = ["line", "row", "lineno"];
const TEST_FIELDS: [&str; 2] = ["Test", "test"];

/// Returns the message of a line that is an object. Searches for fields by name, so that a
/// truncated line still yields the fields before the cut.
pub(super) fn line_message(line: &str) -> Option<String> {
    let line = object_line(line)?;
    if let Some(printed) = text_field(line, &["Output"]) {
        return Some(printed.trim().to_owned());
    }
    let message = text_field(line, &MESSAGE_FIELDS);
    let error = text_field(line, &ERROR_FIELDS).filter(|error| message.as_ref() != Some(error));
    let parts: Vec<String> = message.into_iter().chain(error).collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}

// Returns the test that a line names if the line is an object, or else its file and line number.
pub(super) fn line_owner(line: &str) -> Option<String> {
    let line = object_line(line)?;
    let test = text_field(line, &TEST_FIELDS);
    let file = || {
        let file = text_field(line, &FILE_FIELDS)?;
        let row = LINE_FIELDS.iter().find_map(|name| number_field(line, name));
        Some(row.map_or_else(|| file.clone(), |row| format!("{file}:{row}")))
    };
    test.or_else(file)
}

fn object_line(line: &str) -> Option<&str> {
    Some(line.trim()).filter(|line| line.starts_with("{\""))
}

fn text_field(line: &str, names: &[&str]) -> Option<String> {
    let values = names.iter().filter_map(|name| field_value(line, name));
    values.filter_map(leading_string).find(|text| !text.trim().is_empty())
}

fn number_field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let value = field_value(line, name)?;
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    Some(&value[..end]).filter(|digits| !digits.is_empty())
}

// Returns the part of the line that starts at the value of the field `name`.
fn field_value<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let key = format!("\"{name}\"");
    let after = |at: usize| line[at + key.len()..].trim_start().strip_prefix(':');
    memmem::find_iter(line.as_bytes(), key.as_bytes()).find_map(after).map(str::trim_start)
}

fn leading_string(value: &str) -> Option<String> {
    let value = Some(value).filter(|value| value.starts_with('"'))?;
    let length = scan::json_string_length(value.as_bytes())?;
    serde_json::from_str(&value[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_says_what_its_fields_say() {
        for (line, says) in [
            (r#"{"level":"error","msg":"no \"disk\"","at":3}"#, Some("no \"disk\"")),
            (
                r#"{"ts": 1, "msg": "archive failed", "error": "ENOENT"}"#,
                Some("archive failed: ENOENT"),
            ),
            (r#"{"message":"x","error":{"code":3}}"#, Some("x")),
            (r#"{"message":"same","err":"same"}"#, Some("same")),
            (r#"{"msg":"x","stack":"cut her"#, Some("x")),
            (
                r#"{"Action":"output","Test":"TestA","Output":"    a_test.go:3: no\n"}"#,
                Some("a_test.go:3: no"),
            ),
            (r#"{"uri":"/a","status":500}"#, None),
            (r#"{"msg":""}"#, None),
            (r#"{"msg":"cut her"#, None),
            (r#"{"msg":"#, None),
            ("error: {\"msg\":\"x\"}", None),
        ] {
            assert_eq!(line_message(line).as_deref(), says, "{line}");
        }
    }

    #[test]
    fn an_object_names_its_file_or_test() {
        for (line, named) in [
            (r#"{"file": "a.py", "line": 32, "message": "x"}"#, Some("a.py:32")),
            (r#"{"path":"a.py","msg":"x"}"#, Some("a.py")),
            (r#"{"Test":"TestA/b","Output":"x\n"}"#, Some("TestA/b")),
            (r#"{"msg":"file","line":3}"#, None),
            ("a.py:32: {x}", None),
        ] {
            assert_eq!(line_owner(line).as_deref(), named, "{line}");
        }
    }
}
