//! `.pretty`: JSON and JSON Lines, indented.
//!
//! Only white space between tokens changes. Numbers and strings keep their spelling, and keys keep
//! their order and duplicates. Values are not held in memory, and text that is not JSON is passed
//! through unchanged. Existing libraries do not offer this: parsers change `1.0`, large numbers or
//! escapes, or they recurse.

use std::io;
use std::io::Write;

use crate::number::{counted, grouped, portion};
use crate::range::TextPosition;
use crate::{RenderError, Rendered, rendered, scan, values};
use ctxfs_core::materialize::json::{BOM, EVIDENCE_TOKENS, Events, ScanOutcome, Scanner};
use ctxfs_core::model::Subject;
use ctxfs_core::redact::MaskCounter;

// The indented text of one block of this size stays in the processor's cache until it is written.
const READ_BYTES: usize = 64 << 10;
// Maximum number of bytes of white space, and of the beginning of a value, that are kept in case the
// text is not JSON.
const MAX_BLANKS: usize = 4096;
// Lines deeper than this level are not indented further. Otherwise the text for deeply nested
// brackets would grow with the square of their depth.
const MAX_INDENT_LEVELS: usize = 64;

pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let content = subject.content;
    if !may_be_json(subject)? {
        return Ok(Rendered::noted(not_json(subject)?));
    }
    let mut out = MaskCounter::new(out, subject.mask_names());
    let mut values = ValueStream::default();
    let mut block = vec![0; READ_BYTES];
    let mut offset = 0;
    let mut whole;
    loop {
        whole = !expired();
        let got = if whole { content.read_at(offset, &mut block)? } else { 0 };
        if got == 0 {
            break;
        }
        values.push(&block[..got]);
        values.indenter.take(|text| out.write_all(text))?;
        offset += got as u64;
    }
    if whole {
        values.finish();
    } else {
        values.release();
    }
    values.indenter.take(|text| out.write_all(text))?;
    let late = (!whole).then(|| out_of_time(subject, offset));
    let shown = out.counts().notice();
    // Line numbers in the rest of the notice also count the line about masked secrets.
    let first = u64::from(shown.is_some());
    let rest = notice(&values, late.as_deref(), first);
    Ok(Rendered { notice: [shown, rest].into_iter().flatten().reduce(|a, b| a + &b), whole })
}

// Returns false only if the content cannot be JSON. The analysis may cover only the first bytes, so
// it rarely rules out JSON.
fn may_be_json(subject: &Subject<'_>) -> io::Result<bool> {
    let Subject { content, analysis, .. } = subject;
    // The analysis accepts a string as JSON only as a whole, so it does not accept the beginning of
    // a long string.
    let begins_a_string = || -> io::Result<bool> {
        let start = content.bytes(0, READ_BYTES)?;
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        Ok(analysis.bytes < content.len() && first == Some(&b'"'))
    };
    Ok(content.is_empty() || values::has_values(subject)? || begins_a_string()?)
}

fn not_json(subject: &Subject<'_>) -> io::Result<String> {
    let mut values = ValueStream::default();
    values.push(&subject.content.bytes(0, READ_BYTES)?);
    let wrong = values.faults.first.map(|fault| fault.place);
    // No place is named if the very first byte is not JSON.
    let from = wrong.filter(|place| (place.line, place.column) > (1, 1)).map(|place| {
        format!(" from line {}, byte column {} on", grouped(place.line), grouped(place.column))
    });
    let views = ["", ".head", ".tail", ".wrap"].map(|view| subject.place.of_view(view).file());
    Ok(format!(
        "# not JSON{} ({}, {}), so nothing is indented. As it is: {}\n",
        from.unwrap_or_default(),
        subject.analysis.mime,
        counted(subject.content.len(), "byte"),
        views.join(", "),
    ))
}

fn out_of_time(subject: &Subject<'_>, offset: u64) -> String {
    format!(
        "out of time after {}; what was indented follows. Without a limit of time: {}",
        portion(offset, subject.content.len()),
        subject.place.of_view(".pretty").command(),
    )
}

