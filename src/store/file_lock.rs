//! File locks between processes, and files of lines to which processes append under such a lock.
//!
//! The locks are `flock` locks on files that are open for writing, never on directories. NFS
//! emulates `flock` by a lock on the file's bytes, and refuses an exclusive lock if the descriptor
//! is not writable. No other module of ctxfs calls `flock`.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use crate::{Dir, if_there, layout, read_full_at, stat_file};

const FLAGS: OFlags = OFlags::RDWR.union(OFlags::APPEND);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockKind {
    Exclusive,
    Shared,
}

/// A locked file. Dropping this value releases the lock.
///
/// Closing the file is not enough to release the lock. If another thread has just started a
/// process, that process has a copy of each descriptor until it calls `exec`.
#[derive(Debug)]
pub(super) struct LockedFile(File);

impl LockedFile {
    pub(super) fn lock(file: File) -> io::Result<Self> {
        lock(&file, LockKind::Exclusive)?;
        Ok(Self(file))
    }

    /// Takes the lock as [`Self::lock`] does, or returns `None` if another process holds it.
    pub(super) fn try_lock(file: File) -> io::Result<Option<Self>> {
        Ok(try_lock(&file)?.then_some(Self(file)))
    }
}

impl std::ops::Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        unlock(&self.0);
    }
}

