//! The span of an operation, and a reply for each kind of result. A reply sends either the value,
//! or the errno of the error.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fuser::{
    BackingId, Errno, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr,
};
use rustix::fs::StatVfs;

use crate::kernel::convert;
use crate::kernel::passthrough::PassthroughFiles;
use crate::shared::MountCounters;
use crate::{Entry, Fh, FsError, Ino, Opened, Pages, Result, TimedAttr};
use ctxfs_engine::sync::atomic::Ordering::Relaxed;

const SLOW: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub(super) struct Operation(&'static str);

impl Operation {
    /// Runs one operation. A panic drops the reply object, which then answers EIO; the mount stays
    /// alive.
    pub(super) fn run(name: &'static str, counters: &MountCounters, run: impl FnOnce(Self)) {
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| run(Self(name)))).is_err() {
            tracing::error!(operation = name, "panicked; the caller got EIO");
        }
        let took = started.elapsed();
        if took >= SLOW {
            counters.slow_operations.fetch_add(1, Relaxed);
            tracing::warn!(operation = name, ?took, "slow");
        }
    }

    pub(super) fn error(self, error: &FsError) -> fuser::Errno {
        let (operation, errno) = (self.0, error.errno());
        if error.is_fault() {
            tracing::warn!(operation, errno = errno.0, %error, "failed");
        } else {
            tracing::debug!(operation, errno = errno.0, %error, "refused");
        }
        fuser::Errno::from_i32(errno.0)
    }
}

