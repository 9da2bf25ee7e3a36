//! The state that this host last agreed upon with the bucket, and what is there now.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;

use serde::Deserialize;
use serde::Serialize;

use crate::replica::Origin;

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

/// What tells whether the bytes of a file are those that they were.
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
    pub digest: Option<String>,
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

impl Entry {
    /// Returns the entry of a file whose bytes are these artifacts'.
    pub fn new(path: &str, origins: &[Origin], found: &Found) -> Self {
        let (key, version) = (found.key, found.version);
        Self { path: path.to_owned(), asked: None, origins: origins.to_vec(), key, version }
    }

    /// Returns true if the file still has the artifacts' bytes.
    pub(super) fn holds_in(&self, found: &Found) -> bool {
        match found.key {
            FileKey::Elsewhere(origin) => found.key == self.key || self.origins.contains(&origin),
            FileKey::Here { .. } => found.key == self.key && found.version == self.version,
        }
    }
}
