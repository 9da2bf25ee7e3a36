//! The compiled patterns of all `PatternSet`s. Each is tried only where one of its beginnings
//! occurs.
//!
//! A single automaton finds all beginnings, and a short regex runs only at these positions. The
//! time of a search therefore does not depend on earlier searches, and hostile text takes at most a
//! fixed multiple of the time of other text. The alternative would be one regex of all patterns,
//! run by a lazy automaton. For some texts, such as base64 of JSON, the automaton builds a new
//! state for each byte. It would then be hundreds of times slower, for such a text and for later
//! texts.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input as Text};
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, PatternID, meta};

use crate::redact::sets::{PatternPrefix, PatternTail, SecretPattern};

// Maximum number of characters in the first and in the second part of a JSON Web Token.
const JWT_HEADER: usize = 1000;
const JWT_CLAIMS: usize = 4000;
// Minimum number of characters in a part, without its fixed beginning.
const JWT_PART: usize = 10;
// The base64 encoding of the beginning of a JSON object. The first two parts of a token begin with
// it.
const JWT_OBJECT: &[u8] = b"eyJ";
// Minimum and maximum number of bytes in an assigned value.
const VALUE_LEAST: usize = 8;
const VALUE: usize = 1000;
// Maximum number of characters in a URL scheme.
const SCHEME: usize = 21;

/// The compiled patterns of all `PatternSet`s. `beginnings` finds the beginnings of all patterns.
/// `owners` has the index of the pattern of each beginning.
pub(super) struct KnownPatterns {
    beginnings: Option<AhoCorasick>,
    owners: Vec<usize>,
    patterns: Vec<KnownPattern>,
}

struct KnownPattern {
    before: PatternPrefix,
    regex: Regex,
    group: Option<usize>,
    tail: PatternTail,
}

/// A position where a pattern may match. The order of these values is the order of the search: the
/// first one that matches gives the next match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PatternStart {
    pub(super) start: usize,
    pub(super) pattern: usize,
}

/// Runs of bytes that were already examined. Several beginnings may lie in one run, and the run is
/// then examined only once.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    value: Run,
    jwt: [Run; 3],
    // A range in which the last line of a private key cannot begin.
    pub(super) keyless: Run,
}

#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) range: Range<usize>,
    // Total number of bytes that were examined for this run and for earlier runs.
    #[cfg(test)]
    pub(super) looked: usize,
}

/// A match of a rule. `inner` is the range of the secret within the match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) rule: usize,
    pub(super) start: usize,
    pub(super) inner: Range<usize>,
    pub(super) end: usize,
}

