//! Finds the server for a client request.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde_json::value::RawValue;

use crate::client::ClientRequest;
use crate::hub::Hub;
use crate::json_rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, RpcError};
use crate::lists::ListKind;
use crate::message::{Edit, Message};
use crate::raw_object::{self, RawObject, quoted};
use crate::relay::Relay;
use crate::upstream::Upstream;

// Maximum size in bytes of a template, and of the regular expression compiled from it.
const MAX_BYTES: usize = 2048;
const PROGRAM_BYTES: usize = 1 << 20;

pub(crate) fn destination(
    relay: &Relay,
    hub: &Hub,
    request: &ClientRequest,
) -> Result<Destination, RpcError> {
    let (params, message) = (request.params(), &request.message);
    match &*request.method {
        "tools/call" => server_of_name(relay, hub, ListKind::Tools, params.get("name"), message),
        "prompts/get" => server_of_name(relay, hub, ListKind::Prompts, params.get("name"), message),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            server_of_uri(relay, hub, &params.text("uri").unwrap_or_default())
        }
        "completion/complete" => {
            let about = params.get("ref").and_then(RawObject::parse).unwrap_or_default();
            match about.text("uri") {
                Some(uri) => server_of_uri(relay, hub, &uri),
                None => server_of_name(relay, hub, ListKind::Prompts, about.get("name"), message),
            }
        }
        method => Err(RpcError::new(METHOD_NOT_FOUND, format!("there is no `{method}` here"))),
    }
}

fn server_of_name(
    relay: &Relay,
    hub: &Hub,
    kind: ListKind,
    name: Option<&RawValue>,
    message: &Message,
) -> Result<Destination, RpcError> {
    let called = name.and_then(raw_object::text).unwrap_or_default();
    let names = hub.offered_names(kind);
    let found = names.by_name.get(&*called).and_then(|true_name| {
        let is_it = |upstream: &Arc<Upstream>| upstream.name == true_name.server;
        Some((relay.upstreams.iter().position(is_it)?, true_name.tool.clone()))
    });
    let Some(((index, own), name)) = found.zip(name) else {
        let what = if kind == ListKind::Tools { "tool" } else { "prompt" };
        let text = format!("there is no {what} `{called}`{}", failures(relay, hub));
        return Err(RpcError::new(INVALID_PARAMS, text));
    };
    let edit = (own != called).then(|| Edit::new(message.range_of(name), quoted(&own)));
    let tool = (kind == ListKind::Tools).then_some(own);
    Ok(Destination { index, edit, tool })
}

fn server_of_uri(relay: &Relay, hub: &Hub, uri: &str) -> Result<Destination, RpcError> {
    let to = |index| Destination { index, edit: None, tool: None };
    for (server, rows) in hub.lists(ListKind::Resources) {
        if rows.iter().any(|row| row.key == uri) {
            return Ok(to(server));
        }
    }
    for (server, rows) in hub.lists(ListKind::Templates) {
        if rows.iter().any(|row| row.key == uri || template_fits(&row.key, uri)) {
            return Ok(to(server));
        }
    }
    let text = format!("there is no resource `{uri}`{}", failures(relay, hub));
    Err(RpcError::new(RESOURCE_NOT_FOUND, text))
}

pub(crate) fn server_of(relay: &Relay, hub: &Hub, uri: &str) -> Option<usize> {
    server_of_uri(relay, hub, uri).ok().map(|to| to.index)
}

pub(crate) fn failures(relay: &Relay, hub: &Hub) -> String {
    let missing = relay.upstreams.iter().zip(&hub.servers).filter_map(|(upstream, server)| {
        let why = server.failure.lock().clone()?;
        Some(format!("; the server `{}` {why}", upstream.name))
    });
    missing.collect()
}

fn template_fits(template: &str, uri: &str) -> bool {
    expression(template).is_some_and(|expression| expression.is_match(uri))
}

fn expression(template: &str) -> Option<Regex> {
    if template.len() > MAX_BYTES {
        return None;
    }
    let mut text = String::from("^");
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (variables, after) = after.split_once('}')?;
        text += &regex::escape(before);
        text += match variables.chars().next()? {
            // Optional expressions, and expressions that may contain a slash.
            '?' | '&' | '/' | '.' | ';' => ".*",
            '+' | '#' => ".+",
            _ if variables.ends_with('*') => ".+",
            _ => "[^/]+",
        };
        rest = after;
    }
    text += &regex::escape(rest);
    RegexBuilder::new(&(text + "$")).size_limit(PROGRAM_BYTES).build().ok()
}

/// The server for a request, and the edit to apply before sending. `tool` is the server's own name
/// of the called tool.
pub(crate) struct Destination {
    pub(crate) index: usize,
    pub(crate) edit: Option<Edit>,
    pub(crate) tool: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_fit_their_templates() {
        for (template, uri, expected) in [
            ("file:///{path}", "file:///a", true),
            ("file:///{path}", "file:///a/b", false),
            ("file:///{+path}", "file:///a/b", true),
            ("db://{table}/row{?id}", "db://t/row?id=7", true),
            ("db://{table}/row{?id}", "db://t/row", true),
            ("a.b/{x}", "aXb/1", false),
            ("a/{x", "a/1", false),
            ("a/{}", "a/1", false),
            ("", "x", false),
        ] {
            assert_eq!(template_fits(template, uri), expected, "{template} {uri}");
        }
        assert!(!template_fits(&"{x}".repeat(5000), "a"));
    }
}
