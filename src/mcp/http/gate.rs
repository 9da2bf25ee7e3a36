//! Checks hosts, origins and tokens, and builds the responses to refused requests.
//!
//! A web page can send requests to this machine through a host name that resolves to this machine
//! (DNS rebinding). The gate therefore accepts only known host names and origins.

use std::net::IpAddr;

use blake3::Hash;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::json_rpc::INVALID_REQUEST;

/// Accepted host names and tokens. IP addresses and `localhost` are always accepted as hosts. A
/// token is stored as a name and a hash. Hashes are compared in constant time.
pub(crate) struct HttpGate {
    names: Vec<String>,
    tokens: Vec<(String, Hash)>,
}

// Index of a client's bearer token in the list of tokens, or `None` if no tokens are required.
pub(crate) type TokenIndex = Option<usize>;

impl HttpGate {
    pub(crate) fn new(names: Vec<String>, tokens: &[String]) -> Self {
        let known = |token: &String| (name_of(token), blake3::hash(token.as_bytes()));
        Self { names, tokens: tokens.iter().map(known).collect() }
    }

    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<TokenIndex, HttpRefusal> {
        let host = only(headers, &header::HOST)?;
        let host = host.and_then(|host| host.parse::<Authority>().ok());
        let host = host.filter(|host| self.is_known(host.host())).ok_or_else(|| {
            let text = "the Host is neither an address nor a name of this machine; a name that \
                        --http is given is";
            HttpRefusal::new(StatusCode::FORBIDDEN, text)
        })?;
        if let Some(origin) = only(headers, &header::ORIGIN)?
            && !is_allowed(origin, &host)
        {
            return Err(HttpRefusal::new(
                StatusCode::FORBIDDEN,
                "pages of this Origin may not do this",
            ));
        }
        self.owner(headers)
    }

    pub(crate) fn token_name(&self, owner: TokenIndex) -> Option<&str> {
        Some(&self.tokens.get(owner?)?.0)
    }

    fn owner(&self, headers: &HeaderMap) -> Result<TokenIndex, HttpRefusal> {
        if self.tokens.is_empty() {
            return Ok(None);
        }
        let given = only(headers, &header::AUTHORIZATION)?.and_then(bearer);
        let given = given.map(|token| blake3::hash(token.as_bytes()));
        // Comparing hashes takes constant time.
        let found = self.tokens.iter().position(|(_, hash)| Some(*hash) == given);
        found.map(Some).ok_or_else(|| {
            let text = "a token is needed: `Authorization: Bearer TOKEN`";
            HttpRefusal::new(StatusCode::UNAUTHORIZED, text)
        })
    }

    fn is_known(&self, host: &str) -> bool {
        address(host).is_some()
            || host.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

fn name_of(token: &str) -> String {
    let key = blake3::derive_key("ctxfs 2026-11-25 name of a token", token.as_bytes());
    Hash::from(key).to_hex()[..16].to_owned()
}

/// Returns true if pages of `origin` may send requests to `host`. Pages of this machine and pages
/// that `host` itself serves may do so.
fn is_allowed(origin: &str, host: &Authority) -> bool {
    let authority =
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).unwrap_or("");
    let Ok(from) = authority.parse::<Authority>() else { return false };
    let is_here = from.host().eq_ignore_ascii_case("localhost")
        || address(from.host()).is_some_and(|address| address.is_loopback());
    is_here || from.as_str().eq_ignore_ascii_case(host.as_str())
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub(crate) fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, HttpRefusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some).ok_or_else(|| {
        let text = format!("the header {name} comes twice, or is not ASCII");
        HttpRefusal::new(StatusCode::BAD_REQUEST, text)
    })
}

/// A refused HTTP request: a status, and a JSON-RPC error with the request's id if it is known.
#[derive(Debug)]
pub(crate) struct HttpRefusal {
    pub(crate) status: StatusCode,
    id: Option<String>,
    code: i32,
    text: String,
    data: Option<serde_json::Value>,
}

impl HttpRefusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, id: None, code: INVALID_REQUEST, text: text.into(), data: None }
    }

    pub(crate) fn bad(code: i32, text: impl Into<String>) -> Self {
        Self { code, ..Self::new(StatusCode::BAD_REQUEST, text) }
    }

    pub(crate) fn of_request(self, id: Option<&str>) -> Self {
        Self { id: id.map(str::to_owned), ..self }
    }

    pub(crate) fn with(self, data: serde_json::Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub(crate) fn answer(self) -> Response<String> {
        let mut error = json!({"code": self.code, "message": self.text});
        if let Some(data) = self.data {
            error["data"] = data;
        }
        let id = self.id.as_deref().unwrap_or("null");
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        let mut response = Response::new(text);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            }
            // The rest of the body is not read, so the connection cannot be reused.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gate: &HttpGate, headers: &[(HeaderName, &str)]) -> Result<TokenIndex, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        gate.check(&map).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        let gate = HttpGate::new(vec!["box".to_owned()], &[]);
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:80", "10.0.0.7", "BOX:9"]
        {
            assert_eq!(check(&gate, &[(header::HOST, host)]), Ok(None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "", "@"]
        {
            assert_eq!(check(&gate, &[(header::HOST, host)]), Err(403), "{host}");
        }
        assert_eq!(check(&gate, &[]), Err(403));
        let twice = [(header::HOST, "localhost"), (header::HOST, "evil.example")];
        assert_eq!(check(&gate, &twice), Err(400));
    }

    #[test]
    fn pages_are_those_of_this_machine_or_of_the_host() {
        let gate = HttpGate::new(vec!["box".to_owned()], &[]);
        let with = |host: &'static str, origin: &'static str| {
            check(&gate, &[(header::HOST, host), (header::ORIGIN, origin)])
        };
        for (host, origin) in [
            ("127.0.0.1:80", "http://localhost:6274"),
            ("127.0.0.1:80", "http://127.0.0.1"),
            ("127.0.0.1:80", "https://[::1]:3"),
            ("box:80", "http://box:80"),
            ("10.0.0.7:80", "http://10.0.0.7:80"),
        ] {
            assert_eq!(with(host, origin), Ok(None), "{origin}");
        }
        for origin in [
            "null",
            "http://evil.example",
            "http://203.0.113.5:80",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "file://",
            "box:80",
        ] {
            assert_eq!(with("box:80", origin), Err(403), "{origin}");
        }
    }

    #[test]
    fn a_token_is_one_of_the_known() {
        let gate = HttpGate::new(Vec::new(), &["first-token".to_owned(), "second".to_owned()]);
        let host = (header::HOST, "localhost");
        let with = |value| check(&gate, &[host.clone(), (header::AUTHORIZATION, value)]);
        assert_eq!(with("Bearer first-token"), Ok(Some(0)));
        assert_eq!(with("bearer second"), Ok(Some(1)));
        for value in ["Bearer third", "Bearer ", "Basic second", "second", "Bearer first-toke"] {
            assert_eq!(with(value), Err(401), "{value}");
        }
        assert_eq!(check(&gate, std::slice::from_ref(&host)), Err(401));
        let name = gate.token_name(Some(1)).unwrap();
        assert_eq!(name.len(), 16);
        assert_eq!((name, gate.token_name(None)), (&*name_of("second"), None));
        assert_ne!(name, gate.token_name(Some(0)).unwrap());
    }
}
