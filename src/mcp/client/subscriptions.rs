//! The subscriptions of a 2026-07-28 client. The gateway manages them itself if there are several
//! servers, or if the only server has an older revision.

use std::sync::Arc;

use crate::client::Subscription;
use crate::hub::route;
use crate::json_rpc::{self, INVALID_REQUEST, SUBSCRIPTION_KEY};
use crate::raw_object::quoted;
use crate::relay::Relay;
use crate::revision::translation::{LISTS, MAX_URIS, SubscriptionFilter};

const MAX_SUBSCRIPTIONS: usize = 256;

/// Opens the subscription requested by the client's request `id`. The request stays open until the
/// client cancels it.
pub(crate) fn open_subscription(relay: Arc<Relay>, id: String, asked: SubscriptionFilter) {
    tokio::spawn(async move {
        if relay.client.subscriptions.lock().len() >= MAX_SUBSCRIPTIONS {
            relay.client.end(&id);
            let text = format!("{MAX_SUBSCRIPTIONS} subscriptions are open: end one");
            return relay.client.error(&id, INVALID_REQUEST, &text).await;
        }
        let (filter, places) = honored(&relay, asked).await;
        let params = format!(r#"{{{},"notifications":{}}}"#, meta(&id), filter.json());
        let acknowledgement =
            json_rpc::notification("notifications/subscriptions/acknowledged", &params);
        let listener = Subscription { filter, early: Some(Vec::new()) };
        relay.client.subscriptions.lock().insert(id.clone(), listener);
        relay.client.send(acknowledgement).await;
        while let Some(early) = next_early(&relay, &id) {
            relay.client.send(early).await;
        }
        relay.client.until_ended(&id).await;
        relay.client.subscriptions.lock().remove(&id);
        for (index, uri) in places {
            unwatch(&relay, index, &uri).await;
        }
    });
}

/// Returns the next notification that arrived before the subscription was open, or `None` after the
/// last one. After `None`, further notifications are sent directly.
fn next_early(relay: &Relay, id: &str) -> Option<String> {
    let mut open = relay.client.subscriptions.lock();
    let listener = open.get_mut(id)?;
    let early = listener.early.as_mut()?;
    if early.is_empty() {
        listener.early = None;
        return None;
    }
    Some(early.remove(0))
}

fn meta(id: &str) -> String {
    format!(r#""_meta":{{"{SUBSCRIPTION_KEY}":{id}}}"#)
}

async fn honored(
    relay: &Arc<Relay>,
    asked: SubscriptionFilter,
) -> (SubscriptionFilter, Vec<(usize, String)>) {
    let mut filter = SubscriptionFilter::default();
    for (place, (list, _)) in LISTS.iter().enumerate() {
        filter.lists[place] = asked.lists[place] && announces(relay, list);
    }
    let mut places = Vec::new();
    for uri in asked.uris {
        let Some(index) = server_of(relay, &uri) else { continue };
        if watch(relay, index, &uri).await {
            places.push((index, uri.clone()));
            filter.uris.insert(uri);
        }
    }
    (filter, places)
}

fn announces(relay: &Relay, list: &str) -> bool {
    if let Some(hub) = &relay.hub {
        return hub.announces_list(list);
    }
    let only = relay.upstreams.first();
    only.is_some_and(|only| {
        only.profile.lock().as_ref().is_some_and(|known| known.has(list, "listChanged"))
    })
}

fn server_of(relay: &Relay, uri: &str) -> Option<usize> {
    match &relay.hub {
        Some(hub) => route::server_of(relay, hub, uri),
        None => Some(0).filter(|_| !relay.upstreams.is_empty()),
    }
}

async fn watch(relay: &Arc<Relay>, index: usize, uri: &str) -> bool {
    let is_first = {
        let mut watched = relay.client.watched.lock();
        if watched.values().sum::<usize>() >= MAX_URIS {
            return false;
        }
        let count = watched.entry((index, uri.to_owned())).or_default();
        *count += 1;
        *count == 1
    };
    if !is_first || relay.upstreams[index].watch(uri, true).await {
        return true;
    }
    relay.client.watched.lock().remove(&(index, uri.to_owned()));
    false
}

async fn unwatch(relay: &Arc<Relay>, index: usize, uri: &str) {
    let is_last = {
        let mut watched = relay.client.watched.lock();
        let key = (index, uri.to_owned());
        let count = watched.get(&key).copied().unwrap_or_default();
        if count > 1 {
            watched.insert(key, count - 1)
        } else {
            watched.remove(&key)
        };
        count == 1
    };
    if is_last {
        relay.upstreams[index].watch(uri, false).await;
    }
}

pub(crate) async fn changed(relay: &Relay, notification: &str) {
    if relay.client.is_modern() {
        tell_subscribers(relay, notification, "", |filter| filter.has(notification)).await;
    } else {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{notification}"}}"#);
        relay.client.send(text).await;
    }
}

pub(crate) async fn updated(relay: &Relay, uri: &str) {
    let members = format!(",\"uri\":{}", quoted(uri));
    let is_about =
        |filter: &SubscriptionFilter| filter.uris.iter().any(|watched| uri.starts_with(&**watched));
    tell_subscribers(relay, "notifications/resources/updated", &members, is_about).await;
}

async fn tell_subscribers(
    relay: &Relay,
    method: &str,
    members: &str,
    is_about: impl Fn(&SubscriptionFilter) -> bool,
) {
    let mut messages = Vec::new();
    {
        let mut open = relay.client.subscriptions.lock();
        for (id, listener) in open.iter_mut().filter(|(_, listener)| is_about(&listener.filter)) {
            let params = format!("{{{}{members}}}", meta(id));
            messages.extend(listener.take(json_rpc::notification(method, &params)));
        }
    }
    for message in messages {
        relay.client.send(message).await;
    }
}
