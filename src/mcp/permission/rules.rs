//! Risks of tools and rules about calls, both by globs of `server/tool` of which the longest decides.

use std::fmt;

use globset::{Glob, GlobMatcher};
use serde_json::Value;

/// The verdict of a rule on a call. `Ask` puts the question to the user; `Deny` refuses without
/// asking. Of rules of equal length, the greatest verdict decides, so that `Deny` wins over `Ask`
/// and `Ask` over `Allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

impl Verdict {
    /// In the order of strictness.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Returns the word in files and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Parses such a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verdict on a call and the rule behind it, which the model is told if the call is refused and
/// which the log of the conversation has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Ruling {
    pub verdict: Verdict,
    pub source: RuleSource,
}

/// The source of a verdict: a pattern, the default of a risk, or unreadable rules, which allow
/// nothing without the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RuleSource {
    Rule(String),
    Default(Risk),
    Unreadable,
}

/// All rules of a user. Without any, calls that read are allowed, and the user is asked about
/// others.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    globs: GlobRules<Verdict>,
    defaults: [Option<Verdict>; Risk::ALL.len()],
    unreadable: bool,
}

impl Rules {
    /// Adds a rule for tools that match `pattern`, a glob of `server/tool` in which `*` also
    /// matches `/`.
    pub fn add(&mut self, pattern: &str, verdict: Verdict) -> Result<(), InvalidGlob> {
        self.globs.add(pattern, verdict)
    }

    /// Sets the default for calls of a risk that no pattern matches. The stricter of two defaults
    /// holds.
    pub fn add_default(&mut self, risk: Risk, verdict: Verdict) {
        let default = &mut self.defaults[risk as usize];
        *default = Some(verdict).max(*default);
    }

    /// Adds a rule by its key in `[permissions]`: a word for a risk, or a pattern.
    pub fn add_by_key(&mut self, key: &str, verdict: Verdict) -> Result<(), InvalidGlob> {
        match Risk::of_word(key) {
            Some(risk) => self.add_default(risk, verdict),
            None => self.add(key, verdict)?,
        }
        Ok(())
    }

    /// Records that some rules could not be read. As one of them may deny a call, none is allowed
    /// without the user from here on.
    pub fn add_unreadable(&mut self) {
        self.unreadable = true;
    }

    /// Returns the ruling on a call of `tool`, a `server/tool`. The longest matching pattern decides,
    /// else the default of the risk. With unreadable rules, an allowed call is asked about.
    pub fn rule(&self, tool: &str, risk: Risk) -> Ruling {
        let (verdict, source) = match self.globs.find(tool) {
            Some((pattern, verdict)) => (verdict, RuleSource::Rule(pattern.to_owned())),
            None => (self.default_for(risk), RuleSource::Default(risk)),
        };
        if self.unreadable && verdict == Verdict::Allow {
            return Ruling { verdict: Verdict::Ask, source: RuleSource::Unreadable };
        }
        Ruling { verdict, source }
    }

    /// Returns the verdict on calls of a risk that no pattern matches.
    pub fn default_for(&self, risk: Risk) -> Verdict {
        let usual = if risk == Risk::Read { Verdict::Allow } else { Verdict::Ask };
        self.defaults[risk as usize].unwrap_or(usual)
    }
}

/// The effect that a call may have, in the order of the care that it needs. `Execute` runs what the
/// arguments say; `Unknown` means that no trusted source says. It comes from the user's globs, else
/// from the annotations of a trusted server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Risk {
    Read,
    Write,
    Execute,
    Unknown,
}

impl Risk {
    /// In the order of the care that they need.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::Unknown];

    /// Returns the word in files and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Unknown => "unknown",
        }
    }

    /// Parses such a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.as_str() == word)
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The annotations of a tool that decide about its risk. `destructiveHint` does not: adding something
/// is a change too, so only a tool that claims to read is trusted with less care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Annotations {
    pub read_only: bool,
}

impl Annotations {
    pub(crate) fn of_tool(tool: &Value) -> Self {
        let hint = &tool["annotations"]["readOnlyHint"];
        Self { read_only: hint.as_bool().unwrap_or(false) }
    }

    fn risk(self) -> Risk {
        if self.read_only { Risk::Read } else { Risk::Write }
    }
}

/// The user's risks of tools, by glob of `server/tool`. They come before what servers say; the
/// longest matching glob decides.
#[derive(Debug, Clone, Default)]
pub struct RiskRules(GlobRules<Risk>);

impl RiskRules {
    /// Adds the risk of tools that match `pattern`, a glob of `server/tool`.
    pub fn add(&mut self, pattern: &str, risk: Risk) -> Result<(), InvalidGlob> {
        self.0.add(pattern, risk)
    }

    /// Returns the risk of `tool`, a `server/tool`. `trusted` are its annotations if its server is
    /// trusted.
    pub fn risk(&self, tool: &str, trusted: Option<Annotations>) -> Risk {
        let configured = self.0.find(tool).map(|(_, risk)| risk);
        configured.or_else(|| trusted.map(Annotations::risk)).unwrap_or(Risk::Unknown)
    }
}

/// A pattern that is no glob. The message names the pattern and the error in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern of tools: {why}")]
pub struct InvalidGlob {
    pattern: String,
    why: String,
}

/// Values by globs of `server/tool`. `*` also matches `/`, as in `[tool."..."]` of the settings.
#[derive(Debug, Clone)]
struct GlobRules<T>(Vec<GlobRule<T>>);

impl<T> Default for GlobRules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[derive(Debug, Clone)]
struct GlobRule<T> {
    pattern: String,
    matcher: GlobMatcher,
    value: T,
}

impl<T: Copy + Ord> GlobRules<T> {
    pub(crate) fn add(&mut self, pattern: &str, value: T) -> Result<(), InvalidGlob> {
        let glob = Glob::new(pattern).map_err(|error| InvalidGlob {
            pattern: pattern.to_owned(),
            why: error.kind().to_string(),
        })?;
        let (pattern, matcher) = (pattern.to_owned(), glob.compile_matcher());
        self.0.push(GlobRule { pattern, matcher, value });
        Ok(())
    }

    /// Returns the longest pattern that matches `tool`, with its value. Of patterns of equal
    /// length, the one with the greatest value decides.
    pub(crate) fn find(&self, tool: &str) -> Option<(&str, T)> {
        let matching = self.0.iter().filter(|rule| rule.matcher.is_match(tool));
        let longest = matching.max_by_key(|rule| (rule.pattern.chars().count(), rule.value))?;
        Some((&longest.pattern, longest.value))
    }
}

#[cfg(test)]
mod tests;
