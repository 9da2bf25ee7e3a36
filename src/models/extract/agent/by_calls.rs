//! The agent with tool calls.

use serde_json::{Value, json};

use crate::extract::agent::{AgentAnswer, LookLog, make_room};
use crate::extract::asking::CallKind;
use crate::extract::cited_lines::split_off_lines;
use crate::extract::extraction::ModeError;
use crate::extract::inquiry::{Inquiry, WrappedReply};
use crate::extract::look::{AgentLook, FirstLook, LineForm, cut};
use crate::extract::prompt::{Prompt, Wrapper};
use crate::extract::{CallResult, ModelReply, ModelRequest, ToolCall, ToolSpec, Turn};

const AT_ONCE: usize = 8;

/// Answers with tool calls. If `sure` is true, the model is known to support tools. Otherwise,
/// returns `None` if the first reply neither calls a tool nor answers.
pub(in crate::extract) fn answer(
    inquiry: &Inquiry<'_>,
    form: LineForm,
    first: &FirstLook,
    sure: bool,
) -> Result<Option<AgentAnswer>, ModeError> {
    let profile = inquiry.model.profile();
    let wrapper = inquiry.wrapper();
    let mut looks = LookLog::new(first);
    let mut request = first_request(inquiry, &wrapper, first);
    let steps = inquiry.settings.max_steps.max(1);
    let mut is_cut = false;
    for step in 1..=steps {
        if step == steps {
            request.turns.push(Turn::User(inquiry.filled(Prompt::AgentLast, &wrapper, &[])));
        }
        make_room(&mut request, profile.context_tokens);
        let reply = inquiry.asking.ask(CallKind::Agent, inquiry.model, &request)?;
        let wrapped = WrappedReply::of(&reply, &wrapper);
        is_cut = wrapped.is_cut;
        if let Some(text) = wrapped.answer.filter(|_| reply.calls.is_empty()) {
            let parts = if is_cut { looks.in_parts(inquiry)? } else { None };
            is_cut &= parts.is_none();
            let (text, lines) = parts.map_or_else(|| split_off_lines(&text), |it| (it, Vec::new()));
            return Ok(Some(AgentAnswer { text, lines, looks: looks.named(), is_cut }));
        }
        if reply.calls.is_empty() && step == 1 && !sure {
            return Ok(None);
        }
        go_on(inquiry, form, &wrapper, &mut looks, &mut request, reply)?;
    }
    if is_cut {
        return Err(inquiry.no_answer(is_cut));
    }
    Err(ModeError::Steps { target: profile.target.clone(), steps })
}

fn go_on(
    inquiry: &Inquiry<'_>,
    form: LineForm,
    wrapper: &Wrapper,
    looks: &mut LookLog,
    request: &mut ModelRequest,
    reply: ModelReply,
) -> Result<(), ModeError> {
    let ModelReply { text, calls, .. } = reply;
    let mut results = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        let text = if index < AT_ONCE {
            result(inquiry, form, looks, call)?
        } else {
            format!("Not carried out: at most {AT_ONCE} calls at once.")
        };
        results.push(CallResult { id: call.id.clone(), text });
    }
    request.turns.push(Turn::Model { text, calls });
    request.turns.push(if results.is_empty() {
        Turn::User(inquiry.filled(Prompt::Form, wrapper, &[]))
    } else {
        Turn::Results(results)
    });
    Ok(())
}

fn result(
    inquiry: &Inquiry<'_>,
    form: LineForm,
    looks: &mut LookLog,
    call: &ToolCall,
) -> Result<String, ModeError> {
    Ok(match look(call, &inquiry.document.facts().name) {
        Ok(look) => looks.take(inquiry, form, look)?.text(),
        Err(why) => why,
    })
}

fn look(call: &ToolCall, name: &str) -> Result<AgentLook, String> {
    let arguments: Value = serde_json::from_str(&call.arguments)
        .map_err(|error| format!("The arguments are no JSON: {error}."))?;
    if let Some(file) = arguments["file"].as_str()
        && file != name
    {
        return Err(format!("There is no file `{}` here. The only one is `{name}`.", cut(file)));
    }
    let text = |key: &str| match arguments[key].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(format!("The argument `{key}` is missing.")),
    };
    let number = |key: &str| {
        let value = &arguments[key];
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        number.ok_or_else(|| format!("The argument `{key}` is not the number of a line."))
    };
    match call.name.as_str() {
        "Find" => Ok(AgentLook::Find { words: text("words")? }),
        "Grep" => Ok(AgentLook::Grep {
            pattern: text("pattern")?,
            ignore_case: arguments["ignore_case"].as_bool().unwrap_or_default(),
        }),
        "Read" => {
            let from = number("from")?;
            Ok(AgentLook::Read { from, to: number("to").unwrap_or(from) })
        }
        _ => Err("There is no such tool. There are Find, Grep and Read.".to_owned()),
    }
}

fn first_request(inquiry: &Inquiry<'_>, wrapper: &Wrapper, first: &FirstLook) -> ModelRequest {
    let steps = inquiry.settings.max_steps.to_string();
    let more = [("steps", &*steps), ("text", &*first.seen.text())];
    let request = inquiry.request((Prompt::AgentSystem, Prompt::Agent), wrapper, &more);
    ModelRequest { tools: tools(&inquiry.document.facts().name), ..request }
}

fn tools(name: &str) -> Vec<ToolSpec> {
    let file = json!({"type": "string", "enum": [name]});
    let text = |about: &str| json!({"type": "string", "description": about});
    let line = |about: &str| json!({"type": "integer", "minimum": 1, "description": about});
    let of = |properties: Value, required: &[&str]| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    vec![
        ToolSpec {
            name: "Find".to_owned(),
            description: "Shows the passages that fit some words best.".to_owned(),
            parameters: of(
                json!({"file": file, "words": text("Words, in any order and spelling.")}),
                &["file", "words"],
            ),
        },
        ToolSpec {
            name: "Grep".to_owned(),
            description: "Shows the first lines that match a regular expression.".to_owned(),
            parameters: of(
                json!({
                    "file": file,
                    "pattern": text("A regular expression."),
                    "ignore_case": {"type": "boolean"},
                }),
                &["file", "pattern"],
            ),
        },
        ToolSpec {
            name: "Read".to_owned(),
            description: "Shows lines by their numbers, eight at a time.".to_owned(),
            parameters: of(
                json!({"file": file, "from": line("The first line."), "to": line("The last line.")}),
                &["file", "from", "to"],
            ),
        },
    ]
}
