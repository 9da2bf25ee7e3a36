//! What an endpoint says is wrong.

use serde_json::Value;

/// The most bytes of an error that are read.
pub(super) const MOST_ERROR: usize = 64 * 1024;

/// By what endpoints say that a request and its reply do not fit into the context, in small letters.
const OVERFLOW: &[&str] = &[
    // llama.cpp: the type, and the text of versions before it.
    "exceed_context_size_error",
    "exceeds the available context size",
    // OpenAI, vLLM, DeepSeek, Mistral: the code, or the text.
    "context_length_exceeded",
    "maximum context length",
    // Anthropic, of the prompt alone and with `max_tokens`.
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

/// Types of errors, and the status that each stands for. An error in a stream has no other status.
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

/// An error as an endpoint words it. May hold the key, so it has no `Debug`, and none of it is shown
/// before it was cleaned.
#[derive(Default, Clone)]
pub(super) struct Complaint {
    /// Its type, its code and the parameter that it is about.
    marks: Vec<String>,
    /// What it says, or the whole text if that is no known JSON.
    pub(super) message: String,
}

impl Complaint {
    /// Reads the body of an error, or the value of `error` in an event: at most its first
    /// [`MOST_ERROR`] bytes.
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

    /// Returns true if the error is about `word`, which is in small letters.
    pub(super) fn names(&self, word: &str) -> bool {
        let is_in = |text: &String| text.to_ascii_lowercase().contains(word);
        self.marks.iter().any(is_in) || is_in(&self.message)
    }

    /// Returns true if it says that the request does not fit into the context.
    pub(super) fn is_overflow(&self) -> bool {
        OVERFLOW.iter().any(|word| self.names(word))
    }

    /// Returns true if the account has nothing left to pay with, which no waiting helps.
    pub(super) fn is_unpaid(&self) -> bool {
        self.marks.iter().any(|mark| mark == "insufficient_quota")
    }

    /// Returns the status that it names or stands for.
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
