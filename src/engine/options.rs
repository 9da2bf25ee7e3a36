//! The options of the engine, set when it is created.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crate::Redaction;
use ctxfs_core::model::{
    Component, FarStore, Limits, LimitsByTool, OtherHosts, Place, RelPath, Root,
};
use ctxfs_models::extract::Models;
use ctxfs_store::keep::RetentionRules;
use ctxfs_store::message::OtherMessages;

/// The longest time that a view takes. A build for tests, which is many times slower, has more:
/// what it shows of a small file should not depend on what else the machine does.
const VIEW_DEADLINE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 5 });

/// The options of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The root of the tree as its readers name it, such as `/ctx`. Views print it.
    pub prefix: String,
    /// The only conversation that this door shows, as its root. If `None`, the root holds all
    /// conversations.
    pub only: Option<Component>,
    /// True if users other than the one who serves may ask: a text then has only what its reader
    /// may read.
    pub allow_other: bool,
    /// True if no output that is complete may be replaced.
    pub write_once: bool,
    /// The most bytes of one artifact.
    pub max_artifact: Option<u64>,
    /// The most bytes of one log in `artifacts/terminal`, if that is less.
    pub max_terminal: Option<u64>,
    /// The most bytes of all artifacts of one conversation.
    pub quota: Option<u64>,
    /// The rules for removing old outputs. Empty by default.
    pub keep: RetentionRules,
    /// The bytes that must stay free on the store's disk.
    pub min_free: u64,
    /// The time after which a view stops and shows the part that it has.
    pub view_deadline: Duration,
    /// The bytes of views that are kept in memory for the next reader.
    pub kept_views: u64,
    /// The limits on texts that go into a model's context.
    pub limits: Arc<dyn LimitsByTool>,
    /// The secrets to mask. If `None`, nothing is masked.
    pub redaction: Option<Redaction>,
    /// The program, with arguments, that runs a jq filter (`view::run_filter`) in a process with
    /// limits. If `None`, no filter runs.
    pub filter_command: Option<Vec<OsString>>,
    /// The most bytes of views that are kept on the store's disk for the next reader.
    pub disk_cache_bytes: u64,
    /// The language models that answer questions about outputs.
    pub models: Arc<Models>,
    /// What other hosts said in the conversations. If `None`, the logs of this host are all.
    pub other_messages: Option<Arc<dyn OtherMessages>>,
    /// Where the bytes are of artifacts that are not on this disk. If `None`, they cannot be read.
    /// Otherwise hosts share the conversations, and what goes from one to another is copied.
    pub far: Option<Arc<dyn FarStore>>,
    /// The hosts that share the conversations: they are told what is done here, and asked for names
    /// that nothing has here. If `None`, this host is alone.
    pub other_hosts: Option<Arc<dyn OtherHosts>>,
    /// The descriptors to divide between all uses. If `None`, as many as the process may have
    /// (`RLIMIT_NOFILE`) when the engine is created.
    pub descriptors: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            prefix: "/ctx".to_owned(),
            only: None,
            allow_other: false,
            write_once: false,
            max_artifact: None,
            max_terminal: Some(1 << 30),
            quota: None,
            keep: RetentionRules::default(),
            min_free: 64 * 1024 * 1024,
            view_deadline: VIEW_DEADLINE,
            kept_views: 2 * 1024 * 1024,
            limits: Arc::new(Limits::default()),
            redaction: None,
            filter_command: None,
            disk_cache_bytes: 1 << 30,
            models: Arc::default(),
            other_messages: None,
            far: None,
            other_hosts: None,
            descriptors: None,
        }
    }
}

impl EngineOptions {
    /// Returns the root of the tree as its readers name it.
    pub fn root(&self) -> Root {
        let prefix = self.prefix.clone();
        if self.only.is_some() { Root::One(prefix) } else { Root::All(prefix) }
    }

    /// Returns the place of the file at `path` in the conversation `id`, as its readers name it.
    pub fn place(&self, id: &Component, path: &RelPath) -> Place {
        Place::below(&self.root(), &id.to_text(), path)
    }
}
