//! Compiled rules, and the secrets that they find.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::LazyLock;
use std::vec;

use regex::bytes::Regex;
use regex_automata::{Anchored, Input, PatternID, meta};

use crate::redact::known::{KnownPatterns, KnownRuns, Match, PatternStart, Run, compile, group};
use crate::redact::mask;
use crate::redact::sets::{PatternSet, SecretCheck};

/// Maximum length of a secret in bytes. The length includes the context that the pattern of the
/// secret needs.
pub(super) const REACH: usize = 16 * 1024;
/// Number of bytes before the [`REACH`] bytes in front of a block. If a line begins in these bytes,
/// the search for secrets begins there. A search that begins inside a line may mistake part of a
/// word for a whole word.
pub(super) const LINE: usize = 4 * 1024;
// The name is limited because it appears in every mask.
const NAME_BYTES: usize = 32;
// Maximum length of the last line of a private key.
const KEY_END_BYTES: usize = 71;

/// A user-defined rule. `name` appears in its masks. `regex` matches the secret, or the secret with
/// its context. The group `secret` of a match is masked. Without such a group, the first group is
/// masked; without any group, the whole match.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Rule {
    pub name: String,
    pub regex: String,
}

/// The reason why rules are not valid.
///
/// - `Name`: the name cannot appear in a mask.
/// - `Regex`: the regular expression does not parse or is too large.
/// - `Empty`: the regular expression matches the empty text.
/// - `TooLarge`: all rules together are too large.
///
/// The first three contain the index of the rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant has a message")]
pub enum RuleError {
    #[error("a rule's name is 1 to 32 letters, digits, `-` and `_`")]
    Name(usize),
    #[error("the regex is not valid: {1}")]
    Regex(usize, String),
    #[error("the regex matches the empty text")]
    Empty(usize),
    #[error("the rules together are too large")]
    TooLarge,
}

impl RuleError {
    /// Returns the index of the invalid rule, or `None` if all rules together are too large.
    pub fn rule(&self) -> Option<usize> {
        match self {
            Self::Name(rule) | Self::Regex(rule, _) | Self::Empty(rule) => Some(*rule),
            Self::TooLarge => None,
        }
    }
}

/// Compiled rules that find secrets. User-defined rules have precedence over the sets.
pub struct SecretRules {
    own: Option<meta::Regex>,
    known: KnownPatterns,
    own_count: usize,
    patterns: Vec<CompiledRule>,
    pub(super) names: Vec<String>,
}

struct CompiledRule {
    name: String,
    check: SecretCheck,
    group: Option<usize>,
}

pub(super) struct FoundSecret<'a> {
    pub(super) name: &'a str,
    pub(super) range: Range<usize>,
}

impl SecretRules {
    /// Compiles the user-defined rules `own` and the patterns of `sets`. Earlier rules have
    /// precedence, and `own` comes first. Fails if a rule is not valid, or if all rules together
    /// are too large.
    pub fn new(sets: &[&PatternSet], own: &[Rule]) -> Result<Self, RuleError> {
        for (number, rule) in own.iter().enumerate() {
            check(number, rule)?;
        }
        let known: Vec<_> = sets.iter().flat_map(|set| set.patterns).collect();
        let regexes: Vec<&str> = own.iter().map(|rule| rule.regex.as_str()).collect();
        let regex =
            if own.is_empty() { None } else { Some(compile(&regexes).ok_or(RuleError::TooLarge)?) };
        let mut patterns = Vec::new();
        for (number, rule) in own.iter().enumerate() {
            let group = regex.as_ref().and_then(|regex| group(regex, PatternID::must(number)));
            let name = rule.name.clone();
            patterns.push(CompiledRule { name, check: SecretCheck::None, group });
        }
        patterns.extend(known.iter().map(|pattern| CompiledRule {
            name: pattern.label.to_owned(),
            check: pattern.check,
            group: None,
        }));
        let mut names: Vec<String> = Vec::new();
        for CompiledRule { name, .. } in &patterns {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let (known, own_count) =
            (KnownPatterns::new(&known).ok_or(RuleError::TooLarge)?, own.len());
        Ok(Self { own: regex, known, own_count, patterns, names })
    }

    /// Returns the secrets that begin in `bytes` at or after `from`, in order. Searches only the
    /// bytes as they are. [`SecretRules::secrets`] also searches other forms in which readers may
    /// see them, such as without escapes; see the module `rendition`.
    pub(super) fn find<'a, 'b>(
        &'a self,
        bytes: &'b [u8],
        from: usize,
    ) -> impl Iterator<Item = FoundSecret<'a>> + use<'a, 'b> {
        let mut matches = Matches::new(self, bytes, from);
        let mut at = from;
        std::iter::from_fn(move || {
            loop {
                let found = matches.next(at)?;
                let (secret, next) = self.secret(bytes, &found, &mut matches.runs);
                at = next;
                if secret.is_some() {
                    return secret;
                }
            }
        })
    }

