//! Requests that wait for an answer of a server, with the notes that the answer needs.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::message::{Message, Outgoing};
use crate::revision::InputKinds;

// Bytes of call arguments that are recorded.
pub(crate) const MAX_ARGUMENTS: usize = 64 * 1024;

const NUMBERS: u64 = 36_u64.pow(4);

/// A request to a server that waits for its answer.
///
/// `client_id` is the client's id, or `None` for a request of the gateway and for a call that is
/// held. Ids and progress tokens are kept as written. `translation` is present if client and server
/// speak different revisions.
pub(crate) struct PendingRequest {
    pub(crate) client_id: Option<String>,
    pub(crate) kind: PendingKind,
    pub(crate) token: Option<String>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) translation: Option<Box<Translation>>,
}

/// The treatment of the answer. It passes as it is, or with the gateway's additions to handshakes
/// and lists, or through the store. `Shared` and `Own` are answers to other sessions and to the
/// gateway itself.
pub(crate) enum PendingKind {
    Relay,
    Handshake,
    Listing(ListKind),
    Call(Box<ToolCall>),
    Shared(SharedRequest),
    Own(oneshot::Sender<Result<Message, String>>),
}

/// A request of a session to a server that sessions share. `number` is its id in the upstream of
/// that session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedRequest {
    pub(crate) session: u64,
    pub(crate) number: u64,
    pub(crate) is_call: bool,
}

impl PendingRequest {
    pub(crate) fn carrier_mut(&mut self) -> Option<&mut Carrier> {
        match self.translation.as_deref_mut()? {
            Translation::Carrier(carrier) => Some(carrier),
            _ => None,
        }
    }

    pub(crate) fn carrier(&self) -> Option<&Carrier> {
        match self.translation.as_deref()? {
            Translation::Carrier(carrier) => Some(carrier),
            _ => None,
        }
    }

    pub(crate) fn new(kind: PendingKind) -> Self {
        Self { client_id: None, kind, token: None, deadline: None, translation: None }
    }

