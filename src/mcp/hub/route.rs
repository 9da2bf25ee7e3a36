//! Which server a request of the client is for.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::envelope::Envelope;
use crate::from_client::Destination;
use crate::hub::catalog::CatalogKind;
use crate::hub::names::lists;
use crate::hub::{Hub, names, template};
use crate::message::{Edit, Message};
use crate::raw_object;
use crate::raw_object::{RawObject, quoted};
use crate::relay::{INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, Refusal, Relay};
use crate::upstream::Upstream;

/// Returns where a request goes, and how it changes on the way.
pub(crate) fn destination(
    relay: &Relay,
    hub: &Hub,
    method: &str,
    envelope: &Envelope,
    message: &Message,
) -> Result<Destination, Refusal> {
    let params = envelope.params(message).and_then(RawObject::parse).unwrap_or_default();
    match method {
        "tools/call" => named(relay, hub, CatalogKind::Tools, params.get("name"), message),
        "prompts/get" => named(relay, hub, CatalogKind::Prompts, params.get("name"), message),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            of_uri(relay, hub, &params.text("uri").unwrap_or_default())
        }
        "completion/complete" => {
            let about = params.get("ref").and_then(RawObject::parse).unwrap_or_default();
            match about.text("uri") {
                Some(uri) => of_uri(relay, hub, &uri),
                None => named(relay, hub, CatalogKind::Prompts, about.get("name"), message),
            }
        }
        _ => Err(Refusal::new(METHOD_NOT_FOUND, format!("there is no `{method}` here"))),
    }
}

/// Returns the server of a tool or prompt, which gets its own name back.
fn named(
    relay: &Relay,
    hub: &Hub,
    kind: CatalogKind,
    name: Option<&RawValue>,
    message: &Message,
) -> Result<Destination, Refusal> {
    let called = name.and_then(raw_object::text).unwrap_or_default();
    let names = names::names(relay, hub, kind);
    let found = names.tool_of(&called).and_then(|true_name| {
        let is_it = |upstream: &Arc<Upstream>| upstream.name == true_name.server;
        Some((relay.upstreams.iter().position(is_it)?, true_name.tool.clone()))
    });
    let Some(((index, own), name)) = found.zip(name) else {
        let what = if kind == CatalogKind::Tools { "tool" } else { "prompt" };
        let text = format!("there is no {what} `{called}`{}", failures(relay, hub));
        return Err(Refusal::new(INVALID_PARAMS, text));
    };
    let edit = (own != called)
        .then(|| Edit { range: message.range_of(name), with: quoted(&own).into_bytes() });
    let tool = (kind == CatalogKind::Tools).then_some(own);
    Ok(Destination { index, edit, tool })
}

/// Returns the server that lists a resource, or else one of whose templates fits.
fn of_uri(relay: &Relay, hub: &Hub, uri: &str) -> Result<Destination, Refusal> {
    let to = |index| Destination { index, edit: None, tool: None };
    for (server, rows) in lists(hub, CatalogKind::Resources) {
        if rows.iter().any(|row| row.key == uri) {
            return Ok(to(server));
        }
    }
    for (server, rows) in lists(hub, CatalogKind::Templates) {
        if rows.iter().any(|row| row.key == uri || template::fits(&row.key, uri)) {
            return Ok(to(server));
        }
    }
    let text = format!("there is no resource `{uri}`{}", failures(relay, hub));
    Err(Refusal::new(RESOURCE_NOT_FOUND, text))
}

/// Returns the server of a resource.
pub(crate) fn server_of(relay: &Relay, hub: &Hub, uri: &str) -> Option<usize> {
    of_uri(relay, hub, uri).ok().map(|to| to.index)
}

/// Returns the servers that are missing, for a message about something that is.
pub(super) fn failures(relay: &Relay, hub: &Hub) -> String {
    let missing = relay.upstreams.iter().zip(&hub.servers).filter_map(|(upstream, server)| {
        let why = server.failure.lock().clone()?;
        Some(format!("; the server `{}` {why}", upstream.name))
    });
    missing.collect()
}
