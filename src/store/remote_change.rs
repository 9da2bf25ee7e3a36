//! Changes by other hosts, applied to local files: removal, renaming, eviction, recording again.
//!
//! Each change first opens the file as a [`HeldFile`]: it must be the file that the caller has seen, and
//! have no writer.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::{io, slice};

use rustix::fs::OFlags;

use crate::arrival::{self, MODE};
use crate::error::{is_in_the_way, is_of_place};
use crate::removal::{parent_dir, remove_file};
use crate::{
    Conversation, Dir, FileClock, FileMark, Lease, ManifestLock, RemovalOutcome, Stat, StoreError,
    attributes, layout, lease, stat,
};
use ctxfs_core::model::{ArtifactState, Far, LocalFile, Record, RelPath, Removal, Shortcuts};

/// A file that is as a mark says, and that nobody writes. If its disk has leases, nobody can open
/// it for writing until this is dropped.
pub(super) struct HeldFile {
    /// Its directory.
    pub(super) dir: Dir,
    pub(super) stat: Stat,
    /// Its record, if it has one.
    pub(super) record: Option<Record>,
    /// True if the disk could tell that nobody writes it.
    pub(super) is_leased: bool,
    /// Open for reading. Holds the lease.
    pub(super) file: File,
}

impl HeldFile {
    /// Opens the file at `path`. Returns the reason it has to stay as it is if it is not as `mark`
    /// says, or is being written.
    pub(super) fn of(
        conversation: &Conversation,
        path: &RelPath,
        mark: &FileMark,
    ) -> Result<Result<Self, &'static str>, StoreError> {
        let opened = unless_of_place(open_held(conversation, path));
        let opened = opened.map_err(|error| conversation.error_at("open", path, error))?;
        let Opened { file, lease, stat, dir } = match opened {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        if FileMark::of(&stat) != *mark {
            return Ok(Err("it was changed meanwhile"));
        }
        let record = conversation.record(path)?;
        let is_live = record.as_ref().is_some_and(|record| record.state == ArtifactState::Live);
        if is_live || lease == Lease::Held {
            return Ok(Err("it is being written"));
        }
        let is_leased = lease == Lease::Free;
        Ok(Ok(Self { dir, stat, record, is_leased, file }))
    }
}

/// Returns what was opened, or the reason that concerns this file alone. Fails with any other error.
pub(super) fn unless_of_place<T>(opened: io::Result<T>) -> io::Result<Result<T, &'static str>> {
    match opened {
        Ok(opened) => Ok(Ok(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Err("it is gone")),
        Err(error) if is_of_place(&error) => Ok(Err("it cannot be opened")),
        Err(error) => Err(error),
    }
}

struct Opened {
    file: File,
    lease: Lease,
    stat: Stat,
    dir: Dir,
}

fn open_held(conversation: &Conversation, path: &RelPath) -> io::Result<Opened> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = conversation.dir().open_file_at(path, flags)?;
    // Before the disk is asked: what was written until now shows in its answer.
    let lease = lease::take(&file);
    let stat = stat::stat_file(&file)?;
    let dir = parent_dir(conversation.dir(), path)?;
    Ok(Opened { file, lease, stat, dir })
}

impl Conversation {
    /// Removes the file at `path` and its record, unless it differs from `mark` or is being
    /// written. `at` is the time, in milliseconds since the epoch, for the trace of content that
    /// was never to change.
    ///
    /// Whoever has it open can read it to its end. The directories above it that were made for it
    /// go too, if they are empty. The names that are gone are on the disk after
    /// [`Conversation::sync_parents`].
    pub fn depart(
        &self,
        path: &RelPath,
        mark: &FileMark,
        at: i64,
    ) -> Result<RemovalOutcome, StoreError> {
        let lock = self.manifest().lock()?;
        let held = match HeldFile::of(self, path, mark)? {
            Ok(held) => held,
            Err(why) => return Ok(RemovalOutcome::Kept(why)),
        };
        if path.is_artifact() && !held.is_leased {
            let why = "its disk cannot tell whether it is being written";
            return Ok(RemovalOutcome::Kept(why));
        }
        let before = self.record_departure(&lock, path, &held, at)?;
        if let Err(error) = self.remove_held(path, &held) {
            lock.append(before.as_slice())?;
            let of_place = is_of_place(&error);
            let why = RemovalOutcome::Kept("it cannot be removed from its directory");
            return if of_place { Ok(why) } else { Err(self.error_at("remove", path, error)) };
        }
        drop((held, lock));
        self.remove_made_parents(path);
        Ok(RemovalOutcome::Removed)
    }

