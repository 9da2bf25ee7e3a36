//! The agent without tool calls. The model sends one JSON object per turn, in the format of a
//! schema.
//!
//! Small models answer well only if the program limits their choice in each turn:
//!
//! - An answer may cite only lines that were shown. Before the first line, no answer is offered.
//! - If the model repeats an action, the next turn does not offer that action.
//! - The last turn offers only the answer. A look without new lines makes the next turn the last
//!   one, because a small model would only repeat itself.
//! - Each turn sends the whole conversation. To keep it short, lines are left out once the model
//!   has requested another look. They are sent again only in the last turn.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::extract::agent::{AgentAnswer, LookLog, make_room};
use crate::extract::asking::CallKind;
use crate::extract::extraction::ModeError;
use crate::extract::inquiry::Inquiry;
use crate::extract::language_model::needed;
use crate::extract::look::{AgentLook, FirstLook, LineForm, LookResult, NumberedLine};
use crate::extract::prompt::{NOTHING, Prompt, Wrapper, is_nothing};
use crate::extract::{ModelRequest, ReplyEnd, Turn};
use ctxfs_core::materialize::json::without_half_pairs;

/// Maximum number of line numbers that the schema of an answer permits. Only the highest numbers
/// are kept.
const CHOICE: usize = 200;
const WORDS: usize = 80;
const NO_OBJECT: &str = "The reply is no JSON object of the required form.";
const NO_LINE: &str = "No look has shown a line.";
const PASSED: &str = "(lines none of which holds the answer)";
const LOOKS: [&str; 3] = ["find", "grep", "read"];

