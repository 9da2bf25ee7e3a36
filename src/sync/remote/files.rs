//! Local files of a conversation, compared with the agreement of host and bucket.

mod digests;
mod scan;
mod swept;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::remote::files::digests::Digests;
use crate::remote::files::scan::Scan;
use crate::remote::files::swept::Swept;
use crate::remote::mark::{key_of, version_of};
use crate::replica::{Base, Entry, FileKey, Found, Origin};
use ctxfs_core::model::RelPath;
use ctxfs_store::{Conversation, FileClock, FileMark, Stat, StoreError, UnreadPlaces};

///+ Shared files of a conversation on this host, and its artifacts without local bytes.
#[derive(Debug, Default)]
pub struct Files {
    ///+ Files by path. A file that the base has in this state has an empty digest, since nobody
    ///+ publishes it.
    pub found: BTreeMap<String, Found>,
    ///+ Directories that must stay even when empty: they were not created for files of other hosts.
    pub directories: BTreeSet<String>,
    ///+ Paths in the base of files that retention removed from this disk. Retention is local: these
    ///+ files are neither present nor removed.
    pub swept: BTreeSet<String>,
    ///+ Unreadable places. `found` has their files as the base has them, so that they count neither
    ///+ as changed nor as removed.
    pub unread: UnreadPlaces,
    ///+ True if the unreadable places are unknown.
    is_blind: bool,
}

///+ Scans the files of a conversation. `known` is the agreed base: files in the state that it has
///+ are not read again. `clock` is that of the store's disk.
///+
///+ A file has a digest once it is complete: its record says so, no process has it open for writing,
///+ and its next change will show in its times.
///+
///+ `is_of_bucket` tells the artifacts of this bucket from those of another bucket that the store
///+ was shared through: local copies of the latter are plain local files.
pub fn files(
    conversation: &Conversation,
    known: &Base,
    clock: FileClock,
    is_of_bucket: &dyn Fn(Origin) -> bool,
) -> Result<Files, StoreError> {
    let Scan { files, far, directories, unread, is_blind } = Scan::of(conversation, known)?;
    let (found, swept) = (BTreeMap::new(), BTreeSet::new());
    let mut all = Files { found, directories, swept, unread, is_blind };
    let digests = Digests::new(conversation, known, clock);
    for (path, stat) in files {
        let digest = digests.of(&path, &stat, &mut all.unread)?;
        let mark = FileMark::of(&stat);
        // An unchanged file is no download; its record need not be read.
        let may_be_copy = stat.may_be_copy() || digest.as_deref() != Some("");
        let origin = if may_be_copy { origin_at(conversation, &path, &stat) } else { None };
        let origin = origin.filter(|origin| is_of_bucket(*origin));
        let key = origin.map_or(key_of(&mark), FileKey::Elsewhere);
        let digest = digest.map(Arc::from);
        let found = Found { key, version: version_of(&mark), digest };
        all.found.insert(path.to_text(), found);
    }
    let is_other = |found: &Found| match found.key {
        FileKey::Elsewhere(origin) => !is_of_bucket(origin),
        FileKey::Here { .. } => false,
    };
    let (other, far): (Vec<_>, Vec<_>) = far.into_iter().partition(|(_, found)| is_other(found));
    for (path, found) in far {
        all.found.entry(path).or_insert(found);
    }
    // A file of another bucket that took a name removed nothing from this one.
    let taken: BTreeSet<String> = other.into_iter().map(|(path, _)| path).collect();
    for entry in known.entries.iter().filter(|entry| taken.contains(&entry.path)) {
        all.assume_entry(entry);
    }
    all.assume(conversation, known)?;
    Ok(all)
}

///+ Returns the artifact that was downloaded to this file, if the file still has its bytes.
fn origin_at(conversation: &Conversation, path: &RelPath, stat: &Stat) -> Option<Origin> {
    let record = conversation.record(path).ok()??;
    stat.far_origin(&record)?.parse().ok()
}

impl Files {
    ///+ Returns true if the state of `path` is unknown, because the file or a directory above it
    ///+ could not be read.
    pub fn is_unread(&self, path: &str) -> bool {
        let holds = |place: &str| {
            let rest = path.strip_prefix(place);
            place == "." || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let are_named = self.unread.named().len() as u64 == self.unread.count();
        self.is_blind || !are_named || self.unread.named().iter().any(|place| holds(&place.path))
    }

    ///+ Assumes the remote artifacts of the base to be present. A lost manifest lists none of them,
    ///+ which is no removal.
    pub fn assume_elsewhere(&mut self, known: &Base) {
        for entry in &known.entries {
            if let FileKey::Elsewhere(_) = entry.key {
                self.assume_entry(entry);
            }
        }
    }

    fn assume_entry(&mut self, entry: &Entry) {
        let (key, version) = (entry.key, entry.version);
        let found = Found { key, version, digest: Some(Arc::default()) };
        self.found.entry(entry.path.clone()).or_insert(found);
    }

    ///+ Assumes the files of the base in unreadable places to be present, and notes the files that
    ///+ retention removed.
    fn assume(&mut self, conversation: &Conversation, known: &Base) -> Result<(), StoreError> {
        let seen: HashSet<FileKey> = self.found.values().map(|found| found.key).collect();
        let is_missing = |entry: &&Entry| !keys_of(entry).any(|key| seen.contains(&key));
        let missing: Vec<&Entry> = known.entries.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let kept = Swept::of(conversation, &mut self.unread)?;
        for entry in missing {
            if kept.has(entry) {
                self.swept.insert(entry.path.clone());
            } else if self.is_unread(&entry.path) {
                self.assume_entry(entry);
            }
        }
        Ok(())
    }
}

///+ Returns all keys that the file of an entry may have: it may have been evicted since.
fn keys_of(entry: &Entry) -> impl Iterator<Item = FileKey> {
    let elsewhere = entry.origins.iter().map(|origin| FileKey::Elsewhere(*origin));
    std::iter::once(entry.key).chain(elsewhere)
}

#[cfg(test)]
pub(super) mod tests;