    /// Does the same with the artifact `origin` at `path`, whose bytes are not here, or came since.
    pub fn depart_far(
        &self,
        path: &RelPath,
        origin: &str,
        at: i64,
    ) -> Result<RemovalOutcome, StoreError> {
        if let Some(mark) = self.brought_here(path, origin)? {
            return self.depart(path, &mark, at);
        }
        let lock = self.manifest().lock()?;
        if self.far_record(path, origin)?.is_none() {
            return Ok(RemovalOutcome::Kept("it is gone, or here"));
        }
        self.forget_locked(&lock, path)?;
        drop(lock);
        self.remove_made_parents(path);
        Ok(RemovalOutcome::Removed)
    }

    /// Returns the mark of the file at `path`, if it has the bytes of the artifact `origin`, which
    /// were not here before.
    pub fn brought_here(
        &self,
        path: &RelPath,
        origin: &str,
    ) -> Result<Option<FileMark>, StoreError> {
        let Ok(stat) = self.dir().stat_at(path) else { return Ok(None) };
        let record = self.record(path)?;
        let is_it = record.is_some_and(|record| stat.far_origin(&record) == Some(origin));
        Ok(is_it.then(|| FileMark::of(&stat)))
    }

    /// Returns the record of the artifact `origin` at `path`, if its bytes are not here.
    pub(super) fn far_record(
        &self,
        path: &RelPath,
        origin: &str,
    ) -> Result<Option<Record>, StoreError> {
        let is_it = |record: &Record| {
            record.far.as_ref().is_some_and(|far| far.origin == origin && !far.here)
        };
        let record = self.record(path)?.filter(is_it);
        Ok(record.filter(|_| self.dir().stat_at(path).is_err()))
    }

    /// Syncs the names in directories to the disk: `None` is that of the conversation. One that is
    /// gone has none.
    pub fn sync_parents(
        &self,
        parents: impl IntoIterator<Item = Option<RelPath>>,
    ) -> Result<(), StoreError> {
        for parent in parents {
            let dir = match parent {
                Some(parent) => self.dir().open_dir_at(&parent),
                None => self.dir().try_clone(),
            };
            match dir.and_then(|dir| dir.sync()) {
                // A directory that is gone, or where a file is now, has nothing to bring.
                Err(error) if is_no_directory(&error) => {}
                synced => synced.map_err(|error| self.listing_error(error))?,
            }
        }
        Ok(())
    }

    /// Records that the file goes. Returns its record until then.
    fn record_departure(
        &self,
        lock: &ManifestLock,
        path: &RelPath,
        held: &HeldFile,
        at: i64,
    ) -> Result<Option<Record>, StoreError> {
        if held.record.as_ref().is_some_and(|record| record.once) {
            return self.retire_locked(lock, (path, &held.stat), Removal::unlinked(at)).map(Some);
        }
        self.forget_locked(lock, path)
    }

    pub(super) fn remove_held(&self, path: &RelPath, held: &HeldFile) -> io::Result<()> {
        let name: &OsStr = path.file_name();
        let gone = layout::gone(RandomState::new().hash_one(name));
        remove_file((&held.dir, name), held.stat.ino, (self.dir(), gone.as_str()))
    }
}
fn is_no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The result of renaming a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relocation {
    /// It has its new name, and its record too.
    Done,
    /// Something else has that name, or is in the way of a directory.
    Taken,
    /// The file is as it was. The text says why.
    Kept(&'static str),
}

/// A renaming: the old and the new path, and its time in milliseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub struct Rename<'a> {
    /// Where the file is.
    pub from: &'a RelPath,
    /// Where it is to be.
    pub to: &'a RelPath,
    /// The time, for the trace of content that was never to change.
    pub at: i64,
}

impl Conversation {
    /// Renames a file, and its record follows, unless it differs from `mark`, is being written, or
    /// the new name is not free. Makes the directories of the new name.
    ///
    /// The new name, and that the old one is gone, are on the disk after
    /// [`Conversation::sync_parents`].
    pub fn relocate(&self, rename: Rename<'_>, mark: &FileMark) -> Result<Relocation, StoreError> {
        let lock = self.manifest().lock()?;
        let held = match HeldFile::of(self, rename.from, mark)? {
            Ok(held) => held,
            Err(why) => return Ok(Relocation::Kept(why)),
        };
        let done = match self.rename_held(rename, &held) {
            Err(error) if is_in_the_way(&error) => return Ok(Relocation::Taken),
            Err(error) if is_of_place(&error) => {
                return Ok(Relocation::Kept("it cannot be renamed"));
            }
            renamed => renamed.map_err(|error| self.error_at("rename", rename.from, error))?,
        };
        let Some((dir, stat)) = done else {
            return Ok(Relocation::Kept("another file has its name now"));
        };
        let moved = self.move_record(&lock, rename, (&held, &stat));
        if moved.is_err() {
            let (from, to) = (rename.from.file_name(), rename.to.file_name());
            // Without its old name, it is a file without a record, as after a crash.
            let _back = dir.rename_to_free(to, &held.dir, from);
        }
        moved?;
        drop((held, lock));
        self.remove_made_parents(rename.from);
        Ok(Relocation::Done)
    }

