//! The address of a server over HTTP.

use std::fmt;

/// A server over HTTP.
#[derive(Clone)]
pub struct RemoteServer {
    /// Its address, with `http://` or `https://`.
    pub url: String,
    /// The headers of each request to it.
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of headers are secrets, and so may be the URL.
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("RemoteServer").field("headers", &names).finish_non_exhaustive()
    }
}
