//! Requests of 2026-07-28: the headers, which repeat what the body says, and the `_meta`.

use hyper::HeaderMap;
use rmcp::model::ProtocolVersion;
use serde_json::json;

use crate::bridge::client_said::lacking;
use crate::bridge::era::MODERN;
use crate::envelope::Kind;
use crate::headers::{METHOD, NAME, VERSION, decoded};
use crate::http::gate::only;
use crate::http::refusal::Refusal;
use crate::parsed::Parsed;
use crate::relay::INVALID_PARAMS;

/// The code for headers that do not fit their body, and for a revision that is not known.
pub(super) const HEADER_MISMATCH: i32 = -32020;
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

/// Returns the revision of a request, if its header names a known one.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<ProtocolVersion>, Refusal> {
    let Some(asked) = only(headers, &VERSION)? else { return Ok(None) };
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let found = known.iter().find(|version| version.as_str() == asked);
    found.cloned().map(Some).ok_or_else(|| {
        // Older ones know nothing of this error.
        let data = json!({"supported": [MODERN], "requested": asked});
        Refusal::bad(UNSUPPORTED_VERSION, "the MCP-Protocol-Version is not known").with(data)
    })
}

/// Checks that a request has what the revision demands, in its headers and in its `_meta`.
pub(super) fn check(headers: &HeaderMap, parsed: &Parsed) -> Result<(), Refusal> {
    let Kind::Request { method } = &parsed.envelope.kind else { return Ok(()) };
    let id = parsed.envelope.id(&parsed.message);
    let version = parsed.revision();
    let name = parsed.named(method);
    for (header, body) in [(&VERSION, version), (&METHOD, Some(method.clone())), (&NAME, name)] {
        let Some(body) = body else { continue };
        let given = only(headers, header)?.map(decoded);
        if given.as_deref() != Some(&*body) {
            let text = format!("the header {header} does not say what the body says");
            return Err(Refusal::bad(HEADER_MISMATCH, text).of_request(id));
        }
    }
    match lacking(parsed.envelope.params(&parsed.message)) {
        Some(key) => {
            let text = format!("the `_meta` of the request has no valid `{key}`");
            Err(Refusal::bad(INVALID_PARAMS, text).of_request(id))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;
    use crate::headers::encoded;
    use crate::message::Message;

    fn parsed(text: &str) -> Parsed {
        Parsed::of(Message::whole(text.to_owned())).unwrap()
    }

    fn headers(pairs: &[(&HeaderName, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn headers_say_what_the_body_says() {
        let call = parsed(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caf\u00e9","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        );
        let name = encoded("caf\u{e9}").into_owned();
        assert_eq!(name, "=?base64?Y2Fmw6k=?=");
        let good = [(&VERSION, "2026-07-28"), (&METHOD, "tools/call"), (&NAME, &*name)];
        assert!(check(&headers(&good), &call).is_ok());
        for bad in [
            vec![good[0], good[1]],
            vec![good[0], good[2]],
            vec![good[1], good[2]],
            vec![good[0], (&METHOD, "tools/list"), good[2]],
            vec![good[0], good[1], (&NAME, "cafe")],
            vec![good[0], good[1], (&NAME, "=?base64?!?=")],
        ] {
            assert_eq!(check(&headers(&bad), &call).unwrap_err().status.as_u16(), 400);
        }
    }

    #[test]
    fn unknown_revisions_are_refused() {
        assert!(version(&headers(&[])).unwrap().is_none());
        assert!(version(&headers(&[(&VERSION, "2025-06-18")])).unwrap().is_some());
        assert!(version(&headers(&[(&VERSION, "1999-01-01")])).is_err());
    }
}
