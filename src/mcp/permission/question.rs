//! The question that is put to a person.

use serde_json::{Value, json};

use crate::budget;
use crate::budget::Wanted;
use crate::permission::risk::Risk;
use crate::tool_name::TrueName;
use ctxfs_core::model::visible;

/// The member of the answer that holds one of [`Answer::ALL`].
const ANSWER: &str = "answer";
/// Bytes of a name.
const NAME_BYTES: usize = 200;
/// Bytes of all arguments together, and of each at least.
const ARGUMENTS_BYTES: usize = 2000;
const LEAST_BYTES: usize = 40;
/// The most arguments that are shown.
const MOST_ARGUMENTS: usize = 30;

/// An answer of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// This call.
    Once,
    /// Every call of the tool in this conversation.
    Conversation,
    /// Every call of the tool.
    Always,
    /// Not this call.
    No,
}

impl Answer {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 4] = [Self::Once, Self::Conversation, Self::Always, Self::No];

    /// Returns the text that is offered, which is also the value of the answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "allow once",
            Self::Conversation => "allow for this conversation",
            Self::Always => "always allow",
            Self::No => "no",
        }
    }

    /// Reads the answer from the result of an elicitation. Whatever does not clearly allow the call
    /// is a no.
    pub fn of_result(result: &Value) -> Self {
        if result["action"].as_str() != Some("accept") {
            return Self::No;
        }
        let said = result["content"][ANSWER].as_str();
        Self::ALL.into_iter().find(|answer| said == Some(answer.as_str())).unwrap_or(Self::No)
    }
}

/// A question about a call.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool.
    pub tool: &'a TrueName,
    /// Its risk.
    pub risk: Risk,
    /// The arguments of the call.
    pub arguments: &'a Value,
}

impl Question<'_> {
    /// Returns the text, in which every line is ours: what servers and models chose is on one line
    /// each, with hidden characters as escapes, and what is left out is named.
    pub fn text(&self) -> String {
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

    /// Returns the parameters of `elicitation/create`, valid in all revisions that have it.
    pub fn request(&self) -> Value {
        json!({
            "message": self.text(),
            "requestedSchema": {
                "type": "object",
                "properties": {
                    ANSWER: {
                        "type": "string",
                        "title": "Answer",
                        "description": "`always allow` is kept in permissions.toml of the store",
                        "enum": Answer::ALL.map(Answer::as_str),
                    },
                },
                "required": [ANSWER],
            },
        })
    }
}

/// Adds a line for each member. They share the room fairly, so that a long one hides no other.
fn push_members(text: &mut String, members: &[(&str, &Value)]) {
    let shown = &members[..members.len().min(MOST_ARGUMENTS)];
    let values: Vec<String> = shown.iter().map(|(_, value)| value.to_string()).collect();
    let size = |value: &String| visible::escaped(value, ARGUMENTS_BYTES).len();
    let wanted = |value| Wanted { size: size(value), least: LEAST_BYTES };
    let wanted: Vec<Wanted> = values.iter().map(wanted).collect();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(tool: &str, arguments: &Value) -> String {
        let tool = TrueName { server: "github".to_owned(), tool: tool.to_owned() };
        Question { tool: &tool, risk: Risk::Write, arguments }.text()
    }

    #[test]
    fn it_shows_server_tool_risk_and_arguments() {
        let arguments = json!({"title": "It's \"broken\"", "labels": ["a"], "body": "1\n2"});
        assert_eq!(
            text("create_issue", &arguments),
            "Allow this call?\nserver: github\ntool: create_issue\nrisk: write\narguments:\n  \
             body: \"1\\n2\"\n  labels: [\"a\"]\n  title: \"It's \\\"broken\\\"\"\n"
        );
        assert!(text("t", &json!({})).ends_with("arguments: none\n"));
        assert!(text("t", &json!("x")).ends_with("arguments: \"x\"\n"));
    }

    #[test]
    fn nobody_can_forge_a_line() {
        let arguments = json!({"a\nrisk: read": "\u{202e}x\u{2028}risk: read\u{7f}"});
        let shown = text("t\nrisk: read\u{1b}[2J", &arguments);
        assert!(shown.contains("tool: t\\nrisk: read\\u{1b}[2J\n"), "{shown}");
        assert!(shown.contains("  a\\nrisk: read: \"\\u{202e}x\\u{2028}risk: read\\u{7f}\"\n"));
        assert_eq!(shown.lines().filter(|line| line.starts_with("risk: ")).count(), 1);
    }

    #[test]
    fn a_long_argument_hides_no_other() {
        let shown = text("t", &json!({"a": "x".repeat(100_000), "b": "rm -rf /"}));
        assert!(shown.contains("  b: \"rm -rf /\"\n"));
        assert!(shown.contains("more bytes)\n"), "{shown}");
        let many: serde_json::Map<_, _> =
            (0..500).map(|n| (format!("k{n:03}"), json!("y".repeat(900)))).collect();
        let shown = text("t", &Value::Object(many));
        assert!(shown.contains("  k029: ") && shown.ends_with("  ... (470 more arguments)\n"));
    }

    #[test]
    fn what_does_not_clearly_allow_is_a_no() {
        for answer in Answer::ALL {
            let result = json!({"action": "accept", "content": {"answer": answer.as_str()}});
            assert_eq!(Answer::of_result(&result), answer);
            for action in ["decline", "cancel", "", "Accept"] {
                let result = json!({"action": action, "content": {"answer": answer.as_str()}});
                assert_eq!(Answer::of_result(&result), Answer::No);
            }
        }
        for odd in [
            json!({"action": "accept"}),
            json!(null),
            json!({"action": "accept",
            "content": {"answer": "yes"}}),
            json!({"action": "accept", "content": ["allow once"]}),
        ] {
            assert_eq!(Answer::of_result(&odd), Answer::No, "{odd}");
        }
    }

    #[test]
    fn the_request_offers_every_answer() {
        let tool = TrueName { server: "s".to_owned(), tool: "t".to_owned() };
        let request = Question { tool: &tool, risk: Risk::Read, arguments: &json!({}) }.request();
        let offered = &request["requestedSchema"]["properties"]["answer"]["enum"];
        let all = json!(["allow once", "allow for this conversation", "always allow", "no"]);
        assert_eq!(offered, &all);
    }

    proptest! {
        #[test]
        fn it_is_bounded(
            tool in any::<String>(),
            members in prop::collection::btree_map(any::<String>(), any::<String>(), 0..60),
        ) {
            let shown = text(&tool, &json!(members));
            prop_assert!(shown.len() < 16_000, "{}", shown.len());
            prop_assert!(!shown.replace('\n', "").chars().any(visible::is_hidden));
        }
    }
}