#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum ActionReply {
    Answer {
        found: Option<bool>,
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

struct SeenLook {
    look: String,
    shown: LookResult,
    is_passed: bool,
}

/// Answers with actions. The first look is presented as a look of the model. If the lines of this
/// look were part of the question, a small model would not use them for its answer.
pub(in crate::extract) fn answer(
    inquiry: &Inquiry<'_>,
    form: LineForm,
    first: &FirstLook,
) -> Result<AgentAnswer, ModeError> {
    let profile = inquiry.model.profile();
    let mut looks = LookLog::new(first);
    let wrapper = inquiry.wrapper();
    let words: String = inquiry.question.chars().take(WORDS).collect();
    let look = json!({"found": false, "look": "find", "words": words}).to_string();
    let mut seen = vec![SeenLook { look, shown: first.seen.clone(), is_passed: false }];
    // Most models would repeat the first look.
    let mut repeated = Some(first.look.name());
    let steps = inquiry.settings.max_steps.max(1);
    let (mut is_cut, mut was_cut) = (false, false);
    for step in 1..=steps {
        let is_last = step == steps || looks.is_exhausted();
        if is_last && looks.shown.is_empty() {
            if is_cut {
                return Err(inquiry.no_answer(is_cut));
            }
            return Ok(nothing(NO_LINE, &looks));
        }
        let mut request = if is_last {
            last_request(inquiry, &wrapper, &seen)
        } else {
            let offered = LOOKS.iter().filter(|name| repeated != Some(**name));
            request(inquiry, &wrapper, &seen, &offered.copied().collect::<Vec<_>>())
        };
        make_room(&mut request, profile.context_tokens);
        let reply = inquiry.asking.ask(CallKind::Agent, inquiry.model, &request)?;
        let action = action(&reply.text);
        is_cut = action.is_none() && reply.end == ReplyEnd::Length;
        // Asked once, as the next cut reply would be about almost the same lines.
        if is_cut
            && !was_cut
            && !looks.shown.is_empty()
            && let Some(text) = looks.in_parts(inquiry)?
        {
            return Ok(AgentAnswer { text, looks: looks.named(), ..AgentAnswer::default() });
        }
        was_cut |= is_cut;
        let shown = match action {
            // The endpoint may not enforce the schema.
            Some(ActionReply::Answer { .. }) if looks.shown.is_empty() => {
                return Ok(nothing(NO_LINE, &looks));
            }
            Some(ActionReply::Answer { found: Some(false), text, .. }) if !is_nothing(&text) => {
                return Ok(nothing(&text, &looks));
            }
            Some(ActionReply::Answer { lines, text, .. }) => {
                return Ok(AgentAnswer { text, lines, looks: looks.named(), is_cut });
            }
            Some(action) => {
                let look = action.look().ok_or_else(|| inquiry.no_answer(is_cut))?;
                repeated = looks.taken.contains(&look).then(|| look.name());
                for seen in &mut seen {
                    seen.is_passed = true;
                }
                looks.take(inquiry, form, look)?
            }
            None => LookResult { notes: vec![NO_OBJECT.to_owned()], ..LookResult::default() },
        };
        seen.push(SeenLook { look: reply.text, shown, is_passed: false });
    }
    if is_cut {
        return Err(inquiry.no_answer(is_cut));
    }
    Err(ModeError::Steps { target: profile.target.clone(), steps })
}

fn nothing(why: &str, looks: &LookLog) -> AgentAnswer {
    let text = format!("{NOTHING}. {why}");
    AgentAnswer { text, looks: looks.named(), ..AgentAnswer::default() }
}

fn request(
    inquiry: &Inquiry<'_>,
    wrapper: &Wrapper,
    seen: &[SeenLook],
    offered: &[&str],
) -> ModelRequest {
    let mut request = inquiry.request((Prompt::ActionSystem, Prompt::ActionFirst), wrapper, &[]);
    for SeenLook { look, shown, is_passed } in seen {
        request.turns.push(Turn::Model { text: look.clone(), calls: Vec::new() });
        request.turns.push(Turn::User(if *is_passed {
            PASSED.to_owned()
        } else {
            inquiry.filled(Prompt::Action, wrapper, &[("text", &shown.text())])
        }));
    }
    let lines = distinct(seen.iter().filter(|seen| !seen.is_passed));
    request.schema = Some(schema(&lines, offered));
    request
}

/// Returns the request for the last turn. The model must choose from all lines that it has seen. If
/// they do not fit into its context, it must choose from the lines of the latest looks, as many as
/// fit.
fn last_request(inquiry: &Inquiry<'_>, wrapper: &Wrapper, seen: &[SeenLook]) -> ModelRequest {
    let fits = |request: &ModelRequest| needed(request) <= inquiry.model.profile().context_tokens;
    let latest = (0..seen.len()).map(|from| &seen[from..]);
    let with_lines = latest.filter(|seen| seen.iter().any(|seen| !seen.shown.lines.is_empty()));
    let mut requests = with_lines.map(|seen| choosing_from(inquiry, wrapper, seen));
    let all = requests.next().unwrap_or_default();
    if fits(&all) { all } else { requests.find(fits).unwrap_or(all) }
}

fn choosing_from(inquiry: &Inquiry<'_>, wrapper: &Wrapper, seen: &[SeenLook]) -> ModelRequest {
    let lines = distinct(seen.iter());
    let schema = schema(&lines, &[]);
    let lines = lines.into_values().cloned().collect();
    let shown = LookResult { lines, ..LookResult::default() };
    let more = [("text", &*shown.text())];
    let request = inquiry.request((Prompt::ActionSystem, Prompt::ActionLast), wrapper, &more);
    ModelRequest { schema: Some(schema), ..request }
}

fn distinct<'a>(seen: impl Iterator<Item = &'a SeenLook>) -> BTreeMap<u64, &'a NumberedLine> {
    seen.flat_map(|seen| &seen.shown.lines).map(|line| (line.number, line)).collect()
}

impl ActionReply {
    fn look(self) -> Option<AgentLook> {
        match self {
            Self::Answer { .. } => None,
            Self::Find { words } => Some(AgentLook::Find { words }),
            Self::Grep { pattern, ignore_case } => Some(AgentLook::Grep { pattern, ignore_case }),
            Self::Read { from, to } => Some(AgentLook::Read { from, to }),
        }
    }
}

fn action(reply: &str) -> Option<ActionReply> {
    let (start, end) = (reply.find('{')?, reply.rfind('}')?);
    serde_json::from_str(&without_half_pairs(reply.get(start..=end)?)).ok()
}

fn schema(lines: &BTreeMap<u64, &NumberedLine>, offered: &[&str]) -> Value {
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
    let mut forms = Vec::new();
    let choice: Vec<u64> = lines.keys().rev().take(CHOICE).rev().copied().collect();
    if !choice.is_empty() {
        let lines =
            json!({"type": "array", "items": {"enum": choice}, "minItems": 1, "maxItems": 3});
        forms.push(object(json!({"found": {"const": true}, "lines": lines, "text": text(400)})));
    }
    // Keys are sorted, so `found` comes first. The model therefore decides if it has found
    // something before it describes the next look.
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