    // Returns the secret of the match, or `None` if the match fails its check. Also returns the
    // index at which to continue the search.
    fn secret(
        &self,
        bytes: &[u8],
        found: &Match,
        runs: &mut KnownRuns,
    ) -> (Option<FoundSecret<'_>>, usize) {
        let CompiledRule { name, check, .. } = &self.patterns[found.rule];
        let Some(end) = accepted(bytes, &found.inner, *check, runs) else {
            return (None, found.inner.start.max(found.start + 1));
        };
        let range = widened(found.inner.start..end, found.start);
        (Some(FoundSecret { name, range }), end.max(found.end).max(found.start + 1))
    }
}

/// Finds the matches in a text as if all patterns were alternatives of a single regex.
struct Matches<'r, 'b> {
    rules: &'r SecretRules,
    bytes: &'b [u8],
    candidates: Peekable<vec::IntoIter<PatternStart>>,
    runs: KnownRuns,
    // The cache for the regex of user-defined rules. It is new for each search, because hostile
    // text may fill a cache with states that make later searches slow.
    own_cache: Option<meta::Cache>,
    own: NextOwn,
}

enum NextOwn {
    Unknown,
    None,
    At(Match),
}

impl<'r, 'b> Matches<'r, 'b> {
    fn new(rules: &'r SecretRules, bytes: &'b [u8], from: usize) -> Self {
        Self {
            rules,
            bytes,
            candidates: rules.known.candidates(bytes, from).into_iter().peekable(),
            runs: KnownRuns::default(),
            own_cache: rules.own.as_ref().map(meta::Regex::create_cache),
            own: NextOwn::Unknown,
        }
    }

    // Returns the next match. `at` must not decrease from call to call.
    fn next(&mut self, at: usize) -> Option<Match> {
        let own = self.next_own(at);
        loop {
            let candidate = self.candidates.peek().copied();
            let is_first = |candidate: &PatternStart| {
                own.as_ref().is_none_or(|own| candidate.start < own.start)
            };
            let Some(candidate) = candidate.filter(is_first) else { return own };
            self.candidates.next();
            if candidate.start >= at
                && let Some(mut found) =
                    self.rules.known.find(self.bytes, candidate, &mut self.runs)
            {
                found.rule += self.rules.own_count;
                return Some(found);
            }
        }
    }

    fn next_own(&mut self, at: usize) -> Option<Match> {
        let (regex, cache) = (self.rules.own.as_ref()?, self.own_cache.as_mut()?);
        match &self.own {
            NextOwn::At(own) if own.start >= at => return Some(own.clone()),
            NextOwn::None => return None,
            NextOwn::At(_) | NextOwn::Unknown => {}
        }
        let is_inside = at <= self.bytes.len();
        let found = is_inside
            .then(|| own_match(regex, cache, &self.rules.patterns, self.bytes, at))
            .flatten();
        self.own = found.clone().map_or(NextOwn::None, NextOwn::At);
        found
    }
}

fn own_match(
    regex: &meta::Regex,
    cache: &mut meta::Cache,
    rules: &[CompiledRule],
    bytes: &[u8],
    at: usize,
) -> Option<Match> {
    let found = regex.search_with(cache, &Input::new(bytes).range(at..))?;
    let (rule, range) = (found.pattern().as_usize(), found.range());
    let inner = rules[rule].group.and_then(|group| {
        let mut groups = regex.create_captures();
        let anchored = Anchored::Pattern(found.pattern());
        let input = Input::new(bytes).range(range.clone()).anchored(anchored);
        regex.search_captures_with(cache, &input, &mut groups);
        groups.get_group(group).map(|span| span.range())
    });
    Some(Match { rule, start: range.start, inner: inner.unwrap_or(range.clone()), end: range.end })
}