impl KnownPatterns {
    pub(super) fn new(patterns: &[&SecretPattern]) -> Option<Self> {
        let mut compiled = Vec::new();
        let mut beginnings: Vec<&str> = Vec::new();
        let mut owners = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            let regex = compile(&[pattern.regex])?;
            let group = group(&regex, PatternID::ZERO);
            let SecretPattern { before, tail, .. } = **pattern;
            compiled.push(KnownPattern { before, regex, group, tail });
            beginnings.extend(pattern.beginnings);
            owners.resize(beginnings.len(), index);
        }
        let finder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&beginnings)
            .ok()?;
        let beginnings = (!owners.is_empty()).then_some(finder);
        Some(Self { beginnings, owners, patterns: compiled })
    }

    pub(super) fn candidates(&self, bytes: &[u8], from: usize) -> Vec<PatternStart> {
        let mut candidates = Vec::new();
        let Some(beginnings) = self.beginnings.as_ref().filter(|_| from <= bytes.len()) else {
            return candidates;
        };
        for found in beginnings.find_overlapping_iter(Text::new(bytes).range(from..)) {
            let pattern = self.owners[found.pattern().as_usize()];
            let mut add = |start: usize| candidates.push(PatternStart { start, pattern });
            match self.patterns[pattern].before {
                PatternPrefix::Anything => add(found.start()),
                PatternPrefix::Break => {
                    starts_after_break(bytes, found.start()).into_iter().for_each(add);
                }
                PatternPrefix::Scheme => starts_of_scheme(bytes, found.start()).for_each(&mut add),
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }

    pub(super) fn find(
        &self,
        bytes: &[u8],
        candidate: PatternStart,
        runs: &mut KnownRuns,
    ) -> Option<Match> {
        let KnownPattern { regex, group, tail, .. } = &self.patterns[candidate.pattern];
        let input = Input::new(bytes).range(candidate.start..).anchored(Anchored::Yes);
        let found = regex.search(&input)?.range();
        // The part that a tail continues is at the end of the match. It has a fixed length.
        let (inner, end) = match tail {
            PatternTail::None => (secret(regex, *group, &input, &found), found.end),
            PatternTail::Jwt => {
                let start = found.end - JWT_OBJECT.len() - JWT_PART;
                let end = runs.jwt_end(bytes, start)?;
                (start..end, end)
            }
            PatternTail::Value => {
                let start = found.end - VALUE_LEAST;
                let (value, end) = runs.value_end(bytes, start)?;
                (start..value, end)
            }
        };
        Some(Match { rule: candidate.pattern, start: found.start, inner, end })
    }
}

fn secret(
    regex: &Regex,
    group: Option<usize>,
    input: &Input<'_>,
    found: &Range<usize>,
) -> Range<usize> {
    let Some(group) = group else { return found.clone() };
    let mut groups = regex.create_captures();
    regex.search_captures(&input.clone().range(found.clone()), &mut groups);
    groups.get_group(group).map_or(found.clone(), |span| span.range())
}

impl KnownRuns {
    // Returns the end of the value, and the end of the byte after the value.
    fn value_end(&mut self, bytes: &[u8], start: usize) -> Option<(usize, usize)> {
        let end = self.value.end(bytes, start, is_in_value);
        let is_ended = bytes.get(end).is_none_or(|byte| !b"({[".contains(byte));
        (end - start <= VALUE && is_ended).then_some((end, bytes.len().min(end + 1)))
    }

    fn jwt_end(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let [header, claims, signature] = &mut self.jwt;
        let first = start + JWT_OBJECT.len();
        let header_end = header.end(bytes, first, is_in_token);
        bytes[header_end..].strip_prefix(b".")?.strip_prefix(JWT_OBJECT)?;
        let second = header_end + 1 + JWT_OBJECT.len();
        let claims_end = claims.end(bytes, second, is_in_token);
        bytes[claims_end..].strip_prefix(b".")?;
        let third = claims_end + 1;
        let end = signature.end(bytes, third, is_in_token);
        let is_whole = header_end - first <= JWT_HEADER
            && (JWT_PART..=JWT_CLAIMS).contains(&(claims_end - second))
            && end - third >= JWT_PART;
        is_whole.then_some(end)
    }

    #[cfg(test)]
    pub(super) fn looked(&self) -> usize {
        [&self.value, &self.keyless].into_iter().chain(&self.jwt).map(|run| run.looked).sum()
    }
}

impl Run {
    fn end(&mut self, bytes: &[u8], start: usize, is_in: impl Fn(u8) -> bool) -> usize {
        if !self.range.contains(&start) {
            let length = bytes[start..].iter().position(|byte| !is_in(*byte));
            self.set(start..length.map_or(bytes.len(), |length| start + length));
        }
        self.range.end
    }

    pub(super) fn set(&mut self, range: Range<usize>) {
        #[cfg(test)]
        {
            self.looked += range.len();
        }
        self.range = range;
    }
}

// Limit on the memory of the compiled patterns, in bytes.
const PATTERN_BYTES: usize = 10 << 20;
// The name of the group that contains the secret in a user-defined pattern.
const SECRET: &str = "secret";

// Returns `None` if a regex is not valid or if all of them together are too large.
pub(super) fn compile(regexes: &[&str]) -> Option<Regex> {
    Regex::builder()
        .configure(meta::Config::new().nfa_size_limit(Some(PATTERN_BYTES)).utf8_empty(false))
        .syntax(syntax::Config::new().utf8(false).multi_line(true))
        .build_many(regexes)
        .ok()
}

pub(super) fn group(regex: &Regex, pattern: PatternID) -> Option<usize> {
    let info = regex.group_info();
    let first = (info.group_len(pattern) > 1).then_some(1);
    info.to_index(pattern, SECRET).or(first)
}

fn is_in_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_in_value(byte: u8) -> bool {
    !matches!(byte, b'\t'..=b'\r' | b' ') && !b"\"'<>\\,;(){}[]".contains(&byte)
}

// Returns the start of a match whose token begins at `at`. The token must follow a word boundary,
// or an escaped line break or tab. The escape is part of the match. Returns `None` otherwise.
fn starts_after_break(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes[..at] {
        [.., b'\\', b'n' | b'r' | b't'] => Some(at - 2),
        [.., before] if is_word(before) => None,
        _ => Some(at),
    }
}

// Returns the possible starts of a scheme that ends before `end`.
fn starts_of_scheme(bytes: &[u8], end: usize) -> impl Iterator<Item = usize> {
    let is_in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte);
    let starts = (end.saturating_sub(SCHEME)..end).rev();
    starts.take_while(move |at| is_in_scheme(bytes[*at])).filter(move |at| {
        let is_first = *at == 0 || !is_word(bytes[*at - 1]);
        is_first && end - at > 1 && bytes[*at].is_ascii_alphabetic()
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests;
