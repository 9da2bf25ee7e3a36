//! Removing what another host has removed.

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io;

use crate::conversation::Conversation;
use crate::error::{StoreError, is_of_place};
use crate::file_mark::FileMark;
use crate::held_file::HeldFile;
use crate::layout;
use crate::manifest::ManifestLock;
use crate::removal::{RemovalOutcome, remove_file};
use ctxfs_core::model::{Record, RelPath, Removal};

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
