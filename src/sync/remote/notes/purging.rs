//! A purge that goes on: what is to leave the bucket, so that it goes on after a crash.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Notes;
use crate::bucket::ObjectName;
use crate::remote::{RemoteError, whole_file};
use crate::replica::Origin;

const PURGING: &str = "purging.json";
/// The most bytes of `purging.json` that are read.
const MOST: u64 = 64 << 20;

/// What is to leave the bucket at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purging {
    /// The artifacts.
    pub origins: BTreeSet<Origin>,
    /// The messages. They were removed before.
    #[serde(default)]
    pub messages: BTreeSet<Origin>,
    /// The objects of these artifacts, and of others that were removed and that nothing names once
    /// the segments of these are deleted.
    pub objects: BTreeSet<ObjectName>,
}

impl Notes {
    /// Returns the purge that goes on; an empty one if there is none.
    pub fn purging(&self) -> Result<Purging, RemoteError> {
        let path = self.path_of(PURGING);
        let text = whole_file::read(&self.dir, PURGING, MOST);
        let Some(text) = text.map_err(RemoteError::at("read", &path))? else {
            return Ok(Purging::default());
        };
        let damaged = |error: serde_json::Error| RemoteError::Damaged {
            path: path.clone(),
            why: error.to_string(),
        };
        serde_json::from_slice(&text).map_err(damaged)
    }

    /// Notes what is to leave the bucket, before anything does.
    pub fn keep_purging(&self, purging: &Purging) -> Result<(), RemoteError> {
        let text = serde_json::to_vec(purging).expect("a purge can be JSON");
        let written = whole_file::write(&self.dir, PURGING, &text);
        written.map_err(RemoteError::at("write", &self.path_of(PURGING)))
    }

    /// Forgets the purge: it is done.
    pub fn drop_purging(&self) -> Result<(), RemoteError> {
        let removed = whole_file::remove(&self.dir, PURGING);
        removed.map_err(RemoteError::at("remove", &self.path_of(PURGING)))
    }
}