impl std::fmt::Debug for SecretRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretRules").field("names", &self.names).finish_non_exhaustive()
    }
}

fn check(number: usize, rule: &Rule) -> Result<(), RuleError> {
    let name = rule.name.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || name.len() > NAME_BYTES || !name.iter().all(plain) {
        return Err(RuleError::Name(number));
    }
    let regex = Regex::new(&rule.regex).map_err(|error| {
        let message = error.to_string();
        // The message begins with the pattern and ends with the description of the error.
        let last = message.lines().last().unwrap_or_default();
        RuleError::Regex(number, last.trim_start_matches("error: ").trim().to_owned())
    })?;
    if regex.is_match(b"") { Err(RuleError::Empty(number)) } else { Ok(()) }
}

// Returns the end of the secret that begins with `inner`, or `None` if `inner` fails the check.
fn accepted(
    bytes: &[u8],
    inner: &Range<usize>,
    check: SecretCheck,
    runs: &mut KnownRuns,
) -> Option<usize> {
    let value = &bytes[inner.clone()];
    match check {
        SecretCheck::None => Some(inner.end),
        SecretCheck::Literal => is_literal(value).then_some(inner.end),
        SecretCheck::Mixed => {
            // A fold without an early exit compiles to vector instructions.
            let letters = value.iter().fold(false, |has, byte| has | byte.is_ascii_alphabetic());
            let digits = value.iter().fold(false, |has, byte| has | byte.is_ascii_digit());
            let mixed = letters && digits;
            (mixed && is_literal(value)).then_some(inner.end)
        }
        SecretCheck::Key => key_end(bytes, inner, &mut runs.keyless),
    }
}

// Returns true if the value is neither a placeholder nor a mask.
fn is_literal(value: &[u8]) -> bool {
    !matches!(value.first(), Some(b'$' | b'{' | b'%' | b'*' | b'[' | b'<'))
}

// Extends a short secret to the left within its match, so that its mask is long enough to be
// recognized.
fn widened(secret: Range<usize>, start: usize) -> Range<usize> {
    let wanted = secret.end.saturating_sub(mask::LEAST);
    secret.start.min(wanted.max(start))..secret.end
}

/// Returns the end of the private key whose first line is `first`. This is the end of the last line
/// of the key. If that is missing, it is the end of the last line that looks like part of a key.
///
/// Calls must be in the order of the first lines. `keyless` is a range in which no last line
/// begins; it is updated for the next call.
fn key_end(bytes: &[u8], first: &Range<usize>, keyless: &mut Run) -> Option<usize> {
    let farthest = bytes.len().min(first.start + REACH);
    let start = first.end.min(farthest);
    let from = start.max(keyless.range.end);
    if let Some(last) = KEY_END.find(&bytes[from..farthest]) {
        return Some(from + last.end());
    }
    keyless.set(from..from.max(farthest.saturating_sub(KEY_END_BYTES)));
    let body = KEY_BODY.find(&bytes[start..farthest])?;
    (!body.is_empty()).then_some(start + body.end())
}

static KEY_END: LazyLock<Regex> = LazyLock::new(|| {
    let regex = r"(?-u)-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";
    Regex::new(regex).expect("it is tested")
});

static KEY_BODY: LazyLock<Regex> = LazyLock::new(|| {
    let gap = r"(?:\s|\\[nrt])+";
    let line = "[A-Za-z0-9+/=]{32,}";
    let header = r"(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]{0,100}";
    let last = format!("{gap}[A-Za-z0-9+/=]{{1,31}}");
    // The limit of 8 headers is more than any key has. Without it, many headers would be scanned
    // again for each first line among them.
    let headers = format!("(?:{gap}{header}){{0,8}}");
    let regex = format!(r"(?-u)\A(?:{headers}(?:{gap}{line})+(?:{last})?)?");
    Regex::new(&regex).expect("it is tested")
});

#[cfg(test)]
mod tests;
