//! Rules about calls, and risks of tools. Both use globs of `server/tool`; the longest matching
//! glob decides.

use std::fmt;

use globset::{Glob, GlobMatcher};
use serde_json::Value;

/// The verdict of a rule on a call. `Ask` asks the user; `Deny` refuses without asking. If several
/// rules of equal length match, the strictest verdict decides: `Deny` before `Ask`, `Ask` before
/// `Allow`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Verdict {
    Allow,
    Ask,
    Deny,
}

impl Verdict {
    /// All verdicts, least strict first.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Returns the word for the verdict in files and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Parses the word for a verdict.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verdict on a call, and the rule that gave this verdict. The rule is logged in the
/// conversation, and the model is told about it if the call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Ruling {
    pub verdict: Verdict,
    pub source: RuleSource,
}

/// The source of a verdict: a pattern, the default verdict for the risk of the call, or the fact
/// that some rules are unreadable. In the last case, no call is allowed without asking the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RuleSource {
    Rule(String),
    Default(Risk),
    Unreadable,
}

/// The author of a rule. The administrator's rules also decide like any other rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum RuleAuthor {
    Administrator,
    User,
}

/// The rules about calls. Without any rule, calls that read are allowed, and the user is asked
/// about all other calls.
///
/// The rules of the administrator are a floor: no other rule allows what they refuse or ask about,
/// however long its pattern is.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    all: RuleSet,
    floor: RuleSet,
    unreadable: bool,
}

#[derive(Debug, Clone, Default)]
struct RuleSet {
    globs: GlobRules<Verdict>,
    defaults: [Option<Verdict>; Risk::ALL.len()],
}

impl RuleSet {
    // Adds a rule by its key in `[permissions]`. If a risk is added twice, the stricter verdict
    // applies.
    fn add(&mut self, key: &str, verdict: Verdict) -> Result<(), InvalidGlob> {
        let Some(risk) = Risk::of_word(key) else { return self.globs.add(key, verdict) };
        let default = &mut self.defaults[risk as usize];
        *default = Some(verdict).max(*default);
        Ok(())
    }

    fn find(&self, tool: &str, risk: Risk) -> Option<Ruling> {
        let of_glob = self.globs.find(tool).map(|(pattern, verdict)| Ruling {
            verdict,
            source: RuleSource::Rule(pattern.to_owned()),
        });
        let of_risk = |verdict| Ruling { verdict, source: RuleSource::Default(risk) };
        of_glob.or_else(|| self.defaults[risk as usize].map(of_risk))
    }
}

impl Rules {
    /// Adds a rule by its key in `[permissions]`: the word for a risk, or a glob of `server/tool`.
    /// In a glob, `*` also matches `/`.
    pub fn add(
        &mut self,
        key: &str,
        verdict: Verdict,
        author: RuleAuthor,
    ) -> Result<(), InvalidGlob> {
        if author == RuleAuthor::Administrator {
            self.floor.add(key, verdict)?;
        }
        self.all.add(key, verdict)
    }

    /// Records that some rules could not be read. Since one of them may deny a call, no call is
    /// allowed without asking the user from then on.
    pub fn add_unreadable(&mut self) {
        self.unreadable = true;
    }

    /// Returns the ruling on a call of `tool`, which has the form `server/tool`. The longest
    /// matching pattern decides, or else the default verdict for `risk`. A stricter ruling of the
    /// administrator's rules alone takes its place. If some rules are unreadable, `Allow` becomes
    /// `Ask`.
    pub fn rule(&self, tool: &str, risk: Risk) -> Ruling {
        let usual = if risk == Risk::Read { Verdict::Allow } else { Verdict::Ask };
        let usual = || Ruling { verdict: usual, source: RuleSource::Default(risk) };
        let ruling = self.all.find(tool, risk).unwrap_or_else(usual);
        let floor = self.floor.find(tool, risk).filter(|floor| floor.verdict > ruling.verdict);
        let ruling = floor.unwrap_or(ruling);
        if self.unreadable && ruling.verdict == Verdict::Allow {
            return Ruling { verdict: Verdict::Ask, source: RuleSource::Unreadable };
        }
        ruling
    }
}

/// The effect that a call may have. `Execute` runs code or commands from the arguments. `Unknown`
/// means that no trusted source states the risk. The risk comes from the user's globs, or else from
/// the annotations of a trusted server. Values are ordered from the lowest to the highest risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Risk {
    Read,
    Write,
    Execute,
    Unknown,
}

impl Risk {
    /// All risks, lowest first.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::Unknown];

    /// Returns the word for the risk in files and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Unknown => "unknown",
        }
    }

    /// Parses the word for a risk.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.as_str() == word)
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The annotations of a tool that determine its risk: `Read` if the tool is annotated as read-only,
/// and `Write` otherwise. `destructiveHint` is ignored, because a call that only adds something is
/// a change too.
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

/// The error for a pattern that is not a valid glob. The message names the pattern and the fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern of tools: {why}")]
pub struct InvalidGlob {
    pattern: String,
    why: String,
}

/// The risks of tools in the settings, which override the servers' annotations. A tool has at least
/// the risk that the administrator states.
#[derive(Debug, Clone, Default)]
pub struct RiskRules {
    all: GlobRules<Risk>,
    floor: GlobRules<Risk>,
}

/// Values by globs of `server/tool`. In a glob, `*` also matches `/`, as in `[tool."..."]` of the
/// settings. The longest matching glob decides.
#[derive(Debug, Clone)]
struct GlobRules<T>(Vec<GlobRule<T>>);

impl<T> Default for GlobRules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl RiskRules {
    /// Sets the risk of tools that match `pattern`.
    pub fn add(
        &mut self,
        pattern: &str,
        risk: Risk,
        author: RuleAuthor,
    ) -> Result<(), InvalidGlob> {
        if author == RuleAuthor::Administrator {
            self.floor.add(pattern, risk)?;
        }
        self.all.add(pattern, risk)
    }

    /// Returns the risk of `tool`, which has the form `server/tool`. `trusted` holds the tool's
    /// annotations if its server is trusted.
    pub fn risk(&self, tool: &str, trusted: Option<Annotations>) -> Risk {
        let configured = self.all.find(tool).map(|(_, risk)| risk);
        let risk = configured.or_else(|| trusted.map(Annotations::risk)).unwrap_or(Risk::Unknown);
        self.floor.find(tool).map_or(risk, |(_, floor)| floor.max(risk))
    }
}

#[derive(Debug, Clone)]
struct GlobRule<T> {
    pattern: String,
    matcher: GlobMatcher,
    value: T,
}

impl<T: Copy + Ord> GlobRules<T> {
    fn add(&mut self, pattern: &str, value: T) -> Result<(), InvalidGlob> {
        let glob = Glob::new(pattern).map_err(|error| InvalidGlob {
            pattern: pattern.to_owned(),
            why: error.kind().to_string(),
        })?;
        let (pattern, matcher) = (pattern.to_owned(), glob.compile_matcher());
        self.0.push(GlobRule { pattern, matcher, value });
        Ok(())
    }

    /// Returns the longest pattern that matches `tool`, with its value. If several patterns have
    /// equal length, the one with the greatest value is returned.
    fn find(&self, tool: &str) -> Option<(&str, T)> {
        let matching = self.0.iter().filter(|rule| rule.matcher.is_match(tool));
        let longest = matching.max_by_key(|rule| (rule.pattern.chars().count(), rule.value))?;
        Some((&longest.pattern, longest.value))
    }
}

#[cfg(test)]
mod tests;
