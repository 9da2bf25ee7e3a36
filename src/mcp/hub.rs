//! The gateway as a server of its own, in front of several servers or with a light index: it answers
//! the client itself, and asks the servers for what it needs.
//!
//! `introduction` makes the servers known, `catalog` asks for what they list, `names` gives their
//! tools and prompts names, `route` finds the server of a request, `answer` makes the answers.

mod answer;
mod asking;
mod batch;
mod batch_call;
mod catalog;
mod index_file;
mod index_tools;
mod introduction;
mod listing;
mod names;
mod own_call;
mod route;
mod survey;
mod template;
mod weight;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::config::ToolFilter;
use crate::tool_name::Naming;

pub(super) use answer::{answer, answers, begin, begins, called};
pub(super) use index_tools::IndexMode;
pub use index_tools::IndexOptions;
pub(super) use introduction::changed;
pub(super) use route::{destination, server_of};
pub(super) use survey::survey;
pub use survey::{Survey, SurveyedOffer, SurveyedServer, SurveyedTool};

use catalog::{Catalog, CatalogKind};
use introduction::Introduced;
use names::Names;

/// The most questions of servers that wait until the client is ready.
const MOST_EARLY: usize = 16;

/// The part of a server's options that is about its tools.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The naming of its tools.
    pub naming: Naming,
    /// Which of them are offered.
    pub tools: ToolFilter,
    /// True if its annotations are believed.
    pub trust: bool,
}

/// The knowledge of several servers.
pub(super) struct Hub {
    servers: Vec<KnownServer>,
    /// Present in index mode.
    index: Option<IndexMode>,
    session: Mutex<HubSession>,
    /// True once the client has said that it is ready.
    ready: watch::Sender<bool>,
    /// Places for what servers ask before that.
    early: Semaphore,
    names: Mutex<Names>,
}

/// The knowledge of one server.
struct KnownServer {
    offer: Offer,
    /// What it said of itself, once it has.
    introduced: watch::Sender<Option<Arc<Introduced>>>,
    /// Why it has not, if that was tried.
    failure: Mutex<Option<String>>,
    catalog: Catalog,
}

#[derive(Default)]
struct HubSession {
    /// The parameters of `initialize` for the servers; `None` before the client's first message.
    parameters: Option<String>,
    /// True once the client was told what the servers are; who comes later is announced.
    is_told: bool,
}

impl Hub {
    /// Returns the hub of servers, in the order of the gateway's.
    pub(super) fn new(offers: Vec<Offer>, index: Option<IndexMode>) -> Self {
        let server = |offer| KnownServer {
            offer,
            introduced: watch::Sender::new(None),
            failure: Mutex::default(),
            catalog: Catalog::default(),
        };
        Self {
            servers: offers.into_iter().map(server).collect(),
            index,
            session: Mutex::default(),
            ready: watch::Sender::new(false),
            early: Semaphore::new(MOST_EARLY),
            names: Mutex::default(),
        }
    }

    /// Returns true once the client was told what the servers are.
    pub(super) fn has_begun(&self) -> bool {
        self.session.lock().is_told
    }

    /// Notes that the client is ready: servers may ask it from here on.
    pub(super) fn set_ready(&self) {
        self.ready.send_replace(true);
    }

    /// Waits until the client is ready. Not for too many at once: then it returns false.
    pub(super) async fn until_ready(&self) -> bool {
        if *self.ready.borrow() {
            return true;
        }
        let Ok(_place) = self.early.try_acquire() else { return false };
        self.ready.subscribe().wait_for(|ready| *ready).await.is_ok()
    }

    /// Returns true if the client is ready.
    pub(super) fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Returns true if the client is told of changes of a list: in index mode that of the tools is
    /// fixed.
    fn announces(&self, kind: CatalogKind) -> bool {
        self.index.is_none() || kind != CatalogKind::Tools
    }

    /// The same by the name of a list.
    pub(super) fn announces_list(&self, list: &str) -> bool {
        self.index.is_none() || list != CatalogKind::Tools.capability()
    }

    fn introduced(&self, server: usize) -> Option<Arc<Introduced>> {
        self.servers[server].introduced.borrow().clone()
    }
}
