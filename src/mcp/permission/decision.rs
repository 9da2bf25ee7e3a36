//! Decides about a call. Defines the question to the user and the log line.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::budget::{self, SizeRequest};
use crate::permission::rule_file::pattern_of;
use crate::permission::rules::{Risk, RuleSource, Rules, Verdict};
use crate::permission::state_token::ArgumentsDigest;
use crate::tool_name::ServerTool;
use ctxfs_core::model::visible;

const NAME_BYTES: usize = 200;
const ANSWER: &str = "answer";
// Maximum size in bytes of all shown arguments, and the minimum for each argument.
const ARGUMENTS_BYTES: usize = 2000;
const MIN_BYTES: usize = 40;
const MAX_ARGUMENTS: usize = 30;

/// The decision about a call: the call is made, the user is asked first, or the call is refused.
/// [`Decider`] is the origin of the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed(Decider),
    Ask,
    Refused(Decider),
}

/// The origin of a decision: rules, the user now, or the user earlier in this conversation.
/// `NobodyToAsk` means that the call was refused because the client cannot ask the user, and
/// `NoAnswer` that the client was asked, but did not bring an answer of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decider {
    Rules(RuleSource),
    Person(UserAnswer),
    Conversation,
    NobodyToAsk,
    NoAnswer,
}

/// The tools that the user has allowed in a conversation. The list is kept only in memory, because
/// an agent could edit the files of the conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionAllowances(HashSet<ServerTool>);

impl SessionAllowances {
    /// Stores what `answer` allows beyond the current call. [`UserAnswer::Always`] is stored here
    /// too, in addition to the rule that it adds.
    pub(crate) fn keep(&mut self, tool: &ServerTool, answer: UserAnswer) {
        if matches!(answer, UserAnswer::Conversation | UserAnswer::Always) {
            self.0.insert(tool.clone());
        }
    }
}

/// Decides about a call of `tool`. `can_ask` is true if the client can ask the user.
pub(crate) fn decide(
    rules: &Rules,
    remembered: &SessionAllowances,
    tool: &ServerTool,
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
    pub(crate) fn of_answer(answer: UserAnswer) -> Self {
        match answer {
            UserAnswer::Once | UserAnswer::Conversation | UserAnswer::Always => {
                Self::Allowed(Decider::Person(answer))
            }
            UserAnswer::No => Self::Refused(Decider::Person(answer)),
            UserAnswer::Missing => Self::Refused(Decider::NoAnswer),
        }
    }
}

impl Decider {
    pub(crate) fn refusal(&self, tool: &ServerTool, risk: Risk) -> String {
        let name = visible::escaped(&tool.to_string(), NAME_BYTES);
        match self {
            Self::Rules(RuleSource::Rule(pattern)) => {
                format!("`{name}` is denied by the rule `{pattern}`. Do without it.")
            }
            Self::Rules(_) => format!("`{name}` is denied: its risk is {risk}. Do without it."),
            Self::Person(_) | Self::Conversation => {
                format!("A person refused this call of `{name}`. Do not repeat it.")
            }
            Self::NoAnswer => format!(
                "The call of `{name}` was not made: the user was to be asked, and the client brought \
                 no answer. Nobody has refused it."
            ),
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

/// Returns a command that allows `tool` and is safe to paste into a shell. Returns `None` if the
/// name has hidden characters, because the user could not see what they paste.
fn allow_line(tool: &ServerTool) -> Option<String> {
    let pattern = pattern_of(tool);
    if pattern.chars().any(visible::is_hidden) || pattern.starts_with('-') {
        return None;
    }
    let quoted = shlex::try_quote(&pattern).ok()?;
    Some(format!("ctxfs mcp allow {quoted}"))
}

/// The user's answer to the question about a call: allow this call only, allow all calls of the
/// tool in this conversation, allow all calls of the tool from now on, or refuse this call.
/// `Missing` means that the user gave none of these answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum UserAnswer {
    Once,
    Conversation,
    Always,
    No,
    Missing,
}

impl UserAnswer {
    pub(crate) const ALL: [Self; 4] = [Self::Once, Self::Conversation, Self::Always, Self::No];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Once => "allow once",
            Self::Conversation => "allow for this conversation",
            Self::Always => "always allow",
            Self::No => "no",
            Self::Missing => "no answer",
        }
    }

    /// Reads the answer from the result of an elicitation. Returns `Missing` for a result that
    /// neither clearly allows nor clearly refuses the call.
    pub(crate) fn of_result(result: &Value) -> Self {
        let given = result["content"][ANSWER].as_str();
        match result["action"].as_str() {
            Some("accept") => Self::ALL.into_iter().find(|answer| given == Some(answer.as_str())),
            Some("decline") => Some(Self::No),
            _ => None,
        }
        .unwrap_or(Self::Missing)
    }
}

