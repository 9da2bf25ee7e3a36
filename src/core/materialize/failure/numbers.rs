//! The numbers in an error line that matter. Lines that differ in other numbers alone are one kind of
//! error.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::materialize::likeness::{exact, mixed};

/// Which numbers in a line matter, as its shape tells.
///
/// - `Codes`: exit codes, statuses, signals, and totals
/// - `All`: all in the name of a failed test and in a comparison of values
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum MatteringNumbers {
    #[default]
    None,
    Codes,
    All,
}

impl MatteringNumbers {
    pub(super) fn of(shape: &[u8]) -> Self {
        if EXACT.is_match(shape) {
            Self::All
        } else if CODES.is_match(shape) {
            Self::Codes
        } else {
            Self::None
        }
    }

    /// Returns a hash of the numbers in a line that matter.
    pub(super) fn hash(self, line: &[u8]) -> u64 {
        match self {
            Self::None => 0,
            Self::All => exact(line),
            Self::Codes => {
                let found = CODES.captures_iter(line);
                let found = found.filter_map(|found| found.iter().skip(1).flatten().next());
                found.fold(0, |hash, number| mixed(hash, exact(number.as_bytes())))
            }
        }
    }
}

/// The patterns. A shape has their words.
pub(super) const NUMBER_PATTERNS: [&str; 4] = [
    r#"(?i-u)\b(?:exit|exited with|code|status|signal|errno|returned|rc)["']?[ :=(#]*(-?\d{1,5})\b|\berror (-?\d{1,5})\b|HTTP/[\d.]+"? (-?\d{1,5})\b"#,
    r"(?i-u)(?:^\W*|[:,;(=] *)(\d+)(?: \w+)? (?:fail(?:ed|ing|ures?)|errors?|passed)(?:[,;.)]|\s*=| (?:in|and|of)\b|$)|\b(?:failures|errors)[:=] ?(\d+)",
    r"(?-u)^not ok\b|^\s*--- FAIL: |^\s*FAIL(ED)?\b|\bFAIL(ED)?$|\bFAILED\b|^ERROR \S+( - |$)",
    r"(?-u)\b(?i:assert\w*|expected|identical|equals?|but was)\b|==|!=",
];

static CODES: LazyLock<Regex> = LazyLock::new(|| either(NUMBER_PATTERNS[0], NUMBER_PATTERNS[1]));
static EXACT: LazyLock<Regex> = LazyLock::new(|| either(NUMBER_PATTERNS[2], NUMBER_PATTERNS[3]));

fn either(one: &str, other: &str) -> Regex {
    Regex::new(&format!("(?:{one})|(?:{other})")).expect("patterns of this file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::materialize::failure::shape::ShapeBuilder;

    #[test]
    fn a_shape_tells_which_numbers_matter() {
        for (line, numbers) in [
            ("ERROR: job 7 exited with code 137", MatteringNumbers::Codes),
            ("10.0.0.7 \"GET /a/7 HTTP/1.1\" 503 7", MatteringNumbers::Codes),
            ("make: *** [all] Error 2", MatteringNumbers::Codes),
            ("Tests: 2 failed, 8 passed", MatteringNumbers::Codes),
            ("killed by signal 9", MatteringNumbers::Codes),
            ("not ok 7 - adds 123", MatteringNumbers::All),
            ("Failed asserting that 405 is identical to 450.", MatteringNumbers::All),
            ("E   assert 7 == 8", MatteringNumbers::All),
            ("error: 199", MatteringNumbers::None),
            ("ERROR request 7 failed", MatteringNumbers::None),
            ("connection refused by 10.0.0.7", MatteringNumbers::None),
        ] {
            let shape = ShapeBuilder::default().of(line.as_bytes()).to_vec();
            assert_eq!(MatteringNumbers::of(&shape), numbers, "{line}");
            assert_eq!(MatteringNumbers::of(line.as_bytes()), numbers, "{line}");
        }
    }
}
