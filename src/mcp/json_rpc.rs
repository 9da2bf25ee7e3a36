//! The envelope of JSON-RPC messages, and the `_meta` keys that MCP defines.

use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::message::{Edit, Message};
use crate::raw_object::{RawObject, elements};

const MAX_BATCH_BYTES: usize = 32 << 20;
// `_meta` keys with which a request describes its client, since 2026-07-28.
pub(crate) const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
// `_meta` key with which a result of `server/discover` describes its server.
pub(crate) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
// `_meta` key with which a notification names the request of its subscription.
pub(crate) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
// Error code for an unknown revision, since 2026-07-28.
pub(crate) const UNSUPPORTED_VERSION: i32 = -32022;
// JSON-RPC error codes.
pub(crate) const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INVALID_PARAMS: i32 = -32602;
pub(crate) const INTERNAL_ERROR: i32 = -32603;
// Error code for a missing resource up to 2025-11-25.
pub(crate) const RESOURCE_NOT_FOUND: i32 = -32002;
// Error code that the reference implementations use for a request timeout.
pub(crate) const TIMED_OUT: i32 = -32001;

/// The positions of a message's parts in its text. The message is valid JSON-RPC 2.0 with a valid
/// id; parameters and results are not checked.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) kind: MessageKind,
    pub(crate) id: Option<Range<usize>>,
    pub(crate) params: Option<Range<usize>>,
}

/// The kind of a message. A response holds the position of its result, or `None` if it is an error.
#[derive(Debug)]
pub(crate) enum MessageKind {
    Request { method: String },
    Notification { method: String },
    Response { result: Option<Range<usize>> },
}

/// The reason why a text is not a message. `Json` means that the text is not JSON. `Shape` means
/// that it is JSON, but not a JSON-RPC message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvelopeError {
    #[error("{0}")]
    Json(String),
    #[error("{0}")]
    Shape(&'static str),
}

#[derive(Deserialize)]
struct RawEnvelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl Envelope {
    pub(crate) fn of(message: &Message) -> Result<Self, EnvelopeError> {
        let parsed: Result<RawEnvelope<'_>, _> = serde_json::from_str(message.text());
        let raw = parsed.map_err(|error| match error.classify() {
            serde_json::error::Category::Data => EnvelopeError::Shape("it is no JSON-RPC message"),
            _ => EnvelopeError::Json(error.to_string()),
        })?;
        if !message.text().trim_start().starts_with('{') {
            // serde would accept an array as the members in order.
            return Err(EnvelopeError::Shape("it is no JSON-RPC message"));
        }
        if raw.jsonrpc.is_none_or(|version| version.get() != "\"2.0\"") {
            return Err(EnvelopeError::Shape("`jsonrpc` is not \"2.0\""));
        }
        let id = raw.id.filter(|id| id.get() != "null");
        if id.is_some_and(|id| !is_id(id) || message.hole(id).is_some()) {
            return Err(EnvelopeError::Shape("`id` is neither a string nor a number"));
        }
        let outcome = raw.result.or(raw.error);
        let kind = match (raw.method, id, raw.id, outcome) {
            (Some(method), Some(_), ..) => MessageKind::Request { method },
            (Some(method), None, None, _) => MessageKind::Notification { method },
            (Some(_), None, Some(_), _) => {
                return Err(EnvelopeError::Shape("`id` is neither a string nor a number"));
            }
            (None, _, Some(_), Some(_)) => {
                MessageKind::Response { result: raw.result.map(|result| message.range_of(result)) }
            }
            _ => return Err(EnvelopeError::Shape("it is neither a request nor a response")),
        };
        let range = |part: Option<&RawValue>| part.map(|part| message.range_of(part));
        Ok(Self { kind, id: range(id), params: range(raw.params) })
    }

    pub(crate) fn id<'a>(&self, message: &'a Message) -> Option<&'a str> {
        self.id.clone().map(|range| &message.text()[range])
    }

    pub(crate) fn result(&self) -> Option<Range<usize>> {
        match &self.kind {
            MessageKind::Response { result } => result.clone(),
            MessageKind::Request { .. } | MessageKind::Notification { .. } => None,
        }
    }

    pub(crate) fn params<'a>(&self, message: &'a Message) -> Option<&'a RawValue> {
        self.params.clone().and_then(|range| raw(message, range))
    }
}

pub(crate) fn raw(message: &Message, range: Range<usize>) -> Option<&RawValue> {
    serde_json::from_str(&message.text()[range]).ok()
}

pub(crate) fn error_in(message: &Message) -> Option<RawObject<'_>> {
    RawObject::parse(RawObject::of(message.text())?.get("error")?)
}