// Returns the notice. Line numbers in it count from the start of the view: they include the lines
// of the notice itself, and `first` lines before it.
fn notice(values: &ValueStream, late: Option<&str>, first: u64) -> Option<String> {
    let faults = &values.faults;
    let lines = |before: u64| -> Vec<String> {
        let capped = values.indenter.capped.then(|| {
            format!("nested deeper than {MAX_INDENT_LEVELS} levels: no line is indented further")
        });
        let lines =
            [late.map(str::to_owned), wrong(faults, before), rest(faults), open(faults), capped];
        lines.into_iter().flatten().collect()
    };
    let count = first + lines(0).len() as u64;
    rendered::notice(lines(count))
}

fn wrong(faults: &BrokenParts, before: u64) -> Option<String> {
    let fault = faults.first?;
    let TextPosition { line, column } = fault.place;
    let shown = grouped(fault.shown + before);
    let what = if fault.deep { "nested too deep to be followed" } else { "not JSON" };
    let from = format!("line {} is {what} from byte column {} on", grouped(line), grouped(column));
    Some(match faults.count {
        1 => format!("{from}; that stands as it is, here in line {shown}"),
        count => format!(
            "{} are not JSON and stand as they are; the first: {from}, here in line {shown}",
            counted(count, "line"),
        ),
    })
}

fn rest(faults: &BrokenParts) -> Option<String> {
    faults.rest.map(|line| format!("from line {} on everything stands as it is", grouped(line)))
}

fn open(faults: &BrokenParts) -> Option<String> {
    let (TextPosition { line, column }, open) = faults.open?;
    Some(format!(
        "the JSON breaks off at its end, line {}, byte column {}, with {} open",
        grouped(line),
        grouped(column),
        counted(open as u64, "bracket"),
    ))
}

/// Indents the values of a stream that arrives in pieces of any size.
///
/// Text that is not JSON stays unchanged. If the broken value began in the current line, or if lines
/// are values, the rest of the line stays unchanged, so that a bad line among JSON Lines does not
/// affect the others. A line that begins with a bracket begins another value. Otherwise the rest of
/// the stream stays unchanged.
#[derive(Debug, Default)]
struct ValueStream {
    indenter: Indenter,
    faults: BrokenParts,
    scanner: Scanner,
    state: StreamState,
    // Number of bytes processed.
    taken: u64,
    // Number of newlines processed, not counting newlines in the current value, which the scanner
    // counts.
    newlines: u64,
    // The start of the last line.
    line_start: u64,
    // White space since the start of the line or the end of the last value.
    blanks: Vec<u8>,
    // Number of values, and whether one of them had several lines.
    values: u64,
    has_blocks: bool,
    // The current value as it is written, as long as it may turn out to be text.
    began: Option<WrittenStart>,
}

/// The beginning of a value as it is written, its place, and the number of newlines in the indented
/// text before it. The [`Indenter`] holds the indented text of it back.
#[derive(Debug, Default)]
struct WrittenStart {
    text: Vec<u8>,
    place: TextPosition,
    newlines: u64,
}

#[derive(Debug, Default, Clone, Copy)]
enum StreamState {
    // Only white space has been read so far.
    #[default]
    Before,
    // Between two values.
    Between,
    // Inside a value that began in this line.
    Inside {
        line: u64,
    },
    // Inside text that is not JSON, up to the end of its line.
    Line,
    // Inside text that is not JSON, up to the end of the stream.
    Rest,
}

/// The parts of a stream that are not JSON: their number and the first of them.
///
/// `rest` is the line from which the stream is no longer parsed as JSON. `open` is set if the
/// stream ended inside a value, and has the place of the end and the number of open brackets.
#[derive(Debug, Default)]
struct BrokenParts {
    count: u64,
    first: Option<BrokenPart>,
    rest: Option<u64>,
    open: Option<(TextPosition, usize)>,
}

/// The start of a part that is not JSON: its place in the stream, and its line in the indented
/// text. `deep` is true if the part may be JSON but is nested too deeply to be parsed.
#[derive(Debug, Clone, Copy)]
struct BrokenPart {
    place: TextPosition,
    shown: u64,
    deep: bool,
}

