//! Compiles the pattern of a query to a matcher, with a faster finder for case-insensitive
//! literals.

use std::io;
use std::ops::Range;
use std::str::Utf8Chunk;

use grep_regex::{Error, RegexMatcher, RegexMatcherBuilder};

use crate::Query;
use crate::query::{CaseMode, SearchOptions};
use ctxfs_core::parallel::MAX_THREADS;

// A pattern above this size is searched as literal text.
const PATTERN_BYTES: usize = 10 << 20;
// Maximum size in bytes of the automaton that each thread of a search builds during the search.
const AUTOMATON_BYTES: usize = (64 << 20) / MAX_THREADS;
const LONG_S: &[u8] = "\u{17f}".as_bytes();
const KELVIN: &[u8] = "\u{212a}".as_bytes();
// Bytes with a special meaning in a regular expression.
const META_BYTES: &[u8] = br"\.+*?()|[]{}^$";
// The most frequent bytes of typical outputs, in descending order of frequency. All other bytes are
// rare.
const FREQUENT_BYTES: &[u8] = b" 0e1t2a3o4-i5n6:7r8.9sld/c_u\"m=,pfhgbywvk";
// Number of positions that are compared together.
const BLOCK_PLACES: usize = 64;
// With fewer bytes of text per false candidate block, the regex engine is faster. A false candidate
// block takes about as long as the regex engine needs for 230 bytes (measured in a log of 100 MB).
const BYTES_FOR_VAIN: usize = 256;

/// A compiled pattern. `caseless` finds the same lines faster, if it is set. `fallback` is the
/// reason why a pattern that is not a valid regular expression is searched as literal text.
pub(super) struct CompiledPattern {
    pub(super) matcher: RegexMatcher,
    pub(super) caseless: Option<CaselessFinder>,
    pub(super) fallback: Option<String>,
}

pub(super) fn build(query: &Query) -> io::Result<CompiledPattern> {
    let builder = builder(query.options());
    let (built, fallback) = match str::from_utf8(query.pattern()) {
        Ok(text) if query.options().fixed => (literals(&builder, text), None),
        Ok(text) => match builder.build(text) {
            Ok(matcher) => (Ok(matcher), None),
            Err(error) => (literals(&builder, text), Some(reason(&error))),
        },
        Err(_) => (builder.build(&escaped(query.pattern())), Some("not UTF-8".to_owned())),
    };
    let caseless = CaselessFinder::new(query.pattern(), query.options());
    built.map(|matcher| CompiledPattern { matcher, caseless, fallback }).map_err(io::Error::other)
}

// Returns a builder with the settings that ripgrep uses.
fn builder(options: &SearchOptions) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(options.case == CaseMode::Insensitive)
        .case_smart(options.case == CaseMode::Smart)
        .multi_line(true)
        .word(options.word)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(AUTOMATON_BYTES);
    if options.line {
        builder.whole_line(true);
    }
    builder
}

// Builds a matcher for each line of `text`, because no match spans lines.
fn literals(builder: &RegexMatcherBuilder, text: &str) -> Result<RegexMatcher, Error> {
    let mut lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        lines.push("");
    }
    builder.clone().fixed_strings(true).build_many(&lines)
}

// Returns a regular expression for bytes that are not all UTF-8.
fn escaped(bytes: &[u8]) -> String {
    let chunk = |chunk: Utf8Chunk<'_>| {
        let invalid = chunk.invalid().iter().map(|byte| format!("(?-u:\\x{byte:02x})"));
        [regex::escape(chunk.valid())].into_iter().chain(invalid).collect::<String>()
    };
    bytes.utf8_chunks().map(chunk).collect::<String>().replace('\n', "|")
}

// Returns the last line of an error message, such as `unclosed group`. The lines before it show the
// pattern.
fn reason(error: &Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").trim().to_owned()
}

