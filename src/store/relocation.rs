//! Renaming what another host has renamed.

use std::{io, slice};

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::{StoreError, is_in_the_way, is_of_place};
use crate::file_mark::FileMark;
use crate::held_file::HeldFile;
use crate::manifest::ManifestLock;
use crate::stat::Stat;
use ctxfs_core::model::{ArtifactState, LocalFile, Record, RelPath, Removal};

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