    pub(crate) fn fail_own(self, why: &str) -> Option<Self> {
        match self.kind {
            PendingKind::Own(waiting) => {
                drop(waiting.send(Err(why.to_owned())));
                None
            }
            _ => Some(self),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Resources,
    Templates,
}

/// A call of a tool, as it is recorded with its result. `arguments` are absent if they are too
/// long; `links` is true if the client knows `resource_link`.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) arguments: Option<String>,
    pub(crate) started: Instant,
    pub(crate) links: bool,
}

impl ToolCall {
    pub(crate) fn tool_name(&self) -> String {
        format!("{}/{}", self.server, self.tool)
    }
}

/// The pending requests to one server, by id. Ids increase, so the newest request has the greatest.
#[derive(Default)]
pub(crate) struct PendingRequests {
    next: u64,
    pub(crate) waiting: HashMap<u64, PendingRequest>,
}

impl PendingRequests {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn by_age(&mut self) -> Vec<(u64, &mut PendingRequest)> {
        let mut all: Vec<_> = self.waiting.iter_mut().map(|(id, pending)| (*id, pending)).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    pub(crate) fn take_answered(&mut self, id: &str) -> Option<PendingRequest> {
        self.take(id.parse().ok()?)
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<PendingRequest> {
        self.waiting.remove(&id)
    }

    pub(crate) fn take_only_call(&mut self) -> Option<PendingRequest> {
        let is_call = |pending: &PendingRequest| match &pending.kind {
            PendingKind::Call(_) => true,
            PendingKind::Shared(request) => request.is_call,
            _ => false,
        };
        let mut calls = self.waiting.iter().filter(|(_, pending)| is_call(pending));
        let id = *calls.next()?.0;
        if calls.next().is_some() {
            return None;
        }
        self.take(id)
    }

    pub(crate) fn take_all(&mut self) -> Vec<PendingRequest> {
        self.waiting.drain().map(|(_, pending)| pending).collect()
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    pub(crate) fn shared(&self) -> impl Iterator<Item = (u64, SharedRequest)> {
        self.waiting.iter().filter_map(|(id, pending)| match &pending.kind {
            PendingKind::Shared(request) => Some((*id, *request)),
            _ => None,
        })
    }

    pub(crate) fn token(&self, id: u64) -> Option<&str> {
        self.waiting.get(&id)?.token.as_deref()
    }

    pub(crate) fn client_id(&self, id: u64) -> Option<&str> {
        self.waiting.get(&id)?.client_id.as_deref()
    }

    pub(crate) fn restart(&mut self, token: &str, time: Duration) {
        for pending in self.waiting.values_mut() {
            if pending.token.as_deref() == Some(token) && pending.deadline.is_some() {
                pending.deadline = Some(Instant::now() + time);
            }
        }
    }

    pub(crate) fn restart_all(&mut self, time: Duration) {
        for pending in self.waiting.values_mut().filter(|pending| pending.deadline.is_some()) {
            pending.deadline = Some(Instant::now() + time);
        }
    }

    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<(u64, PendingRequest)> {
        let is_late =
            |pending: &PendingRequest| pending.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.waiting.iter().filter(|(_, pending)| is_late(pending));
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().filter_map(|id| Some((id, self.take(id)?))).collect()
    }
}

/// The treatment of an answer between revisions: of `initialize` at a server of unknown revision,
/// of a request of an old client to a new server, or of a request of a new client to an old server.
#[derive(Debug)]
pub(crate) enum Translation {
    Opening { version: String },
    Repeatable(Repeatable),
    Carrier(Carrier),
}

/// A request that can be repeated with input. `request` is the request as first sent, before the
/// additions of any round; `is_call` says that its result is one of a tool.
pub(crate) struct Repeatable {
    pub(crate) request: Outgoing,
    pub(crate) rounds: u32,
    pub(crate) abilities: InputKinds,
    pub(crate) is_call: bool,
}

/// A request whose client can be asked for input by ending it. `is_kept` says that the client may
/// cache its result, `logs` that it wants log messages; `token` is its progress token as the client
/// last wrote it.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) abilities: InputKinds,
    pub(crate) logs: bool,
    pub(crate) is_kept: bool,
    pub(crate) token: Option<String>,
    pub(crate) carries: CarryMode,
    pub(crate) rounds: u32,
}

/// The way in which questions of a server reach the client of a [`Carrier`]: not at all, by ending
/// the request, which the client then repeats, or through the batch that the call belongs to.
#[derive(Debug)]
pub(crate) enum CarryMode {
    Nothing,
    /// The request ends with the question, and the client repeats it. `number` is set while it is
    /// held.
    Held {
        identity: RequestIdentity,
        number: Option<u64>,
    },
    Batch(BatchInputs),
}

/// Identifies a request that is repeated: its method, server and name, and a digest of the
/// arguments, so that a state cannot be used for another request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestIdentity {
    pub(crate) name: String,
    pub(crate) digest: Value,
}

impl RequestIdentity {
    pub(crate) fn call(&self) -> (&str, &Value) {
        (&self.name, &self.digest)
    }
}

/// Input that a server needs for the call at `place` of a batch. `request` has the members of the
/// request; `answer` takes the result as JSON.
#[derive(Debug)]
pub(crate) struct BatchInput {
    pub(crate) place: usize,
    pub(crate) request: String,
    pub(crate) answer: oneshot::Sender<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct BatchInputs {
    pub(crate) place: usize,
    pub(crate) sender: mpsc::UnboundedSender<BatchInput>,
}

impl BatchInputs {
    pub(crate) fn ask(&self, request: String) -> oneshot::Receiver<String> {
        let (answer, waiting) = oneshot::channel();
        // The batch may have ended.
        drop(self.sender.send(BatchInput { place: self.place, request, answer }));
        waiting
    }
}

impl std::fmt::Debug for Repeatable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repeatable").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

impl Translation {
    pub(crate) fn of_batch(abilities: InputKinds, inputs: BatchInputs) -> Self {
        Self::Carrier(Carrier {
            abilities,
            logs: false,
            is_kept: false,
            token: None,
            carries: CarryMode::Batch(inputs),
            rounds: 0,
        })
    }
}

impl Carrier {
    pub(crate) fn held(&self) -> Option<u64> {
        match self.carries {
            CarryMode::Held { number, .. } => number,
            _ => None,
        }
    }
}

/// Returns a new call id of time and number, such as `mib1x0cz-4k2a`.
///
/// The numbers of a process start at random: two gateways that serve one conversation may begin
/// calls in the same millisecond.
pub(crate) fn new_call_id() -> String {
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(Uuid::new_v4().as_u64_pair().1));
    let number = NEXT.fetch_add(1, Relaxed) % NUMBERS;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", base36(time.as_millis()), base36(u128::from(number)))
}

fn base36(mut number: u128) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
    }
    digits.iter().rev().collect()
}

tokio::task_local! {
    static ORIGIN: u64;
}

/// Marks messages as having arrived on the stream of a request. Messages of a process have no such
/// mark.
pub(crate) async fn on_stream_of<T>(request: u64, taking: impl Future<Output = T>) -> T {
    ORIGIN.scope(request, taking).await
}

pub(crate) fn stream_request() -> Option<u64> {
    ORIGIN.try_with(|request| *request).ok()
}

impl ListKind {
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

impl Translation {
    pub(crate) fn note(&mut self, request: &Outgoing) {
        if let Self::Repeatable(again) = self {
            again.request = request.clone();
        }
    }
}
