//! Requests and replies of `POST /v1/chat/completions`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::extract::{ModelRequest, ReplyEnd, ToolCall, ToolSpec, Turn};
use crate::llm::dialect::{Dialect, SchemaUse};
use crate::llm::fault::{AttemptFault, Complaint, FaultKind, Hint};
use crate::llm::reply::{MOST_ENTRIES, PartialReply, tokens};

const SCHEMA_NAME: &str = "action";

pub(super) fn body(model: &str, request: &ModelRequest, tokens: u64, dialect: Dialect) -> Value {
    let mut body = json!({ "model": model, "messages": messages(request), "stream": true });
    let limit = if dialect.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = tokens.into();
    if dialect.temperature {
        body["temperature"] = 0.into();
    }
    if dialect.counts {
        body["stream_options"] = json!({ "include_usage": true });
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(schema) = request.schema.as_ref().filter(|_| dialect.schema != SchemaUse::Left) {
        let is_strict = dialect.schema == SchemaUse::Strict;
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": { "name": SCHEMA_NAME, "strict": is_strict, "schema": schema },
        });
    }
    body
}

fn messages(request: &ModelRequest) -> Vec<Value> {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for turn in &request.turns {
        match turn {
            Turn::User(text) => messages.push(json!({ "role": "user", "content": text })),
            Turn::Model { text, calls } => messages.push(of_model(text, calls)),
            Turn::Results(results) => messages.extend(results.iter().map(|result| {
                json!({ "role": "tool", "tool_call_id": result.id, "content": result.text })
            })),
        }
    }
    messages
}

fn of_model(text: &str, calls: &[ToolCall]) -> Value {
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = calls.iter().map(call).collect();
    }
    message
}

/// Returns the JSON of an earlier call. The templates of many models require that the arguments are
/// an object, so any other arguments are replaced by an empty object.
fn call(call: &ToolCall) -> Value {
    let is_object = serde_json::from_str::<Value>(&call.arguments).is_ok_and(|it| it.is_object());
    let arguments = if is_object { &call.arguments } else { "{}" };
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": call.name, "arguments": arguments },
    })
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    })
}

type List<T> = ctxfs_core::model::ShortList<T, MOST_ENTRIES>;

/// The data of an event, or the complete response of an endpoint that does not stream. Members for
/// thinking, such as `reasoning_content`, are ignored.
#[derive(Deserialize)]
struct ReplyChunk<'a> {
    #[serde(borrow)]
    choices: Option<List<ReplyChoice<'a>>>,
    usage: Option<ChunkUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ReplyChoice<'a> {
    index: Option<usize>,
    #[serde(borrow)]
    delta: Option<ChoiceDelta<'a>>,
    #[serde(borrow)]
    message: Option<ChoiceDelta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChoiceDelta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    refusal: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<List<CallPart<'a>>>,
}

#[derive(Deserialize)]
struct CallPart<'a> {
    index: Option<usize>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionPart<'a>>,
}

#[derive(Deserialize)]
struct FunctionPart<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkUsage {
    prompt_tokens: Option<f64>,
    completion_tokens: Option<f64>,
}

/// A part of a text that is given as a list of parts. Thinking parts have no `text`.
#[derive(Deserialize)]
struct TextPart {
    text: Option<String>,
}

pub(super) fn event(data: &str, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    if data.trim() == "[DONE]" {
        // An endpoint that failed before the first word also sends `[DONE]`.
        if !reply.has_begun {
            return Err(AttemptFault::broken("ended its reply before the first word"));
        }
        reply.is_complete = true;
        reply.is_over = true;
        return Ok(());
    }
    let no_event = |_| AttemptFault::broken("sent an event that is none of a reply");
    add(serde_json::from_str(data).map_err(no_event)?, data, reply)
}

