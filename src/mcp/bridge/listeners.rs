//! Notifications for new clients, which ask for them by `subscriptions/listen`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bridge::era::Era;
use crate::bridge::filter::{Filter, LISTS, MOST_URIS};
use crate::bridge::listening;
use crate::raw_object::quoted;
use crate::relay::{INVALID_REQUEST, Relay};
use crate::{hub, server_request};

/// The most subscriptions of a session.
const MOST: usize = 256;
/// The most notifications that wait until the client is told that one is open.
const MOST_EARLY: usize = 256;

/// The subscriptions of the client.
#[derive(Default)]
pub(super) struct Listeners {
    open: Mutex<BTreeMap<String, Listener>>,
    /// The number of subscriptions about each resource of a server.
    watched: Mutex<HashMap<(usize, String), usize>>,
}

/// A subscription.
struct Listener {
    filter: Filter,
    /// Notifications that came before the client was told that it is open.
    early: Option<Vec<Vec<u8>>>,
}

impl Listener {
    /// Takes a notification. Returns it if the client can be told at once. Until then, each is kept
    /// once: it says that something has changed, not how often.
    fn take(&mut self, notification: Vec<u8>) -> Option<Vec<u8>> {
        let Some(early) = &mut self.early else { return Some(notification) };
        if early.contains(&notification) {
            return None;
        }
        if early.len() < MOST_EARLY {
            early.push(notification);
        } else {
            tracing::debug!("the client does not read, and a notification is lost");
        }
        None
    }
}

/// Opens a subscription: the request with this id, which is not answered until the client ends it.
pub(super) fn open(relay: Arc<Relay>, id: String, asked: Filter) {
    tokio::spawn(async move {
        if relay.bridge.listeners.open.lock().len() >= MOST {
            relay.end(&id);
            let text = format!("{MOST} subscriptions are open: end one");
            return relay.error(&id, INVALID_REQUEST, &text).await;
        }
        let (filter, places) = honored(&relay, asked).await;
        let told = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{{},"notifications":{}}}}}"#,
            meta(&id),
            filter.json()
        );
        let listener = Listener { filter, early: Some(Vec::new()) };
        relay.bridge.listeners.open.lock().insert(id.clone(), listener);
        relay.tell(told.into_bytes()).await;
        while let Some(early) = next_early(&relay, &id) {
            relay.tell(early).await;
        }
        relay.until_ended(&id).await;
        relay.bridge.listeners.open.lock().remove(&id);
        for (index, uri) in places {
            unwatch(&relay, index, &uri).await;
        }
    });
}

/// Returns what came before; `None` once there is nothing more, and what comes passes.
fn next_early(relay: &Relay, id: &str) -> Option<Vec<u8>> {
    let mut open = relay.bridge.listeners.open.lock();
    let listener = open.get_mut(id)?;
    let early = listener.early.as_mut()?;
    if early.is_empty() {
        listener.early = None;
        return None;
    }
    Some(early.remove(0))
}

fn meta(id: &str) -> String {
    format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#)
}

/// Returns the part of a filter that the servers honor, and the servers of its resources.
async fn honored(relay: &Arc<Relay>, asked: Filter) -> (Filter, Vec<(usize, String)>) {
    let mut filter = Filter::default();
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
    let known = relay.bridge.introduction.lock();
    known.as_ref().is_some_and(|known| known.has(list, "listChanged"))
}

fn server_of(relay: &Relay, uri: &str) -> Option<usize> {
    match &relay.hub {
        Some(hub) => hub::server_of(relay, hub, uri),
        None => Some(0).filter(|_| !relay.upstreams.is_empty()),
    }
}

async fn watch(relay: &Arc<Relay>, index: usize, uri: &str) -> bool {
    let is_first = {
        let mut watched = relay.bridge.listeners.watched.lock();
        if watched.values().sum::<usize>() >= MOST_URIS {
            return false;
        }
        let count = watched.entry((index, uri.to_owned())).or_default();
        *count += 1;
        *count == 1
    };
    if !is_first || subscribe(relay, index, uri, true).await {
        return true;
    }
    relay.bridge.listeners.watched.lock().remove(&(index, uri.to_owned()));
    false
}

async fn unwatch(relay: &Arc<Relay>, index: usize, uri: &str) {
    let is_last = {
        let mut watched = relay.bridge.listeners.watched.lock();
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

/// Asks a server to tell of changes of a resource, or to tell no more.
async fn subscribe(relay: &Arc<Relay>, index: usize, uri: &str, is_on: bool) -> bool {
    let upstream = &relay.upstreams[index];
    if upstream.era() == Some(Era::Modern) {
        return listening::watch(relay, index, uri, is_on).await;
    }
    let method = if is_on { "resources/subscribe" } else { "resources/unsubscribe" };
    let parameters = format!("{{\"uri\":{}}}", quoted(uri));
    let done = server_request::result(upstream, method, &parameters).await;
    done.inspect_err(|why| tracing::debug!("{}: {why}", upstream.name)).is_ok()
}

/// Tells a new client that a list has changed, if it asked for that.
pub(crate) async fn changed(relay: &Relay, notification: &str) {
    tell(relay, notification, "", |filter| filter.has(notification)).await;
}

/// Tells it that a resource has changed, or one below it.
pub(super) async fn updated(relay: &Relay, uri: &str) {
    let members = format!(",\"uri\":{}", quoted(uri));
    let is_about = |filter: &Filter| filter.uris.iter().any(|watched| uri.starts_with(&**watched));
    tell(relay, "notifications/resources/updated", &members, is_about).await;
}

async fn tell(relay: &Relay, method: &str, members: &str, is_about: impl Fn(&Filter) -> bool) {
    let mut told = Vec::new();
    {
        let mut open = relay.bridge.listeners.open.lock();
        for (id, listener) in open.iter_mut().filter(|(_, listener)| is_about(&listener.filter)) {
            let params = format!("{{{}{members}}}", meta(id));
            let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
            told.extend(listener.take(message.into_bytes()));
        }
    }
    for message in told {
        relay.tell(message).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_wait_once_each_and_in_a_bounded_number() {
        let mut listener = Listener { filter: Filter::default(), early: Some(Vec::new()) };
        for number in 0..2 * MOST_EARLY {
            for _ in 0..3 {
                assert_eq!(listener.take(number.to_string().into_bytes()), None);
            }
        }
        assert_eq!(listener.early.as_ref().map(Vec::len), Some(MOST_EARLY));
        listener.early = None;
        assert_eq!(listener.take(b"x".to_vec()), Some(b"x".to_vec()));
    }
}
