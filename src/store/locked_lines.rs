//! A file of lines that several processes append to, one at a time.

use std::fs::File;
use std::io;
use std::io::Write as _;

use rustix::fs::FlockOperation;
use rustix::fs::OFlags;

use crate::store::artifact::read_full_at;
use crate::store::dir::Dir;
use crate::store::layout;
use crate::store::stat;

/// A file of lines with its exclusive lock: nobody else appends to it until this is dropped.
#[derive(Debug)]
pub(super) struct LockedLines(File);

impl LockedLines {
    /// Waits for the lock of the file `name` in `dir`. Creates the file if it is missing.
    ///
    /// Another process may replace the file meanwhile, and a lock on the old file keeps nobody out.
    /// Then the wait starts over with the new one.
    pub(super) fn wait(dir: &Dir, name: &str) -> io::Result<Self> {
        let name = name.as_ref();
        loop {
            let flags = OFlags::RDWR | OFlags::APPEND;
            let file = dir.create_file(name, flags, layout::FILE_MODE)?;
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
            let mine = stat::stat_file(&file)?;
            match dir.stat(name) {
                Ok(stat) if stat.same_file(&mine) => return Ok(Self(file)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Takes the lock as [`Self::wait`] does, or returns `None` if it is taken. Assumes that nobody
    /// replaces the file meanwhile.
    #[cfg(all(test, feature = "shuttle"))]
    pub(super) fn at_once(dir: &Dir, name: &str) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::APPEND;
        let file = dir.create_file(name.as_ref(), flags, layout::FILE_MODE)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends whole lines in one write. A last line that was cut off gets its newline first.
    pub(super) fn append(&self, lines: &[u8]) -> io::Result<()> {
        if self.ends_with_newline()? {
            return (&self.0).write_all(lines);
        }
        (&self.0).write_all(&[b"\n", lines].concat())
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &File {
        &self.0
    }

    /// Syncs the appended lines to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn ends_with_newline(&self) -> io::Result<bool> {
        let size = stat::stat_file(&self.0)?.size;
        let mut last = [b'\n'];
        read_full_at(&self.0, size.saturating_sub(1), &mut last)?;
        Ok(last == [b'\n'])
    }
}