impl Operation {
    pub(super) fn empty(self, reply: ReplyEmpty, done: Result<()>) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn entry(self, reply: ReplyEntry, found: Result<Entry>) {
        match found {
            Ok(entry) => {
                let attr = convert::attr(&entry.attr);
                reply.entry_with_ttls(&entry.attr_ttl, &entry.entry_ttl, &attr, Generation(0));
            }
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn attr(self, reply: ReplyAttr, got: Result<TimedAttr>) {
        match got {
            Ok(timed) => reply.attr(&timed.ttl, &convert::attr(&timed.attr)),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn opened_directory(self, reply: ReplyOpen, opened: Result<Fh>) {
        match opened {
            Ok(fh) => reply.opened(FileHandle(fh.0), FopenFlags::empty()),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn directory(self, reply: ReplyDirectory, read: Result<()>) {
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn directory_plus(self, reply: ReplyDirectoryPlus, read: Result<()>) {
        match read {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn written(self, reply: ReplyWrite, written: Result<u32>) {
        match written {
            Ok(count) => reply.written(count),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn offset(self, reply: ReplyLseek, found: Result<i64>) {
        match found {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    /// Replies with the disk space of the store. The maximum length of a name is 255 bytes.
    pub(super) fn statfs(self, reply: ReplyStatfs, space: Result<StatVfs>) {
        match space {
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
            Err(error) => reply.error(self.error(&error)),
        }
    }

    pub(super) fn xattr(self, reply: ReplyXattr, size: u32, got: Result<Vec<u8>>) {
        match got {
            Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            Ok(bytes) if bytes.len() > size as usize => {
                reply.error(self.error(&FsError::BufferTooSmall));
            }
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    /// Replies with the handle of an open file. Readers get passthrough where it is available: the
    /// kernel then reads the file itself, and every write still goes to the server. Without
    /// passthrough, the kernel caches pages and sends writes to the server.
    pub(super) fn opened(
        self,
        passthrough: &PassthroughFiles,
        node: INodeNo,
        opened: Result<Opened>,
        reply: ReplyOpen,
    ) {
        match opened {
            Ok(opened) => reply_opened(passthrough, node, &opened, reply),
            Err(error) => reply.error(self.error(&error)),
        }
    }

    /// Replies with the entry and the handle of a new file. Opens it in the same way as
    /// [`opened`](Self::opened).
    pub(super) fn created(
        self,
        passthrough: &PassthroughFiles,
        created: Result<(Entry, Opened)>,
        reply: ReplyCreate,
    ) {
        match created {
            Ok((entry, opened)) => reply_created(passthrough, &entry, &opened, reply),
            Err(error) => reply.error(self.error(&error)),
        }
    }
}

fn reply_opened(passthrough: &PassthroughFiles, node: INodeNo, opened: &Opened, reply: ReplyOpen) {
    let fh = FileHandle(opened.fh.0);
    if opened.direct {
        return reply.opened(fh, FopenFlags::FOPEN_DIRECT_IO);
    }
    let Some(file) = &opened.file else {
        return reply_without_file(passthrough, node, opened, reply);
    };
    let reply = Cell::new(Some(reply));
    let register = |file: &File| register(&reply, |reply| reply.open_backing(file));
    let file = backing_file(opened, file);
    passthrough.open(Ino(node.0), opened.fh, file, register, |backing| {
        let Some(reply) = reply.take() else { return };
        match backing {
            Some(id) => reply.opened_passthrough(fh, passthrough_flags(opened), id),
            None => reply.opened(fh, cached_flags(opened)),
        }
    });
}

/// Replies with the handle of a computed file or of a remote artifact. If other handles have the
/// local file of a remote artifact open, the kernel may still read that file.
fn reply_without_file(
    passthrough: &PassthroughFiles,
    node: INodeNo,
    opened: &Opened,
    reply: ReplyOpen,
) {
    let fh = FileHandle(opened.fh.0);
    if opened.pages == Pages::Kept {
        return reply.opened(fh, cached_flags(opened));
    }
    passthrough.join(Ino(node.0), opened.fh, |backing| match backing {
        Some(id) => reply.opened_passthrough(fh, passthrough_flags(opened), id),
        None => reply.opened(fh, cached_flags(opened)),
    });
}

fn reply_created(
    passthrough: &PassthroughFiles,
    entry: &Entry,
    opened: &Opened,
    reply: ReplyCreate,
) {
    let fh = FileHandle(opened.fh.0);
    let attr = convert::attr(&entry.attr);
    let (ttl, generation) = (entry.attr_ttl, Generation(0));
    if opened.direct {
        return reply.created(&ttl, &attr, generation, fh, FopenFlags::FOPEN_DIRECT_IO);
    }
    let Some(file) = &opened.file else { return reply.error(Errno::EIO) };
    let reply = Cell::new(Some(reply));
    let register = |file: &File| register(&reply, |reply| reply.open_backing(file));
    let file = backing_file(opened, file);
    passthrough.open(entry.attr.ino, opened.fh, file, register, |backing| {
        let Some(reply) = reply.take() else { return };
        match backing {
            Some(id) => {
                let flags = passthrough_flags(opened);
                reply.created_passthrough(&ttl, &attr, generation, fh, flags, id);
            }
            None => reply.created(&ttl, &attr, generation, fh, cached_flags(opened)),
        }
    });
}

/// Returns the file that the kernel may read and map. Returns `None` if mapped writes must be
/// counted, because with passthrough they would not reach the server.
fn backing_file<'a>(opened: &Opened, file: &'a File) -> Option<&'a File> {
    (!opened.counts_mapped).then_some(file)
}

fn register<R>(
    reply: &Cell<Option<R>>,
    open: impl FnOnce(&R) -> io::Result<BackingId>,
) -> io::Result<BackingId> {
    let held = reply.take();
    let opened =
        held.as_ref().map_or_else(|| Err(io::Error::other("the reply was already sent")), open);
    reply.set(held);
    opened
}

fn passthrough_flags(opened: &Opened) -> FopenFlags {
    if opened.writes { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_NOFLUSH }
}

/// Returns the flags for an open without passthrough.
///
/// Writers bypass the page cache, so that one write(2) is one request. With the page cache, the
/// kernel would split the write at page boundaries, and a reader could see half a line.
fn cached_flags(opened: &Opened) -> FopenFlags {
    if opened.writes {
        return FopenFlags::FOPEN_DIRECT_IO;
    }
    let pages = match opened.pages {
        Pages::Kept => FopenFlags::FOPEN_KEEP_CACHE,
        Pages::New => FopenFlags::empty(),
        Pages::None => FopenFlags::FOPEN_DIRECT_IO,
    };
    pages | FopenFlags::FOPEN_NOFLUSH
}
