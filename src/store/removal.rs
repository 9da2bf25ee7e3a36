//! Removes content to make room. The record stays and states when and why the content was removed.
//!
//! A candidate is kept if it is being written, or if it was changed or read after it was chosen.
//! The rules for crashes are in `layout`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::{io, slice};

use rustix::fs::{OFlags, RenameFlags};

use crate::file_lock::{self, LockKind, LockedFile};
use crate::{Conversation, Dir, Lease, ManifestLock, Stat, StoreError, dir, history, layout};
use ctxfs_core::model::{Amount, ArtifactState, Counts, Record, RelPath, Removal};

/// Number of artifacts that are removed in one batch. During a batch, all of its artifacts are
/// open, and no other process can append records.
const BATCH: usize = 64;

pub(super) const NO_LEASE: &str = "its disk cannot tell whether it is being written";
pub(super) const STUCK: &str = "it cannot be removed from its directory";
pub(super) const WRITTEN: &str = "it is being written";

/// An artifact that is to be removed, as it was when it was chosen. A candidate that was changed or
/// read since then is kept.
///
/// `path` is the path in the conversation. `changed` is the time of the last change of bytes or
/// attributes, in nanoseconds since the epoch; no client can set it. `read` is the time of the last
/// read, in milliseconds since the epoch. `removal` is stored in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct RemovalCandidate {
    pub path: RelPath,
    pub ino: u64,
    pub size: u64,
    pub changed: i64,
    pub read: i64,
    pub removal: Removal,
}

/// The result of removing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// The content was removed. If a rule required it, the record states the reason.
    Removed,
    /// The file is unchanged. The text states the reason.
    Kept(&'static str),
}

impl Conversation {
    /// Records that the file at `path` is gone. This also replaces a record of content that a rule
    /// removed. Returns the previous record. The caller must hold the lock of the manifest.
    pub fn forget_locked(
        &self,
        lock: &ManifestLock,
        path: &RelPath,
    ) -> Result<Option<Record>, StoreError> {
        let Some(record) = self.manifest().record(&path.to_text())? else { return Ok(None) };
        let gone =
            Record { state: ArtifactState::Gone, analysis: None, removed: None, ..record.clone() };
        lock.append(slice::from_ref(&gone))?;
        history::forget_answers(self, &record);
        Ok(Some(record))
    }

    /// Records that the content at `path` is removed for the reason in `removal`. `stat` has the
    /// attributes of the file. Returns the previous record. The caller must hold the lock of the
    /// manifest, and must then remove or rename the file.
    pub fn retire_locked(
        &self,
        lock: &ManifestLock,
        (path, stat): (&RelPath, &Stat),
        removal: Removal,
    ) -> Result<Record, StoreError> {
        let record = self.record_for(path, stat)?;
        lock.append(slice::from_ref(&record.retired(stat.size, stat.mtime.as_nanos(), removal)))?;
        history::forget_answers(self, &record);
        Ok(record)
    }
}

/// The sweep lock of a store. No other process sweeps the store until this is dropped.
#[derive(Debug)]
pub struct SweepLock {
    _locked: LockedFile,
}

impl SweepLock {
    pub(super) fn wait(store: &Dir) -> io::Result<Self> {
        let locked = file_lock::lock_by_name(store, layout::SWEEP_LOCK, LockKind::Exclusive)?;
        Ok(Self { _locked: locked })
    }

    /// Removes the content of `candidates` in `conversation` and records the reason. Returns one
    /// outcome per candidate. A candidate that is being written, or was used since it was chosen,
    /// is kept.
    ///
    /// A process that has a removed file open can still read it to its end. A process that opens a
    /// candidate for writing during the removal waits briefly and then finds that the file is gone.
    pub fn remove(
        &self,
        conversation: &Conversation,
        candidates: &[RemovalCandidate],
    ) -> Result<Vec<RemovalOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(candidates.len());
        for batch in candidates.chunks(BATCH) {
            outcomes.extend(remove_batch(conversation, batch)?);
        }
        conversation.manifest().compact_if_wasteful();
        Ok(outcomes)
    }

    /// Completes the removals in `conversation` that a process left unfinished when it died:
    /// unlinks the files that it had renamed for removal.
    pub fn finish_removals(&self, conversation: &Conversation) -> Result<(), StoreError> {
        let dir = conversation.dir();
        let entries = dir.entries().map_err(|error| conversation.listing_error(error))?;
        let left = entries
            .iter()
            .filter(|e| e.kind == crate::FileType::File && layout::is_removing(&e.name));
        for entry in left {
            let removed = dir.unlink(&entry.name);
            removed.map_err(|error| conversation.listing_error(error))?;
        }
        Ok(())
    }
}

fn remove_batch(
    conversation: &Conversation,
    batch: &[RemovalCandidate],
) -> Result<Vec<RemovalOutcome>, StoreError> {
    let lock = conversation.manifest().lock()?;
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut leased = Vec::with_capacity(batch.len());
    for candidate in batch {
        let artifact = LeasedArtifact::of(conversation, candidate)?;
        let outcome = artifact.as_ref().map(|_| RemovalOutcome::Removed);
        outcomes.push(outcome.unwrap_or_else(|why| RemovalOutcome::Kept(why)));
        leased.extend(artifact);
    }
    if leased.is_empty() {
        return Ok(outcomes);
    }
    let records: Vec<_> = leased.iter().map(|artifact| artifact.record.clone()).collect();
    lock.append(&records)?;
    lock.sync()?;
    let failed = remove_files(conversation, &leased)?;
    let chosen = outcomes.iter_mut().filter(|outcome| **outcome == RemovalOutcome::Removed);
    for (outcome, _) in chosen.zip(&failed).filter(|(_, failed)| **failed) {
        *outcome = RemovalOutcome::Kept(STUCK);
    }
    let (stay, gone) = split(records, &failed);
    lock.append(&stay)?;
    drop(lock);
    for record in &gone {
        history::forget_answers(conversation, record);
    }
    count_removed(conversation, &gone)?;
    Ok(outcomes)
}

