//! Letting go of local files whose bytes the bucket has.

use std::slice;

use crate::model::Far;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::arrival::MODE;
use crate::store::attributes;
use crate::store::conversation::Conversation;
use crate::store::error::StoreError;
use crate::store::error::is_of_place;
use crate::store::file_mark::FileMark;
use crate::store::held_file::HeldFile;
use crate::store::removal::RemovalOutcome;

impl Conversation {
    /// Removes the file at `path` from this disk, unless it differs from `mark`, is being written,
    /// or is not what its record says. The artifact stays: its bytes are those of `origin` in the
    /// bucket, as the caller has made sure.
    ///
    /// Whoever has it open can read it to its end. Wherever this stops, the file is there, or the
    /// record says where its bytes are.
    pub fn let_go(
        &self,
        path: &RelPath,
        mark: &FileMark,
        origin: &str,
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
        lock.append(slice::from_ref(&let_go(&before, &held, origin)))?;
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
fn let_go(record: &Record, held: &HeldFile, origin: &str) -> Record {
    let file = held.stat.original(record).local_file();
    let far = Far { origin: origin.to_owned(), mode: held.stat.mode & MODE, here: false };
    let mut provenance = record.provenance.clone();
    // What its attributes say goes with the file.
    provenance.update(&attributes::provenance_of(&held.file).unwrap_or_default());
    Record { file: Some(file), owner: None, provenance, far: Some(far), ..record.clone() }
}

#[cfg(test)]
mod tests;
