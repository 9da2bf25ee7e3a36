//! What is about to be sent, on disk as it will be sent.

use serde::{Deserialize, Serialize};

use super::{MessagesAt, Notes};
use crate::bucket::SEGMENT_BYTES;
use crate::remote::{Moment, RemoteError, whole_file};
use crate::replica::{Accepted, SegmentId, Stamp};

const INTENT: &str = "intent.json";
const BYTES: &str = "intent.tar.zst";
/// The most bytes of `intent.json` that are read.
const MOST: u64 = 512 << 20;

/// A segment that is about to be sent, and what holds once it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its name.
    pub segment: SegmentId,
    /// What host and bucket agree upon then.
    pub accepted: Accepted,
    /// The messages that are published then; none if it has none.
    pub messages: Option<MessagesAt>,
    /// The latest stamp in it.
    pub stamp: Stamp,
    /// When it was made, or the first of its objects.
    pub since: Moment,
    /// BLAKE3 of its bytes, in lower-case hexadecimal.
    pub digest: String,
}

impl Notes {
    /// Returns what is about to be sent, with its bytes.
    ///
    /// One that a crash cut off was never sent, and does not count.
    pub fn intent(&self) -> Result<Option<(Intent, Vec<u8>)>, RemoteError> {
        let read = |name, most| {
            let bytes = whole_file::read(&self.dir, name, most);
            bytes.map_err(RemoteError::at("read", &self.path_of(name)))
        };
        let Some(text) = read(INTENT, MOST)? else { return Ok(None) };
        let Ok(intent) = serde_json::from_slice::<Intent>(&text) else { return Ok(None) };
        let bytes = read(BYTES, SEGMENT_BYTES)?.unwrap_or_default();
        let is_its = blake3::hash(&bytes).to_hex().as_str() == intent.digest;
        Ok(is_its.then_some((intent, bytes)))
    }

    /// Keeps what is about to be sent. The bytes are on the disk before anything says so.
    pub fn keep_intent(&self, intent: &Intent, bytes: &[u8]) -> Result<(), RemoteError> {
        let write = |name, bytes: &[u8]| {
            let written = whole_file::write(&self.dir, name, bytes);
            written.map_err(RemoteError::at("write", &self.path_of(name)))
        };
        let text = serde_json::to_vec(intent).expect("an intent can be JSON");
        write(BYTES, bytes)?;
        write(INTENT, &text)
    }

    /// Forgets what was about to be sent.
    pub fn drop_intent(&self) -> Result<(), RemoteError> {
        for name in [INTENT, BYTES] {
            let removed = whole_file::remove(&self.dir, name);
            removed.map_err(RemoteError::at("remove", &self.path_of(name)))?;
        }
        Ok(())
    }
}
