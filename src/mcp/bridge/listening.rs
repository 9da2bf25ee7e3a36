//! Notifications of new servers: the gateway asks for them by `subscriptions/listen`, and again when
//! the stream ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::bridge::filter::{Filter, LISTS, LONGEST_URI, MOST_URIS};
use crate::bridge::introduction::Introduction;
use crate::relay::Relay;
use crate::server_request;
use crate::server_request::{OpenRequest, OwnRequest};
use crate::upstream::Upstream;

/// The time for the acknowledgement of a subscription.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before an ended stream is asked for again. It doubles with each in a row.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The subscription to one server.
pub(super) struct Listening {
    state: Mutex<ListeningState>,
    /// The number of the last request that was acknowledged.
    acknowledged: watch::Sender<u64>,
}

#[derive(Default)]
struct ListeningState {
    wanted: Filter,
    /// True if the server tells of changes of resources.
    subscribes: bool,
    task: Option<AbortHandle>,
    /// The streams in a row that were not acknowledged.
    failures: u32,
}

impl Default for Listening {
    fn default() -> Self {
        Self { state: Mutex::default(), acknowledged: watch::Sender::new(0) }
    }
}

/// Asks a server for the changes of the lists that it announces.
pub(crate) fn listen(relay: &Arc<Relay>, index: usize) {
    let known = relay.bridge.introduction.lock().clone();
    listen_to(relay, index, &known.unwrap_or_default());
}

/// The same for a server that has introduced itself.
pub(crate) fn listen_to(relay: &Arc<Relay>, index: usize, known: &Introduction) {
    {
        let mut state = relay.bridge.listening[index].state.lock();
        state.wanted.lists = LISTS.map(|(list, _)| known.has(list, "listChanged"));
        state.subscribes = known.has("resources", "subscribe");
    }
    open(relay, index);
}

/// Watches a resource from now on, or no longer. Returns false if the server does not tell, or too
/// much is watched.
pub(super) async fn watch(relay: &Arc<Relay>, index: usize, uri: &str, is_on: bool) -> bool {
    let listening = &relay.bridge.listening[index];
    {
        let mut state = listening.state.lock();
        if !state.subscribes {
            return false;
        }
        let uris = &state.wanted.uris;
        if uris.contains(uri) == is_on {
            return true;
        }
        let has_room = uris.len() < MOST_URIS && uri.len() <= LONGEST_URI;
        if is_on && !has_room {
            return false;
        }
        if is_on {
            state.wanted.uris.insert(uri.to_owned());
        } else {
            state.wanted.uris.remove(uri);
        }
    }
    let Some(number) = open(relay, index) else { return !is_on };
    let mut acknowledged = listening.acknowledged.subscribe();
    timeout(PATIENCE, acknowledged.wait_for(|last| *last >= number)).await.is_ok()
}

/// Opens the stream of what is wanted, and then ends the older one. Returns its number.
fn open(relay: &Arc<Relay>, index: usize) -> Option<u64> {
    let upstream = &relay.upstreams[index];
    let mut state = relay.bridge.listening[index].state.lock();
    let older = state.task.take();
    let opened = if state.wanted.is_empty() { None } else { request(upstream, &state.wanted) };
    let number = opened.as_ref().map(|opened| opened.number);
    if let Some(opened) = opened {
        let pause = PAUSE * 2u32.saturating_pow(state.failures.min(6));
        state.failures += 1;
        let kept = keep(Arc::downgrade(relay), index, opened, pause.min(LONGEST_PAUSE));
        state.task = Some(tokio::spawn(kept).abort_handle());
    }
    if let Some(older) = older {
        older.abort();
    }
    number
}

fn request(upstream: &Arc<Upstream>, wanted: &Filter) -> Option<OpenRequest<Arc<Upstream>>> {
    let parameters = format!("{{\"notifications\":{}}}", wanted.json());
    let own = OwnRequest::new(upstream, "subscriptions/listen", &parameters);
    let opened = server_request::open(Arc::clone(upstream), OwnRequest { deadline: None, ..own });
    opened.inspect_err(|why| tracing::warn!("{}: {why}", upstream.name)).ok()
}

/// Waits for the end of a stream, and opens another, once the server runs.
async fn keep(
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
            open(&relay, index);
            return;
        }
    }
}

/// Notes that a stream is open.
pub(super) fn acknowledged(relay: &Relay, index: usize, number: u64) {
    let listening = &relay.bridge.listening[index];
    listening.state.lock().failures = 0;
    listening.acknowledged.send_if_modified(|last| {
        let is_newer = number > *last;
        *last = number.max(*last);
        is_newer
    });
}
