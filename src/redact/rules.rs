//! Rules: patterns, compiled into one, and the secrets that they find.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;
use regex_automata::Anchored;
use regex_automata::Input;
use regex_automata::PatternID;
use regex_automata::meta;
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;

use crate::redact::block::REACH;
use crate::redact::mask;
use crate::redact::sets::PatternSet;
use crate::redact::sets::SecretCheck;

/// Memory of the compiled patterns.
const PATTERN_BYTES: usize = 10 << 20;
/// Bytes of the longest name of a rule, which appears in every mask.
const NAME_BYTES: usize = 32;
/// The name of the group in a user's pattern that is the secret.
const SECRET: &str = "secret";

/// A rule of the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The name in its masks.
    pub name: String,
    /// A regular expression. Its group `secret` is masked, else its first group, else the whole
    /// match.
    pub regex: String,
}

/// The reason why rules are not valid. The number is that of the rule, from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A name that cannot appear in a mask.
    #[error("a rule's name is 1 to 32 letters, digits, `-` and `_`")]
    Name(usize),
    /// A regular expression that does not parse, or is too large.
    #[error("the regex is not valid: {1}")]
    Regex(usize, String),
    /// A regular expression that matches the empty text.
    #[error("the regex matches the empty text")]
    Empty(usize),
    /// Rules that together are too large.
    #[error("the rules together are too large")]
    TooLarge,
}

impl RuleError {
    /// Returns the number of the invalid rule, or none if all of them together are too large.
    pub fn rule(&self) -> Option<usize> {
        match self {
            Self::Name(rule) | Self::Regex(rule, _) | Self::Empty(rule) => Some(*rule),
            Self::TooLarge => None,
        }
    }
}

/// Compiled rules that find secrets.
pub struct SecretRules {
    regex: meta::Regex,
    patterns: Vec<CompiledRule>,
    names: Vec<String>,
}

/// A rule whose pattern is compiled.
struct CompiledRule {
    name: String,
    check: SecretCheck,
    /// The group that is the secret.
    group: Option<usize>,
}

/// A secret that was found.
pub(super) struct Secret<'a> {
    pub(super) name: &'a str,
    pub(super) range: Range<usize>,
}

impl SecretRules {
    /// Compiles the user's `own` rules and the patterns of `sets`, in this order.
    pub fn new(sets: &[&PatternSet], own: &[Rule]) -> Result<Self, RuleError> {
        for (number, rule) in own.iter().enumerate() {
            check(number, rule)?;
        }
        let own =
            own.iter().map(|rule| (rule.name.as_str(), rule.regex.as_str(), SecretCheck::None));
        let known = sets.iter().flat_map(|set| set.patterns);
        let all = own.chain(known.map(|pattern| (pattern.label, pattern.regex, pattern.check)));
        let all: Vec<(&str, &str, SecretCheck)> = all.collect();
        let regexes: Vec<&str> = all.iter().map(|(_, regex, _)| *regex).collect();
        let regex = meta::Regex::builder()
            .configure(meta::Config::new().nfa_size_limit(Some(PATTERN_BYTES)).utf8_empty(false))
            .syntax(syntax::Config::new().utf8(false).multi_line(true))
            .build_many(&regexes)
            .map_err(|_| RuleError::TooLarge)?;
        let mut patterns = Vec::new();
        let mut names = Vec::new();
        for (number, (name, _, check)) in all.into_iter().enumerate() {
            let group = group(&regex, PatternID::must(number));
            patterns.push(CompiledRule { name: name.to_owned(), check, group });
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(Self { regex, patterns, names })
    }

    /// Returns the names that masks can have.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the secrets that begin in `bytes` from `from` on, in order, as far as they are seen
    /// in the bytes themselves; see [`SecretRules::secrets`].
    pub(super) fn find<'a, 'b>(
        &'a self,
        bytes: &'b [u8],
        from: usize,
    ) -> impl Iterator<Item = Secret<'a>> + use<'a, 'b> {
        let mut at = from;
        let mut groups = self.regex.create_captures();
        std::iter::from_fn(move || {
            loop {
                let (secret, next) = self.next(bytes, at, &mut groups)?;
                at = next;
                if secret.is_some() {
                    return secret;
                }
            }
        })
    }

