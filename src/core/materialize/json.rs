//! Detects JSON and its shape.
//!
//! A single value is a document. Two or more values are JSON Lines. The first value must be an
//! object, an array or a string, and the values of JSON Lines must be objects or arrays. Readers
//! regard a lone number or word as text. A byte order mark may come first.
//!
//! A stream that begins with a bracket but is not JSON may be *broken* JSON or text. It is broken
//! JSON only if it begins with enough valid JSON (`EVIDENCE_BYTES`, `EVIDENCE_TOKENS`) or ends
//! inside a value. Lines such as `[INFO] starting` and `[12] done` are therefore text. Nothing is
//! scanned after the first error.

mod example;
mod filter;
mod render;
mod roles;
mod scan;
mod shape;
mod tally;
mod trouble;

use crate::materialize::json::shape::Shape;
use crate::materialize::text::EncodingDetector;
use crate::model::{Json, LooseJson, Trouble};

pub use crate::materialize::json::render::{KEY_CHARS, KEY_CUT};
pub use crate::materialize::json::roles::{CERTAIN, FieldRole, role};
pub use crate::materialize::json::scan::{
    Events, LONGEST_ESCAPE, Scalar, ScanOutcome, Scanner, escaped_char, without_half_pairs,
};

/// Minimum number of bytes of valid JSON before the first syntax error. With fewer bytes, the
/// stream is text and not broken JSON. The bracketed prefix of a log line
/// (`[2026-11-21 10:00:00.123 INFO main]`) is shorter.
const EVIDENCE_BYTES: u64 = 64;
/// Minimum number of keys, values and closing brackets before the first syntax error. With fewer,
/// the stream is text and not broken JSON. For example, `{"k": 1}` has three.
pub const EVIDENCE_TOKENS: u64 = 3;
/// The byte order mark of UTF-8.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// The kind of JSON that a stream is: none, a single value, or two or more values.
/// `Broken` contains the position of the first byte that cannot be JSON, as in
/// `model::Json::Broken`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum JsonKind {
    No,
    Document,
    Lines { documents: u64 },
    Broken { offset: u64, line: u64 },
}

/// Scans a stream as long as it is JSON. Once the stream is known not to be JSON, `push` does
/// nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct JsonDetector<E = Shape> {
    state: DetectorState,
    scanner: Scanner,
    events: E,
    documents: u64,
    mark: bool,
    joined: bool,
    // Offset of the first byte that is not white space.
    start: u64,
    newline_since: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum DetectorState {
    #[default]
    Before,
    // A string is a document only if it is the whole stream.
    Inside {
        string: bool,
    },
    After {
        string: bool,
    },
    Off(JsonKind),
}

impl JsonDetector {
    /// Returns the kind and shape of a stream of `length` bytes in `lines` lines, and the fields
    /// that indicate errors.
    pub(super) fn finish(&self, length: u64, lines: u64) -> (Json, Vec<Trouble>) {
        let shape = &self.events;
        match self.kind(length, lines) {
            JsonKind::No => (Json::No, Vec::new()),
            JsonKind::Document => {
                let (trouble, filter) = trouble::of(shape, false);
                let json = Json::Document {
                    shape: render::text(shape, ""),
                    example: filter.or_else(|| example::of_document(shape)),
                    pretty_lines: self.pretty_lines(),
                };
                (json, trouble)
            }
            JsonKind::Lines { documents } => {
                let (trouble, filter) = trouble::of(shape, true);
                let unit = if self.joined { "values" } else { "lines" };
                let json = Json::Lines {
                    documents,
                    shape: render::text(shape, &format!("{documents} {unit} of ")),
                    example: filter.or_else(|| example::of_lines(shape)),
                    pretty_lines: self.pretty_lines(),
                };
                (json, trouble)
            }
            JsonKind::Broken { offset, line } => (Json::Broken { offset, line }, Vec::new()),
        }
    }
}

impl<E: Events> JsonDetector<E> {
    /// Takes the next bytes. `offset` and `newlines` are the number of bytes and newlines before
    /// them. `invalid` is the offset of the first sequence that is not UTF-8, if there is one. The
    /// sequence begins in `bytes` or at most three bytes before `bytes`.
    pub(super) fn push(&mut self, bytes: &[u8], offset: u64, newlines: u64, invalid: Option<u64>) {
        if self.is_off() {
            return;
        }
        let valid = invalid.map_or(bytes.len(), |at| distance(offset, at).min(bytes.len()));
        let wrong = match self.scan(&bytes[..valid], offset) {
            Err(at) => Some(offset + at as u64),
            Ok(()) => invalid,
        };
        if let Some(at) = wrong {
            let before = &bytes[..distance(offset, at)];
            let line = newlines + memchr::memchr_iter(b'\n', before).count() as u64 + 1;
            self.turn_off(at, line);
        }
    }

    fn is_off(&self) -> bool {
        matches!(self.state, DetectorState::Off(_))
    }

