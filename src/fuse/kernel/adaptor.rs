//! The adaptor. Each FUSE operation is one span, one call of [`ContextFs`] and one reply.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};

use crate::io::with_buffer;
use crate::kernel::convert;
use crate::kernel::convert::{caller, handle, node, released};
use crate::kernel::dentries::ViewDentries;
use crate::kernel::passthrough::PassthroughFiles;
use crate::kernel::reply::Operation;
use crate::kernel::workers::KernelWorkers;
use crate::{
    ContextFs, Entry, Fh, FilePosition, Flush, FsError, Ino, OpenMode, RequestOrigin, Result,
    SetAttr,
};

/// Maximum size of a write request in bytes: the kernel's default limit
/// (`fs.fuse.max_pages_limit`).
const MAX_WRITE: u32 = 1024 * 1024;
const MAX_BACKGROUND: u16 = 64;
/// The protocol version of Linux 6.12. Earlier kernels can have wrong file sizes after writes with
/// passthrough.
const PASSTHROUGH_ABI: (u32, u32) = (7, 41);

#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// True to let the kernel read the store's files directly for readers, if the kernel version
    /// and the privileges of the server allow it.
    pub passthrough: bool,
    /// Number of threads that serve the kernel. Under light load, two of them wait for requests and
    /// the rest are parked. Each thread holds about a megabyte once it has served a large request.
    pub threads: usize,
    pub allow_other: bool,
    pub stacked_store: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { passthrough: true, threads: 4, allow_other: false, stacked_store: false }
    }
}

pub(super) struct Adaptor {
    pub(super) fs: ContextFs,
    pub(super) passthrough: Arc<PassthroughFiles>,
    pub(super) dentries: Arc<ViewDentries>,
    pub(super) workers: KernelWorkers,
    pub(super) options: SessionOptions,
}

impl Adaptor {
    fn run(&self, name: &'static str, run: impl FnOnce(Operation)) {
        self.workers.run(|| Operation::run(name, &self.fs.0.counters, run));
    }