/// The question to the user about a call. The texts in it come from servers and models, and must
/// not be able to forge a line of the question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallQuestion<'a> {
    pub(crate) tool: &'a ServerTool,
    pub(crate) risk: Risk,
    pub(crate) arguments: &'a Value,
}

impl CallQuestion<'_> {
    /// Returns the text of the question. Each value chosen by a server or a model is on one line,
    /// with hidden characters escaped, so it cannot forge a line. Omitted arguments are counted.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "Allow this call?\nserver: {}\ntool: {}\nrisk: {}\n",
            visible::escaped(&self.tool.server, NAME_BYTES),
            visible::escaped(&self.tool.tool, NAME_BYTES),
            self.risk
        );
        match self.arguments {
            Value::Object(members) if members.is_empty() => text += "arguments: none\n",
            Value::Object(members) => {
                text += "arguments:\n";
                let members: Vec<_> = members.iter().map(|(k, v)| (k.as_str(), v)).collect();
                push_members(&mut text, &members);
            }
            other => {
                let shown = visible::escaped(&other.to_string(), ARGUMENTS_BYTES);
                text.extend(["arguments: ", &shown, "\n"]);
            }
        }
        text
    }

    pub(crate) fn request(&self) -> Value {
        json!({
            "message": self.text(),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    ANSWER: {
                        "type": "string",
                        "title": "Answer",
                        "description": "`always allow` is kept in permissions.toml of the store",
                        "enum": UserAnswer::ALL.map(UserAnswer::as_str),
                    },
                },
                "required": [ANSWER],
            },
        })
    }
}

fn push_members(text: &mut String, members: &[(&str, &Value)]) {
    let shown = &members[..members.len().min(MAX_ARGUMENTS)];
    let values: Vec<String> = shown.iter().map(|(_, value)| value.to_string()).collect();
    let size = |value: &String| visible::escaped(value, ARGUMENTS_BYTES).len();
    let wanted = |value| SizeRequest { size: size(value), min: MIN_BYTES };
    let wanted: Vec<SizeRequest> = values.iter().map(wanted).collect();
    let shares = budget::shares(&wanted, ARGUMENTS_BYTES);
    for (((name, _), value), share) in shown.iter().zip(&values).zip(shares) {
        let (name, value) = (visible::escaped(name, NAME_BYTES), visible::escaped(value, share));
        text.extend(["  ", &name, ": ", &value, "\n"]);
    }
    if members.len() > shown.len() {
        let more = (members.len() - shown.len()).to_string();
        text.extend(["  ... (", &more, " more arguments)\n"]);
    }
}

/// A line of `history/permissions.jsonl`. Arguments are logged as a digest, because they may be
/// secret.
#[derive(Debug)]
pub(crate) struct DecisionRecord<'a> {
    pub(crate) time: u64,
    pub(crate) tool: &'a ServerTool,
    pub(crate) risk: Risk,
    pub(crate) arguments: ArgumentsDigest,
    pub(crate) decision: &'a Decision,
}

impl DecisionRecord<'_> {
    pub(crate) fn text(&self) -> String {
        let (decision, by) = match self.decision {
            Decision::Allowed(by) => ("allowed", Some(by)),
            Decision::Ask => ("asked", None),
            Decision::Refused(by) => ("refused", Some(by)),
        };
        let line = json!({
            "time": self.time,
            "server": self.tool.server,
            "tool": self.tool.tool,
            "risk": self.risk.as_str(),
            "arguments": self.arguments.to_string(),
            "decision": decision,
            "by": by.map(who),
            "rule": by.and_then(which),
        });
        format!("{line}\n")
    }
}

fn who(decider: &Decider) -> &'static str {
    match decider {
        Decider::Rules(RuleSource::Rule(_)) => "rule",
        Decider::Rules(RuleSource::Default(_)) => "default",
        Decider::Rules(RuleSource::Unreadable) => "unreadable rules",
        Decider::Person(_) => "person",
        Decider::Conversation => "person, earlier",
        Decider::NobodyToAsk => "nobody to ask",
        Decider::NoAnswer => "no answer",
    }
}

fn which(decider: &Decider) -> Option<&str> {
    match decider {
        Decider::Rules(RuleSource::Rule(pattern)) => Some(pattern),
        Decider::Rules(RuleSource::Default(risk)) => Some(risk.as_str()),
        Decider::Person(answer) => Some(answer.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
