//! Notifications between revisions.

use std::sync::Arc;

use crate::bridge::crossing::Crossing;
use crate::bridge::era::{Between, Era};
use crate::bridge::{listeners, listening};
use crate::envelope::{Envelope, raw};
use crate::from_client::request_id;
use crate::message::{Edit, Message};
use crate::meta;
use crate::pending::Pending;
use crate::raw_object::RawObject;
use crate::relay::Relay;
use crate::upstream::Upstream;

/// Returns true if notifications of a server may have to change.
pub(crate) fn changes_notifications(relay: &Relay, from: &Upstream) -> bool {
    let era = from.era();
    relay.bridge.between(era).is_some() || (relay.hub.is_some() && era == Some(Era::Modern))
}

/// Returns true if a server takes no such notification of the client.
pub(crate) fn is_dropped(relay: &Relay, to: &Upstream, method: &str) -> bool {
    const GONE: [&str; 3] =
        ["notifications/initialized", "notifications/roots/list_changed", "notifications/progress"];
    relay.bridge.between(to.era()) == Some(Between::OldClient) && GONE.contains(&method)
}

/// Hands a notification to the client, in its revision, if it is for it.
pub(crate) async fn noticed(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    method: &str,
    envelope: &Envelope,
    message: Message,
) {
    let params = envelope.params.clone().and_then(|range| raw(&message, range));
    let params = params.and_then(RawObject::parse).unwrap_or_default();
    let is_new_client = relay.bridge.client() == Some(Era::Modern);
    match method {
        "notifications/subscriptions/acknowledged" => {
            if let Some(number) = subscription(&params) {
                listening::acknowledged(relay, relay.index_of(from), number);
            }
        }
        _ if is_of_ended_stream(from, &params) => {}
        "notifications/resources/updated" => {
            let Some(uri) = params.get("uri") else { return };
            if is_new_client {
                let Some(uri) = params.text("uri") else { return };
                return listeners::updated(relay, &uri).await;
            }
            let told =
                format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"uri":{uri}}}}}"#);
            relay.tell(told.into_bytes()).await;
        }
        method if method.ends_with("/list_changed") => {
            if is_new_client {
                return listeners::changed(relay, method).await;
            }
            relay.tell(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).into_bytes()).await;
        }
        "notifications/progress" => {
            let edits = progress(from, &params, &message);
            if let Some(edits) = edits {
                relay.tell(message.edited(edits)).await;
            }
        }
        "notifications/cancelled" => given_up(relay, from, envelope, &message),
        "notifications/message" if is_new_client && from.era() == Some(Era::Legacy) => {
            if logs(from) {
                relay.tell(message.edited(Vec::new())).await;
            }
        }
        _ => relay.tell(message.edited(Vec::new())).await,
    }
}

/// Returns true for what comes on a stream of a new server that was closed.
fn is_of_ended_stream(from: &Upstream, params: &RawObject<'_>) -> bool {
    subscription(params).is_some_and(|number| !from.waits_for(number))
}

/// Returns the number of the subscription that a notification is about.
fn subscription(params: &RawObject<'_>) -> Option<u64> {
    meta::subscription(params).and_then(meta::number)
}

/// Returns the edits of a notification of progress: a call that was made again may have another
/// token. `None` if the client does not wait for it now.
fn progress(from: &Upstream, params: &RawObject<'_>, message: &Message) -> Option<Vec<Edit>> {
    let token = params.get("progressToken")?;
    from.progressed(token.get());
    let known = from.with_requests(|requests| {
        let mut all = requests.by_age().into_iter().map(|(_, pending)| pending);
        all.find(|pending| pending.token.as_deref() == Some(token.get()))
            .map(|pending| now(pending))
    });
    match known {
        None => Some(Vec::new()),
        Some(None) => None,
        Some(Some(now)) => {
            let with = now.into_bytes();
            Some(vec![Edit { range: message.range_of(token), with }])
        }
    }
}

/// Returns the token of a request as the client knows it now.
fn now(pending: &Pending) -> Option<String> {
    match pending.crossing.as_deref() {
        Some(Crossing::Carrier(carrier)) => {
            carrier.token.clone().filter(|_| pending.client_id.is_some())
        }
        _ => pending.token.clone(),
    }
}

/// Returns true if a request to a server asked for log messages.
fn logs(from: &Upstream) -> bool {
    from.with_requests(|requests| {
        requests.by_age().iter().any(|(_, pending)| {
            matches!(pending.crossing.as_deref(), Some(Crossing::Carrier(carrier)) if carrier.logs)
        })
    })
}

/// Takes back what a server asked, or a subscription that it ends.
fn given_up(relay: &Relay, from: &Arc<Upstream>, envelope: &Envelope, message: &Message) {
    let Some((id, _)) = request_id(envelope, message) else { return };
    if from.era() == Some(Era::Legacy) {
        if relay.bridge.held.forget(relay.index_of(from), &id) {
            from.count_asked(false);
        }
        return;
    }
    let pending = id.parse().ok().and_then(|number| from.take(number));
    if let Some(pending) = pending {
        // It is one of the gateway's own; a server ends no other.
        drop(pending.of_client("ended the subscription"));
    }
}

/// Returns the level of log messages that a request asks for.
pub(super) fn level(meta: &RawObject<'_>) -> Option<String> {
    meta.get(meta::LEVEL).map(|level| level.get().to_owned())
}