impl ValueStream {
    fn push(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.state {
                StreamState::Before | StreamState::Between => self.between(bytes, at),
                StreamState::Inside { line } => self.inside(bytes, at, line),
                StreamState::Line | StreamState::Rest => self.plain(bytes, at),
            };
        }
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            self.line_start = self.taken + newline as u64 + 1;
        }
        self.taken += bytes.len() as u64;
    }

    fn finish(&mut self) {
        self.release();
        if let StreamState::Inside { .. } = self.state {
            if self.scanner.is_between() {
                self.indenter.end_value();
                return;
            }
            self.faults.open = Some((self.place(&[], 0), self.scanner.depth()));
            self.indenter.end_value();
        }
    }

    // Handles white space, or the first byte of the next value.
    fn between(&mut self, bytes: &[u8], at: usize) -> usize {
        match (bytes[at], self.state) {
            (b'\n', _) => {
                self.newlines += 1;
                self.blanks.clear();
            }
            (mark, StreamState::Before) if self.is_mark(mark, at) => self.blanks.push(mark),
            (blank @ (b' ' | b'\t' | b'\r'), _) => {
                if self.blanks.len() < MAX_BLANKS {
                    self.blanks.push(blank);
                }
            }
            (b'{' | b'[' | b'/', _) | (b'"', StreamState::Before) => {
                self.blanks.clear();
                let (place, newlines) = (self.place(bytes, at), self.indenter.newlines);
                self.began = Some(WrittenStart { text: Vec::new(), place, newlines });
                self.indenter.hold();
                self.state = StreamState::Inside { line: self.line() };
                return 0;
            }
            _ => {
                self.note(self.place(bytes, at));
                self.indenter.plain(&std::mem::take(&mut self.blanks));
                self.state = StreamState::Line;
                return 0;
            }
        }
        1
    }

    // Returns true for a byte of a byte order mark.
    fn is_mark(&self, byte: u8, at: usize) -> bool {
        let offset = self.taken + at as u64;
        BOM.get(usize::try_from(offset).unwrap_or(usize::MAX)) == Some(&byte)
    }

    fn inside(&mut self, bytes: &[u8], at: usize, line: u64) -> usize {
        let outcome = self.scanner.push(&bytes[at..], &mut self.indenter);
        let used = match outcome {
            ScanOutcome::More => bytes.len() - at,
            ScanOutcome::Done(used) | ScanOutcome::Wrong(used) => used,
        };
        if let Some(began) = &mut self.began {
            began.text.extend_from_slice(&bytes[at..at + used]);
            if began.text.len() > MAX_BLANKS {
                self.release();
            }
        }
        match outcome {
            ScanOutcome::More => {}
            ScanOutcome::Done(_) => {
                self.release();
                self.values += 1;
                self.has_blocks |= self.line() != line;
                self.indenter.end_value();
                self.state = StreamState::Between;
            }
            ScanOutcome::Wrong(_) => {
                let used = at + used;
                let same_line = self.line() == line;
                let few = self.scanner.tokens() < EVIDENCE_TOKENS;
                let began = self.began.take().filter(|_| same_line && few);
                if let Some(began) = began {
                    // Too little of it is JSON: a time in brackets, or a path.
                    self.indenter.undo(began.newlines);
                    self.note(began.place);
                    self.indenter.plain(&began.text);
                } else {
                    self.release();
                    if !self.scanner.is_in_pair() {
                        self.indenter.end_value();
                    }
                    self.note(self.place(bytes, used));
                }
                let begins_line = !same_line
                    && self.place(bytes, used).column == 1
                    && matches!(bytes[used], b'{' | b'[');
                self.state = match () {
                    () if begins_line => StreamState::Between,
                    () if same_line || self.values > 0 && !self.has_blocks => StreamState::Line,
                    () => {
                        self.faults.rest = Some(self.line());
                        StreamState::Rest
                    }
                };
                if begins_line {
                    self.indenter.end_value();
                }
                self.newlines += self.scanner.newlines();
                self.scanner = Scanner::default();
            }
        }
        used
    }

    // Lets the indented text of the current value be written.
    fn release(&mut self) {
        self.began = None;
        self.indenter.held = None;
    }

    fn plain(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let line = match self.state {
            StreamState::Line => memchr::memchr(b'\n', rest).map(|end| end + 1),
            _ => None,
        };
        let plain = &rest[..line.unwrap_or(rest.len())];
        self.indenter.plain(plain);
        if line.is_some() {
            self.newlines += 1;
            self.indenter.end_value();
            self.state = StreamState::Between;
        }
        plain.len()
    }

    fn note(&mut self, place: TextPosition) {
        let fault =
            BrokenPart { place, shown: self.indenter.line(), deep: self.scanner.is_too_deep() };
        self.faults.count += 1;
        self.faults.first.get_or_insert(fault);
    }

    fn line(&self) -> u64 {
        self.newlines + self.scanner.newlines() + 1
    }

    // Returns the place in the stream of the byte at index `at` of the piece `bytes`.
    fn place(&self, bytes: &[u8], at: usize) -> TextPosition {
        let newline = memchr::memrchr(b'\n', &bytes[..at]);
        let start = newline.map_or(self.line_start, |newline| self.taken + newline as u64 + 1);
        TextPosition { line: self.line(), column: self.taken + at as u64 - start + 1 }
    }
}

