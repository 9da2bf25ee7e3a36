//! The lines of `history/permissions.jsonl`.

use serde_json::json;

use crate::permission::arguments_digest::ArgumentsDigest;
use crate::permission::decision::{Decider, Decision};
use crate::permission::risk::Risk;
use crate::permission::rules::RuleSource;
use crate::tool_name::TrueName;

/// A decision about a call. Arguments are logged as their digest: they may hold secrets.
#[derive(Debug)]
pub struct LogLine<'a> {
    /// Milliseconds since the epoch.
    pub time: u64,
    /// The tool.
    pub tool: &'a TrueName,
    /// Its risk.
    pub risk: Risk,
    /// The digest of the arguments.
    pub arguments: ArgumentsDigest,
    /// The decision.
    pub decision: &'a Decision,
}

impl LogLine<'_> {
    /// Returns the line, with its newline.
    pub fn text(&self) -> String {
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
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::permission::question::Answer;

    fn line(decision: &Decision) -> Value {
        let tool = TrueName { server: "s".to_owned(), tool: "t\n\u{202e}".to_owned() };
        let arguments = ArgumentsDigest::of(&json!({"token": "hunter2"}));
        let text = LogLine { time: 5, tool: &tool, risk: Risk::Write, arguments, decision }.text();
        assert!(text.ends_with('\n') && text.lines().count() == 1 && !text.contains("hunter2"));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn it_says_what_was_decided_and_by_whom() {
        let rule = |pattern: &str| Decider::Rules(RuleSource::Rule(pattern.to_owned()));
        let table = [
            (Decision::Allowed(rule("s/*")), json!(["allowed", "rule", "s/*"])),
            (Decision::Refused(rule("s/*")), json!(["refused", "rule", "s/*"])),
            (
                Decision::Allowed(Decider::Rules(RuleSource::Default(Risk::Read))),
                json!(["allowed", "default", "read"]),
            ),
            (Decision::of_answer(Answer::Always), json!(["allowed", "person", "always allow"])),
            (Decision::of_answer(Answer::No), json!(["refused", "person", "no"])),
            (Decision::Allowed(Decider::Conversation), json!(["allowed", "person, earlier", null])),
            (Decision::Refused(Decider::NobodyToAsk), json!(["refused", "nobody to ask", null])),
            (Decision::Ask, json!(["asked", null, null])),
        ];
        for (decision, expected) in table {
            let line = line(&decision);
            assert_eq!(json!([line["decision"], line["by"], line["rule"]]), expected);
            assert_eq!(
                json!([line["time"], line["server"], line["risk"]]),
                json!([5, "s", "write"])
            );
            assert_eq!(line["arguments"].as_str().unwrap().len(), 64);
        }
    }
}
