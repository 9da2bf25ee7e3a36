//! Other hosts that share the store, and artifacts whose bytes only those hosts have.

use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;

use crate::model::{Component, Content, Record, RelPath};

/// A function that removes the local copy of an output of a conversation if other hosts have its
/// bytes. It may block on requests to the bucket.
pub type Evictor<'a> = Box<dyn FnMut(&RelPath) -> EvictionResult + 'a>;

/// The other hosts that share the store. This host publishes its changes and fetches the changes of
/// the others.
///
/// No method blocks, except for [`Self::look`] and the function that [`Self::evictor`] returns.
pub trait OtherHosts: Debug + Send + Sync {
    /// Reports a change in a conversation. If the change has completed an output, `sealed` is the
    /// size of this output.
    fn changed(&self, conversation: &Component, sealed: Option<u64>);

    /// Returns true if the caller should [look](Self::look) for changes by other hosts in the
    /// conversation `at`. If `at` is `None`, this is about changes to the list of conversations.
    fn is_look_due(&self, at: Option<&Component>) -> bool;

    /// Fetches and applies the changes of other hosts. Waits at most for `patience`. Concurrent
    /// callers share one request. Returns true if changes may have been applied since the caller's
    /// previous call.
    fn look(&self, at: Option<&Component>, patience: Duration) -> bool;

    /// Returns true if other hosts have the conversation, and only a part of what they published in
    /// it has arrived. It is not shown before all has. The default implementation returns false.
    fn is_arriving(&self, _conversation: &Component) -> bool {
        false
    }

    /// Returns the conversations of other hosts that the last `look` without a conversation found.
    /// The list may include conversations that also exist on this host.
    fn conversations(&self) -> Arc<[Component]>;

    /// Returns a function that removes local copies of outputs of a conversation. The function is
    /// valid for one round of removals.
    fn evictor(&self, conversation: &Component) -> Evictor<'_>;

    /// Returns true if local copies of shared outputs are removed when the disk is nearly full.
    fn evicts(&self) -> bool;

    /// Returns the paths of the outputs that were written as `path`, but got another path because
    /// `path` was taken. If the output at `path` itself got this path in place of a taken one,
    /// includes the taken path. The default implementation returns no paths.
    fn same_name(&self, _conversation: &Component, _path: &RelPath) -> Vec<String> {
        Vec::new()
    }

    /// Returns the state of the synchronization with other hosts.
    fn report(&self) -> HostsReport;
}

/// The result of an attempt to remove the local copy of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionResult {
    /// The copy was removed. The name and the record remain. The bytes are fetched when they are
    /// read.
    Gone,
    /// The copy was kept for this reason, although other hosts have the output.
    Kept(&'static str),
    /// The copy was kept because no other host has the output.
    NotShared,
}

/// The state of the synchronization with other hosts, for people and programs.
///
/// `url` is the address of the bucket, `bucket` its id if known, and `writer` the name of this host
/// in the bucket. `waiting` counts completed outputs that are not sent yet, and `waiting_bytes`
/// their bytes; an output that was completed twice counts twice. `oldest_seconds` is the age of the
/// oldest unsent change. `lag_millis` is the delay with which the most recent change was sent.
/// `error` is the reason why the last request failed; it is cleared when a request succeeds.
/// `requests` counts the requests of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct HostsReport {
    pub url: String,
    pub bucket: Option<String>,
    pub writer: Option<String>,
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub oldest_seconds: Option<u64>,
    pub lag_millis: Option<u64>,
    pub error: Option<String>,
    pub requests: Vec<RequestReport>,
}

/// The requests of one kind. The kinds are the classes by which object stores set prices.
/// `requests` is the number of requests. `bytes` is the number of bytes of objects that were
/// received or sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct RequestReport {
    pub kind: &'static str,
    pub requests: u64,
    pub bytes: u64,
}

/// Access to artifacts whose bytes are not on this disk.
pub trait FarStore: Debug + Send + Sync {
    /// Opens the artifact with the given record. Opening and reading may wait for the network, but
    /// only up to a deadline.
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile>;
}

/// An artifact that is open for reading although its bytes are not on this disk. A read fails if
/// the bytes do not match the digest in the record. `attributes` are the extended attributes named
/// `user.*`.
#[derive(Clone)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct FarFile {
    pub content: Arc<dyn Content>,
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

impl Debug for FarFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarFile").field("length", &self.content.len()).finish_non_exhaustive()
    }
}
