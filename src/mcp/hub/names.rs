//! The names under which tools and prompts of all servers are offered.

use std::sync::Arc;

use crate::mcp::context;
use crate::mcp::hub::Hub;
use crate::mcp::hub::catalog::CatalogKind;
use crate::mcp::hub::catalog::Rows;
use crate::mcp::relay::Relay;
use crate::mcp::tool_name::ToolNames;
use crate::mcp::tool_name::TrueName;

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

/// Returns the lists of all servers that are known, by the servers' indexes. Waits for the servers
/// that have to be asked. One that fails is left out, and the log says so.
pub(super) async fn lists(relay: &Relay, hub: &Hub, kind: CatalogKind) -> Vec<(usize, Rows)> {
    let mut lists = Vec::new();
    for (server, upstream) in relay.upstreams.iter().enumerate() {
        if !hub.introduced(server).is_some_and(|introduced| introduced.lists(kind)) {
            continue;
        }
        match hub.servers[server].catalog.rows(upstream, kind).await {
            Ok(rows) => lists.push((server, rows)),
            Err(why) => tracing::warn!("{}: {why}", upstream.name),
        }
    }
    lists
}

/// Returns the names of all tools, or of all prompts.
pub(super) async fn names(relay: &Relay, hub: &Hub, kind: CatalogKind) -> Arc<ToolNames> {
    let version = {
        let mut names = hub.names.lock();
        if let Some(known) = names.of(kind) {
            return Arc::clone(known);
        }
        names.version
    };
    let lists = lists(relay, hub, kind).await;
    let named = lists.iter().flat_map(|(server, rows)| {
        let (offer, server) = (&hub.servers[*server].offer, &relay.upstreams[*server].name);
        let offered = rows.iter().filter(move |row| is_offered(offer, kind, &row.key));
        offered.map(move |row| {
            let true_name = TrueName { server: server.clone(), tool: row.key.clone() };
            (true_name, offer.naming.clone())
        })
    });
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
pub(super) fn is_offered(offer: &crate::mcp::hub::Offer, kind: CatalogKind, key: &str) -> bool {
    kind != CatalogKind::Tools || offer.tools.offers(key)
}
