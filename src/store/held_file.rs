//! A file that is about to be removed or renamed because another host did that.

use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::{StoreError, is_of_place};
use crate::file_mark::FileMark;
use crate::lease::Lease;
use crate::removal::parent_dir;
use crate::stat::Stat;
use crate::{lease, stat};
use ctxfs_core::model::{ArtifactState, Record, RelPath};

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
        let opened = unless_of_place(open(conversation, path));
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

fn open(conversation: &Conversation, path: &RelPath) -> io::Result<Opened> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = conversation.dir().open_file_at(path, flags)?;
    // Before the disk is asked: what was written until now shows in its answer.
    let lease = lease::take(&file);
    let stat = stat::stat_file(&file)?;
    let dir = parent_dir(conversation.dir(), path)?;
    Ok(Opened { file, lease, stat, dir })
}
