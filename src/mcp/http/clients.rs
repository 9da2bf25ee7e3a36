//! Clients over HTTP: their sessions and their open streams.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use uuid::Uuid;

use crate::from_client;
use crate::http::gate::{HttpRefusal, TokenIndex};
use crate::http::streams::{Delivered, StreamEvent, StreamEvents, StreamRequest, Streams};
use crate::json_rpc::{self, METHOD_NOT_FOUND, MessageKind, Parsed, cancelled, request_id};
use crate::line_reader::InputLine;
use crate::message::{Edit, Message};
use crate::queue::{self, Receiver};
use crate::revision::Era;
use crate::session::{Gateway, GatewaySession};
use crate::shelf::{ConversationSources, LazyShelf, Shelf};

// Maximum number of sessions. Each session has its own servers.
const MAX_SESSIONS: usize = 64;
// Time after which a client that does not read its stream is disconnected.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// All sessions of an HTTP gateway. Clients of revision 2026-07-28 open no sessions, so the gateway
/// keeps one session in `shared` for each token. Both kinds of sessions count toward
/// [`MAX_SESSIONS`].
pub(crate) struct HttpSessions {
    gateway: Gateway,
    shelves: Arc<dyn ConversationSources>,
    idle: Duration,
    open: Mutex<OpenSessions>,
}

#[derive(Default)]
struct OpenSessions {
    sessions: HashMap<String, Arc<HttpSession>>,
    shared: HashMap<TokenIndex, Arc<HttpSession>>,
    is_closed: bool,
}

impl HttpSessions {
    pub(crate) fn new(
        gateway: Gateway,
        shelves: Arc<dyn ConversationSources>,
        idle: Duration,
    ) -> Self {
        Self { gateway, shelves, idle, open: Mutex::default() }
    }

    pub(crate) fn begin(
        &self,
        owner: TokenIndex,
    ) -> Result<(String, Arc<HttpSession>), HttpRefusal> {
        let mut open = self.open.lock();
        open.check_room()?;
        let shelf = self.shelves.of_session();
        let client = self.client(shelf, owner, false)?;
        // The id has 122 random bits from the system.
        let id = Uuid::new_v4().to_string();
        tracing::info!(
            "a session begins; its conversation is {}",
            client.shelf.source.conversation()
        );
        open.sessions.insert(id.clone(), Arc::clone(&client));
        Ok((id, client))
    }

    pub(crate) fn find(
        &self,
        id: &str,
        owner: TokenIndex,
    ) -> Result<Arc<HttpSession>, HttpRefusal> {
        let open = self.open.lock();
        let found = open.sessions.get(id).filter(|client| client.owner == owner);
        found.cloned().ok_or_else(|| {
            HttpRefusal::new(StatusCode::NOT_FOUND, "the session has ended: initialize again")
        })
    }

    pub(crate) fn shared(
        &self,
        owner: TokenIndex,
        token: Option<&str>,
    ) -> Result<Arc<HttpSession>, HttpRefusal> {
        let mut open = self.open.lock();
        if let Some(client) = open.shared.get(&owner) {
            return Ok(Arc::clone(client));
        }
        open.check_room()?;
        let client = self.client(self.shelves.of_token(token), owner, true)?;
        open.shared.insert(owner, Arc::clone(&client));
        Ok(client)
    }

    pub(crate) fn take(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.open.lock().sessions.remove(id)
    }

    pub(crate) fn take_idle(&self) -> Vec<Arc<HttpSession>> {
        let mut open = self.open.lock();
        let sessions = open.sessions.extract_if(|_, client| client.is_idle(self.idle));
        let mut idle: Vec<_> = sessions.map(|(_, client)| client).collect();
        let shared = open.shared.extract_if(|_, client| client.is_idle(self.idle));
        idle.extend(shared.map(|(_, client)| client));
        idle
    }

    pub(crate) async fn end(&self) {
        let none = OpenSessions { is_closed: true, ..OpenSessions::default() };
        let open = std::mem::replace(&mut *self.open.lock(), none);
        let mut ending = JoinSet::new();
        for client in open.sessions.into_values().chain(open.shared.into_values()) {
            ending.spawn(async move { client.end().await });
        }
        while ending.join_next().await.is_some() {}
        self.gateway.end().await;
    }

