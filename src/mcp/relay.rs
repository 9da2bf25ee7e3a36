//! The gateway between its client and the servers: what all its parts share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::backlog::{Backlog, BacklogPlace};
use crate::bridge::Bridge;
use crate::envelope;
use crate::hub::Hub;
use crate::message::{Message, Outgoing};
use crate::options::GatewayOptions;
use crate::pending::{Call, Pending, PendingKind};
use crate::queue::Sender;
use crate::shelf::LazyShelf;
use crate::upstream::Upstream;
use ctxfs_core::model::{CallCounts, Counts};

/// Results that are stored, and calls of the gateway's own tools, at a time.
const AT_A_TIME: usize = 4;

/// The error codes of JSON-RPC.
pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
/// The code for a resource that does not exist.
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;
/// The code of the reference implementations for a request whose time is over.
pub(super) const TIMED_OUT: i32 = -32001;

/// The revision that brought the type `resource_link`.
const LINKS_SINCE: &str = "2025-06-18";

/// The gateway.
pub(super) struct Relay {
    pub(super) shelf: Arc<LazyShelf>,
    pub(super) upstreams: Vec<Arc<Upstream>>,
    /// True if the gateway has tools and resources of its own.
    pub(super) context_tools: bool,
    /// True if references in arguments stand for stored text.
    pub(super) references: bool,
    /// The most bytes of binary content that passes.
    pub(super) max_binary: u64,
    pub(super) work: Arc<Semaphore>,
    /// The turns of requests that a language model answers. Others do not wait for them.
    pub(super) questions: Arc<Semaphore>,
    backlog: Backlog,
    /// Present where the gateway answers for its servers.
    pub(super) hub: Option<Hub>,
    pub(super) bridge: Bridge,
    client: Sender,
    session: Mutex<Session>,
    /// Hears of each request that ends.
    ended: Notify,
}

#[derive(Default)]
struct Session {
    /// The requests of the client that wait for an answer, by their ids as written.
    calls: HashMap<String, Route>,
    /// The requests to the client, by the ids that it knows.
    asked: HashMap<u64, Asker>,
    next_question: u64,
    revision: Option<String>,
    /// The content of the last answer to `initialize` or `server/discover`.
    declared: Option<Declared>,
}

/// The error of a request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// The receiver of a request of the client.
#[derive(Clone, Copy)]
pub(super) enum Route {
    /// To a server, with this id.
    Upstream(usize, u64),
    /// The gateway answers.
    Own,
}

/// The one that asked the client.
pub(super) enum Asker {
    Server(Question),
    /// The gateway, which waits for the answer.
    Own(oneshot::Sender<Message>),
}

/// A request of a server to the client.
pub(super) struct Question {
    pub(super) upstream: usize,
    /// The id that the server gave it, as written.
    pub(super) id: String,
}

/// The capabilities that a server declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) tools: bool,
    pub(super) resources: bool,
}

