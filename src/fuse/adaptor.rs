//! One FUSE operation is one span, one call of [`ContextFs`] and one reply.

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
use crate::fs::Fh;
use crate::fs::FilePosition;
use crate::fs::FsError;
use crate::fs::OpenMode;
use crate::fs::SetAttr;
use crate::fuse::SessionOptions;
use crate::fuse::buffer::with_buffer;
use crate::fuse::convert;
use crate::fuse::convert::caller;
use crate::fuse::convert::ino;
use crate::fuse::dentries::ViewDentries;
use crate::fuse::init::MAX_WRITE;
use crate::fuse::init::configure;
use crate::fuse::operation::Operation;
use crate::fuse::passthrough::PassthroughFiles;
use crate::fuse::workers::Workers;

/// Translates between the kernel and [`ContextFs`].
pub(super) struct Adaptor {
    pub(super) fs: ContextFs,
    pub(super) passthrough: Arc<PassthroughFiles>,
    pub(super) dentries: Arc<ViewDentries>,
    pub(super) workers: Workers,
    pub(super) options: SessionOptions,
}

impl Adaptor {
    /// Runs one operation on this worker, in its span; `run` calls and replies.
    fn run(&self, name: &'static str, run: impl FnOnce(Operation)) {
        self.workers.run(|| Operation::run(name, self.fs.counters(), run));
    }
}

impl Filesystem for Adaptor {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config, &self.options, &self.passthrough);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.run("lookup", |operation| {
            let found = self.fs.lookup(ino(parent), name);
            operation.entry(reply, found.inspect(|entry| self.dentries.note(parent, name, entry)));
        });
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.run("forget", |_| self.fs.forget(ino(node), count));
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.run("getattr", |operation| {
            self.fs.getattr(ino(node), move |got| operation.attr(reply, got));
        });
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
        self.run("setattr", |operation| {
            operation.attr(reply, self.fs.setattr(ino(node), &change, fh));
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
        self.run("mknod", |operation| {
            operation.entry(reply, self.fs.mknod(ino(parent), name, mode, caller(request)));
        });
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
        self.run("mkdir", |operation| {
            operation.entry(reply, self.fs.mkdir(ino(parent), name, mode, caller(request)));
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.run("unlink", |operation| operation.empty(reply, self.fs.unlink(ino(parent), name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.run("rmdir", |operation| operation.empty(reply, self.fs.rmdir(ino(parent), name)));
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        self.run("symlink", |operation| operation.entry(reply, Err(FsError::NoSpecialFiles)));
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
        self.run("rename", |operation| {
            let renamed = convert::rename_mode(flags).and_then(|mode| {
                self.fs.rename(ino(parent), name, ino(new_parent), new_name, mode)
            });
            operation.empty(reply, renamed);
        });
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        self.run("link", |operation| operation.entry(reply, Err(FsError::NoSpecialFiles)));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let passthrough = Arc::clone(&self.passthrough);
        self.run("open", |operation| {
            self.fs.open(ino(node), OpenMode { flags: flags.0 }, move |opened| {
                operation.opened(&passthrough, node, opened, reply);
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
        self.run("create", |operation| {
            let created = self.fs.create(ino(parent), name, mode, open, caller(request));
            operation.created(&self.passthrough, created, reply);
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
        self.run("read", |operation| {
            with_buffer(size as usize, |buffer| {
                let mut reply = Some(reply);
                let read = self.fs.read(Fh(fh.0), offset, buffer, |bytes| {
                    if let Some(reply) = reply.take() {
                        reply.data(bytes);
                    }
                });
                if let (Err(error), Some(reply)) = (read, reply) {
                    reply.error(operation.error(&error));
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
        self.run("write", |operation| {
            operation.written(reply, self.fs.write(Fh(fh.0), offset, data, mode, owner));
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
        self.run("flush", |operation| {
            operation.empty(reply, self.fs.flush(Fh(fh.0), caller(request), owner));
        });
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
        self.run("release", |operation| {
            self.passthrough.release(Fh(fh.0));
            operation.empty(reply, self.fs.release(Fh(fh.0)));
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, data: bool, reply: ReplyEmpty) {
        self.run("fsync", |operation| operation.empty(reply, self.fs.fsync(Fh(fh.0), data)));
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.run("opendir", |operation| {
            self.fs.opendir(ino(node), move |opened| operation.opened_directory(reply, opened));
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
        self.run("readdir", |operation| {
            let read = self.fs.readdir(ino(node), Fh(fh.0), offset, |entry| {
                reply.add(INodeNo(entry.ino), entry.next, convert::kind(entry.kind), entry.name)
            });
            operation.directory(reply, read);
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.run("releasedir", |operation| operation.empty(reply, self.fs.releasedir(Fh(fh.0))));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.run("fsyncdir", |operation| operation.empty(reply, self.fs.fsyncdir(ino(node))));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.run("statfs", |operation| operation.statfs(reply, self.fs.statfs()));
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
        self.run("setxattr", |operation| {
            operation.empty(reply, self.fs.setxattr(ino(node), name, value, flags));
        });
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.run("getxattr", |operation| {
            operation.xattr(reply, size, self.fs.getxattr(ino(node), name));
        });
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.run("listxattr", |operation| {
            operation.xattr(reply, size, self.fs.listxattr(ino(node)));
        });
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.run("removexattr", |operation| {
            operation.empty(reply, self.fs.removexattr(ino(node), name));
        });
    }

    /// No file has any. Programs try, for instance to find out if a file is a terminal.
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
        self.run("fallocate", |operation| {
            operation.empty(reply, self.fs.fallocate(Fh(fh.0), offset, length, mode));
        });
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
        self.run("lseek", |operation| {
            operation.offset(reply, self.fs.seek(Fh(fh.0), offset, whence));
        });
    }

    /// After ENOSYS the kernel treats every file as ready, as regular files are, and stops asking.
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
        self.run("copy_file_range", |operation| {
            with_buffer(MAX_WRITE as usize, |buffer| {
                operation.written(reply, self.fs.copy(from, to, length, buffer));
            });
        });
    }
}
