
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replica::base::Places;
use crate::replica::{Base, FileKey, FileVersion, Found, Origin};

///+ Local changes that the bucket does not have. Computed by comparison: there is no queue that a
///+ crash could lose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    ///+ Files with new bytes, by path.
    pub puts: BTreeMap<String, Put>,
    ///+ Artifacts with a new path.
    pub moves: BTreeMap<Origin, String>,
    ///+ Artifacts that were removed, or replaced by a complete file.
    pub removed: BTreeSet<Origin>,
}

///+ A file with new bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    ///+ Identity of the file.
    pub key: FileKey,
    ///+ State of its bytes.
    pub version: FileVersion,
    ///+ Digest of the bytes; `None` while they are being written and cannot be published.
    pub digest: Option<Arc<str>>,
    ///+ Artifacts that the file replaces: those seen at its path, and those whose file it was.
    pub replaces: Vec<Origin>,
}

impl Put {
    ///+ Returns true if the file is a copy that kept its modification time.
    pub(super) fn came(&self) -> bool {
        self.key.is_copy_of(self.version)
    }
}

impl Changes {
    ///+ Computes the changes since `base`. `files` are the current files.
    ///+
    ///+ If the first of several artifacts that request one path goes away, the others are moved to
    ///+ the paths at which they are seen. Otherwise one of them would take its place.
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

    ///+ Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.moves.is_empty() && self.removed.is_empty()
    }

    ///+ Returns true if all changes are files that are still being written.
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

    ///+ Moves artifacts whose requested path became free to the path at which they are seen.
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

    pub(super) fn replaced(&self) -> impl Iterator<Item = Origin> {
        self.puts.values().flat_map(|put| put.replaces.iter().copied())
    }
}
