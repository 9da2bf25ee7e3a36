//! The gateway's answers for all servers.

use std::sync::Arc;

use rmcp::model::InitializeResult;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::bridge::era::Era;
use crate::envelope::Envelope;
use crate::hub::catalog::CatalogKind;
use crate::hub::{Hub, batch, index_tools, introduction, listing, names};
use crate::message::Message;
use crate::pending::ListKind;
use crate::raw_object::RawObject;
use crate::relay::{INVALID_PARAMS, METHOD_NOT_FOUND, Refusal, Relay};
use crate::{context, own, server_request};

/// Capabilities of servers that do not hold for several at once.
const NOT_SHARED: [&str; 2] = ["tasks", "experimental"];

/// Begins with a client whose first request is none of those that begin a session. Waits for the
/// servers, but not long.
pub(crate) async fn begin(relay: &Arc<Relay>, hub: &Hub, params: Option<&RawValue>) {
    let params = params.map_or("{}", RawValue::get);
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    introduction::begin_by_request(relay, hub, &params).await;
}

/// Returns true for a request that begins a session.
pub(crate) fn begins(method: &str) -> bool {
    matches!(method, "initialize" | "server/discover")
}

/// Returns true if the gateway answers a request for its servers.
pub(crate) fn answers(hub: &Hub, method: &str, name: Option<&str>) -> bool {
    match method {
        "logging/setLevel" => true,
        method if begins(method) => true,
        "tools/call" => hub.index.is_some() && name.is_none_or(|name| !context::is_tool(name)),
        method => CatalogKind::of_method(method).is_some(),
    }
}

/// Answers a request, as JSON.
pub(crate) async fn answer(
    relay: &Arc<Relay>,
    hub: &Hub,
    (id, method): (&str, &str),
    envelope: &Envelope,
    message: &Message,
) -> Result<String, Refusal> {
    let raw = envelope.params(message).map_or("{}", |params| params.get());
    let params: Value = serde_json::from_str(raw)
        .map_err(|error| Refusal::new(INVALID_PARAMS, format!("`params`: {error}")))?;
    if let Some(kind) = CatalogKind::of_method(method) {
        let result = listed(relay, hub, kind).await;
        return Ok(own::for_client(&params, result, true));
    }
    match method {
        "initialize" => {
            introduction::begin(relay, hub, || raw.to_owned()).await;
            Ok(initialize(relay, hub, &params))
        }
        "server/discover" => {
            introduction::begin_by_request(relay, hub, &params).await;
            let said = own::discover(&capabilities(hub), &instructions(relay, hub));
            Ok(own::for_client(&params, said, true))
        }
        "logging/setLevel" => {
            set_level(relay, hub, raw);
            Ok(own::for_client(&params, "{}".to_owned(), false))
        }
        "tools/call" => call(relay, hub, id, &params).await,
        _ => Err(Refusal::new(METHOD_NOT_FOUND, format!("there is no `{method}` here"))),
    }
}

/// Answers a call in index mode, where the client sees two tools.
async fn call(relay: &Arc<Relay>, hub: &Hub, id: &str, params: &Value) -> Result<String, Refusal> {
    let name = params["name"].as_str().unwrap_or_default();
    match (&hub.index, name) {
        (Some(mode), names::DETAILS) => Ok(index_tools::details(relay, hub, mode, params)),
        (Some(mode), names::BATCH) => Ok(batch::run(relay, hub, mode, id, params).await),
        _ => {
            let how = "call the tools of servers through `run_tool_batch`";
            Err(Refusal::new(INVALID_PARAMS, format!("there is no tool `{name}`: {how}")))
        }
    }
}

async fn listed(relay: &Relay, hub: &Hub, kind: CatalogKind) -> String {
    let mut rows = match (kind, &hub.index) {
        (CatalogKind::Tools, Some(mode)) => index_tools::rows(relay, hub, mode),
        _ => listing::rows(relay, hub, kind),
    };
    let own = match kind {
        CatalogKind::Tools => Some(ListKind::Tools),
        CatalogKind::Resources => Some(ListKind::Resources),
        CatalogKind::Templates => Some(ListKind::Templates),
        CatalogKind::Prompts => None,
    };
    if let Some(own) = own.filter(|_| relay.context_tools) {
        let shelf = Arc::clone(&relay.shelf);
        let ours = tokio::task::spawn_blocking(move || own::rows(&shelf, own)).await;
        rows.extend(ours.unwrap_or_default());
    }
    format!("{{\"{}\":[{}]}}", kind.member(), rows.join(","))
}

