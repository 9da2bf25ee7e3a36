//! A server behind the gateway: its queue, its requests, and what is known of it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::bridge::era::{Era, KnownEra};
use crate::line_reader::{BrokenKind, BrokenLine, LongLines};
use crate::message::{Edit, Message, Outgoing};
use crate::pending::{Pending, PendingRequests};
use crate::queue::{Receiver, Refused, Sender};
use crate::raw_object::RawObject;
use crate::server_log::ServerLog;
use crate::{meta, raw_object};

/// Torn messages in a row after which a server is started again.
const MOST_TORN: u32 = 3;

/// A server.
pub(super) struct Upstream {
    pub(super) name: String,
    /// The time for an answer; progress restarts it.
    pub(super) timeout: Option<Duration>,
    queue: Sender,
    log: ServerLog,
    state: Mutex<State>,
    /// Hears of each request that waits for its answer.
    busy: Notify,
    era: KnownEra,
}

#[derive(Default)]
struct State {
    requests: PendingRequests,
    /// Requests to the client that wait for an answer.
    asked: usize,
    /// The long lines that are coming in.
    long_lines: usize,
    torn: u32,
    is_running: bool,
    handshake: Handshake,
    /// The members of `_meta` in each request to a server of the newer revision.
    meta: Option<String>,
}

/// The messages for a server that is started again.
#[derive(Debug, Default, Clone)]
pub(super) struct Handshake {
    /// The parameters of `initialize`, as the client wrote them.
    pub(super) initialize: Option<String>,
    /// True once the server has answered that.
    pub(super) is_done: bool,
    /// The last `logging/setLevel`.
    pub(super) level: Option<String>,
}

impl Upstream {
    pub(super) fn new(
        name: String,
        timeout: Option<Duration>,
        queue: Sender,
        log: ServerLog,
    ) -> Self {
        let (state, busy, era) = (Mutex::default(), Notify::new(), KnownEra::default());
        Self { name, timeout, queue, log, state, busy, era }
    }

    /// Returns the revisions that it speaks, once that is known.
    pub(super) fn era(&self) -> Option<Era> {
        self.era.get()
    }

    pub(super) fn set_legacy(&self) {
        self.era.set(Era::Legacy);
    }

    /// Notes that it speaks the newer revision, in which each request has `meta` in its `_meta`.
    pub(super) fn set_modern(&self, meta: String) {
        let mut state = self.state.lock();
        state.meta = Some(meta);
        // It knows no `initialize`, also when it is started again.
        state.handshake.initialize = None;
        self.era.set(Era::Modern);
    }

    /// Returns the members of `_meta` that a request of the session has, if it speaks the newer
    /// revision.
    pub(super) fn meta(&self) -> Option<String> {
        let state = self.state.lock();
        let meta = state.meta.as_ref()?;
        let level = state.handshake.level.as_ref().and_then(|level| {
            let level = RawObject::of(level)?.get("level")?;
            Some(format!(",{}", raw_object::member(meta::LEVEL, level)))
        });
        Some(format!("{meta}{}", level.unwrap_or_default()))
    }

    /// Returns true while its process runs, or if it is one over HTTP.
    pub(super) fn is_running(&self) -> bool {
        self.state.lock().is_running
    }

    /// Changes its requests.
    pub(super) fn with_requests<R>(&self, change: impl FnOnce(&mut PendingRequests) -> R) -> R {
        change(&mut self.state.lock().requests)
    }

    /// Returns the name of a tool that cannot have its own.
    pub(super) fn other_name(&self, tool: &str) -> String {
        format!("{}__{tool}", self.name)
    }

    /// Sends a request with another id, and notes what waits for the answer.
    pub(super) fn request(
        &self,
        pending: Pending,
        compose: impl FnOnce(u64) -> Outgoing,
    ) -> Result<u64, Refused> {
        let mut state = self.state.lock();
        let id = state.requests.next_id();
        self.queue.try_send(compose(id))?;
        state.requests.insert(id, pending);
        self.busy.notify_one();
        Ok(id)
    }

    /// Notes a request that is sent past the queue. Returns its id.
    pub(super) fn expect(&self, pending: Pending) -> u64 {
        let mut state = self.state.lock();
        let id = state.requests.next_id();
        state.requests.insert(id, pending);
        id
    }

    /// Sends a message as soon as there is room. False if nobody takes messages any more.
    pub(super) async fn send(&self, message: Outgoing) -> bool {
        self.queue.send(message).await
    }

    /// Sends what has no answer. It is dropped if the server does not run and is not about to, or
    /// if it does not read.
    pub(super) fn notify(&self, message: impl Into<Outgoing>) {
        let state = self.state.lock();
        let is_told = state.is_running || !state.requests.is_empty();
        if is_told && self.queue.try_send(message) == Err(Refused::Full) {
            tracing::warn!("{}: does not read its input; a notification is lost", self.name);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|time| Instant::now() + time)
    }

