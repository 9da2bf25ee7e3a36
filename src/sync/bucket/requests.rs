
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

///+ Kind of a request, as stores price them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Get,
    ///+ Writes an object or a part, or starts or completes an upload in parts.
    Put,
    List,
    ///+ Deletes objects, or aborts an upload in parts.
    Delete,
    Head,
}

///+ Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    ///+ Requests sent, including failed ones.
    pub requests: u64,
    ///+ Bytes of objects received or sent, including those of failed requests.
    pub bytes: u64,
}

///+ Requests of a bucket since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    ///+ Reads of objects.
    pub get: Tally,
    ///+ Writes of objects and parts.
    pub put: Tally,
    ///+ Pages of lists; the bytes are unknown.
    pub list: Tally,
    ///+ Deletions; one request may have many keys.
    pub delete: Tally,
    ///+ Requests for sizes and times.
    pub head: Tally,
}

impl RequestCounts {
    ///+ Returns the number of all requests.
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

#[derive(Debug, Default)]
pub(super) struct Requests {
    get: Counter,
    put: Counter,
    list: Counter,
    delete: Counter,
    head: Counter,
}

impl Requests {
    pub(super) fn count(&self, kind: RequestKind) {
        self.counter(kind).requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, kind: RequestKind, bytes: usize) {
        self.counter(kind).bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    ///+ Returns the current counts, including requests in flight.
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
