//! One FUSE operation, one call, one reply.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::BsdFileFlags;
use fuser::CopyFileRangeFlags;
use fuser::Errno;
use fuser::FileHandle;
use fuser::Filesystem;
use fuser::FopenFlags;
use fuser::Generation;
use fuser::INodeNo;
use fuser::IoctlFlags;
use fuser::KernelConfig;
use fuser::LockOwner;
use fuser::OpenFlags;
use fuser::PollEvents;
use fuser::PollFlags;
use fuser::PollNotifier;
use fuser::RenameFlags;
use fuser::ReplyAttr;
use fuser::ReplyCreate;
use fuser::ReplyData;
use fuser::ReplyDirectory;
use fuser::ReplyEmpty;
use fuser::ReplyEntry;
use fuser::ReplyIoctl;
use fuser::ReplyLseek;
use fuser::ReplyOpen;
use fuser::ReplyPoll;
use fuser::ReplyStatfs;
use fuser::ReplyWrite;
use fuser::ReplyXattr;
use fuser::Request;
use fuser::TimeOrNow;
use fuser::WriteFlags;

use crate::fs::ContextFs;
use crate::fs::Entry;
use crate::fs::Fh;
use crate::fs::FilePosition;
use crate::fs::FsError;
use crate::fs::OpenMode;
use crate::fs::Result;
use crate::fs::SetAttr;
use crate::fuse::SessionOptions;
use crate::fuse::answer::answer_create;
use crate::fuse::answer::answer_open;
use crate::fuse::answer::attr;
use crate::fuse::answer::bytes;
use crate::fuse::convert;
use crate::fuse::convert::caller;
use crate::fuse::convert::ino;
use crate::fuse::crew::Crew;
use crate::fuse::names::Names;
use crate::fuse::negotiation::MAX_WRITE;
use crate::fuse::negotiation::negotiate;
use crate::fuse::passthrough::Passthrough;
use crate::fuse::watch::refuse;
use crate::fuse::watch::watch;

/// Translates between the kernel and [`ContextFs`].
pub(super) struct Adaptor {
    pub(super) fs: ContextFs,
    pub(super) passthrough: Arc<Passthrough>,
    pub(super) names: Arc<Names>,
    pub(super) crew: Crew,
    pub(super) options: SessionOptions,
}

thread_local! {
    /// What a worker reads into: no larger than the largest read, and never given back.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Hands on `size` bytes of the worker's buffer.
fn with_buffer<T>(size: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        run(&mut buffer[..size])
    })
}

impl Adaptor {
    fn run(&self, operation: &'static str, run: impl FnOnce()) {
        self.crew.handle(|| watch(operation, self.fs.counters(), run));
    }

    fn empty(&self, operation: &'static str, reply: ReplyEmpty, run: impl FnOnce() -> Result<()>) {
        self.run(operation, || match run() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(refuse(operation, &error)),
        });
    }

    fn entry(
        &self,
        operation: &'static str,
        reply: ReplyEntry,
        run: impl FnOnce() -> Result<Entry>,
    ) {
        self.run(operation, || match run() {
            Ok(entry) => {
                let attr = convert::attr(&entry.attr);
                reply.entry_with_ttls(&entry.attr_ttl, &entry.entry_ttl, &attr, Generation(0));
            }
            Err(error) => reply.error(refuse(operation, &error)),
        });
    }
}

