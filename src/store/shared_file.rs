//! The files of a conversation that hosts share as files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::manifest::StoredRecords;
use crate::path_budget::PathBudget;
use crate::stat::{FileType, Stat};
use crate::unread::UnreadPlaces;
use crate::walk::Walk;
use crate::{layout, made_dir};
use ctxfs_core::model::{MAX_DEPTH, RelPath, is_scratch};

/// What a walk over a conversation met.
#[derive(Debug)]
pub enum SharedPlace {
    /// A file, with its attributes.
    File(RelPath, Stat),
    /// A directory. One that was made for a file of another host goes with the last file in it.
    Directory {
        /// The path.
        path: RelPath,
        /// True if it was made for a file of another host.
        is_made: bool,
    },
}

/// Returns true if a file at `path` is shared with other hosts as a file: all are but the store's
/// own, those of the message log, and scratch.
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

impl Conversation {
    /// Passes each file that hosts share, and each directory, to `meet`. Returns the places that
    /// could not be read.
    pub fn each_shared(
        &self,
        mut meet: impl FnMut(SharedPlace),
    ) -> Result<UnreadPlaces, StoreError> {
        let walked = self.walk_shared(&mut meet);
        walked.map_err(|error| self.listing_error(error))
    }

    /// Returns the records of artifacts whose bytes are not on this disk, oldest first.
    pub fn far_records(&self) -> Result<StoredRecords, StoreError> {
        self.manifest().far(None)
    }

    fn walk_shared(&self, meet: &mut dyn FnMut(SharedPlace)) -> io::Result<UnreadPlaces> {
        let walk = Walk::new(self.dir().try_clone()?, None, |_: &Dir| Ok(true))?;
        let (mut walk, mut budget) = (walk.without(layout::is_bookkeeping), PathBudget::new());
        while let Some(found) = walk.next()? {
            if found.kind == FileType::Directory {
                let is_made = made_dir::is_made(self.dir(), &found.path);
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
    }
}
