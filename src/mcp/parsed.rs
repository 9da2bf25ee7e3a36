//! A message and the places of its parts.

use serde_json::value::RawValue;

use crate::envelope::{Envelope, EnvelopeError};
use crate::message::{Edit, Message};
use crate::meta;
use crate::raw_object::RawObject;

pub(super) struct Parsed {
    pub(super) envelope: Envelope,
    pub(super) message: Message,
}

impl Parsed {
    pub(super) fn of(message: Message) -> Result<Self, EnvelopeError> {
        let envelope = Envelope::of(&message)?;
        Ok(Self { envelope, message })
    }

    /// Returns the revision that the message names itself, as those since 2026-07-28 do.
    pub(super) fn revision(&self) -> Option<String> {
        let meta = RawObject::parse(self.params()?.get("_meta")?)?;
        Some(meta.text(meta::REVISION)?.into_owned())
    }

    /// Returns what a request of `method` is about: a tool, a prompt or a resource.
    pub(super) fn named(&self, method: &str) -> Option<String> {
        let member = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return None,
        };
        let params = self.params()?;
        let value = params.get(member)?;
        if self.message.hole(value).is_some() {
            return None;
        }
        Some(params.text(member)?.into_owned())
    }

    /// Returns the token of the progress of a request.
    pub(super) fn token(&self) -> Option<&RawValue> {
        let token = RawObject::parse(self.params()?.get("_meta")?)?.get("progressToken")?;
        Some(token).filter(|token| self.message.hole(token).is_none())
    }

    /// Gives a request another id, which is the token of its progress too.
    pub(super) fn renumber(&mut self, number: u64) {
        let token = self.token().map(|token| self.message.range_of(token));
        let places = self.envelope.id.clone().into_iter().chain(token);
        let with = number.to_string().into_bytes();
        let mut edits: Vec<Edit> = places.map(|range| Edit { range, with: with.clone() }).collect();
        edits.sort_by_key(|edit| edit.range.start);
        let message = std::mem::replace(&mut self.message, Message::whole(String::new()));
        self.message = message.rewritten(edits);
    }

    fn params(&self) -> Option<RawObject<'_>> {
        RawObject::parse(self.envelope.params(&self.message)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_another_id_and_token() {
        let text = r#"{"jsonrpc":"2.0","params":{"name":"a","_meta":{"progressToken":"t","x":1}},"id":"q","method":"tools/call"}"#;
        let mut parsed = Parsed::of(Message::whole(text.to_owned())).unwrap();
        assert_eq!(parsed.token().unwrap().get(), "\"t\"");
        assert_eq!(parsed.named("tools/call").as_deref(), Some("a"));
        assert_eq!((parsed.named("tools/list"), parsed.revision()), (None, None));
        parsed.renumber(1234);
        let expected = text.replace("\"t\"", "1234").replace("\"q\"", "1234");
        assert_eq!(parsed.message.text(), expected);
    }
}
