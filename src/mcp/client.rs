//! The client side of a session: the client, its open requests, questions and subscriptions, and
//! its send queue.
//!
//! | module | content |
//! |---|---|
//! | `held_calls` | passes requests of older servers to a 2026-07-28 client in results of calls |
//! | `subscriptions` | the subscriptions of a 2026-07-28 client |

pub(crate) mod held_calls;
pub(crate) mod subscriptions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::held::HeldCalls;
use crate::json_rpc::{self, Envelope, INTERNAL_ERROR, cancelled_because};
use crate::message::{Message, Outgoing};
use crate::pending::{MAX_QUESTIONS, PendingRequest};
use crate::queue::Sender;
use crate::raw_object::RawObject;
use crate::revision::translation::{SubscriptionFilter, modern_members, with_first};
use crate::revision::{ClientProfile, Era, EraCell, EraMismatch, InputKind, revision_of};
use crate::upstream::Upstream;

// Maximum number of requests that the gateway answers concurrently.
const MAX_CONCURRENT: usize = 64;
/// Limits on requests that wait for the gateway: their number and their total bytes. A request of
/// any length is admitted if no other request is waiting.
const BYTES: usize = 64 << 20;
const MIN_COST: usize = 1024;
const REQUESTS: usize = BYTES / MIN_COST;
// The first revision with `resource_link`.
const LINKS_SINCE: &str = "2025-06-18";
// Client requests that 2026-07-28 removed.
const REMOVED_METHODS: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
/// Maximum memory, in bytes, that the questions of servers take until the client answers them. Each
/// question is charged at least `MIN_QUESTION_COST`, which also limits their number.
const QUESTION_BYTES: usize = 16 << 20;
const MIN_QUESTION_COST: usize = 64 << 10;
// Maximum number of notifications kept per subscription until the client has been told that the
// subscription is open.
const MAX_EARLY_NOTICES: usize = 256;

/// The client of a session, independent of servers.
///
/// Request ids are kept exactly as the client wrote them. Each request is answered once: the caller
/// that receives it from [`ClientSession::end`] sends the answer. If `end` does not find a request,
/// the request was cancelled and gets no answer. No method waits for the client except
/// [`ClientSession::send`] and its callers.
pub(crate) struct ClientSession {
    queue: Sender,
    backlog: Backlog,
    table: Mutex<RequestTable>,
    ended: Notify,
    pub(crate) era: EraCell,
    is_given: bool,
    pub(crate) held: Arc<HeldCalls<HeldCall>>,
    early: Mutex<Vec<EarlyQuestion>>,
    room: Arc<Semaphore>,
    subscriptions: Mutex<BTreeMap<String, Subscription>>,
    watched: Mutex<HashMap<(usize, String), usize>>,
}

#[derive(Default)]
struct RequestTable {
    open: HashMap<String, Route>,
    questions: HashMap<u64, QuestionSource>,
    last_question: u64,
    revision: Option<String>,
    declared: Option<Declared>,
    profile: Option<ClientProfile>,
}

/// A request of the client. The id and the parameters are kept as the client wrote them.
pub(crate) struct ClientRequest {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) envelope: Envelope,
    pub(crate) message: Message,
}

impl ClientRequest {
    pub(crate) fn raw_params(&self) -> Option<&RawValue> {
        self.envelope.params(&self.message)
    }

    pub(crate) fn params(&self) -> RawObject<'_> {
        self.raw_params().and_then(RawObject::parse).unwrap_or_default()
    }
}

/// The handler of a client request: the gateway itself, or a server. `Upstream` holds the index of
/// the server, and the number of the request at this server.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    Upstream(usize, u64),
    Gateway,
}

/// The origin of a question to the client: a server, or the gateway itself. `Gateway` holds the
/// sender of a channel; the gateway waits for the answer at the receiver.
pub(crate) enum QuestionSource {
    Server(ServerQuestion),
    Gateway(oneshot::Sender<Message>),
}

