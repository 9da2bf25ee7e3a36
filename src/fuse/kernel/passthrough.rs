//! Passthrough: the kernel reads the store's files directly.
//!
//! The kernel demands one backing object per inode while any file of it is open in passthrough, and
//! refuses to mix that with other modes; see Documentation/filesystems/fuse-passthrough.rst and
//! `fs/fuse/iomode.c`. So an inode is open in one mode at a time, and all opens of it share one
//! backing id.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use dashmap::DashMap;
use fuser::BackingId;
use parking_lot::Mutex;

use crate::{Fh, Ino};

/// The files that are open, with and without passthrough.
#[derive(Debug, Default)]
pub(super) struct PassthroughFiles {
    offered: AtomicBool,
    enabled: AtomicBool,
    inodes: DashMap<Ino, Arc<Mutex<InodeOpens>>>,
    open: DashMap<u64, (Ino, Option<Arc<BackingId>>)>,
}

/// The opens of one inode.
#[derive(Debug, Default)]
struct InodeOpens {
    backing: Weak<BackingId>,
    /// Opens without passthrough.
    plain: u32,
}

impl PassthroughFiles {
    /// Notes that the kernel offers passthrough.
    pub(super) fn offer(&self) {
        self.offered.store(true, Relaxed);
    }

    pub(super) fn is_offered(&self) -> bool {
        self.offered.load(Relaxed)
    }

    /// Notes that passthrough has been tried and works.
    pub(super) fn enable(&self) {
        self.enabled.store(true, Relaxed);
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Opens `ino`: calls `reply` with its backing id, or with none if passthrough is not available
    /// for it. Registers `file` by `register` if the inode has no id yet. Without a `file` it is
    /// opened without passthrough. The kernel refuses to map it for writing then while others read
    /// it with passthrough (ENODEV).
    ///
    /// The inode is locked until the reply is sent: of two concurrent opens, the second must find
    /// the id of the first.
    pub(super) fn open(
        &self,
        ino: Ino,
        fh: Fh,
        file: Option<&File>,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
        reply: impl FnOnce(Option<&BackingId>),
    ) {
        if !self.is_enabled() {
            return reply(None);
        }
        let opens = Arc::clone(&self.inodes.entry(ino).or_default());
        let mut opens = opens.lock();
        let backing = match (file, opens.backing.upgrade()) {
            (None, _) => None,
            (Some(_), Some(backing)) => Some(backing),
            (Some(_), None) if opens.plain > 0 => None,
            (Some(file), None) => register(file).map(Arc::new).inspect_err(warn).ok(),
        };
        match &backing {
            Some(backing) => opens.backing = Arc::downgrade(backing),
            None => opens.plain += 1,
        }
        self.open.insert(fh.0, (ino, backing.clone()));
        reply(backing.as_deref());
    }

    /// Opens `ino`, which has no file any more: calls `reply` with the backing id of those who have
    /// it open with passthrough, or with none if there are none.
    pub(super) fn join(&self, ino: Ino, fh: Fh, reply: impl FnOnce(Option<&BackingId>)) {
        if !self.is_enabled() {
            return reply(None);
        }
        let opens = Arc::clone(&self.inodes.entry(ino).or_default());
        let mut opens = opens.lock();
        let backing = opens.backing.upgrade();
        if backing.is_none() {
            opens.plain += 1;
        }
        self.open.insert(fh.0, (ino, backing.clone()));
        reply(backing.as_deref());
    }

    /// Notes that a file is closed.
    pub(super) fn release(&self, fh: Fh) {
        let Some((_, (ino, backing))) = self.open.remove(&fh.0) else { return };
        if backing.is_none()
            && let Some(opens) = self.inodes.get(&ino)
        {
            opens.lock().plain -= 1;
        }
        drop(backing);
        self.inodes.remove_if(&ino, |_, opens| {
            Arc::strong_count(opens) == 1
                && opens
                    .try_lock()
                    .is_some_and(|opens| opens.plain == 0 && opens.backing.strong_count() == 0)
        });
    }
}

fn warn(error: &io::Error) {
    tracing::warn!(%error, "passthrough failed for a file: the daemon reads it");
}