pub(super) fn document(text: &str, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    let what = "answered with JSON that is no reply";
    let no_reply = || AttemptFault::new(FaultKind::Rejected, what, Hint::Address);
    add(serde_json::from_str(text).map_err(|_| no_reply())?, text, reply)?;
    reply.is_complete = reply.has_begun;
    reply.has_begun.then_some(()).ok_or_else(no_reply)
}

fn add(chunk: ReplyChunk<'_>, data: &str, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    if let Some(usage) = chunk.usage {
        reply.usage.input = tokens(usage.prompt_tokens.unwrap_or_default());
        reply.usage.output = tokens(usage.completion_tokens.unwrap_or_default());
    }
    if let Some(error) = chunk.error {
        return Err(AttemptFault::in_reply(Complaint::read(error.get().as_bytes())));
    }
    if chunk.object.is_some_and(|object| object.get() == "\"error\"") {
        return Err(AttemptFault::in_reply(Complaint::read(data.as_bytes())));
    }
    let first = entries(chunk.choices).find(|choice| choice.index.unwrap_or(0) == 0);
    first.map_or(Ok(()), |choice| add_choice(choice, reply))
}

fn add_choice(choice: ReplyChoice<'_>, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    reply.has_begun = true;
    if let Some(delta) = choice.delta.or(choice.message) {
        reply.add_text(&delta.content.map(text).unwrap_or_default())?;
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            reply.add_text(&refusal)?;
            reply.ends(ReplyEnd::Refused);
        }
        for part in entries(delta.tool_calls) {
            add_call(part, reply)?;
        }
    }
    let reason = choice.finish_reason.map(|reason| reason.to_ascii_lowercase());
    match reason.as_deref() {
        None | Some("") => return Ok(()),
        Some(
            "length"
            | "max_tokens"
            | "max_output_tokens"
            | "model_length"
            | "model_context_window_exceeded",
        ) => reply.ends(ReplyEnd::Length),
        Some("content_filter" | "refusal" | "safety") => reply.ends(ReplyEnd::Refused),
        Some("error" | "abort" | "insufficient_system_resource") => {
            return Err(AttemptFault::broken("gave up in the middle of its reply"));
        }
        Some(_) => reply.ends(ReplyEnd::Done),
    }
    reply.is_complete = true;
    Ok(())
}

fn add_call(part: CallPart<'_>, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    let call = reply.call(part.index, part.id.as_deref())?;
    let Some(function) = part.function else { return Ok(()) };
    if let Some(name) = &function.name {
        call.is_named(name)?;
    }
    // A server may send an object instead of its text.
    let arguments = function.arguments.map(|arguments| {
        serde_json::from_str::<String>(arguments.get()).unwrap_or_else(|_| arguments.get().into())
    });
    call.add_arguments(&arguments.unwrap_or_default())
}

fn entries<T>(list: Option<List<T>>) -> impl Iterator<Item = T> {
    list.into_iter().flat_map(|list| list.0)
}

/// Returns the text of the member `content`, which is either a string or a list of parts.
fn text(content: &RawValue) -> String {
    serde_json::from_str(content.get()).unwrap_or_else(|_| {
        let parts: Option<List<TextPart>> = serde_json::from_str(content.get()).unwrap_or_default();
        entries(parts).filter_map(|part| part.text).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_may_be_missing_and_are_bounded() {
        let read = |list: &str| {
            let data = format!(r#"{{"choices":[{{"delta":{{"tool_calls":{list}}}}}]}}"#);
            event(&data, &mut PartialReply::default()).is_ok()
        };
        assert!(read("null") && read("[]") && !read("{}"));
        for absent in [r#"{"choices":null}"#, "{}"] {
            assert!(event(absent, &mut PartialReply::default()).is_ok(), "{absent}");
        }
        let choices = |count| format!(r#"{{"choices":[{}]}}"#, vec!["{}"; count].join(","));
        assert!(event(&choices(MOST_ENTRIES), &mut PartialReply::default()).is_ok());
        assert!(event(&choices(MOST_ENTRIES + 1), &mut PartialReply::default()).is_err());
    }
}
