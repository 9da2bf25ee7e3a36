//! Subscriptions at a server. A 2026-07-28 server sends its notifications on a stream, which the
//! gateway opens again whenever it ends.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::raw_object::quoted;
use crate::revision::translation::{LISTS, MAX_URI_BYTES, MAX_URIS};
use crate::revision::{Era, ServerProfile};
use crate::server_request::{self, OpenRequest, OwnRequest};
use crate::upstream::Upstream;

const ACKNOWLEDGE_TIME: Duration = Duration::from_secs(5);
// The pause before reopening an ended stream. It doubles with each consecutive failure.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_mins(1);

impl Upstream {
    /// Subscribes to the changes of every list whose changes the server announces.
    pub(crate) fn listen(self: &Arc<Self>, known: &ServerProfile) {
        {
            let mut notifications = self.notifications.lock();
            notifications.wanted.lists = LISTS.map(|(list, _)| known.has(list, "listChanged"));
            notifications.subscribes = known.has("resources", "subscribe");
        }
        self.open_stream();
    }

    /// Starts or stops watching a resource. Returns false if the server does not report changes, or
    /// if too many resources are watched.
    pub(crate) async fn watch(self: &Arc<Self>, uri: &str, is_on: bool) -> bool {
        if self.era.get() != Some(Era::Modern) {
            let method = if is_on { "resources/subscribe" } else { "resources/unsubscribe" };
            let parameters = format!("{{\"uri\":{}}}", quoted(uri));
            let done = server_request::result(self, method, &parameters).await;
            return done.inspect_err(|why| tracing::debug!("{}: {why}", self.name)).is_ok();
        }
        {
            let mut notifications = self.notifications.lock();
            if !notifications.subscribes {
                return false;
            }
            let uris = &mut notifications.wanted.uris;
            if uris.contains(uri) == is_on {
                return true;
            }
            if is_on && (uris.len() == MAX_URIS || uri.len() > MAX_URI_BYTES) {
                return false;
            }
            let _ = if is_on { uris.insert(uri.to_owned()) } else { uris.remove(uri) };
        }
        let Some(number) = self.open_stream() else { return !is_on };
        let mut acknowledged = self.acknowledged.subscribe();
        timeout(ACKNOWLEDGE_TIME, acknowledged.wait_for(|last| *last >= number)).await.is_ok()
    }

    /// Records that the server confirmed the stream opened by request `number`.
    pub(crate) fn acknowledged(&self, number: u64) {
        self.notifications.lock().failures = 0;
        self.acknowledged.send_if_modified(|last| {
            let is_newer = number > *last;
            *last = number.max(*last);
            is_newer
        });
    }

    /// Opens a stream for the wanted notifications, then ends the previous stream. Returns the
    /// request number of the new stream, or `None` if no stream was opened.
    fn open_stream(self: &Arc<Self>) -> Option<u64> {
        let mut notifications = self.notifications.lock();
        let older = notifications.task.take();
        let wanted = Some(&notifications.wanted).filter(|wanted| !wanted.is_empty());
        let opened = wanted.and_then(|wanted| {
            let parameters = format!("{{\"notifications\":{}}}", wanted.json());
            let own = OwnRequest::new(self, "subscriptions/listen", &parameters);
            let own = OwnRequest { deadline: None, ..own };
            let opened = server_request::open(Arc::clone(self), own);
            opened.inspect_err(|why| tracing::warn!("{}: {why}", self.name)).ok()
        });
        let number = opened.as_ref().map(|opened| opened.number);
        if let Some(opened) = opened {
            let pause = MIN_BACKOFF * 2u32.saturating_pow(notifications.failures.min(6));
            notifications.failures += 1;
            let kept = keep_stream(Arc::downgrade(self), opened, pause.min(MAX_BACKOFF));
            notifications.task = Some(tokio::spawn(kept).abort_handle());
        }
        if let Some(older) = older {
            older.abort();
        }
        number
    }
}

async fn keep_stream(
    upstream: Weak<Upstream>,
    opened: OpenRequest<Arc<Upstream>>,
    pause: Duration,
) {
    let ended = opened.answer().await;
    tracing::debug!("the notifications of a server ended: {:?}", ended.err());
    loop {
        sleep(pause).await;
        let Some(upstream) = upstream.upgrade() else { return };
        if upstream.is_running() {
            upstream.open_stream();
            return;
        }
    }
}
