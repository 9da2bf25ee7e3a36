//! The `_meta` of requests: what they have to say since 2026-07-28, and did not before.

use crate::bridge::client_said::REQUEST_KEYS;
use crate::envelope::Envelope;
use crate::message::{Edit, Message};
use crate::raw_object;
use crate::raw_object::RawObject;

/// The request has no place for `_meta`: its parameters are no object, or too long for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoPlace;

/// Returns the edit that adds `members`, at least one, to the `_meta` of a request.
pub(super) fn added(
    envelope: &Envelope,
    message: &Message,
    members: &str,
) -> Result<Edit, NoPlace> {
    let at = |at: usize, with: String| Ok(Edit { range: at..at, with: with.into_bytes() });
    let Some(params) = envelope.params(message) else {
        let end = message.text().rfind('}').ok_or(NoPlace)?;
        return at(end, format!(r#","params":{{"_meta":{{{members}}}}}"#));
    };
    let range = message.range_of(params);
    if params.get() == "null" {
        let with = format!(r#"{{"_meta":{{{members}}}}}"#).into_bytes();
        return Ok(Edit { range, with });
    }
    if message.hole(params).is_some() {
        return Err(NoPlace);
    }
    let object = RawObject::parse(params).ok_or(NoPlace)?;
    let Some(meta) = object.get("_meta") else {
        let comma = if object.0.is_empty() { "" } else { "," };
        return at(range.start + 1, format!(r#""_meta":{{{members}}}{comma}"#));
    };
    let others = RawObject::parse(meta).filter(|_| message.hole(meta).is_none());
    let comma = if others.ok_or(NoPlace)?.0.is_empty() { "" } else { "," };
    at(message.range_of(meta).start + 1, format!("{members}{comma}"))
}

/// Returns the edit that takes out of the `_meta` of a request what it says since 2026-07-28. An
/// older server over HTTP would refuse it.
pub(super) fn stripped(envelope: &Envelope, message: &Message) -> Option<Edit> {
    let meta = RawObject::parse(envelope.params(message)?)?.get("_meta")?;
    let members = RawObject::parse(meta)?;
    let is_new = |key: &str| REQUEST_KEYS.contains(&key);
    if message.hole(meta).is_some() || !members.0.iter().any(|(key, _)| is_new(key)) {
        return None;
    }
    let kept = members.0.iter().filter(|(key, _)| !is_new(key));
    let with = raw_object::object(kept.map(|(key, value)| raw_object::member(key, value)));
    Some(Edit { range: message.range_of(meta), with: with.into_bytes() })
}

/// Returns parameters, an object, with `members` in their `_meta`, which they do not have.
pub(crate) fn parameters_with(parameters: &str, members: &str) -> String {
    let is_empty = |object: RawObject<'_>| object.0.is_empty();
    let comma = if RawObject::of(parameters).is_none_or(is_empty) { "" } else { "," };
    let rest = parameters.trim_start().strip_prefix('{').unwrap_or("}");
    format!(r#"{{"_meta":{{{members}}}{comma}{rest}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, edit: impl FnOnce(&Envelope, &Message) -> Option<Edit>) -> String {
        let message = Message::whole(text.to_owned());
        let envelope = Envelope::of(&message).unwrap();
        let edits: Vec<Edit> = edit(&envelope, &message).into_iter().collect();
        message.rewritten(edits).text().to_owned()
    }

    #[test]
    fn members_go_where_the_meta_is() {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":"m""#;
        for (rest, expected) in [
            ("}", r#","params":{"_meta":{"a":1}}}"#),
            ("} ", r#","params":{"_meta":{"a":1}}} "#),
            (r#","params":null}"#, r#","params":{"_meta":{"a":1}}}"#),
            (r#","params":{}}"#, r#","params":{"_meta":{"a":1}}}"#),
            (r#","params":{"n": 1.10}}"#, r#","params":{"_meta":{"a":1},"n": 1.10}}"#),
            (r#","params":{"_meta":{} }}"#, r#","params":{"_meta":{"a":1} }}"#),
            (
                r#","params":{"_meta": { "t":"x"},"n":1}}"#,
                r#","params":{"_meta": {"a":1, "t":"x"},"n":1}}"#,
            ),
        ] {
            let text = format!("{head}{rest}");
            let done = edited(&text, |envelope, message| added(envelope, message, "\"a\":1").ok());
            assert_eq!(done, format!("{head}{expected}"));
        }
        for rest in [r#","params":[1]}"#, r#","params":{"_meta":1}}"#] {
            let message = Message::whole(format!("{head}{rest}"));
            let envelope = Envelope::of(&message).unwrap();
            assert!(matches!(added(&envelope, &message, "\"a\":1"), Err(NoPlace)), "{rest}");
        }
    }

    #[test]
    fn an_old_server_sees_nothing_new() {
        let text = |meta: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"_meta":{meta},"n":1.10}}}}"#
            )
        };
        let new = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","t":1.10,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/x":2}"#;
        assert_eq!(
            edited(&text(new), stripped),
            text(r#"{"t":1.10,"io.modelcontextprotocol/x":2}"#)
        );
        for same in [r#"{ "t":1}"#, "{}", "1"] {
            assert_eq!(edited(&text(same), stripped), text(same));
        }
    }

    #[test]
    fn own_parameters_get_a_meta() {
        assert_eq!(parameters_with("{}", "\"a\":1"), r#"{"_meta":{"a":1}}"#);
        assert_eq!(parameters_with(r#"{"n":1}"#, "\"a\":1"), r#"{"_meta":{"a":1},"n":1}"#);
    }
}
