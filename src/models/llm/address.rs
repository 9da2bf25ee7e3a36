//! The address of an endpoint.

use std::fmt;

use hyper::Uri;
use hyper::http::uri::PathAndQuery;

/// Where requests go.
#[derive(Clone)]
pub(super) struct Address {
    uri: Uri,
    host: String,
}

/// What is wrong with a `base_url`, which it does not repeat: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has another form.
    #[error("is no URL such as `http://127.0.0.1:8080`")]
    NoUrl,
    /// It begins with another scheme.
    #[error("is neither http:// nor https://")]
    Scheme,
    /// It has a name or a password before the host.
    #[error("has a user name before its host; a key belongs in the variable of `api_key_env`")]
    User,
}

impl Address {
    /// Returns the address of `call`, such as `messages`, below `base_url`, which may end with a
    /// slash and with `/v1`. A query stays.
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

    /// Returns true if requests are encrypted.
    pub(super) fn is_secure(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// Returns the host, and its port if the settings name one.
    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

/// Returns the path of `call`, with the query of `base`.
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
}
