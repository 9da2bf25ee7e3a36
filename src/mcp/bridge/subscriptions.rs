//! 2026-07-28 subscriptions in both directions. The gateway subscribes to new servers, and
//! subscribes again whenever a stream ends. New clients subscribe to the gateway.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::bridge::messages::{LISTS, MAX_URI_BYTES, MAX_URIS, SubscriptionFilter};
use crate::bridge::{MAX_SUBSCRIPTIONS, Subscription};
use crate::hub::route;
use crate::json_rpc::{self, INVALID_REQUEST, SUBSCRIPTION_KEY};
use crate::raw_object::quoted;
use crate::relay::Relay;
use crate::revision::{Era, ServerProfile};
use crate::server_request::{self, OpenRequest, OwnRequest};
use crate::upstream::Upstream;

const ACKNOWLEDGE_TIME: Duration = Duration::from_secs(5);
// The pause before reopening an ended stream. It doubles with each consecutive failure.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_mins(1);

pub(crate) fn listen_to(relay: &Arc<Relay>, index: usize, known: &ServerProfile) {
    {
        let mut state = relay.bridge.upstream_subscriptions[index].state.lock();
        state.wanted.lists = LISTS.map(|(list, _)| known.has(list, "listChanged"));
        state.subscribes = known.has("resources", "subscribe");
    }
    open_stream(relay, index);
}

/// Starts or stops watching a resource at a new server. Returns false if the server does not report
/// changes, or if too many resources are watched.
pub(crate) async fn watch_at_server(
    relay: &Arc<Relay>,
    index: usize,
    uri: &str,
    is_on: bool,
) -> bool {
    let listening = &relay.bridge.upstream_subscriptions[index];
    {
        let mut state = listening.state.lock();
        if !state.subscribes {
            return false;
        }
        let uris = &state.wanted.uris;
        if uris.contains(uri) == is_on {
            return true;
        }
        let has_room = uris.len() < MAX_URIS && uri.len() <= MAX_URI_BYTES;
        if is_on && !has_room {
            return false;
        }
        if is_on {
            state.wanted.uris.insert(uri.to_owned());
        } else {
            state.wanted.uris.remove(uri);
        }
    }
    let Some(number) = open_stream(relay, index) else { return !is_on };
    let mut acknowledged = listening.acknowledged.subscribe();
    timeout(ACKNOWLEDGE_TIME, acknowledged.wait_for(|last| *last >= number)).await.is_ok()
}

/// Opens a stream for the wanted notifications, then ends the previous stream. Returns the request
/// number of the new stream, or `None` if no stream was opened.
fn open_stream(relay: &Arc<Relay>, index: usize) -> Option<u64> {
    let upstream = &relay.upstreams[index];
    let mut state = relay.bridge.upstream_subscriptions[index].state.lock();
    let older = state.task.take();
    let opened =
        if state.wanted.is_empty() { None } else { request_stream(upstream, &state.wanted) };
    let number = opened.as_ref().map(|opened| opened.number);
    if let Some(opened) = opened {
        let pause = MIN_BACKOFF * 2u32.saturating_pow(state.failures.min(6));
        state.failures += 1;
        let kept = keep_stream(Arc::downgrade(relay), index, opened, pause.min(MAX_BACKOFF));
        state.task = Some(tokio::spawn(kept).abort_handle());
    }
    if let Some(older) = older {
        older.abort();
    }
    number
}

fn request_stream(
    upstream: &Arc<Upstream>,
    wanted: &SubscriptionFilter,
) -> Option<OpenRequest<Arc<Upstream>>> {
    let parameters = format!("{{\"notifications\":{}}}", wanted.json());
    let own = OwnRequest::new(upstream, "subscriptions/listen", &parameters);
    let opened = server_request::open(Arc::clone(upstream), OwnRequest { deadline: None, ..own });
    opened.inspect_err(|why| tracing::warn!("{}: {why}", upstream.name)).ok()
}

async fn keep_stream(
    relay: Weak<Relay>,
    index: usize,
    opened: OpenRequest<Arc<Upstream>>,
    pause: Duration,
) {
    let ended = opened.answer().await;
    tracing::debug!("the notifications of a server ended: {:?}", ended.err());
    loop {
        sleep(pause).await;
        let Some(relay) = relay.upgrade() else { return };
        if relay.upstreams[index].is_running() {
            open_stream(&relay, index);
            return;
        }
    }
}

