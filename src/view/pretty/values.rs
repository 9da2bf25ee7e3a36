use crate::position::TextPosition;
use crate::pretty::indent::Indenter;
use ctxfs_core::materialize::json::{ScanOutcome, Scanner};

// Of white space that is kept for text that is not JSON.
const MOST_BLANKS: usize = 4096;

/// Indents the values of a stream that comes in pieces of any size.
///
/// Text that is not JSON stays as it is. It extends to the end of its line if the broken value
/// began in that line, so that one bad line among JSON Lines spoils no other; otherwise to the end
/// of the stream.
#[derive(Debug, Default)]
pub(super) struct Values {
    pub(super) indenter: Indenter,
    pub(super) faults: Faults,
    scanner: Scanner,
    state: StreamState,
    // Bytes taken.
    taken: u64,
    // Newlines taken, without those that the scanner counts.
    newlines: u64,
    // The start of the last line.
    line_start: u64,
    // White space since the start of the line or the end of the last value.
    blanks: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy)]
enum StreamState {
    // Only white space so far.
    #[default]
    Before,
    // Between two values.
    Between,
    // In a value that began in this line.
    Inside {
        line: u64,
    },
    // In text that is not JSON, up to the end of its line.
    Line,
    // In text that is not JSON, up to the end of the stream.
    Rest,
    // In bytes that are not shown, up to the end of the stream.
    Hidden,
}

/// The parts of a stream that are not JSON: their number and the first of them.
///
/// `rest` is the line from which on nothing was taken for JSON. `open` is the place where the
/// stream ended inside a value, and the number of open brackets. `hidden` is the offset of the
/// first byte that is not text; nothing is shown from there on.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) count: u64,
    pub(super) first: Option<Fault>,
    pub(super) rest: Option<u64>,
    pub(super) open: Option<(TextPosition, usize)>,
    pub(super) hidden: Option<u64>,
}

/// The start of a part that is not JSON: its place in the stream, and its line in the indented
/// text. `deep` is true if the part may be JSON, but is nested too deep to be followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) place: TextPosition,
    pub(super) shown: u64,
    pub(super) deep: bool,
}

impl Values {
    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += match self.state {
                StreamState::Before | StreamState::Between => self.between(bytes, at),
                StreamState::Inside { line } => self.inside(bytes, at, line),
                StreamState::Line | StreamState::Rest => self.plain(bytes, at),
                StreamState::Hidden => break,
            };
        }
        if let Some(newline) = memchr::memrchr(b'\n', bytes) {
            self.line_start = self.taken + newline as u64 + 1;
        }
        self.taken += bytes.len() as u64;
    }

    /// Ends the stream.
    pub(super) fn finish(&mut self) {
        if let StreamState::Inside { .. } = self.state {
            self.faults.open = Some((self.place(&[], 0), self.scanner.depth()));
            self.indenter.end_value();
        }
    }

    // White space, or the first byte of the next part.
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
            (b'{' | b'[', _) | (b'"', StreamState::Before) => {
                self.blanks.clear();
                self.state = StreamState::Inside { line: self.line() };
                return 0;
            }
            _ => {
                self.note(bytes, at);
                self.indenter.plain(&std::mem::take(&mut self.blanks));
                self.state = StreamState::Line;
                return 0;
            }
        }
        1
    }

    fn inside(&mut self, bytes: &[u8], at: usize, line: u64) -> usize {
        match self.scanner.push(&bytes[at..], &mut self.indenter) {
            ScanOutcome::More => bytes.len() - at,
            ScanOutcome::Done(used) => {
                self.indenter.end_value();
                self.state = StreamState::Between;
                used
            }
            ScanOutcome::Wrong(used) => {
                if !self.scanner.is_in_pair() {
                    self.indenter.end_value();
                }
                self.note(bytes, at + used);
                let same_line = self.line() == line;
                self.state = if same_line { StreamState::Line } else { StreamState::Rest };
                if !same_line {
                    self.faults.rest = Some(self.line());
                }
                self.newlines += self.scanner.newlines();
                self.scanner = Scanner::default();
                used
            }
        }
    }

    // Takes bytes that are not JSON, and shows them as far as they are text.
    fn plain(&mut self, bytes: &[u8], at: usize) -> usize {
        let rest = &bytes[at..];
        let line = match self.state {
            StreamState::Line => memchr::memchr(b'\n', rest).map(|end| end + 1),
            _ => None,
        };
        let plain = &rest[..line.unwrap_or(rest.len())];
        let shown = memchr::memchr(0, plain);
        self.indenter.plain(&plain[..shown.unwrap_or(plain.len())]);
        if let Some(shown) = shown {
            self.faults.hidden = Some(self.taken + (at + shown) as u64);
            self.state = StreamState::Hidden;
        } else if line.is_some() {
            self.newlines += 1;
            self.indenter.end_value();
            self.state = StreamState::Between;
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

    fn line(&self) -> u64 {
        self.newlines + self.scanner.newlines() + 1
    }

    // The place in the stream of the byte at `at` of the piece `bytes`.
    fn place(&self, bytes: &[u8], at: usize) -> TextPosition {
        let newline = memchr::memrchr(b'\n', &bytes[..at]);
        let start = newline.map_or(self.line_start, |newline| self.taken + newline as u64 + 1);
        TextPosition { line: self.line(), column: self.taken + at as u64 - start + 1 }
    }
}
