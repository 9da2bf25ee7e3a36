//! The address of an endpoint, and the key for its requests.

use std::fmt;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::PathAndQuery;

#[derive(Clone)]
pub(super) struct Address {
    uri: Uri,
    host: String,
}

/// Reason why a `base_url` is invalid. The error does not contain the URL, because the URL may
/// contain a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants")]
pub enum AddressError {
    #[error("is no URL such as `http://127.0.0.1:8080`")]
    NoUrl,
    #[error("is neither http:// nor https://")]
    Scheme,
    #[error("has a user name before its host; a key belongs in the variable of `api_key_env`")]
    User,
}

impl Address {
    /// Returns the address of `call`, such as `messages`, below `base_url`. `base_url` may end with
    /// a slash or with `/v1`. A query in `base_url` is kept.
    pub(super) fn new(base_url: &str, call: &str) -> Result<Self, AddressError> {
        let base: Uri = base_url.trim().parse().map_err(|_| AddressError::NoUrl)?;
        let mut parts = base.into_parts();
        let scheme = parts.scheme.as_ref().ok_or(AddressError::NoUrl)?.as_str();
        if !matches!(scheme, "http" | "https") {
            return Err(AddressError::Scheme);
        }
        let authority = parts.authority.as_ref().ok_or(AddressError::NoUrl)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::User);
        }
        let host = authority.to_string();
        let path = path(parts.path_and_query.as_ref(), call);
        parts.path_and_query = Some(path.parse().map_err(|_| AddressError::NoUrl)?);
        let uri = Uri::from_parts(parts).map_err(|_| AddressError::NoUrl)?;
        Ok(Self { uri, host })
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn is_secure(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

fn path(base: Option<&PathAndQuery>, call: &str) -> String {
    let before = base.map_or("", PathAndQuery::path).trim_end_matches('/');
    let version = if before.ends_with("/v1") { "" } else { "/v1" };
    let query = base.and_then(PathAndQuery::query).map(|query| format!("?{query}"));
    format!("{before}{version}/{call}{}", query.unwrap_or_default())
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Words that begin with this many characters of the key are masked in texts, because an endpoint
/// may show only a part of the key.
const BEGINNING: usize = 8;
const MASK: &str = "[key]";
/// A shorter key is a placeholder for an endpoint that needs none, such as `EMPTY` or `ollama`.
const LEAST_SECRET: usize = 8;

/// The secret key for an endpoint. It occurs only in request headers, and never in `Debug` output,
/// logs or errors.
#[derive(Clone)]
pub(super) struct ApiKey(String);

impl ApiKey {
    /// Creates a key from the value of a variable, without white space around it. Returns `None` if
    /// the value is blank. Fails if the value cannot be put in a header.
    pub(super) fn new(value: &str) -> Result<Option<Self>, InvalidKey> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(None);
        }
        let is_visible = value.bytes().all(|byte| byte.is_ascii_graphic());
        is_visible.then(|| Some(Self(value.to_owned()))).ok_or(InvalidKey)
    }

    /// Returns a header value of `before` followed by the key. It is marked as sensitive.
    pub(super) fn header(&self, before: &str) -> HeaderValue {
        let value = HeaderValue::from_str(&format!("{before}{}", self.0));
        let mut value = value.expect("a key is visible ASCII");
        value.set_sensitive(true);
        value
    }

    /// Returns true if the key is no placeholder, which may occur in a reply as a common word.
    pub(super) fn is_secret(&self) -> bool {
        self.0.len() >= LEAST_SECRET
    }

    /// Returns `text` without the key, and without words that begin like the key.
    pub(super) fn removed_from(&self, text: &str) -> String {
        let text = text.replace(&self.0, MASK);
        let beginning = &self.0[..self.0.len().min(BEGINNING)];
        let mut left = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(at) = rest.find(beginning) {
            left += &rest[..at];
            left += MASK;
            rest = rest[at + beginning.len()..].trim_start_matches(is_of_key);
        }
        left + rest
    }
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_*.".contains(c)
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidKey;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_below_v1() {
        let table = [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/messages", "127.0.0.1:8080"),
            ("http://a/", "http://a/v1/messages", "a"),
            ("https://a.example/v1", "https://a.example/v1/messages", "a.example"),
            ("https://a/v1/", "https://a/v1/messages", "a"),
            ("https://a/api/v1//", "https://a/api/v1/messages", "a"),
            ("https://a/openai", "https://a/openai/v1/messages", "a"),
            ("https://a/v1?version=3", "https://a/v1/messages?version=3", "a"),
            ("http://[::1]:80", "http://[::1]:80/v1/messages", "[::1]:80"),
        ];
        for (base, uri, host) in table {
            let address = Address::new(base, "messages").unwrap();
            assert_eq!((&*address.uri().to_string(), address.host()), (uri, host), "{base}");
            assert_eq!(address.is_secure(), base.starts_with("https"));
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        let table = [
            ("", AddressError::NoUrl),
            ("localhost", AddressError::NoUrl),
            ("/v1", AddressError::NoUrl),
            ("http://", AddressError::NoUrl),
            ("ftp://a/", AddressError::Scheme),
            ("file:///etc/passwd", AddressError::NoUrl),
            ("https://user:secret@a/", AddressError::User),
        ];
        for (base, error) in table {
            assert_eq!(Address::new(base, "messages").err(), Some(error), "{base}");
        }
    }

    fn key(value: &str) -> ApiKey {
        ApiKey::new(value).unwrap().unwrap()
    }

    #[test]
    fn a_key_is_one_visible_word() {
        assert!(ApiKey::new(" \n").unwrap().is_none());
        for wrong in ["a b", "a\u{e9}", "a\nb", "a\0"] {
            assert_eq!(ApiKey::new(wrong).err(), Some(InvalidKey), "{wrong:?}");
        }
        assert_eq!(key(" abc\n").header("Bearer "), "Bearer abc");
    }

    #[test]
    fn a_key_is_in_no_debug_output() {
        let key = key("sk-secret");
        assert_eq!(format!("{key:?}"), "Key(..)");
        assert!(!format!("{:?}", key.header("Bearer ")).contains("secret"));
    }

    #[test]
    fn a_key_is_removed_from_text() {
        let table = [
            ("sk-proj-0123456789", "wrong: sk-proj-0123456789.", "wrong: [key]."),
            ("sk-proj-0123456789", "`sk-proj-*****6789` and sk-p", "`[key]` and sk-p"),
            ("sk-proj-0123456789", "sk-proj-01, sk-proj-0123456789", "[key], [key]"),
            ("abc", "abc abc: x", "[key] [key]: x"),
            ("a/b", "nothing", "nothing"),
        ];
        for (value, text, left) in table {
            assert_eq!(key(value).removed_from(text), left);
        }
    }
}