/// A server's request to the client. `id` is the server's own id, as written. The client sees a
/// different id, because servers number their requests independently.
pub(crate) struct ServerQuestion {
    pub(crate) from: Arc<Upstream>,
    pub(crate) id: String,
}

/// The capabilities that the only server of a gateway declared in the last handshake. If the
/// gateway has tools of its own and the server lacks one of these capabilities, the gateway answers
/// the list requests of this capability, such as `tools/list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
}

/// A call of a client of revision 2026-07-28 to a server of an older revision, held until the
/// client repeats it. `request` is the number of the call at the server. `ended` is set if the call
/// is answered or fails before the client repeats it.
pub(crate) struct HeldCall {
    from: Arc<Upstream>,
    request: u64,
    ended: Option<(PendingRequest, CallEnd)>,
}

/// The answer to a call, or the code and the text of its failure.
pub(crate) type CallEnd = Result<Message, (i32, String)>;

/// A request that a server of an older revision sent while the client, of revision 2026-07-28, had
/// no open call to carry it. The next call of the client that supports this kind of input carries
/// the request. `room` is the memory reserved for the request.
pub(crate) struct EarlyQuestion {
    from: Arc<Upstream>,
    id: String,
    kind: InputKind,
    request: String,
    room: OwnedSemaphorePermit,
}

/// A subscription of a client of revision 2026-07-28. The protocol requires that the first message
/// tells the client that the subscription is open. `early` holds the notifications that arrive
/// before this message is sent.
struct Subscription {
    filter: SubscriptionFilter,
    early: Option<Vec<String>>,
}

