//! The decision about one call.

use std::collections::HashSet;

use crate::permission::question::Answer;
use crate::permission::risk::Risk;
use crate::permission::rule_file::pattern_of;
use crate::permission::rules::{RuleSource, Rules, Verdict};
use crate::tool_name::TrueName;
use ctxfs_core::model::visible;

/// Bytes of a name in a text.
const NAME_BYTES: usize = 200;

/// The treatment of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is made.
    Allowed(Decider),
    /// A person is asked first.
    Ask,
    /// It is not made.
    Refused(Decider),
}

/// The one that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decider {
    /// A rule or a default.
    Rules(RuleSource),
    /// A person, now.
    Person(Answer),
    /// A person, earlier in this conversation.
    Conversation,
    /// A person would have to be asked, and the client cannot do that.
    NobodyToAsk,
}

/// The tools that a person has allowed for a conversation. It is kept in memory alone: what stands
/// in the conversation's files an agent can write.
#[derive(Debug, Clone, Default)]
pub struct Remembered(HashSet<TrueName>);

impl Remembered {
    /// Keeps what `answer` says beyond the call. That of [`Answer::Always`] counts here too, beside
    /// the rule that it is written to.
    pub fn keep(&mut self, tool: &TrueName, answer: Answer) {
        if matches!(answer, Answer::Conversation | Answer::Always) {
            self.0.insert(tool.clone());
        }
    }
}

/// Decides about a call of `tool`. `can_ask` says whether the client can put a question to a
/// person, in whatever way.
pub fn decide(
    rules: &Rules,
    remembered: &Remembered,
    tool: &TrueName,
    risk: Risk,
    can_ask: bool,
) -> Decision {
    let ruling = rules.rule(&tool.to_string(), risk);
    match ruling.verdict {
        Verdict::Deny => Decision::Refused(Decider::Rules(ruling.source)),
        Verdict::Allow => Decision::Allowed(Decider::Rules(ruling.source)),
        Verdict::Ask if remembered.0.contains(tool) => Decision::Allowed(Decider::Conversation),
        Verdict::Ask if can_ask => Decision::Ask,
        Verdict::Ask => Decision::Refused(Decider::NobodyToAsk),
    }
}

impl Decision {
    /// Returns the decision that an answer makes.
    pub fn of_answer(answer: Answer) -> Self {
        match answer {
            Answer::Once | Answer::Conversation | Answer::Always => {
                Self::Allowed(Decider::Person(answer))
            }
            Answer::No => Self::Refused(Decider::Person(answer)),
        }
    }
}

impl Decider {
    /// Returns what the model is told of a refused call of `tool`.
    pub fn refusal(&self, tool: &TrueName, risk: Risk) -> String {
        let name = visible::escaped(&tool.to_string(), NAME_BYTES);
        match self {
            Self::Rules(RuleSource::Rule(pattern)) => {
                format!("`{name}` is denied by the rule `{pattern}`. Do without it.")
            }
            Self::Rules(_) => format!("`{name}` is denied: its risk is {risk}. Do without it."),
            Self::Person(_) | Self::Conversation => {
                format!("A person refused this call of `{name}`. Do not repeat it.")
            }
            Self::NobodyToAsk => {
                let how = allow_line(tool).map_or_else(String::new, |line| {
                    format!(" The user can allow it in a terminal: {line}")
                });
                format!(
                    "`{name}` ({risk}) needs a person's permission, and this client cannot ask \
                     for it.{how}"
                )
            }
        }
    }
}

/// Returns the command that allows `tool`, safe to paste into a shell. A name with hidden
/// characters has none, as nobody could see what they paste.
pub fn allow_line(tool: &TrueName) -> Option<String> {
    let pattern = pattern_of(tool);
    if pattern.chars().any(visible::is_hidden) || pattern.starts_with('-') {
        return None;
    }
    let quoted = shlex::try_quote(&pattern).ok()?;
    Some(format!("ctxfs mcp allow {quoted}"))
}

#[cfg(test)]
mod tests;