    pub(super) fn take_answered(&self, id: &str) -> Option<Pending> {
        let mut state = self.state.lock();
        state.torn = 0;
        state.requests.take_answered(id)
    }

    /// Takes the request that a broken message answers: that of its id, or the only call if the id
    /// did not come.
    pub(super) fn take_broken(&self, line: &BrokenLine) -> Option<Pending> {
        let requests = &mut self.state.lock().requests;
        match &line.id {
            _ if line.kind == BrokenKind::Log => None,
            Some(id) => requests.take_answered(id),
            None if line.is_response => requests.take_only_call(),
            None => None,
        }
    }

    /// Logs a line that is no message. Never blocks: a line that finds the log full is dropped.
    pub(super) fn log_broken(&self, line: &BrokenLine) {
        let shown = line.shown.trim().replace(char::is_control, " ");
        if line.kind == BrokenKind::Log {
            return self.log.say(&self.name, &shown);
        }
        self.log.say(&self.name, &format!("a message that cannot be read: {}: {shown}", line.why));
    }

    pub(super) fn take(&self, id: u64) -> Option<Pending> {
        self.state.lock().requests.take(id)
    }

    /// Returns true if the request waits for its answer.
    pub(super) fn waits_for(&self, id: u64) -> bool {
        self.state.lock().requests.has(id)
    }

    pub(super) fn take_late(&self) -> Vec<(u64, Pending)> {
        let mut state = self.state.lock();
        // A person may be thinking about its question, and its answer may be on the way.
        if (state.asked > 0 || state.long_lines > 0)
            && let Some(time) = self.timeout
        {
            state.requests.restart_all(time);
        }
        state.requests.take_late(Instant::now())
    }

    pub(super) fn client_id(&self, id: u64) -> Option<String> {
        self.state.lock().requests.client_id(id).map(str::to_owned)
    }

    pub(super) fn progressed(&self, token: &str) {
        if let Some(time) = self.timeout {
            self.state.lock().requests.restart(token, time);
        }
    }

    /// Counts a question to the client, or its answer.
    pub(super) fn count_asked(&self, asks: bool) {
        let mut state = self.state.lock();
        state.asked = if asks { state.asked + 1 } else { state.asked.saturating_sub(1) };
    }

    /// Notes that a server that goes on waits for no answer to what it asked.
    pub(super) fn forget_asked(&self) {
        self.state.lock().asked = 0;
    }

    /// Counts a long line that comes in, or that has come.
    pub(super) fn count_long_line(&self, comes: bool) {
        let mut state = self.state.lock();
        state.long_lines =
            if comes { state.long_lines + 1 } else { state.long_lines.saturating_sub(1) };
    }

    /// Counts torn messages. Returns false if the server is to be started again, after several in a
    /// row.
    pub(super) fn goes_on_after(&self, kind: BrokenKind) -> bool {
        let mut state = self.state.lock();
        state.torn += u32::from(kind == BrokenKind::Torn);
        state.torn < MOST_TORN
    }

    /// Looks at the requests that wait for an answer.
    pub(super) fn requests<T>(&self, look: impl FnOnce(&PendingRequests) -> T) -> T {
        look(&self.state.lock().requests)
    }

    /// Returns true while a long line comes in.
    pub(super) fn is_receiving(&self) -> bool {
        self.state.lock().long_lines > 0
    }

    pub(super) fn began(&self) {
        self.state.lock().is_running = true;
    }

    /// Empties the queue of a server that has ended, and returns the requests that nobody answers.
    pub(super) fn ended(&self, queue: &mut Receiver) -> Vec<Pending> {
        let mut state = self.state.lock();
        while queue.at_hand().is_some() {}
        state.is_running = false;
        state.long_lines = 0;
        state.torn = 0;
        state.asked = 0;
        state.requests.take_all()
    }

    /// Returns the ids of all requests that wait for an answer.
    pub(super) fn waiting(&self) -> Vec<u64> {
        self.state.lock().requests.ids()
    }

    /// Waits until a request waits for its answer.
    pub(super) async fn is_busy(&self) {
        while self.state.lock().requests.is_empty() {
            self.busy.notified().await;
        }
    }

    pub(super) fn handshake(&self) -> Handshake {
        self.state.lock().handshake.clone()
    }

    pub(super) fn set_handshake(&self, change: impl FnOnce(&mut Handshake)) {
        change(&mut self.state.lock().handshake);
    }
}

impl LongLines for Upstream {
    fn begins(&self) {
        self.state.lock().long_lines = 1;
    }

    fn is_lost(&self) {
        self.ends();
    }

    fn ends(&self) {
        self.state.lock().long_lines = 0;
    }
}

/// Returns a request of a client with the id `id`.
pub(super) fn with_id(message: Message, range: std::ops::Range<usize>, id: &str) -> Outgoing {
    message.edited(vec![Edit { range, with: id.as_bytes().to_vec() }])
}
