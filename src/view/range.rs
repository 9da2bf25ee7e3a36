//! The names under `X.lines/`, and positions in a text.

use std::ffi::OsStr;
use std::fmt;

/// A range of lines. Lines are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineRange {
    /// `A-B`, `A+N` (at most N lines from A on) or `A` (one line). Both ends are inclusive. Other
    /// programs write `A-B` as `A,B`, `A:B` or `A..B`, and `LA-LB`. Without B, or with `$`, the
    /// range ends with the last line.
    Between {
        /// The first line, at least 1.
        first: u64,
        /// The last line, at least 1. If it is less than `first`, the range is written backwards.
        last: u64,
    },
    /// `-N`: the last N lines. N is at least 1.
    Last(u64),
}

impl LineRange {
    /// Parses a name. Numbers must be canonical (no sign, no leading zero).
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?.trim();
        if let Some(count) = name.strip_prefix('-') {
            return number(count).map(Self::Last);
        }
        let line = |text: &str| {
            let text = text.trim();
            number(text.strip_prefix(['L', 'l']).unwrap_or(text))
        };
        let ends = ["..", "-", ",", ":"].iter().find_map(|mark| name.split_once(mark));
        let (first, last) = match ends {
            // `sed` counts N more lines.
            Some((first, last)) if last.trim().starts_with('+') => {
                let first = line(first)?;
                (first, first.saturating_add(number(&last.trim()[1..])?))
            }
            Some((first, last)) if matches!(last.trim(), "" | "$") => (line(first)?, u64::MAX),
            Some((first, last)) => (line(first)?, line(last)?),
            None => match name.split_once('+') {
                Some((first, count)) => {
                    let first = line(first)?;
                    (first, first.saturating_add(line(count)? - 1))
                }
                None => (line(name)?, line(name)?),
            },
        };
        Some(Self::Between { first, last })
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between { first, last } => write!(f, "{first}-{last}"),
            Self::Last(count) => write!(f, "-{count}"),
        }
    }
}

// Parses a canonical decimal number of at least 1.
pub(super) fn number(text: &str) -> Option<u64> {
    let canonical = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    canonical.then(|| text.parse().ok())?
}

/// A position in a text: a line and a byte column, both from 1. Printed as `line` if the column is
/// 1, and as `line@column` otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TextPosition {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl TextPosition {
    // Parses `line` or `line@column`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (line, column) = text.split_once('@').unwrap_or((text, "1"));
        Some(Self { line: number(line)?, column: number(column)? })
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        if self.column > 1 { write!(f, "@{}", self.column) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    fn parse(name: &str) -> Option<LineRange> {
        LineRange::parse(OsStr::new(name))
    }

    fn between(first: u64, last: u64) -> LineRange {
        LineRange::Between { first, last }
    }

    #[test]
    fn forms() {
        assert_eq!(parse("10-20"), Some(between(10, 20)));
        assert_eq!(parse("10+5"), Some(between(10, 14)));
        assert_eq!(parse("10+1"), Some(between(10, 10)));
        assert_eq!(parse("7"), Some(between(7, 7)));
        assert_eq!(parse("-5"), Some(LineRange::Last(5)));
        assert_eq!(parse("1-18446744073709551615"), Some(between(1, u64::MAX)));
        assert_eq!(parse("2+18446744073709551615"), Some(between(2, u64::MAX)));
    }

    #[test]
    fn forms_of_other_programs() {
        let ranges = [
            "5,10", "5:10", "5..10", "5 - 10", "5, 10", "L5-L10", "L5-10", " 5-10 ", "5,+5", "5+6",
        ];
        for name in ranges {
            assert_eq!(parse(name), Some(between(5, 10)), "{name}");
        }
        for name in ["5-", "5,$", "5:", "5..", "5-$"] {
            assert_eq!(parse(name), Some(between(5, u64::MAX)), "{name}");
        }
        assert_eq!(parse("10-5"), Some(between(10, 5)));
    }

    #[test]
    fn what_is_no_range() {
        let names = [
            "",
            "-",
            "+",
            "0",
            "01",
            "0-5",
            "1-0",
            "+5",
            "-0",
            "--5",
            "1+",
            "1+0",
            "1,+0",
            "1-2-3",
            "1-2,3",
            "a",
            "1-b",
            "$",
            ",5",
            "18446744073709551616",
            ".git",
        ];
        for name in names {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(LineRange::parse(OsStr::from_bytes(b"\xff")), None);
    }

    proptest! {
        #[test]
        fn names_come_back(first in 1u64.., more in 0u64..1000) {
            let last = first.saturating_add(more);
            for range in [LineRange::Between { first, last }, LineRange::Last(first)] {
                prop_assert_eq!(parse(&range.to_string()), Some(range));
            }
        }
    }
}
