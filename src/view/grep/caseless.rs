//! Finds lines with a literal in any case, faster than the regex engine.
//!
//! Two bytes of the literal are compared at their distance, many places at a time; where both are
//! found, the rest is compared. This matches what `(?i)` matches: in Unicode, `k` is also the
//! Kelvin sign and `s` the long s. These have more bytes, so the two bytes are taken from a part of
//! the literal without such letters. No other ASCII letter folds to a letter outside of ASCII.

use std::ops::Range;

use crate::query::{Case, Options};

const LONG_S: &[u8] = "\u{17f}".as_bytes();
const KELVIN: &[u8] = "\u{212a}".as_bytes();
// Bytes with a meaning in a regular expression.
const META: &[u8] = br"\.+*?()|[]{}^$";
// Bytes of typical outputs, the most frequent first. All others are rare.
const FREQUENT: &[u8] = b" 0e1t2a3o4-i5n6:7r8.9sld/c_u\"m=,pfhgbywvk";
// Places that are compared together.
const PLACES: usize = 64;
// With fewer bytes of text for each block that is compared in vain, the regex engine is faster:
// such a block costs as much as it needs for some 230 bytes (measured in a log of 100 MB).
const BYTES_FOR_VAIN: usize = 256;

/// Finds a literal of ASCII in any case. `literal` is in lower case; `first` is at the offset `at`
/// in it, and `second` at `distance` after that.
pub(super) struct CaselessFinder {
    literal: Vec<u8>,
    at: usize,
    distance: usize,
    first: CaselessByte,
    second: CaselessByte,
}

// A byte in any case: equal to `byte` with the bits of `fold` set.
#[derive(Clone, Copy)]
struct CaselessByte {
    byte: u8,
    fold: u8,
}

impl CaselessByte {
    fn new(byte: u8) -> Self {
        let byte = byte.to_ascii_lowercase();
        Self { byte, fold: if byte.is_ascii_lowercase() { 0x20 } else { 0 } }
    }

    fn is(self, byte: u8) -> bool {
        byte | self.fold == self.byte
    }
}

impl CaselessFinder {
    /// Returns `None` if the search is not for a literal in any case, or if it looks for the lines
    /// without it.
    pub(super) fn new(pattern: &[u8], options: &Options) -> Option<Self> {
        let any_case = match options.case {
            Case::Insensitive => true,
            Case::Smart => !pattern.iter().any(u8::is_ascii_uppercase),
            Case::Sensitive => false,
        };
        let is_meta = |byte: &u8| *byte == b'\n' || !options.fixed && META.contains(byte);
        if !any_case || options.invert || !pattern.is_ascii() || pattern.iter().any(is_meta) {
            return None;
        }
        let literal = pattern.to_ascii_lowercase();
        let (at, other) = pair(&literal)?;
        let (first, second) = (CaselessByte::new(literal[at]), CaselessByte::new(literal[other]));
        Some(Self { literal, at, distance: other - at, first, second })
    }

    /// Calls `take` with each line that has the literal, until it returns false. `lines` have to be
    /// whole lines. Returns false if the regex engine would have been faster, because the two bytes
    /// are often found without the rest.
    pub(super) fn each_line(
        &self,
        lines: &[u8],
        mut take: impl FnMut(Range<usize>) -> bool,
    ) -> bool {
        let (mut at, mut in_vain) = (0, 0);
        while let Some(found) = self.find(lines, at, &mut in_vain) {
            let start = memchr::memrchr(b'\n', &lines[..found]).map_or(0, |newline| newline + 1);
            let end = memchr::memchr(b'\n', &lines[found..]);
            at = end.map_or(lines.len(), |newline| found + newline + 1);
            if !take(start..at) {
                break;
            }
        }
        in_vain <= lines.len() / BYTES_FOR_VAIN
    }

    // The next place from `at` on of the first byte. Counts the blocks that were compared in vain.
    fn find(&self, text: &[u8], mut at: usize, in_vain: &mut usize) -> Option<usize> {
        while let Some((firsts, seconds)) = self.places(text, at) {
            if self.may_be(firsts, seconds) {
                let found = (at..at + PLACES).find(|at| self.is_at(text, *at));
                if found.is_some() {
                    return found;
                }
                *in_vain += 1;
            }
            at += PLACES;
        }
        let end = text.len().saturating_sub(self.distance);
        (at..end).find(|at| self.is_at(text, *at))
    }

    fn places<'t>(
        &self,
        text: &'t [u8],
        at: usize,
    ) -> Option<(&'t [u8; PLACES], &'t [u8; PLACES])> {
        let seconds = text.get(at + self.distance..)?.first_chunk()?;
        Some((text[at..].first_chunk()?, seconds))
    }

    // Without a branch, so that the compiler compares many places with one instruction.
    fn may_be(&self, firsts: &[u8; PLACES], seconds: &[u8; PLACES]) -> bool {
        let (first, second) = (self.first, self.second);
        let mut any = 0;
        for (one, other) in firsts.iter().zip(seconds) {
            any |= u8::from(first.is(*one)) & u8::from(second.is(*other));
        }
        any > 0
    }

    fn is_at(&self, text: &[u8], at: usize) -> bool {
        self.first.is(text[at])
            && text.get(at + self.distance).is_some_and(|byte| self.second.is(*byte))
            && follows(&text[at..], &self.literal[self.at..])
            && precedes(&text[..at], &self.literal[..self.at])
    }
}

