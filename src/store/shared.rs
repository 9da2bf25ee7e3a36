//! The files that hosts share: lists them, applies changes of other hosts, and evicts local copies.
//!
//! The caller identifies a local file by its path and a [`FileMark`]. To change a file, a function
//! takes the lock of the manifest and opens the file as a `HeldFile`. The file must still match its
//! mark and have no writer. Otherwise it is kept, and the function returns the reason. A process
//! that has the file open can still read it to its end.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::{io, slice};

use rustix::fs::OFlags;

use crate::error::{is_in_the_way, is_of_place};
use crate::far::{self, MODE};
use crate::removal::{self, NO_LEASE, STUCK, WRITTEN};
use crate::walk::{DirWalk, PathBudget};
use crate::{
    Conversation, Dir, FileClock, FileMark, FileType, Lease, ManifestLock, RemovalOutcome, Stat,
    StoreError, UnreadPlaces, attributes, dir, layout, lease, stat_file,
};
use ctxfs_core::model::{ArtifactState, Far, LocalFile, Record, RelPath, Removal, Shortcuts};

const CHANGED: &str = "it was changed meanwhile";
const NOT_FAR: &str = "it is gone, or here";
const OTHER_BYTES: &str = "the bucket has other bytes";

/// A place that [`each_file`] found, by its path in the conversation.
///
/// `is_made` is true for a directory that was created for a file of another host. Such a directory
/// is removed when its last file is removed.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub enum SharedPlace {
    File(RelPath, Stat),
    Directory { path: RelPath, is_made: bool },
}

/// The result of renaming a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameOutcome {
    /// The file and its record have the new name.
    Done,
    /// The new name is taken, or a file is in the way of its directory.
    Taken,
    /// The file is unchanged. The text states the reason.
    Kept(&'static str),
}

/// A rename from one path to another. `at` is the time in milliseconds since the epoch. For
/// write-once content, the time is stored in the trace that stays at the old path.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub struct Rename<'a> {
    pub from: &'a RelPath,
    pub to: &'a RelPath,
    pub at: i64,
}

/// The origin of an artifact's bytes in the bucket, and the facts that were published with them.
/// With these facts, a host need not read all of the bytes.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub struct BucketBytes<'a> {
    pub origin: &'a str,
    pub shortcuts: Option<&'a Shortcuts>,
}

/// Returns true if hosts share the file at `path` as a file. Not shared are the store's own files,
/// the message log, scratch files, files with the name of a standard directory, and files that are
/// too deep for a walk.
pub fn is_shared(path: &RelPath) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let end = memchr::memchr(b'/', bytes).unwrap_or(bytes.len());
    let first = std::ffi::OsStr::from_bytes(&bytes[..end]);
    !layout::is_bookkeeping(first)
        && !layout::is_of_log(path)
        && !layout::is_standard(path)
        && !ctxfs_core::model::is_scratch(path.file_name())
        && memchr::memchr_iter(b'/', bytes).count() <= ctxfs_core::model::MAX_DEPTH
}

/// Calls `meet` with each file that hosts share, and with each directory. Returns the places that
/// could not be read.
pub fn each_file(
    conversation: &Conversation,
    mut meet: impl FnMut(SharedPlace),
) -> Result<UnreadPlaces, StoreError> {
    let dir = conversation.dir();
    let mut walked = || {
        let walk = DirWalk::new(dir.try_clone()?, None, |_: &Dir| Ok(true))?;
        let (mut walk, mut budget) = (walk.without(layout::is_bookkeeping), PathBudget::new());
        while let Some(found) = walk.next()? {
            if found.kind == FileType::Directory {
                let is_made = far::is_made(dir, &found.path);
                meet(SharedPlace::Directory { path: found.path, is_made });
            } else if is_shared(&found.path)
                && budget.takes(&found.path)
                && let Some(stat) = walk.stat(&found)?
            {
                meet(SharedPlace::File(found.path, stat));
            }
        }
        let mut unread = walk.finish().unread;
        unread.extend(budget.finish());
        Ok(unread)
    };
    walked().map_err(|error| conversation.listing_error(error))
}

