//! A survey of servers: the things that they offer, and their weight in the context of a model, as
//! schemas and behind the light index.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::hub::catalog::CatalogKind;
use crate::hub::{Hub, index_tools, introduction, weight};
use crate::index;
use crate::index::{Index, OVERVIEW_BYTES, Tool};
use crate::permission::Risk;
use crate::relay::Relay;

/// The things that some servers offer.
#[derive(Debug, Default)]
pub struct Survey {
    /// The servers, in the order in which they were given.
    pub servers: Vec<SurveyedServer>,
    /// Tokens of all tools, as a client tells its model of them.
    pub schema_tokens: u64,
    /// Tokens of the index: its two tools, and the instructions.
    pub index_tokens: u64,
}

/// One of these servers.
#[derive(Debug)]
pub struct SurveyedServer {
    /// Its name.
    pub name: String,
    /// The things that it offers; `None` if it cannot be used at all.
    pub offer: Option<SurveyedOffer>,
    /// Why it cannot be used, or what it did not list and why.
    pub flaws: Vec<String>,
}

/// The things that a server offers.
#[derive(Debug)]
pub struct SurveyedOffer {
    /// Its tools, sorted by the names under which they are offered.
    pub tools: Vec<SurveyedTool>,
    /// Its prompts.
    pub prompts: usize,
    /// Its resources.
    pub resources: usize,
    /// Its templates of resources.
    pub templates: usize,
    /// Tokens of its tools, as a client tells its model of them.
    pub schema_tokens: u64,
    /// Tokens of its tools in an index of this server alone.
    pub index_tokens: u64,
}

/// A tool.
#[derive(Debug)]
pub struct SurveyedTool {
    /// The name under which it is offered.
    pub name: String,
    /// The name that its server gave it.
    pub tool: String,
    /// The risk of a call.
    pub risk: Risk,
}

/// Asks all servers what they offer, each for its time at most. The gateway has a light index.
pub(crate) async fn survey(relay: &Arc<Relay>) -> Survey {
    let mut asked = JoinSet::new();
    for server in 0..relay.upstreams.len() {
        let relay = Arc::clone(relay);
        asked.spawn(async move { (server, ask_in_time(&relay, server).await) });
    }
    let mut flaws = vec![Vec::new(); relay.upstreams.len()];
    while let Some(told) = asked.join_next().await {
        if let Ok((server, found)) = told {
            flaws[server] = found;
        }
    }
    relay.hub.as_ref().map(|hub| weigh(relay, hub, flaws)).unwrap_or_default()
}

/// Asks a server what it offers. Returns what is wrong.
async fn ask_in_time(relay: &Arc<Relay>, server: usize) -> Vec<String> {
    let Some(hub) = &relay.hub else { return Vec::new() };
    match relay.upstreams[server].timeout {
        None => ask(relay, hub, server).await,
        Some(time) => {
            let late = |_| vec![format!("did not answer within {time:?}")];
            timeout(time, ask(relay, hub, server)).await.unwrap_or_else(late)
        }
    }
}

async fn ask(relay: &Arc<Relay>, hub: &Hub, server: usize) -> Vec<String> {
    match introduction::introduce(relay, hub, server).await {
        Ok(introduced) => {
            let flaws = introduced.unlisted.clone();
            introduction::publish(relay, hub, server, introduced).await;
            flaws
        }
        Err(why) => vec![why],
    }
}

fn weigh(relay: &Relay, hub: &Hub, flaws: Vec<Vec<String>>) -> Survey {
    let Some(mode) = &hub.index else { return Survey::default() };
    let index = index_tools::build(relay, hub, mode);
    let named = relay.upstreams.iter().zip(flaws).enumerate();
    let servers = named.map(|(server, (upstream, flaws))| {
        let of_it = index.tools().filter(|tool| tool.true_name.server == upstream.name);
        let known = hub.introduced(server);
        let offer = known.map(|_| offer(hub, server, of_it.cloned().collect()));
        SurveyedServer { name: upstream.name.clone(), offer, flaws }
    });
    let servers: Vec<SurveyedServer> = servers.collect();
    let offers = servers.iter().filter_map(|server| server.offer.as_ref());
    let schema_tokens = offers.map(|offer| offer.schema_tokens).sum();
    let rows = index_tools::rows_of(&index, relay.references);
    let instructions = index_tools::instructions_of(&index, relay.references, "");
    Survey { schema_tokens, index_tokens: weight::of_index(&rows, &instructions), servers }
}

fn offer(hub: &Hub, server: usize, tools: Vec<Tool>) -> SurveyedOffer {
    let count = |kind| hub.servers[server].catalog.rows(kind).len();
    let surveyed = |tool: &Tool| SurveyedTool {
        name: tool.name.clone(),
        tool: tool.true_name.tool.clone(),
        risk: tool.risk,
    };
    SurveyedOffer {
        prompts: count(CatalogKind::Prompts),
        resources: count(CatalogKind::Resources),
        templates: count(CatalogKind::Templates),
        schema_tokens: tools.iter().map(|tool| weight::of_tool(&tool.listed)).sum(),
        tools: tools.iter().map(surveyed).collect(),
        index_tokens: weight::of_text(&index::overview(&Index::new(tools), OVERVIEW_BYTES)),
    }
}