    fn client(
        &self,
        shelf: Arc<dyn Shelf>,
        owner: TokenIndex,
        is_shared: bool,
    ) -> Result<Arc<HttpSession>, HttpRefusal> {
        let has_tools = self.gateway.options.context_tools;
        let shelf = Arc::new(LazyShelf::new(shelf, has_tools));
        HttpSession::begin(&self.gateway, shelf, owner, is_shared).map_err(|error| {
            let text = format!("the session cannot begin: {error}");
            HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }
}

impl OpenSessions {
    fn check_room(&self) -> Result<(), HttpRefusal> {
        if self.is_closed {
            let text = "the gateway is being stopped";
            return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        if self.sessions.len() + self.shared.len() < MAX_SESSIONS {
            return Ok(());
        }
        let text =
            format!("{MAX_SESSIONS} sessions are open: end one by DELETE, or try again later");
        Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, text))
    }
}

/// A client over HTTP, or all 2026-07-28 clients with the same token. A task routes messages for
/// the client to its streams. If `is_shared`, closing the stream of a request cancels the request.
pub(crate) struct HttpSession {
    session: GatewaySession,
    streams: Streams,
    pub(crate) owner: TokenIndex,
    pub(crate) shelf: Arc<LazyShelf>,
    used: Mutex<Instant>,
    router: Mutex<Option<JoinHandle<()>>>,
    is_shared: bool,
}

/// A stream of events to a client. Dropping it reports that the client closed the stream. In a
/// revision without sessions, this cancels the requests of the stream.
pub(crate) struct OpenStream {
    client: Arc<HttpSession>,
    pub(crate) events: StreamEvents,
}

impl HttpSession {
    pub(crate) fn begin(
        gateway: &Gateway,
        shelf: Arc<LazyShelf>,
        owner: TokenIndex,
        is_shared: bool,
    ) -> io::Result<Arc<Self>> {
        let (sender, queue) = queue::queue();
        let era = is_shared.then_some(Era::Modern);
        let session = GatewaySession::begin(gateway, &shelf, sender, era)?;
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

    /// Processes the messages of one HTTP request. Returns the stream for the answers, or `None` if
    /// the messages contain no request. Fails if a request id is already in use.
    pub(crate) async fn take(
        self: &Arc<Self>,
        mut messages: Vec<Parsed>,
        hang_up: &Arc<Notify>,
    ) -> Result<Option<OpenStream>, String> {
        self.touch();
        let is_request =
            |parsed: &Parsed| matches!(parsed.envelope.kind, MessageKind::Request { .. });
        let asked: Vec<StreamRequest> =
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
                from_client::line(&self.session.relay, InputLine::Message(message)).await;
            }
        }
        Ok(stream)
    }

    pub(crate) fn listen(self: &Arc<Self>, hang_up: &Arc<Notify>) -> OpenStream {
        self.touch();
        OpenStream { client: Arc::clone(self), events: self.streams.listen(hang_up) }
    }

    /// Returns the message for the session. In a cancellation, the client's request id is replaced
    /// by the number that the gateway gave the request. Returns `None` for a cancellation of an
    /// unknown request.
    fn named(&self, parsed: Parsed) -> Option<Message> {
        let Parsed { envelope, message } = parsed;
        let is_cancel = matches!(&envelope.kind, MessageKind::Notification { method } if method == "notifications/cancelled");
        if !is_cancel {
            return Some(message);
        }
        let (id, range) = request_id(&envelope, &message)?;
        let number = self.streams.cancelled(&id)?;
        let edit = Edit::new(range, number.to_string());
        Some(message.rewritten(vec![edit]))
    }

    async fn route(self: Arc<Self>, mut queue: Receiver) {
        while let Some(queued) = queue.recv().await {
            if let Delivered::Refused(id) = self.streams.deliver(queued) {
                let text = "the client takes no requests";
                let refusal = json_rpc::error(&id, METHOD_NOT_FOUND, text);
                let line = InputLine::Message(Message::whole(refusal));
                from_client::line(&self.session.relay, line).await;
            }
        }
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Returns true if no stream is open and no request arrived for `time`. Also disconnects
    /// clients that do not read.
    fn is_idle(&self, time: Duration) -> bool {
        self.streams.end_stuck(READ_TIMEOUT);
        self.streams.is_empty() && self.used.lock().elapsed() > time
    }

    pub(crate) async fn end(&self) {
        if let Some(router) = self.router.lock().take() {
            router.abort();
        }
        self.streams.close();
        self.session.end().await;
        let shelf = Arc::clone(&self.shelf);
        spawn_blocking(move || shelf.finish()).await.ok();
    }
}

fn asked(parsed: &Parsed) -> StreamRequest {
    let id = parsed.envelope.id(&parsed.message).unwrap_or("null").to_owned();
    StreamRequest { id, token: parsed.token().map(|token| token.get().to_owned()) }
}

impl OpenStream {
    pub(crate) async fn next(&mut self) -> Option<StreamEvent> {
        self.events.receiver.recv().await
    }

    pub(crate) fn progressed(&self) {
        self.events.progress.lock().moved = Instant::now();
    }

    pub(crate) fn sent(&self) {
        let mut progress = self.events.progress.lock();
        progress.unread = progress.unread.saturating_sub(1);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.client.touch();
        let left = self.client.streams.closed(self.events.number);
        if !self.client.is_shared || left.is_empty() {
            return;
        }
        let client = Arc::clone(&self.client);
        let cancel = async move {
            for number in left {
                let message = Message::whole(cancelled(number));
                from_client::line(&client.session.relay, InputLine::Message(message)).await;
            }
        };
        // Without a runtime, the process is ending anyway.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cancel);
        }
    }
}
