//! Decides about calls: risks of tools, rules, and questions to the user.

pub(crate) mod decision;
pub(crate) mod rule_file;
pub(crate) mod rules;
pub(crate) mod state_token;

pub use rule_file::{KeepRuleError, keep};
pub use rules::{
    Annotations, InvalidGlob, Risk, RiskRules, RuleAuthor, RuleSource, Rules, Ruling, Verdict,
};