/// Finds an ASCII literal in any case. `literal` is in lower case. `first` is the byte at the
/// offset `at` of the literal, and `second` is the byte `distance` bytes after it.
pub(super) struct CaselessFinder {
    literal: Vec<u8>,
    at: usize,
    distance: usize,
    first: CaselessByte,
    second: CaselessByte,
}

// A byte in any case. It matches a byte that equals `byte` once the bits of `fold` are set in it.
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
    /// Returns `None` if the search is case-sensitive, is not for a literal, or looks for the lines
    /// without the literal.
    pub(super) fn new(pattern: &[u8], options: &SearchOptions) -> Option<Self> {
        let any_case = match options.case {
            CaseMode::Insensitive => true,
            CaseMode::Smart => !pattern.iter().any(u8::is_ascii_uppercase),
            CaseMode::Sensitive => false,
        };
        let is_meta = |byte: &u8| *byte == b'\n' || !options.fixed && META_BYTES.contains(byte);
        if !any_case || options.invert || !pattern.is_ascii() || pattern.iter().any(is_meta) {
            return None;
        }
        let literal = pattern.to_ascii_lowercase();
        let (at, other) = pair(&literal)?;
        let (first, second) = (CaselessByte::new(literal[at]), CaselessByte::new(literal[other]));
        Some(Self { literal, at, distance: other - at, first, second })
    }

    /// Calls `take` with each line that contains the literal, until `take` returns false. `lines`
    /// must consist of whole lines. Returns false if the regex engine would have been faster,
    /// because `first` and `second` often occur without the rest of the literal.
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

    // Returns the next position of the first byte at or after `at`. Counts the false candidate
    // blocks in `in_vain`.
    fn find(&self, text: &[u8], mut at: usize, in_vain: &mut usize) -> Option<usize> {
        while let Some((firsts, seconds)) = self.places(text, at) {
            if self.may_be(firsts, seconds) {
                let found = (at..at + BLOCK_PLACES).find(|at| self.is_at(text, *at));
                if found.is_some() {
                    return found;
                }
                *in_vain += 1;
            }
            at += BLOCK_PLACES;
        }
        let end = text.len().saturating_sub(self.distance);
        (at..end).find(|at| self.is_at(text, *at))
    }

    fn places<'t>(
        &self,
        text: &'t [u8],
        at: usize,
    ) -> Option<(&'t [u8; BLOCK_PLACES], &'t [u8; BLOCK_PLACES])> {
        let seconds = text.get(at + self.distance..)?.first_chunk()?;
        Some((text[at..].first_chunk()?, seconds))
    }

    // Has no branches, so that the compiler can compare many positions with one instruction.
    fn may_be(&self, firsts: &[u8; BLOCK_PLACES], seconds: &[u8; BLOCK_PLACES]) -> bool {
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

// Returns the non-ASCII letter that folds to `byte`.
fn wider(byte: u8) -> Option<&'static [u8]> {
    match byte {
        b's' => Some(LONG_S),
        b'k' => Some(KELVIN),
        _ => None,
    }
}

// Returns the offsets of the two rarest bytes in a part of `literal` whose letters have one byte in
// every case.
fn pair(literal: &[u8]) -> Option<(usize, usize)> {
    let rarity = |at: &usize| {
        FREQUENT_BYTES.iter().position(|byte| *byte == literal[*at]).unwrap_or(FREQUENT_BYTES.len())
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
    use super::*;
    use grep_matcher::Matcher as _;
    use proptest::prelude::*;

    fn any_case() -> SearchOptions {
        SearchOptions { case: CaseMode::Insensitive, ..SearchOptions::default() }
    }

    /// Returns the lines that the finder passes on.
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
        let fixed = SearchOptions { fixed: true, ..options.clone() };
        assert!(CaselessFinder::new(b"a.b", &fixed).is_some());
        let inverted = SearchOptions { invert: true, ..options };
        assert!(CaselessFinder::new(b"error", &inverted).is_none());
        assert!(CaselessFinder::new(b"error", &SearchOptions::default()).is_none());
        let smart = SearchOptions { case: CaseMode::Smart, ..SearchOptions::default() };
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