impl Subscription {
    /// Returns the notification if it can be sent now. Before the client is told that the
    /// subscription is open, the notification is stored instead. Duplicates are dropped, because a
    /// notification only says that something changed.
    fn take(&mut self, notification: String) -> Option<String> {
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

impl ClientSession {
    /// Returns a client whose messages go to `queue`. `era` is set if the transport fixes the
    /// client's era. `random` is the key that signs the states of held calls.
    pub(crate) fn new(queue: Sender, era: Option<Era>, random: [u8; 32]) -> Self {
        let known = EraCell::default();
        if let Some(era) = era {
            known.set(era);
        }
        Self {
            queue,
            backlog: Backlog::new(),
            table: Mutex::default(),
            ended: Notify::new(),
            era: known,
            is_given: era.is_some(),
            held: HeldCalls::new(random),
            early: Mutex::default(),
            room: Arc::new(Semaphore::new(QUESTION_BYTES)),
            subscriptions: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    /// Records the client's era and profile from its first requests. A later `initialize` replaces
    /// them, because a client may fall back to it after `server/discover`.
    pub(crate) fn learn(&self, method: &str, params: Option<&RawValue>) {
        let profile = &mut self.table.lock().profile;
        if self.is_given {
            profile.get_or_insert_with(|| ClientProfile::of_request(params));
        } else if method == "initialize" {
            *profile = Some(ClientProfile::of_initialize(params));
            self.era.set(Era::Legacy);
        } else if profile.is_none()
            && (method == "server/discover" || revision_of(params).is_some())
        {
            *profile = Some(ClientProfile::of_request(params));
            self.era.set(Era::Modern);
        }
    }

    /// Returns true if the client's revision removed `method`. This is always false if the
    /// transport does not fix the client's era, because such a client may fall back to
    /// `initialize`.
    pub(crate) fn is_removed(&self, method: &str) -> bool {
        self.is_given && REMOVED_METHODS.contains(&method)
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.era.get() == Some(Era::Modern)
    }

    pub(crate) fn profile(&self) -> ClientProfile {
        self.table.lock().profile.clone().unwrap_or_default()
    }

    /// Compares the client's era with `server`, the era of a server. Returns `None` if messages
    /// between the two are not translated.
    pub(crate) fn mismatch(&self, server: Option<Era>) -> Option<EraMismatch> {
        EraMismatch::of(self.era.get(), server)
    }

    /// Returns `result`, a result of the gateway itself, in the form of the client's revision.
    pub(crate) fn own_result(&self, result: String) -> String {
        if self.is_modern() { with_first(modern_members(false), &result) } else { result }
    }

    /// Stores the outcome of a held call until the client repeats the call. Does nothing if the
    /// call was given up.
    pub(crate) fn held_call_ended(&self, mut pending: PendingRequest, end: CallEnd) {
        let Some(number) = pending.questions().and_then(|carried| carried.held) else { return };
        if let Some(call) = self.held.calls.lock().get_mut(&number) {
            call.ended = Some((pending, end));
        }
    }

    /// Reserves memory for a question of a server. Returns `None` if too little is free. Does not
    /// wait, because the message that would free memory may be queued behind the question.
    pub(crate) fn question_room(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let bytes = usize::try_from(bytes).ok()?.max(MIN_QUESTION_COST);
        Arc::clone(&self.room).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Stores a question until a request can carry it. Returns the question as an error if too many
    /// questions of the same server are stored.
    fn put_early(&self, question: EarlyQuestion) -> Result<(), EarlyQuestion> {
        let mut early = self.early.lock();
        let of_it = early.iter().filter(|early| Arc::ptr_eq(&early.from, &question.from));
        if of_it.count() >= MAX_QUESTIONS {
            return Err(question);
        }
        early.push(question);
        Ok(())
    }

    fn take_early(
        &self,
        from: &Arc<Upstream>,
        is_taken: impl Fn(&EarlyQuestion) -> bool,
    ) -> Vec<EarlyQuestion> {
        let is_it = |early: &mut EarlyQuestion| Arc::ptr_eq(&early.from, from) && is_taken(early);
        self.early.lock().extract_if(.., is_it).collect()
    }

    /// Sends a message, waiting until the queue has room. The queue drains as the client reads.
    /// Does nothing if the client is gone.
    pub(crate) async fn send(&self, message: impl Into<Outgoing>) {
        self.queue.send(message).await;
    }

    pub(crate) async fn error(&self, id: &str, code: i32, text: &str) {
        self.send(json_rpc::error(id, code, text)).await;
    }

    /// Registers a request as handled by the gateway. Returns false if a request with the same id
    /// is already open, which the protocol forbids.
    pub(crate) fn begin(&self, id: &str) -> bool {
        let mut table = self.table.lock();
        if table.open.contains_key(id) {
            return false;
        }
        table.open.insert(id.to_owned(), Route::Gateway);
        true
    }

    /// Records which server handles a request, so that a cancellation can be forwarded. Returns
    /// false if the request has ended.
    pub(crate) fn sent(&self, id: &str, route: Route) -> bool {
        let mut table = self.table.lock();
        table.open.get_mut(id).map(|open| *open = route).is_some()
    }

    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.table.lock().open.contains_key(id)
    }

    pub(crate) fn end(&self, id: &str) -> Option<Route> {
        let ended = self.table.lock().open.remove(id);
        self.ended.notify_waiters();
        ended
    }

    pub(crate) async fn until_ended(&self, id: &str) {
        loop {
            let ended = self.ended.notified();
            if !self.is_open(id) {
                return;
            }
            ended.await;
        }
    }

    /// Admits a request that the gateway answers itself. If too many requests are waiting, answers
    /// this one with an error and returns `None`.
    pub(crate) async fn place(&self, id: &str, bytes: u64) -> Option<BacklogPlace> {
        let place = self.backlog.place(bytes);
        if place.is_none() && self.end(id).is_some() {
            let text = "too many requests wait for their answers";
            self.error(id, INTERNAL_ERROR, text).await;
        }
        place
    }

    /// Waits until an admitted request may run. It runs as long as the returned permit is held.
    /// Returns `None` if the request is cancelled first.
    pub(crate) async fn turn(
        &self,
        _admitted: &BacklogPlace,
        id: &str,
    ) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            turn = Arc::clone(&self.backlog.turns).acquire_owned() => turn.ok(),
            () = self.until_ended(id) => None,
        }
    }

    pub(crate) fn close(&self) {
        let mut table = self.table.lock();
        table.open.clear();
        table.questions.clear();
        drop(table);
        self.ended.notify_waiters();
    }

    pub(crate) fn ask(&self, source: QuestionSource) -> u64 {
        let mut table = self.table.lock();
        table.last_question += 1;
        let id = table.last_question;
        if let QuestionSource::Server(question) = &source {
            question.from.count_asked(true);
        }
        table.questions.insert(id, source);
        id
    }

    pub(crate) fn answered(&self, id: &str) -> Option<QuestionSource> {
        let source = self.table.lock().questions.remove(&id.parse().ok()?)?;
        if let QuestionSource::Server(question) = &source {
            question.from.count_asked(false);
        }
        Some(source)
    }

    pub(crate) fn question(&self, from: &Arc<Upstream>, id: &str) -> Option<u64> {
        let table = self.table.lock();
        let is_it = |source: &QuestionSource| {
            source.of_server(from).is_some_and(|question| question.id == id)
        };
        table.questions.iter().find(|(_, source)| is_it(source)).map(|(id, _)| *id)
    }

    pub(crate) fn drop_questions(&self, from: &Arc<Upstream>) -> Vec<u64> {
        let mut table = self.table.lock();
        let of_it = table.questions.extract_if(|_, source| source.of_server(from).is_some());
        of_it.map(|(id, _)| id).collect()
    }

    /// Sends a request to the client and waits for the answer. `compose` builds the request from
    /// its id. Returns `None` if the client is gone. Dropping the future cancels the request at the
    /// client.
    pub(crate) async fn put_question(
        self: &Arc<Self>,
        compose: impl FnOnce(u64) -> String,
    ) -> Option<Message> {
        let (sender, answer) = oneshot::channel();
        let id = self.ask(QuestionSource::Gateway(sender));
        let mut open = OpenQuestion { client: self, id, is_open: true };
        self.send(compose(id)).await;
        let answer = answer.await;
        open.is_open = false;
        answer.ok()
    }

    pub(crate) fn set_revision(&self, revision: &str) {
        self.table.lock().revision = Some(revision.to_owned());
    }

    pub(crate) fn knows_links(&self) -> bool {
        let table = self.table.lock();
        table.revision.as_deref().is_none_or(|revision| revision >= LINKS_SINCE)
    }

    pub(crate) fn set_declared(&self, declared: Declared) {
        self.table.lock().declared = Some(declared);
    }

    pub(crate) fn declared(&self) -> Declared {
        self.table.lock().declared.unwrap_or(Declared { tools: true, resources: true })
    }
}

impl QuestionSource {
    fn of_server(&self, from: &Arc<Upstream>) -> Option<&ServerQuestion> {
        match self {
            Self::Server(question) if Arc::ptr_eq(&question.from, from) => Some(question),
            _ => None,
        }
    }
}

struct OpenQuestion<'a> {
    client: &'a Arc<ClientSession>,
    id: u64,
    is_open: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        self.client.answered(&self.id.to_string());
        let cancel = cancelled_because(self.id, "the answer is not needed any more");
        let client = Arc::clone(self.client);
        tokio::spawn(async move { client.send(cancel).await });
    }
}

