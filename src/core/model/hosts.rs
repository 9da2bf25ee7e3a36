//! Other hosts that share the conversations, and artifacts whose bytes are with them.

use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;

use crate::model::{Component, Content, Record, RelPath};

/// Removes the local copy of an output of a conversation, if other hosts have its bytes. May block
/// on requests to the bucket.
pub type Evictor<'a> = Box<dyn FnMut(&RelPath) -> EvictionResult + 'a>;

/// Other hosts that share the store: this host publishes its changes and fetches theirs.
///
/// All methods return at once, except for [`Self::look`] and the function that [`Self::evictor`]
/// returns.
pub trait OtherHosts: Debug + Send + Sync {
    /// Reports a change in a conversation. `sealed` is the size of an output that is complete now.
    fn changed(&self, conversation: &Component, sealed: Option<u64>);

    /// Returns true if it is worth waiting for changes of other hosts in a conversation, or,
    /// without one, for the list of conversations.
    fn is_look_due(&self, at: Option<&Component>) -> bool;

    /// Waits until changes of other hosts are known here, for `patience` at most. One look serves
    /// all callers. Returns true if changes may have been applied since the caller last looked.
    fn look(&self, at: Option<&Component>, patience: Duration) -> bool;

    /// Returns conversations of other hosts, as the last look without a conversation found them.
    /// Some of them may exist here, too.
    fn conversations(&self) -> Arc<[Component]>;

    /// Returns a function that removes local copies of outputs of a conversation, for one round of
    /// removal.
    fn evictor(&self, conversation: &Component) -> Evictor<'_>;

    /// Returns true if local copies of shared outputs are removed when the disk is nearly full.
    fn evicts(&self) -> bool;

    /// Returns the paths of the outputs of a conversation that asked for `path` and were given
    /// another one, because it was taken, and the path that the output at `path` itself asked for.
    fn same_name(&self, _conversation: &Component, _path: &RelPath) -> Vec<String> {
        Vec::new()
    }

    /// Returns the state of the sharing.
    fn report(&self) -> HostsReport;
}

/// The result of removing the local copy of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionResult {
    /// The copy was removed. Name and record stay, and the bytes are fetched when they are read.
    Gone,
    /// The copy was kept for this reason, although other hosts have the output.
    Kept(&'static str),
    /// The copy was kept: no other host has the output.
    NotShared,
}

/// The state of the sharing, for people and programs.
///
/// `url` locates the bucket, `bucket` is its id if it is known, `writer` is the name of this host
/// there. `waiting` outputs with `waiting_bytes` bytes were completed and are not sent yet; each
/// completion counts. The oldest unsent change has waited for `oldest_seconds`, and the change that
/// was sent last had waited for `lag_millis`. `error` is the reason why the last request failed,
/// until one succeeds.
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

/// The requests of one kind, as object stores price them: their number, and the bytes of objects
/// that were received or sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct RequestReport {
    pub kind: &'static str,
    pub requests: u64,
    pub bytes: u64,
}

/// Access to artifacts whose bytes are not on this disk.
pub trait FarStore: Debug + Send + Sync {
    /// Opens the artifact of a conversation that has this record. Opening and reading may wait for
    /// the network, but not beyond a deadline.
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile>;
}

/// An artifact whose bytes are not on this disk, open for reading. A read fails unless the bytes
/// match the digest of the record. The attributes are the extended ones named `user.*`.
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
