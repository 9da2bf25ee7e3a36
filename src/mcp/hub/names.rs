//! The names under which tools and prompts of all servers are offered.

use std::sync::Arc;

use crate::context;
use crate::hub::Hub;
use crate::hub::catalog::{CatalogKind, Rows};
use crate::relay::Relay;
use crate::tool_name::{ToolNames, TrueName};

/// The tools of index mode: one describes tools, the other calls them.
pub(super) const DETAILS: &str = "get_tool_details";
pub(super) const BATCH: &str = "run_tool_batch";
const INDEX_TOOLS: [&str; 2] = [DETAILS, BATCH];

/// Names that were made, until a list changes.
#[derive(Default)]
pub(super) struct Names {
    tools: Option<Arc<ToolNames>>,
    prompts: Option<Arc<ToolNames>>,
    /// Counts the changes.
    version: u64,
}

impl Names {
    pub(super) fn forget(&mut self) {
        *self = Self { version: self.version + 1, ..Self::default() };
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    fn of(&mut self, kind: CatalogKind) -> &mut Option<Arc<ToolNames>> {
        if kind == CatalogKind::Tools { &mut self.tools } else { &mut self.prompts }
    }
}

/// Returns the lists of all servers that are known, by the servers' indexes.
pub(super) fn lists(hub: &Hub, kind: CatalogKind) -> impl Iterator<Item = (usize, Rows)> {
    let known = hub.servers.iter().enumerate();
    let known = known.filter(|(_, server)| server.introduced.borrow().is_some());
    known.map(move |(index, server)| (index, server.catalog.rows(kind)))
}

/// Returns the names of all tools, or of all prompts.
pub(super) fn names(relay: &Relay, hub: &Hub, kind: CatalogKind) -> Arc<ToolNames> {
    let version = {
        let mut names = hub.names.lock();
        if let Some(known) = names.of(kind) {
            return Arc::clone(known);
        }
        names.version
    };
    let mut named = Vec::new();
    for (server, rows) in lists(hub, kind) {
        let (offer, name) = (&hub.servers[server].offer, &relay.upstreams[server].name);
        for row in rows.iter().filter(|row| is_offered(offer, kind, &row.key)) {
            let true_name = TrueName { server: name.clone(), tool: row.key.clone() };
            named.push((true_name, offer.naming.clone()));
        }
    }
    let ours: &[&str] = match kind {
        CatalogKind::Tools => &[&context::NAMES[..], &INDEX_TOOLS[..]].concat(),
        _ => &[],
    };
    let made = Arc::new(ToolNames::new(named, ours));
    let mut names = hub.names.lock();
    if names.version == version {
        *names.of(kind) = Some(Arc::clone(&made));
    }
    made
}

/// Returns true if a row of a list is offered to the client.
pub(super) fn is_offered(offer: &crate::hub::Offer, kind: CatalogKind, key: &str) -> bool {
    kind != CatalogKind::Tools || offer.tools.offers(key)
}
