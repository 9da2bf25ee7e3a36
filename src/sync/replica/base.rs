//! Last agreement of this host with the bucket, the local changes since then, and the segments that
//! publish these changes.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::replica::{Claim, Clock, Move, Origin, Segment, SegmentId};

const SECOND: i64 = 1_000_000_000;

/// Identity of a file, independent of its path. A local file is identified by its inode and its
/// birth time in nanoseconds since the epoch, since inodes are reused. A remote artifact without
/// local bytes is identified by its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub enum FileKey {
    #[serde(rename = "here")]
    Local { inode: u64, born: i64 },
    #[serde(rename = "elsewhere")]
    Remote(Origin),
}

impl FileKey {
    /// Returns true if the file was created after its last modification. This shows that it is a
    /// copy that kept the modification time.
    pub(super) fn is_copy_of(self, version: FileVersion) -> bool {
        matches!(self, Self::Local { born, .. } if born > version.modified)
    }
}

/// State of a file's bytes, given by size in bytes and modification time in nanoseconds since the
/// epoch. While these are unchanged, the bytes count as unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct FileVersion {
    pub size: u64,
    pub modified: i64,
}

/// Current state of a file. The digest is `None` while the file is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub key: FileKey,
    pub version: FileVersion,
    pub digest: Option<Arc<str>>,
}

/// Agreement of host and bucket about one file. The file at `path` has the bytes of the artifacts
/// `origins`. `asked` is the path that these artifacts request, if another file has that path.
/// `version` is the state of the bytes that were published. `digest` is empty if unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct Entry {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    pub origins: Vec<Origin>,
    pub key: FileKey,
    pub version: FileVersion,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub digest: Arc<str>,
}

/// Last agreement of this host and the bucket. It states the path of each file, and the artifacts
/// whose bytes the file has. Differences from the agreement are local changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    /// Entries in arbitrary order. Each artifact is in at most one entry.
    pub entries: Vec<Entry>,
}

impl Base {
    /// Adds the remote artifacts among `files` that are missing in the base. A crash leaves such
    /// artifacts if it happens after an artifact was recorded locally and before the base was
    /// saved. If the local record was removed or replaced before this call, the artifact is not
    /// added. It then does not count as removed on this host, and stays in the bucket.
    pub(crate) fn add_unrecorded(&mut self, files: &BTreeMap<String, FoundFile>) {
        let known = self.entries.iter().flat_map(|entry| &entry.origins);
        let known: BTreeSet<_> = known.copied().collect();
        for (path, found) in files {
            if let FileKey::Remote(origin) = found.key
                && !known.contains(&origin)
            {
                self.entries.push(Entry::new(path, &[origin], found));
            }
        }
    }

    /// Updates the entries of files that were touched or restored but still have the published
    /// bytes. Such files are then not sent again. Returns true if an entry was updated.
    pub(crate) fn follow_unchanged(&mut self, files: &BTreeMap<String, FoundFile>) -> bool {
        let places = FileIndex::of(files);
        let is_touched = self.follow_touched(&places);
        let is_restored = self.follow_restored(&places);
        is_touched || is_restored
    }

    fn follow_touched(&mut self, places: &FileIndex<'_>) -> bool {
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

    /// Updates the entries of files that were restored from a copy of the store. Such a file has
    /// another inode than its entry, but the same path, bytes and time. A file that was written
    /// after it was restored has a new time. It counts as changed, even if its bytes are the same.
    fn follow_restored(&mut self, places: &FileIndex<'_>) -> bool {
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
            let FoundFile { key, version, .. } = files[&entry.path];
            self.entries.push(Entry { key, version, ..entry });
        }
        if is_any {
            self.join_entries();
        }
        is_any
    }

    /// Merges the entries of one file under one path. A file has several entries if other hosts
    /// published the same bytes.
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

pub(super) struct FileIndex<'a> {
    files: &'a BTreeMap<String, FoundFile>,
    by_key: HashMap<FileKey, &'a str>,
}

impl<'a> FileIndex<'a> {
    pub(super) fn of(files: &'a BTreeMap<String, FoundFile>) -> Self {
        let by_key = files.iter().map(|(path, found)| (found.key, path.as_str())).collect();
        Self { files, by_key }
    }

    pub(super) fn of_entry(&self, entry: &Entry) -> Option<(&'a str, &'a FoundFile)> {
        let remote = entry.origins.iter().map(|origin| FileKey::Remote(*origin));
        let mut keys = std::iter::once(entry.key).chain(remote);
        // Hard links share a key, so prefer the path of the entry.
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
    pub(crate) fn new(path: &str, origins: &[Origin], found: &FoundFile) -> Self {
        let FoundFile { key, version, digest } = found.clone();
        let (path, origins) = (path.to_owned(), origins.to_vec());
        Self { path, asked: None, origins, key, version, digest: digest.unwrap_or_default() }
    }

    /// Returns true if the file at the entry's path is a copy of the entry's file. The time of the
    /// copy may be rounded down to seconds, as in archives.
    fn is_copied_to(&self, found: &FoundFile) -> bool {
        let Self { version: FileVersion { size, modified }, digest, .. } = self;
        let second = modified.div_euclid(SECOND) * SECOND;
        found.key.is_copy_of(found.version)
            && found.version.size == *size
            && [*modified, second].contains(&found.version.modified)
            && !digest.is_empty()
            && found.digest.as_ref() == Some(digest)
    }

    fn is_touched_in(&self, found: &FoundFile) -> bool {
        found.key == self.key
            && found.version != self.version
            && !self.digest.is_empty()
            && found.digest.as_ref() == Some(&self.digest)
    }

    pub(super) fn holds_in(&self, found: &FoundFile) -> bool {
        match found.key {
            FileKey::Remote(origin) => found.key == self.key || self.origins.contains(&origin),
            FileKey::Local { .. } => found.key == self.key && found.version == self.version,
        }
    }
}

/// Local changes that are missing in the bucket: files with new bytes by path, artifacts with new
/// paths, and removed artifacts. Replaced artifacts are in [`LocalPut::replaces`]. The changes are
/// computed by comparing files with the base, so there is no queue that a crash could lose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Changes {
    pub puts: BTreeMap<String, LocalPut>,
    pub moves: BTreeMap<Origin, String>,
    pub removed: BTreeSet<Origin>,
}

