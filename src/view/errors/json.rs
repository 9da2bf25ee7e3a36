//! The errors of JSON: of documents and reports, by the fields of their records, and of single
//! lines that are objects, as logs, linters and `go test -json` print them.

use std::io;

use ctxfs_core::materialize::json::{CERTAIN, Events, FieldRole, Scalar, Scanner, role};
use ctxfs_core::model::{Content, ErrorLine, ErrorRank, Json, Subject, TroubleRecord};

const RECORD: usize = 32 << 10;
const TEXT: usize = 400;
const LEVELS: usize = 6;
const FIELDS: usize = 64;
// The longest escape sequence, a surrogate pair.
const ESCAPE: usize = 12;
const LINES: usize = 3;

/// Returns the errors of JSON, most informative first.
///
/// Returns `None` if the content is not JSON, or if its lines are to be judged like those of a log.
/// Of JSON Lines only reports of problems in files, as linters write them, are better judged by
/// their fields.
pub(super) fn records(subject: &Subject<'_>) -> io::Result<Option<Vec<ErrorRecord>>> {
    let is_document = match subject.analysis.json {
        Json::Document { .. } => true,
        Json::Lines { .. } => false,
        Json::No | Json::Broken { .. } => return Ok(None),
    };
    let succeeded = subject.record.provenance.exit_code == Some(0);
    let trouble = subject.analysis.trouble.first().filter(|_| !succeeded);
    let records = trouble.iter().flat_map(|trouble| &trouble.records);
    let found = records.map(|at| read(subject.content, at)).collect::<io::Result<Vec<_>>>()?;
    let found: Vec<ErrorRecord> = found.into_iter().flatten().collect();
    let is_report = !found.is_empty() && found.iter().all(|record| record.has_line);
    Ok((is_document || is_report).then_some(found))
}

/// An error in a record of JSON. `owner` is the file, test or object that it is about; `has_line`
/// tells whether it has a line number.
pub(super) struct ErrorRecord {
    pub(super) at: ErrorLine,
    pub(super) message: String,
    pub(super) owner: Option<String>,
    has_line: bool,
}

fn read(content: &dyn Content, at: &TroubleRecord) -> io::Result<Option<ErrorRecord>> {
    let own = fields(content, at.offset)?;
    let outer = at.outer.map(|offset| fields(content, offset)).transpose()?.unwrap_or_default();
    let told = |role| best(&own, role).or_else(|| best(&outer, role));
    let Some(message) = told(FieldRole::Message) else { return Ok(None) };
    let kind = best(&own, FieldRole::Kind).filter(|kind| !message.contains(*kind));
    let kind = kind.map(|kind| format!("{kind}: ")).unwrap_or_default();
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take(LINES).collect();
    let line = best(&own, FieldRole::Line);
    let after = line.map(|line| format!(":{line}")).unwrap_or_default();
    let owner = told(FieldRole::Place).map(|place| format!("{place}{after}"));
    let has_line = owner.is_some() && line.is_some();
    let TroubleRecord { line, offset, times, .. } = *at;
    let at = ErrorLine { line, offset, length: 0, rank: ErrorRank::Cause, times, last: None };
    Ok(Some(ErrorRecord { at, message: kind + &lines.join(" | "), owner, has_line }))
}

/// A field that has a role in an error record. The smallest `weight` wins: messages of items come
/// last, then ends of ranges, then fields whose names are ambiguous; then the number of levels and
/// the order of names decide.
struct Told {
    role: FieldRole,
    weight: (bool, bool, bool, usize, usize),
    text: String,
}

fn best(fields: &[Told], role: FieldRole) -> Option<&str> {
    let told = fields.iter().filter(|told| told.role == role);
    told.min_by_key(|told| told.weight).map(|told| told.text.as_str())
}

/// Reads the fields of the object at `offset`, as far as its first `RECORD_BYTES` bytes go.
fn fields(content: &dyn Content, offset: u64) -> io::Result<Vec<Told>> {
    let bytes = content.bytes(offset, RECORD)?;
    let mut reader = FieldReader::default();
    Scanner::default().push(&bytes, &mut reader);
    Ok(reader.fields)
}

/// Gathers the fields of an object and of the objects in it. Reads only the first item of an array.
#[derive(Default)]
struct FieldReader {
    fields: Vec<Told>,
    open: Vec<OpenValue>,
    key: Vec<u8>,
}

/// An object or array that has not ended. Its fields are not gathered if it `is_skipped`; `is_end`
/// marks the description of the end of a range.
#[derive(Clone, Copy)]
struct OpenValue {
    is_array: bool,
    items: usize,
    is_passed: bool,
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
            above.is_some_and(|above| above.is_passed || (above.is_array && above.items > 1));
        let is_end = above.is_some_and(|above| above.is_end || (!above.is_array && self.is_end()));
        let is_passed = other || self.open.len() >= LEVELS;
        self.open.push(OpenValue { is_array, items: 0, is_passed, is_end });
    }

    fn is_end(&self) -> bool {
        self.key.to_ascii_lowercase().starts_with(b"end")
    }

    fn take(&mut self, text: impl Fn() -> String, is_text: bool) {
        let Some(above) = self.open.last().filter(|above| !above.is_array && !above.is_passed)
        else {
            return;
        };
        let Some((role, order)) = role(&self.key) else { return };
        if (role == FieldRole::Message && !is_text) || self.fields.len() == FIELDS {
            return;
        }
        let is_end = above.is_end || self.is_end();
        let is_item = self.open.iter().any(|open| open.is_array);
        let is_of_item = role == FieldRole::Message && is_item;
        let weight = (is_of_item, is_end, order >= CERTAIN, self.open.len(), order);
        let text = text();
        if !text.trim().is_empty() {
            self.fields.push(Told { role, weight, text });
        }
    }
}

impl Events for FieldReader {
    const KEY_BYTES: usize = 64;
    const TEXT_BYTES: usize = TEXT;

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

    fn begin_object(&mut self) {
        self.begin(false);
    }

    fn begin_array(&mut self) {
        self.begin(true);
    }

    fn end(&mut self) {
        self.open.pop();
    }
}

/// Decodes a string as written, of which the end may be missing: drops an escape sequence that is
/// cut.
fn unescaped(written: &[u8]) -> String {
    let whole = String::from_utf8_lossy(written);
    let whole = whole.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let cuts = whole.char_indices().rev().map(|(at, _)| at).take(ESCAPE);
    let mut texts = std::iter::once(whole.len()).chain(cuts).map(|end| &whole[..end]);
    let text = texts.find_map(|text| serde_json::from_str(&format!("\"{text}\"")).ok());
    text.unwrap_or_else(|| whole.to_owned())
}