    fn ask<T: 'static>(
        &self,
        name: &'static str,
        origin: RequestOrigin,
        attempt: impl Fn(&ContextFs) -> Result<T> + Send + Sync + 'static,
        answer: impl FnOnce(Operation, Result<T>) + Send + 'static,
    ) {
        self.run(name, |operation| {
            self.fs.retry_interruptibly(origin, attempt, move |done| answer(operation, done));
        });
    }

    /// Runs an operation that may have to wait for another process or for the disk. If it must
    /// wait, the operation continues on another thread, and this worker serves other requests.
    fn wait<T: 'static>(
        &self,
        name: &'static str,
        origin: RequestOrigin,
        attempt: impl Fn(&ContextFs) -> Result<T> + Send + Sync + 'static,
        answer: impl FnOnce(Operation, Result<T>) + Send + 'static,
    ) {
        self.run(name, |operation| {
            self.fs.retry(origin, attempt, move |done| answer(operation, done));
        });
    }
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
            self.fs.lookup_then(Ino(parent.0), name, caller, done);
        });
    }

    fn forget(&self, _: &Request, node: INodeNo, count: u64) {
        self.run("forget", |_| self.fs.forget(Ino(node.0), count));
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.run("getattr", |operation| {
            let reply = move |got| operation.attr(reply, got);
            self.fs.getattr(Ino(node.0), caller(request), reply);
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
        let attempt = move |fs: &ContextFs| fs.setattr(Ino(of.0), &change, fh);
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
        let attempt = move |fs: &ContextFs| fs.mknod(Ino(parent.0), &name, mode, caller);
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
        let attempt = move |fs: &ContextFs| fs.mkdir(Ino(parent.0), &name, mode, caller);
        self.wait("mkdir", node(request, parent), attempt, move |operation, made| {
            operation.entry(reply, made);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (name, tid) = (name.to_owned(), request.pid());
        let attempt = move |fs: &ContextFs| fs.unlink(Ino(parent.0), &name, tid);
        self.wait("unlink", node(request, parent), attempt, move |operation, removed| {
            operation.empty(reply, removed);
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.run("rmdir", |operation| operation.empty(reply, self.fs.rmdir(Ino(parent.0), name)));
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
        let (from, to, tid) = (Ino(parent.0), Ino(new_parent.0), request.pid());
        let attempt = move |fs: &ContextFs| {
            convert::rename_mode(flags).and_then(|mode| fs.rename(from, &name, to, &new_name, mode))
        };
        self.run("rename", |operation| {
            let done = move |renamed| operation.empty(reply, renamed);
            self.fs.retry(RequestOrigin::of_rename(from, to, tid), attempt, done);
        });
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        self.run("link", |operation| operation.entry(reply, Err(FsError::NoSpecialFiles)));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let passthrough = Arc::clone(&self.passthrough);
        self.run("open", |operation| {
            self.fs.open(
                Ino(node.0),
                OpenMode { flags: flags.0 },
                caller(request),
                move |opened| {
                    operation.opened(&passthrough, node, opened, reply);
                },
            );
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
        let attempt = move |fs: &ContextFs| fs.create(Ino(parent.0), &name, mode, open, caller);
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
                match (read, reply) {
                    (Err(error), Some(reply)) if error.is_slow() => {
                        let done = move |read: Result<Vec<u8>>| match read {
                            Ok(bytes) => reply.data(&bytes),
                            Err(error) => reply.error(operation.error(&error)),
                        };
                        self.fs.read_far(Fh(fh.0), (offset, size as usize), done);
                    }
                    (Err(error), Some(reply)) => reply.error(operation.error(&error)),
                    _ => {}
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
            self.fs.write_then((Fh(fh.0), tid), offset, data, (mode, owner), done);
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
        // The kernel has few background requests, and no client waits for this one, so the reply is
        // sent before the release is done.
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
            self.fs.opendir(Ino(node.0), caller(request), reply);
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
            let read = self.fs.readdir(Ino(node.0), Fh(fh.0), offset, |entry| {
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
        mut reply: ReplyDirectoryPlus,
    ) {
        self.run("readdirplus", |operation| {
            let caller = caller(request);
            let read = self.fs.readdirplus(Ino(node.0), Fh(fh.0), offset, caller, |listed| {
                let Entry { attr, attr_ttl, entry_ttl, .. } = listed.entry;
                // The reply has only one lifetime field for the name and the attributes.
                let lasts = attr_ttl.min(entry_ttl);
                let (found, attr) = (INodeNo(attr.ino.0), convert::attr(&attr));
                let (name, next) = (listed.name, listed.next);
                let full = reply.add(found, next, name, &lasts, &attr, Generation(0));
                if !full {
                    self.dentries.note(node, name, &listed.entry);
                }
                full
            });
            operation.directory_plus(reply, read);
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.run("releasedir", |operation| operation.empty(reply, self.fs.releasedir(Fh(fh.0))));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.run("fsyncdir", |operation| {
            self.fs.fsyncdir(Ino(node.0), move |flushed| operation.empty(reply, flushed));
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.run("statfs", |operation| {
            operation.statfs(reply, self.fs.engine().store().space().map_err(FsError::from));
        });
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
        let attempt = move |fs: &ContextFs| fs.setxattr(Ino(of.0), &name, &value, flags);
        self.wait("setxattr", node(request, of), attempt, move |operation, set| {
            operation.empty(reply, set);
        });
    }

    fn getxattr(&self, request: &Request, of: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        let attempt = move |fs: &ContextFs| fs.getxattr(Ino(of.0), &name);
        self.ask("getxattr", node(request, of), attempt, move |operation, got| {
            operation.xattr(reply, size, got);
        });
    }

    fn listxattr(&self, request: &Request, of: INodeNo, size: u32, reply: ReplyXattr) {
        let attempt = move |fs: &ContextFs| fs.listxattr(Ino(of.0));
        self.ask("listxattr", node(request, of), attempt, move |operation, got| {
            operation.xattr(reply, size, got);
        });
    }

    fn removexattr(&self, request: &Request, of: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        let attempt = move |fs: &ContextFs| fs.removexattr(Ino(of.0), &name);
        self.wait("removexattr", node(request, of), attempt, move |operation, removed| {
            operation.empty(reply, removed);
        });
    }

    /// Fails with ENOTTY. Programs call ioctl(2), for instance to find out whether a file is a
    /// terminal.
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

    /// Replies ENOSYS. The kernel then treats every file as ready, which is right for regular
    /// files, and sends no further poll requests.
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
        let to = FilePosition { fh: Fh(to.0), offset: to_offset };
        let tid = request.pid();
        self.run("copy_file_range", |operation| {
            let done = move |copied| operation.written(reply, copied);
            self.fs.copy_then((from, to), length, tid, done);
        });
    }
}

fn configure(
    config: &mut KernelConfig,
    options: &SessionOptions,
    passthrough: &PassthroughFiles,
    lists_attributes: bool,
) {
    // With AUTO, the kernel requests attributes only after it has seen look-ups of listed names.
    let listing = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
    if lists_attributes && config.add_capabilities(listing).is_err() {
        tracing::info!("this kernel lists no attributes");
    }
    for wanted in [
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_AUTO_INVAL_DATA,
        // Without this, the kernel opens a file for writing first and truncates it later, so a
        // remote artifact would be fetched for nothing.
        InitFlags::FUSE_ATOMIC_O_TRUNC,
        InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    ] {
        if config.add_capabilities(wanted).is_err() {
            tracing::info!(?wanted, "not supported by this kernel");
        }
    }
    let abi = config.kernel_abi();
    if options.passthrough
        && (abi.0, abi.1) >= PASSTHROUGH_ABI
        && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
    {
        let depth = if options.stacked_store { 2 } else { 1 };
        if config.set_max_stack_depth(depth).is_ok() {
            passthrough.offered.store(true, Relaxed);
        }
    }
    if config.set_max_write(MAX_WRITE).is_err()
        || config.set_max_background(MAX_BACKGROUND).is_err()
    {
        tracing::info!("this kernel keeps its own request limits");
    }
}
