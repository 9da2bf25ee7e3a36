//! The options of the engine, how it divides descriptors, and how its process is confined.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Resource;
use serde::Serialize;

use crate::Redaction;
use ctxfs_core::model::{
    Component, FarStore, Limits, LimitsByTool, OtherHosts, Place, RelPath, Root,
};
use ctxfs_models::extract::Models;
use ctxfs_store::keep::RetentionRules;
use ctxfs_store::message::OtherMessages;

/// Debug builds are many times slower. A longer deadline keeps the views of small files whole in
/// tests on a busy machine.
const VIEW_DEADLINE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 5 });

/// The options of an engine, fixed when it is created.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The root of the tree as readers name it, such as `/ctx`. Views print it.
    pub prefix: String,
    /// The only conversation that this door shows, as its root. If `None`, the root holds all
    /// conversations.
    pub only: Option<Component>,
    /// True if other users may read the tree: a text then contains only what its reader may read.
    pub allow_other: bool,
    /// True if a complete output may not be replaced.
    pub write_once: bool,
    /// Bytes of one artifact, at most.
    pub max_artifact: Option<u64>,
    /// Bytes of one log in `artifacts/terminal`, at most. `max_artifact` applies, too.
    pub max_terminal: Option<u64>,
    /// Bytes of all files of one conversation, at most.
    pub quota: Option<u64>,
    /// The rules for removing old outputs. Empty by default.
    pub keep: RetentionRules,
    /// The bytes that must stay free on the store's disk.
    pub min_free: u64,
    /// The time after which a view stops and shows the part that it has.
    pub view_deadline: Duration,
    /// Bytes of views to keep in memory for the next reader.
    pub kept_views: u64,
    /// The limits on texts that go into a model's context.
    pub limits: Arc<dyn LimitsByTool>,
    /// The secrets to mask. If `None`, nothing is masked.
    pub redaction: Option<Redaction>,
    /// The program, with arguments, that runs a jq filter (`view::run_filter`) in a process with
    /// limits. If `None`, no filter runs.
    pub filter_command: Option<Vec<OsString>>,
    /// Bytes of views to keep on the store's disk for the next reader.
    pub disk_cache_bytes: u64,
    /// The language models that answer questions about outputs.
    pub models: Arc<Models>,
    /// Messages that other hosts published. If `None`, message logs have those of this host only.
    pub other_messages: Option<Arc<dyn OtherMessages>>,
    /// The source of the bytes of artifacts that are not on this disk. If `None`, they cannot be
    /// read. With one, hosts share the conversations, and a move between two of them copies.
    pub far: Option<Arc<dyn FarStore>>,
    /// The hosts that share the conversations. They are told of changes, and asked for names that
    /// this host does not have. If `None`, this host is alone.
    pub other_hosts: Option<Arc<dyn OtherHosts>>,
    /// The descriptors to divide between all uses. If `None`, the limit of the process
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
    /// Returns the root of the tree as readers name it.
    pub fn root(&self) -> Root {
        let prefix = self.prefix.clone();
        if self.only.is_some() { Root::One(prefix) } else { Root::All(prefix) }
    }

    /// Returns the place of the file at `path` in the conversation `id`, as readers name it.
    pub fn place(&self, id: &Component, path: &RelPath) -> Place {
        Place::below(&self.root(), &id.to_text(), path)
    }
}

/// Descriptors reserved for the server's own work: recording and analysing writes, searches, views.
const OWN: usize = 512;
/// Directories that a mount holds open.
const DIRS: usize = 4096;
/// Conversations whose manifests stay indexed in memory, with two descriptors each.
const CONVERSATIONS: usize = 64;
/// Texts on disk that stay open for the next reader.
const TEXTS: usize = 64;
/// Searched directories that stay watched. Each costs one of the user's 128 inotify instances, and
/// the kernel a MiB or two of queue if much is written between two searches.
const WATCHED: usize = 16;

/// The maximum number of descriptors for each use. Their sum is within the limit of the process, so
/// that no use starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorBudget {
    /// Files and directories that clients have open.
    pub handles: u64,
    /// Directories that the mount holds open to find names in them quickly.
    pub dirs: usize,
    pub(crate) conversations: usize,
    pub(crate) texts: usize,
    pub(crate) watched: usize,
}

impl DescriptorBudget {
    /// Divides `most` descriptors; without a number, the limit of this process.
    pub(crate) fn new(most: Option<u64>) -> Self {
        let most = most.or_else(|| rustix::process::getrlimit(Resource::Nofile).current);
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let own = (most / 2).min(OWN);
        let dirs = (most / 8).clamp(1, DIRS);
        Self {
            handles: (most - own - dirs) as u64,
            dirs,
            conversations: (own / 8).clamp(1, CONVERSATIONS),
            texts: (own / 8).clamp(1, TEXTS),
            watched: (own / 32).clamp(1, WATCHED),
        }
    }
}

/// The confinement of the server, found by trying each limit after asking for it.
///
/// `.ctxfs/status.json` shows it, and `ctxfs doctor` reads it there.
#[expect(clippy::struct_excessive_bools, reason = "independent limits, shown one by one")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Confinement {
    /// The version of Landlock, if the kernel has it and the server uses it.
    pub landlock: Option<i32>,
    /// True if only the files that serving needs can be opened.
    pub files: bool,
    /// True if no TCP port can be bound or connected to.
    pub network: bool,
    /// True if the server can signal no process but its own.
    pub signals: bool,
    /// True if no program that the server starts can gain privileges.
    pub no_new_privileges: bool,
    /// The capabilities of the server, which its children could get.
    pub capabilities: Vec<String>,
    /// True if the server's memory goes to no core file and is closed to other processes of its
    /// user.
    pub memory: bool,
}

impl Confinement {
    /// Returns true if every limit of Landlock holds, and no privileges can be gained.
    pub fn is_complete(&self) -> bool {
        self.files && self.network && self.signals && self.no_new_privileges
    }
}
