//! The plan of a mount: everything its server is told.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::settings::Settings;
use crate::fs::Redaction;
use crate::model::Component;
use crate::store::conversation_path;

/// All that a server is told.
#[derive(Debug, Clone)]
pub(super) struct MountPlan {
    /// The store, absolute.
    pub(super) store: PathBuf,
    /// The conversation that is mounted alone.
    pub(super) only: Option<Component>,
    /// The mountpoint, absolute.
    pub(super) target: PathBuf,
    /// The mountpoint as readers see it.
    pub(super) prefix: String,
    /// Whether other users may enter.
    pub(super) allow_other: bool,
    /// Whether reads may pass the server by.
    pub(super) passthrough: bool,
    /// What is done about secrets.
    pub(super) redaction: Option<Redaction>,
    /// The rest.
    pub(super) settings: Arc<Settings>,
}

impl MountPlan {
    /// The directory that shows in the mount: what the mount table names.
    pub(super) fn source(&self) -> PathBuf {
        let conversation = self.only.as_ref().map(|id| conversation_path(&self.store, id));
        conversation.unwrap_or_else(|| self.store.clone())
    }
}
