//! Surveys servers: what they offer, and how many tokens the offers take in a model's context, with
//! all schemas and with the light index.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::hub::{Hub, index_tools, introduction};
use crate::index::overview::OVERVIEW_BYTES;
use crate::index::{self, Index, Tool};
use crate::lists::ListKind;
use crate::permission::rules::Risk;
use crate::relay::Relay;

/// The offers of several servers, in the given order, and their size in the context of a model.
/// `schema_tokens` is the number of tokens with all schemas. `index_tokens` is the number of tokens
/// with the light index, including its two tools and instructions.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Survey {
    pub servers: Vec<SurveyedServer>,
    pub schema_tokens: u64,
    pub index_tokens: u64,
}

/// A surveyed server. `offer` is `None` if the server cannot be used. If the server lists only a
/// part of what it declares, it has both an offer and flaws.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SurveyedServer {
    pub name: String,
    pub offer: Option<SurveyedOffer>,
    pub flaws: Vec<String>,
}

/// The offer of a server: tools sorted by offered name, and the counts of everything else. Tools
/// hidden by a filter are left out. `index_tokens` is the number of tokens of an index for this
/// server alone.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SurveyedOffer {
    pub tools: Vec<SurveyedTool>,
    pub prompts: usize,
    pub resources: usize,
    pub templates: usize,
    pub schema_tokens: u64,
    pub index_tokens: u64,
}

/// A tool with its offered `name`. `tool` is the server's own name, as used in rules and limits.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SurveyedTool {
    pub name: String,
    pub tool: String,
    pub risk: Risk,
}

pub(crate) async fn survey(relay: &Arc<Relay>) -> Survey {
    let mut asked = JoinSet::new();
    for server in 0..relay.upstreams.len() {
        let relay = Arc::clone(relay);
        asked.spawn(async move { (server, ask_in_time(&relay, server).await) });
    }
    let mut flaws = vec![Vec::new(); relay.upstreams.len()];
    while let Some(surveyed) = asked.join_next().await {
        if let Ok((server, found)) = surveyed {
            flaws[server] = found;
        }
    }
    relay.hub.as_ref().map(|hub| weigh(relay, hub, flaws)).unwrap_or_default()
}

async fn ask_in_time(relay: &Arc<Relay>, server: usize) -> Vec<String> {
    let Some(hub) = &relay.hub else { return Vec::new() };
    match relay.upstreams[server].timeout {
        None => ask(relay, hub, server).await,
        Some(time) => {
            let late = |_| vec![format!("did not answer within {} s", time.as_secs_f64())];
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
        let of_it = index.tools.values().filter(|tool| tool.true_name.server == upstream.name);
        let known = hub.introduced(server);
        let offer = known.map(|_| offer(hub, server, of_it.cloned().collect()));
        SurveyedServer { name: upstream.name.clone(), offer, flaws }
    });
    let servers: Vec<SurveyedServer> = servers.collect();
    let offers = servers.iter().filter_map(|server| server.offer.as_ref());
    let schema_tokens = offers.map(|offer| offer.schema_tokens).sum();
    let rows = index_tools::rows_of(&index, relay.references);
    let offered = (relay.context_tools, relay.references);
    let instructions = index_tools::instructions_of(&index, offered, "");
    Survey { schema_tokens, index_tokens: index_tools::index_tokens(&rows, &instructions), servers }
}

fn offer(hub: &Hub, server: usize, tools: Vec<Tool>) -> SurveyedOffer {
    let count = |kind| hub.servers[server].catalog.rows(kind).len();
    let surveyed = |tool: &Tool| SurveyedTool {
        name: tool.name.clone(),
        tool: tool.true_name.tool.clone(),
        risk: tool.risk,
    };
    SurveyedOffer {
        prompts: count(ListKind::Prompts),
        resources: count(ListKind::Resources),
        templates: count(ListKind::Templates),
        schema_tokens: tools.iter().map(|tool| index_tools::tool_tokens(&tool.listed)).sum(),
        tools: tools.iter().map(surveyed).collect(),
        index_tokens: index_tools::text_tokens(&index::overview(
            &Index::new(tools),
            OVERVIEW_BYTES,
        )),
    }
}
