//! The headers of MCP over HTTP.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderName;

pub(super) static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) static METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) static NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(super) static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Returns true if the value of a header names the type `kind`.
pub(super) fn is_type(value: &str, kind: &str) -> bool {
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(kind))
}

/// Returns the text that a header stands for.
pub(super) fn decoded(value: &str) -> Cow<'_, str> {
    let encoded = value.strip_prefix(PREFIX).and_then(|value| value.strip_suffix(SUFFIX));
    let Some(encoded) = encoded else { return Cow::Borrowed(value) };
    let bytes = STANDARD.decode(encoded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Returns `text` as the value of a header.
pub(super) fn encoded(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        && text.trim() == text
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX));
    if is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for text in ["plain", " padded ", "a\nb", "=?base64?literal?=", "\u{4e16}", ""] {
            assert_eq!(decoded(&encoded(text)), text);
        }
        assert_eq!(encoded("us-west1"), "us-west1");
        assert_eq!(encoded("caf\u{e9}"), "=?base64?Y2Fmw6k=?=");
        assert_eq!(decoded("=?base64?!?="), "=?base64?!?=");
    }
}
