//! Session state for a client and servers that use different protocol revisions.
//!
//! In this module and its submodules, an old client or server uses a revision up to 2025-11-25, and
//! a new one uses 2026-07-28.
//!
//! | module | content |
//! |---|---|
//! | `messages` | translates one message |
//! | `handshake` | finds out which revision a server uses |
//! | `requests`, `notices` | translate requests and notifications in transit |
//! | `rounds` | old client, new server: gets the input that the server needs and repeats the call |
//! | `held_calls` | new client, old server: ends a call with the server's request and holds it |
//! | `subscriptions` | subscriptions at new servers, and of new clients |

pub(crate) mod handshake;
pub(crate) mod held_calls;
pub(crate) mod messages;
pub(crate) mod notices;
pub(crate) mod requests;
pub(crate) mod rounds;
pub(crate) mod subscriptions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::bridge::messages::{SubscriptionFilter, modern_members, with_first};
use crate::held::{BoundedTable, HeldKey};
use crate::message::Message;
use crate::pending::{Carrier, PendingRequest};
use crate::revision::{
    ClientProfile, Era, EraCell, EraMismatch, InputKind, ServerProfile, revision_of,
};

// Client requests that 2026-07-28 removed.
const REMOVED_METHODS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
// Maximum number of held calls. When it is reached, a new call evicts the oldest one.
const MAX_HELD: usize = 64;
// Maximum number of questions per held call, and of early questions per server.
pub(crate) const MAX_QUESTIONS: usize = 16;
/// Memory in bytes for questions of servers that the client has not answered yet. Each question is
/// charged at least `MIN_QUESTION_COST`, which also limits their number.
const QUESTION_BYTES: usize = 16 << 20;
const MIN_QUESTION_COST: usize = 64 << 10;
pub(crate) const TOO_MUCH: &str = "asks for too much at once";
const MAX_SUBSCRIPTIONS: usize = 256;
// Maximum number of notifications kept per subscription until the client has been told that the
// subscription is open.
const MAX_EARLY_NOTICES: usize = 256;

/// State for translating between a client and servers of different revisions.
///
/// It holds the client's era and profile, the held calls, the servers' questions, and the
/// subscriptions in both directions. If client and server share an era, only the era comparison is
/// used. Lock order: a server's pending requests before held calls.
pub(crate) struct Bridge {
    pub(crate) client: EraCell,
    is_given: bool,
    profile: Mutex<Option<ClientProfile>>,
    pub(crate) server_profile: Mutex<Option<ServerProfile>>,
    handshakes: Handshakes,
    key: HeldKey,
    pub(crate) held: HeldCalls,
    pub(crate) questions: QuestionRoom,
    upstream_subscriptions: Vec<UpstreamSubscription>,
    subscriptions: Subscriptions,
}

impl Bridge {
    pub(crate) fn new(random: [u8; 32], servers: usize, client: Option<Era>) -> Self {
        let era = EraCell::default();
        if let Some(client) = client {
            era.set(client);
        }
        Self {
            client: era,
            is_given: client.is_some(),
            profile: Mutex::default(),
            server_profile: Mutex::default(),
            handshakes: Handshakes::default(),
            key: HeldKey::new(random),
            held: HeldCalls::default(),
            questions: QuestionRoom::default(),
            upstream_subscriptions: (0..servers).map(|_| UpstreamSubscription::default()).collect(),
            subscriptions: Subscriptions::default(),
        }
    }

    /// Records the client's era and profile from its first requests. A later `initialize` replaces
    /// them, because a client may fall back to it after `server/discover`.
    pub(crate) fn learn(&self, method: &str, params: Option<&RawValue>) {
        let mut profile = self.profile.lock();
        if self.is_given {
            profile.get_or_insert_with(|| ClientProfile::of_request(params));
        } else if method == "initialize" {
            *profile = Some(ClientProfile::of_initialize(params));
            self.client.set(Era::Legacy);
        } else if profile.is_none()
            && (method == "server/discover" || revision_of(params).is_some())
        {
            *profile = Some(ClientProfile::of_request(params));
            self.client.set(Era::Modern);
        }
    }

    /// Returns true if the client's revision removed `method`. This is always false if the
    /// transport does not fix the client's era, because such a client may fall back to
    /// `initialize`.
    pub(crate) fn is_removed(&self, method: &str) -> bool {
        self.is_given && REMOVED_METHODS.contains(&method)
    }

    pub(crate) fn profile(&self) -> ClientProfile {
        self.profile.lock().clone().unwrap_or_default()
    }

