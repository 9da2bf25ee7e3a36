//! Passthrough: the kernel reads the store's files directly.
//!
//! While an inode is open in passthrough, the kernel demands that all its opens use one backing
//! object, and refuses opens in other modes. See Documentation/filesystems/fuse-passthrough.rst and
//! `fs/fuse/iomode.c`. An inode is therefore open in one mode at a time, and all opens of it share
//! one backing id.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use dashmap::DashMap;
use fuser::BackingId;
use parking_lot::Mutex;

use crate::{Fh, Ino};

/// All open files. `offered` is true if the kernel offers passthrough. `enabled` is true once the
/// kernel has granted it to the server.
#[derive(Debug, Default)]
pub(super) struct PassthroughFiles {
    pub(super) offered: AtomicBool,
    pub(super) enabled: AtomicBool,
    inodes: DashMap<Ino, Arc<Mutex<InodeOpens>>>,
    open: DashMap<u64, (Ino, Option<Arc<BackingId>>)>,
}

/// The opens of one inode: the backing id that all opens with passthrough share, and the number of
/// opens without passthrough.
#[derive(Debug, Default)]
struct InodeOpens {
    backing: Weak<BackingId>,
    plain: u32,
}

impl PassthroughFiles {
    /// Opens `ino` and calls `reply` with its backing id, or with `None` if this open has no
    /// passthrough. Calls `register` to create the id if the inode has none yet. If `file` is
    /// `None`, the open has no passthrough; the kernel then refuses to map the file for writing
    /// while other handles read it with passthrough (ENODEV).
    ///
    /// The inode stays locked until the reply is sent, because the second of two concurrent opens
    /// must find the id of the first.
    pub(super) fn open(
        &self,
        ino: Ino,
        fh: Fh,
        file: Option<&File>,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
        reply: impl FnOnce(Option<&BackingId>),
    ) {
        let backing = |opens: &InodeOpens| match (file, opens.backing.upgrade()) {
            (None, _) => None,
            (Some(_), Some(backing)) => Some(backing),
            (Some(_), None) if opens.plain > 0 => None,
            (Some(file), None) => register(file).map(Arc::new).inspect_err(warn).ok(),
        };
        self.open_with(ino, fh, backing, reply);
    }

    /// Opens `ino`, whose file is gone. Calls `reply` with the backing id of the handles that still
    /// have the inode open with passthrough, or with `None` if there are none.
    pub(super) fn join(&self, ino: Ino, fh: Fh, reply: impl FnOnce(Option<&BackingId>)) {
        self.open_with(ino, fh, |opens| opens.backing.upgrade(), reply);
    }

    fn open_with(
        &self,
        ino: Ino,
        fh: Fh,
        backing: impl FnOnce(&InodeOpens) -> Option<Arc<BackingId>>,
        reply: impl FnOnce(Option<&BackingId>),
    ) {
        if !self.enabled.load(Relaxed) {
            return reply(None);
        }
        let opens = Arc::clone(&self.inodes.entry(ino).or_default());
        let mut opens = opens.lock();
        let backing = backing(&opens);
        match &backing {
            Some(backing) => opens.backing = Arc::downgrade(backing),
            None => opens.plain += 1,
        }
        self.open.insert(fh.0, (ino, backing.clone()));
        reply(backing.as_deref());
    }

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