/// Takes an exclusive lock on `file`, or returns false if another process holds it. Fails with
/// EBADF if `file` is not open for writing.
pub fn try_lock(file: &File) -> io::Result<bool> {
    check_writable(file)?;
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Releases the lock on `file`. Ignores a failure, as closing the file also releases the lock.
pub fn unlock(file: &File) {
    rustix::fs::flock(file, FlockOperation::Unlock).ok();
}

/// Waits for the lock on the file `name` in `dir`, creating the file if it is missing. The file is
/// used only for locking.
pub(super) fn lock_by_name(dir: &Dir, name: &str, kind: LockKind) -> io::Result<LockedFile> {
    open_locked(dir, name, OFlags::RDWR, &|file| lock(file, kind))
}

/// Opens the file `name` in `dir`, creating it if it is missing, and calls `lock` to lock it. Tries
/// again if another process removed or replaced the file before it was locked.
fn open_locked(
    dir: &Dir,
    name: &str,
    flags: OFlags,
    lock: &dyn Fn(&File) -> io::Result<()>,
) -> io::Result<LockedFile> {
    loop {
        let file = dir.create_file(name.as_ref(), flags, layout::FILE_MODE)?;
        lock(&file)?;
        let locked = LockedFile(file);
        if has_name(dir, name, &locked)? {
            return Ok(locked);
        }
    }
}

fn has_name(dir: &Dir, name: &str, file: &File) -> io::Result<bool> {
    let Some(stat) = if_there(dir.stat(std::ffi::OsStr::new(name)))? else { return Ok(false) };
    Ok(stat.same_file(&stat_file(file)?))
}

/// Waits for a lock on `file`, which must be open for writing. The lock lasts until [`unlock`] is
/// called or until `file` and all duplicates of its descriptor are closed.
pub(super) fn lock(file: &File, kind: LockKind) -> io::Result<()> {
    check_writable(file)?;
    let how = match kind {
        LockKind::Exclusive => FlockOperation::LockExclusive,
        LockKind::Shared => FlockOperation::LockShared,
    };
    Ok(rustix::io::retry_on_intr(|| rustix::fs::flock(file, how))?)
}

/// Fails with EBADF if `file` is not writable. Only NFS refuses the lock in this case; with this
/// check, all disks behave alike.
fn check_writable(file: &File) -> io::Result<()> {
    let mode = rustix::fs::fcntl_getfl(file)? & OFlags::ACCMODE;
    if mode == OFlags::RDONLY { Err(Errno::BADF.into()) } else { Ok(()) }
}

const BLANKS: [u8; 4096] = [b' '; 4096];

/// A file of lines with its exclusive lock. No other process appends to the file until this is
/// dropped.
#[derive(Debug)]
pub(super) struct LockedLines(LockedFile);

impl LockedLines {
    /// Waits for the lock on the file `name` in `dir`. Creates the file if it is missing.
    pub(super) fn lock(dir: &Dir, name: &str) -> io::Result<Self> {
        open_locked(dir, name, FLAGS, &|file| lock(file, LockKind::Exclusive)).map(Self)
    }

    /// Takes the lock as [`Self::lock`] does, or returns `None` if another process holds it.
    pub(super) fn try_lock(dir: &Dir, name: &str) -> io::Result<Option<Self>> {
        let taken = || io::Error::from(io::ErrorKind::WouldBlock);
        let lock = |file: &File| try_lock(file)?.then_some(()).ok_or_else(taken);
        match open_locked(dir, name, FLAGS, &lock) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            locked => Ok(Some(Self(locked?))),
        }
    }

    /// Appends complete lines in one write, either all or none. If a crash has truncated the last
    /// line in the file, ends that line first. Returns the offset of the end of the file before the
    /// write.
    pub(super) fn append(&self, lines: &[u8]) -> io::Result<u64> {
        let start = stat_file(self.file())?.size;
        let written = if self.ends_with_newline()? {
            self.file().write_all(lines)
        } else {
            self.file().write_all(&[b"\n", lines].concat())
        };
        match written {
            Ok(()) => Ok(start),
            Err(error) => {
                // If this fails, the part that was written becomes a separate line, as after a
                // crash.
                let _blanked = self.take_back(start);
                Err(error)
            }
        }
    }

    /// Overwrites everything from `start` to the end of the file with one blank line. The caller
    /// must have appended those bytes. Overwriting needs no space on the disk. The file does not
    /// get shorter, so readers can continue at their offsets.
    pub(super) fn take_back(&self, start: u64) -> io::Result<()> {
        let end = stat_file(self.file())?.size;
        // With O_APPEND, every write goes to the end of the file and its offset is ignored.
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

    pub(super) fn file(&self) -> &File {
        &self.0
    }

    fn ends_with_newline(&self) -> io::Result<bool> {
        let size = stat_file(self.file())?.size;
        let mut last = [b'\n'];
        read_full_at(&self.0, size.saturating_sub(1), &mut last)?;
        Ok(last == [b'\n'])
    }
}

/// Calls `take` with each line of `file`, including its newline. A line of more than `most` bytes
/// is passed in pieces; ctxfs does not write such lines.
pub(super) fn each_line(file: impl Read, most: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while Read::take(&mut reader, most).read_until(b'\n', &mut line)? > 0 {
        take(&line);
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const NAME: &str = ".ctxfs-lock";

    fn open() -> (tempfile::TempDir, Dir) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        (temporary, dir)
    }

    fn file(dir: &Dir, flags: OFlags) -> File {
        dir.create_file(NAME.as_ref(), flags, 0o600).unwrap()
    }

    #[test]
    fn what_cannot_be_written_cannot_be_locked() {
        let (temporary, dir) = open();
        drop(file(&dir, OFlags::RDWR));
        let read_only = file(&dir, OFlags::RDONLY);
        let directory = File::open(temporary.path()).unwrap();
        for file in [&read_only, &directory] {
            assert_eq!(
                lock(file, LockKind::Exclusive).unwrap_err().raw_os_error(),
                Some(libc::EBADF)
            );
            assert_eq!(try_lock(file).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
        assert!(try_lock(&file(&dir, OFlags::WRONLY)).unwrap());
    }

    #[test]
    fn one_has_an_exclusive_lock_and_any_number_have_a_shared_one() {
        let (_temporary, dir) = open();
        let held = lock_by_name(&dir, NAME, LockKind::Shared).unwrap();
        let other = lock_by_name(&dir, NAME, LockKind::Shared).unwrap();
        let third = file(&dir, OFlags::RDWR);
        assert!(!try_lock(&third).unwrap());
        drop(held);
        unlock(&other);
        assert!(try_lock(&third).unwrap());
        assert!(!try_lock(&other).unwrap());
    }

    #[test]
    fn a_lock_ends_though_a_child_has_its_descriptor() {
        let (_temporary, dir) = open();
        let held = lock_by_name(&dir, NAME, LockKind::Exclusive).unwrap();
        let of_child = held.try_clone().unwrap();
        let other = file(&dir, OFlags::RDWR);
        assert!(!try_lock(&other).unwrap());
        drop(held);
        assert!(try_lock(&other).unwrap());
        drop(of_child);
    }

    #[test]
    fn the_lock_is_that_of_the_file_that_has_the_name() {
        let (_temporary, dir) = open();
        let held = lock_by_name(&dir, NAME, LockKind::Exclusive).unwrap();
        let waiting = file(&dir, OFlags::RDWR);
        let (send, locked) = mpsc::channel();
        thread::scope(|scope| {
            let dir = &dir;
            scope.spawn(move || send.send(lock_by_name(dir, NAME, LockKind::Exclusive)).unwrap());
            // The waiting thread has the old file open by now, or finds the new one and may lock
            // it.
            dir.unlink(NAME.as_ref()).unwrap();
            drop(file(dir, OFlags::RDWR));
            drop(held);
            let locked = locked.recv().unwrap().unwrap();
            assert!(has_name(dir, NAME, &locked).unwrap());
            assert!(!has_name(dir, NAME, &waiting).unwrap());
            assert!(!try_lock(&file(dir, OFlags::RDWR)).unwrap());
        });
    }
}
