//! Access control: hosts, origins, the token and its cookie, and the headers of every answer.
//!
//! A web page can send requests to this machine through a host name that its owner resolves to this
//! machine (DNS rebinding). Only addresses and known names are therefore accepted as hosts, and
//! requests made by pages of other origins are refused. Nothing is shown without the token, or
//! without the cookie that a browser gets in exchange for the token.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use blake3::Hash;
use uuid::Uuid;

use crate::{Result, WebError, address, shell};

const TOKEN: &str = "token";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Decides which requests are admitted. Compares the token and the cookie by their hashes, in
/// constant time. The cookie does not reveal the token.
#[derive(Debug)]
pub(super) struct AccessGate {
    names: Vec<String>,
    token: Hash,
    cookie_name: String,
    cookie: Hash,
    cookie_value: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AccessDecision {
    // A request for the style or the script, which needs no token.
    Public,
    // The request has the cookie.
    Admitted,
    // The request has the token. The browser gets the cookie and is redirected to the same address
    // without the token.
    LoggedIn {
        to: String,
        cookie: String,
        // True if a link on another site led here. After such a redirect, the browser sends a new
        // strict cookie only if a page of this site starts the next navigation.
        from_elsewhere: bool,
    },
}

/// Returns a new token with 244 random bits.
pub fn new_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

impl AccessGate {
    /// Creates a gate. `names` are accepted as hosts in addition to addresses. `port` is part of
    /// the cookie's name, because browsers send a cookie to every port of a host.
    pub(super) fn new(names: Vec<String>, token: &str, port: u16) -> Self {
        let key = blake3::derive_key("ctxfs 2026-11-26 cookie of a page", token.as_bytes());
        let cookie_value = Hash::from(key).to_hex().to_string();
        Self {
            names,
            token: blake3::hash(token.as_bytes()),
            cookie_name: format!("ctxfs-{port}"),
            cookie: blake3::hash(cookie_value.as_bytes()),
            cookie_value,
        }
    }

    pub(super) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<AccessDecision> {
        let host = self.host(headers)?;
        check_origin(headers, &host)?;
        let from_elsewhere = check_site(headers)?;
        if method != Method::GET && method != Method::HEAD {
            return Err(WebError::Method);
        }
        if shell::ASSETS.iter().any(|asset| asset.address == uri.path())
            && !self.has_cookie(headers)
        {
            return Ok(AccessDecision::Public);
        }
        let (rest, token) = address::without_parameter(uri.query().unwrap_or(""), TOKEN);
        if let Some(token) = token {
            if blake3::hash(token.as_bytes()) != self.token {
                return Err(WebError::NoToken);
            }
            let mark = if rest.is_empty() { "" } else { "?" };
            // A path that starts with two slashes would be read as a host name.
            let path = uri.path().trim_start_matches('/');
            return Ok(AccessDecision::LoggedIn {
                to: format!("/{path}{mark}{rest}"),
                cookie: format!(
                    "{}={}; HttpOnly; SameSite=Strict; Path=/",
                    self.cookie_name, self.cookie_value
                ),
                from_elsewhere,
            });
        }
        if self.has_cookie(headers) { Ok(AccessDecision::Admitted) } else { Err(WebError::NoToken) }
    }

    fn host(&self, headers: &HeaderMap) -> Result<String> {
        let host = only(headers, &header::HOST)?.ok_or(WebError::Host)?;
        let authority: Authority = host.parse().map_err(|_| WebError::Host)?;
        let name = authority.host();
        // The host name may be followed by a port.
        let port = host.strip_prefix(name).unwrap_or(host);
        let is_port = port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        let is_known = ip_address(name).is_some()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is_known && (port.is_empty() || is_port) {
            Ok(host.to_owned())
        } else {
            Err(WebError::Host)
        }
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|cookies| cookies.split(';'));
        let mut own = pairs.filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie_name).then_some(value)
        });
        own.any(|value| blake3::hash(value.as_bytes()) == self.cookie)
    }
}

fn check_origin(headers: &HeaderMap, host: &str) -> Result<()> {
    match only(headers, &header::ORIGIN)? {
        None => Ok(()),
        Some(origin) if origin.eq_ignore_ascii_case(&format!("http://{host}")) => Ok(()),
        Some(_) => Err(WebError::Origin),
    }
}

/// Refuses requests that pages of other sites make. Returns true if the user followed a link from
/// another site, which is allowed.
fn check_site(headers: &HeaderMap) -> Result<bool> {
    let site = only(headers, &FETCH_SITE)?.unwrap_or("none");
    let follows_a_link = only(headers, &FETCH_MODE)? == Some("navigate")
        && only(headers, &FETCH_DEST)? == Some("document");
    match site {
        "none" | "same-origin" => Ok(false),
        _ if follows_a_link => Ok(true),
        _ => Err(WebError::Origin),
    }
}

