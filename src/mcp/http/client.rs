//! A client over HTTP: its session with the servers, and the streams that it has open.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::bridge::era::Era;
use crate::envelope::Kind;
use crate::from_client::request_id;
use crate::http::gate::Owner;
use crate::http::streams::{Asked, Delivered, Event, Events, Streams};
use crate::line_reader::Line;
use crate::manager::cancelled;
use crate::message::{Edit, Message};
use crate::parsed::Parsed;
use crate::queue::Receiver;
use crate::relay::METHOD_NOT_FOUND;
use crate::session::{Gateway, Session};
use crate::shelf::LazyShelf;
use crate::{envelope, queue};

/// The time after which a client that does not read is gone.
const STUCK: Duration = Duration::from_mins(2);

/// A client, or all clients of a revision without sessions that have one token.
pub(super) struct Client {
    session: Session,
    streams: Streams,
    pub(super) owner: Owner,
    pub(super) shelf: Arc<LazyShelf>,
    /// The time of the last request.
    used: Mutex<Instant>,
    router: Mutex<Option<JoinHandle<()>>>,
    /// True if closing a stream cancels its requests.
    is_shared: bool,
}

/// A stream to the client. What it asked for is cancelled if it closes the stream of a revision
/// without sessions.
pub(super) struct OpenStream {
    client: Arc<Client>,
    events: Events,
}

impl Client {
    pub(super) fn begin(
        gateway: &Gateway,
        shelf: Arc<LazyShelf>,
        owner: Owner,
        is_shared: bool,
    ) -> io::Result<Arc<Self>> {
        let (sender, queue) = queue::queue();
        let era = is_shared.then_some(Era::Modern);
        let session = Session::begin(gateway, &shelf, sender, era)?;
        let client = Arc::new(Self {
            session,
            streams: Streams::new(is_shared),
            owner,
            shelf,
            used: Mutex::new(Instant::now()),
            router: Mutex::new(None),
            is_shared,
        });
        let router = tokio::spawn(Arc::clone(&client).route(queue));
        *client.router.lock() = Some(router);
        Ok(client)
    }

    /// Takes the messages of a request. Returns the stream of the answers, if there will be any; an
    /// error if an id is in use.
    pub(super) async fn take(
        self: &Arc<Self>,
        mut messages: Vec<Parsed>,
        hang_up: &Arc<Notify>,
    ) -> Result<Option<OpenStream>, String> {
        self.touch();
        let is_request = |parsed: &Parsed| matches!(parsed.envelope.kind, Kind::Request { .. });
        let asked: Vec<Asked> =
            messages.iter().filter(|parsed| is_request(parsed)).map(asked).collect();
        let stream = if asked.is_empty() {
            None
        } else {
            let (events, numbers) = self.streams.open(asked, hang_up)?;
            let requests = messages.iter_mut().filter(|parsed| is_request(parsed));
            for (parsed, number) in requests.zip(numbers) {
                parsed.renumber(number);
            }
            Some(OpenStream { client: Arc::clone(self), events })
        };
        for parsed in messages {
            if let Some(message) = self.named(parsed) {
                self.session.line(Line::Message(message)).await;
            }
        }
        Ok(stream)
    }

    /// Opens the stream of messages that answer no request.
    pub(super) fn listen(self: &Arc<Self>, hang_up: &Arc<Notify>) -> OpenStream {
        self.touch();
        OpenStream { client: Arc::clone(self), events: self.streams.listen(hang_up) }
    }

    /// Returns the message with the number of the request that it names, if it cancels one.
    fn named(&self, parsed: Parsed) -> Option<Message> {
        let Parsed { envelope, message } = parsed;
        let is_cancel = matches!(&envelope.kind, Kind::Notification { method } if method == "notifications/cancelled");
        if !is_cancel {
            return Some(message);
        }
        let (id, range) = request_id(&envelope, &message)?;
        let number = self.streams.cancelled(&id)?;
        let edit = Edit { range, with: number.to_string().into_bytes() };
        Some(message.rewritten(vec![edit]))
    }

    /// Hands the messages for the client to its streams.
    async fn route(self: Arc<Self>, mut queue: Receiver) {
        while let Some(queued) = queue.next().await {
            if let Delivered::Refused(id) = self.streams.deliver(queued) {
                let text = "the client takes no requests";
                let refusal = envelope::error(&id, METHOD_NOT_FOUND, text);
                let refusal = String::from_utf8(refusal).unwrap_or_default();
                self.session.line(Line::Message(Message::whole(refusal))).await;
            }
        }
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Returns true if nothing was asked for `time`, and no stream is open. Ends the connections of
    /// clients that do not read.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        self.streams.end_stuck(STUCK);
        self.streams.is_empty() && self.used.lock().elapsed() > time
    }

    pub(super) async fn end(&self) {
        if let Some(router) = self.router.lock().take() {
            router.abort();
        }
        self.streams.close();
        self.session.end().await;
        let shelf = Arc::clone(&self.shelf);
        spawn_blocking(move || shelf.finish()).await.ok();
    }

    fn closed(self: &Arc<Self>, stream: u64) {
        self.touch();
        let left = self.streams.closed(stream);
        if !self.is_shared || left.is_empty() {
            return;
        }
        let client = Arc::clone(self);
        let cancel = async move {
            for number in left {
                let text = String::from_utf8(cancelled(number)).unwrap_or_default();
                client.session.line(Line::Message(Message::whole(text))).await;
            }
        };
        // Without a runtime, everything ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancel);
        }
    }
}

fn asked(parsed: &Parsed) -> Asked {
    let id = parsed.envelope.id(&parsed.message).unwrap_or("null").to_owned();
    Asked { id, token: parsed.token().map(|token| token.get().to_owned()) }
}

impl OpenStream {
    /// Waits for an event; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.receiver.recv().await
    }

    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.receiver.poll_recv(cx)
    }

    /// Notes that the client takes something.
    pub(super) fn progressed(&self) {
        self.events.pace.lock().moved = Instant::now();
    }

    /// Notes that it has taken an event.
    pub(super) fn sent(&self) {
        let mut pace = self.events.pace.lock();
        pace.unread = pace.unread.saturating_sub(1);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.client.closed(self.events.number);
    }
}
