//! Requests and bytes that reached the server.

use std::ops::Sub;
use std::time::Duration;

use hyper::Method;

/// Requests of a client, by the classes that stores charge for, and the bytes in both directions of
/// the link, including HTTP headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// PUT, and the POST requests of uploads in parts.
    pub(crate) puts: u64,
    /// GET and HEAD of objects.
    pub(crate) gets: u64,
    /// Pages of lists.
    pub(crate) lists: u64,
    /// Deletions, which are free of charge.
    pub(crate) deletes: u64,
    /// Bytes sent to the server.
    pub(crate) sent: u64,
    /// Bytes received from the server.
    pub(crate) received: u64,
    /// Time that the server took to join the parts of uploads.
    pub(crate) joining: Duration,
}

impl Counts {
    pub(crate) fn count(&mut self, method: &Method, query: &str) {
        let has = |key: &str| query.split('&').any(|pair| pair.split('=').next() == Some(key));
        match *method {
            Method::GET if has("list-type") => self.lists += 1,
            Method::DELETE => self.deletes += 1,
            Method::POST if has("delete") => self.deletes += 1,
            Method::PUT | Method::POST => self.puts += 1,
            _ => self.gets += 1,
        }
    }

    /// Returns the number of all requests.
    pub(crate) fn requests(&self) -> u64 {
        self.puts + self.gets + self.lists + self.deletes
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            puts: self.puts - before.puts,
            gets: self.gets - before.gets,
            lists: self.lists - before.lists,
            deletes: self.deletes - before.deletes,
            sent: self.sent - before.sent,
            received: self.received - before.received,
            joining: self.joining.saturating_sub(before.joining),
        }
    }
}