    /// Does the same with the artifact `origin`, whose bytes are not here, or came since: its record
    /// gets the new name.
    pub fn relocate_far(&self, rename: Rename<'_>, origin: &str) -> Result<Relocation, StoreError> {
        if let Some(mark) = self.brought_here(rename.from, origin)? {
            return self.relocate(rename, &mark);
        }
        let lock = self.manifest().lock()?;
        let Some(record) = self.far_record(rename.from, origin)? else {
            return Ok(Relocation::Kept("it is gone, or here"));
        };
        let is_far = |record: Record| record.far.is_some_and(|far| !far.here);
        if self.dir().stat_at(rename.to).is_ok() || self.record(rename.to)?.is_some_and(is_far) {
            return Ok(Relocation::Taken);
        }
        match self.made_parent(rename.to) {
            Err(error) if is_in_the_way(&error) => return Ok(Relocation::Taken),
            made => drop(made.map_err(|error| self.error_at("rename", rename.from, error))?),
        }
        self.append_moved(&lock, record, rename)?;
        Ok(Relocation::Done)
    }

    /// Renames the file. Returns its new directory and attributes, or none if another file had
    /// taken its name, which that file has again.
    fn rename_held(&self, rename: Rename<'_>, held: &HeldFile) -> io::Result<Option<(Dir, Stat)>> {
        let (from, to) = (rename.from.file_name(), rename.to.file_name());
        let dir = self.made_parent(rename.to)?;
        held.dir.rename_to_free(from, &dir, to)?;
        let stat = dir.stat(to)?;
        if stat.same_file(&held.stat) {
            return Ok(Some((dir, stat)));
        }
        dir.rename_to_free(to, &held.dir, from).map(|()| None)
    }

    fn move_record(
        &self,
        lock: &ManifestLock,
        rename: Rename<'_>,
        (held, stat): (&HeldFile, &Stat),
    ) -> Result<(), StoreError> {
        let Some(record) = held.record.clone() else { return Ok(()) };
        // A rename changes the time that nobody can set, and nothing else could while it was held.
        let has_recorded_bytes = held.is_leased && held.stat.is_recorded(&record);
        let now = |file: LocalFile| if has_recorded_bytes { renamed(file, stat) } else { file };
        let file = record.file.map(now);
        self.append_moved(lock, Record { file, ..record }, rename)
    }

