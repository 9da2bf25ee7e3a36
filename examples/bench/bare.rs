//! A minimal FUSE filesystem over a directory. It shows the minimum cost of any FUSE filesystem on
//! this machine.
//!
//! It keeps no records, checks no names, and has no views. Each operation is one system call and
//! one reply. The number of threads and the two modes are those of a mount of ctxfs.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{DirEntryExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use ctxfs_fuse::kernel::mount;
use dashmap::DashMap;
use fuser::{
    BackingId, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, SessionACL,
    TimeOrNow, WriteFlags,
};

const MAX_WRITE: u32 = 1024 * 1024;
const TTL: Duration = Duration::from_secs(1);
const NO_TTL: Duration = Duration::ZERO;
const GENERATION: Generation = Generation(0);

/// Serves `dir` at `mountpoint` until it is unmounted.
pub(crate) fn serve(dir: &Path, mountpoint: &Path, passthrough: bool) -> io::Result<()> {
    let options = mount::MountOptions {
        source: dir.display().to_string(),
        allow_other: false,
        noexec: false,
    };
    let mounted = mount::mount(mountpoint, &options).map_err(io::Error::other)?;
    let mut config = Config::default();
    config.n_threads = Some(4);
    let bare = Bare::new(dir, passthrough);
    fuser::Session::from_fd(bare, mounted.fd, SessionACL::Owner, config)?.run()
}

struct Open {
    file: File,
    /// Backing id, kept as long as the kernel may use it.
    backing: Option<Arc<BackingId>>,
}

struct Bare {
    passthrough: bool,
    paths: DashMap<u64, PathBuf>,
    open: DashMap<u64, Arc<Open>>,
    listings: DashMap<u64, Vec<(u64, OsString)>>,
    next: AtomicU64,
}

impl Bare {
    fn new(dir: &Path, passthrough: bool) -> Self {
        let paths = DashMap::from_iter(HashMap::from([(1, dir.to_owned())]));
        let (open, listings) = (DashMap::new(), DashMap::new());
        Self { passthrough, paths, open, listings, next: AtomicU64::new(1) }
    }

