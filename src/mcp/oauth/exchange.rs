//! HTTP requests to authorization servers.

use std::fmt::Write as _;
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::http_message::{BodyReader, EVENTS, JSON, JsonBody, is_type};
use ctxfs_core::model::visible::{self, IN_LISTS};
use ctxfs_models::http_client::{HttpClient, causes};

// Time limit for a request, and maximum length of an answer.
const TIME: Duration = Duration::from_secs(30);
const MAX_ANSWER: u64 = 1 << 20;
pub(super) const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// An answer of any status. `json` is null if the body is no JSON.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) json: Value,
}

impl HttpAnswer {
    /// Returns the error that an authorization server names, or else the status.
    pub(super) fn reason(&self) -> String {
        let text =
            |name: &str| self.json[name].as_str().map(|text| visible::escaped(text, IN_LISTS));
        match (text("error"), text("error_description")) {
            (Some(error), Some(about)) => format!("{error}: {about}"),
            (Some(error), None) => error,
            (None, _) => self.status.to_string(),
        }
    }
}

pub(super) async fn get(url: &str) -> Result<HttpAnswer, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(JSON));
    send(Method::GET, url, headers, Vec::new()).await
}

pub(super) async fn post(
    url: &str,
    kind: &'static str,
    mut headers: HeaderMap,
    body: String,
) -> Result<HttpAnswer, String> {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static(JSON));
    send(Method::POST, url, headers, body.into_bytes()).await
}

/// Sends a request. Follows no redirects, because its answer decides where secrets go.
async fn send(
    method: Method,
    url: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<HttpAnswer, String> {
    let uri = checked(url)?;
    let is_secure = uri.scheme_str() == Some("https");
    let mut request = Request::new(JsonBody::new(body.into()));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    let agent = concat!("ctxfs/", env!("CARGO_PKG_VERSION"));
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(agent));
    let exchange = async {
        let client = HttpClient::new(&Client::builder(TokioExecutor::new()), is_secure)
            .map_err(|error| format!("this system has no certificates: {error}"))?;
        let response = client.send(request).await.map_err(|error| causes(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut text = Vec::new();
        // The server may send events without end.
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| is_type(kind, EVENTS)) {
            let body = BodyReader::new(response.into_body());
            body.take(MAX_ANSWER).read_to_end(&mut text).await.map_err(|error| causes(&error))?;
        }
        let json = serde_json::from_slice(&text).unwrap_or_default();
        Ok(HttpAnswer { status, headers, json })
    };
    let answered = timeout(TIME, exchange).await;
    let answered = answered.unwrap_or_else(|_| Err("no answer in time".to_owned()));
    answered.map_err(|why: String| {
        format!("`{}` cannot be asked: {why}", visible::escaped(url, IN_LISTS))
    })
}

/// Checks that others cannot read the traffic with an address: it is `https`, or on this machine. It
/// is ASCII, so that a terminal shows it as it is.
pub(super) fn checked(url: &str) -> Result<Uri, String> {
    let wrong = |why: &str| format!("the address `{}` {why}", visible::escaped(url, IN_LISTS));
    let uri: Uri =
        url.parse().ok().filter(|_| url.is_ascii()).ok_or_else(|| wrong("is not valid"))?;
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_here = host.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => Ok(uri),
        Some("http") if is_here => Ok(uri),
        _ => Err(wrong("is neither https:// nor on this machine")),
    }
}

/// Returns pairs as the body of a form, or as a query.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        let separator = if text.is_empty() { "" } else { "&" };
        let _ = write!(text, "{separator}{name}={}", utf8_percent_encode(value, UNRESERVED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_over_tls_or_stay_on_this_machine() {
        for url in
            ["https://a.example/x", "http://127.0.0.1:8/x", "http://localhost/", "http://[::1]:9"]
        {
            assert!(checked(url).is_ok(), "{url}");
        }
        for url in [
            "http://a.example/",
            "http://127.0.0.1.evil.example/",
            "http://localhost.evil.example",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https:///x",
            "https://a.example/\u{9b}2J",
            "https://a.example/\u{202e}moc.b",
            "",
        ] {
            assert!(checked(url).is_err(), "{url}");
        }
    }

    #[test]
    fn forms_are_encoded() {
        let pairs = [("a", "x y&z=1"), ("resource", "https://a.example/mcp")];
        assert_eq!(form(&pairs), "a=x%20y%26z%3D1&resource=https%3A%2F%2Fa.example%2Fmcp");
    }
}
