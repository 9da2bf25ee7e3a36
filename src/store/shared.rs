//! The files that hosts share: listing them, applying changes of other hosts, and evicting local
//! copies.
//!
//! The caller knows a local file by its path and a [`FileMark`]. Each change is made under the lock
//! of the manifest, after the file was opened as a `HeldFile`: it must still be the marked file,
//! and have no writer. Otherwise the file is kept, with a reason. A reader that has the file open
//! can read it to its end.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::ffi::OsStrExt as _;
use std::{io, slice};

use rustix::fs::OFlags;

use crate::arrival::{self, MODE};
use crate::error::{is_in_the_way, is_of_place};
use crate::manifest::digest;
use crate::walk::{DirWalk, PathBudget};
use crate::{
    Conversation, Dir, FileClock, FileMark, FileType, Lease, ManifestLock, RemovalOutcome, Stat,
    StoreError, UnreadPlaces, attributes, dir, layout, lease, removal, stat_file,
};
use ctxfs_core::model::{
    ArtifactState, Far, LocalFile, MAX_DEPTH, Record, RelPath, Removal, Shortcuts, is_scratch,
};

/// Reasons to keep a file.
const CHANGED: &str = "it was changed meanwhile";
const NO_LEASE: &str = "its disk cannot tell whether it is being written";
const NOT_FAR: &str = "it is gone, or here";
const OTHER_BYTES: &str = "the bucket has other bytes";
const STUCK: &str = "it cannot be removed from its directory";
const WRITTEN: &str = "it is being written";

/// A place that [`each_file`] found.
#[derive(Debug)]
pub enum SharedPlace {
    /// A file, with its attributes.
    File(RelPath, Stat),
    /// A directory.
    Directory {
        /// Path in the conversation.
        path: RelPath,
        /// True if the directory was made for a file of another host. Then it is removed with the
        /// last file in it.
        is_made: bool,
    },
}

/// The result of renaming a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameOutcome {
    /// The file and its record have the new name.
    Done,
    /// The new name is taken, or a file is in the way of its directory.
    Taken,
    /// The file is as it was. The text says why.
    Kept(&'static str),
}

/// A rename: old and new path, and its time in milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub struct Rename<'a> {
    /// Path that the file has now.
    pub from: &'a RelPath,
    /// Path that the file gets.
    pub to: &'a RelPath,
    /// Time for the trace that write-once content leaves under its old name.
    pub at: i64,
}

/// The bytes of an artifact in the bucket.
#[derive(Debug, Clone, Copy)]
pub struct BucketBytes<'a> {
    /// Origin of the bytes.
    pub origin: &'a str,
    /// Facts published with the bytes, which spare a host reading all of them.
    pub shortcuts: Option<&'a Shortcuts>,
}

/// Returns true if hosts share a file at `path` as a file. All files are shared but the store's
/// own, the message log, and scratch files.
pub fn is_shared(path: &RelPath) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let end = memchr::memchr(b'/', bytes).unwrap_or(bytes.len());
    let first = OsStr::from_bytes(&bytes[..end]);
    !layout::is_bookkeeping(first)
        && !layout::is_of_log(path)
        && !layout::is_standard(path)
        && !is_scratch(path.file_name())
        && memchr::memchr_iter(b'/', bytes).count() <= MAX_DEPTH
}

/// Passes each file that hosts share, and each directory, to `meet`. Returns the places that could
/// not be read.
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
                let is_made = arrival::is_made(dir, &found.path);
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

/// Removes the file at `path` and its record. `at` is the time, in milliseconds since the epoch,
/// for the trace that write-once content leaves.
///
/// Empty directories above it that were made for files of other hosts are removed too. The removal
/// is on the disk after [`sync_parents`].
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
    arrival::remove_made_parents(conversation, path);
    Ok(RemovalOutcome::Removed)
}

/// Removes the artifact `origin` at `path`, whose bytes were not here when the caller looked. If
/// they have been fetched since, [`remove`] is done.
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
    arrival::remove_made_parents(conversation, path);
    Ok(RemovalOutcome::Removed)
}

/// Renames a file, and its record follows. Makes the directories of the new name, which must be
/// free.
///
/// The new name, and that the old one is gone, are on the disk after [`sync_parents`].
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
        // A rename changes ctime, and nothing else could change the file while it was held.
        let has_recorded_bytes = held.is_leased && held.stat.is_recorded(&record);
        let now = |file: LocalFile| if has_recorded_bytes { stat.renewed(file) } else { file };
        let file = record.file.map(now);
        append_moved(conversation, &lock, Record { file, ..record }, rename)
    });
    if moved.is_err() {
        let (from, to) = (rename.from.file_name(), rename.to.file_name());
        // If this fails, the file has no record under its new name, as after a crash.
        let _back = dir.rename_to_free(to, &held.dir, from);
    }
    moved?;
    drop((held, lock));
    arrival::remove_made_parents(conversation, rename.from);
    Ok(RenameOutcome::Done)
}

