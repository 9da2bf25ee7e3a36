//! Writing a small file atomically.

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::io::Write as _;

use rustix::fs::{OFlags, RenameFlags};

use crate::dir::Dir;
use crate::layout;

/// Writes `bytes` to the file `name`. A reader of `name`, now or after a crash, sees either the old
/// content or the new one.
pub(super) fn write(dir: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    write_and_rename(dir, name, bytes, true)?;
    dir.sync()
}

/// Replaces the file `name`. A reader sees either the old content or the new one; after a crash of
/// the machine, it may be neither.
pub(super) fn replace(dir: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    write_and_rename(dir, name, bytes, false)
}

fn write_and_rename(dir: &Dir, name: &OsStr, bytes: &[u8], syncs: bool) -> io::Result<()> {
    let temporary = layout::temporary(RandomState::new().hash_one(std::process::id()));
    let temporary = OsStr::new(&temporary);
    let written = write_whole(dir, temporary, bytes, syncs)
        .and_then(|()| dir.rename(temporary, dir, name, RenameFlags::empty()));
    if written.is_err() {
        // The first failure is the one to report.
        let _removed = dir.unlink(temporary);
    }
    written
}

fn write_whole(dir: &Dir, name: &OsStr, bytes: &[u8], syncs: bool) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::EXCL;
    let mut file = dir.create_file(name, flags, layout::FILE_MODE)?;
    file.write_all(bytes)?;
    if syncs { file.sync_all() } else { Ok(()) }
}
