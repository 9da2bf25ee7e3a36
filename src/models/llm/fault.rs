//! The reason why an attempt failed, and the wording of errors by endpoints.

use std::time::Duration;

use serde_json::Value;

use crate::extract::TokenUsage;
use crate::llm::patience::Interrupted;

/// A failed attempt. `what` is a predicate whose subject is the endpoint: `ended its reply before
/// the end`. `usage` is `None` unless the endpoint has read the request. There is no `Debug` implementation, because the endpoint's text may contain the key.
pub(super) struct AttemptFault {
    pub(super) kind: FaultKind,
    pub(super) what: String,
    pub(super) complaint: Complaint,
    pub(super) hint: Hint,
    pub(super) usage: Option<TokenUsage>,
}

/// Kind of a fault. After a `Passing` fault, a further attempt may help; the value is the pause
/// that the endpoint requested. A `Lasting` fault means that the endpoint does not work, and that a
/// further attempt would not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    Overflow,
    Rejected,
    Passing(Option<Duration>),
    Lasting,
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    None,
    Server,
    Address,
    Model,
    Key,
    Context,
    Timeout,
    Later,
    Account,
    Settings,
}

impl AttemptFault {
    pub(super) fn new(kind: FaultKind, what: impl Into<String>, hint: Hint) -> Self {
        Self { kind, what: what.into(), complaint: Complaint::default(), hint, usage: None }
    }

    /// Fault for a reply that ended early, or for an event that does not belong to a reply.
    pub(super) fn broken(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Passing(None), what, Hint::Later)
    }

    /// Fault for a reply that exceeds a limit.
    pub(super) fn beyond(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Lasting, what, Hint::Address)
    }

    pub(super) fn caused_by(self, error: &dyn std::error::Error) -> Self {
        self.saying(crate::http_client::causes(error))
    }

    pub(super) fn saying(mut self, message: String) -> Self {
        self.complaint.message = message;
        self
    }

    /// Records that the endpoint has read the request, and the tokens that it counted.
    pub(super) fn costing(mut self, usage: TokenUsage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Returns this fault as one after which there is no further attempt.
    pub(super) fn last(mut self) -> Self {
        if let FaultKind::Passing(_) = self.kind {
            self.kind = FaultKind::Lasting;
        }
        self
    }

    pub(super) fn of_status(
        status: hyper::StatusCode,
        complaint: Complaint,
        asked: Option<Duration>,
    ) -> Self {
        let (kind, hint) = follows(status.as_u16(), &complaint, asked);
        // A status may have no name, such as 529.
        let name = status.canonical_reason().map_or_else(String::new, |name| format!(" {name}"));
        Self { complaint, ..Self::new(kind, format!("answered {}{name}", status.as_u16()), hint) }
    }

    pub(super) fn in_reply(complaint: Complaint) -> Self {
        let status = complaint.status().unwrap_or(500);
        let (kind, hint) = follows(status, &complaint, None);
        let what = format!("broke off its reply with an error ({status})");
        Self { complaint, ..Self::new(kind, what, hint) }
    }
}

impl From<Interrupted> for AttemptFault {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Late => {
                Self::new(FaultKind::Passing(None), "did not reply in time", Hint::Timeout)
            }
            Interrupted::Stopped => {
                Self::new(FaultKind::Stopped, "was left: nobody waits for its reply", Hint::None)
            }
        }
    }
}

/// Returns the kind of an error with this status, and the advice for it.
fn follows(status: u16, complaint: &Complaint, asked: Option<Duration>) -> (FaultKind, Hint) {
    let is_of_request = matches!(status, 400 | 413 | 422 | 500);
    match status {
        413 => (FaultKind::Overflow, Hint::Context),
        _ if is_of_request && complaint.is_overflow() => (FaultKind::Overflow, Hint::Context),
        429 if complaint.is_unpaid() => (FaultKind::Lasting, Hint::Account),
        401 | 403 => (FaultKind::Rejected, Hint::Key),
        404 => (FaultKind::Rejected, Hint::Model),
        // The server does not support this at the address.
        405 | 410 | 501 | 505 => (FaultKind::Rejected, Hint::Address),
        408 | 409 | 425 | 429 | 500.. => (FaultKind::Passing(asked), Hint::Later),
        _ => (FaultKind::Rejected, Hint::Settings),
    }
}

pub(super) const MOST_ERROR: usize = 64 * 1024;

/// Phrases, in lower case, with which endpoints report that a request and its reply do not fit into
/// the context.
const OVERFLOW: &[&str] = &[
    // llama.cpp: the error type, and the text of older versions.
    "exceed_context_size_error",
    "exceeds the available context size",
    // OpenAI, vLLM, DeepSeek, Mistral: the error code, or the text.
    "context_length_exceeded",
    "maximum context length",
    // Anthropic: for the prompt alone, and for the prompt with `max_tokens`.
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    // xAI, Groq, Gemini, Bedrock, LM Studio.
    "maximum prompt length",
    "reduce the length of the messages",
    "exceeds the maximum number of tokens allowed",
    "input is too long",
    "context window",
];

