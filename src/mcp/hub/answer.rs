//! Answers on behalf of all servers.

use std::sync::Arc;

use rmcp::model::InitializeResult;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::client::ClientRequest;
use crate::hub::batch::run;
use crate::hub::catalog::CatalogRow;
use crate::hub::{BATCH, DETAILS, Hub, index_tools, introduction};
use crate::json_rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};
use crate::lists::ListKind;
use crate::raw_object::{self, RawObject, quoted};
use crate::relay::Relay;
use crate::revision::{self, Era};
use crate::tool_name::ServerTool;
use crate::{delivery, own, server_request};

// Capabilities that cannot be combined for several servers.
const NOT_SHARED: [&str; 2] = ["tasks", "experimental"];
// The `_meta` key that holds the server's own name of a tool or prompt.
const TRUE_NAME: &str = "ctxfs/tool";

/// Introduces the client to the servers if its first request is neither `initialize` nor
/// `server/discover`. Waits for the servers for a limited time.
pub(crate) async fn begin(relay: &Arc<Relay>, hub: &Hub, params: Option<&RawValue>) {
    let params = params.map_or("{}", RawValue::get);
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    introduction::begin_by_request(relay, hub, &params).await;
}

pub(crate) async fn answer(
    relay: &Arc<Relay>,
    hub: &Hub,
    request: &ClientRequest,
) -> Result<String, RpcError> {
    let method = &*request.method;
    let raw = request.raw_params().map_or("{}", RawValue::get);
    let params: Value = serde_json::from_str(raw)
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("`params`: {error}")))?;
    if let Some(kind) = ListKind::of_method(method) {
        own::check_cursor(&params)?;
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
            let result = own::discover(&capabilities(hub), &instructions(relay, hub));
            Ok(own::for_client(&params, result, true))
        }
        "logging/setLevel" => {
            set_level(relay, hub, raw);
            Ok(own::for_client(&params, "{}".to_owned(), false))
        }
        "tools/call" => call(relay, hub, &request.id, &params).await,
        _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("there is no `{method}` here"))),
    }
}

async fn call(relay: &Arc<Relay>, hub: &Hub, id: &str, params: &Value) -> Result<String, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    match (&hub.index, name) {
        (Some(mode), DETAILS) => Ok(index_tools::details(relay, hub, mode, params)),
        (Some(mode), BATCH) => Ok(run::run(relay, hub, mode, id, params).await),
        _ => {
            let how = "call the tools of servers through `run_tool_batch`";
            Err(RpcError::new(INVALID_PARAMS, format!("there is no tool `{name}`: {how}")))
        }
    }
}

async fn listed(relay: &Relay, hub: &Hub, kind: ListKind) -> String {
    let mut rows = match (kind, &hub.index) {
        (ListKind::Tools, Some(mode)) => index_tools::rows(relay, hub, mode),
        _ => listed_rows(relay, hub, kind),
    };
    if relay.context_tools {
        let shelf = Arc::clone(&relay.shelf);
        let ours = tokio::task::spawn_blocking(move || own::rows(&shelf, kind)).await;
        rows.extend(ours.unwrap_or_default());
        if kind == ListKind::Resources && hub.index.is_some() {
            rows.push(index_tools::resource(relay));
        }
    }
    format!("{{\"{}\":[{}]}}", kind.member(), rows.join(","))
}

fn initialize(relay: &Relay, hub: &Hub, params: &Value) -> String {
    let version = revision::negotiated(params["protocolVersion"].as_str().unwrap_or_default());
    relay.client.set_revision(version.as_str());
    let result = InitializeResult::new(own::capabilities())
        .with_protocol_version(version)
        .with_server_info(own::info())
        .with_instructions(instructions(relay, hub));
    let mut result = serde_json::to_value(&result).unwrap_or_default();
    result["capabilities"] = capabilities(hub);
    result.to_string()
}

fn capabilities(hub: &Hub) -> Value {
    let mut all = Map::new();
    let known = (0..hub.servers.len()).filter_map(|server| hub.introduced(server));
    for introduced in known {
        let shared = introduced.capabilities.iter();
        for (name, declared) in shared.filter(|(name, _)| !NOT_SHARED.contains(&name.as_str())) {
            merge(all.entry(name.clone()).or_insert_with(|| json!({})), declared);
        }
    }
    for kind in ListKind::CHANGING {
        // A server that is introduced later has lists too, so the lists can change.
        let changes = if hub.announces(kind) { json!({"listChanged": true}) } else { json!({}) };
        if kind == ListKind::Tools {
            all.insert(kind.member().to_owned(), changes);
        } else {
            merge(all.entry(kind.member()).or_insert_with(|| json!({})), &changes);
        }
    }
    Value::Object(all)
}

fn merge(into: &mut Value, from: &Value) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    for (key, value) in from {
        if into.get(key) != Some(&Value::Bool(true)) {
            into.insert(key.clone(), value.clone());
        }
    }
}

