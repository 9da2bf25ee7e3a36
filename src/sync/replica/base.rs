//! The state that this host last agreed upon with the bucket, and what is there now.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::replica::Origin;

/// A second, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// A file of this host's disk, however it is called, or an artifact whose bytes are elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKey {
    /// A file here.
    Here {
        /// Its inode.
        inode: u64,
        /// Its time of birth, in nanoseconds since the epoch: inodes are used again.
        born: i64,
    },
    /// The bytes of this origin, which are not here.
    Elsewhere(Origin),
}

impl FileKey {
    /// Returns true if it is a file that is younger than its bytes, of which `version` is the
    /// state: they were copied, with their time.
    pub(super) fn is_copy_of(self, version: FileVersion) -> bool {
        matches!(self, Self::Here { born, .. } if born > version.modified)
    }
}

/// The state of a file's bytes: they are the same while it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Bytes.
    pub size: u64,
    /// The time of the last change of the bytes, in nanoseconds since the epoch.
    pub modified: i64,
}

/// A file as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which file it is.
    pub key: FileKey,
    /// The state of its bytes.
    pub version: FileVersion,
    /// The digest of its bytes; none while somebody writes it.
    pub digest: Option<Arc<str>>,
}

/// A file whose bytes are those of artifacts in the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it was when host and bucket agreed.
    pub path: String,
    /// The name that they ask for, if another file had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The artifacts. Several have the same bytes.
    pub origins: Vec<Origin>,
    /// The file.
    pub key: FileKey,
    /// The state of its bytes that are the artifacts'.
    pub version: FileVersion,
    /// The digest of the artifacts' bytes. Empty if it is not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub digest: Arc<str>,
}

/// What this host and the bucket agreed upon when they last met: which artifacts the bytes of which
/// files are, and where these were. What differs from it now was done here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    /// In no order. No artifact is in two.
    pub entries: Vec<Entry>,
}

impl Base {
    /// Takes notice of artifacts that are shown although the base does not say so: a crash came
    /// between the two. What was replaced or removed here before that was not seen, as far as this
    /// host knows: it stays.
    pub fn heal(&mut self, files: &BTreeMap<String, Found>) {
        let known = self.entries.iter().flat_map(|entry| &entry.origins);
        let known: BTreeSet<_> = known.copied().collect();
        for (path, found) in files {
            if let FileKey::Elsewhere(origin) = found.key
                && !known.contains(&origin)
            {
                self.entries.push(Entry::new(path, &[origin], found));
            }
        }
    }
}

impl Base {
    /// Takes notice of files that have other times or are other ones, and still have the bytes which
    /// were published: these are not sent again. Returns true if there are any.
    pub fn keep_same(&mut self, files: &BTreeMap<String, Found>) -> bool {
        let places = Places::of(files);
        let is_touched = self.keep_touched(&places);
        let is_restored = self.recognize(&places);
        is_touched || is_restored
    }

    fn keep_touched(&mut self, places: &Places<'_>) -> bool {
        let mut is_any = false;
        for entry in &mut self.entries {
            let found = places.of_entry(entry).map(|(_, found)| found);
            if let Some(found) = found.filter(|found| entry.is_touched_in(found)) {
                entry.version = found.version;
                is_any = true;
            }
        }
        is_any
    }

    /// Knows files again that somebody restored from a copy of the store: each is another file than
    /// the one in its entry, under the same name and with the same bytes and time. A file that was
    /// written since, even with the same bytes, has a time of its own, and is new.
    fn recognize(&mut self, places: &Places<'_>) -> bool {
        let files = places.files;
        let is_known = |entry: &Entry| {
            let found = files.get(&entry.path);
            !found.is_some_and(|found| entry.is_copied_to(found))
                || places.of_entry(entry).is_some()
        };
        let (known, copied): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.entries).into_iter().partition(is_known);
        self.entries = known;
        let is_any = !copied.is_empty();
        for entry in copied {
            let Found { key, version, .. } = files[&entry.path];
            self.entries.push(Entry { key, version, ..entry });
        }
        if is_any {
            self.join_entries();
        }
        is_any
    }

    /// Makes one entry of those of one file under one name: others may have published the same
    /// bytes.
    fn join_entries(&mut self) {
        let mut places: HashMap<(FileKey, String), usize> = HashMap::new();
        let mut joined: Vec<Entry> = Vec::with_capacity(self.entries.len());
        for entry in std::mem::take(&mut self.entries) {
            match places.entry((entry.key, entry.path.clone())) {
                Occupied(known) => joined[*known.get()].origins.extend(entry.origins),
                Vacant(place) => {
                    place.insert(joined.len());
                    joined.push(entry);
                }
            }
        }
        self.entries = joined;
    }
}

/// Where files are now that are in a base.
pub(super) struct Places<'a> {
    files: &'a BTreeMap<String, Found>,
    by_key: HashMap<FileKey, &'a str>,
}

impl<'a> Places<'a> {
    pub(super) fn of(files: &'a BTreeMap<String, Found>) -> Self {
        let by_key = files.iter().map(|(path, found)| (found.key, path.as_str())).collect();
        Self { files, by_key }
    }

    /// Returns where the entry's file is. If it was let go of since, or fetched, that is where its
    /// artifact is.
    pub(super) fn of_entry(&self, entry: &Entry) -> Option<(&'a str, &'a Found)> {
        let elsewhere = entry.origins.iter().map(|origin| FileKey::Elsewhere(*origin));
        let mut keys = std::iter::once(entry.key).chain(elsewhere);
        // Hard links have one key: the path where it was is taken first.
        if let Some((path, found)) = self.files.get_key_value(&entry.path)
            && keys.clone().any(|key| key == found.key)
        {
            return Some((path, found));
        }
        let place = keys.find_map(|key| self.by_key.get(&key).copied())?;
        Some((place, &self.files[place]))
    }
}

fn is_unknown(digest: &str) -> bool {
    digest.is_empty()
}

impl Entry {
    /// Returns the entry of a file whose bytes are these artifacts'.
    pub fn new(path: &str, origins: &[Origin], found: &Found) -> Self {
        let Found { key, version, digest } = found.clone();
        let (path, origins) = (path.to_owned(), origins.to_vec());
        Self { path, asked: None, origins, key, version, digest: digest.unwrap_or_default() }
    }

    /// Returns true if the file, which has its path, is a copy of the one that it had. Archives may
    /// have whole seconds.
    fn is_copied_to(&self, found: &Found) -> bool {
        let Self { version: FileVersion { size, modified }, digest, .. } = self;
        let second = modified.div_euclid(SECOND) * SECOND;
        found.key.is_copy_of(found.version)
            && found.version.size == *size
            && [*modified, second].contains(&found.version.modified)
            && !digest.is_empty()
            && found.digest.as_ref() == Some(digest)
    }

    /// Returns true if the file is the one of this entry, with another time and the same bytes.
    fn is_touched_in(&self, found: &Found) -> bool {
        found.key == self.key
            && found.version != self.version
            && !self.digest.is_empty()
            && found.digest.as_ref() == Some(&self.digest)
    }

    /// Returns true if the file still has the artifacts' bytes.
    pub(super) fn holds_in(&self, found: &Found) -> bool {
        match found.key {
            FileKey::Elsewhere(origin) => found.key == self.key || self.origins.contains(&origin),
            FileKey::Here { .. } => found.key == self.key && found.version == self.version,
        }
    }
}
