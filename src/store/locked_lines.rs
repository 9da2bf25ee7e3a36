//! A file of lines that several processes append to, one at a time.

use std::fs::File;
use std::io;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;

use crate::artifact::read_full_at;
use crate::dir::Dir;
use crate::file_lock::LockedFile;
use crate::{file_lock, stat};

/// Blanks that are written at a time.
const BLANKS: [u8; 4096] = [b' '; 4096];

/// Lines are only ever added at the end.
const FLAGS: OFlags = OFlags::RDWR.union(OFlags::APPEND);

/// A file of lines with its exclusive lock: nobody else appends to it until this is dropped.
#[derive(Debug)]
pub(super) struct LockedLines(LockedFile);

impl LockedLines {
    /// Waits for the lock of the file `name` in `dir`. Creates the file if it is missing.
    pub(super) fn wait(dir: &Dir, name: &str) -> io::Result<Self> {
        file_lock::open_locked(dir, name, FLAGS, &file_lock::lock).map(Self)
    }

    /// Takes the lock as [`Self::wait`] does, or returns `None` if it is taken.
    pub(super) fn at_once(dir: &Dir, name: &str) -> io::Result<Option<Self>> {
        let taken = || io::Error::from(io::ErrorKind::WouldBlock);
        let lock = |file: &File| file_lock::try_lock(file)?.then_some(()).ok_or_else(taken);
        match file_lock::open_locked(dir, name, FLAGS, &lock) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            locked => Ok(Some(Self(locked?))),
        }
    }

    /// Appends whole lines in one write: all of them, or none. A last line that was cut off gets
    /// its newline first. Returns where they begin.
    pub(super) fn append(&self, lines: &[u8]) -> io::Result<u64> {
        let start = stat::stat_file(&self.0)?.size;
        let written = if self.ends_with_newline()? {
            self.file().write_all(lines)
        } else {
            self.file().write_all(&[b"\n", lines].concat())
        };
        match written {
            Ok(()) => Ok(start),
            Err(error) => {
                // What cannot be taken back is a line of its own, as after a crash.
                let _blanked = self.take_back(start);
                Err(error)
            }
        }
    }

    /// Makes everything from `start` on, which the caller has appended, one blank line. That needs
    /// no room on the disk. The file does not get shorter, so readers need not start over.
    pub(super) fn take_back(&self, start: u64) -> io::Result<()> {
        let end = stat::stat_file(&self.0)?.size;
        // With this flag every write goes to the end, whatever its offset.
        let flags = rustix::fs::fcntl_getfl(self.file())?;
        rustix::fs::fcntl_setfl(self.file(), flags - OFlags::APPEND)?;
        let blanked = self.blank(start, end);
        rustix::fs::fcntl_setfl(self.file(), flags)?;
        blanked
    }

    fn blank(&self, start: u64, end: u64) -> io::Result<()> {
        let Some(last) = end.checked_sub(1).filter(|last| *last >= start) else { return Ok(()) };
        let mut at = start;
        while at < last {
            let count = BLANKS.len().min((last - at) as usize);
            self.0.write_all_at(&BLANKS[..count], at)?;
            at += count as u64;
        }
        self.0.write_all_at(b"\n", last)
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

/// Passes each line of `file`, with its newline, to `take`. A line of more than `most` bytes, which
/// nothing here writes, comes in pieces.
pub(super) fn each_line(file: impl Read, most: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while Read::take(&mut reader, most).read_until(b'\n', &mut line)? > 0 {
        take(&line);
        line.clear();
    }
    Ok(())
}