/// Returns the instructions of each server under its name, the names of missing servers, and the
/// gateway's own instructions.
fn instructions(relay: &Relay, hub: &Hub) -> String {
    let mut parts = Vec::new();
    for (server, upstream) in relay.upstreams.iter().enumerate() {
        let text = hub.introduced(server).and_then(|known| known.instructions.clone());
        match text.filter(|text| !text.trim().is_empty()) {
            Some(text) if relay.upstreams.len() == 1 => parts.push(text),
            Some(text) => parts.push(format!("# {}\n{text}", upstream.name)),
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

fn set_level(relay: &Relay, hub: &Hub, params: &str) {
    for (server, upstream) in relay.upstreams.iter().enumerate() {
        let logs =
            hub.introduced(server).is_some_and(|known| known.capabilities.contains_key("logging"));
        if logs {
            upstream.set_handshake(|handshake| handshake.level = Some(params.to_owned()));
            if upstream.era.get() == Some(Era::Modern) {
                // Each request to a server of this revision carries the log level.
                continue;
            }
            let (upstream, params) = (Arc::clone(upstream), params.to_owned());
            tokio::spawn(async move {
                let result = server_request::result(&upstream, "logging/setLevel", &params).await;
                if let Err(why) = result {
                    tracing::warn!("{}: {why}", upstream.name);
                }
            });
        }
    }
}

fn listed_rows(relay: &Relay, hub: &Hub, kind: ListKind) -> Vec<String> {
    if matches!(kind, ListKind::Resources | ListKind::Templates) {
        let text = |row: &CatalogRow| row.raw.get().to_owned();
        return hub
            .lists(kind)
            .flat_map(|(_, rows)| rows.iter().map(text).collect::<Vec<_>>())
            .collect();
    }
    let names = hub.offered_names(kind);
    let mut listed = Vec::new();
    for (index, rows) in hub.lists(kind) {
        let server = &relay.upstreams[index].name;
        for row in rows.iter() {
            let true_name = ServerTool { server: server.clone(), tool: row.key.clone() };
            if let Some(name) = names.name_of(&true_name) {
                let schema = RawObject::parse(&row.raw).and_then(|row| row.get("outputSchema"));
                let is_foreign =
                    |schema| delivery::is_foreign(relay, &relay.upstreams[index], schema);
                let is_violated = || {
                    let limits = relay.shelf.source.limits(&true_name.to_string());
                    limits.may_replace() && !relay.keeps_structure()
                };
                let drops_schema =
                    kind == ListKind::Tools && (is_violated() || schema.is_some_and(is_foreign));
                listed.push(renamed(&row.raw, name, &true_name, drops_schema));
            }
        }
    }
    listed
}

fn renamed(row: &RawValue, name: &str, true_name: &ServerTool, drops_schema: bool) -> String {
    let Some(object) = RawObject::parse(row) else { return row.get().to_owned() };
    let is_other = name != true_name.tool;
    let goes = drops_schema && object.get("outputSchema").is_some();
    if !is_other && !goes {
        return row.get().to_owned();
    }
    let meta = is_other.then(|| meta(&object, &true_name.tool));
    delivery::tool_row(&object, Some(name).filter(|_| is_other), goes, meta.as_deref())
}

fn meta(object: &RawObject<'_>, own_name: &str) -> String {
    let meta = object.get("_meta").and_then(RawObject::parse).unwrap_or_default();
    let kept = meta.0.iter().filter(|(key, _)| key != TRUE_NAME);
    let kept = kept.map(|(key, value)| raw_object::member(key, value));
    raw_object::object(kept.chain([raw_object::member(TRUE_NAME, quoted(own_name))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(row: &str, name: &str, drops_schema: bool) -> String {
        let raw: &RawValue = serde_json::from_str(row).unwrap();
        let true_name = ServerTool { server: "s".to_owned(), tool: "t".to_owned() };
        renamed(raw, name, &true_name, drops_schema)
    }

    #[test]
    fn a_row_that_keeps_its_name_is_as_it_was() {
        let row = r#"{"name": "t", "inputSchema":{"n":1.10}}"#;
        assert_eq!(shown(row, "t", true), row);
        let with_schema = r#"{"name":"t","outputSchema":{}}"#;
        assert_eq!(shown(with_schema, "t", false), with_schema);
        assert_eq!(shown(with_schema, "t", true), r#"{"name":"t"}"#);
    }

    #[test]
    fn another_name_keeps_the_first_one() {
        assert_eq!(
            shown(r#"{"name":"t","a":1.10,"_meta":{"x":2,"ctxfs/tool":"lie"}}"#, "s__t", true),
            r#"{"name":"s__t","a":1.10,"_meta":{"x":2,"ctxfs/tool":"t"}}"#
        );
        assert_eq!(
            shown(r#"{"name":"t"}"#, "s__t", true),
            r#"{"name":"s__t","_meta":{"ctxfs/tool":"t"}}"#
        );
    }
}
