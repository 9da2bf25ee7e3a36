//! Requests and replies of `POST /v1/messages`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::extract::{ModelRequest, ReplyEnd, ToolCall, ToolSpec, Turn};
use crate::llm::dialect::{Dialect, SchemaUse};
use crate::llm::fault::{AttemptFault, Complaint, FaultKind, Hint};
use crate::llm::reply::{MOST_ENTRIES, PartialReply, tokens};

/// Returns the body of a request. It has no `temperature`, because the API no longer supports it:
/// version 2.14 of the SDK does not define it.
pub(super) fn body(model: &str, request: &ModelRequest, tokens: u64, dialect: Dialect) -> Value {
    let messages: Vec<Value> = request.turns.iter().filter_map(message).collect();
    let mut body =
        json!({ "model": model, "messages": messages, "max_tokens": tokens, "stream": true });
    if !request.system.is_empty() {
        body["system"] = request.system.as_str().into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    // This format has no advisory schemas.
    if let Some(schema) = request.schema.as_ref().filter(|_| dialect.schema == SchemaUse::Strict) {
        body["output_config"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    }
    body
}

/// Returns the message of a turn, or `None` for a turn without content, because the API permits no
/// empty message.
fn message(turn: &Turn) -> Option<Value> {
    let message = match turn {
        Turn::User(text) => json!({ "role": "user", "content": text }),
        Turn::Model { text, calls } => {
            let said = Some(json!({ "type": "text", "text": text })).filter(|_| !text.is_empty());
            let content: Vec<Value> = said.into_iter().chain(calls.iter().map(call)).collect();
            if content.is_empty() {
                return None;
            }
            json!({ "role": "assistant", "content": content })
        }
        Turn::Results(results) => {
            let content = results.iter().map(|result| {
                json!({ "type": "tool_result", "tool_use_id": result.id, "content": result.text })
            });
            json!({ "role": "user", "content": content.collect::<Vec<_>>() })
        }
    };
    Some(message)
}

/// Returns the JSON of an earlier call. The API requires that the arguments are an object, so any
/// other arguments are replaced by an empty object.
fn call(call: &ToolCall) -> Value {
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let input = if input.is_object() { input } else { json!({}) };
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    })
}

#[derive(Deserialize)]
struct StreamEvent<'a> {
    r#type: String,
    #[serde(borrow)]
    message: Option<MessageBody<'a>>,
    index: Option<usize>,
    #[serde(borrow)]
    content_block: Option<ContentBlock<'a>>,
    delta: Option<BlockDelta>,
    usage: Option<MessageUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A message: either the frame of a stream, or the complete response of an endpoint that does not
/// stream.
#[derive(Deserialize)]
struct MessageBody<'a> {
    #[serde(borrow)]
    content: Option<ctxfs_core::model::ShortList<ContentBlock<'a>, MOST_ENTRIES>>,
    stop_reason: Option<String>,
    usage: Option<MessageUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A block of content, or the start of a block. A thinking block has no `text`.
#[derive(Deserialize)]
struct ContentBlock<'a> {
    r#type: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta {
    r#type: Option<String>,
    text: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

/// The token counts so far. `input_tokens` excludes tokens that are written to or read from a
/// cache.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the form")]
struct MessageUsage {
    input_tokens: Option<f64>,
    cache_creation_input_tokens: Option<f64>,
    cache_read_input_tokens: Option<f64>,
    output_tokens: Option<f64>,
}

pub(super) fn event(data: &str, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    let no_event = |_| AttemptFault::broken("sent an event that is none of a reply");
    let event: StreamEvent<'_> = serde_json::from_str(data).map_err(no_event)?;
    if let Some(error) = event.error {
        return Err(AttemptFault::in_reply(Complaint::read(error.get().as_bytes())));
    }
    count(event.usage.as_ref(), reply);
    match &*event.r#type {
        "message_start" => {
            reply.has_begun = true;
            count(event.message.and_then(|message| message.usage).as_ref(), reply);
        }
        "content_block_start" => {
            event.content_block.map_or(Ok(()), |block| add_block(&block, event.index, reply))?;
        }
        "content_block_delta" => {
            event.delta.map_or(Ok(()), |delta| add_delta(&delta, event.index, reply))?;
        }
        "message_delta" => {
            ends(event.delta.and_then(|delta| delta.stop_reason).as_deref(), reply);
        }
        "message_stop" => {
            reply.is_complete = true;
            reply.is_over = true;
        }
        // `ping`, `content_block_stop`, and events that may be added to the format.
        _ => {}
    }
    Ok(())
}

pub(super) fn document(text: &str, reply: &mut PartialReply) -> Result<(), AttemptFault> {
    let what = "answered with JSON that is no reply";
    let no_reply = || AttemptFault::new(FaultKind::Rejected, what, Hint::Address);
    let message: MessageBody<'_> = serde_json::from_str(text).map_err(|_| no_reply())?;
    if let Some(error) = message.error {
        return Err(AttemptFault::in_reply(Complaint::read(error.get().as_bytes())));
    }
    count(message.usage.as_ref(), reply);
    for (at, block) in message.content.ok_or_else(no_reply)?.0.iter().enumerate() {
        add_block(block, Some(at), reply)?;
    }
    ends(message.stop_reason.as_deref(), reply);
    reply.is_complete = true;
    Ok(())
}

fn add_block(
    block: &ContentBlock<'_>,
    at: Option<usize>,
    reply: &mut PartialReply,
) -> Result<(), AttemptFault> {
    match &*block.r#type {
        "text" => reply.add_text(block.text.as_deref().unwrap_or_default())?,
        "tool_use" => {
            let call = reply.call(at, block.id.as_deref())?;
            call.is_named(block.name.as_deref().unwrap_or_default())?;
            if let Some(input) = block.input.filter(|input| !is_empty(input)) {
                call.add_arguments(input.get())?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn add_delta(
    delta: &BlockDelta,
    at: Option<usize>,
    reply: &mut PartialReply,
) -> Result<(), AttemptFault> {
    match delta.r#type.as_deref() {
        Some("text_delta") => reply.add_text(delta.text.as_deref().unwrap_or_default())?,
        Some("input_json_delta") => {
            let part = delta.partial_json.as_deref().unwrap_or_default();
            reply.call(at, None)?.add_arguments(part)?;
        }
        // `thinking_delta`, `signature_delta` and others.
        _ => {}
    }
    Ok(())
}

fn is_empty(input: &RawValue) -> bool {
    input.get().trim_start_matches('{').trim() == "}"
}

fn ends(stop_reason: Option<&str>, reply: &mut PartialReply) {
    match stop_reason {
        Some("max_tokens" | "model_context_window_exceeded") => reply.ends(ReplyEnd::Length),
        Some("refusal") => reply.ends(ReplyEnd::Refused),
        _ => {}
    }
}

/// Records token counts. Each event has the totals so far. The maximum of each total is kept,
/// because the events of some servers have 0 in place of some totals.
fn count(usage: Option<&MessageUsage>, reply: &mut PartialReply) {
    let Some(usage) = usage else { return };
    let input =
        [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
    let input = tokens(input.iter().flatten().sum());
    reply.usage.input = reply.usage.input.max(input);
    let output = tokens(usage.output_tokens.unwrap_or_default());
    reply.usage.output = reply.usage.output.max(output);
}
