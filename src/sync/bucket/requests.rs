//! How many requests a bucket had, and how many bytes went over.

use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What a request does. Stores price them by these kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Reads the bytes of an object.
    Get,
    /// Writes an object, or a part of one, or begins or completes one in parts.
    Put,
    /// Reads a page of names.
    List,
    /// Deletes objects, or gives up one in parts.
    Delete,
    /// Asks for the size and time of an object.
    Head,
}

/// The requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The requests that were sent, those that failed too.
    pub requests: u64,
    /// The bytes of objects that came or were sent, those in vain too.
    pub bytes: u64,
}

/// The requests of a bucket since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Bytes of objects that were read.
    pub get: Tally,
    /// Objects and parts that were written.
    pub put: Tally,
    /// Pages of names; the bytes are not known.
    pub list: Tally,
    /// Deletions; one request may have many keys.
    pub delete: Tally,
    /// Sizes and times that were asked for.
    pub head: Tally,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        let all = [self.get, self.put, self.list, self.delete, self.head];
        all.iter().map(|tally| tally.requests).sum()
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Add for RequestCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            get: self.get + other.get,
            put: self.put + other.put,
            list: self.list + other.list,
            delete: self.delete + other.delete,
            head: self.head + other.head,
        }
    }
}

/// One counter.
#[derive(Debug, Default)]
struct Counter {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    fn tally(&self) -> Tally {
        Tally {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The counters of a bucket.
#[derive(Debug, Default)]
pub(super) struct Requests {
    get: Counter,
    put: Counter,
    list: Counter,
    delete: Counter,
    head: Counter,
}

impl Requests {
    /// Counts a request that is about to be sent.
    pub(super) fn count(&self, kind: RequestKind) {
        self.counter(kind).requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes of a request.
    pub(super) fn add_bytes(&self, kind: RequestKind, bytes: usize) {
        self.counter(kind).bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the counts of now. Requests that are under way count.
    pub(super) fn snapshot(&self) -> RequestCounts {
        RequestCounts {
            get: self.get.tally(),
            put: self.put.tally(),
            list: self.list.tally(),
            delete: self.delete.tally(),
            head: self.head.tally(),
        }
    }

    fn counter(&self, kind: RequestKind) -> &Counter {
        match kind {
            RequestKind::Get => &self.get,
            RequestKind::Put => &self.put,
            RequestKind::List => &self.list,
            RequestKind::Delete => &self.delete,
            RequestKind::Head => &self.head,
        }
    }
}