/// Removes the file at `path` and its record. Write-once content leaves a trace with the time `at`,
/// in milliseconds since the epoch.
///
/// Also removes parent directories that are now empty and were created for files of other hosts.
/// The removal is on the disk only after [`sync_parents`].
pub fn remove(
    conversation: &Conversation,
    path: &RelPath,
    mark: &FileMark,
    at: i64,
) -> Result<RemovalOutcome, StoreError> {
    let lock = conversation.manifest().lock()?;
    let held = match HeldFile::open(conversation, path, mark)? {
        Ok(held) => held,
        Err(why) => return Ok(RemovalOutcome::Kept(why)),
    };
    if path.is_artifact() && !held.is_leased {
        return Ok(RemovalOutcome::Kept(NO_LEASE));
    }
    let before = if held.record.as_ref().is_some_and(|record| record.once) {
        let gone = Removal::unlinked(at);
        Some(conversation.retire_locked(&lock, (path, &held.stat), gone)?)
    } else {
        conversation.forget_locked(&lock, path)?
    };
    if let Err(error) = held.remove(conversation, path) {
        lock.append(before.as_slice())?;
        return kept_or_failed(conversation, path, error);
    }
    drop((held, lock));
    far::remove_made_parents(conversation, path);
    Ok(RemovalOutcome::Removed)
}

/// Removes the artifact `origin` at `path`, whose bytes were not on this disk when the caller
/// checked. If the bytes have been fetched since, removes the file as [`remove`] does.
pub fn remove_far(
    conversation: &Conversation,
    path: &RelPath,
    origin: &str,
    at: i64,
) -> Result<RemovalOutcome, StoreError> {
    if let Some(mark) = mark_of_copy(conversation, path, origin)? {
        return remove(conversation, path, &mark, at);
    }
    let lock = conversation.manifest().lock()?;
    if far_record(conversation, path, origin)?.is_none() {
        return Ok(RemovalOutcome::Kept(NOT_FAR));
    }
    conversation.forget_locked(&lock, path)?;
    drop(lock);
    far::remove_made_parents(conversation, path);
    Ok(RemovalOutcome::Removed)
}

/// Renames a file together with its record. Creates the missing directories of the new path. The
/// new path must be free.
///
/// The rename is on the disk only after [`sync_parents`] of both directories.
pub fn rename(
    conversation: &Conversation,
    rename: Rename<'_>,
    mark: &FileMark,
) -> Result<RenameOutcome, StoreError> {
    let lock = conversation.manifest().lock()?;
    let held = match HeldFile::open(conversation, rename.from, mark)? {
        Ok(held) => held,
        Err(why) => return Ok(RenameOutcome::Kept(why)),
    };
    let done = match held.rename(conversation, rename) {
        Err(error) if is_in_the_way(&error) => return Ok(RenameOutcome::Taken),
        Err(error) if is_of_place(&error) => {
            return Ok(RenameOutcome::Kept("it cannot be renamed"));
        }
        renamed => renamed.map_err(|error| conversation.error_at("rename", rename.from, error))?,
    };
    let Some((dir, stat)) = done else {
        return Ok(RenameOutcome::Kept("another file has its name now"));
    };
    let moved = held.record.clone().map_or(Ok(()), |record| {
        // A rename changes ctime. No other change was possible while the file was held.
        let has_recorded_bytes = held.is_leased && held.stat.is_recorded(&record);
        let now = |file: LocalFile| if has_recorded_bytes { stat.renewed(file) } else { file };
        let file = record.file.map(now);
        append_moved(conversation, &lock, Record { file, ..record }, rename)
    });
    if moved.is_err() {
        let (from, to) = (rename.from.file_name(), rename.to.file_name());
        // If this fails, the file has no record at its new path, as after a crash.
        let _back = dir.rename_to_free(to, &held.dir, from);
    }
    moved?;
    drop((held, lock));
    far::remove_made_parents(conversation, rename.from);
    Ok(RenameOutcome::Done)
}

