//! Other hosts that share the conversations, and artifacts whose bytes are with them.

use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use serde::Serialize;

use crate::model::{Component, Content, Record, RelPath};

/// Removes the local copy of an output of a conversation, if other hosts have its bytes. Waits for
/// them.
pub type LettingGo<'a> = Box<dyn FnMut(&RelPath) -> LetGo + 'a>;

/// The others that share the store: this host tells them what it did, and hears what they did. All
/// but [`Self::look`], and what [`Self::letting_go`] returns, return at once.
pub trait OtherHosts: Debug + Send + Sync {
    /// Takes notice that something was done in a conversation. `sealed` has the bytes of an output
    /// that is complete now.
    fn changed(&self, conversation: &Component, sealed: Option<u64>);

    /// Returns true if it is worth waiting for what others did in a conversation, or, without one,
    /// for which conversations there are.
    fn is_look_due(&self, at: Option<&Component>) -> bool;

    /// Waits until it is known here what others did, for `patience` at most. One look serves all
    /// who ask. Returns true if something may have come since the caller looked here.
    fn look(&self, at: Option<&Component>, patience: Duration) -> bool;

    /// Returns conversations that others have, as the last look without a conversation found them.
    /// Some of them are here, too.
    fn conversations(&self) -> Arc<[Component]>;

    /// Returns what lets local copies of outputs of a conversation go, for one round of that.
    fn letting_go(&self, conversation: &Component) -> LettingGo<'_>;

    /// Returns true if local copies of what the others have go when the disk is nearly full.
    fn evicts(&self) -> bool;

    /// Returns the paths of the outputs of a conversation that asked for the name of the one at
    /// `path`, and have another as that one has it, and the path that this one asked for.
    fn same_name(&self, _conversation: &Component, _path: &RelPath) -> Vec<String> {
        Vec::new()
    }

    /// Returns how this host stands to the others.
    fn report(&self) -> HostsReport;
}

/// The outcome for the local copy of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetGo {
    /// It is gone. Name and record stay, and the bytes come from elsewhere.
    Gone,
    /// It stays, although others have the output. The text says why.
    Kept(&'static str),
    /// It stays: no other host has the output.
    NotShared,
}

/// The state of the sharing, for people and programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostsReport {
    /// The place of the bucket.
    pub url: String,
    /// Its id, if it is known.
    pub bucket: Option<String>,
    /// The name that this host has there.
    pub writer: Option<String>,
    /// The outputs that were completed and are not sent yet, counted anew each time one is.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Since when the oldest change waits, outputs and others.
    pub oldest_seconds: Option<u64>,
    /// How long what was sent last had waited.
    pub lag_millis: Option<u64>,
    /// Why the last request failed, until one succeeds.
    pub error: Option<String>,
    /// The requests, by kind.
    pub requests: Vec<RequestReport>,
}

/// The requests of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestReport {
    /// The kind, as stores price them.
    pub kind: &'static str,
    /// The number of requests.
    pub requests: u64,
    /// The bytes of objects that came or were sent.
    pub bytes: u64,
}

/// Where the bytes are of artifacts that are not on this disk.
pub trait FarStore: Debug + Send + Sync {
    /// Opens the artifact of a conversation that has this record. May wait for the network, as
    /// reads of its content may, but not longer than until a deadline.
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile>;
}

/// An artifact whose bytes are not on this disk, open for reading.
#[derive(Clone)]
pub struct FarFile {
    /// Its bytes. They are those of its digest, or a read fails.
    pub content: Arc<dyn Content>,
    /// Its attributes `user.*`.
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

impl Debug for FarFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarFile").field("length", &self.content.len()).finish_non_exhaustive()
    }
}
