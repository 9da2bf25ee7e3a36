//! The plan of a mount: everything its server is told.

use std::path::PathBuf;
use std::sync::Arc;

use crate::settings::Settings;
use ctxfs_engine::EngineOptions;
use ctxfs_store::conversation_path;

/// The plan of a mount.
#[derive(Debug, Clone)]
pub(super) struct MountPlan {
    /// The store, absolute.
    pub(super) store: PathBuf,
    /// The mountpoint, absolute.
    pub(super) target: PathBuf,
    /// True if other users may enter.
    pub(super) allow_other: bool,
    /// True if reads may go directly to the store's files.
    pub(super) passthrough: bool,
    /// The options of the engine, with the conversation if there is only one.
    pub(super) engine: EngineOptions,
    /// All other settings.
    pub(super) settings: Arc<Settings>,
}

impl MountPlan {
    /// Returns the directory that the mount shows, which is its source in the mount table.
    pub(super) fn source(&self) -> PathBuf {
        let conversation = self.engine.only.as_ref().map(|id| conversation_path(&self.store, id));
        conversation.unwrap_or_else(|| self.store.clone())
    }
}