impl Filesystem for Adaptor {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config, &self.options, &self.passthrough);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = || {
            let entry = self.fs.lookup(ino(parent), name)?;
            if entry.entry_ttl.is_zero() {
                self.names.note(parent, name);
            }
            Ok(entry)
        };
        self.entry("lookup", reply, found);
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.run("forget", || self.fs.forget(ino(node), count));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.run("getattr", || self.fs.getattr(ino(node), |got| attr("getattr", reply, got)));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (atime, mtime) = (atime.map(convert::time), mtime.map(convert::time));
        let change = SetAttr { mode, uid, gid, size, atime, mtime };
        let fh = fh.map(|fh| Fh(fh.0));
        self.run("setattr", || {
            attr("setattr", reply, self.fs.setattr(ino(node), &change, fh));
        });
    }

    fn readlink(&self, _: &Request, _: INodeNo, reply: ReplyData) {
        reply.error(Errno::EINVAL);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        self.entry("mknod", reply, || self.fs.mknod(ino(parent), name, mode, caller(request)));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.entry("mkdir", reply, || self.fs.mkdir(ino(parent), name, mode, caller(request)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty("unlink", reply, || self.fs.unlink(ino(parent), name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty("rmdir", reply, || self.fs.rmdir(ino(parent), name));
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        self.entry("symlink", reply, || Err(FsError::NoSpecialFiles));
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
        self.empty("rename", reply, || {
            let mode = convert::rename_mode(flags).ok_or(FsError::Invalid("rename flags"))?;
            self.fs.rename(ino(parent), name, ino(new_parent), new_name, mode)
        });
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        self.entry("link", reply, || Err(FsError::NoSpecialFiles));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let passthrough = Arc::clone(&self.passthrough);
        self.run("open", || {
            self.fs.open(ino(node), OpenMode { flags: flags.0 }, move |opened| match opened {
                Ok(opened) => answer_open(&passthrough, node, &opened, reply),
                Err(error) => reply.error(refuse("open", &error)),
            });
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let open = OpenMode { flags };
        self.run("create", || {
            match self.fs.create(ino(parent), name, mode, open, caller(request)) {
                Ok((entry, opened)) => answer_create(&self.passthrough, &entry, &opened, reply),
                Err(error) => reply.error(refuse("create", &error)),
            }
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
        self.run("read", || {
            with_buffer(size as usize, |buffer| {
                let mut reply = Some(reply);
                let read = self.fs.read(Fh(fh.0), offset, buffer, |bytes| {
                    if let Some(reply) = reply.take() {
                        reply.data(bytes);
                    }
                });
                if let (Err(error), Some(reply)) = (read, reply) {
                    reply.error(refuse("read", &error));
                }
            });
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mode = OpenMode { flags: flags.0 };
        let owner = owner.map(|owner| owner.0);
        self.run("write", || match self.fs.write(Fh(fh.0), offset, data, mode, owner) {
            Ok(count) => reply.written(count),
            Err(error) => reply.error(refuse("write", &error)),
        });
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let owner = Some(owner.0);
        self.empty("flush", reply, || self.fs.flush(Fh(fh.0), caller(request), owner));
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
        self.empty("release", reply, || {
            self.passthrough.release(Fh(fh.0));
            self.fs.release(Fh(fh.0))
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, data: bool, reply: ReplyEmpty) {
        self.empty("fsync", reply, || self.fs.fsync(Fh(fh.0), data));
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.run("opendir", || {
            self.fs.opendir(ino(node), |opened| match opened {
                Ok(fh) => reply.opened(FileHandle(fh.0), FopenFlags::empty()),
                Err(error) => reply.error(refuse("opendir", &error)),
            });
        });
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.run("readdir", || {
            let read = self.fs.readdir(ino(node), Fh(fh.0), offset, |entry| {
                reply.add(INodeNo(entry.ino), entry.next, convert::kind(entry.kind), entry.name)
            });
            match read {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(refuse("readdir", &error)),
            }
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.empty("releasedir", reply, || self.fs.releasedir(Fh(fh.0)));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty("fsyncdir", reply, || self.fs.fsyncdir(ino(node)));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.run("statfs", || match self.fs.statfs() {
            Ok(space) => reply.statfs(
                space.f_blocks,
                space.f_bfree,
                space.f_bavail,
                space.f_files,
                space.f_ffree,
                u32::try_from(space.f_bsize).unwrap_or(4096),
                255,
                u32::try_from(space.f_frsize).unwrap_or(4096),
            ),
            Err(error) => reply.error(refuse("statfs", &error)),
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.empty("setxattr", reply, || self.fs.setxattr(ino(node), name, value, flags));
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.run("getxattr", || {
            bytes("getxattr", reply, size, self.fs.getxattr(ino(node), name));
        });
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.run("listxattr", || bytes("listxattr", reply, size, self.fs.listxattr(ino(node))));
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty("removexattr", reply, || self.fs.removexattr(ino(node), name));
    }

    /// No file here has any: programs ask, for instance, whether it is a terminal.
    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
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
        self.empty("fallocate", reply, || self.fs.fallocate(Fh(fh.0), offset, length, mode));
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.run("lseek", || match self.fs.seek(Fh(fh.0), offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(refuse("lseek", &error)),
        });
    }
    /// The kernel then takes every file for ready, as all regular ones are, and asks no more.
    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let from = FilePosition { fh: Fh(from.0), offset };
        let to = FilePosition { fh: Fh(to.0), offset: to_offset };
        self.run("copy_file_range", || {
            with_buffer(MAX_WRITE as usize, |buffer| {
                match self.fs.copy(from, to, length, buffer) {
                    Ok(count) => reply.written(count),
                    Err(error) => reply.error(refuse("copy_file_range", &error)),
                }
            });
        });
    }
}