fn is_id(json: &RawValue) -> bool {
    matches!(json.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

pub(crate) fn error(id: &str, code: i32, text: &str) -> String {
    let error = serde_json::json!({"code": code, "message": text});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

pub(crate) fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub(crate) struct Parsed {
    pub(crate) envelope: Envelope,
    pub(crate) message: Message,
}

impl Parsed {
    pub(crate) fn of(message: Message) -> Result<Self, EnvelopeError> {
        let envelope = Envelope::of(&message)?;
        Ok(Self { envelope, message })
    }

    pub(crate) fn revision(&self) -> Option<String> {
        let meta = meta_of(self.envelope.params(&self.message)?)?;
        Some(meta.text(REVISION_KEY)?.into_owned())
    }

    pub(crate) fn named(&self, method: &str) -> Option<String> {
        let member = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return None,
        };
        let params = RawObject::parse(self.envelope.params(&self.message)?)?;
        let value = params.get(member)?;
        if self.message.hole(value).is_some() {
            return None;
        }
        Some(params.text(member)?.into_owned())
    }

    pub(crate) fn token(&self) -> Option<&RawValue> {
        let token = meta_of(self.envelope.params(&self.message)?)?.get("progressToken")?;
        Some(token).filter(|token| self.message.hole(token).is_none())
    }

    pub(crate) fn renumber(&mut self, number: u64) {
        let token = self.token().map(|token| self.message.range_of(token));
        let places = self.envelope.id.clone().into_iter().chain(token);
        let edits = places.map(|range| Edit::new(range, number.to_string())).collect();
        let message = std::mem::replace(&mut self.message, Message::whole(String::new()));
        self.message = message.rewritten(edits);
    }
}

pub(crate) fn is_batch(message: &Message) -> bool {
    message.text().trim_start().starts_with('[')
}

/// Returns the messages in an array that a server sent. An array without messages is an error,
/// because servers may log arrays of other values.
pub(crate) fn messages_of_server(batch: &Message) -> Result<Vec<Message>, EnvelopeError> {
    if !batch.text().contains("\"jsonrpc\"") {
        return Err(EnvelopeError::Shape("a batch has messages"));
    }
    let messages = messages(batch)?;
    Ok(messages.into_iter().filter(|message| !is_batch(message)).collect())
}

pub(crate) fn messages(batch: &Message) -> Result<Vec<Message>, EnvelopeError> {
    let batch = batch.clone().filled(MAX_BATCH_BYTES);
    let batch = batch.map_err(|_| EnvelopeError::Shape("a batch has at most 32 MiB"))?;
    let raw: &RawValue = serde_json::from_str(batch.text())
        .map_err(|error| EnvelopeError::Json(error.to_string()))?;
    let messages = elements(raw).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or(EnvelopeError::Shape("a batch has messages"))?;
    Ok(messages.into_iter().map(|one| Message::whole(one.get().to_owned())).collect())
}

pub(crate) fn meta_of(params: &RawValue) -> Option<RawObject<'_>> {
    RawObject::parse(RawObject::parse(params)?.get("_meta")?)
}

pub(crate) fn subscription_id<'a>(params: &RawObject<'a>) -> Option<&'a RawValue> {
    RawObject::parse(params.get("_meta")?)?.get(SUBSCRIPTION_KEY)
}

/// Returns the number in an id. The id may be a number or a string.
pub(crate) fn number_of(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

pub(crate) fn error_code(message: &Message) -> Option<i64> {
    error_in(message)?.get("code")?.get().parse().ok()
}

pub(crate) fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

pub(crate) fn cancelled(id: u64) -> String {
    notification("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#))
}

pub(crate) fn cancelled_because(id: u64, reason: &str) -> String {
    let params = json!({"requestId": id, "reason": reason});
    notification("notifications/cancelled", &params.to_string())
}

pub(crate) fn request(id: u64, method: &str, parameters: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{parameters}}}"#)
}

/// An error answer to a request: a JSON-RPC code, and a text for the user or the log. The request's
/// id is added when the error is sent.
#[derive(Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl RpcError {
    pub(crate) fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

pub(crate) fn failed_call(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}], "isError": true}).to_string()
}

/// Returns the `requestId` of a cancellation as written, and its position in the message.
pub(crate) fn request_id(envelope: &Envelope, message: &Message) -> Option<(String, Range<usize>)> {
    let id = RawObject::parse(envelope.params(message)?)?.get("requestId")?;
    Some((id.get().to_owned(), message.range_of(id)))
}

#[cfg(test)]
mod tests;
