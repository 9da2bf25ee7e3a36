
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Notes;
use crate::bucket::ObjectName;
use crate::remote::{RemoteError, whole_file};
use crate::replica::Origin;

const PURGING: &str = "purging.json";
const MOST: u64 = 64 << 20;

///+ Artifacts and messages that an unfinished purge removes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purging {
    pub origins: BTreeSet<Origin>,
    #[serde(default)]
    pub messages: BTreeSet<Origin>,
    ///+ Objects of these artifacts, and objects of other removed artifacts that become unnamed when
    ///+ the segments are deleted.
    pub objects: BTreeSet<ObjectName>,
}

impl Notes {
    ///+ Returns the unfinished purge; an empty one if there is none.
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

    ///+ Saves a purge before it deletes anything.
    pub fn keep_purging(&self, purging: &Purging) -> Result<(), RemoteError> {
        let text = serde_json::to_vec(purging).expect("a purge can be JSON");
        let written = whole_file::write(&self.dir, PURGING, &text);
        written.map_err(RemoteError::at("write", &self.path_of(PURGING)))
    }

    pub fn drop_purging(&self) -> Result<(), RemoteError> {
        let removed = whole_file::remove(&self.dir, PURGING);
        removed.map_err(RemoteError::at("remove", &self.path_of(PURGING)))
    }
}
