//! Results by which a server asks for input before a call can go on (`input_required`), and the call
//! made again with the answers.

use serde_json::value::RawValue;

use crate::bridge::client_said::{Abilities, Ask};
use crate::envelope::Envelope;
use crate::message::{Edit, Outgoing};
use crate::raw_object::{RawObject, quoted};

/// The most requests of one result.
const MOST: usize = 32;

/// A result that asks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputRequired {
    pub(crate) requests: Vec<InputRequest>,
    /// The state that the server wants back, as it wrote it.
    pub(crate) state: Option<String>,
}

/// A request in such a result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputRequest {
    pub(crate) key: String,
    pub(crate) method: String,
    /// Its parameters, as they are written.
    pub(crate) params: Option<String>,
}

/// An answer to one: its key, and the result as the client wrote it.
pub(crate) type InputResponse = (String, String);

/// Returns true for a result that asks.
pub(crate) fn is_input_required(result: &RawValue) -> bool {
    let kind = RawObject::parse(result).and_then(|result| result.text("resultType"));
    kind.as_deref() == Some("input_required")
}

impl InputRequired {
    /// Reads a result that asks. The error is about the server, and follows its name.
    pub(crate) fn of(result: &RawValue, client: Abilities) -> Result<Self, String> {
        let result = RawObject::parse(result).unwrap_or_default();
        let state = result.get("requestState").filter(|state| state.get().starts_with('"'));
        let requests = match result.get("inputRequests") {
            Some(requests) => {
                RawObject::parse(requests).ok_or("asks in a way that is not known")?
            }
            None => RawObject::default(),
        };
        if requests.0.len() > MOST {
            return Err(format!("asks for more than {MOST} things at once"));
        }
        if requests.0.is_empty() && state.is_none() {
            return Err("asks for input, but not for which".to_owned());
        }
        let each = requests.0.iter();
        let requests = each.map(|(key, request)| InputRequest::of(key, request, client));
        let requests = requests.collect::<Result<_, _>>()?;
        Ok(Self { requests, state: state.map(|state| state.get().to_owned()) })
    }
}

impl InputRequest {
    fn of(key: &str, request: &RawValue, client: Abilities) -> Result<Self, String> {
        let request = RawObject::parse(request).unwrap_or_default();
        let (method, params) = (request.text("method").unwrap_or_default(), request.get("params"));
        if !Ask::of(&method, params).is_some_and(|ask| client.has(ask)) {
            return Err(format!("asks for `{method}`, which the client cannot do"));
        }
        let params = params.map(|params| params.get().to_owned());
        Ok(Self { key: key.to_owned(), method: method.into_owned(), params })
    }