/// Limits the requests that the gateway answers itself. `places` and `room` limit the number and
/// the bytes of admitted requests; `turns` limits the running ones.
struct Backlog {
    places: Arc<Semaphore>,
    room: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

pub(crate) struct BacklogPlace {
    _held: [OwnedSemaphorePermit; 2],
}

impl Backlog {
    fn new() -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Self {
            places: semaphore(REQUESTS),
            room: semaphore(BYTES),
            turns: semaphore(MAX_CONCURRENT),
        }
    }

    /// Reserves a place without waiting. Waiting could deadlock: the message that frees a place may
    /// be queued behind this request.
    fn place(&self, bytes: u64) -> Option<BacklogPlace> {
        let bytes = usize::try_from(bytes).unwrap_or(BYTES).clamp(MIN_COST, BYTES);
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes as u32).ok()?;
        Some(BacklogPlace { _held: [place, room] })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::process::ServerLog;
    use crate::queue;

    const SOON: Duration = Duration::from_millis(20);

    fn client() -> ClientSession {
        ClientSession::new(queue::queue().0, None, [7; 32])
    }

    fn early(client: &ClientSession, from: &Arc<Upstream>, id: &str) -> EarlyQuestion {
        let room = client.question_room(1).unwrap();
        let (from, id, request) = (Arc::clone(from), id.to_owned(), String::new());
        EarlyQuestion { from, id, kind: InputKind::Roots, request, room }
    }

