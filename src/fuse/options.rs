//! The options of a mount.

use std::sync::Arc;

use crate::Processes;
use crate::closing_thread::ProcFs;
use ctxfs_engine::Confinement;

/// The changes that a look at a file through the mount may miss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coherence {
    /// A change that another process has just made in the store, for a moment.
    #[default]
    Relaxed,
    /// Nothing: each look asks the store.
    Strict,
}

/// The options of a mount, beside those of the engine.
#[derive(Debug, Clone)]
pub struct FsOptions {
    /// True if sealed artifacts cannot be changed.
    pub write_once: bool,
    /// True if directories list `X.summary`, `X.tail` and `X.grep`. Otherwise these are only found
    /// by name.
    pub list_views: bool,
    /// The changes that a look may miss.
    pub coherence: Coherence,
    /// The permission bits of the root directory.
    pub root_mode: u16,
    /// Access to other processes, to learn how a writer ended.
    pub processes: Arc<dyn Processes>,
    /// The confinement of this process, for `.ctxfs/status.json`.
    pub confinement: Confinement,
}

impl Default for FsOptions {
    fn default() -> Self {
        Self {
            write_once: false,
            list_views: true,
            coherence: Coherence::default(),
            root_mode: 0o755,
            processes: Arc::new(ProcFs),
            confinement: Confinement::default(),
        }
    }
}