/// A file with new bytes. `digest` is `None` while the file is being written; the file cannot be
/// published then. `replaces` are the artifacts that this host saw at the path, and the artifacts
/// whose bytes the file had before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct LocalPut {
    pub key: FileKey,
    pub version: FileVersion,
    pub digest: Option<Arc<str>>,
    pub replaces: Vec<Origin>,
}

impl Changes {
    /// Computes the changes since `base`. `files` are the current files.
    ///
    /// Several artifacts may request one path, and only one of them has it. If that artifact is
    /// removed, the changes include moves of the others to their current paths. Without these
    /// moves, another artifact would get the freed path.
    pub(crate) fn since(base: &Base, files: &BTreeMap<String, FoundFile>) -> Self {
        let places = FileIndex::of(files);
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
            !settled.contains(path.as_str()) && matches!(found.key, FileKey::Local { .. })
        });
        for (path, found) in new {
            let seen = left.remove(path.as_str()).unwrap_or_default();
            changes.put(path, found, &seen);
        }
        changes.removed.extend(left.values().flatten());
        changes.settle_names(base, files);
        changes
    }

    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.moves.is_empty() && self.removed.is_empty()
    }

    fn rename(&mut self, origins: &[Origin], to: &str) {
        self.moves.extend(origins.iter().map(|origin| (*origin, to.to_owned())));
    }

    fn put(&mut self, path: &str, found: &FoundFile, replaces: &[Origin]) {
        let FoundFile { key, version, digest } = found.clone();
        let put = LocalPut { key, version, digest, replaces: Vec::new() };
        let put = self.puts.entry(path.to_owned()).or_insert(put);
        put.replaces.extend(replaces);
    }

    fn settle_names(&mut self, base: &Base, files: &BTreeMap<String, FoundFile>) {
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

/// A segment to store, and its effects on the base. Both are saved to disk before the segment is
/// sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Publication<A, M> {
    /// The segment to store. The places of its artifacts are the numbers from 0 on, in the order of
    /// their paths. Its messages have the next places.
    pub segment: Segment<A, M>,
    pub accepted: Accepted,
}

/// Changes to the base that become valid when a segment is stored: entries of published files, new
/// paths, and removed or replaced artifacts. Until then, the changes are kept on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub puts: Vec<Entry>,
    pub moves: BTreeMap<Origin, String>,
    pub removed: BTreeSet<Origin>,
}

impl<A, M> Publication<A, M> {
    /// Builds the segment `id` from all complete changes and from messages. `now` is the time in
    /// microseconds since the epoch, by the clock of this host. `artifact` returns the additional
    /// data for the file at a path.
    pub(crate) fn new(
        id: SegmentId,
        changes: &Changes,
        messages: impl IntoIterator<Item = M>,
        clock: &mut Clock,
        now: u64,
        mut artifact: impl FnMut(&str) -> A,
    ) -> Self {
        let mut made = Self { segment: Segment::new(id), accepted: Accepted::default() };
        let mut places = (0..).map(|place| Origin { segment: id, place });
        made.accepted.removed.extend(&changes.removed);
        for (path, put) in &changes.puts {
            let Some(digest) = &put.digest else { continue };
            let origin = places.next().expect("places do not end");
            let (stamp, path, digest) = (clock.stamp(now), path.clone(), digest.clone());
            let artifact = artifact(&path);
            made.accept(origin, &path, put, &digest);
            made.segment.artifacts.insert(origin, Claim { stamp, path, digest, artifact });
        }
        for (message, origin) in messages.into_iter().zip(places) {
            made.segment.messages.insert(origin, (clock.stamp(now), message));
        }
        for (origin, to) in &changes.moves {
            let (stamp, to) = (clock.stamp(now), to.clone());
            made.segment.moves.insert(*origin, Move { stamp, to });
        }
        made.accepted.moves.clone_from(&changes.moves);
        made.segment.removed.origins.clone_from(&made.accepted.removed);
        made
    }

    fn accept(&mut self, origin: Origin, path: &str, put: &LocalPut, digest: &Arc<str>) {
        self.accepted.removed.extend(&put.replaces);
        let (path, origins, asked) = (path.to_owned(), vec![origin], None);
        let (key, version, digest) = (put.key, put.version, Arc::clone(digest));
        self.accepted.puts.push(Entry { path, asked, origins, key, version, digest });
    }
}

impl Base {
    pub(crate) fn accept(&mut self, accepted: &Accepted) {
        for entry in &mut self.entries {
            entry.origins.retain(|origin| !accepted.removed.contains(origin));
            if let Some(to) = entry.origins.first().and_then(|first| accepted.moves.get(first)) {
                entry.path.clone_from(to);
                entry.asked = None;
            }
        }
        self.entries.retain(|entry| !entry.origins.is_empty());
        self.entries.extend_from_slice(&accepted.puts);
    }
}