/// Changes the path in the record of the artifact `origin`, whose bytes were not on this disk when
/// the caller checked. If the bytes have been fetched since, renames the file as [`rename`] does.
pub fn rename_far(
    conversation: &Conversation,
    rename: Rename<'_>,
    origin: &str,
) -> Result<RenameOutcome, StoreError> {
    if let Some(mark) = mark_of_copy(conversation, rename.from, origin)? {
        return self::rename(conversation, rename, &mark);
    }
    let lock = conversation.manifest().lock()?;
    let Some(record) = far_record(conversation, rename.from, origin)? else {
        return Ok(RenameOutcome::Kept(NOT_FAR));
    };
    let is_far = |record: Record| record.far.is_some_and(|far| !far.here);
    if conversation.dir().stat_at(rename.to).is_ok()
        || conversation.record(rename.to)?.is_some_and(is_far)
    {
        return Ok(RenameOutcome::Taken);
    }
    match far::made_parent(conversation.dir(), rename.to) {
        Err(error) if is_in_the_way(&error) => return Ok(RenameOutcome::Taken),
        made => drop(made.map_err(|error| conversation.error_at("rename", rename.from, error))?),
    }
    append_moved(conversation, &lock, record, rename)?;
    Ok(RenameOutcome::Done)
}

/// Removes the file at `path` from this disk; the artifact itself remains. The caller must have
/// checked that the bucket has the bytes. The file is kept if its record may not describe its
/// bytes.
///
/// After a crash at any point, either the file still exists or the record states where the bytes
/// are.
pub fn evict(
    conversation: &Conversation,
    path: &RelPath,
    mark: &FileMark,
    bytes: BucketBytes<'_>,
) -> Result<RemovalOutcome, StoreError> {
    let lock = conversation.manifest().lock()?;
    let held = match HeldFile::open(conversation, path, mark)? {
        Ok(held) => held,
        Err(why) => return Ok(RemovalOutcome::Kept(why)),
    };
    if !held.is_leased {
        return Ok(RemovalOutcome::Kept(NO_LEASE));
    }
    let Some(before) = held.record.clone().filter(|record| held.stat.is_recorded(record)) else {
        return Ok(RemovalOutcome::Kept("its bytes may not be those of its record"));
    };
    lock.append(slice::from_ref(&evicted(&before, &held, bytes)))?;
    lock.sync()?;
    let Err(error) = held.remove(conversation, path) else { return Ok(RemovalOutcome::Removed) };
    lock.append(slice::from_ref(&before))?;
    kept_or_failed(conversation, path, error)
}

/// Checks that the record of the file at `path` describes the file, and that the file has the same
/// bytes as `known`, the record of this artifact in the bucket. Updates an outdated record. Returns
/// the reason if a check fails.
///
/// A record becomes outdated if a program other than ctxfs renames the file or changes its
/// attributes. Updating it reads the whole file, without holding a lock. `clock` is the clock of
/// the store's disk.
pub fn ensure_recorded(
    conversation: &Conversation,
    path: &RelPath,
    (mark, known): (&FileMark, &Record),
    clock: FileClock,
) -> Result<Result<(), &'static str>, StoreError> {
    let open = || -> io::Result<(File, Stat)> {
        let file = conversation.dir().open_file_at(path, OFlags::RDONLY | OFlags::NOATIME)?;
        let stat = stat_file(&file)?;
        Ok((file, stat))
    };
    let opened = unless_of_place(open());
    let opened = opened.map_err(|error| conversation.error_at("open", path, error))?;
    let (file, stat) = match opened {
        Ok(opened) => opened,
        Err(why) => return Ok(Err(why)),
    };
    if FileMark::of(&stat) != *mark {
        return Ok(Err(CHANGED));
    }
    let record = conversation.record(path)?;
    if let Some(record) = record.filter(|record| stat.is_recorded(record)) {
        let is_same = has_same_bytes(&record, known);
        return Ok(if is_same { Ok(()) } else { Err(OTHER_BYTES) });
    }
    if clock.is_recent(&stat) {
        return Ok(Err("it was changed a moment ago"));
    }
    let mut hasher = blake3::Hasher::new();
    let read = hasher.update_reader(file).map(|hasher| hasher.finalize().to_hex());
    let found = read.map_err(|error| conversation.error_at("read", path, error))?;
    if known.digest() != Some(&*found) {
        return Ok(Err(OTHER_BYTES));
    }
    record_again(conversation, path, known, &stat)
}

