//! Combines several servers, or offers one server through the light index. The gateway answers the
//! client itself.
//!
//! | module | content |
//! |---|---|
//! | `introduction` | introduces the client to the servers |
//! | `catalog` | the lists of a server |
//! | `route` | finds the server for a request |
//! | `answer` | answers on behalf of all servers |
//! | `index_tools`, `batch` | the light index and its batches |
//! | `survey` | what servers offer, without a client |

pub(crate) mod answer;
pub(crate) mod batch;
pub(crate) mod catalog;
pub(crate) mod index_tools;
pub(crate) mod introduction;
pub(crate) mod route;
pub(crate) mod survey;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};

use crate::context;
use crate::held::HeldCalls;
use crate::hub::batch::RunningBatch;
use crate::hub::catalog::{Catalog, Rows};
use crate::index::Index;
use crate::lists::ListKind;
use crate::options::{IndexOptions, Offer};
use crate::permission::decision::SessionAllowances;
use crate::tool_name::{ServerPrefixes, ServerTool, ToolNames};

// Maximum number of server questions that wait until the client is ready.
const MAX_EARLY: usize = 16;
// The tools of index mode. The first describes tools; the second calls them.
pub(crate) const DETAILS: &str = "get_tool_details";
pub(crate) const BATCH: &str = "run_tool_batch";
const INDEX_TOOLS: [&str; 2] = [DETAILS, BATCH];

/// The servers behind a gateway that answers the client itself. The hub stores each server's
/// handshake result and lists, and the offered names of tools and prompts.
///
/// The client's first request introduces the client to the servers. A server may complete its
/// introduction at any later time. `ready` becomes true once servers may send requests to the
/// client.
pub(crate) struct Hub {
    servers: Vec<KnownServer>,
    pub(crate) index: Option<IndexMode>,
    session: Mutex<HubSession>,
    pub(crate) ready: watch::Sender<bool>,
    early: Semaphore,
    names: Mutex<NameCache>,
}

struct KnownServer {
    name: String,
    offer: Offer,
    introduced: watch::Sender<Option<Arc<ServerFacts>>>,
    failure: Mutex<Option<String>>,
    catalog: Catalog,
}

/// The introduction of the client to the servers. `parameters` are the parameters of `initialize`
/// for the servers. The first answer to the client waits for the servers; `is_introduced` is true
/// once this wait is over. A server that is introduced later is announced by notifications.
#[derive(Default)]
struct HubSession {
    parameters: Option<String>,
    is_introduced: bool,
}

impl Hub {
    pub(crate) fn new(servers: Vec<(String, Offer)>, index: Option<IndexMode>) -> Self {
        let server = |(name, offer)| KnownServer {
            name,
            offer,
            introduced: watch::Sender::new(None),
            failure: Mutex::default(),
            catalog: Catalog::default(),
        };
        Self {
            servers: servers.into_iter().map(server).collect(),
            index,
            session: Mutex::default(),
            ready: watch::Sender::new(false),
            early: Semaphore::new(MAX_EARLY),
            names: Mutex::default(),
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.session.lock().is_introduced
    }

    /// Waits until the client is ready. Returns false if too many questions are waiting.
    pub(crate) async fn until_ready(&self) -> bool {
        if *self.ready.borrow() {
            return true;
        }
        let Ok(_place) = self.early.try_acquire() else { return false };
        self.ready.subscribe().wait_for(|ready| *ready).await.is_ok()
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Returns true if changes of a list are announced to the client. In index mode, the list of
    /// tools never changes.
    fn announces(&self, kind: ListKind) -> bool {
        self.index.is_none() || kind != ListKind::Tools
    }

    pub(crate) fn announces_list(&self, list: &str) -> bool {
        self.index.is_none() || list != ListKind::Tools.capability()
    }

    fn introduced(&self, server: usize) -> Option<Arc<ServerFacts>> {
        self.servers[server].introduced.borrow().clone()
    }
}

/// A cache of the offered names of tools and prompts, cleared when a list changes. `version` counts
/// the changes, so that names computed from an outdated list are not stored.
#[derive(Default)]
struct NameCache {
    tools: Option<Arc<ToolNames>>,
    prompts: Option<Arc<ToolNames>>,
    version: u64,
}

impl NameCache {
    pub(crate) fn forget(&mut self) {
        *self = Self { version: self.version + 1, ..Self::default() };
    }

    fn of(&mut self, kind: ListKind) -> &mut Option<Arc<ToolNames>> {
        if kind == ListKind::Tools { &mut self.tools } else { &mut self.prompts }
    }
}

impl Hub {
    fn lists(&self, kind: ListKind) -> impl Iterator<Item = (usize, Rows)> {
        let known = self.servers.iter().enumerate();
        let known = known.filter(|(_, server)| server.introduced.borrow().is_some());
        known.map(move |(index, server)| (index, server.catalog.rows(kind)))
    }

    fn offered_names(&self, kind: ListKind) -> Arc<ToolNames> {
        let version = {
            let mut names = self.names.lock();
            if let Some(known) = names.of(kind) {
                return Arc::clone(known);
            }
            names.version
        };
        let is_tool = kind == ListKind::Tools;
        let mut named = Vec::new();
        for (server, rows) in self.lists(kind) {
            let KnownServer { name, offer, .. } = &self.servers[server];
            for row in rows.iter().filter(|row| !is_tool || offer.tools.offers(&row.key)) {
                let true_name = ServerTool { server: name.clone(), tool: row.key.clone() };
                named.push((true_name, offer.naming.clone()));
            }
        }
        let reserved =
            if is_tool { [&context::NAMES[..], &INDEX_TOOLS].concat() } else { Vec::new() };
        let configured = self.servers.iter();
        let configured = configured.map(|server| (&*server.name, &server.offer.naming));
        let prefixes = ServerPrefixes::of(configured);
        let made = Arc::new(ToolNames::new(named, &reserved, &prefixes));
        let mut names = self.names.lock();
        if names.version == version {
            *names.of(kind) = Some(Arc::clone(&made));
        }
        made
    }
}

/// The state of index mode in a session.
///
/// `built` is the current index with the version of the names that it was built from. `start` is
/// the index that the client got at the start. `remembered` holds the tools that the user has
/// allowed, and `held` the batches that wait for the client.
pub(crate) struct IndexMode {
    pub(crate) options: IndexOptions,
    built: Mutex<Option<(u64, Arc<Index>)>>,
    start: OnceLock<Arc<Index>>,
    pub(crate) remembered: Mutex<SessionAllowances>,
    pub(crate) held: Arc<HeldCalls<RunningBatch>>,
}

impl IndexMode {
    pub(crate) fn new(options: IndexOptions, random: [u8; 32]) -> Self {
        Self {
            options,
            built: Mutex::default(),
            start: OnceLock::new(),
            remembered: Mutex::default(),
            held: HeldCalls::new(random),
        }
    }
}

/// A server's description of itself from its introduction. `unlisted` holds the reasons why lists
/// that the server declares could not be fetched.
#[derive(Debug, Default)]
pub(crate) struct ServerFacts {
    pub(crate) capabilities: Map<String, Value>,
    pub(crate) instructions: Option<String>,
    pub(crate) unlisted: Vec<String>,
}

impl ServerFacts {
    pub(crate) fn lists(&self, kind: ListKind) -> bool {
        self.capabilities.contains_key(kind.capability())
    }
}
