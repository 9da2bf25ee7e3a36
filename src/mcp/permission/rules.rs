//! The rules of what may be called: from the settings, and from `permissions.toml` in the store.

use std::fmt;

use crate::permission::glob_rules::{GlobRules, InvalidGlob};
use crate::permission::risk::Risk;

/// What a rule says of a call. Of equal rules the greatest decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It is made.
    Allow,
    /// A person is asked.
    Ask,
    /// It is not made, and nobody is asked.
    Deny,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// Returns the verdict of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.as_str() == word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verdict on a call, and the rule behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The verdict.
    pub verdict: Verdict,
    /// Its source.
    pub source: RuleSource,
}

/// The rule that decides about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleSource {
    /// The rule with this pattern.
    Rule(String),
    /// The default for calls of this risk.
    Default(Risk),
    /// Some rules could not be read, so nothing is allowed without a person.
    Unreadable,
}

/// All rules. Without any, calls that read are allowed, and a person is asked about the others.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    globs: GlobRules<Verdict>,
    defaults: [Option<Verdict>; Risk::ALL.len()],
    unreadable: bool,
}

impl Rules {
    /// Adds a rule for the tools that match `pattern`, a glob of `server/tool`.
    pub fn add(&mut self, pattern: &str, verdict: Verdict) -> Result<(), InvalidGlob> {
        self.globs.add(pattern, verdict)
    }

    /// Adds a default for calls of a risk. Of two, the stricter one holds.
    pub fn add_default(&mut self, risk: Risk, verdict: Verdict) {
        let default = &mut self.defaults[risk as usize];
        *default = Some(verdict).max(*default);
    }

    /// Adds a rule by its key in `[permissions]`: the word of a risk, or a pattern.
    pub fn add_by_key(&mut self, key: &str, verdict: Verdict) -> Result<(), InvalidGlob> {
        match Risk::of_word(key) {
            Some(risk) => self.add_default(risk, verdict),
            None => self.add(key, verdict)?,
        }
        Ok(())
    }

    /// Says that there are rules that could not be read. From here on nothing is allowed without a
    /// person, as one of those may have denied it.
    pub fn add_unreadable(&mut self) {
        self.unreadable = true;
    }

    /// Returns what the rules say of a call of `tool`, a `server/tool`.
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

    /// Returns all patterns with their verdicts, in the order in which they were added.
    pub fn all(&self) -> impl Iterator<Item = (&str, Verdict)> {
        self.globs.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rules_reads_are_allowed_and_others_asked() {
        let rules = Rules::default();
        for risk in Risk::ALL {
            let verdict = if risk == Risk::Read { Verdict::Allow } else { Verdict::Ask };
            let expected = Ruling { verdict, source: RuleSource::Default(risk) };
            assert_eq!(rules.rule("s/t", risk), expected);
        }
    }

    #[test]
    fn deny_comes_before_ask_before_allow() {
        let mut rules = Rules::default();
        for verdict in [Verdict::Allow, Verdict::Ask] {
            rules.add("s/*", verdict).unwrap();
        }
        assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Ask);
        rules.add("*/t", Verdict::Deny).unwrap();
        assert_eq!(rules.rule("s/t", Risk::Read).source, RuleSource::Rule("*/t".to_owned()));
        rules.add("s/t", Verdict::Allow).unwrap();
        assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Deny);
        rules.add("s/t*", Verdict::Allow).unwrap();
        assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Allow);
    }

    #[test]
    fn defaults_are_by_risk_and_the_stricter_holds() {
        let mut rules = Rules::default();
        rules.add_by_key("write", Verdict::Allow).unwrap();
        rules.add_by_key("read", Verdict::Deny).unwrap();
        rules.add_by_key("read", Verdict::Ask).unwrap();
        let of = |risk| rules.rule("s/t", risk).verdict;
        assert_eq!(Risk::ALL.map(of), [Verdict::Deny, Verdict::Allow, Verdict::Ask, Verdict::Ask]);
    }

    #[test]
    fn with_unreadable_rules_nothing_is_allowed_without_a_person() {
        let mut rules = Rules::default();
        rules.add("s/t", Verdict::Allow).unwrap();
        rules.add("s/no", Verdict::Deny).unwrap();
        rules.add_unreadable();
        let asked = Ruling { verdict: Verdict::Ask, source: RuleSource::Unreadable };
        assert_eq!(rules.rule("s/t", Risk::Read), asked);
        assert_eq!(rules.rule("other/x", Risk::Read), asked);
        assert_eq!(rules.rule("s/no", Risk::Read).verdict, Verdict::Deny);
    }
}
