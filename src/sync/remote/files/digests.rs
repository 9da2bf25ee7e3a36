
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::remote::mark::{key_of, version_of};
use crate::replica::{Base, FileKey, FileVersion};
use ctxfs_core::model::{ArtifactState, Record, RelPath};
use ctxfs_store::{
    Conversation, FileClock, FileMark, Lease, Stat, StoreError, UnreadPlaces, lease_of, stat_file,
};

pub(super) struct Digests<'a> {
    conversation: &'a Conversation,
    known: HashMap<FileKey, FileVersion>,
    places: HashSet<(FileKey, &'a str)>,
    clock: FileClock,
}

impl<'a> Digests<'a> {
    pub(super) fn new(conversation: &'a Conversation, known: &'a Base, clock: FileClock) -> Self {
        let entries = known.entries.iter();
        let places = entries.clone().map(|entry| (entry.key, entry.path.as_str())).collect();
        let known = entries.map(|entry| (entry.key, entry.version)).collect();
        Self { conversation, known, places, clock }
    }

    ///+ Returns the digest of the file at `path`: an empty text if the base has it in this state,
    ///+ `None` while it is incomplete. Adds unreadable places to `unread`.
    pub(super) fn of(
        &self,
        path: &RelPath,
        stat: &Stat,
        unread: &mut UnreadPlaces,
    ) -> Result<Option<String>, StoreError> {
        if self.is_known(path, stat) {
            return Ok(Some(String::new()));
        }
        self.find(path, stat).or_else(|error| {
            self.conversation.pass_over(error, unread)?;
            Ok(None)
        })
    }

    ///+ Returns true if the base has the file in this state. A further hard link is a new file.
    fn is_known(&self, path: &RelPath, stat: &Stat) -> bool {
        let mark = FileMark::of(stat);
        let key = key_of(&mark);
        let is_same = self.known.get(&key) == Some(&version_of(&mark));
        is_same && (stat.nlink < 2 || self.places.contains(&(key, path.to_text().as_str())))
    }

    fn find(&self, path: &RelPath, stat: &Stat) -> Result<Option<String>, StoreError> {
        let mut record = self.conversation.record(path)?;
        if record.as_ref().is_some_and(|record| record.state == ArtifactState::Live) {
            record = self.conversation.recover(path)?;
            if record.is_none() {
                return Ok(None);
            }
        }
        self.find_in_complete(path, stat, record)
    }

    fn find_in_complete(
        &self,
        path: &RelPath,
        stat: &Stat,
        record: Option<Record>,
    ) -> Result<Option<String>, StoreError> {
        let opened = self.conversation.dir().open_file_at(path, OFlags::RDONLY | OFlags::NOATIME);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.conversation.error_at("read", path, error))?,
        };
        if lease_of(&file) == Lease::Held {
            return Ok(None);
        }
        let recorded = record.filter(|record| stat.is_recorded(record));
        if let Some(analysis) = recorded.and_then(|record| record.analysis) {
            return Ok(Some(analysis.digest));
        }
        if self.clock.is_recent(stat) {
            return Ok(None);
        }
        let digest = digest_of(&file, stat);
        digest.map_err(|error| self.conversation.error_at("read", path, error))
    }
}

///+ Returns the digest of a file, or `None` if the file does not match `stat` before and after
///+ reading.
fn digest_of(file: &File, stat: &Stat) -> io::Result<Option<String>> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    let is_unchanged = stat_file(file)?.is_unchanged(stat);
    Ok(is_unchanged.then(|| hasher.finalize().to_hex().to_string()))
}
