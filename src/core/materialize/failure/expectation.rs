//! Error lines that announce later lines.

use crate::materialize::failure::rules::Rank;
use crate::materialize::pattern::Pattern;
use crate::model::ErrorRank;

/// Maximum number of lines from the heading of a traceback to its exception. A frame takes two
/// lines. Python permits 1,000 frames, but folds the repetitions in such a deep traceback.
const TRACEBACK_LINES: u64 = 400;
/// Maximum number of lines from an announcement to its message. Jest prints a blank line between.
const MESSAGE_LINES: u64 = 2;
/// Maximum number of lines from a failed comparison to the compared values. Rust and Go print the
/// values immediately, Jest after a blank line.
const SIDES_LINES: u64 = 8;
// Maximum number of causes that anyhow and eyre print after `Caused by:`.
const CAUSES_LINES: u64 = 12;

const CAUSE: Rank = Rank::Is(ErrorRank::Cause);

/// The kind of line that an earlier line announced, and the number of the last line that may be of
/// this kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Expectation {
    pub(super) expected: Option<(AnnouncedKind, u64)>,
}

/// The kinds of lines that an earlier line announces.
///
/// `Message`: the message of a panic or of a test suite that did not run, on the next line that is
/// not empty. `Exception`: the exception at the end of a Python traceback, which is the first line
/// that is not indented. `Sides`: the expected and the actual value of a comparison. `Causes`: an
/// indented list of causes, of which the last is the innermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnnouncedKind {
    Message,
    Exception,
    Sides,
    Causes,
}

impl Expectation {
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
            AnnouncedKind::Message if line.is_empty() => None,
            AnnouncedKind::Message => self.end(Some(CAUSE)),
            AnnouncedKind::Sides => SIDE.is_match(line).then_some(CAUSE),
            AnnouncedKind::Causes if !indented || line.is_empty() || STATUS.is_match(line) => {
                self.end(None)
            }
            AnnouncedKind::Causes => Some(Rank::Trace),
            AnnouncedKind::Exception if indented => None,
            AnnouncedKind::Exception => self.end(PYTHON.is_match(line).then_some(CAUSE)),
        }
    }

    pub(super) fn expect(&mut self, announced: Option<AnnouncedKind>, number: u64) {
        let Some(expected) = announced else { return };
        let lines = match expected {
            AnnouncedKind::Message => MESSAGE_LINES,
            AnnouncedKind::Exception => TRACEBACK_LINES,
            AnnouncedKind::Sides => SIDES_LINES,
            AnnouncedKind::Causes => CAUSES_LINES,
        };
        self.expected = Some((expected, number + lines));
    }

    fn end(&mut self, rank: Option<Rank>) -> Option<Rank> {
        self.expected = None;
        rank
    }
}

pub(super) fn announced_by(line: &[u8]) -> Option<AnnouncedKind> {
    if line.starts_with(TRACEBACK.as_bytes()) {
        Some(AnnouncedKind::Exception)
    } else if line == CAUSED_BY.as_bytes() {
        Some(AnnouncedKind::Causes)
    } else if ANNOUNCES.is_match(line) {
        Some(AnnouncedKind::Message)
    } else {
        COMPARISON.is_match(line).then_some(AnnouncedKind::Sides)
    }
}

pub(super) const ANNOUNCEMENTS: [&str; 4] =
    [TRACEBACK, CAUSED_BY, "panicked at", "Test suite failed to run"];
const TRACEBACK: &str = "Traceback (most recent call last)";
const CAUSED_BY: &str = "Caused by:";

static ANNOUNCES: Pattern =
    Pattern::new(r"panicked at \S+:\d+:\d+:$|^\s*\xe2\x97\x8f Test suite failed to run$");
// A status line of Cargo. It may follow a cause.
static STATUS: Pattern =
    Pattern::new(r"^ {2,}(Running `|(Compiling|Checking|Dirty|Fresh) \S+ v\d)");
static PYTHON: Pattern = Pattern::new(r"^[A-Za-z_][\w.]*(:|$)");

pub(super) const COMPARISON_PATTERNS: [&str; 2] = [
    r"assertion `.*` failed|assertion failed: `\(|^\s*(Error:\s+)?(expect\(.*\)\.|Not equal)|AssertionError|Error Trace|^\s*Failure/Error: ",
    r"^\s*(left|right|(?i:expected|received|actual|got|want)( .{0,20})?)\s?: ?\S",
];

/// A line that states that two values differ, such as `assertion failed` or `expect(...)`. The two
/// values are on separate lines, which match [`SIDE`].
pub static COMPARISON: Pattern = Pattern::new(COMPARISON_PATTERNS[0]);
/// A line with one of two compared values, such as `left: 41` or `Expected: 8`; see [`COMPARISON`].
pub static SIDE: Pattern = Pattern::new(COMPARISON_PATTERNS[1]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_and_their_sides_are_told_from_other_lines() {
        for line in [
            "assertion `left == right` failed: the sum is off",
            "    expect(received).toBe(expected) // Object.is equality",
            "        \tError:      \tNot equal: ",
            "AssertionError: expected 7 to equal 8",
        ] {
            assert!(COMPARISON.is_match(line), "{line}");
        }
        for line in ["error: expected `;`", "assert!(a == b);", "the sides are not equal"] {
            assert!(!COMPARISON.is_match(line), "{line}");
        }
        for line in ["  left: 41", "    Expected: 8", "got value : 7", "\texpected: \"a\""] {
            assert!(SIDE.is_match(line), "{line}");
        }
        for line in ["the left: side", "expected:", "right of way", "- Expected  - 1"] {
            assert!(!SIDE.is_match(line), "{line}");
        }
    }
}