fn initialize(relay: &Relay, hub: &Hub, params: &Value) -> String {
    let version = own::version(params["protocolVersion"].as_str().unwrap_or_default());
    relay.set_revision(version.as_str());
    let result = InitializeResult::new(own::capabilities())
        .with_protocol_version(version)
        .with_server_info(own::info())
        .with_instructions(instructions(relay, hub));
    let mut result = serde_json::to_value(&result).unwrap_or_default();
    result["capabilities"] = capabilities(hub);
    result.to_string()
}

/// Returns the capabilities of all servers, and the gateway's own.
fn capabilities(hub: &Hub) -> Value {
    let mut all = Map::new();
    let known = (0..hub.servers.len()).filter_map(|server| hub.introduced(server));
    for introduced in known {
        let shared = introduced.capabilities.iter();
        for (name, said) in shared.filter(|(name, _)| !NOT_SHARED.contains(&name.as_str())) {
            merge(all.entry(name.clone()).or_insert_with(|| json!({})), said);
        }
    }
    for kind in CatalogKind::CHANGING {
        // A server that comes late has lists too.
        let changes = if hub.announces(kind) { json!({"listChanged": true}) } else { json!({}) };
        if kind == CatalogKind::Tools {
            all.insert(kind.member().to_owned(), changes);
        } else {
            merge(all.entry(kind.member()).or_insert_with(|| json!({})), &changes);
        }
    }
    Value::Object(all)
}

/// Adds the members of an object; true stays true.
fn merge(into: &mut Value, from: &Value) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    for (key, value) in from {
        if into.get(key) != Some(&Value::Bool(true)) {
            into.insert(key.clone(), value.clone());
        }
    }
}

/// Returns what a model is told: what each server says, under its name, and our own words.
fn instructions(relay: &Relay, hub: &Hub) -> String {
    let mut parts = Vec::new();
    for (server, upstream) in relay.upstreams.iter().enumerate() {
        let said = hub.introduced(server).and_then(|known| known.instructions.clone());
        match said.filter(|said| !said.trim().is_empty()) {
            Some(said) if relay.upstreams.len() == 1 => parts.push(said),
            Some(said) => parts.push(format!("# {}\n{said}", upstream.name)),
            None => {}
        }
        if let Some(why) = &*hub.servers[server].failure.lock() {
            parts.push(format!("The server `{}` is missing: it {why}.", upstream.name));
        }
    }
    if let Some(mode) = &hub.index {
        return index_tools::instructions(relay, hub, mode, &parts);
    }
    if relay.context_tools {
        parts.push(own::INSTRUCTIONS.to_owned());
    }
    parts.join("\n\n")
}

/// Hands a level of logging to all servers that log.
fn set_level(relay: &Relay, hub: &Hub, params: &str) {
    for (server, upstream) in relay.upstreams.iter().enumerate() {
        let logs =
            hub.introduced(server).is_some_and(|known| known.capabilities.contains_key("logging"));
        if logs {
            upstream.set_handshake(|handshake| handshake.level = Some(params.to_owned()));
            if upstream.era() == Some(Era::Modern) {
                // Each request to it has the level.
                continue;
            }
            let (upstream, params) = (Arc::clone(upstream), params.to_owned());
            tokio::spawn(async move {
                let told = server_request::result(&upstream, "logging/setLevel", &params).await;
                if let Err(why) = told {
                    tracing::warn!("{}: {why}", upstream.name);
                }
            });
        }
    }
}

/// Returns the name of the tool that a request calls.
pub(crate) fn called<'a>(
    method: &str,
    envelope: &Envelope,
    message: &'a Message,
) -> Option<std::borrow::Cow<'a, str>> {
    let params = envelope.params(message).filter(|_| method == "tools/call")?;
    RawObject::parse(params)?.text("name")
}
