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

pub use arguments_digest::ArgumentsDigest;
pub use decision::Decider;
pub use decision::Decision;
pub use decision::Remembered;
pub use decision::allow_line;
pub use decision::decide;
pub use glob_rules::InvalidGlob;
pub use log_line::LogLine;
pub use question::Answer;
pub use question::Question;
pub use risk::Annotations;
pub use risk::Risk;
pub use risk::RiskRules;
pub use rule_file::FileRules;
pub use rule_file::NotToml;
pub use rule_file::RuleFlaw;
pub use rule_file::pattern_of;
pub use rule_file::with_rule;
pub use rules::RuleSource;
pub use rules::Rules;
pub use rules::Ruling;
pub use rules::Verdict;
pub use state_token::BoundCall;
pub use state_token::StateError;
pub use state_token::StateKey;
