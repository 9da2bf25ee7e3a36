//! A stream as a sequence of JSON values, and of lines that are none.

use crate::materialize::json::Scanner;
use crate::materialize::json::ScanOutcome;
use crate::view::pretty::indent::Indenter;

/// White space before what is not JSON that is kept, in bytes.
const MOST_BLANKS: usize = 4096;

/// Indents the values of a stream that comes in pieces of any size.
///
/// What is not JSON stands as it is: to the end of its line, where the value that went wrong began
/// in that line, so that one bad line among JSON Lines spoils no other; else to the end.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) indenter: Indenter,
    pub(super) faults: Faults,
    scanner: Scanner,
    state: State,
    /// Bytes taken.
    taken: u64,
    /// Newlines taken, but those that the scanner counts.
    newlines: u64,
    /// Where the last line begins.
    line_start: u64,
    /// White space since the line began or the last value ended.
    blanks: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// Nothing but white space so far.
    #[default]
    Before,
    /// Between two values.
    Between,
    /// In a value that began in this line.
    Inside { line: u64 },
    /// In what is not JSON, to the end of its line.
    Line,
    /// In what is not JSON, to the end of the stream.
    Rest,
    /// What comes is not shown.
    Hidden,
}

/// What was not JSON.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Stretches that are not JSON.
    pub(super) count: u64,
    pub(super) first: Option<Fault>,
    /// The line from which on nothing was taken for JSON.
    pub(super) rest: Option<u64>,
    /// The stream ended inside a value, with so many brackets open.
    pub(super) open: Option<(Place, usize)>,
    /// Offset of the first byte that is not text; nothing is shown from there on.
    pub(super) hidden: Option<u64>,
}

/// Where something is not JSON, and where that stands in the indented text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) place: Place,
    /// The line of the indented text.
    pub(super) shown: u64,
    /// It may be JSON, but is nested too deep to be followed.
    pub(super) deep: bool,
}

/// A line and a byte column of the stream, both from 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Values {
    /// Goes on with `bytes`.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.state {
                State::Before | State::Between => self.between(bytes, at),
                State::Inside { line } => self.inside(bytes, at, line),
                State::Line | State::Rest => self.plain(bytes, at),
                State::Hidden => break,
            };
        }
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            self.line_start = self.taken + newline as u64 + 1;
        }
        self.taken += bytes.len() as u64;
    }

    /// The stream has ended.
    pub(super) fn finish(&mut self) {
        if let State::Inside { .. } = self.state {
            self.faults.open = Some((self.place(&[], 0), self.scanner.depth()));
            self.indenter.end_value();
        }
    }

    /// A byte between two values: white space, or the first of what comes.
    fn between(&mut self, bytes: &[u8], at: usize) -> usize {
        match (bytes[at], self.state) {
            (b'\n', _) => {
                self.newlines += 1;
                self.blanks.clear();
            }
            (blank @ (b' ' | b'\t' | b'\r'), _) => {
                if self.blanks.len() < MOST_BLANKS {
                    self.blanks.push(blank);
                }
            }
            (b'{' | b'[', _) | (b'"', State::Before) => {
                self.blanks.clear();
                self.state = State::Inside { line: self.line() };
                return 0;
            }
            _ => {
                self.note(bytes, at);
                self.indenter.plain(&std::mem::take(&mut self.blanks));
                self.state = State::Line;
                return 0;
            }
        }
        1
    }

    /// As much of a value as there is.
    fn inside(&mut self, bytes: &[u8], at: usize, line: u64) -> usize {
        match self.scanner.push(&bytes[at..], &mut self.indenter) {
            ScanOutcome::More => bytes.len() - at,
            ScanOutcome::Done(used) => {
                self.indenter.end_value();
                self.state = State::Between;
                used
            }
            ScanOutcome::Wrong(used) => {
                if !self.scanner.is_in_pair() {
                    self.indenter.end_value();
                }
                self.note(bytes, at + used);
                let same_line = self.line() == line;
                self.state = if same_line { State::Line } else { State::Rest };
                if !same_line {
                    self.faults.rest = Some(self.line());
                }
                self.newlines += self.scanner.newlines();
                self.scanner = Scanner::default();
                used
            }
        }
    }

    /// What is not JSON, as far as it is text.
    fn plain(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let line = match self.state {
            State::Line => memchr::memchr(b'\n', rest).map(|end| end + 1),
            _ => None,
        };
        let plain = &rest[..line.unwrap_or(rest.len())];
        let shown = memchr::memchr(0, plain);
        self.indenter.plain(&plain[..shown.unwrap_or(plain.len())]);
        if let Some(shown) = shown {
            self.faults.hidden = Some(self.taken + (at + shown) as u64);
            self.state = State::Hidden;
        } else if line.is_some() {
            self.newlines += 1;
            self.indenter.end_value();
            self.state = State::Between;
        }
        plain.len()
    }

    fn note(&mut self, bytes: &[u8], at: usize) {
        let fault = Fault {
            place: self.place(bytes, at),
            shown: self.indenter.line(),
            deep: self.scanner.is_too_deep(),
        };
        self.faults.count += 1;
        self.faults.first.get_or_insert(fault);
    }

    /// The line that is being read, from 1.
    fn line(&self) -> u64 {
        self.newlines + self.scanner.newlines() + 1
    }

    /// Where the byte at `at` of the piece `bytes` stands.
    fn place(&self, bytes: &[u8], at: usize) -> Place {
        let newline = memchr::memrchr(b'\n', &bytes[..at]);
        let start = newline.map_or(self.line_start, |newline| self.taken + newline as u64 + 1);
        Place { line: self.line(), column: self.taken + at as u64 - start + 1 }
    }
}
