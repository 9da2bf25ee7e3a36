//! What was done here since host and bucket last agreed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replica::base::Places;
use crate::replica::{Base, FileKey, FileVersion, Found, Origin};

/// What was done here that the bucket does not know. It is found by comparing, at any time: nothing
/// is queued that a crash could lose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files with new bytes, by path.
    pub puts: BTreeMap<String, Put>,
    /// Artifacts that have another path now.
    pub moves: BTreeMap<Origin, String>,
    /// Artifacts that were removed, or whose bytes were replaced by a file that is complete.
    pub removed: BTreeSet<Origin>,
}

/// A file with new bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The file.
    pub key: FileKey,
    /// The state of its bytes.
    pub version: FileVersion,
    /// Their digest; none while somebody writes them. Until then nothing is published.
    pub digest: Option<Arc<str>>,
    /// The artifacts that were seen under its name, or whose file it is. It replaces them.
    pub replaces: Vec<Origin>,
}

impl Put {
    /// Returns true if the bytes are older than their file: they were copied, with their time.
    pub(super) fn came(&self) -> bool {
        self.key.is_copy_of(self.version)
    }
}

impl Changes {
    /// Returns what was done since `base`, where `files` are there now.
    ///
    /// Whoever takes the first of several artifacts away that ask for one name gives the others the
    /// names under which he sees them: otherwise one of them would appear in its place.
    pub fn since(base: &Base, files: &BTreeMap<String, Found>) -> Self {
        let places = Places::of(files);
        let mut changes = Self::default();
        let mut settled = BTreeSet::new();
        let mut left: BTreeMap<&str, Vec<Origin>> = BTreeMap::new();
        for entry in &base.entries {
            let Some((now, found)) = places.of_entry(entry) else {
                left.entry(&entry.path).or_default().extend(&entry.origins);
                continue;
            };
            settled.insert(now);
            if !entry.holds_in(found) {
                changes.put(now, found, &entry.origins);
            } else if now != entry.path {
                changes.rename(&entry.origins, now);
            }
        }
        let new = files.iter().filter(|(path, found)| {
            !settled.contains(path.as_str()) && matches!(found.key, FileKey::Here { .. })
        });
        for (path, found) in new {
            let seen = left.remove(path.as_str()).unwrap_or_default();
            changes.put(path, found, &seen);
        }
        changes.removed.extend(left.values().flatten());
        changes.settle_names(base, files);
        changes
    }

    /// Returns true if nothing was done.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.moves.is_empty() && self.removed.is_empty()
    }

    /// Returns true if nothing can be published now: what there is, is still being written.
    pub fn must_wait(&self) -> bool {
        let waits = |put: &Put| put.digest.is_none();
        self.moves.is_empty() && self.removed.is_empty() && self.puts.values().all(waits)
    }

    fn rename(&mut self, origins: &[Origin], to: &str) {
        self.moves.extend(origins.iter().map(|origin| (*origin, to.to_owned())));
    }

    fn put(&mut self, path: &str, found: &Found, replaces: &[Origin]) {
        let Found { key, version, digest } = found.clone();
        let put = Put { key, version, digest, replaces: Vec::new() };
        let put = self.puts.entry(path.to_owned()).or_insert(put);
        put.replaces.extend(replaces);
    }

    /// Gives what asks for a name that nothing has any more the name under which it was seen.
    fn settle_names(&mut self, base: &Base, files: &BTreeMap<String, Found>) {
        let is_free = |name: &String| {
            let below = format!("{name}/");
            let first_below = files.range(below.clone()..).next();
            let is_directory = first_below.is_some_and(|(path, _)| path.starts_with(&below));
            !is_directory && !files.contains_key(name)
        };
        let mut gone: BTreeSet<_> = self.replaced().collect();
        gone.extend(&self.removed);
        for entry in base.entries.iter().filter(|entry| entry.asked.as_ref().is_some_and(is_free)) {
            for origin in entry.origins.iter().filter(|origin| !gone.contains(origin)) {
                self.moves.entry(*origin).or_insert_with(|| entry.path.clone());
            }
        }
    }

    /// Returns what each put replaces.
    pub(super) fn replaced(&self) -> impl Iterator<Item = Origin> {
        self.puts.values().flat_map(|put| put.replaces.iter().copied())
    }
}
