//! A directory held open, and the system calls on names in it.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timestamps, Uid};
use rustix::io::Errno;

use crate::{FileType, Stat, if_there, layout, stat, stat_file};
use ctxfs_core::model::RelPath;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const PERMISSIONS: u32 = 0o7777;
const CREATING: OFlags = OFlags::CREATE.union(OFlags::EXCL);
/// Maximum length of a path that one system call accepts, in bytes, including the NUL at its end;
/// see limits.h.
const PATH_MAX: usize = libc::PATH_MAX as usize;
/// Resolution flags that refuse links anywhere in a path, and any path that leaves the directory.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);
/// Maximum number of directories that [`Dir::height`] visits before it gives up. Visiting them
/// takes about 100 ms.
const MEASURED: usize = 10_000;
/// Link count of a directory without subdirectories, on disks that count subdirectories as links.
/// On other disks, every directory has the count 1.
const LINKS_OF_LEAF: u32 = 2;

/// A directory held open.
///
/// Most methods make one system call, relative to the directory. A name must be exactly one path
/// component; otherwise the call fails with EINVAL. Symbolic links are never followed: opening a
/// link fails with ELOOP or ENOTDIR. No method reaches outside the directory, even if an attacker
/// changes its content during the call. Only regular files can be opened as files. For a fifo or a
/// device, opening fails with ELOOP, because it could block or have side effects.
///
/// A mount point counts as a directory, because only users with the right to mount can create it.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// True if opening a file waits while another process holds a lease on it. The kernel gives
    /// that process 45 seconds to release the lease; see `/proc/sys/fs/lease-break-time`. If false,
    /// opening such a file fails with EAGAIN.
    waits: bool,
}

/// An entry of a directory: name, type and inode number, as listed in the directory. The file
/// itself was not looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct DirEntry {
    pub name: OsString,
    pub kind: FileType,
    pub ino: u64,
}

