//! Letting the kernel read the store's files by itself.
//!
//! The kernel wants one backing object per inode while any file of it is open so, and refuses to
//! mix this with other ways of opening; see Documentation/filesystems/fuse-passthrough.rst and
//! `fs/fuse/iomode.c`. So an inode is opened one way at a time, and all opens of it share one id.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use dashmap::DashMap;
use fuser::BackingId;

use crate::fs::Fh;
use crate::fs::Ino;

/// Which inodes are open in passthrough.
#[derive(Debug, Default)]
pub(super) struct Passthrough {
    offered: AtomicBool,
    enabled: AtomicBool,
    inodes: DashMap<Ino, Arc<Mutex<Way>>>,
    open: DashMap<u64, (Ino, Option<Arc<BackingId>>)>,
}

/// How an inode is open now.
#[derive(Debug, Default)]
struct Way {
    backing: Weak<BackingId>,
    /// Files of it that are open without passthrough.
    plain: u32,
}

impl Passthrough {
    /// The kernel can do it.
    pub(super) fn offer(&self) {
        self.offered.store(true, Relaxed);
    }

    pub(super) fn is_offered(&self) -> bool {
        self.offered.load(Relaxed)
    }

    /// It has been tried, and works.
    pub(super) fn enable(&self) {
        self.enabled.store(true, Relaxed);
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Finds the id of `ino`, registering `file` by `register` where there is none, and lets
    /// `reply` answer the kernel with it, or without one where passthrough is not to be had.
    ///
    /// The inode is held meanwhile: of two opens at once, the second must find the first one's id.
    pub(super) fn open(
        &self,
        ino: Ino,
        fh: Fh,
        file: &File,
        register: impl FnOnce(&File) -> io::Result<BackingId>,
        reply: impl FnOnce(Option<&BackingId>),
    ) {
        if !self.is_enabled() {
            return reply(None);
        }
        let way = Arc::clone(&self.inodes.entry(ino).or_default());
        let mut way = way.lock().unwrap_or_else(PoisonError::into_inner);
        let backing = match way.backing.upgrade() {
            Some(backing) => Some(backing),
            None if way.plain > 0 => None,
            None => register(file).map(Arc::new).inspect_err(warn).ok(),
        };
        match &backing {
            Some(backing) => way.backing = Arc::downgrade(backing),
            None => way.plain += 1,
        }
        self.open.insert(fh.0, (ino, backing.clone()));
        reply(backing.as_deref());
    }

    /// A file is closed.
    pub(super) fn release(&self, fh: Fh) {
        let Some((_, (ino, backing))) = self.open.remove(&fh.0) else { return };
        if backing.is_none()
            && let Some(way) = self.inodes.get(&ino)
        {
            way.lock().unwrap_or_else(PoisonError::into_inner).plain -= 1;
        }
        drop(backing);
        self.inodes.remove_if(&ino, |_, way| {
            Arc::strong_count(way) == 1
                && way.try_lock().is_ok_and(|w| w.plain == 0 && w.backing.strong_count() == 0)
        });
    }
}

fn warn(error: &io::Error) {
    tracing::warn!(%error, "passthrough failed for a file, which is read through the daemon");
}
