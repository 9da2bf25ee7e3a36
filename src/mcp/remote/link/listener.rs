//! The stream of messages of a server that answer no request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{Handling, Link, is_type};
use crate::headers::EVENTS;
use crate::manager::Inbox;
use crate::remote::event_lines::Marks;
use crate::remote::head::Head;

/// The pause after the stream has ended, if the server names none. It doubles while it fails.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

impl<I: Inbox> Link<I> {
    /// Opens the stream of messages that answer no request, in place of an older one.
    pub(super) fn listen(self: &Arc<Self>) {
        let listener = tokio::spawn(listen(Arc::downgrade(self)));
        if let Some(older) = self.session.lock().listener.replace(listener) {
            older.abort();
        }
    }

    /// Hands over the events of the stream that answers no request.
    async fn listened(
        &self,
        response: Response<Incoming>,
        marks: &Arc<Mutex<Marks>>,
    ) -> Result<(), String> {
        self.stream(response, marks, &Head::default(), &Handling::default()).await
    }
}

/// Hands over the messages of the stream, and asks for it again when it ends, until the server
/// offers none or the session is over.
async fn listen<I: Inbox>(link: Weak<Link<I>>) {
    let marks = Arc::new(Mutex::new(Marks::default()));
    let mut pause = PAUSE;
    loop {
        let Some(link) = link.upgrade() else { return };
        let last = marks.lock().last_id.clone();
        match link.get(last.as_deref()).await {
            Ok(response) if response.status().is_success() && is_type(&response, EVENTS) => {
                pause = PAUSE;
                let ended = link.listened(response, &marks).await;
                tracing::debug!("{}: its stream ended: {ended:?}", link.upstream.name);
            }
            Ok(response) if is_final(response.status()) => {
                tracing::debug!("{}: offers no stream: {}", link.upstream.name, response.status());
                return;
            }
            Ok(response) => {
                tracing::debug!("{}: no stream: {}", link.upstream.name, response.status());
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(why) => {
                tracing::debug!("{}: no stream: {why}", link.upstream.name);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        drop(link);
        let named = marks.lock().retry.unwrap_or_default();
        sleep(pause.max(named).min(LONGEST_PAUSE)).await;
    }
}

/// Returns true if the stream will not come: none is offered, or the session is over, which the
/// next message finds out.
fn is_final(status: StatusCode) -> bool {
    status.is_success()
        || (status.is_client_error()
            && status != StatusCode::REQUEST_TIMEOUT
            && status != StatusCode::TOO_MANY_REQUESTS
            && status != StatusCode::CONFLICT)
}