impl Dir {
    /// Opens the directory at `path`. Follows links on the way, because the caller chose the path.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::open(path, DIRECTORY, Mode::empty())?, waits: true })
    }

    /// Returns the directory, changed so that opening a file never waits for a lease but fails with
    /// EAGAIN. This also applies to directories that are opened through it. The kernel still asks
    /// the holder of the lease to release it.
    #[must_use]
    pub fn never_waiting(self) -> Self {
        Self { waits: false, ..self }
    }

    /// Opens the directory at `path`. If it does not exist, creates it and its missing parents with
    /// the mode `mode`, and syncs the new names to the disk.
    pub fn ensure(path: &Path, mode: u32) -> io::Result<Self> {
        let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && Self::open(dir).is_err();
        let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        DirBuilder::new().recursive(true).mode(mode).create(path)?;
        for made in missing {
            let above = made.parent().filter(|above| !above.as_os_str().is_empty());
            // A directory that can be written but not read cannot be synced.
            if let Ok(above) = Self::open(above.unwrap_or(Path::new("."))) {
                above.sync()?;
            }
        }
        Self::open(path)
    }

    /// Duplicates the descriptor. The clone refers to the same directory, even after a rename.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, waits: self.waits })
    }

    /// Returns the descriptor, for system calls that this type does not provide.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Opens the subdirectory `name`. Fails with ENOTDIR if the name is a link.
    pub fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        let fd = self.open_beneath(checked_name(name)?, DIRECTORY, Mode::empty())?;
        Ok(Self { fd, waits: self.waits })
    }

    /// Opens the directory that is reached from this directory by following `names` one after
    /// another.
    pub fn open_dir_below(&self, names: &[OsString]) -> io::Result<Self> {
        let names: Vec<&OsStr> =
            names.iter().map(|name| checked_name(name)).collect::<io::Result<_>>()?;
        let path = names.join(OsStr::from_bytes(b"/"));
        let fd = self.open_beneath(&path, DIRECTORY, Mode::empty())?;
        Ok(Self { fd, waits: self.waits })
    }

    /// Opens the directory at `path`, at any depth below this one. Does not follow links on the
    /// way.
    pub fn open_dir_at(&self, path: &RelPath) -> io::Result<Self> {
        let fd = self.open_beneath(path.as_os_str(), DIRECTORY, Mode::empty())?;
        Ok(Self { fd, waits: self.waits })
    }

    /// Opens the file `name` in this directory. Never creates a file, even if `flags` contain
    /// `OFlags::CREATE`. With `OFlags::NOATIME`, reads do not change the access time, provided that
    /// the user owns the file.
    pub fn open_file(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let name = checked_name(name)?;
        without_atime(flags - CREATING, |flags| self.open_regular(name, flags, Mode::empty()))
    }

    /// Opens the file at `path`, at any depth below this directory, as [`Dir::open_file`] does.
    pub fn open_file_at(&self, path: &RelPath, flags: OFlags) -> io::Result<File> {
        without_atime(flags - CREATING, |flags| {
            self.open_regular(path.as_os_str(), flags, Mode::empty())
        })
    }

    /// Opens the file `name`, creating it if it is missing. With `OFlags::EXCL`, fails if the file
    /// exists. The umask of the process applies to `mode`.
    pub fn create_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::CREATE;
        self.open_regular(checked_name(name)?, flags, Mode::from_raw_mode(mode & PERMISSIONS))
    }

    /// Creates a file without a name, open for reading and writing. It disappears when it is
    /// closed.
    pub(super) fn nameless_file(&self) -> io::Result<File> {
        let name = layout::temporary();
        let flags = OFlags::RDWR | OFlags::EXCL;
        let file = self.create_file(name.as_ref(), flags, layout::FILE_MODE)?;
        self.unlink(name.as_ref()).map(|()| file)
    }

    /// Returns the attributes of the file `name`. Does not follow a link.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(Stat::from(rustix::fs::statx(&self.fd, checked_name(name)?, flags, stat::WANTED)?))
    }

    /// Returns the attributes of the file at `path`, at any depth below this directory, as
    /// [`Dir::stat`] does.
    pub fn stat_at(&self, path: &RelPath) -> io::Result<Stat> {
        stat_file(self.open_beneath(path.as_os_str(), OFlags::PATH, Mode::empty())?)
    }

    /// Returns the attributes of this directory.
    pub fn stat_self(&self) -> io::Result<Stat> {
        stat_file(&self.fd)
    }

    /// Creates a directory. The umask of the process applies to `mode`.
    pub fn mkdir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(
            &self.fd,
            checked_name(name)?,
            Mode::from_raw_mode(mode & PERMISSIONS),
        )?)
    }

    /// Creates a directory unless it exists. Returns true if it was created. The new name is on the
    /// disk only after a sync of this directory.
    pub fn ensure_dir(&self, name: &OsStr, mode: u32) -> io::Result<bool> {
        match self.mkdir(name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true),
        }
    }

    /// Creates a directory unless it exists, and syncs a new name to the disk.
    pub fn ensure_synced_dir(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        if self.ensure_dir(name, mode)? { self.sync() } else { Ok(()) }
    }

    /// Removes the name of a file. Fails with EISDIR for a directory.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, checked_name(name)?, AtFlags::empty())?)
    }

    /// Removes an empty directory. Fails with ENOTEMPTY if it is not empty.
    pub fn rmdir(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, checked_name(name)?, AtFlags::REMOVEDIR)?)
    }

    /// Renames a file, within this directory or into `to_dir`, with the flags of renameat2(2).
    /// Fails with EINVAL on a disk that does not support the flags.
    pub fn rename(
        &self,
        from: &OsStr,
        to_dir: &Self,
        to: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(
            &self.fd,
            checked_name(from)?,
            &to_dir.fd,
            checked_name(to)?,
            flags,
        )?)
    }

    /// Renames a file to a name that must be free. Fails with EEXIST if the name is taken. On a
    /// disk without NOREPLACE, a file that gets this name between the check and the rename is
    /// replaced.
    pub(super) fn rename_to_free(&self, from: &OsStr, to_dir: &Self, to: &OsStr) -> io::Result<()> {
        match self.rename(from, to_dir, to, RenameFlags::NOREPLACE) {
            // The disk does not support NOREPLACE.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                if to_dir.stat(to).is_ok() {
                    return Err(Errno::EXIST.into());
                }
                self.rename(from, to_dir, to, RenameFlags::empty())
            }
            renamed => renamed,
        }
    }

    /// Returns all entries except `.` and `..`, in the order of the disk.
    pub fn entries(&self) -> io::Result<Vec<DirEntry>> {
        let mut found = Vec::new();
        self.each_entry(|name, kind, ino| {
            found.push(DirEntry { name: name.to_owned(), kind, ino });
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `take` with the name, type and inode number of each entry except `.` and `..`, in the
    /// order of the disk. Unlike [`Dir::entries`], this needs little memory for a large directory.
    pub fn each_entry(
        &self,
        mut take: impl FnMut(&OsStr, FileType, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if let Some(kind) = self.kind(name, entry.file_type())? {
                take(name, kind, entry.ino())?;
            }
        }
        Ok(())
    }

    /// Changes the permissions of a file or directory. Works even if the file can be neither read
    /// nor written. Fails with ELOOP for any other type.
    pub fn chmod(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let file = self.open_beneath(checked_name(name)?, OFlags::PATH, Mode::empty())?;
        if stat_file(&file)?.kind() == FileType::Other {
            return Err(Errno::LOOP.into());
        }
        // fchmod(2) does not work on a descriptor opened with O_PATH.
        Ok(rustix::fs::chmod(proc_path(&file), Mode::from_raw_mode(mode & PERMISSIONS))?)
    }

    /// Changes the owner and group of a file. An argument that is `None` leaves that value
    /// unchanged.
    pub fn chown(&self, name: &OsStr, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        Ok(rustix::fs::chownat(&self.fd, checked_name(name)?, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Changes the times of a file or directory.
    pub fn utimens(&self, name: &OsStr, times: &Timestamps) -> io::Result<()> {
        Ok(rustix::fs::utimensat(&self.fd, checked_name(name)?, times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Truncates or extends a file. The file must be writable.
    pub fn set_len(&self, name: &OsStr, length: u64) -> io::Result<()> {
        self.open_file(name, OFlags::WRONLY)?.set_len(length)
    }

    /// Syncs the names in this directory to the disk. Does not sync the files.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Returns the names on the path from this directory to an open file, according to the kernel.
    /// Returns `None` if the file is not below this directory or has no name. The names may already
    /// be outdated when this returns.
    pub fn names_of(&self, file: &File) -> io::Result<Option<Vec<OsString>>> {
        let here = rustix::fs::readlink(proc_path(self), Vec::new())?.into_bytes();
        let there = rustix::fs::readlink(proc_path(file), Vec::new())?.into_bytes();
        let below = there.strip_prefix(&*here).and_then(|below| below.strip_prefix(b"/"));
        let name = |name: &[u8]| OsStr::from_bytes(name).to_owned();
        Ok(below.map(|below| below.split(|byte| *byte == b'/').map(name).collect()))
    }

    /// Returns the total, free and available blocks and inodes of the disk that contains the
    /// directory.
    pub fn space(&self) -> io::Result<rustix::fs::StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.fd)?)
    }

    fn kind(&self, name: &OsStr, listed: rustix::fs::FileType) -> io::Result<Option<FileType>> {
        if listed != rustix::fs::FileType::Unknown {
            return Ok(Some(FileType::from(listed)));
        }
        Ok(if_there(self.stat(name))?.map(|stat| stat.kind()))
    }

    fn open_regular(&self, path: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        let file = match self.open_beneath(path, flags | OFlags::NONBLOCK, mode) {
            // Another process has a lease on the path. If it is a regular file, wait for the lease.
            Err(Errno::AGAIN) if self.waits && !flags.contains(OFlags::NONBLOCK) => {
                let held = self.open_beneath(path, OFlags::PATH, Mode::empty())?;
                check_regular(&held)?;
                rustix::fs::open(proc_path(&held), (flags - CREATING) | OFlags::CLOEXEC, mode)?
            }
            opened => opened?,
        };
        check_regular(&file)?;
        Ok(File::from(file))
    }

    /// Opens a path of one or more components in one system call. Opens the components one by one
    /// in two cases: the path is longer than the kernel accepts, or openat2 is not available
    /// because of an old kernel or a sandbox.
    fn open_beneath(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let all = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if path.len() >= PATH_MAX {
            return self.open_each(path, flags, mode);
        }
        match rustix::fs::openat2(&self.fd, path, all, mode, BENEATH) {
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => self.open_each(path, flags, mode),
            opened => opened,
        }
    }

    fn open_each(&self, path: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let next = |at: &OwnedFd, name: &[u8], flags: OFlags, mode| {
            let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(at, OsStr::from_bytes(name), flags, mode)
        };
        let mut at = None;
        let mut rest = path.as_bytes();
        while let Some(slash) = memchr::memchr(b'/', rest) {
            let here = at.as_ref().unwrap_or(&self.fd);
            at = Some(next(here, &rest[..slash], DIRECTORY, Mode::empty())?);
            rest = &rest[slash + 1..];
        }
        next(at.as_ref().unwrap_or(&self.fd), rest, flags, mode)
    }
}

#[cfg(test)]
impl Dir {
    pub(crate) fn nest(&self, name: &str, levels: usize) -> Self {
        (0..levels).fold(self.try_clone().unwrap(), |dir, _| {
            dir.mkdir(name.as_ref(), 0o700).unwrap();
            dir.open_dir(name.as_ref()).unwrap()
        })
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn parent_dir(conversation: &Dir, path: &RelPath) -> io::Result<Dir> {
    match path.parent() {
        Some(parent) => conversation.open_dir_at(&parent),
        None => conversation.try_clone(),
    }
}

/// Returns a path under /proc that leads to an open file, even after the file is renamed or
/// removed.
pub(super) fn proc_path(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

fn check_regular(file: &OwnedFd) -> io::Result<()> {
    match stat_file(file)?.kind() {
        FileType::File => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Other => Err(Errno::LOOP.into()),
    }
}

/// Calls `open` with `flags`. If `NOATIME` is refused because another user owns the file, calls
/// `open` again without it.
fn without_atime(flags: OFlags, open: impl Fn(OFlags) -> io::Result<File>) -> io::Result<File> {
    match open(flags) {
        Err(error)
            if flags.contains(OFlags::NOATIME)
                && Errno::from_io_error(&error) == Some(Errno::PERM) =>
        {
            open(flags - OFlags::NOATIME)
        }
        opened => opened,
    }
}

/// Returns `name` if it is a single component, and fails with EINVAL otherwise. The length is not
/// checked, because the disk refuses a name that is too long.
fn checked_name(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    if matches!(bytes, b"" | b"." | b"..") || memchr::memchr2(b'/', 0, bytes).is_some() {
        return Err(Errno::INVAL.into());
    }
    Ok(name)
}

impl Dir {
    /// Removes a file, or a directory with everything in it, at any depth.
    ///
    /// Does not recurse, and has at most three descriptors open. A subdirectory that is not empty
    /// is moved to the top before it is emptied. If the removal is interrupted, everything that is
    /// left is still below `name`.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        match self.unlink(name) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ISDIR) => {}
            removed => return removed,
        }
        let mut emptying = Emptying::of(self.open_dir(name)?);
        emptying.empty(None)?;
        while let Some(name) = emptying.left.pop() {
            emptying.empty(Some(&name))?;
            emptying.top.rmdir(&name)?;
        }
        self.rmdir(name)
    }

    /// Returns the height of the directory tree in `name`: 0 if it has no subdirectories, and
    /// `most` + 1 if there are more than `most` levels. Returns `None` if there are more than
    /// 10,000 directories. A directory that cannot be read counts as empty.
    pub fn height(&self, name: &OsStr, most: usize) -> io::Result<Option<usize>> {
        let top = self.open_dir(name)?;
        let (mut height, mut seen) = (0, 0);
        let mut left = vec![(top.subdirectories()?, Vec::new())];
        while let Some((names, path)) = left.last_mut() {
            let Some(name) = names.pop() else {
                left.pop();
                continue;
            };
            let mut path = path.clone();
            path.push(name);
            height = height.max(path.len());
            seen += 1;
            if height > most {
                return Ok(Some(height));
            }
            if seen > MEASURED {
                return Ok(None);
            }
            let inner = top.open_dir_below(&path).and_then(|dir| dir.subdirectories());
            match inner {
                Ok(inner) => left.push((inner, path)),
                Err(error) if is_unreadable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(height))
    }

    fn subdirectories(&self) -> io::Result<Vec<OsString>> {
        if self.stat_self()?.nlink == LINKS_OF_LEAF {
            return Ok(Vec::new());
        }
        let entries = self.entries()?.into_iter();
        let directories = entries.filter(|entry| entry.kind == FileType::Directory);
        Ok(directories.map(|entry| entry.name).collect())
    }
}

struct Emptying {
    top: Dir,
    left: Vec<OsString>,
}

impl Emptying {
    fn of(top: Dir) -> Self {
        Self { top, left: Vec::new() }
    }

    /// Empties the directory `name` in the top directory, or the top itself if `name` is `None`.
    /// Moves subdirectories that are not empty to the top.
    fn empty(&mut self, name: Option<&OsStr>) -> io::Result<()> {
        let inner = name.map(|name| self.top.open_dir(name)).transpose()?;
        for entry in inner.as_ref().unwrap_or(&self.top).entries()? {
            let dir = inner.as_ref().unwrap_or(&self.top);
            if entry.kind != FileType::Directory {
                dir.unlink(&entry.name)?;
                continue;
            }
            match dir.rmdir(&entry.name) {
                Err(error) if is_full(&error) => {}
                removed => {
                    removed?;
                    continue;
                }
            }
            let Some(inner) = &inner else {
                self.left.push(entry.name);
                continue;
            };
            let name = OsString::from(layout::unique());
            inner.rename(&entry.name, &self.top, &name, RenameFlags::empty())?;
            self.left.push(name);
        }
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTEMPTY | Errno::EXIST))
}

fn is_unreadable(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS)
    )
}

#[cfg(test)]
mod tests;
