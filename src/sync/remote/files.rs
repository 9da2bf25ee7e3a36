//! Local files of a conversation, compared with the agreement of host and bucket, and the backlog
//! of changes that are not sent yet. This module makes no request.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::remote::{Agreement, Notes, RemoteError};
use crate::replica::{Base, Changes, Entry, FileKey, FileVersion, FoundFile, Origin, SegmentId};
use ctxfs_core::model::{ArtifactState, Record, RelPath, Removal};
use ctxfs_store::{
    Conversation, FileClock, FileMark, Lease, SharedPlace, Stat, StoreError, Time, UnreadPlaces,
    is_shared, lease_of, stat_file,
};

/// Shared files of a conversation on this host, and its artifacts without local bytes. A file
/// counts as removed only if its removal is certain. Files in unreadable places and files that were
/// removed by retention do not count as removed.
#[derive(Debug, Default)]
pub(crate) struct LocalFiles {
    /// Files by path. If a file is unchanged since the base, its digest is empty, because the file
    /// is not published again.
    pub found: BTreeMap<String, FoundFile>,
    /// Directories that must stay even when they are empty, because they were not created for files
    /// of other hosts.
    pub directories: BTreeSet<String>,
    /// Paths in the base whose files were removed from this disk by retention. Retention is local,
    /// so these files count neither as present nor as removed.
    pub swept: BTreeSet<String>,
    /// Unreadable places. `found` has the files in these places as the base states them, so that
    /// they count neither as changed nor as removed.
    pub unread: UnreadPlaces,
    /// Paths of artifacts whose bytes are only in another bucket.
    pub elsewhere: Vec<String>,
    is_blind: bool,
}

/// Scans the files of a conversation. `known` is the agreed base. A file that is unchanged since
/// the base is not read. `clock` is the clock of the store's disk.
///
/// A file gets a digest once it is complete: its record says so, and no process has it open for
/// writing. If the analysis in the record matches the file, the digest is taken from there.
/// Otherwise the file is read, once its times are so old that the next write must change them.
///
/// `is_of_bucket` returns true for artifacts of this bucket. It returns false for artifacts of
/// another bucket through which the store was shared before. The downloaded copy of such an
/// artifact counts as a plain local file.
pub(crate) fn files(
    conversation: &Conversation,
    known: &Base,
    clock: FileClock,
    is_of_bucket: &dyn Fn(Origin) -> bool,
) -> Result<LocalFiles, StoreError> {
    let DiskScan { files, remote, directories, unread, is_blind } =
        DiskScan::of(conversation, known)?;
    let (found, swept) = (BTreeMap::new(), BTreeSet::new());
    let elsewhere = Vec::new();
    let mut all = LocalFiles { found, directories, swept, unread, elsewhere, is_blind };
    let digests = FileDigests::new(conversation, known, clock);
    for (path, stat) in files {
        let digest = digests.of(&path, &stat, &mut all.unread)?;
        let mark = FileMark::of(&stat);
        // A file without changes is not a new download, so its record need not be read.
        let may_be_copy = stat.may_be_copy() || digest.as_deref() != Some("");
        let origin = if may_be_copy { origin_at(conversation, &path, &stat) } else { None };
        let origin = origin.filter(|origin| is_of_bucket(*origin));
        let key = origin.map_or(key_of(&mark), FileKey::Remote);
        let digest = digest.map(Arc::from);
        let found = FoundFile { key, version: version_of(&mark), digest };
        all.found.insert(path.to_text(), found);
    }
    let is_other = |found: &FoundFile| match found.key {
        FileKey::Remote(origin) => !is_of_bucket(origin),
        FileKey::Local { .. } => false,
    };
    let (other, remote): (Vec<_>, Vec<_>) =
        remote.into_iter().partition(|(_, found)| is_other(found));
    for (path, found) in remote {
        all.found.entry(path).or_insert(found);
    }
    // An artifact of another bucket may have the path of an entry. The artifact of this bucket does
    // not count as removed then.
    let taken: BTreeSet<String> = other.into_iter().map(|(path, _)| path).collect();
    for entry in known.entries.iter().filter(|entry| taken.contains(&entry.path)) {
        all.assume_entry(entry);
    }
    all.elsewhere.extend(taken);
    all.assume(conversation, known)?;
    Ok(all)
}

fn origin_at(conversation: &Conversation, path: &RelPath, stat: &Stat) -> Option<Origin> {
    let record = conversation.record(path).ok()??;
    stat.far_origin(&record)?.parse().ok()
}