    /// Finds the next match. Returns its secret, if it is one, and the index to continue from.
    fn next<'a>(
        &'a self,
        bytes: &[u8],
        at: usize,
        groups: &mut Captures,
    ) -> Option<(Option<Secret<'a>>, usize)> {
        if at > bytes.len() {
            return None;
        }
        let found = self.regex.find(Input::new(bytes).range(at..))?;
        let known = &self.patterns[found.pattern().as_usize()];
        let inner = self.inner(bytes, &found, known, groups);
        let Some(end) = accepted(bytes, &inner, known.check) else {
            return Some((None, inner.start.max(found.start() + 1)));
        };
        let range = widened(inner.start..end, found.start());
        let next = end.max(found.end()).max(found.start() + 1);
        Some((Some(Secret { name: &known.name, range }), next))
    }

    /// Returns the range of the secret in a match.
    fn inner(
        &self,
        bytes: &[u8],
        found: &regex_automata::Match,
        known: &CompiledRule,
        groups: &mut Captures,
    ) -> Range<usize> {
        let Some(group) = known.group else { return found.range() };
        let anchored = Anchored::Pattern(found.pattern());
        let input = Input::new(bytes).range(found.range()).anchored(anchored);
        self.regex.search_captures(&input, groups);
        groups.get_group(group).map_or(found.range(), |span| span.range())
    }
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
        // The message begins with the pattern and ends with the error.
        let last = message.lines().last().unwrap_or_default();
        RuleError::Regex(number, last.trim_start_matches("error: ").trim().to_owned())
    })?;
    if regex.is_match(b"") { Err(RuleError::Empty(number)) } else { Ok(()) }
}

fn group(regex: &meta::Regex, pattern: PatternID) -> Option<usize> {
    let info = regex.group_info();
    let first = (info.group_len(pattern) > 1).then_some(1);
    info.to_index(pattern, SECRET).or(first)
}

/// Returns the end of the secret that begins with `inner`, or none if that is no secret.
fn accepted(bytes: &[u8], inner: &Range<usize>, check: SecretCheck) -> Option<usize> {
    let value = &bytes[inner.clone()];
    match check {
        SecretCheck::None => Some(inner.end),
        SecretCheck::Literal => is_literal(value).then_some(inner.end),
        SecretCheck::Mixed => {
            let has = |kind: fn(&u8) -> bool| value.iter().any(kind);
            let mixed = has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit);
            (mixed && is_literal(value)).then_some(inner.end)
        }
        SecretCheck::Key => key_end(bytes, inner),
    }
}

/// Returns true if a value is no placeholder and no mask.
fn is_literal(value: &[u8]) -> bool {
    !matches!(value.first(), Some(b'$' | b'{' | b'%' | b'*' | b'[' | b'<'))
}

/// Extends a short secret to the left, into the match that begins at `start`, so that its mask can
/// be recognised.
fn widened(secret: Range<usize>, start: usize) -> Range<usize> {
    let wanted = secret.end.saturating_sub(mask::LEAST);
    secret.start.min(wanted.max(start))..secret.end
}

/// Returns the end of the private key whose first line is `first`: that of its last line, if there
/// is one, else that of the last line that looks like part of a key.
fn key_end(bytes: &[u8], first: &Range<usize>) -> Option<usize> {
    let farthest = bytes.len().min(first.start + REACH);
    let rest = &bytes[first.end.min(farthest)..farthest];
    let body = || KEY_BODY.find(rest).map(|body| body.end()).filter(|length| *length > 0);
    let length = KEY_END.find(rest).map(|end| end.end()).or_else(body)?;
    Some(first.end + length)
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
    let regex = format!(r"(?-u)\A(?:(?:{gap}{header})*(?:{gap}{line})+(?:{last})?)?");
    Regex::new(&regex).expect("it is tested")
});

#[cfg(test)]
mod tests;