    pub(crate) fn between(&self, server: Option<Era>) -> Option<EraMismatch> {
        EraMismatch::of(self.client.get(), server)
    }

    pub(crate) fn own_result(&self, result: String) -> String {
        let is_modern = self.client.get() == Some(Era::Modern);
        if is_modern { with_first(modern_members(false), &result) } else { result }
    }

    /// Stores the failure of a held call until the client repeats the call.
    pub(crate) fn failed(&self, pending: PendingRequest, code: i32, text: &str) {
        let Some(number) = pending.carrier().and_then(Carrier::held) else { return };
        let answer = Err((code, text.to_owned()));
        let outcome = HeldOutcome { pending, is_kept: false, answer };
        self.held.change(number, |call| call.outcome = Some(outcome));
    }
}

pub(crate) struct HeldCalls(Mutex<HeldState>);

struct HeldState {
    calls: BoundedTable<HeldCall>,
    early: Vec<EarlyQuestion>,
}

impl Default for HeldCalls {
    fn default() -> Self {
        Self(Mutex::new(HeldState { calls: BoundedTable::new(MAX_HELD), early: Vec::new() }))
    }
}

/// A new client's call to an old server, held until the client repeats it.
///
/// `request` is the number of the call at the server `upstream`. `outcome` holds the server's
/// answer if it arrives before the client repeats the call. If a repeated call has no entry, it was
/// already answered or given up.
pub(crate) struct HeldCall {
    pub(crate) upstream: usize,
    pub(crate) request: u64,
    pub(crate) questions: Vec<HeldQuestion>,
    pub(crate) is_sent: bool,
    pub(crate) outcome: Option<HeldOutcome>,
    next_key: u64,
}

pub(crate) struct HeldOutcome {
    pub(crate) pending: PendingRequest,
    pub(crate) is_kept: bool,
    pub(crate) answer: Result<Message, (i32, String)>,
}

/// A server's request that a held call carries to the client under `key`.
///
/// `id` is the server's id, and is emptied once the server no longer waits for an answer. The
/// reserved memory is released when the question is answered or dropped.
#[derive(Debug, Clone)]
pub(crate) struct HeldQuestion {
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) request: String,
    pub(crate) is_sent: bool,
    _place: Option<Arc<QuestionPlace>>,
}

/// A server's question that arrived while no call could carry it. It goes to the client's next call
/// that can provide this kind of input.
pub(crate) struct EarlyQuestion {
    pub(crate) upstream: usize,
    pub(crate) ask: InputKind,
    pub(crate) question: HeldQuestion,
}

impl HeldCall {
    pub(crate) fn new(upstream: usize, request: u64) -> Self {
        let questions = Vec::new();
        Self { upstream, request, questions, is_sent: false, outcome: None, next_key: 0 }
    }

    /// Adds a question under a new key. Returns false if the call already has [`MAX_QUESTIONS`].
    pub(crate) fn add(&mut self, mut question: HeldQuestion) -> bool {
        if self.questions.len() == MAX_QUESTIONS {
            return false;
        }
        self.next_key += 1;
        question.key = format!("q{}", self.next_key);
        question.is_sent = false;
        self.questions.push(question);
        true
    }

    /// Marks all questions as sent and returns them as the `inputRequests` object.
    pub(crate) fn input_requests(&mut self) -> String {
        self.is_sent = true;
        let requests = self.questions.iter_mut().map(|question| {
            question.is_sent = true;
            format!("\"{}\":{{{}}}", question.key, question.request)
        });
        format!("{{{}}}", requests.collect::<Vec<_>>().join(","))
    }
}

impl HeldQuestion {
    pub(crate) fn new(id: String, request: String, place: Option<QuestionPlace>) -> Self {
        Self { key: String::new(), id, request, is_sent: false, _place: place.map(Arc::new) }
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        !self.id.is_empty()
    }
}

impl HeldCalls {
    pub(crate) fn put(&self, call: HeldCall) -> (u64, Option<HeldCall>) {
        self.0.lock().calls.put(call)
    }

    pub(crate) fn take(&self, number: u64) -> Option<HeldCall> {
        self.0.lock().calls.entries.remove(&number)
    }

    pub(crate) fn change<R>(
        &self,
        number: u64,
        change: impl FnOnce(&mut HeldCall) -> R,
    ) -> Option<R> {
        self.0.lock().calls.entries.get_mut(&number).map(change)
    }