impl LocalFiles {
    /// Returns true if the state of `path` is unknown because the file or one of its parent
    /// directories could not be read.
    pub(crate) fn is_unread(&self, path: &str) -> bool {
        let holds = |place: &str| {
            let rest = path.strip_prefix(place);
            place == "." || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let are_named = self.unread.named().len() as u64 == self.unread.count();
        self.is_blind || !are_named || self.unread.named().iter().any(|place| holds(&place.path))
    }

    /// Treats the remote artifacts of the base as present. After the manifest is lost, they are not
    /// listed, but that does not mean that they were removed.
    fn assume_remote(&mut self, known: &Base) {
        for entry in &known.entries {
            if let FileKey::Remote(_) = entry.key {
                self.assume_entry(entry);
            }
        }
    }

    fn assume_entry(&mut self, entry: &Entry) {
        let (key, version) = (entry.key, entry.version);
        let found = FoundFile { key, version, digest: Some(Arc::default()) };
        self.found.entry(entry.path.clone()).or_insert(found);
    }

    /// Treats the files of the base in unreadable places as present, and notes the files that were
    /// removed by retention.
    fn assume(&mut self, conversation: &Conversation, known: &Base) -> Result<(), StoreError> {
        let seen: HashSet<FileKey> = self.found.values().map(|found| found.key).collect();
        let is_missing = |entry: &&Entry| !keys_of(entry).any(|key| seen.contains(&key));
        let missing: Vec<&Entry> = known.entries.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let kept = SweptArtifacts::of(conversation, &mut self.unread)?;
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

/// Returns all keys that the file of an entry may have. An eviction changes the key of a file.
fn keys_of(entry: &Entry) -> impl Iterator<Item = FileKey> {
    let remote = entry.origins.iter().map(|origin| FileKey::Remote(*origin));
    std::iter::once(entry.key).chain(remote)
}

/// Returns the agreement, adjusted to the disk, and the current files. The agreement has no entries
/// of files that retention removed on this host, so that the next look finds them as remote
/// artifacts. Entries of files that were restored from a copy of the store, or that got new times,
/// are updated.
fn compare(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, LocalFiles), RemoteError> {
    compared(conversation, notes, clock).map(|(agreement, files, _)| (agreement, files))
}

pub(super) fn compare_and_save(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, LocalFiles), RemoteError> {
    let (agreement, files, is_changed) = compared(conversation, notes, clock)?;
    if is_changed || !files.swept.is_empty() {
        notes.save(&notes.agreement()?, &agreement)?;
    }
    Ok((agreement, files))
}

fn compared(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, LocalFiles, bool), RemoteError> {
    let mut agreement = notes.agreement()?;
    let segments = segments_of(notes, &agreement)?;
    let is_of_bucket = |origin: Origin| segments.contains(&origin.segment);
    let mut files = files(conversation, &agreement.base, clock, &is_of_bucket)?;
    if !conversation.has_manifest()? {
        files.assume_remote(&agreement.base);
    }
    agreement.base.entries.retain(|entry| !files.swept.contains(&entry.path));
    agreement.base.add_unrecorded(&files.found);
    let has_same = agreement.base.follow_unchanged(&files.found);
    Ok((agreement, files, has_same))
}

/// Returns all segments of this bucket that this host knows. Origins in any other segment are from
/// another bucket, through which the store was shared before.
fn segments_of(notes: &Notes, agreement: &Agreement) -> Result<BTreeSet<SegmentId>, RemoteError> {
    let mut segments: BTreeSet<_> = notes.segments()?.into_iter().collect();
    segments.extend(notes.covered()?.ids());
    let origins = agreement.base.entries.iter().flat_map(|entry| &entry.origins);
    segments.extend(origins.map(|origin| origin.segment));
    Ok(segments)
}

struct FileDigests<'a> {
    conversation: &'a Conversation,
    known: HashMap<FileKey, FileVersion>,
    places: HashSet<(FileKey, &'a str)>,
    clock: FileClock,
}

impl<'a> FileDigests<'a> {
    fn new(conversation: &'a Conversation, known: &'a Base, clock: FileClock) -> Self {
        let entries = known.entries.iter();
        let places = entries.clone().map(|entry| (entry.key, entry.path.as_str())).collect();
        let known = entries.map(|entry| (entry.key, entry.version)).collect();
        Self { conversation, known, places, clock }
    }

    /// Returns the digest of the file at `path`. The digest is empty if the file is unchanged since
    /// the base. Returns `None` while the file is incomplete. Adds unreadable places to `unread`.
    fn of(
        &self,
        path: &RelPath,
        stat: &Stat,
        unread: &mut UnreadPlaces,
    ) -> Result<Option<String>, StoreError> {
        if self.is_known(path, stat) {
            return Ok(Some(String::new()));
        }
        self.find(path, stat).or_else(|error| {
            unread.pass_over(self.conversation.path(), error)?;
            Ok(None)
        })
    }

    fn is_known(&self, path: &RelPath, stat: &Stat) -> bool {
        let mark = FileMark::of(stat);
        let key = key_of(&mark);
        let is_same = self.known.get(&key) == Some(&version_of(&mark));
        is_same && (stat.nlink < 2 || self.places.contains(&(key, path.to_text().as_str())))
    }

    fn find(&self, path: &RelPath, stat: &Stat) -> Result<Option<String>, StoreError> {
        let mut record = self.conversation.record(path)?;
        if record.as_ref().is_some_and(|record| record.state == ArtifactState::Live) {
            record = self.conversation.recover(path, None)?;
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

/// Reads a file and returns its digest. Returns `None` if the file has changed since `stat` was
/// taken.
fn digest_of(file: &File, stat: &Stat) -> io::Result<Option<String>> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    let is_unchanged = stat_file(file)?.is_unchanged(stat);
    Ok(is_unchanged.then(|| hasher.finalize().to_hex().to_string()))
}

const WALKS: usize = 4;

#[derive(Default)]
struct DiskScan {
    files: Vec<(RelPath, Stat)>,
    remote: Vec<(String, FoundFile)>,
    directories: BTreeSet<String>,
    unread: UnreadPlaces,
    is_blind: bool,
}

impl DiskScan {
    /// Scans the directory. Repeats the walk until no entry of the base is missing, or two
    /// consecutive walks miss the same entries. A single walk can miss a file that is renamed
    /// meanwhile, and such a file must not count as removed. After [`WALKS`] walks, scans once more
    /// and treats no missing file as removed.
    fn of(conversation: &Conversation, known: &Base) -> Result<Self, StoreError> {
        let mut before = None;
        for _ in 0..WALKS {
            let scan = Self::walk(conversation)?;
            let missing = scan.missing(known);
            if missing.is_empty() || before.as_ref() == Some(&missing) {
                return Ok(scan);
            }
            before = Some(missing);
        }
        Ok(Self { is_blind: true, ..Self::walk(conversation)? })
    }

    fn walk(conversation: &Conversation) -> Result<Self, StoreError> {
        let (mut files, mut directories) = (Vec::new(), BTreeSet::new());
        let mut unread = ctxfs_store::shared::each_file(conversation, |place| match place {
            SharedPlace::File(path, stat) => files.push((path, stat)),
            SharedPlace::Directory { path, is_made } => {
                if !is_made {
                    directories.insert(path.to_text());
                }
            }
        })?;
        let (remote, is_blind) = match remote_files(conversation) {
            Ok(remote) => (remote, false),
            Err(error) => {
                unread.pass_over(conversation.path(), error)?;
                (Vec::new(), true)
            }
        };
        Ok(Self { files, remote, directories, unread, is_blind })
    }

    fn missing(&self, known: &Base) -> Vec<usize> {
        let here = self.files.iter().map(|(_, stat)| key_of(&FileMark::of(stat)));
        let seen: HashSet<FileKey> =
            here.chain(self.remote.iter().map(|(_, found)| found.key)).collect();
        let entries = known.entries.iter().enumerate();
        let missing = entries.filter(|(_, entry)| {
            let remote = |origin| seen.contains(&FileKey::Remote(origin));
            !seen.contains(&entry.key) && !entry.origins.iter().copied().any(remote)
        });
        missing.map(|(at, _)| at).collect()
    }
}

fn remote_files(conversation: &Conversation) -> Result<Vec<(String, FoundFile)>, StoreError> {
    let mut found = Vec::new();
    for record in conversation.manifest().far(None)? {
        found.extend(remote_file(record?));
    }
    Ok(found)
}

fn remote_file(record: Record) -> Option<(String, FoundFile)> {
    let origin = record.far.filter(|far| !far.here)?.origin.parse().ok()?;
    shared_path(&record.path)?;
    let version = FileVersion { size: record.size, modified: record.modified };
    let digest = record.analysis.map(|analysis| analysis.digest.into());
    Some((record.path, FoundFile { key: FileKey::Remote(origin), version, digest }))
}

struct SweptArtifacts {
    files: HashSet<FileKey>,
    paths: HashSet<String>,
}

impl SweptArtifacts {
    fn of(conversation: &Conversation, unread: &mut UnreadPlaces) -> Result<Self, StoreError> {
        let mut swept = Self { files: HashSet::new(), paths: HashSet::new() };
        if let Err(error) = swept.read(conversation) {
            unread.pass_over(conversation.path(), error)?;
        }
        Ok(swept)
    }

    fn has(&self, entry: &Entry) -> bool {
        self.files.contains(&entry.key) || self.paths.contains(&entry.path)
    }

    fn read(&mut self, conversation: &Conversation) -> Result<(), StoreError> {
        for record in conversation.records()? {
            self.add(record?);
        }
        Ok(())
    }

    fn add(&mut self, record: Record) {
        let is_swept =
            |removal: &Removal| removal.rule != Removal::UNLINK && removal.rule != Removal::RENAME;
        if !record.removed.as_ref().is_some_and(is_swept) || shared_path(&record.path).is_none() {
            return;
        }
        if let Some((inode, born)) = record.file.and_then(|file| Some((file.ino, file.born?))) {
            self.files.insert(FileKey::Local { inode, born });
        }
        self.paths.insert(record.path);
    }
}

pub(super) fn key_of(mark: &FileMark) -> FileKey {
    FileKey::Local { inode: mark.ino, born: mark.born }
}

pub(super) fn version_of(mark: &FileMark) -> FileVersion {
    FileVersion { size: mark.size, modified: mark.modified }
}

pub(super) fn mark_of(key: FileKey, version: FileVersion) -> Option<FileMark> {
    let FileVersion { size, modified } = version;
    match key {
        FileKey::Local { inode, born } => Some(FileMark { ino: inode, born, size, modified }),
        FileKey::Remote(_) => None,
    }
}

pub(super) fn shared_path(text: &str) -> Option<RelPath> {
    let path = RelPath::from_text(text).ok()?;
    (is_shared(&path) && path.to_text() == text).then_some(path)
}

/// Synchronization status of a conversation, computed from local state only. `files`, `bytes` and
/// `oldest` describe the complete files that are not sent yet: their number, their total size and
/// their oldest modification time. `live` files are still being written; they are sent once they
/// are complete. `others` is the number of renames and removals that are not sent yet, and
/// `messages` is the number of bytes of messages that are not sent yet.
///
/// `unshared` are the messages that cannot be shared. The key is the offset in the local log, the
/// value the length, both in bytes. `is_partial` is true if part of the conversation could not be
/// read, and `is_sending` if a segment is waiting to be sent. `segments` is the number of local
/// segments. `looked` is the time of the last look, by the clock of the local disk. `refused` are
/// the segments that are ignored, and the reasons. `elsewhere` are the paths of artifacts whose bytes
/// are only in another bucket, through which the store was shared before.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct SyncStatus {
    pub files: usize,
    pub bytes: u64,
    pub oldest: Option<Time>,
    pub live: usize,
    pub others: usize,
    pub messages: u64,
    pub unshared: BTreeMap<u64, u64>,
    pub is_partial: bool,
    pub is_sending: bool,
    pub segments: usize,
    pub looked: Option<Time>,
    pub refused: Vec<(SegmentId, RemoteError)>,
    pub elsewhere: Vec<String>,
}

/// Returns the status of a conversation. `conversation` is `None` if it is not in the store. Does not
/// parse the segments, and leaves `refused` empty: see [`Pieces`](crate::remote::Pieces).
pub fn standing(
    conversation: Option<&Conversation>,
    notes: &Notes,
    clock: FileClock,
) -> Result<SyncStatus, RemoteError> {
    let (agreement, files) = match conversation {
        Some(conversation) => compare(conversation, notes, clock)?,
        None => (notes.agreement()?, LocalFiles::default()),
    };
    let changes = Changes::since(&agreement.base, &files.found);
    let is_partial = !files.unread.is_empty();
    let elsewhere = files.elsewhere;
    let mut standing = SyncStatus { is_partial, elsewhere, ..SyncStatus::of(&changes) };
    if let Some(conversation) = conversation {
        standing.messages = unsent_messages(conversation, &agreement)?;
        standing.unshared = agreement.unshared;
    }
    standing.is_sending = notes.intent()?.is_some();
    standing.segments = notes.segments()?.len();
    standing.looked = notes.looked()?;
    Ok(standing)
}

impl SyncStatus {
    fn of(changes: &Changes) -> Self {
        let complete = || changes.puts.values().filter(|put| put.digest.is_some());
        let oldest = complete().map(|put| put.version.modified).min();
        Self {
            files: complete().count(),
            bytes: complete().map(|put| put.version.size).sum(),
            oldest: oldest.map(Time::from_nanos),
            live: changes.puts.len() - complete().count(),
            others: changes.moves.len() + changes.removed.len(),
            ..Self::default()
        }
    }

    /// Returns true if the bucket has all complete content of this host.
    pub fn is_sent(&self) -> bool {
        let is_told = self.files == 0 && self.others == 0 && self.messages == 0;
        is_told && !self.is_sending && !self.is_partial
    }
}

fn unsent_messages(conversation: &Conversation, agreement: &Agreement) -> Result<u64, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(0) };
    let read = stat_file(&file);
    let stat = read.map_err(|error| conversation.log_error("read", error))?;
    let sent = agreement.messages;
    let is_same = FileMark::of(&stat).ino == sent.inode;
    Ok(stat.size.saturating_sub(if is_same { sent.offset } else { 0 }))
}

#[cfg(test)]
pub(super) mod tests;