impl Relay {
    pub(super) fn new(
        shelf: Arc<LazyShelf>,
        upstreams: Vec<Arc<Upstream>>,
        options: &GatewayOptions,
        hub: Option<Hub>,
        bridge: Bridge,
        client: Sender,
    ) -> Self {
        Self {
            shelf,
            upstreams,
            context_tools: options.context_tools,
            references: options.references,
            max_binary: options.max_binary,
            work: Arc::new(Semaphore::new(AT_A_TIME)),
            questions: Arc::new(Semaphore::new(AT_A_TIME)),
            backlog: Backlog::new(),
            hub,
            bridge,
            client,
            session: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Sends a message to the client, as soon as it takes it.
    pub(super) async fn tell(&self, message: impl Into<Outgoing>) {
        // Without a client, nobody misses it.
        self.client.send(message).await;
    }

    pub(super) async fn error(&self, id: &str, code: i32, text: &str) {
        self.tell(envelope::error(id, code, text)).await;
    }

    /// Notes a request of the client. False if one with its id waits for an answer.
    pub(super) fn begin(&self, id: &str, route: Route) -> bool {
        let mut session = self.session.lock();
        if session.calls.contains_key(id) {
            return false;
        }
        session.calls.insert(id.to_owned(), route);
        true
    }

    /// Notes where a request of the client went. False if it has ended, as it was cancelled.
    pub(super) fn sent(&self, id: &str, route: Route) -> bool {
        let mut session = self.session.lock();
        let call = session.calls.get_mut(id);
        call.map(|call| *call = route).is_some()
    }

    /// Returns true if a request of the client waits for an answer.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.session.lock().calls.contains_key(id)
    }

    /// Forgets a request of the client, which is answered now.
    pub(super) fn end(&self, id: &str) -> Option<Route> {
        let ended = self.session.lock().calls.remove(id);
        self.ended.notify_waiters();
        ended
    }

    /// Waits until a request of the client has ended, as it was cancelled.
    pub(super) async fn until_ended(&self, id: &str) {
        loop {
            let ended = self.ended.notified();
            if !self.session.lock().calls.contains_key(id) {
                return;
            }
            ended.await;
        }
    }

    /// Returns a place for a request of so many bytes, which the gateway answers. If there is none,
    /// refuses the request.
    pub(super) async fn place(&self, id: &str, bytes: u64) -> Option<BacklogPlace> {
        let place = self.backlog.place(bytes);
        if place.is_none() && self.end(id).is_some() {
            let text = "too many requests wait for their answers";
            self.error(id, INTERNAL_ERROR, text).await;
        }
        place
    }

    /// Waits until a request can be answered. `None` if it is cancelled before.
    pub(super) async fn turn(
        &self,
        place: &BacklogPlace,
        id: &str,
    ) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            turn = place.turn() => turn,
            () = self.until_ended(id) => None,
        }
    }

    /// Ends what waits for the client, which is gone.
    pub(super) fn close(&self) {
        let mut session = self.session.lock();
        session.calls.clear();
        session.asked.clear();
        drop(session);
        self.ended.notify_waiters();
    }

    /// Notes a request to the client. Returns its id.
    pub(super) fn ask(&self, asker: Asker) -> u64 {
        let mut session = self.session.lock();
        session.next_question += 1;
        let id = session.next_question;
        if let Asker::Server(question) = &asker {
            self.upstreams[question.upstream].count_asked(true);
        }
        session.asked.insert(id, asker);
        id
    }

    /// Takes the one whose question the client answers.
    pub(super) fn answered(&self, id: &str) -> Option<Asker> {
        let asker = self.session.lock().asked.remove(&id.parse().ok()?)?;
        if let Asker::Server(question) = &asker {
            self.upstreams[question.upstream].count_asked(false);
        }
        Some(asker)
    }

    /// Returns the client's id of a question of a server.
    pub(super) fn question(&self, upstream: usize, id: &str) -> Option<u64> {
        let session = self.session.lock();
        let is_it = |asker: &Asker| matches!(asker, Asker::Server(question) if question.upstream == upstream && question.id == id);
        session.asked.iter().find(|(_, asker)| is_it(asker)).map(|(id, _)| *id)
    }

    /// Takes the questions of a server that has ended.
    pub(super) fn drop_questions(&self, upstream: usize) -> Vec<u64> {
        let mut session = self.session.lock();
        let is_of_it = |asker: &Asker| matches!(asker, Asker::Server(question) if question.upstream == upstream);
        let of_it = session.asked.iter().filter(|(_, asker)| is_of_it(asker));
        let of_it: Vec<u64> = of_it.map(|(id, _)| *id).collect();
        session.asked.retain(|id, _| !of_it.contains(id));
        of_it
    }

    pub(super) fn set_revision(&self, revision: &str) {
        self.session.lock().revision = Some(revision.to_owned());
    }

    /// Returns true if the client knows the type `resource_link`.
    pub(super) fn knows_links(&self) -> bool {
        let session = self.session.lock();
        session.revision.as_deref().is_none_or(|revision| revision >= LINKS_SINCE)
    }

    pub(super) fn set_declared(&self, declared: Declared) {
        self.session.lock().declared = Some(declared);
    }

    /// Returns what the server has; anything if it did not say.
    pub(super) fn declared(&self) -> Declared {
        let any = Declared { tools: true, resources: true };
        self.session.lock().declared.unwrap_or(any)
    }

    /// Counts a call that has ended, with the bytes of the answer and of what the client gets of it.
    pub(super) fn count(&self, call: &Call, failed: bool, received: u64, given: u64) {
        let millis = u64::try_from(call.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let calls = CallCounts { times: 1, errors: u64::from(failed), millis, received, given };
        self.shelf.count(call.tool_name(), &Counts { calls, ..Counts::default() });
    }

    /// Answers a request that nobody else answers any more: a call of a tool with a result that is
    /// an error, which the model sees.
    pub(super) async fn fail(&self, pending: Pending, code: i32, text: &str) {
        let Some(id) = pending.client_id.clone() else {
            return self.bridge.failed(pending, code, text);
        };
        self.end(&id);
        let message = match pending.kind {
            PendingKind::Call(call) => {
                let message = envelope::answer(&id, &self.bridge.own_result(failure(text)));
                self.count(&call, true, 0, message.len() as u64);
                message
            }
            _ => envelope::error(&id, code, text),
        };
        self.tell(message).await;
    }

    /// Returns the index of a server.
    pub(super) fn index_of(&self, upstream: &Arc<Upstream>) -> usize {
        let is_it = |other: &Arc<Upstream>| Arc::ptr_eq(other, upstream);
        self.upstreams.iter().position(is_it).unwrap_or_default()
    }
}

/// Returns the result of a tool that failed.
pub(super) fn failure(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}], "isError": true}).to_string()
}

/// Returns what is noted of a request that passes.
pub(super) fn pending(id: &str, kind: PendingKind, upstream: &Upstream) -> Pending {
    Pending {
        client_id: Some(id.to_owned()),
        kind,
        token: None,
        deadline: upstream.deadline(),
        crossing: None,
    }
}
