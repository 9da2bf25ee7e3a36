//! What tools of MCP servers may do: the tables `[permissions]` and `[risk]`.

use std::collections::BTreeMap;

use ctxfs_mcp::permission::{Risk, RiskRules, Rules, Verdict};

/// The names of the tables.
pub(super) const PERMISSIONS: &str = "permissions";
pub(super) const RISK: &str = "risk";

/// The rules of one file, or of all, by patterns of `server/tool`; in `[permissions]` also by risks.
#[derive(Debug, Default, Clone)]
pub(crate) struct CallRules {
    permissions: BTreeMap<String, Verdict>,
    risks: BTreeMap<String, Risk>,
}

impl CallRules {
    /// Adds a rule to the table of this name. Of two with one pattern, the stricter holds. Fails with
    /// the words that a rule can have.
    pub(super) fn insert(
        &mut self,
        table: &str,
        pattern: &str,
        word: &str,
    ) -> Result<(), &'static str> {
        if table == RISK {
            let risk = Risk::of_word(word).filter(|risk| *risk != Risk::Unknown);
            stricter(&mut self.risks, pattern, risk.ok_or("read, write or execute")?);
        } else {
            let verdict = Verdict::of_word(word).ok_or("allow, ask or deny")?;
            stricter(&mut self.permissions, pattern, verdict);
        }
        Ok(())
    }

    /// Adds the rules of another file.
    pub(super) fn add(&mut self, other: &Self) {
        for (pattern, verdict) in &other.permissions {
            stricter(&mut self.permissions, pattern, *verdict);
        }
        for (pattern, risk) in &other.risks {
            stricter(&mut self.risks, pattern, *risk);
        }
    }

    /// Returns the tables with their rules, as a settings file has them.
    pub(super) fn tables(&self) -> [(&'static str, BTreeMap<&str, &'static str>); 2] {
        let permissions =
            self.permissions.iter().map(|(key, verdict)| (key.as_str(), verdict.as_str()));
        let risks = self.risks.iter().map(|(key, risk)| (key.as_str(), risk.as_str()));
        [(PERMISSIONS, permissions.collect()), (RISK, risks.collect())]
    }

    /// Returns the rules of what may be called.
    pub(crate) fn permissions(&self) -> Rules {
        let mut rules = Rules::default();
        for (pattern, verdict) in &self.permissions {
            if rules.add_by_key(pattern, *verdict).is_err() {
                // It was checked when it was read.
                rules.add_unreadable();
            }
        }
        rules
    }

    /// Returns the user's risks of tools.
    pub(crate) fn risks(&self) -> RiskRules {
        let mut rules = RiskRules::default();
        for (pattern, risk) in &self.risks {
            // It was checked when it was read.
            let _checked = rules.add(pattern, *risk);
        }
        rules
    }
}

fn stricter<W: Ord + Copy>(rules: &mut BTreeMap<String, W>, pattern: &str, word: W) {
    let rule = rules.entry(pattern.to_owned()).or_insert(word);
    *rule = word.max(*rule);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::file::SettingsFile;

    fn calls(text: &str) -> Result<CallRules, String> {
        let file = SettingsFile::parse(Path::new("ctxfs.toml"), text);
        file.map(|file| file.calls).map_err(|failure| failure.to_string())
    }

    #[test]
    fn rules_are_patterns_with_words() {
        let text = "[permissions]\n\"fs/*\" = \"allow\"\nexecute = \"deny\"\n[risk]\n\"sh/*\" = \"execute\"\n";
        let mut all = calls(text).unwrap();
        all.add(&calls("[permissions]\n\"fs/*\" = \"deny\"\n").unwrap());
        let (rules, risks) = (all.permissions(), all.risks());
        assert_eq!(rules.rule("fs/x", Risk::Read).verdict, Verdict::Deny);
        assert_eq!(risks.risk("sh/run", None), Risk::Execute);
        assert_eq!(rules.default_for(Risk::Execute), Verdict::Deny);
    }

    #[test]
    fn a_wrong_word_or_pattern_is_named() {
        for (text, told) in [
            ("[permissions]\n\"fs/*\" = \"yes\"\n", "`fs/*` can be allow, ask or deny"),
            ("[risk]\n\"fs/[\" = \"read\"\n", "is not a pattern"),
            ("[risk]\nx = 1\n", "`x` can be read, write or execute"),
            ("risk = 1\n", "`risk`"),
        ] {
            let error = calls(text).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
