//! Failed comparisons, whose two sides stand on lines of their own.

use crate::materialize::pattern::Pattern;

/// Returns true for a line that tells that two values differ. Their lines follow.
pub fn is_comparison(line: impl AsRef<[u8]>) -> bool {
    COMPARISON.is_match(line)
}

/// Returns true for a line with a value that was compared.
pub fn is_side(line: impl AsRef<[u8]>) -> bool {
    SIDE.is_match(line)
}

/// The patterns of such lines.
pub(super) const PATTERNS: [&str; 2] = [
    r"assertion `.*` failed|assertion failed: `\(|^\s*(Error:\s+)?(expect\(.*\)\.|Not equal)|AssertionError|Error Trace|^\s*Failure/Error: ",
    r"^\s*(left|right|(?i:expected|received|actual|got|want)( .{0,20})?)\s?: ?\S",
];

static COMPARISON: Pattern = Pattern::new(PATTERNS[0]);
static SIDE: Pattern = Pattern::new(PATTERNS[1]);

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
            assert!(is_comparison(line), "{line}");
        }
        for line in ["error: expected `;`", "assert!(a == b);", "the sides are not equal"] {
            assert!(!is_comparison(line), "{line}");
        }
        for line in ["  left: 41", "    Expected: 8", "got value : 7", "\texpected: \"a\""] {
            assert!(is_side(line), "{line}");
        }
        for line in ["the left: side", "expected:", "right of way", "- Expected  - 1"] {
            assert!(!is_side(line), "{line}");
        }
    }
}
