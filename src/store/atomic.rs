//! Writing a small file atomically.

use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;
use std::io::Write as _;

use rustix::fs::OFlags;
use rustix::fs::RenameFlags;

use crate::store::dir::Dir;
use crate::store::layout;

/// Writes `bytes` to the file `name`. A reader of `name`, now or after a crash, sees either the old
/// content or the new one.
pub(super) fn write(dir: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let temporary = layout::temporary(RandomState::new().hash_one(std::process::id()));
    let written = write_and_rename(dir, temporary.as_ref(), name, bytes);
    if written.is_err() {
        // The first failure is the one to report.
        let _removed = dir.unlink(temporary.as_ref());
    }
    written
}

fn write_and_rename(dir: &Dir, temporary: &OsStr, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::EXCL;
    let mut file = dir.create_file(temporary, flags, layout::FILE_MODE)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    dir.rename(temporary, dir, name, RenameFlags::empty())?;
    dir.sync()
}
