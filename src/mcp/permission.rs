//! Whether a call may be made: its risk, the rules, and the user who is asked.

pub(crate) mod decision;
pub(crate) mod rule_file;
pub(crate) mod rules;
pub(crate) mod state_token;

pub use rule_file::{KeepRuleError, keep};
pub use rules::{InvalidGlob, Risk, RiskRules, Rules, Verdict};
