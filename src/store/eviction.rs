//! Letting go of local files whose bytes the bucket has.

use std::slice;

use crate::arrival::MODE;
use crate::attributes;
use crate::conversation::Conversation;
use crate::error::{StoreError, is_of_place};
use crate::file_mark::FileMark;
use crate::held_file::HeldFile;
use crate::removal::RemovalOutcome;
use ctxfs_core::model::{Far, Record, RelPath, Shortcuts};

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
        lock.append(slice::from_ref(&let_go(&before, &held, bytes)))?;
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
fn let_go(record: &Record, held: &HeldFile, bytes: FarBytes<'_>) -> Record {
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
