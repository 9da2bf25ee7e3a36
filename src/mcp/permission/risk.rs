//! What a call may do.

use std::fmt;

use serde_json::Value;

use crate::permission::glob_rules::{GlobRules, InvalidGlob};

/// What a call may do, as far as that is known. The order is by how much care it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// It only reads.
    Read,
    /// It changes something.
    Write,
    /// It runs what its arguments say.
    Execute,
    /// Nobody who is trusted has said.
    Unknown,
}

impl Risk {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Execute, Self::Unknown];

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the risk of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.as_str() == word)
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a server says of one of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Annotations {
    /// `readOnlyHint`.
    pub read_only: bool,
}

impl Annotations {
    /// Reads the annotations of a tool as `tools/list` has it. What is no boolean says nothing.
    pub fn of_tool(tool: &Value) -> Self {
        let hint = &tool["annotations"]["readOnlyHint"];
        Self { read_only: hint.as_bool().unwrap_or(false) }
    }

    /// A tool that does not say it only reads may write, whatever its `destructiveHint`: one that
    /// only adds changes something, too.
    fn risk(self) -> Risk {
        if self.read_only { Risk::Read } else { Risk::Write }
    }
}

/// The user's globs of tools with their risks.
#[derive(Debug, Clone, Default)]
pub struct RiskRules(GlobRules<Risk>);

impl RiskRules {
    /// Adds a rule.
    pub fn add(&mut self, pattern: &str, risk: Risk) -> Result<(), InvalidGlob> {
        self.0.add(pattern, risk)
    }

    /// Returns the risk of `tool`, a `server/tool`. `trusted` are its annotations, if its server is
    /// trusted.
    pub fn risk(&self, tool: &str, trusted: Option<Annotations>) -> Risk {
        let said = self.0.find(tool).map(|(_, risk)| risk);
        said.or_else(|| trusted.map(Annotations::risk)).unwrap_or(Risk::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_count_only_for_trusted_servers() {
        let hints = |hints: Value| Annotations::of_tool(&json!({"annotations": hints}));
        let table = [
            (json!({"readOnlyHint": true}), Risk::Read),
            (json!({"readOnlyHint": true, "destructiveHint": true}), Risk::Read),
            (json!({"readOnlyHint": false, "destructiveHint": false}), Risk::Write),
            (json!({"destructiveHint": true}), Risk::Write),
            (json!({"readOnlyHint": "true"}), Risk::Write),
            (json!({}), Risk::Write),
            (json!(null), Risk::Write),
            (json!([true]), Risk::Write),
        ];
        let rules = RiskRules::default();
        for (said, expected) in table {
            assert_eq!(rules.risk("s/t", Some(hints(said.clone()))), expected, "{said}");
        }
        assert_eq!(rules.risk("s/t", None), Risk::Unknown);
        assert_eq!(Annotations::of_tool(&json!("no object")), Annotations::default());
    }

    #[test]
    fn the_users_globs_come_first() {
        let mut rules = RiskRules::default();
        rules.add("shell/*", Risk::Execute).unwrap();
        rules.add("*/list_*", Risk::Read).unwrap();
        let reads = Some(Annotations { read_only: true });
        assert_eq!(rules.risk("shell/run", reads), Risk::Execute);
        assert_eq!(rules.risk("fs/list_files", None), Risk::Read);
        assert_eq!(rules.risk("shell/list_jobs", None), Risk::Read);
        assert_eq!(rules.risk("fs/write", reads), Risk::Read);
        // Equally long: the one that needs more care.
        rules.add("shell/l*", Risk::Write).unwrap();
        assert_eq!(rules.risk("shell/list_jobs", None), Risk::Write);
    }

    #[test]
    fn every_risk_has_a_word() {
        assert!(Risk::ALL.into_iter().all(|risk| Risk::of_word(risk.as_str()) == Some(risk)));
        assert_eq!(Risk::of_word("Read"), None);
    }
}