pub(crate) fn acknowledged(relay: &Relay, index: usize, number: u64) {
    let listening = &relay.bridge.upstream_subscriptions[index];
    listening.state.lock().failures = 0;
    listening.acknowledged.send_if_modified(|last| {
        let is_newer = number > *last;
        *last = number.max(*last);
        is_newer
    });
}

/// Opens the subscription requested by the client's request `id`. The request stays open until the
/// client cancels it.
pub(crate) fn open_subscription(relay: Arc<Relay>, id: String, asked: SubscriptionFilter) {
    tokio::spawn(async move {
        if relay.bridge.subscriptions.open.lock().len() >= MAX_SUBSCRIPTIONS {
            relay.client.end(&id);
            let text = format!("{MAX_SUBSCRIPTIONS} subscriptions are open: end one");
            return relay.client.error(&id, INVALID_REQUEST, &text).await;
        }
        let (filter, places) = honored(&relay, asked).await;
        let params = format!(r#"{{{},"notifications":{}}}"#, meta(&id), filter.json());
        let acknowledgement =
            json_rpc::notification("notifications/subscriptions/acknowledged", &params);
        let listener = Subscription { filter, early: Some(Vec::new()) };
        relay.bridge.subscriptions.open.lock().insert(id.clone(), listener);
        relay.client.send(acknowledgement).await;
        while let Some(early) = next_early(&relay, &id) {
            relay.client.send(early).await;
        }
        relay.client.until_ended(&id).await;
        relay.bridge.subscriptions.open.lock().remove(&id);
        for (index, uri) in places {
            unwatch(&relay, index, &uri).await;
        }
    });
}

/// Returns the next notification that arrived before the subscription was open. Returns `None`
/// after the last one. From then on, notifications are sent directly.
fn next_early(relay: &Relay, id: &str) -> Option<Vec<u8>> {
    let mut open = relay.bridge.subscriptions.open.lock();
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
    let known = relay.bridge.server_profile.lock();
    known.as_ref().is_some_and(|known| known.has(list, "listChanged"))
}

fn server_of(relay: &Relay, uri: &str) -> Option<usize> {
    match &relay.hub {
        Some(hub) => route::server_of(relay, hub, uri),
        None => Some(0).filter(|_| !relay.upstreams.is_empty()),
    }
}

async fn watch(relay: &Arc<Relay>, index: usize, uri: &str) -> bool {
    let is_first = {
        let mut watched = relay.bridge.subscriptions.watched.lock();
        if watched.values().sum::<usize>() >= MAX_URIS {
            return false;
        }
        let count = watched.entry((index, uri.to_owned())).or_default();
        *count += 1;
        *count == 1
    };
    if !is_first || subscribe(relay, index, uri, true).await {
        return true;
    }
    relay.bridge.subscriptions.watched.lock().remove(&(index, uri.to_owned()));
    false
}

async fn unwatch(relay: &Arc<Relay>, index: usize, uri: &str) {
    let is_last = {
        let mut watched = relay.bridge.subscriptions.watched.lock();
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
        subscribe(relay, index, uri, false).await;
    }
}

async fn subscribe(relay: &Arc<Relay>, index: usize, uri: &str, is_on: bool) -> bool {
    let upstream = &relay.upstreams[index];
    if upstream.era.get() == Some(Era::Modern) {
        return watch_at_server(relay, index, uri, is_on).await;
    }
    let method = if is_on { "resources/subscribe" } else { "resources/unsubscribe" };
    let parameters = format!("{{\"uri\":{}}}", quoted(uri));
    let done = server_request::result(upstream, method, &parameters).await;
    done.inspect_err(|why| tracing::debug!("{}: {why}", upstream.name)).is_ok()
}

pub(crate) async fn changed(relay: &Relay, notification: &str) {
    tell_subscribers(relay, notification, "", |filter| filter.has(notification)).await;
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
        let mut open = relay.bridge.subscriptions.open.lock();
        for (id, listener) in open.iter_mut().filter(|(_, listener)| is_about(&listener.filter)) {
            let params = format!("{{{}{members}}}", meta(id));
            messages.extend(listener.take(json_rpc::notification(method, &params)));
        }
    }
    for message in messages {
        relay.client.send(message).await;
    }
}
