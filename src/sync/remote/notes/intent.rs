
use serde::{Deserialize, Serialize};

use super::{MessagesAt, Notes};
use crate::bucket::SEGMENT_BYTES;
use crate::remote::{Moment, RemoteError, whole_file};
use crate::replica::{Accepted, SegmentId, Stamp};

const INTENT: &str = "intent.json";
const BYTES: &str = "intent.tar.zst";
const MOST: u64 = 512 << 20;

///+ A segment that is being sent, and its effects on the agreement. On disk before the first
///+ request, so that an interrupted push continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub segment: SegmentId,
    pub accepted: Accepted,
    ///+ End of the published messages afterwards; `None` if the segment has no messages.
    pub messages: Option<MessagesAt>,
    pub stamp: Stamp,
    ///+ When the segment or the first of its objects was made.
    pub since: Moment,
    ///+ BLAKE3 of the segment, in lower-case hexadecimal.
    pub digest: String,
}

impl Notes {
    ///+ Returns the intent and its segment. Ignores an incomplete intent of a crash, which was never
    ///+ sent.
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

    ///+ Saves an intent: the segment is on disk before the intent that refers to it.
    pub fn keep_intent(&self, intent: &Intent, bytes: &[u8]) -> Result<(), RemoteError> {
        let write = |name, bytes: &[u8]| {
            let written = whole_file::write(&self.dir, name, bytes);
            written.map_err(RemoteError::at("write", &self.path_of(name)))
        };
        let text = serde_json::to_vec(intent).expect("an intent can be JSON");
        write(BYTES, bytes)?;
        write(INTENT, &text)
    }

    pub fn drop_intent(&self) -> Result<(), RemoteError> {
        for name in [INTENT, BYTES] {
            let removed = whole_file::remove(&self.dir, name);
            removed.map_err(RemoteError::at("remove", &self.path_of(name)))?;
        }
        Ok(())
    }
}
