//! The mirror: each call is made on the file behind it, unless a fault says otherwise.
//!
//! An inode number stands for a descriptor opened with `O_PATH`, and the file is reached through
//! its name under `/proc/self/fd`, so renames and removals need no care.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
    Uid, XattrFlags,
};

use super::fault::{Call, Faults, Verdict};

/// The kernel asks each time.
const NEVER: Duration = Duration::ZERO;

/// The times of its files that a disk keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// To the nanosecond.
    Exact,
    /// In whole seconds, as the coarsest disks do: they do not show that a file has changed once
    /// more.
    Seconds,
}

pub(super) struct Mirror {
    faults: Arc<Faults>,
    /// Never forgotten, so that the disk uses no number twice.
    known: Mutex<HashMap<u64, OwnedFd>>,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    next: AtomicU64,
    times: Times,
}

struct Open {
    file: File,
    path: PathBuf,
}

impl Mirror {
    pub(super) fn new(behind: &Path, faults: &Arc<Faults>, times: Times) -> Self {
        let root = rustix::fs::open(behind, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let known = Mutex::new(HashMap::from([(INodeNo::ROOT.0, root)]));
        let (faults, open, next) = (Arc::clone(faults), Mutex::default(), AtomicU64::new(1));
        Self { faults, known, open, next, times }
    }

    /// Returns a path to the file with this number, whatever its present name.
    fn at(&self, ino: INodeNo) -> PathBuf {
        let fd = self.known.lock()[&ino.0].as_raw_fd();
        PathBuf::from(format!("/proc/self/fd/{fd}"))
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> PathBuf {
        self.at(parent).join(name)
    }

    /// Fails `call` on the file at `path` if a fault says so.
    fn allow(&self, call: Call, path: &Path) -> io::Result<()> {
        self.bytes(call, path, 0).map(|_| ())
    }

    fn bytes(&self, call: Call, path: &Path, count: usize) -> io::Result<usize> {
        match self.faults.judge(call, path, count) {
            Verdict::Pass(count) => Ok(count),
            Verdict::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
            Verdict::Hang => Err(io::Error::other("only a sync hangs")),
        }
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::open(self.child(parent, name), flags, Mode::empty())?;
        let link = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let attr = self.times.attr(&link.metadata()?);
        self.known.lock().entry(attr.ino.0).or_insert(found);
        Ok(attr)
    }

    fn attr(&self, ino: INodeNo) -> io::Result<FileAttr> {
        Ok(FileAttr { ino, ..self.times.attr(&self.at(ino).metadata()?) })
    }

    fn opened(&self, file: File) -> FileHandle {
        let fh = self.next.fetch_add(1, Relaxed);
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        self.open.lock().insert(fh, Arc::new(Open { file, path }));
        FileHandle(fh)
    }

    fn handle(&self, fh: FileHandle) -> Arc<Open> {
        Arc::clone(&self.open.lock()[&fh.0])
    }

    fn open_file(&self, ino: INodeNo, flags: OpenFlags) -> io::Result<FileHandle> {
        let path = self.at(ino);
        self.allow(Call::Open, &std::fs::read_link(&path)?)?;
        let unwanted = OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = OFlags::from_bits_retain(flags.0.cast_unsigned()) - unwanted;
        Ok(self.opened(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?.into()))
    }

    fn create_file(
        &self,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> io::Result<(FileAttr, FileHandle)> {
        let path = self.child(parent, name);
        self.allow(Call::Create, &path)?;
        let flags = OFlags::from_bits_retain(flags.cast_unsigned()) - OFlags::APPEND;
        let flags = flags | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(mode & 0o7777))?;
        Ok((self.find(parent, name)?, self.opened(file.into())))
    }

    fn read_some(&self, fh: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let open = self.handle(fh);
        let mut bytes = vec![0; size as usize];
        let count = open.file.read_at(&mut bytes, offset)?;
        bytes.truncate(self.bytes(Call::Read, &open.path, count)?);
        Ok(bytes)
    }

    fn write_some(&self, fh: FileHandle, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let open = self.handle(fh);
        let count = self.bytes(Call::Write, &open.path, bytes.len())?;
        open.file.write_all_at(&bytes[..count], offset)?;
        Ok(count)
    }

    fn rename_entry(&self, from: &Path, to: &Path, flags: RenameFlags) -> io::Result<()> {
        self.allow(Call::Rename, to)?;
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        Ok(rustix::fs::renameat_with(CWD, from, CWD, to, flags)?)
    }

    fn entries(&self, ino: INodeNo) -> io::Result<Vec<(u64, FileType, std::ffi::OsString)>> {
        let path = self.at(ino);
        self.allow(Call::List, &std::fs::read_link(&path)?)?;
        let mut found = Vec::new();
        for entry in path.read_dir()? {
            let entry = entry?;
            let kind = FileType::from_std(entry.file_type()?).unwrap_or(FileType::RegularFile);
            found.push((std::os::unix::fs::DirEntryExt::ino(&entry), kind, entry.file_name()));
        }
        found.sort_by(|a, b| a.2.cmp(&b.2));
        Ok(found)
    }
}

/// Sends `result` as the reply.
macro_rules! answer {
    ($reply:ident, $result:expr, $done:expr) => {
        match $result {
            Ok(value) => $done(value),
            Err(error) => $reply.error(Errno::from(io::Error::from(error))),
        }
    };
}

impl Filesystem for Mirror {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.find(parent, name), |attr| reply.entry(&NEVER, &attr, Generation(0)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.attr(ino), |attr| reply.attr(&NEVER, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let path = self.at(ino);
        let change = || -> io::Result<FileAttr> {
            if let Some(mode) = mode {
                rustix::fs::chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
            }
            let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
            if uid.is_some() || gid.is_some() {
                rustix::fs::chown(&path, uid, gid)?;
            }
            if let Some(size) = size {
                File::options().write(true).open(&path)?.set_len(size)?;
            }
            let times = Timestamps { last_access: time(atime), last_modification: time(mtime) };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())?;
            self.attr(ino)
        };
        answer!(reply, change(), |attr| reply.attr(&NEVER, &attr));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let make = || -> io::Result<FileAttr> {
            rustix::fs::mkdir(self.child(parent, name), Mode::from_raw_mode(mode & 0o7777))?;
            self.find(parent, name)
        };
        answer!(reply, make(), |attr| reply.entry(&NEVER, &attr, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, std::fs::remove_file(self.child(parent, name)), |()| reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, std::fs::remove_dir(self.child(parent, name)), |()| reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = (self.child(parent, name), self.child(new_parent, new_name));
        answer!(reply, self.rename_entry(&from, &to, flags), |()| reply.ok());
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        answer!(reply, self.open_file(ino, flags), |fh| reply.opened(fh, direct));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        answer!(reply, self.create_file(parent, name, mode, flags), |(attr, fh)| {
            reply.created(&NEVER, &attr, Generation(0), fh, direct);
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.read_some(fh, offset, size), |bytes: Vec<u8>| reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer!(reply, self.write_some(fh, offset, data), |count| reply.written(count as u32));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.lock().remove(&fh.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        let open = self.handle(fh);
        match self.faults.judge(Call::Sync, &open.path, 0) {
            Verdict::Hang => self.faults.hold(reply),
            Verdict::Fail(errno) => reply.error(Errno::from_i32(errno)),
            Verdict::Pass(_) => answer!(reply, open.file.sync_data(), |()| reply.ok()),
        }
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let path = std::fs::read_link(self.at(ino));
        let synced = path.and_then(|path| self.allow(Call::SyncDir, &path.join(".")));
        answer!(reply, synced, |()| reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        answer!(reply, self.entries(ino), |entries: Vec<_>| {
            for (at, (ino, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
                if reply.add(INodeNo(ino), at as u64 + 1, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        answer!(reply, rustix::fs::statvfs(self.at(ino)), |found: rustix::fs::StatVfs| {
            let (size, unit) = (found.f_bsize as u32, found.f_frsize as u32);
            let (blocks, free, left) = (found.f_blocks, found.f_bfree, found.f_bavail);
            reply.statfs(blocks, free, left, found.f_files, found.f_ffree, size, 255, unit);
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        answer!(reply, rustix::fs::setxattr(self.at(ino), name, value, flags), |()| reply.ok());
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut value = vec![0; size as usize];
        answer!(reply, rustix::fs::getxattr(self.at(ino), name, &mut value[..]), |count| {
            xattr(reply, size, &value, count);
        });
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let mut names = vec![0; size as usize];
        answer!(reply, rustix::fs::listxattr(self.at(ino), &mut names[..]), |count| {
            xattr(reply, size, &names, count);
        });
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, rustix::fs::removexattr(self.at(ino), name), |()| reply.ok());
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let open = self.handle(fh);
        answer!(reply, rustix::fs::fallocate(&open.file, flags, offset, length), |()| reply.ok());
    }
}

/// Replies as the kernel asks: the length first, then the bytes.
fn xattr(reply: ReplyXattr, size: u32, bytes: &[u8], count: usize) {
    if size == 0 { reply.size(count as u32) } else { reply.data(&bytes[..count]) }
}

fn time(to: Option<TimeOrNow>) -> Timespec {
    let at = |nanos| Timespec { tv_sec: 0, tv_nsec: nanos };
    match to {
        None => at(UTIME_OMIT),
        Some(TimeOrNow::Now) => at(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let seconds = since.as_secs().cast_signed();
            Timespec { tv_sec: seconds, tv_nsec: since.subsec_nanos().into() }
        }
    }
}

impl Times {
    /// Returns the attributes as the disk tells them.
    fn attr(self, found: &std::fs::Metadata) -> FileAttr {
        let moment = |seconds: i64, nanos: i64| {
            let nanos = if self == Times::Seconds { 0 } else { nanos };
            SystemTime::UNIX_EPOCH + Duration::new(seconds as u64, nanos as u32)
        };
        FileAttr {
            ino: INodeNo(found.ino()),
            size: found.size(),
            blocks: found.blocks(),
            atime: moment(found.atime(), found.atime_nsec()),
            mtime: moment(found.mtime(), found.mtime_nsec()),
            ctime: moment(found.ctime(), found.ctime_nsec()),
            crtime: SystemTime::UNIX_EPOCH,
            kind: FileType::from_std(found.file_type()).unwrap_or(FileType::RegularFile),
            perm: (found.mode() & 0o7777) as u16,
            nlink: found.nlink() as u32,
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}
