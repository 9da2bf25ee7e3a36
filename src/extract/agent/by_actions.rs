//! The agent without tool calls: one JSON object a turn, whose form a schema prescribes.
//!
//! Small models keep to this if the program keeps the rules: the numbers of lines are an
//! enumeration of those that were shown, an action that repeats is not offered in the next turn,
//! and the last turn offers the answer alone.

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use crate::extract::Turn;
use crate::extract::agent::AgentAnswer;
use crate::extract::agent::LookLog;
use crate::extract::agent::make_room;
use crate::extract::asking::CallKind;
use crate::extract::brief::Brief;
use crate::extract::inquiry::Inquiry;
use crate::extract::look::LineForm;
use crate::extract::look::Look;
use crate::extract::mode_error::ModeError;
use crate::extract::prompt::Prompt;

/// The most lines that an answer can choose from: those that were shown last.
const CHOICE: usize = 200;
/// The looks, in the order in which they are offered.
const LOOKS: [&str; 3] = ["find", "grep", "read"];

/// A reply.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ActionReply {
    Answer {
        #[serde(default)]
        lines: Vec<u64>,
        text: String,
    },
    Find {
        words: String,
    },
    Grep {
        pattern: String,
        #[serde(default)]
        ignore_case: bool,
    },
    Read {
        from: u64,
        to: u64,
    },
}

/// Answers by actions.
pub(super) fn answer(
    inquiry: &Inquiry<'_>,
    form: LineForm,
    brief: &Brief,
) -> Result<AgentAnswer, ModeError> {
    let profile = inquiry.model.profile();
    let mut looks = LookLog::new(brief);
    let wrapper = inquiry.wrapper();
    let first = [("text", &*brief.text()), ("again", "")];
    let mut request = inquiry.request((Prompt::ActionSystem, Prompt::Action), &wrapper, &first);
    let mut repeated = None;
    let steps = inquiry.settings.max_steps.max(1);
    for step in 1..=steps {
        let offered = LOOKS.iter().filter(|name| step < steps && repeated != Some(**name));
        request.schema = Some(schema(&looks, &offered.copied().collect::<Vec<_>>()));
        make_room(&mut request, profile.context_tokens);
        let reply = inquiry.asking.ask(CallKind::Agent, inquiry.model, &request)?;
        let text = match action(&reply.text) {
            Some(ActionReply::Answer { lines, text }) => {
                return Ok(AgentAnswer { text, lines, looks: looks.named() });
            }
            Some(action) => {
                let look = action.look().ok_or_else(|| inquiry.no_form())?;
                repeated = looks.taken.contains(&look).then(|| look.name());
                looks.take(inquiry, form, look)?.text()
            }
            None => "(The reply is no JSON object of the required form.)".to_owned(),
        };
        let prompt = if step + 1 == steps { Prompt::ActionLast } else { Prompt::Action };
        request.turns.push(Turn::Model { text: reply.text, calls: Vec::new() });
        let more = [("text", &*text), ("again", " in another way")];
        request.turns.push(Turn::User(inquiry.filled(prompt, &wrapper, &more)));
    }
    Err(ModeError::Steps { target: profile.target.clone(), steps })
}

impl ActionReply {
    fn look(self) -> Option<Look> {
        match self {
            Self::Answer { .. } => None,
            Self::Find { words } => Some(Look::Find { words }),
            Self::Grep { pattern, ignore_case } => Some(Look::Grep { pattern, ignore_case }),
            Self::Read { from, to } => Some(Look::Read { from, to }),
        }
    }
}

/// Reads a reply: the object in it, whatever stands around it.
fn action(reply: &str) -> Option<ActionReply> {
    let (start, end) = (reply.find('{')?, reply.rfind('}')?);
    serde_json::from_str(reply.get(start..=end)?).ok()
}

/// Returns the schema of the next reply.
fn schema(looks: &LookLog, offered: &[&str]) -> Value {
    let object = |properties: Value| {
        let required: Vec<String> =
            properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let text = |most: u32| json!({"type": "string", "maxLength": most});
    let line = json!({"type": "integer"});
    let no = json!({"const": false});
    let shown: Vec<u64> = looks.shown.iter().rev().take(CHOICE).rev().copied().collect();
    let mut answer = json!({"found": {"const": true}, "text": text(400)});
    if !shown.is_empty() {
        answer["lines"] =
            json!({"type": "array", "items": {"enum": shown}, "minItems": 1, "maxItems": 3});
    }
    let mut forms = vec![object(answer)];
    // Whether something is found comes first in the order of keys: a model decides that before it
    // says how to look on.
    for name in offered {
        forms.push(object(match *name {
            "find" => json!({"found": no, "look": {"const": name}, "words": text(80)}),
            "grep" => json!({
                "found": no,
                "ignore_case": {"type": "boolean"},
                "look": {"const": name},
                "pattern": text(60),
            }),
            _ => json!({"found": no, "from": line, "look": {"const": name}, "to": line}),
        }));
    }
    json!({"oneOf": forms})
}
