//! Whether a call may be made: its risk, the rules, and the person who is asked.

mod arguments_digest;
mod decision;
mod glob_rules;
mod log_line;
mod question;
mod risk;
mod rule_file;
mod rules;
mod state_token;
mod stored;

pub use arguments_digest::ArgumentsDigest;
pub use decision::{Decider, Decision, Remembered, allow_line, decide};
pub use glob_rules::InvalidGlob;
pub use log_line::LogLine;
pub use question::{Answer, Question};
pub use risk::{Annotations, Risk, RiskRules};
pub use rule_file::{FileRules, NotToml, RuleFlaw, pattern_of, with_rule};
pub use rules::{RuleSource, Rules, Ruling, Verdict};
pub use state_token::{BoundCall, StateError, StateKey};
pub use stored::{NotKept, add_stored, keep};
