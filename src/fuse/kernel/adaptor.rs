//! One FUSE operation is one span, one call of [`ContextFs`] and one reply.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use crate::kernel::buffer::with_buffer;
use crate::kernel::convert::{caller, handle, ino, node, released};
use crate::kernel::dentries::ViewDentries;
use crate::kernel::init::{MAX_WRITE, configure};
use crate::kernel::passthrough::PassthroughFiles;
use crate::kernel::workers::Workers;
use crate::kernel::{SessionOptions, convert};
use crate::{ContextFs, Entry, Fh, FilePosition, Flush, FsError, OpenMode, Result, SetAttr};

/// Translates between the kernel and [`ContextFs`].
pub(super) struct Adaptor {
    pub(super) fs: ContextFs,
    pub(super) passthrough: Arc<PassthroughFiles>,
    pub(super) dentries: Arc<ViewDentries>,
    pub(super) workers: Workers,
    pub(super) options: SessionOptions,
}

impl Filesystem for Adaptor {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config, &self.options, &self.passthrough, self.fs.may_promise());
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (name, caller): (Arc<OsStr>, _) = (Arc::from(name), caller(request));
        let (dentries, noted) = (Arc::clone(&self.dentries), Arc::clone(&name));
        self.run("lookup", |operation| {
            let done = move |found: Result<Entry>| {
                let found = found.inspect(|entry| dentries.note(parent, &noted, entry));
                operation.entry(reply, found);
            };
            self.fs.lookup_patiently(ino(parent), name, caller, done);
        });
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.run("forget", |_| self.fs.forget(ino(node), count));
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.run("getattr", |operation| {
            let reply = move |got| operation.attr(reply, got);
            self.fs.getattr(ino(node), caller(request), reply);
        });
    }

    fn setattr(
        &self,
        request: &Request,
        of: INodeNo,
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
        let attempt = move |fs: &ContextFs| fs.setattr(ino(of), &change, fh);
        self.wait("setattr", node(request, of), attempt, move |operation, got| {
            operation.attr(reply, got);
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
        let (name, caller) = (name.to_owned(), caller(request));
        let attempt = move |fs: &ContextFs| fs.mknod(ino(parent), &name, mode, caller);
        self.wait("mknod", node(request, parent), attempt, move |operation, made| {
            operation.entry(reply, made);
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
        let (name, caller) = (name.to_owned(), caller(request));
        let attempt = move |fs: &ContextFs| fs.mkdir(ino(parent), &name, mode, caller);
        self.wait("mkdir", node(request, parent), attempt, move |operation, made| {
            operation.entry(reply, made);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        let attempt = move |fs: &ContextFs| fs.unlink(ino(parent), &name);
        self.wait("unlink", node(request, parent), attempt, move |operation, removed| {
            operation.empty(reply, removed);
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.run("rmdir", |operation| operation.empty(reply, self.fs.rmdir(ino(parent), name)));
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        self.run("symlink", |operation| operation.entry(reply, Err(FsError::NoSpecialFiles)));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let (from, to, tid) = (ino(parent), ino(new_parent), request.pid());
        let attempt = move |fs: &ContextFs| {
            convert::rename_mode(flags).and_then(|mode| fs.rename(from, &name, to, &new_name, mode))
        };
        self.run("rename", |operation| {
            let done = move |renamed| operation.empty(reply, renamed);
            self.fs.patiently_between((from, to), tid, attempt, done);
        });
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        self.run("link", |operation| operation.entry(reply, Err(FsError::NoSpecialFiles)));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let passthrough = Arc::clone(&self.passthrough);
        self.run("open", |operation| {
            self.fs.open(ino(node), OpenMode { flags: flags.0 }, caller(request), move |opened| {
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
        let (open, name, caller) = (OpenMode { flags }, name.to_owned(), caller(request));
        let passthrough = Arc::clone(&self.passthrough);
        let attempt = move |fs: &ContextFs| fs.create(ino(parent), &name, mode, open, caller);
        self.wait("create", node(request, parent), attempt, move |operation, created| {
            operation.created(&passthrough, created, reply);
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
                    self.not_read(operation, (Fh(fh.0), offset, size), (&error, reply));
                }
            });
        });
    }

    fn write(
        &self,
        request: &Request,
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
        let (owner, tid) = (owner.map(|owner| owner.0), request.pid());
        self.run("write", |operation| {
            let done = move |written| operation.written(reply, written);
            self.fs.write_patiently((Fh(fh.0), tid), offset, data, (mode, owner), done);
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
        let (owner, caller) = (Some(owner.0), caller(request));
        let attempt = move |fs: &ContextFs| fs.flush(Fh(fh.0), caller, owner);
        self.wait("flush", handle(request, fh), attempt, move |operation, flushed| {
            operation.empty(reply, flushed);
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
        // The kernel's background requests are few, and nobody waits for this one: it is answered
        // before it is done.
        self.passthrough.release(Fh(fh.0));
        reply.ok();
        let attempt = move |fs: &ContextFs| fs.release(Fh(fh.0));
        self.wait("release", released(fh), attempt, |operation, released| {
            if let Err(error) = released {
                operation.error(&error);
            }
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, data: bool, reply: ReplyEmpty) {
        let flush = if data { Flush::Data } else { Flush::All };
        self.run("fsync", |operation| {
            self.fs.fsync(Fh(fh.0), flush, move |flushed| operation.empty(reply, flushed));
        });
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.run("opendir", |operation| {
            let reply = move |opened| operation.opened_directory(reply, opened);
            self.fs.opendir(ino(node), caller(request), reply);
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

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list_with_attributes((node, fh), offset, caller(request), reply);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.run("releasedir", |operation| operation.empty(reply, self.fs.releasedir(Fh(fh.0))));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.run("fsyncdir", |operation| {
            self.fs.fsyncdir(ino(node), move |flushed| operation.empty(reply, flushed));
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.run("statfs", |operation| operation.statfs(reply, self.fs.statfs()));
    }

    fn setxattr(
        &self,
        request: &Request,
        of: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.to_owned(), value.to_owned());
        let attempt = move |fs: &ContextFs| fs.setxattr(ino(of), &name, &value, flags);
        self.wait("setxattr", node(request, of), attempt, move |operation, set| {
            operation.empty(reply, set);
        });
    }

    fn getxattr(&self, request: &Request, of: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        let attempt = move |fs: &ContextFs| fs.getxattr(ino(of), &name);
        self.ask("getxattr", node(request, of), attempt, move |operation, got| {
            operation.xattr(reply, size, got);
        });
    }

    fn listxattr(&self, request: &Request, of: INodeNo, size: u32, reply: ReplyXattr) {
        let attempt = move |fs: &ContextFs| fs.listxattr(ino(of));
        self.ask("listxattr", node(request, of), attempt, move |operation, got| {
            operation.xattr(reply, size, got);
        });
    }

    fn removexattr(&self, request: &Request, of: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        let attempt = move |fs: &ContextFs| fs.removexattr(ino(of), &name);
        self.wait("removexattr", node(request, of), attempt, move |operation, removed| {
            operation.empty(reply, removed);
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
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let attempt = move |fs: &ContextFs| fs.fallocate(Fh(fh.0), offset, length, mode);
        self.wait("fallocate", handle(request, fh), attempt, move |operation, done| {
            operation.empty(reply, done);
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
        request: &Request,
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
        let origin = handle(request, to);
        let to = FilePosition { fh: Fh(to.0), offset: to_offset };
        let attempt = move |fs: &ContextFs| {
            with_buffer(MAX_WRITE as usize, |buffer| fs.copy(from, to, length, buffer))
        };
        self.run("copy_file_range", |operation| match self.fs.mode_of(to.fh) {
            Ok(mode) => {
                let done = move |copied| operation.written(reply, copied);
                let flushed = self.fs.flushed(to.fh, mode, done);
                self.fs.patiently(origin, attempt, flushed);
            }
            Err(error) => reply.error(operation.error(&error)),
        });
    }
}