    fn path(&self, node: INodeNo) -> PathBuf {
        self.paths.get(&node.0).map(|path| path.clone()).unwrap_or_default()
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> PathBuf {
        self.path(parent).join(name)
    }

    fn found(&self, path: PathBuf) -> io::Result<FileAttr> {
        let attr = attr(&fs::symlink_metadata(&path)?);
        self.paths.insert(attr.ino.0, path);
        Ok(attr)
    }

    fn entry(&self, path: PathBuf, reply: ReplyEntry) {
        match self.found(path) {
            Ok(attr) => {
                let ttl = if attr.kind == FileType::Directory { TTL } else { NO_TTL };
                reply.entry_with_ttls(&TTL, &ttl, &attr, GENERATION);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn keep(&self, file: File, backing: Option<BackingId>) -> (FileHandle, Arc<Open>) {
        let fh = self.next.fetch_add(1, Relaxed);
        let open = Arc::new(Open { file, backing: backing.map(Arc::new) });
        self.open.insert(fh, Arc::clone(&open));
        (FileHandle(fh), open)
    }

    fn file(&self, fh: FileHandle) -> Result<Arc<Open>, Errno> {
        self.open.get(&fh.0).map(|open| Arc::clone(&open)).ok_or(Errno::EBADF)
    }
}

fn writes(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

fn way(flags: i32) -> FopenFlags {
    if writes(flags) { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_NOFLUSH }
}

fn empty(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

fn attr(meta: &Metadata) -> FileAttr {
    let time = |seconds: i64| UNIX_EPOCH + Duration::from_secs(seconds.max(0) as u64);
    FileAttr {
        ino: INodeNo(meta.ino()),
        size: meta.size(),
        blocks: meta.blocks(),
        atime: time(meta.atime()),
        mtime: time(meta.mtime()),
        ctime: time(meta.ctime()),
        crtime: UNIX_EPOCH,
        kind: if meta.is_dir() { FileType::Directory } else { FileType::RegularFile },
        perm: (meta.mode() & 0o7777) as u16,
        nlink: meta.nlink() as u32,
        uid: meta.uid(),
        gid: meta.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Bare {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_AUTO_INVAL_DATA] {
            config.add_capabilities(wanted).ok();
        }
        if self.passthrough {
            config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).map_err(no_passthrough)?;
            config.set_max_stack_depth(1).map_err(no_passthrough)?;
        }
        config.set_max_write(MAX_WRITE).ok();
        config.set_max_background(64).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.child(parent, name), reply);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match fs::symlink_metadata(self.path(node)) {
            Ok(meta) => reply.attr(&TTL, &attr(&meta)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let path = self.path(node);
        if let Some(size) = size {
            let cut = OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(size));
            if let Err(error) = cut {
                return reply.error(error.into());
            }
        }
        match fs::symlink_metadata(path) {
            Ok(meta) => reply.attr(&TTL, &attr(&meta)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = self.child(parent, name);
        match fs::create_dir(&path) {
            Ok(()) => self.entry(path, reply),
            Err(error) => reply.error(error.into()),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, fs::remove_file(self.child(parent, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, fs::remove_dir(self.child(parent, name)));
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let write = writes(flags.0);
        let file = match OpenOptions::new().read(true).write(write).open(self.path(node)) {
            Ok(file) => file,
            Err(error) => return reply.error(error.into()),
        };
        if !self.passthrough {
            let cached = if write { FopenFlags::empty() } else { FopenFlags::FOPEN_KEEP_CACHE };
            let (fh, _) = self.keep(file, None);
            return reply.opened(fh, cached);
        }
        match reply.open_backing(&file) {
            Ok(backing) => {
                let (fh, open) = self.keep(file, Some(backing));
                if let Some(backing) = &open.backing {
                    reply.opened_passthrough(fh, way(flags.0), backing);
                }
            }
            Err(error) => reply.error(error.into()),
        }
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
        let path = self.child(parent, name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(mode);
        let made = options.open(&path).and_then(|file| Ok((file, self.found(path)?)));
        let (file, attr) = match made {
            Ok(made) => made,
            Err(error) => return reply.error(error.into()),
        };
        if !self.passthrough {
            let (fh, _) = self.keep(file, None);
            return reply.created(&TTL, &attr, GENERATION, fh, FopenFlags::empty());
        }
        match reply.open_backing(&file) {
            Ok(backing) => {
                let (fh, open) = self.keep(file, Some(backing));
                if let Some(backing) = &open.backing {
                    let way = way(flags);
                    reply.created_passthrough(&TTL, &attr, GENERATION, fh, way, backing);
                }
            }
            Err(error) => reply.error(error.into()),
        }
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
        let mut bytes = vec![0; size as usize];
        let read = self.file(fh).and_then(|open| Ok(open.file.read_at(&mut bytes, offset)?));
        match read {
            Ok(count) => reply.data(&bytes[..count]),
            Err(error) => reply.error(error),
        }
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
        let written = self.file(fh).and_then(|open| Ok(open.file.write_all_at(data, offset)?));
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
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
        self.open.remove(&fh.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = fs::read_dir(self.path(node)).map(|entries| {
            entries.flatten().map(|entry| (entry.ino(), entry.file_name())).collect()
        });
        match listed {
            Ok(names) => {
                let fh = self.next.fetch_add(1, Relaxed);
                self.listings.insert(fh, names);
                reply.opened(FileHandle(fh), FopenFlags::empty());
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(names) = self.listings.get(&fh.0) else { return reply.error(Errno::EBADF) };
        for ((ino, name), next) in names.iter().zip(1..).skip(offset as usize) {
            if reply.add(INodeNo(*ino), next, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.remove(&fh.0);
        reply.ok();
    }

    /// The kernel requests `security.capability` before each write.
    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: fuser::ReplyXattr) {
        reply.error(Errno::ENODATA);
    }
}

fn no_passthrough<E: std::fmt::Debug>(error: E) -> io::Error {
    io::Error::other(format!("no passthrough: {error:?}"))
}
