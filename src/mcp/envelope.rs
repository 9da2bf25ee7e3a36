//! The envelope of JSON-RPC: which parts of a message are its id, method, parameters and outcome.

use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::message::Message;
use crate::raw_object::RawObject;

/// The places of the parts of a message in its text.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) kind: Kind,
    pub(super) id: Option<Range<usize>>,
    pub(super) params: Option<Range<usize>>,
}

/// The kind of a message.
#[derive(Debug)]
pub(super) enum Kind {
    Request {
        method: String,
    },
    Notification {
        method: String,
    },
    /// The result of a request; `None` if it failed.
    Response {
        result: Option<Range<usize>>,
    },
}

/// The reason why a text is no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EnvelopeError {
    /// It is not JSON.
    #[error("{0}")]
    Json(String),
    /// It is JSON, but no message.
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

/// Keeps `null`, which an `Option` would drop.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl Envelope {
    pub(super) fn of(message: &Message) -> Result<Self, EnvelopeError> {
        let parsed: Result<RawEnvelope<'_>, _> = serde_json::from_str(message.text());
        let raw = parsed.map_err(|error| match error.classify() {
            serde_json::error::Category::Data => EnvelopeError::Shape("it is no JSON-RPC message"),
            _ => EnvelopeError::Json(error.to_string()),
        })?;
        if !message.text().trim_start().starts_with('{') {
            // The members would be taken in their order.
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
            (Some(method), Some(_), ..) => Kind::Request { method },
            (Some(method), None, None, _) => Kind::Notification { method },
            (Some(_), None, Some(_), _) => {
                return Err(EnvelopeError::Shape("`id` is neither a string nor a number"));
            }
            (None, _, Some(_), Some(_)) => {
                Kind::Response { result: raw.result.map(|result| message.range_of(result)) }
            }
            _ => return Err(EnvelopeError::Shape("it is neither a request nor a response")),
        };
        let range = |part: Option<&RawValue>| part.map(|part| message.range_of(part));
        Ok(Self { kind, id: range(id), params: range(raw.params) })
    }

    /// Returns the id as written.
    pub(super) fn id<'a>(&self, message: &'a Message) -> Option<&'a str> {
        self.id.clone().map(|range| &message.text()[range])
    }

    /// Returns the place of the result, if it is an answer that has one.
    pub(super) fn result(&self) -> Option<Range<usize>> {
        match &self.kind {
            Kind::Response { result } => result.clone(),
            Kind::Request { .. } | Kind::Notification { .. } => None,
        }
    }

    /// Returns the parameters as written.
    pub(super) fn params<'a>(&self, message: &'a Message) -> Option<&'a RawValue> {
        self.params.clone().and_then(|range| raw(message, range))
    }
}

/// Returns the value that stands in `range` of a message.
pub(super) fn raw(message: &Message, range: Range<usize>) -> Option<&RawValue> {
    serde_json::from_str(&message.text()[range]).ok()
}

/// Returns the error that an answer is.
pub(super) fn error_in(message: &Message) -> Option<RawObject<'_>> {
    RawObject::parse(RawObject::of(message.text())?.get("error")?)
}

fn is_id(json: &RawValue) -> bool {
    matches!(json.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// Returns an answer that is an error.
pub(super) fn error(id: &str, code: i32, text: &str) -> Vec<u8> {
    let error = serde_json::json!({"code": code, "message": text});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}

/// Returns an answer with a result, which is JSON.
pub(super) fn answer(id: &str, result: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Envelope, EnvelopeError> {
        Envelope::of(&Message::whole(text.to_owned()))
    }

    #[test]
    fn messages_have_one_of_three_kinds() {
        let text = r#" {"jsonrpc":"2.0", "id": 1.50,"method":"a/b","params":{"n":1.10}}"#;
        let message = Message::whole(text.to_owned());
        let envelope = Envelope::of(&message).unwrap();
        assert!(matches!(&envelope.kind, Kind::Request { method } if method == "a/b"));
        assert_eq!(envelope.id(&message), Some("1.50"));
        assert_eq!(envelope.params(&message).unwrap().get(), r#"{"n":1.10}"#);
        let found = of(r#"{"jsonrpc":"2.0","method":"x"}"#).unwrap();
        assert!(matches!(found.kind, Kind::Notification { .. }));
        let found = of(r#"{"jsonrpc":"2.0","id":"a","result":null}"#).unwrap();
        assert!(matches!(found.kind, Kind::Response { result: Some(_) }));
        let found = of(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#).unwrap();
        assert!(matches!(found.kind, Kind::Response { result: None }) && found.id.is_none());
    }

    #[test]
    fn all_else_is_none() {
        for text in ["", "{", "x", "{\"jsonrpc\":\"2.0\"", "{\"a\":\u{1}}"] {
            assert!(matches!(of(text), Err(EnvelopeError::Json(_))), "{text}");
        }
        for text in [
            "1",
            "[]",
            r#"["2.0",1,"a/b",{}]"#,
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":2}"#,
            r#"{"jsonrpc":"2.0","result":1}"#,
        ] {
            assert!(matches!(of(text), Err(EnvelopeError::Shape(_))), "{text}");
        }
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{}1{}}}"#,
            "[".repeat(200_000),
            "]".repeat(200_000)
        );
        assert!(of(&deep).is_ok());
    }
}