    pub(crate) fn forget(&self, upstream: usize, id: &str) -> bool {
        let mut held = self.0.lock();
        held.early.retain(|early| early.upstream != upstream || early.question.id != id);
        let of_it = held.calls.entries.values_mut().filter(|call| call.upstream == upstream);
        let forgotten = of_it.map(|call| {
            let before = call.questions.len();
            call.questions.retain(|question| question.id != id);
            before - call.questions.len()
        });
        forgotten.sum::<usize>() > 0
    }

    /// Stores a question until a client request can carry it. Returns false if too many questions
    /// of the same server are waiting.
    pub(crate) fn put_early(&self, question: EarlyQuestion) -> bool {
        let mut held = self.0.lock();
        let of_it = held.early.iter().filter(|early| early.upstream == question.upstream);
        if of_it.count() >= MAX_QUESTIONS {
            return false;
        }
        held.early.push(question);
        true
    }

    pub(crate) fn take_early(
        &self,
        upstream: usize,
        mut is_taken: impl FnMut(&EarlyQuestion) -> bool,
    ) -> Vec<EarlyQuestion> {
        let mut held = self.0.lock();
        let is_it = |early: &mut EarlyQuestion| early.upstream == upstream && is_taken(early);
        held.early.extract_if(.., is_it).collect()
    }

    /// Removes all questions of a server that has ended. Its held calls remain, without questions.
    pub(crate) fn forget_all(&self, upstream: usize) {
        let mut held = self.0.lock();
        for call in held.calls.entries.values_mut().filter(|call| call.upstream == upstream) {
            call.questions.iter_mut().for_each(|question| question.id.clear());
        }
        held.early.retain(|early| early.upstream != upstream);
    }
}

pub(crate) struct QuestionRoom(Arc<Semaphore>);

/// Memory reserved for a question, released on drop. If no memory is left, the question is refused,
/// because a server cannot be slowed down by its own questions.
type QuestionPlace = OwnedSemaphorePermit;

impl Default for QuestionRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(QUESTION_BYTES)))
    }
}

impl QuestionRoom {
    /// Reserves memory without waiting. Waiting could deadlock: the answer that releases memory may
    /// be queued behind this message.
    pub(crate) fn place(&self, bytes: u64) -> Option<QuestionPlace> {
        let bytes = usize::try_from(bytes).ok()?.max(MIN_QUESTION_COST);
        Arc::clone(&self.0).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}

/// Handshakes with the only server. `done` counts finished handshakes, so that a request that
/// waited for one does not start another.
#[derive(Default)]
struct Handshakes {
    turn: tokio::sync::Mutex<()>,
    done: AtomicU64,
}

/// The gateway's subscription at one new server. A change of the subscription opens a new stream
/// and then ends the old one. `acknowledged` is the number of the newest stream that the server
/// confirmed.
struct UpstreamSubscription {
    state: Mutex<UpstreamSubscriptionState>,
    acknowledged: watch::Sender<u64>,
}

/// The wanted notifications, and the task that reads the stream.
#[derive(Default)]
struct UpstreamSubscriptionState {
    wanted: SubscriptionFilter,
    subscribes: bool,
    task: Option<AbortHandle>,
    /// Number of consecutive streams that ended without confirmation. Each one lengthens the pause
    /// before the next attempt.
    failures: u32,
}

impl Default for UpstreamSubscription {
    fn default() -> Self {
        Self { state: Mutex::default(), acknowledged: watch::Sender::new(0) }
    }
}

/// A new client's subscriptions, by request id. `watched` counts the subscriptions per server and
/// resource: the gateway subscribes at the server with the first one and unsubscribes after the
/// last one.
#[derive(Default)]
pub(crate) struct Subscriptions {
    open: Mutex<BTreeMap<String, Subscription>>,
    watched: Mutex<HashMap<(usize, String), usize>>,
}

/// A new client's subscription. `early` holds the notifications that arrive before the client is
/// told that the subscription is open. The protocol requires that message to come first.
struct Subscription {
    filter: SubscriptionFilter,
    early: Option<Vec<Vec<u8>>>,
}

impl Subscription {
    /// Returns the notification if it can be sent now. Before the client is told that the
    /// subscription is open, the notification is stored instead. Duplicates are dropped, because a
    /// notification only says that something changed.
    fn take(&mut self, notification: Vec<u8>) -> Option<Vec<u8>> {
        let Some(early) = &mut self.early else { return Some(notification) };
        if early.contains(&notification) {
            return None;
        }
        if early.len() < MAX_EARLY_NOTICES {
            early.push(notification);
        } else {
            tracing::debug!("the client does not read, and a notification is lost");
        }
        None
    }
}

#[cfg(test)]
mod tests;