fn ip_address(host: &str) -> Option<std::net::IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

// Fails if the header occurs more than once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some)
        .ok_or_else(|| WebError::Bad(format!("the header {name} comes twice, or is not ASCII")))
}

// Allows only resources of this site, no inline scripts, and no embedding in frames.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'; object-src 'none'";

const ALWAYS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

pub(super) fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const PORT: u16 = 8080;

    fn gate() -> AccessGate {
        AccessGate::new(vec!["box".to_owned()], "the-token", PORT)
    }

    fn check(uri: &str, headers: &[(&str, &str)]) -> Result<AccessDecision, u16> {
        check_method(&Method::GET, uri, headers)
    }

    fn check_method(
        method: &Method,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<AccessDecision, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        let checked = gate().check(method, &uri.parse().unwrap(), &map);
        checked.map_err(|refused| refused.status().as_u16())
    }

    fn cookie() -> String {
        format!("a=b; ctxfs-{PORT}={}", gate().cookie_value)
    }

    #[test]
    fn the_token_is_changed_for_a_cookie() {
        let host = ("host", "127.0.0.1:8080");
        let welcomed = check("/c/c7?token=the-token&line=3", &[host]).unwrap();
        let AccessDecision::LoggedIn { to, cookie: set, .. } = welcomed else {
            panic!("{welcomed:?}")
        };
        assert_eq!(to, "/c/c7?line=3");
        assert!(set.ends_with("; HttpOnly; SameSite=Strict; Path=/"));
        assert!(!set.contains("the-token"));
        assert_eq!(check("/", &[host, ("cookie", &cookie())]), Ok(AccessDecision::Admitted));
        for uri in ["/", "/?token=other", "/?token=", "/?tokens=the-token"] {
            assert_eq!(check(uri, &[host]), Err(401), "{uri}");
        }
        assert_eq!(check("/", &[host, ("cookie", "ctxfs-8080=the-token")]), Err(401));
        assert_eq!(check("/static/page.css", &[host]), Ok(AccessDecision::Public));
        let with_cookie = check("/static/page.css", &[host, ("cookie", &cookie())]);
        assert_eq!(with_cookie, Ok(AccessDecision::Admitted));
        let slashes = check("//evil.example/?token=the-token", &[host]).unwrap();
        assert!(
            matches!(slashes, AccessDecision::LoggedIn { to, from_elsewhere: false, .. } if to == "/evil.example/")
        );
    }

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        let cookie = cookie();
        let with = |host| check("/", &[("host", host), ("cookie", &cookie)]);
        for host in ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:80", "BOX:9"] {
            assert_eq!(with(host), Ok(AccessDecision::Admitted), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.evil.example",
            "",
            "@",
            "evil@127.0.0.1",
            "127.0.0.1:8080.evil.example",
            "127.0.0.1:",
        ] {
            assert_eq!(with(host), Err(403), "{host}");
        }
        assert_eq!(check("/", &[("cookie", &cookie)]), Err(403));
        let twice = [("host", "localhost"), ("host", "evil.example"), ("cookie", &*cookie)];
        assert_eq!(check("/", &twice), Err(400));
    }

    #[test]
    fn pages_of_other_origins_get_nothing() {
        let cookie = cookie();
        let with = |more: &[(&str, &str)]| {
            let mut headers = vec![("host", "127.0.0.1:8080"), ("cookie", &*cookie)];
            headers.extend(more);
            check("/", &headers)
        };
        assert_eq!(with(&[("origin", "http://127.0.0.1:8080")]), Ok(AccessDecision::Admitted));
        for origin in [
            "null",
            "http://127.0.0.1:9",
            "https://127.0.0.1:8080",
            "http://evil.example",
            "http://localhost:8080",
        ] {
            assert_eq!(with(&[("origin", origin)]), Err(403), "{origin}");
        }
        for site in ["cross-site", "same-site", "anything"] {
            assert_eq!(with(&[("sec-fetch-site", site)]), Err(403), "{site}");
            let embedded = [
                ("sec-fetch-site", site),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ];
            assert_eq!(with(&embedded), Err(403), "{site}");
        }
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(with(&link), Ok(AccessDecision::Admitted));
    }

    #[test]
    fn nothing_but_reading_is_a_method() {
        let headers = [("host", "127.0.0.1"), ("cookie", &*cookie())];
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            assert_eq!(check_method(&method, "/", &headers), Err(405), "{method}");
        }
        assert_eq!(check_method(&Method::HEAD, "/", &headers), Ok(AccessDecision::Admitted));
    }

    #[test]
    fn an_answer_keeps_what_it_says_itself() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        add_headers(&mut headers);
        assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(!POLICY.contains("unsafe"));
    }
}
