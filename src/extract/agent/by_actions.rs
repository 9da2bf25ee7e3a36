//! The agent without tool calls: one JSON object a turn, whose form a schema prescribes.
//!
//! Small models keep to this if the program keeps the rules: the numbers of lines are an
//! enumeration of those that were shown, an action that repeats is not offered in the next turn,
//! and the last turn offers the answer alone. After a look that shows nothing new comes the last turn:
//! from then on a small model only repeats itself.

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
use crate::extract::wrapper::Wrapper;

/// The most lines that an answer can choose from: those that were shown last.
const CHOICE: usize = 200;
/// The most characters of the words of a look.
const WORDS: usize = 80;
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

/// Answers by actions. The first look is there as if the model had taken it: where its lines stand in
/// the question, a small model does not answer from them.
pub(super) fn answer(
    inquiry: &Inquiry<'_>,
    form: LineForm,
    brief: &Brief,
) -> Result<AgentAnswer, ModeError> {
    let profile = inquiry.model.profile();
    let mut looks = LookLog::new(brief);
    let wrapper = inquiry.wrapper();
    let first = [("text", &*brief.facts), ("again", "")];
    let mut request = inquiry.request((Prompt::ActionSystem, Prompt::Action), &wrapper, &first);
    let words: String = inquiry.question.chars().take(WORDS).collect();
    let look = json!({"found": false, "look": "find", "words": words}).to_string();
    let seen = brief.seen.text();
    request.turns.extend(looked(inquiry, &wrapper, (look, &seen), Prompt::Action));
    // Most models would do what was done for them once more.
    let mut repeated = Some(brief.look.name());
    let steps = inquiry.settings.max_steps.max(1);
    let is_last = |step, looks: &LookLog| step >= steps || looks.was_barren;
    for step in 1..=steps {
        let last = is_last(step, &looks);
        let offered = LOOKS.iter().filter(|name| !last && repeated != Some(**name));
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
        let prompt = if is_last(step + 1, &looks) { Prompt::ActionLast } else { Prompt::Action };
        request.turns.extend(looked(inquiry, &wrapper, (reply.text, &text), prompt));
    }
    Err(ModeError::Steps { target: profile.target.clone(), steps })
}

/// Returns the turns of a look and of what it showed.
fn looked(
    inquiry: &Inquiry<'_>,
    wrapper: &Wrapper,
    (look, text): (String, &str),
    prompt: Prompt,
) -> [Turn; 2] {
    let more = [("text", text), ("again", " in another way")];
    let shown = Turn::User(inquiry.filled(prompt, wrapper, &more));
    [Turn::Model { text: look, calls: Vec::new() }, shown]
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
    let text = |most: usize| json!({"type": "string", "maxLength": most});
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
            "find" => json!({"found": no, "look": {"const": name}, "words": text(WORDS)}),
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
