//! The replies that are more than a word.

use std::cell::Cell;
use std::fs::File;
use std::io;

use fuser::BackingId;
use fuser::Errno;
use fuser::FileHandle;
use fuser::FopenFlags;
use fuser::Generation;
use fuser::INodeNo;
use fuser::ReplyAttr;
use fuser::ReplyCreate;
use fuser::ReplyOpen;
use fuser::ReplyXattr;

use crate::fs::Entry;
use crate::fs::FsError;
use crate::fs::Opened;
use crate::fs::Result;
use crate::fs::TimedAttr;
use crate::fuse::convert;
use crate::fuse::convert::ino;
use crate::fuse::passthrough::Passthrough;
use crate::fuse::watch::refuse;

/// Answers an open: split passthrough where it can be had. Readers then read in the kernel, and
/// every write still comes to us; elsewhere pages are cached and writes come through.
pub(super) fn answer_open(
    passthrough: &Passthrough,
    node: INodeNo,
    opened: &Opened,
    reply: ReplyOpen,
) {
    let fh = FileHandle(opened.fh.0);
    if opened.direct {
        return reply.opened(fh, FopenFlags::FOPEN_DIRECT_IO);
    }
    let Some(file) = &opened.file else {
        return reply.opened(fh, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    };
    let reply = Cell::new(Some(reply));
    let register = |file: &File| register(&reply, |reply| reply.open_backing(file));
    passthrough.open(ino(node), opened.fh, file, register, |backing| {
        let Some(reply) = reply.take() else { return };
        match backing {
            Some(id) => reply.opened_passthrough(fh, passthrough_flags(opened), id),
            None => reply.opened(fh, cached_flags(opened)),
        }
    });
}

pub(super) fn answer_create(
    passthrough: &Passthrough,
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

/// Registers a backing file by a reply that is still to be sent.
fn register<R>(
    reply: &Cell<Option<R>>,
    open: impl FnOnce(&R) -> io::Result<BackingId>,
) -> io::Result<BackingId> {
    let held = reply.take();
    let opened = held.as_ref().map_or_else(|| Err(io::Error::other("answered already")), open);
    reply.set(held);
    opened
}

/// Readers need not tell when they close.
fn passthrough_flags(opened: &Opened) -> FopenFlags {
    if opened.writes { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_NOFLUSH }
}

/// Pages stay from one open to the next: the kernel drops them when size or time have changed.
/// Writers write past them, so that one write(2) is one request: the kernel would cut it at the
/// borders of pages, and a reader see half a line.
fn cached_flags(opened: &Opened) -> FopenFlags {
    if opened.writes {
        FopenFlags::FOPEN_DIRECT_IO
    } else {
        FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH
    }
}

pub(super) fn attr(operation: &'static str, reply: ReplyAttr, got: Result<TimedAttr>) {
    match got {
        Ok(timed) => reply.attr(&timed.ttl, &convert::attr(&timed.attr)),
        Err(error) => reply.error(refuse(operation, &error)),
    }
}

/// Answers with bytes, or with their number where the caller asks how many there are.
pub(super) fn bytes(operation: &'static str, reply: ReplyXattr, size: u32, got: Result<Vec<u8>>) {
    match got {
        Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        Ok(bytes) if bytes.len() > size as usize => {
            reply.error(refuse(operation, &FsError::BufferTooSmall));
        }
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(refuse(operation, &error)),
    }
}
