//! Notifications from servers to a client with a different revision.

use std::sync::Arc;

use crate::bridge::subscriptions;
use crate::json_rpc::{self, Envelope, raw, request_id};
use crate::message::{Edit, Message};
use crate::pending::PendingRequest;
use crate::raw_object::RawObject;
use crate::relay::Relay;
use crate::revision::{Era, EraMismatch};
use crate::upstream::Upstream;

pub(crate) fn changes_notifications(relay: &Relay, from: &Upstream) -> bool {
    let era = from.era.get();
    relay.bridge.between(era).is_some() || (relay.hub.is_some() && era == Some(Era::Modern))
}

pub(crate) fn is_dropped(relay: &Relay, to: &Upstream, method: &str) -> bool {
    const GONE: [&str; 3] =
        ["notifications/initialized", "notifications/roots/list_changed", "notifications/progress"];
    relay.bridge.between(to.era.get()) == Some(EraMismatch::OldClient) && GONE.contains(&method)
}

/// Sends a server's notification to the client in the client's revision. Notifications meant for
/// the gateway itself are consumed here.
pub(crate) async fn relay_notification(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    method: &str,
    envelope: &Envelope,
    message: Message,
) {
    let params = envelope.params.clone().and_then(|range| raw(&message, range));
    let params = params.and_then(RawObject::parse).unwrap_or_default();
    let is_new_client = relay.bridge.client.get() == Some(Era::Modern);
    match method {
        "notifications/subscriptions/acknowledged" => {
            if let Some(number) = subscription(&params) {
                subscriptions::acknowledged(relay, relay.index_of(from), number);
            }
        }
        _ if is_of_ended_stream(from, &params) => {}
        "notifications/resources/updated" => {
            let Some(uri) = params.get("uri") else { return };
            if is_new_client {
                let Some(uri) = params.text("uri") else { return };
                return subscriptions::updated(relay, &uri).await;
            }
            let params = format!(r#"{{"uri":{uri}}}"#);
            relay.client.send(json_rpc::notification(method, &params)).await;
        }
        method if method.ends_with("/list_changed") => {
            if is_new_client {
                return subscriptions::changed(relay, method).await;
            }
            relay
                .client
                .send(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).into_bytes())
                .await;
        }
        "notifications/progress" => {
            let edits = progress(from, &params, &message);
            if let Some(edits) = edits {
                relay.client.send(message.edited(edits)).await;
            }
        }
        "notifications/cancelled" => given_up(relay, from, envelope, &message),
        "notifications/message" if is_new_client && from.era.get() == Some(Era::Legacy) => {
            if logs(from) {
                relay.client.send(message.edited(Vec::new())).await;
            }
        }
        _ => relay.client.send(message.edited(Vec::new())).await,
    }
}

fn is_of_ended_stream(from: &Upstream, params: &RawObject<'_>) -> bool {
    subscription(params).is_some_and(|number| !from.waits_for(number))
}

fn subscription(params: &RawObject<'_>) -> Option<u64> {
    json_rpc::subscription_id(params).and_then(json_rpc::number_of)
}

/// Returns the edits of a progress notification. They replace the progress token, because a
/// repeated call may have a different one. Returns `None` if the client is not waiting for progress
/// now.
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

fn now(pending: &PendingRequest) -> Option<String> {
    match pending.carrier() {
        Some(carrier) => carrier.token.clone().filter(|_| pending.client_id.is_some()),
        None => pending.token.clone(),
    }
}

fn logs(from: &Upstream) -> bool {
    from.with_requests(|requests| {
        requests
            .waiting
            .values()
            .any(|pending| pending.carrier().is_some_and(|carrier| carrier.logs))
    })
}

fn given_up(relay: &Relay, from: &Arc<Upstream>, envelope: &Envelope, message: &Message) {
    let Some((id, _)) = request_id(envelope, message) else { return };
    if from.era.get() == Some(Era::Legacy) {
        if relay.bridge.held.forget(relay.index_of(from), &id) {
            from.count_asked(false);
        }
        return;
    }
    let pending = id.parse().ok().and_then(|number| from.take(number));
    if let Some(pending) = pending {
        // This is a request of the gateway, because servers end no other requests.
        drop(pending.fail_own("ended the subscription"));
    }
}

pub(crate) fn log_level(meta: &RawObject<'_>) -> Option<String> {
    meta.get(json_rpc::LEVEL_KEY).map(|level| level.get().to_owned())
}
