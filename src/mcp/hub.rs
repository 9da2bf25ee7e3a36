//! Several servers, or one with a light index, behind a gateway that answers the client itself.
//!
//! | module | content |
//! |---|---|
//! | `introduction` | introduces the client to the servers |
//! | `catalog` | the lists of a server |
//! | `route` | finds the server of a request |
//! | `answer` | answers for all servers |
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
use crate::held::{BoundedTable, HeldKey};
use crate::hub::batch::RunningBatch;
use crate::hub::catalog::{Catalog, CatalogKind, Rows};
use crate::index::Index;
use crate::options::{IndexOptions, Offer};
use crate::permission::decision::SessionAllowances;
use crate::tool_name::{ServerTool, ToolNames};

// Batches held at a time. The oldest gives way to a new one.
const MAX_HELD_BATCHES: usize = 64;

// Questions of servers that wait until the client is ready.
const MAX_EARLY: usize = 16;
// The tools of index mode: one describes tools, the other calls them.
pub(crate) const DETAILS: &str = "get_tool_details";
pub(crate) const BATCH: &str = "run_tool_batch";
const INDEX_TOOLS: [&str; 2] = [DETAILS, BATCH];

/// The servers behind a gateway that answers the client itself: what each server said of itself,
/// its lists, and the offered names of tools and prompts.
///
/// Servers are introduced to the client at its first request and may become known at any time
/// after. `ready` is true once servers may ask the client.
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

/// The parameters of `initialize` for the servers, and whether the client was told what the servers
/// are. A server that comes later is announced.
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

    /// Waits until the client is ready. Returns false if too many wait.
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

    /// Returns true if the client is told of changes of a list. In index mode the list of tools is
    /// fixed.
    fn announces(&self, kind: CatalogKind) -> bool {
        self.index.is_none() || kind != CatalogKind::Tools
    }

    pub(crate) fn announces_list(&self, list: &str) -> bool {
        self.index.is_none() || list != CatalogKind::Tools.capability()
    }

    fn introduced(&self, server: usize) -> Option<Arc<ServerFacts>> {
        self.servers[server].introduced.borrow().clone()
    }
}

/// Offered names of tools and of prompts, kept until a list changes. `version` counts the changes,
/// so that names made from an old list are not kept.
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

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    fn of(&mut self, kind: CatalogKind) -> &mut Option<Arc<ToolNames>> {
        if kind == CatalogKind::Tools { &mut self.tools } else { &mut self.prompts }
    }
}

impl Hub {
    fn lists(&self, kind: CatalogKind) -> impl Iterator<Item = (usize, Rows)> {
        let known = self.servers.iter().enumerate();
        let known = known.filter(|(_, server)| server.introduced.borrow().is_some());
        known.map(move |(index, server)| (index, server.catalog.rows(kind)))
    }

    fn offered_names(&self, kind: CatalogKind) -> Arc<ToolNames> {
        let version = {
            let mut names = self.names.lock();
            if let Some(known) = names.of(kind) {
                return Arc::clone(known);
            }
            names.version
        };
        let is_tool = kind == CatalogKind::Tools;
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
        let made = Arc::new(ToolNames::new(named, &reserved));
        let mut names = self.names.lock();
        if names.version == version {
            *names.of(kind) = Some(Arc::clone(&made));
        }
        made
    }
}

/// The state of index mode in a session: the current index by the version of the names, the index
/// of the start, which the client was told, allowances of the user, and held batches.
pub(crate) struct IndexMode {
    pub(crate) options: IndexOptions,
    built: Mutex<Option<(u64, Arc<Index>)>>,
    start: OnceLock<Arc<Index>>,
    pub(crate) remembered: Mutex<SessionAllowances>,
    pub(crate) key: HeldKey,
    pub(crate) held: Mutex<BoundedTable<RunningBatch>>,
}

impl IndexMode {
    pub(crate) fn new(options: IndexOptions, random: [u8; 32]) -> Self {
        Self {
            options,
            built: Mutex::default(),
            start: OnceLock::new(),
            remembered: Mutex::default(),
            key: HeldKey::new(random),
            held: Mutex::new(BoundedTable::new(MAX_HELD_BATCHES)),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct ServerFacts {
    pub(crate) capabilities: Map<String, Value>,
    pub(crate) instructions: Option<String>,
    pub(crate) unlisted: Vec<String>,
}

impl ServerFacts {
    pub(crate) fn lists(&self, kind: CatalogKind) -> bool {
        self.capabilities.contains_key(kind.capability())
    }
}