/// Error types and their HTTP statuses. An error inside a stream has only a type.
const TYPES: &[(&str, u16)] = &[
    // Anthropic.
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
    // llama.cpp, OpenAI.
    ("exceed_context_size_error", 400),
    ("rate_limit_exceeded", 429),
    ("insufficient_quota", 429),
];

/// Error in the words of an endpoint: its type, code and parameter, and its message, or the whole
/// text if it is not JSON in a known format. It may contain the key, so it has no `Debug`
/// implementation, and the key is removed before the text is shown.
#[derive(Default, Clone)]
pub(super) struct Complaint {
    marks: Vec<String>,
    pub(super) message: String,
}

impl Complaint {
    /// Reads the body of an error, or the value of `error` in an event. Only the first
    /// [`MOST_ERROR`] bytes are read.
    pub(super) fn read(body: &[u8]) -> Self {
        let body = &body[..body.len().min(MOST_ERROR)];
        let value: Value = serde_json::from_slice(body).unwrap_or_default();
        let outer = value.get(0).unwrap_or(&value);
        let inner = outer.get("error").unwrap_or(outer);
        let marks = ["type", "code", "param"].iter().filter_map(|name| word(&inner[*name]));
        let message = [inner, &inner["message"], &inner["detail"], &outer["message"]];
        let message = message.iter().find_map(|value| value.as_str()).map(str::to_owned);
        let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        Self { marks: marks.collect(), message }
    }

    /// Returns true if the error mentions `word`, ignoring case. `word` must be in lower case.
    pub(super) fn names(&self, word: &str) -> bool {
        let is_in = |text: &String| text.to_ascii_lowercase().contains(word);
        self.marks.iter().any(is_in) || is_in(&self.message)
    }

    pub(super) fn is_overflow(&self) -> bool {
        OVERFLOW.iter().any(|word| self.names(word))
    }

    /// Returns true if the account has no credit left. Waiting does not help in this case.
    pub(super) fn is_unpaid(&self) -> bool {
        self.marks.iter().any(|mark| mark == "insufficient_quota")
    }

    /// Returns the HTTP status of the error: the status of a type in [`TYPES`], or an error code
    /// that is a number. Returns `None` if the error has neither.
    pub(super) fn status(&self) -> Option<u16> {
        let of_type = |mark: &String| {
            let known = TYPES.iter().find(|(name, _)| name == mark).map(|(_, status)| *status);
            known.or_else(|| mark.parse().ok().filter(|status| (400..600).contains(status)))
        };
        self.marks.iter().find_map(of_type)
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_follows() {
        let asked = Some(Duration::from_secs(7));
        let passing = FaultKind::Passing(asked);
        let table = [
            (400, FaultKind::Rejected),
            (401, FaultKind::Rejected),
            (403, FaultKind::Rejected),
            (404, FaultKind::Rejected),
            (408, passing),
            (413, FaultKind::Overflow),
            (418, FaultKind::Rejected),
            (429, passing),
            (500, passing),
            (501, FaultKind::Rejected),
            (503, passing),
            (529, passing),
        ];
        for (status, kind) in table {
            assert_eq!(follows(status, &Complaint::default(), asked).0, kind, "{status}");
        }
    }

    #[test]
    fn every_form_of_error_is_read() {
        let table = [
            (r#"{"error":{"message":"no","type":"api_error","code":null}}"#, "no", Some(500)),
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#,
                "x",
                Some(529),
            ),
            (r#"{"error":{"code":400,"message":"m","type":"t"}}"#, "m", Some(400)),
            (
                r#"{"object":"error","message":"m","type":"BadRequestError","code":404}"#,
                "m",
                Some(404),
            ),
            (r#"[{"error":{"code":429,"message":"m"}}]"#, "m", Some(429)),
            (r#"{"error":"plain"}"#, "plain", None),
            (r#"{"detail":"plain"}"#, "plain", None),
            (r#"{"type":"rate_limit_error","message":"of an event"}"#, "of an event", Some(429)),
            (r#""a string""#, "a string", None),
            ("<html>", "<html>", None),
            ("", "", None),
        ];
        for (body, message, status) in table {
            let complaint = Complaint::read(body.as_bytes());
            assert_eq!((&*complaint.message, complaint.status()), (message, status), "{body}");
        }
        assert_eq!(Complaint::read(&vec![b'x'; 2 * MOST_ERROR]).message.len(), MOST_ERROR);
    }

    #[test]
    fn an_overflow_has_many_forms() {
        let table = [
            r#"{"error":{"code":400,"message":"request (9030 tokens) exceeds the available context size (8192 tokens)","type":"exceed_context_size_error"}}"#,
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens","code":"context_length_exceeded"}}"#,
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            r#"{"error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 1 + 2 > 2"}}"#,
        ];
        for body in table {
            assert!(Complaint::read(body.as_bytes()).is_overflow(), "{body}");
        }
        let other = br#"{"error":{"message":"max_tokens is too large","param":"max_tokens"}}"#;
        let other = Complaint::read(other);
        assert!(!other.is_overflow() && other.names("max_tokens") && !other.is_unpaid());
    }
}
