//! A reply that is assembled from its parts.

use crate::extract::{ModelReply, ReplyEnd, TokenUsage, ToolCall};
use crate::llm::fault::AttemptFault;
use ctxfs_core::materialize::json::without_half_pairs;

/// Maximum number of bytes of a text. This is five times the size of 200,000 tokens, and current
/// models reply with fewer tokens.
const MOST_TEXT: usize = 4 * 1024 * 1024;
/// Maximum number of entries of a list in a response. Real lists are shorter. The limit ensures
/// that a list of empty entries takes no more memory than its text.
pub(super) const MOST_ENTRIES: usize = 1024;
pub(super) const MOST_CALLS: usize = 64;
pub(super) const MOST_ARGUMENTS: usize = 256 * 1024;
const MOST_NAME: usize = 256;
/// Larger token counts are reduced to this. No context has this many tokens.
const MOST_TOKENS: f64 = 1e12;

/// The part of a reply that has arrived so far. Its size is limited. `has_begun` is true once a
/// part has arrived, even an empty one. `is_complete` is true once only the token counts may be
/// missing. `is_over` is true once the endpoint has marked the end.
#[derive(Default)]
pub(super) struct PartialReply {
    text: String,
    calls: Vec<PartialCall>,
    end: ReplyEnd,
    pub(super) usage: TokenUsage,
    pub(super) has_begun: bool,
    pub(super) is_complete: bool,
    pub(super) is_over: bool,
}

#[derive(Default)]
pub(super) struct PartialCall {
    place: Option<usize>,
    id: String,
    name: String,
    arguments: String,
}

impl PartialReply {
    pub(super) fn add_text(&mut self, text: &str) -> Result<(), AttemptFault> {
        if self.text.len() + text.len() > MOST_TEXT {
            return Err(AttemptFault::beyond(format!(
                "sent a text of more than {MOST_TEXT} bytes"
            )));
        }
        self.text += text;
        Ok(())
    }

    /// Records why the reply ends. A refusal cannot be replaced by another reason.
    pub(super) fn ends(&mut self, end: ReplyEnd) {
        if self.end != ReplyEnd::Refused {
            self.end = end;
        }
    }

    /// Returns the call to which a part belongs, and creates it if there is none. This is the last
    /// call at `place`. If the part has an `id`, calls with another id do not count. A part that
    /// has neither a place nor an id belongs to the last call.
    ///
    /// Endpoints may send no places, or the same place for all calls.
    pub(super) fn call(
        &mut self,
        place: Option<usize>,
        id: Option<&str>,
    ) -> Result<&mut PartialCall, AttemptFault> {
        let id = id.filter(|id| !id.is_empty());
        let is_it = |call: &PartialCall| {
            let is_other = id.is_some_and(|id| !call.id.is_empty() && call.id != id);
            !is_other && (call.place == place || (place.is_none() && id.is_none()))
        };
        let at = match self.calls.iter().rposition(is_it) {
            Some(at) => at,
            None if self.calls.len() == MOST_CALLS => {
                let what = format!("sent more than {MOST_CALLS} tool calls in a reply");
                return Err(AttemptFault::beyond(what));
            }
            None => {
                self.calls.push(PartialCall { place, ..PartialCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if let Some(id) = id.filter(|_| call.id.is_empty()) {
            call.id = name(id)?;
        }
        Ok(call)
    }

    pub(super) fn finish(self) -> ModelReply {
        let call = |(at, call): (usize, PartialCall)| ToolCall {
            id: if call.id.is_empty() { format!("call_{at}") } else { call.id },
            name: call.name,
            arguments: if call.arguments.is_empty() {
                "{}".to_owned()
            } else {
                without_half_pairs(&call.arguments).into_owned()
            },
        };
        let calls = self.calls.into_iter().enumerate().map(call).collect();
        ModelReply { text: self.text, calls, end: self.end, usage: self.usage }
    }
}

impl PartialCall {
    /// Records the name, which an endpoint may repeat with each part.
    pub(super) fn is_named(&mut self, given: &str) -> Result<(), AttemptFault> {
        if self.name.is_empty() {
            self.name = name(given)?;
        }
        Ok(())
    }

    pub(super) fn add_arguments(&mut self, part: &str) -> Result<(), AttemptFault> {
        if self.arguments.len() + part.len() > MOST_ARGUMENTS {
            let what = format!("sent a tool call with more than {MOST_ARGUMENTS} bytes");
            return Err(AttemptFault::beyond(what));
        }
        self.arguments += part;
        Ok(())
    }
}

fn name(given: &str) -> Result<String, AttemptFault> {
    if given.len() > MOST_NAME {
        return Err(AttemptFault::beyond("sent a tool call with an endless name"));
    }
    Ok(given.to_owned())
}

/// Converts a token count from an endpoint, which may be any number.
pub(super) fn tokens(counted: f64) -> u64 {
    counted.clamp(0.0, MOST_TOKENS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(reply: &mut PartialReply, place: Option<usize>, id: Option<&str>, arguments: &str) {
        let call = reply.call(place, id).ok().unwrap();
        call.add_arguments(arguments).ok().unwrap();
    }

    #[test]
    fn parts_find_their_calls() {
        type Parts<'a> = &'a [(Option<usize>, Option<&'a str>, &'a str)];
        let table: &[(Parts<'_>, &[(&str, &str)])] = &[
            (&[(Some(0), Some("a"), "1"), (Some(0), None, "2")], &[("a", "12")]),
            (
                &[(Some(0), Some("a"), "1"), (Some(1), Some("b"), "2"), (Some(0), None, "3")],
                &[("a", "13"), ("b", "2")],
            ),
            // All parts have the same place.
            (
                &[(Some(0), Some("a"), "1"), (Some(0), Some("b"), "2"), (Some(0), Some(""), "3")],
                &[("a", "1"), ("b", "23")],
            ),
            // No part has a place.
            (
                &[(None, Some("a"), "1"), (None, Some("b"), "2"), (None, None, "3")],
                &[("a", "1"), ("b", "23")],
            ),
            // No part has an id.
            (&[(Some(0), None, "1"), (Some(1), None, "")], &[("call_0", "1"), ("call_1", "{}")]),
        ];
        for (parts, calls) in table {
            let mut reply = PartialReply::default();
            for (place, id, arguments) in *parts {
                part(&mut reply, *place, *id, arguments);
            }
            let reply = reply.finish();
            let found: Vec<_> =
                reply.calls.iter().map(|call| (&*call.id, &*call.arguments)).collect();
            assert_eq!(found, *calls);
        }
    }

    #[test]
    fn calls_are_bounded() {
        let mut reply = PartialReply::default();
        for place in 0..MOST_CALLS {
            part(&mut reply, Some(place), None, "x");
        }
        assert!(reply.call(Some(MOST_CALLS), None).is_err());
        assert!(reply.call(Some(0), Some(&"x".repeat(MOST_NAME + 1))).is_err());
        let call = reply.call(Some(0), None).ok().unwrap();
        assert!(call.add_arguments(&"x".repeat(MOST_ARGUMENTS)).is_err());
        assert!(call.is_named(&"x".repeat(MOST_NAME + 1)).is_err());
    }

    #[test]
    fn any_number_is_a_count() {
        let table = [(7.0, 7), (-1.0, 0), (f64::MAX, 1_000_000_000_000), (f64::NAN, 0)];
        for (counted, count) in table {
            assert_eq!(tokens(counted), count);
        }
    }
}
