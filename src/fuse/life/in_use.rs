//! The part of a life that only a file in use has: one that is open, not sealed, or without a name.

use std::fs::File;
use std::sync::Weak;
use std::time::Instant;

use crate::closing_thread::ClosingThread;
use ctxfs_core::model::{Component, RelPath};

/// What a file at rest has not. A mount holds a life for each file that the kernel knows, and most
/// are at rest.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// The number of lives that began since it was last sealed. Each is a generation, even if it
    /// was not sealed in between.
    pub(super) lives: u64,
    /// The generation that the manifest has recorded as live in this life.
    pub(super) noted: Option<NotedGeneration>,
    /// The place of [`Home`](super::Home).
    pub(super) home: Option<Box<(Component, RelPath)>>,
    /// Sealed bytes that are not counted yet.
    pub(super) uncounted: u64,
    /// The time at which a descriptor that can write was last closed. There may be others.
    pub(super) last_close: Option<Instant>,
    /// The thread that closed it, until sealing has looked up how that thread ended.
    pub(super) closed_by: Option<Box<ClosingThread>>,
    /// The reason why the artifact may lack its end.
    pub(super) trouble: Option<Box<str>>,
    /// Open descriptors, for a file that has lost its name.
    pub(super) open: Vec<Weak<File>>,
    /// The conversation that it was in when it lost its name.
    pub(super) charged_to: Option<Box<Component>>,
}

/// A generation, and the value of [`InUse::lives`] when it was recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotedGeneration {
    pub(super) generation: u64,
    pub(super) lives: u64,
}

impl InUse {
    /// Drops the descriptors that are closed.
    pub(super) fn drop_closed(&mut self) {
        self.open.retain(|open| open.strong_count() > 0);
    }

    /// Returns true if nothing of it is needed by a file that is sealed and has no writer.
    pub(super) fn is_over(&self) -> bool {
        self.uncounted == 0
            && self.closed_by.is_none()
            && self.trouble.is_none()
            && self.open.is_empty()
            && self.charged_to.is_none()
    }
}