fn remove_files(
    conversation: &Conversation,
    leased: &[LeasedArtifact<'_>],
) -> Result<Vec<bool>, StoreError> {
    let remove = |artifact: &LeasedArtifact<'_>| {
        let path = &artifact.candidate.path;
        let named = (&artifact.dir, path.file_name());
        let removed = remove_file(named, artifact.candidate.ino, conversation.dir());
        match removed.map_err(|error| conversation.error_at("remove", path, error)) {
            Err(error) if !error.is_of_place() => Err(error),
            removed => Ok(removed.is_err()),
        }
    };
    leased.iter().map(remove).collect()
}

/// Splits the records of removals into two lists: the records of failed removals, with `removed`
/// reset to `None`, and the records of successful removals.
fn split(records: Vec<Record>, failed: &[bool]) -> (Vec<Record>, Vec<Record>) {
    let (mut stay, mut gone) = (Vec::new(), Vec::new());
    for (record, failed) in records.into_iter().zip(failed) {
        if *failed {
            stay.push(Record { removed: None, ..record });
        } else {
            gone.push(record);
        }
    }
    (stay, gone)
}

fn count_removed(conversation: &Conversation, records: &[Record]) -> Result<(), StoreError> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for record in records {
        let of_tool = counts.entry(record.provenance.tool_name().unwrap_or_default()).or_default();
        of_tool.expired += Amount::once(record.size, record.tokens());
    }
    let removal = records.first().and_then(|record| record.removed.as_ref());
    conversation.count(removal.map_or(0, |removal| removal.at), counts)
}

/// A candidate with a lease. No process can open it for writing until this is dropped.
struct LeasedArtifact<'a> {
    candidate: &'a RemovalCandidate,
    dir: Dir,
    record: Record,
    _file: File,
}

impl<'a> LeasedArtifact<'a> {
    /// Takes a lease on the candidate. If the candidate has changed or is being written, returns
    /// the reason to keep it.
    fn of(
        conversation: &Conversation,
        candidate: &'a RemovalCandidate,
    ) -> Result<Result<Self, &'static str>, StoreError> {
        let path = &candidate.path;
        let (file, stat) = match open(conversation.dir(), path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err("it is gone")),
            Err(_) => return Ok(Err("it cannot be opened")),
        };
        if !candidate.is_unchanged(&stat) {
            return Ok(Err("it was used meanwhile"));
        }
        let record = conversation.record_for(path, &stat)?;
        match crate::lease::take_lease(&file) {
            Lease::Free if record.state != ArtifactState::Live => {}
            Lease::Free | Lease::Held => return Ok(Err(WRITTEN)),
            Lease::Unknown => return Ok(Err(NO_LEASE)),
        }
        let Ok(dir) = dir::parent_dir(conversation.dir(), path) else {
            return Ok(Err("its directory cannot be opened"));
        };
        let record = removed(record, &stat, &candidate.removal);
        Ok(Ok(Self { candidate, dir, record, _file: file }))
    }
}

/// Removes the file `name` of `dir` if its inode number is `ino`. First renames it to a name in the
/// directory of its `conversation`. After a crash, [`SweepLock::finish_removals`] finds the file by
/// this name.
///
/// If a process has just renamed another file to `name`, that file gets its name back.
pub(super) fn remove_file(
    (dir, name): (&Dir, &OsStr),
    ino: u64,
    conversation: &Dir,
) -> io::Result<()> {
    let gone = OsString::from(layout::removing());
    let gone = gone.as_os_str();
    if crate::if_there(dir.rename(name, conversation, gone, RenameFlags::empty()))?.is_none() {
        return Ok(());
    }
    if conversation.stat(gone)?.ino == ino {
        return conversation.unlink(gone);
    }
    conversation.rename(gone, dir, name, RenameFlags::NOREPLACE).or_else(|_| {
        let aside = layout::replacing(name);
        conversation.rename(gone, dir, &aside, RenameFlags::empty())
    })
}

impl RemovalCandidate {
    fn is_unchanged(&self, stat: &Stat) -> bool {
        let same =
            (stat.ino, stat.size, stat.ctime.as_nanos()) == (self.ino, self.size, self.changed);
        same && stat.atime.as_millis() <= self.read
    }
}

fn open(conversation: &Dir, path: &RelPath) -> io::Result<(File, Stat)> {
    let file = conversation.open_file_at(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
    let stat = crate::stat_file(&file)?;
    Ok((file, stat))
}

/// Returns the record of a file that is about to be removed. Leaves out the analysis if it
/// describes other bytes than the file has.
fn removed(record: Record, stat: &Stat, removal: &Removal) -> Record {
    let analysed = stat.matches(&record);
    Record {
        size: stat.size,
        modified: stat.mtime.as_nanos(),
        analysis: record.analysis.filter(|_| analysed),
        file: record.file.or_else(|| Some(stat.local_file())),
        removed: Some(removal.clone()),
        ..record
    }
}
