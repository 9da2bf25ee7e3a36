//! Error lines that announce what follows them.

use crate::materialize::failure::comparison::{is_comparison, is_side};
use crate::materialize::failure::rules::Rank;
use crate::materialize::pattern::Pattern;
use crate::model::ErrorRank;

/// Lines after a traceback's heading in which its exception is expected. There are two per frame.
/// Python's limit is 1,000 frames, but so deep a traceback folds its repetitions.
const TRACEBACK_LINES: u64 = 400;
/// Lines after a failed comparison in which its sides are expected. Rust and Go print them at once,
/// Jest below a blank line.
const SIDES_LINES: u64 = 8;
/// Lines of the list that anyhow and eyre print below `Caused by:`, at most.
const CAUSES_LINES: u64 = 12;

const CAUSE: Rank = Rank::Is(ErrorRank::Cause);

/// The line that earlier lines announced, and the last line number where it may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Expectation {
    expected: Option<(Expected, u64)>,
}

/// A kind of line that was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// The message of a panic, on the next line.
    Message,
    /// The exception that ends a Python traceback, on the first line that is not indented.
    Exception,
    /// The expected and the actual value of a comparison.
    Sides,
    /// An indented list of causes, the innermost last.
    Causes,
}

impl Expectation {
    /// Returns true if the next line must be examined, whatever is in it.
    pub(super) fn is_waiting(&self) -> bool {
        self.expected.is_some()
    }

    /// Returns the rank of `line`, if it was announced.
    pub(super) fn expects(&mut self, line: &[u8], number: u64) -> Option<Rank> {
        let (expected, last) = self.expected?;
        if number >= last {
            self.expected = None;
        }
        if number > last {
            return None;
        }
        let indented = line.first().is_none_or(u8::is_ascii_whitespace);
        match expected {
            Expected::Message => (!line.is_empty()).then_some(CAUSE),
            Expected::Sides => is_side(line).then_some(CAUSE),
            Expected::Causes if !indented || line.is_empty() || STATUS.is_match(line) => {
                self.end(None)
            }
            Expected::Causes => Some(Rank::Trace),
            Expected::Exception if indented => None,
            Expected::Exception => self.end(PYTHON.is_match(line).then_some(CAUSE)),
        }
    }

    /// Notes what the error line `number` announces.
    pub(super) fn expect(&mut self, announced: Option<Expected>, number: u64) {
        let Some(expected) = announced else { return };
        let lines = match expected {
            Expected::Message => 1,
            Expected::Exception => TRACEBACK_LINES,
            Expected::Sides => SIDES_LINES,
            Expected::Causes => CAUSES_LINES,
        };
        self.expected = Some((expected, number + lines));
    }

    fn end(&mut self, rank: Option<Rank>) -> Option<Rank> {
        self.expected = None;
        rank
    }
}

/// Returns what an error line announces.
pub(super) fn announced_by(line: &[u8]) -> Option<Expected> {
    if line.starts_with(TRACEBACK.as_bytes()) {
        Some(Expected::Exception)
    } else if line == CAUSED_BY.as_bytes() {
        Some(Expected::Causes)
    } else if PANICKED.is_match(line) {
        Some(Expected::Message)
    } else {
        is_comparison(line).then_some(Expected::Sides)
    }
}

/// The texts of lines that announce others.
pub(super) const TEXTS: [&str; 3] = [TRACEBACK, CAUSED_BY, "panicked at"];
const TRACEBACK: &str = "Traceback (most recent call last)";
const CAUSED_BY: &str = "Caused by:";

static PANICKED: Pattern = Pattern::with("panicked at", r"panicked at \S+:\d+:\d+:$");
/// A step of Cargo, on the line after a cause.
static STATUS: Pattern =
    Pattern::new(r"^ {2,}(Running `|(Compiling|Checking|Dirty|Fresh) \S+ v\d)");
static PYTHON: Pattern = Pattern::new(r"^[A-Za-z_][\w.]*(:|$)");