/// Gives the record of the artifact `origin` another path. The bytes were not here when the caller
/// looked. If they have been fetched since, [`rename`] is done.
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
    match arrival::made_parent(conversation.dir(), rename.to) {
        Err(error) if is_in_the_way(&error) => return Ok(RenameOutcome::Taken),
        made => drop(made.map_err(|error| conversation.error_at("rename", rename.from, error))?),
    }
    append_moved(conversation, &lock, record, rename)?;
    Ok(RenameOutcome::Done)
}

/// Removes the file at `path` from this disk, while the artifact stays: the caller has made sure
/// that its bytes are in the bucket. The file is kept unless its record vouches for its bytes.
///
/// Wherever a crash stops this, the file is there, or the record says where the bytes are.
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

/// Makes sure that the record of the file at `path` describes it, and that it has the bytes of
/// `known`, the record of this artifact in the bucket. Returns the reason if that is not so.
///
/// Reads the whole file if its record is outdated, because a program renamed it or changed its
/// attributes without ctxfs. Holds no lock meanwhile. `clock` is that of the store's disk.
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
    if digest(known) != Some(&*found) {
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
    let record = arrival::recorded(path, own.unwrap_or(known), stat);
    lock.append(slice::from_ref(&record))?;
    Ok(Ok(()))
}

/// Returns the mark of the file at `path`, if it is a fetched copy of the far artifact `origin`.
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

/// Syncs the names in directories to the disk. `None` is the directory of the conversation. A
/// directory that is gone, or replaced by a file, is skipped.
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

/// A file that has its mark and no writer. If its disk has leases, no process can open it for
/// writing until this is dropped.
struct HeldFile {
    dir: Dir,
    stat: Stat,
    record: Option<Record>,
    /// True if the disk could tell that the file has no writer.
    is_leased: bool,
    /// Open for reading. Holds the lease.
    file: File,
}

impl HeldFile {
    /// Opens the file at `path`. Returns the reason to keep it if it differs from `mark`, or is
    /// being written.
    fn open(
        conversation: &Conversation,
        path: &RelPath,
        mark: &FileMark,
    ) -> Result<Result<Self, &'static str>, StoreError> {
        let open = || -> io::Result<(File, Lease, Stat, Dir)> {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            let file = conversation.dir().open_file_at(path, flags)?;
            // The lease comes first: all earlier writes show in `stat`.
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
        let name: &OsStr = path.file_name();
        let gone = layout::removing(RandomState::new().hash_one(name));
        removal::remove_file((&self.dir, name), self.stat.ino, (conversation.dir(), gone.as_str()))
    }

    /// Renames the file. Returns its new directory and attributes. If another file had taken its
    /// name, returns `None`, and that file has its name again.
    fn rename(
        &self,
        conversation: &Conversation,
        rename: Rename<'_>,
    ) -> io::Result<Option<(Dir, Stat)>> {
        let (from, to) = (rename.from.file_name(), rename.to.file_name());
        let dir = arrival::made_parent(conversation.dir(), rename.to)?;
        self.dir.rename_to_free(from, &dir, to)?;
        let stat = dir.stat(to)?;
        if stat.same_file(&self.stat) {
            return Ok(Some((dir, stat)));
        }
        dir.rename_to_free(to, &self.dir, from).map(|()| None)
    }
}

/// Returns the opened value, or a reason that concerns this file alone. Fails with any other error.
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

/// Returns the record of an artifact whose file is about to be removed from this disk. The artifact
/// keeps the identity of that file.
fn evicted(record: &Record, held: &HeldFile, bytes: BucketBytes<'_>) -> Record {
    let BucketBytes { origin, shortcuts } = bytes;
    let file = held.stat.original(record).local_file();
    let far = Far { origin: origin.to_owned(), mode: held.stat.mode & MODE, here: false };
    let mut provenance = record.provenance.clone();
    // The attributes are removed with the file.
    provenance.update(&attributes::provenance_of(&held.file).unwrap_or_default());
    let mut analysis = record.analysis.clone();
    if let (Some(analysis), Some(shortcuts)) = (&mut analysis, shortcuts) {
        analysis.shortcuts = Some(Box::new(shortcuts.clone()));
    }
    let (file, far) = (Some(file), Some(far));
    Record { file, owner: None, provenance, analysis, far, ..record.clone() }
}

fn has_same_bytes(record: &Record, known: &Record) -> bool {
    digest(record).is_some() && digest(record) == digest(known)
}

#[cfg(test)]
mod tests;