fn record_again(
    conversation: &Conversation,
    path: &RelPath,
    known: &Record,
    stat: &Stat,
) -> Result<Result<(), &'static str>, StoreError> {
    let lock = conversation.manifest().lock()?;
    let held = match HeldFile::open(conversation, path, &FileMark::of(stat))? {
        Ok(held) => held,
        Err(why) => return Ok(Err(why)),
    };
    if !held.stat.is_unchanged(stat) {
        return Ok(Err(CHANGED));
    }
    if !held.is_leased {
        return Ok(Err(NO_LEASE));
    }
    let own = held.record.as_ref().filter(|record| has_same_bytes(record, known));
    let record = far::recorded(path, own.unwrap_or(known), stat);
    lock.append(slice::from_ref(&record))?;
    Ok(Ok(()))
}

/// Returns the mark of the file at `path`, or `None` if the file is not a fetched copy of the far
/// artifact `origin`.
pub fn mark_of_copy(
    conversation: &Conversation,
    path: &RelPath,
    origin: &str,
) -> Result<Option<FileMark>, StoreError> {
    let Ok(stat) = conversation.dir().stat_at(path) else { return Ok(None) };
    let record = conversation.record(path)?;
    let is_it = record.is_some_and(|record| stat.far_origin(&record) == Some(origin));
    Ok(is_it.then(|| FileMark::of(&stat)))
}

/// Syncs the names in the directories `parents` to the disk. `None` stands for the directory of the
/// conversation. Skips a directory that is gone or replaced by a file.
pub fn sync_parents(
    conversation: &Conversation,
    parents: impl IntoIterator<Item = Option<RelPath>>,
) -> Result<(), StoreError> {
    for parent in parents {
        let dir = match parent {
            Some(parent) => conversation.dir().open_dir_at(&parent),
            None => conversation.dir().try_clone(),
        };
        match dir.and_then(|dir| dir.sync()) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) => {}
            synced => synced.map_err(|error| conversation.listing_error(error))?,
        }
    }
    Ok(())
}

/// A file that matches its mark and has no writer. If the disk supports leases, no process can open
/// the file for writing until this value is dropped.
struct HeldFile {
    dir: Dir,
    stat: Stat,
    record: Option<Record>,
    /// True if the disk supports leases and confirmed that the file has no writer.
    is_leased: bool,
    file: File,
}

impl HeldFile {
    /// Opens the file at `path`. If the file differs from `mark` or is being written, returns the
    /// reason to keep it.
    fn open(
        conversation: &Conversation,
        path: &RelPath,
        mark: &FileMark,
    ) -> Result<Result<Self, &'static str>, StoreError> {
        let open = || -> io::Result<(File, Lease, Stat, Dir)> {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            let file = conversation.dir().open_file_at(path, flags)?;
            // The lease is taken first, so that `stat` reflects all earlier writes.
            let lease = lease::take_lease(&file);
            let stat = stat_file(&file)?;
            let dir = dir::parent_dir(conversation.dir(), path)?;
            Ok((file, lease, stat, dir))
        };
        let opened = unless_of_place(open());
        let opened = opened.map_err(|error| conversation.error_at("open", path, error))?;
        let (file, lease, stat, dir) = match opened {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        if FileMark::of(&stat) != *mark {
            return Ok(Err(CHANGED));
        }
        let record = conversation.record(path)?;
        let is_live = record.as_ref().is_some_and(|record| record.state == ArtifactState::Live);
        if is_live || lease == Lease::Held {
            return Ok(Err(WRITTEN));
        }
        let is_leased = lease == Lease::Free;
        Ok(Ok(Self { dir, stat, record, is_leased, file }))
    }