    /// Returns what the values so far have that is not in RFC 8259.
    pub(super) fn loose(&self) -> LooseJson {
        LooseJson { mark: self.mark, joined: self.joined, ..self.scanner.loose() }
    }

    fn kind(&self, length: u64, lines: u64) -> JsonKind {
        match &self.state {
            DetectorState::Inside { string: false } if self.scanner.depth() > 0 => {
                JsonKind::Broken { offset: length, line: lines }
            }
            DetectorState::Off(kind) => *kind,
            DetectorState::Before | DetectorState::Inside { string: true } => JsonKind::No,
            // The state is `Inside` after a comment, too.
            DetectorState::After { .. } | DetectorState::Inside { .. } => match self.documents {
                0 => JsonKind::No,
                1 => JsonKind::Document,
                documents => JsonKind::Lines { documents },
            },
        }
    }

    // Returns the number of lines of the complete values when they are indented.
    fn pretty_lines(&self) -> u64 {
        self.documents + self.scanner.breaks()
    }

    fn scan(&mut self, bytes: &[u8], offset: u64) -> Result<(), usize> {
        let mut at = 0;
        while self.state == DetectorState::Before
            && BOM.get(distance(0, offset) + at).is_some_and(|mark| bytes.get(at) == Some(mark))
        {
            self.mark = true;
            at += 1;
        }
        while at < bytes.len() {
            if let DetectorState::Inside { string } = self.state {
                self.events.block(offset + at as u64);
                match self.scanner.push(&bytes[at..], &mut self.events) {
                    ScanOutcome::More => return Ok(()),
                    ScanOutcome::Wrong(more) => return Err(at + more),
                    ScanOutcome::Done(more) => at += more,
                }
                self.documents += 1;
                self.newline_since = false;
                self.state = DetectorState::After { string };
            } else {
                self.begin(bytes[at]).ok_or(at)?;
                self.note_start(offset + at as u64);
                at += usize::from(!matches!(self.state, DetectorState::Inside { .. }));
            }
        }
        Ok(())
    }

    /// Examines a byte between values. Returns `None` if it is neither white space nor the first
    /// byte of a value or comment. The caller must pass such a first byte to the scanner.
    fn begin(&mut self, byte: u8) -> Option<()> {
        match (byte, &self.state) {
            (b' ' | b'\t' | b'\r', _) => {}
            (b'\n', _) => {
                self.newline_since = true;
                self.events.newline();
            }
            (b'"', DetectorState::Before) => self.state = DetectorState::Inside { string: true },
            (b'{' | b'[', DetectorState::Before) => {
                self.state = DetectorState::Inside { string: false }
            }
            (b'{' | b'[', DetectorState::After { string: false }) => {
                self.joined |= !self.newline_since || self.scanner.newlines() > 0;
                self.state = DetectorState::Inside { string: false };
            }
            (b'/', DetectorState::Before | DetectorState::After { string: false }) => {
                self.state = DetectorState::Inside { string: false };
            }
            _ => return None,
        }
        Some(())
    }

    fn note_start(&mut self, offset: u64) {
        if self.state == DetectorState::Before {
            self.start = offset + 1;
        }
    }

    fn turn_off(&mut self, offset: u64, line: u64) {
        let string = matches!(
            self.state,
            DetectorState::Before
                | DetectorState::Inside { string: true }
                | DetectorState::After { string: true }
        );
        let evident = offset - self.start >= EVIDENCE_BYTES
            && self.scanner.tokens() >= EVIDENCE_TOKENS
            && !string;
        self.state = DetectorState::Off(if evident {
            JsonKind::Broken { offset, line }
        } else {
            JsonKind::No
        });
        self.events.broken();
        self.scanner = Scanner::default();
    }
}

fn distance(offset: u64, at: u64) -> usize {
    usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX)
}

/// Detects JSON by the same rules as an `Analyzer`, but computes no other facts. Passes the events
/// to `E`.
#[derive(Debug, Default)]
pub struct JsonReader<E> {
    seen: u64,
    newlines: u64,
    ends_line: bool,
    text: EncodingDetector,
    detector: JsonDetector<E>,
}

impl<E: Events> JsonReader<E> {
    /// Takes the next bytes of the stream. Returns true once it is certain that the stream is not
    /// JSON.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        self.text.push(bytes);
        self.detector.push(bytes, self.seen, self.newlines, self.text.first_invalid());
        self.seen += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.ends_line = bytes.last().map_or(self.ends_line, |byte| *byte == b'\n');
        self.detector.is_off()
    }

    /// Returns the kind of JSON of the bytes so far, and the receiver of the events.
    pub fn finish(self) -> (JsonKind, E) {
        let lines = self.newlines + u64::from(self.seen > 0 && !self.ends_line);
        (self.detector.kind(self.seen, lines), self.detector.events)
    }
}

#[cfg(test)]
mod tests;
