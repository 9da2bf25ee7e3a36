//! The options of the engine, the division of file descriptors, and the confinement of its process.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Resource;
use serde::Serialize;

use crate::Redaction;
use ctxfs_core::model::{
    Component, FarStore, Limits, LimitsByTool, OtherHosts, Place, RelPath, Root,
};
use ctxfs_core::redact::SecretRules;
use ctxfs_models::extract::Models;
use ctxfs_store::keep::RetentionRules;
use ctxfs_store::message::OtherMessages;

/// The default deadline of views. Debug builds are many times slower, so they have a longer
/// deadline. It keeps the views of small files complete in tests on a busy machine.
const VIEW_DEADLINE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 5 });

/// The options of an engine, fixed when it is created.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The root of the tree as readers see it, such as `/ctx`. Views print paths below it.
    pub root: Root,
    /// The only conversation that this door shows. The root of the tree is then the directory of
    /// this conversation. If `None`, the root holds all conversations.
    pub only: Option<Component>,
    /// True if other users may read the tree. A text then contains only what its reader may read.
    pub allow_other: bool,
    /// True if a complete output may not be replaced.
    pub write_once: bool,
    pub max_artifact: Option<u64>,
    /// Maximum number of bytes of a log in `artifacts/terminal`. `max_artifact` limits such a log
    /// as well.
    pub max_terminal: Option<u64>,
    /// Maximum number of bytes of all files of a conversation.
    pub quota: Option<u64>,
    /// The rules for removing old outputs. Empty by default.
    pub keep: RetentionRules,
    /// Number of bytes that must stay free on the store's disk.
    pub min_free: u64,
    /// The time after which a view stops and shows the part that is computed.
    pub view_deadline: Duration,
    /// Maximum number of bytes of views kept in memory for later readers.
    pub kept_views: u64,
    /// The limits on texts that are put into a model's context.
    pub limits: Arc<dyn LimitsByTool>,
    /// The secrets to mask. If `None`, nothing is masked.
    pub redaction: Option<Redaction>,
    /// The program and arguments that run a jq filter (`view::run_filter`) in a process with
    /// limits. If `None`, no filter runs.
    pub filter_command: Option<Vec<OsString>>,
    /// Maximum number of bytes of views kept on the store's disk for later readers.
    pub disk_cache_bytes: u64,
    /// The language models that answer questions about outputs.
    pub models: Arc<Models>,
    /// Messages that other hosts have published. If `None`, message logs contain only the messages
    /// of this host.
    pub other_messages: Option<Arc<dyn OtherMessages>>,
    /// The source of the bytes of remote artifacts. If `None`, remote artifacts cannot be read. If
    /// set, hosts share the conversations, and a move between two conversations copies the bytes.
    pub far: Option<Arc<dyn FarStore>>,
    /// The hosts that share the conversations. The engine notifies them of changes, and requests
    /// names from them that this host does not have. If `None`, no other host shares the
    /// conversations.
    pub other_hosts: Option<Arc<dyn OtherHosts>>,
    /// The number of file descriptors to divide between all uses. If `None`, this is the limit that
    /// the process has (`RLIMIT_NOFILE`) when the engine is created.
    pub descriptors: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            root: Root::All("/ctx".to_owned()),
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
    /// Returns the place of the file at `path` in the conversation `id`, as seen by readers.
    pub fn place(&self, id: &Component, path: &RelPath) -> Place {
        Place::below(&self.root, &id.to_text(), path)
    }

    /// Returns the secrets to mask in stored files, if they are masked.
    pub fn stored_rules(&self) -> Option<&SecretRules> {
        let redaction = self.redaction.as_ref().filter(|redaction| redaction.stored);
        redaction.map(|redaction| &*redaction.rules)
    }
}

/// Maximum number of descriptors reserved for the work of the server itself: to record and analyse
/// written files, to search, and to compute views.
const OWN: usize = 512;
const DIRS: usize = 4096;
/// Maximum number of conversations whose manifests stay indexed in memory. Each takes two
/// descriptors.
const CONVERSATIONS: usize = 64;
/// Maximum number of texts on disk that stay open for later readers.
const TEXTS: usize = 64;
/// Maximum number of searched directories that stay watched. Each takes one of the user's 128
/// inotify instances, and one or two MiB of kernel memory if much is written between two searches.
const WATCHED: usize = 16;

/// The maximum number of descriptors for each use. The sum is within the limit of the process, so
/// that no use starves another.
///
/// - `handles`: files and directories that clients have open
/// - `dirs`: directories that the mount holds open, so that names in them are found quickly
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorBudget {
    pub handles: u64,
    pub dirs: usize,
    pub(crate) conversations: usize,
    pub(crate) texts: usize,
    pub(crate) watched: usize,
}

impl DescriptorBudget {
    /// Divides `most` descriptors. If `most` is `None`, divides the limit of this process.
    pub fn new(most: Option<u64>) -> Self {
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

/// The confinement of the server. Each limit is tried out after it was requested, so the fields
/// show the limits that hold.
///
/// `.ctxfs/status.json` shows the confinement, and `ctxfs doctor` reads it from there.
///
/// - `landlock`: the version of Landlock, if the kernel supports Landlock and the server uses it
/// - `files`: true if the server can open only the files that it needs
/// - `network`: true if the server can neither bind nor connect to a TCP port
/// - `signals`: true if the server can send signals only to its own process
/// - `no_new_privileges`: true if programs that the server starts cannot gain privileges
/// - `capabilities`: the capabilities of the server. Child processes could inherit these.
/// - `memory`: true if the server's memory is excluded from core files and cannot be read by other
///   processes of the same user
#[expect(clippy::struct_excessive_bools, reason = "independent limits, shown one by one")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Confinement {
    pub landlock: Option<i32>,
    pub files: bool,
    pub network: bool,
    pub signals: bool,
    pub no_new_privileges: bool,
    pub capabilities: Vec<String>,
    pub memory: bool,
}

impl Confinement {
    /// Returns true if all limits of Landlock hold and no privileges can be gained.
    pub fn is_complete(&self) -> bool {
        self.files && self.network && self.signals && self.no_new_privileges
    }
}