// Two blanks for each level.
const BLANKS: [u8; 2 * MAX_INDENT_LEVELS] = [b' '; 2 * MAX_INDENT_LEVELS];

/// Writes tokens in their original spelling, with each key and each item on its own line.
///
/// `due` is set after an opening bracket, a comma and a comment. The current line then ends before
/// the next token.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of the current line")]
struct Indenter {
    text: Vec<u8>,
    depth: usize,
    due: bool,
    // True after an opening bracket.
    is_empty: bool,
    in_comment: bool,
    // Where text begins that is held back.
    held: Option<usize>,
    newlines: u64,
    // True if the processed text ended in the middle of a line.
    inside_line: bool,
    // True if a value was nested deeper than `MAX_INDENT_LEVELS`.
    capped: bool,
}

impl Indenter {
    // Passes on the text that is not held back.
    fn take(&mut self, with: impl FnOnce(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        let ready = self.held.unwrap_or(self.text.len());
        with(&self.text[..ready])?;
        self.inside_line =
            self.text[..ready].last().map_or(self.inside_line, |last| *last != b'\n');
        self.text.drain(..ready);
        self.held = self.held.map(|_| 0);
        Ok(())
    }

    // Holds all further text back.
    fn hold(&mut self) {
        self.held = Some(self.text.len());
    }

    fn line(&self) -> u64 {
        self.newlines + 1
    }

    // Ends a value, complete or not, and its line.
    fn end_value(&mut self) {
        (self.depth, self.due, self.is_empty, self.in_comment) = (0, false, false, false);
        if self.is_inside_line() {
            self.text.push(b'\n');
            self.newlines += 1;
        }
    }

    fn plain(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        self.newlines += scan::newlines(bytes);
    }

    // Drops the text that is held back. The text before it has `newlines` newlines.
    fn undo(&mut self, newlines: u64) {
        self.text.truncate(self.held.take().unwrap_or(self.text.len()));
        self.newlines = newlines;
        (self.depth, self.due, self.is_empty, self.in_comment) = (0, false, false, false);
    }

    fn is_inside_line(&self) -> bool {
        self.text.last().map_or(self.inside_line, |last| *last != b'\n')
    }

    #[inline]
    fn begin_line(&mut self) {
        self.text.push(b'\n');
        self.text.extend_from_slice(&BLANKS[..2 * self.depth.min(MAX_INDENT_LEVELS)]);
        self.newlines += 1;
    }

    #[inline]
    fn open(&mut self, bracket: u8) {
        self.settle();
        self.text.push(bracket);
        self.depth += 1;
        self.capped |= self.depth > MAX_INDENT_LEVELS;
        (self.due, self.is_empty) = (true, true);
    }

    #[inline]
    fn close(&mut self, bracket: u8) {
        self.depth -= 1;
        self.due = false;
        if !std::mem::take(&mut self.is_empty) {
            self.begin_line();
        }
        self.text.push(bracket);
    }

    #[inline]
    fn settle(&mut self) {
        if self.due {
            (self.due, self.is_empty) = (false, false);
            self.begin_line();
        }
    }
}

impl Events for Indenter {
    #[inline]
    fn bracket(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.open(byte),
            _ => self.close(byte),
        }
    }

    #[inline]
    fn comma(&mut self) {
        // A comment ends its line.
        self.settle();
        self.text.push(b',');
        self.due = true;
    }

    // A comment has a line of its own.
    fn comment(&mut self, bytes: &[u8], ends: bool) {
        if !std::mem::replace(&mut self.in_comment, !ends) {
            if self.depth > 0 || self.is_inside_line() {
                self.begin_line();
            }
            (self.due, self.is_empty) = (false, false);
        }
        self.plain(bytes);
        self.due |= ends;
    }

    #[inline]
    fn colon(&mut self) {
        self.settle();
        self.text.extend_from_slice(b": ");
    }

    #[inline]
    fn piece(&mut self, bytes: &[u8]) {
        self.settle();
        self.text.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