    /// Appends that a record has another path.
    fn append_moved(
        &self,
        lock: &ManifestLock,
        record: Record,
        Rename { from, to, at }: Rename<'_>,
    ) -> Result<(), StoreError> {
        let before = if record.once {
            let why = Removal::renamed(at, &format!("ctx://{}/{to}", self.id()));
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
}

/// Returns the file of a record after it was renamed.
fn renamed(file: LocalFile, stat: &Stat) -> LocalFile {
    let now = stat.ctime.as_nanos();
    match file.copied {
        Some(_) => LocalFile { copied: Some(now), ..file },
        None => LocalFile { changed: now, ..file },
    }
}

const OTHER_BYTES: &str = "the bucket has other bytes";

impl Conversation {
    /// Makes sure that the record of the file at `path` describes it, and that its bytes are those
    /// that `known` tells of, a record of this artifact from the bucket. Returns the reason if that
    /// is not so: it differs from `mark`, has other bytes, or is being written.
    ///
    /// Reads the file if its record describes it no more: somebody renamed it, or changed its
    /// attributes, without ctxfs. Nobody waits for that. `clock` is that of the store's disk.
    pub fn recognise(
        &self,
        path: &RelPath,
        (mark, known): (&FileMark, &Record),
        clock: FileClock,
    ) -> Result<Result<(), &'static str>, StoreError> {
        let opened = unless_of_place(self.opened(path));
        let (file, stat) = match opened.map_err(|error| self.error_at("open", path, error))? {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        if FileMark::of(&stat) != *mark {
            return Ok(Err("it was changed meanwhile"));
        }
        let record = self.record(path)?;
        if let Some(record) = record.filter(|record| stat.is_recorded(record)) {
            let is_same = is_of_same_bytes(&record, known);
            return Ok(if is_same { Ok(()) } else { Err(OTHER_BYTES) });
        }
        if clock.is_recent(&stat) {
            return Ok(Err("it was changed a moment ago"));
        }
        let digest = digest_of(&file).map_err(|error| self.error_at("read", path, error))?;
        if digest_in(known) != Some(&digest) {
            return Ok(Err(OTHER_BYTES));
        }
        self.record_anew(path, known, &stat)
    }

    fn opened(&self, path: &RelPath) -> io::Result<(File, Stat)> {
        let file = self.dir().open_file_at(path, OFlags::RDONLY | OFlags::NOATIME)?;
        let stat = stat::stat_file(&file)?;
        Ok((file, stat))
    }

    /// Records the file, which has the bytes that `known` tells of if it still is as `stat` says.
    fn record_anew(
        &self,
        path: &RelPath,
        known: &Record,
        stat: &Stat,
    ) -> Result<Result<(), &'static str>, StoreError> {
        let lock = self.manifest().lock()?;
        let held = match HeldFile::of(self, path, &FileMark::of(stat))? {
            Ok(held) => held,
            Err(why) => return Ok(Err(why)),
        };
        if !held.stat.is_unchanged(stat) {
            return Ok(Err("it was changed meanwhile"));
        }
        if !held.is_leased {
            return Ok(Err("its disk cannot tell whether it is being written"));
        }
        let own = held.record.as_ref().filter(|record| is_of_same_bytes(record, known));
        let record = arrival::recorded(path, own.unwrap_or(known), stat);
        lock.append(slice::from_ref(&record))?;
        Ok(Ok(()))
    }
}

fn digest_in(record: &Record) -> Option<&String> {
    record.analysis.as_ref().map(|analysis| &analysis.digest)
}

fn is_of_same_bytes(record: &Record, known: &Record) -> bool {
    digest_in(record).is_some() && digest_in(record) == digest_in(known)
}

fn digest_of(file: &File) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The place of the bytes of an artifact, and what others were told of them.
#[derive(Debug, Clone, Copy)]
pub struct FarBytes<'a> {
    /// Their origin in the bucket.
    pub origin: &'a str,
    /// Facts that spare reading all of them.
    pub shortcuts: Option<&'a Shortcuts>,
}

impl Conversation {
    /// Removes the file at `path` from this disk, unless it differs from `mark`, is being written,
    /// or is not what its record says. The artifact stays: its bytes are those in the bucket, as
    /// the caller has made sure.
    ///
    /// Whoever has it open can read it to its end. Wherever this stops, the file is there, or the
    /// record says where its bytes are.
    pub fn let_go(
        &self,
        path: &RelPath,
        mark: &FileMark,
        bytes: FarBytes<'_>,
    ) -> Result<RemovalOutcome, StoreError> {
        let lock = self.manifest().lock()?;
        let held = match HeldFile::of(self, path, mark)? {
            Ok(held) => held,
            Err(why) => return Ok(RemovalOutcome::Kept(why)),
        };
        if !held.is_leased {
            let why = "its disk cannot tell whether it is being written";
            return Ok(RemovalOutcome::Kept(why));
        }
        let Some(before) = held.record.clone().filter(|record| held.stat.is_recorded(record))
        else {
            return Ok(RemovalOutcome::Kept("its bytes may not be those of its record"));
        };
        lock.append(slice::from_ref(&released(&before, &held, bytes)))?;
        lock.sync()?;
        let Err(error) = self.remove_held(path, &held) else {
            return Ok(RemovalOutcome::Removed);
        };
        lock.append(slice::from_ref(&before))?;
        if is_of_place(&error) {
            return Ok(RemovalOutcome::Kept("it cannot be removed from its directory"));
        }
        Err(self.error_at("remove", path, error))
    }
}

/// Returns the record of an artifact whose file goes. It is known by that file as before.
fn released(record: &Record, held: &HeldFile, bytes: FarBytes<'_>) -> Record {
    let FarBytes { origin, shortcuts } = bytes;
    let file = held.stat.original(record).local_file();
    let far = Far { origin: origin.to_owned(), mode: held.stat.mode & MODE, here: false };
    let mut provenance = record.provenance.clone();
    // What its attributes say goes with the file.
    provenance.update(&attributes::provenance_of(&held.file).unwrap_or_default());
    let mut analysis = record.analysis.clone();
    if let (Some(analysis), Some(shortcuts)) = (&mut analysis, shortcuts) {
        analysis.shortcuts = Some(Box::new(shortcuts.clone()));
    }
    let (file, far) = (Some(file), Some(far));
    Record { file, owner: None, provenance, analysis, far, ..record.clone() }
}

#[cfg(test)]
mod tests;