fn follows(mut text: &[u8], literal: &[u8]) -> bool {
    literal.iter().all(|byte| {
        let rest = match text.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case(byte) => Some(rest),
            _ => wider(*byte).and_then(|letter| text.strip_prefix(letter)),
        };
        text = rest.unwrap_or_default();
        rest.is_some()
    })
}

fn precedes(mut text: &[u8], literal: &[u8]) -> bool {
    literal.iter().rev().all(|byte| {
        let rest = match text.split_last() {
            Some((last, rest)) if last.eq_ignore_ascii_case(byte) => Some(rest),
            _ => wider(*byte).and_then(|letter| text.strip_suffix(letter)),
        };
        text = rest.unwrap_or_default();
        rest.is_some()
    })
}

// The letter outside of ASCII that folds to `byte`.
fn wider(byte: u8) -> Option<&'static [u8]> {
    match byte {
        b's' => Some(LONG_S),
        b'k' => Some(KELVIN),
        _ => None,
    }
}

/// Returns the offsets of the two rarest bytes of a part of `literal` whose letters have one byte.
fn pair(literal: &[u8]) -> Option<(usize, usize)> {
    let rarity = |at: &usize| {
        FREQUENT.iter().position(|byte| *byte == literal[*at]).unwrap_or(FREQUENT.len())
    };
    let mut best = None;
    let mut start = 0;
    for part in literal.split(|byte| wider(*byte).is_some()) {
        let mut places: Vec<usize> = (start..start + part.len()).collect();
        start += part.len() + 1;
        places.sort_by_key(|at| std::cmp::Reverse(rarity(at)));
        if let [one, other, ..] = places[..] {
            let pair = (rarity(&one) + rarity(&other), one.min(other), one.max(other));
            best = best.max(Some(pair));
        }
    }
    best.map(|(_, one, other)| (one, other))
}

#[cfg(test)]
mod tests {
    use grep_matcher::Matcher as _;
    use grep_regex::RegexMatcherBuilder;
    use proptest::prelude::*;

    use super::*;

    fn any_case() -> Options {
        Options { case: Case::Insensitive, ..Options::default() }
    }

    /// Returns the lines that are found.
    fn found(literal: &str, lines: &str) -> Option<Vec<String>> {
        let finder = CaselessFinder::new(literal.as_bytes(), &any_case())?;
        let mut found = Vec::new();
        finder.each_line(lines.as_bytes(), |line| {
            found.push(lines[line].to_owned());
            true
        });
        Some(found)
    }

    #[test]
    fn letters_match_in_any_case() {
        let lines = "An ERROR\nan error\nErr or\nno\nerRor";
        assert_eq!(found("Error", lines).unwrap(), ["An ERROR\n", "an error\n", "erRor"]);
        assert_eq!(found("@2", "`2\n@2\n").unwrap(), ["@2\n"]);
    }

    #[test]
    fn two_letters_have_more_forms() {
        let lines = "TASK\nta\u{17f}k\nta\u{17f}\u{212a}\ntas\u{212a}\nta\u{17f}\nta\u{212a}s\n";
        assert_eq!(found("task", lines).unwrap().len(), 4);
        assert_eq!(found("Kit skip", "\u{212a}IT SKIP\nit skip\n").unwrap().len(), 1);
    }

    #[test]
    fn others_are_not_for_it() {
        let options = any_case();
        for pattern in ["", "e", "sks", "skak", "a.b", "a|b", "\u{e9}tat", "two\nlines"] {
            assert!(CaselessFinder::new(pattern.as_bytes(), &options).is_none(), "{pattern}");
        }
        let fixed = Options { fixed: true, ..options.clone() };
        assert!(CaselessFinder::new(b"a.b", &fixed).is_some());
        let inverted = Options { invert: true, ..options };
        assert!(CaselessFinder::new(b"error", &inverted).is_none());
        assert!(CaselessFinder::new(b"error", &Options::default()).is_none());
        let smart = Options { case: Case::Smart, ..Options::default() };
        assert!(CaselessFinder::new(b"error", &smart).is_some());
        assert!(CaselessFinder::new(b"Error", &smart).is_none());
    }

    #[test]
    fn it_stops_when_told() {
        let finder = CaselessFinder::new(b"ab", &any_case()).unwrap();
        let mut count = 0;
        finder.each_line(b"ab\nab\nab\n", |_| {
            count += 1;
            count < 2
        });
        assert_eq!(count, 2);
    }

    #[test]
    fn it_tells_where_the_engine_is_faster() {
        let finder = CaselessFinder::new(b"request 17", &any_case()).unwrap();
        let log = |text: &str| text.repeat(1000);
        assert!(!finder.each_line(log("one request of many, 2 ms\n").as_bytes(), |_| true));
        assert!(finder.each_line(log("one request 17 of many\n").as_bytes(), |_| true));
        assert!(finder.each_line(log("something else in all lines\n").as_bytes(), |_| true));
    }

    proptest! {
        #[test]
        fn it_finds_what_a_regular_expression_finds(
            literal in "[abkKsS@` -]{2,6}",
            lines in "([aAbBkKsS@` \u{17f}\u{212a}\u{e9}-]|\n){0,300}",
        ) {
            let matcher = RegexMatcherBuilder::new().case_insensitive(true).build(&literal).unwrap();
            let holds = |line: &&str| matcher.is_match(line.as_bytes()).unwrap();
            let expected: Vec<&str> = lines.split_inclusive('\n').filter(holds).collect();
            if let Some(found) = found(&literal, &lines) {
                prop_assert_eq!(found, expected);
            }
        }
    }
}