    fn upstream() -> Arc<Upstream> {
        let (queue, log) = (queue::queue().0, ServerLog::unread());
        Arc::new(Upstream::new("s".to_owned(), None, queue, log))
    }

    #[test]
    fn early_questions_are_bounded_for_each_server() {
        let (client, one, other) = (client(), upstream(), upstream());
        for _ in 0..MAX_QUESTIONS {
            assert!(client.put_early(early(&client, &one, "1")).is_ok());
        }
        assert!(client.put_early(early(&client, &one, "1")).is_err());
        assert!(client.put_early(early(&client, &other, "1")).is_ok());
    }

    #[test]
    fn early_questions_are_taken_once_and_for_their_server() {
        let (client, one, other) = (client(), upstream(), upstream());
        assert!(client.put_early(early(&client, &one, "2")).is_ok());
        assert!(client.put_early(early(&client, &other, "1")).is_ok());
        assert_eq!(client.take_early(&one, |early| early.id == "1").len(), 0);
        assert_eq!(client.take_early(&one, |early| early.id == "2").len(), 1);
        assert_eq!(client.take_early(&one, |_| true).len(), 0);
        assert_eq!(client.take_early(&other, |_| false).len(), 0);
        assert_eq!(client.take_early(&other, |_| true).len(), 1);
    }

    #[test]
    fn questions_are_bounded_by_number_and_bytes() {
        let client = client();
        let room = |bytes| client.question_room(bytes);
        assert!(room(u64::MAX).is_none() && room(QUESTION_BYTES as u64 + 1).is_none());
        let whole = room(QUESTION_BYTES as u64);
        assert!(whole.is_some() && room(1).is_none());
        drop(whole);
        let many: Vec<_> = std::iter::from_fn(|| room(1)).collect();
        assert_eq!(many.len(), QUESTION_BYTES / MIN_QUESTION_COST);
    }

    #[test]
    fn notifications_wait_once_each_and_in_a_bounded_number() {
        let mut listener =
            Subscription { filter: SubscriptionFilter::default(), early: Some(Vec::new()) };
        for number in 0..2 * MAX_EARLY_NOTICES {
            for _ in 0..3 {
                assert_eq!(listener.take(number.to_string()), None);
            }
        }
        assert_eq!(listener.early.as_ref().map(Vec::len), Some(MAX_EARLY_NOTICES));
        listener.early = None;
        assert_eq!(listener.take("x".to_owned()), Some("x".to_owned()));
    }

    #[test]
    fn requests_and_their_bytes_are_bounded() {
        let backlog = Backlog::new();
        let long = backlog.place(u64::MAX);
        assert!(long.is_some() && backlog.place(1).is_none(), "it takes all room");
        drop(long);
        let mut places: Vec<_> = (0..REQUESTS).map(|_| backlog.place(1).unwrap()).collect();
        assert!(backlog.place(1).is_none());
        places.pop();
        assert!(backlog.place(1).is_some());
    }

    #[tokio::test]
    async fn a_bounded_number_is_answered_at_a_time() {
        let backlog = Backlog::new();
        let turn = || Arc::clone(&backlog.turns).acquire_owned();
        let mut turns = Vec::new();
        for _ in 0..MAX_CONCURRENT {
            turns.push(turn().await);
        }
        assert!(timeout(SOON, turn()).await.is_err());
        turns.pop();
        assert!(timeout(SOON, turn()).await.is_ok());
    }
}