    fn remove(&self, conversation: &Conversation, path: &RelPath) -> io::Result<()> {
        removal::remove_file((&self.dir, path.file_name()), self.stat.ino, conversation.dir())
    }

    /// Renames the file. Returns its new directory and attributes. Returns `None` if another file
    /// had the old name by then; that file gets its name back.
    fn rename(
        &self,
        conversation: &Conversation,
        rename: Rename<'_>,
    ) -> io::Result<Option<(Dir, Stat)>> {
        let (from, to) = (rename.from.file_name(), rename.to.file_name());
        let dir = far::made_parent(conversation.dir(), rename.to)?;
        self.dir.rename_to_free(from, &dir, to)?;
        let stat = dir.stat(to)?;
        if stat.same_file(&self.stat) {
            return Ok(Some((dir, stat)));
        }
        dir.rename_to_free(to, &self.dir, from).map(|()| None)
    }
}

/// Returns the opened value. If opening failed with an error that concerns only this file, returns
/// a reason to keep the file. Fails with any other error.
fn unless_of_place<T>(opened: io::Result<T>) -> io::Result<Result<T, &'static str>> {
    match opened {
        Ok(opened) => Ok(Ok(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Err("it is gone")),
        Err(error) if is_of_place(&error) => Ok(Err("it cannot be opened")),
        Err(error) => Err(error),
    }
}

fn kept_or_failed(
    conversation: &Conversation,
    path: &RelPath,
    error: io::Error,
) -> Result<RemovalOutcome, StoreError> {
    if is_of_place(&error) {
        return Ok(RemovalOutcome::Kept(STUCK));
    }
    Err(conversation.error_at("remove", path, error))
}

fn far_record(
    conversation: &Conversation,
    path: &RelPath,
    origin: &str,
) -> Result<Option<Record>, StoreError> {
    let is_it =
        |record: &Record| record.far.as_ref().is_some_and(|far| far.origin == origin && !far.here);
    let record = conversation.record(path)?.filter(is_it);
    Ok(record.filter(|_| conversation.dir().stat_at(path).is_err()))
}

fn append_moved(
    conversation: &Conversation,
    lock: &ManifestLock,
    record: Record,
    Rename { from, to, at }: Rename<'_>,
) -> Result<(), StoreError> {
    let before = if record.once {
        let why = Removal::renamed(at, &format!("ctx://{}/{to}", conversation.id()));
        record.retired(record.size, record.modified, why)
    } else {
        Record { state: ArtifactState::Gone, analysis: None, ..record.clone() }
    };
    let before = Record { path: from.to_text(), far: None, ..before };
    let is_here = record.far.as_ref().is_none_or(|far| far.here);
    if !to.is_artifact() && is_here {
        return lock.append(slice::from_ref(&before));
    }
    lock.append(&[before, Record { path: to.to_text(), ..record }])
}

/// Returns the new record of an artifact whose file is about to be removed from this disk. The
/// artifact keeps the identity of that file.
fn evicted(record: &Record, held: &HeldFile, bytes: BucketBytes<'_>) -> Record {
    let BucketBytes { origin, shortcuts } = bytes;
    let file = held.stat.original(record).local_file();
    let far = Far { origin: origin.to_owned(), mode: held.stat.mode & MODE, here: false };
    let mut provenance = record.provenance.clone();
    // The attributes are removed with the file, so the record stores them.
    provenance.update(&attributes::provenance_of(&held.file).unwrap_or_default());
    let mut analysis = record.analysis.clone();
    if let (Some(analysis), Some(shortcuts)) = (&mut analysis, shortcuts) {
        analysis.shortcuts = Some(Box::new(shortcuts.clone()));
    }
    let (file, far) = (Some(file), Some(far));
    Record { file, owner: None, provenance, analysis, far, ..record.clone() }
}

fn has_same_bytes(record: &Record, known: &Record) -> bool {
    record.digest().is_some() && record.digest() == known.digest()
}

#[cfg(test)]
mod tests;