    /// Returns it as a request to an old client.
    pub(crate) fn request(&self, id: u64) -> Vec<u8> {
        let members = self.with_elicitation_id(id).unwrap_or_else(|| self.members());
        format!(r#"{{"jsonrpc":"2.0","id":{id},{members}}}"#).into_bytes()
    }

    /// Returns the members of a request to visit a page, which has an id before 2026-07-28.
    fn with_elicitation_id(&self, id: u64) -> Option<String> {
        let raw: &RawValue = serde_json::from_str(self.params.as_deref()?).ok()?;
        let params = RawObject::parse(raw)?;
        if Ask::of(&self.method, Some(raw)) != Some(Ask::Url)
            || params.get("elicitationId").is_some()
        {
            return None;
        }
        let rest = raw.get().strip_prefix('{')?;
        Some(format!(r#""method":"{}","params":{{"elicitationId":"{id}",{rest}"#, self.method))
    }

    /// Returns its members.
    pub(crate) fn members(&self) -> String {
        let params = self.params.as_ref().map(|params| format!(",\"params\":{params}"));
        format!("\"method\":{}{}", quoted(&self.method), params.unwrap_or_default())
    }
}

/// Returns the members that the parameters of the call made again get.
pub(crate) fn repeated(responses: &[InputResponse], state: Option<&str>) -> String {
    let state = state.map(|state| format!("\"requestState\":{state}"));
    let responses = (!responses.is_empty()).then(|| {
        let each = responses.iter().map(|(key, result)| format!("{}:{result}", quoted(key)));
        format!("\"inputResponses\":{{{}}}", each.collect::<Vec<_>>().join(","))
    });
    responses.into_iter().chain(state).collect::<Vec<_>>().join(",")
}

/// Returns a request with the id `number`, and `members` at the end of its parameters, which are
/// not empty.
pub(super) fn with_members(request: &Outgoing, number: u64, members: &str) -> Outgoing {
    let outline = request.outline();
    let mut request = request.clone();
    let Ok(envelope) = Envelope::of(&outline) else { return request };
    let id = envelope.id.map(|range| Edit { range, with: number.to_string().into_bytes() });
    let more = envelope.params.filter(|_| !members.is_empty()).map(|params| {
        let at = params.end - 1;
        Edit { range: at..at, with: format!(",{members}").into_bytes() }
    });
    let mut edits: Vec<Edit> = id.into_iter().chain(more).collect();
    // The places of the others stay where they are.
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.range.start));
    for edit in &edits {
        request.replace(edit);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::client_said::ClientSaid;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    fn client(capabilities: &str) -> Abilities {
        let params = format!(r#"{{"capabilities":{capabilities}}}"#);
        ClientSaid::of_initialize(Some(raw(&params))).abilities()
    }

    #[test]
    fn a_result_that_asks_is_read_as_it_was_written() {
        let json = r#"{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"},"a\n":{"method":"sampling/createMessage","params":{"n":1.10}}},"requestState":"\u00e9\/"}"#;
        assert!(is_input_required(raw(json)));
        let asked = InputRequired::of(raw(json), client(r#"{"roots":{},"sampling":{}}"#)).unwrap();
        assert_eq!(asked.state.as_deref(), Some(r#""\u00e9\/""#));
        let requests: Vec<String> =
            asked.requests.iter().map(|one| String::from_utf8(one.request(7)).unwrap()).collect();
        assert_eq!(
            requests,
            [
                r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#,
                r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"n":1.10}}"#,
            ]
        );
        assert_eq!(asked.requests[1].key, "a\n");
    }

    #[test]
    fn a_page_to_visit_has_an_id_for_an_old_client() {
        let url = r#"{"mode":"url","message":"m","url":"https://x/"}"#;
        let json = format!(
            r#"{{"inputRequests":{{"a":{{"method":"elicitation/create","params":{url}}}}}}}"#
        );
        let asked = InputRequired::of(raw(&json), client(r#"{"elicitation":{"url":{}}}"#)).unwrap();
        let request = String::from_utf8(asked.requests[0].request(7)).unwrap();
        assert_eq!(
            request,
            r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"elicitationId":"7","mode":"url","message":"m","url":"https://x/"}}"#
        );
        assert_eq!(
            asked.requests[0].members(),
            format!(r#""method":"elicitation/create","params":{url}"#)
        );
    }

    #[test]
    fn other_results_do_not_ask() {
        for json in [r#"{"resultType":"complete"}"#, "{}", "[]", "1", r#"{"resultType":1}"#] {
            assert!(!is_input_required(raw(json)), "{json}");
        }
    }

    #[test]
    fn what_cannot_be_answered_is_an_error() {
        let many: Vec<String> =
            (0..33).map(|n| format!(r#""{n}":{{"method":"roots/list"}}"#)).collect();
        let many = format!(r#"{{"inputRequests":{{{}}}}}"#, many.join(","));
        for (json, expected) in [
            ("{}", "not for which"),
            (r#"{"inputRequests":{}}"#, "not for which"),
            (r#"{"requestState":1}"#, "not for which"),
            (r#"{"inputRequests":[]}"#, "in a way that is not known"),
            (r#"{"inputRequests":{"a":{"method":"elicitation/create"}}}"#, "`elicitation/create`"),
            (r#"{"inputRequests":{"a":{"method":"tools/call"}}}"#, "`tools/call`"),
            (r#"{"inputRequests":{"a":1}}"#, "``"),
            (&many, "more than 32"),
        ] {
            let why = InputRequired::of(raw(json), client(r#"{"roots":{}}"#)).unwrap_err();
            assert!(why.contains(expected), "{json}: {why}");
        }
    }

    #[test]
    fn a_call_is_made_again_with_the_answers() {
        let request = Outgoing::from(
            br#"{"params":{"name":"x","n":1.10},"jsonrpc":"2.0","id":3,"method":"tools/call"}"#
                .to_vec(),
        );
        let responses = [("a\n".to_owned(), "{\"n\":1.10}".to_owned()), ("b".into(), "{}".into())];
        for (members, expected) in [
            (repeated(&[], None), ""),
            (repeated(&[], Some("\"s\"")), r#","requestState":"s""#),
            (
                repeated(&responses, Some("\"s\"")),
                r#","inputResponses":{"a\n":{"n":1.10},"b":{}},"requestState":"s""#,
            ),
        ] {
            let again = with_members(&request, 1234, &members).outline();
            assert_eq!(
                again.text(),
                format!(
                    r#"{{"params":{{"name":"x","n":1.10{expected}}},"jsonrpc":"2.0","id":1234,"method":"tools/call"}}"#
                )
            );
        }
    }
}
