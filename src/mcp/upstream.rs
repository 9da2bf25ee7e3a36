//! The server side of a session: a server's queue, pending requests, handshake and notifications.
//!
//! | module | content |
//! |---|---|
//! | `handshake` | finds out which revision a server speaks |
//! | `requests` | client requests in the revision of a server of the other era |
//! | `rounds` | gets the input that a 2026-07-28 server needs, and repeats an older client's call |
//! | `notifications` | subscribes to the notifications of a 2026-07-28 server |

pub(crate) mod handshake;
pub(crate) mod notifications;
pub(crate) mod requests;
pub(crate) mod rounds;

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::AbortHandle;

use crate::json_rpc;
use crate::line_reader::{BrokenKind, BrokenLine, LongLines};
use crate::lists::ListPages;
use crate::message::Outgoing;
use crate::pending::{PendingRequest, PendingRequests};
use crate::process::ServerLog;
use crate::queue::{Receiver, Refused, Sender};
use crate::raw_object::{self, RawObject};
use crate::revision::translation::SubscriptionFilter;
use crate::revision::{Era, EraCell, ServerProfile};

// Number of consecutive torn messages after which a server is restarted.
const MAX_TORN: u32 = 3;

/// A server in one session: its queue, pending requests and handshake.
///
/// A manager starts the server, feeds it from the queue and reads its output. Requests get new
/// numbers, because clients number their requests independently. `timeout` is the time for an
/// answer; progress restarts it. `profile` is set in a gateway with a single server, once the
/// gateway has done the handshake on behalf of the client. `acknowledged` is the number of the
/// newest stream of notifications that the server confirmed.
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) queue: Sender,
    log: ServerLog,
    state: Mutex<UpstreamState>,
    busy: Notify,
    pub(crate) era: EraCell,
    pub(crate) profile: Mutex<Option<ServerProfile>>,
    pub(crate) pages: Mutex<ListPages>,
    introduction: Introduction,
    notifications: Mutex<Notifications>,
    acknowledged: watch::Sender<u64>,
}

/// Handshakes on behalf of a client of revision 2026-07-28. `done` counts finished handshakes, so
/// that a request that waited for one does not start another.
#[derive(Default)]
struct Introduction {
    turn: tokio::sync::Mutex<()>,
    done: AtomicU64,
}

/// The gateway's subscription at a server of revision 2026-07-28: the wanted notifications, and the
/// task that reads the stream. If `wanted` changes, a second stream is opened before the first is
/// ended. `failures` counts consecutive streams that ended without confirmation. Each failure
/// lengthens the pause before the next attempt.
#[derive(Default)]
struct Notifications {
    wanted: SubscriptionFilter,
    subscribes: bool,
    task: Option<AbortHandle>,
    failures: u32,
}

/// The state that changes while the server runs. `asked` counts open questions to the client, and
/// `long_lines` counts long messages that are still arriving. No deadline expires while either is
/// above 0. `noise` counts lines that are no messages. `meta` holds the `_meta` members for each request to a 2026-07-28 server.
#[derive(Default)]
struct UpstreamState {
    requests: PendingRequests,
    asked: usize,
    long_lines: usize,
    torn: u32,
    noise: u64,
    is_running: bool,
    handshake: Handshake,
    meta: Option<String>,
}

/// The messages that are sent again to a restarted server: `initialize` with the client's
/// parameters as written, and the last `logging/setLevel`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Handshake {
    pub(crate) initialize: Option<String>,
    pub(crate) is_done: bool,
    pub(crate) level: Option<String>,
}

impl Upstream {
    pub(crate) fn new(
        name: String,
        timeout: Option<Duration>,
        queue: Sender,
        log: ServerLog,
    ) -> Self {
        Self {
            name,
            timeout,
            queue,
            log,
            state: Mutex::default(),
            busy: Notify::new(),
            era: EraCell::default(),
            profile: Mutex::default(),
            pages: Mutex::default(),
            introduction: Introduction::default(),
            notifications: Mutex::default(),
            acknowledged: watch::Sender::new(0),
        }
    }

    pub(crate) fn set_modern(&self, meta: String) {
        let mut state = self.state.lock();
        state.meta = Some(meta);
        // The server does not support `initialize`, not even after a restart.
        state.handshake.initialize = None;
        self.era.set(Era::Modern);
    }

    pub(crate) fn meta(&self) -> Option<String> {
        let state = self.state.lock();
        let meta = state.meta.as_ref()?;
        let level = state.handshake.level.as_ref().and_then(|level| {
            let level = RawObject::of(level)?.get("level")?;
            Some(format!(",{}", raw_object::member(json_rpc::LEVEL_KEY, level)))
        });
        Some(format!("{meta}{}", level.unwrap_or_default()))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().is_running
    }

    pub(crate) fn with_requests<R>(&self, change: impl FnOnce(&mut PendingRequests) -> R) -> R {
        change(&mut self.state.lock().requests)
    }

    pub(crate) fn other_name(&self, tool: &str) -> String {
        format!("{}__{tool}", self.name)
    }

    /// Sends a request under a new id and registers it as pending. Without reserved `room`, fails at
    /// once if the queue is full, because waiting would delay other servers.
    pub(crate) fn request(
        &self,
        room: Option<OwnedSemaphorePermit>,
        pending: PendingRequest,
        compose: impl FnOnce(u64) -> Outgoing,
    ) -> Result<u64, Refused> {
        let mut state = self.state.lock();
        let id = state.requests.next_id();
        match room {
            Some(room) => self.queue.send_in(room, compose(id))?,
            None => self.queue.try_send(compose(id))?,
        }
        state.requests.waiting.insert(id, pending);
        self.busy.notify_one();
        Ok(id)
    }

    pub(crate) fn expect(&self, pending: PendingRequest) -> u64 {
        let mut state = self.state.lock();
        let id = state.requests.next_id();
        state.requests.waiting.insert(id, pending);
        id
    }

    pub(crate) async fn send(&self, message: Outgoing) -> bool {
        self.queue.send(message).await
    }

    /// Sends a message that needs no answer. The message is dropped if the server neither runs nor
    /// is about to start, or if its queue is full.
    pub(crate) fn notify(&self, message: impl Into<Outgoing>) {
        let state = self.state.lock();
        let is_wanted = state.is_running || !state.requests.waiting.is_empty();
        if is_wanted && self.queue.send_ahead(message) == Err(Refused::Full) {
            tracing::warn!("{}: does not read its input; a notification is lost", self.name);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|time| Instant::now() + time)
    }

    pub(crate) fn take_answered(&self, id: &str) -> Option<PendingRequest> {
        let mut state = self.state.lock();
        state.torn = 0;
        state.requests.take_answered(id)
    }

    /// Takes the pending request that a broken message answers. If the message has a readable id,
    /// the request is found by id. Otherwise, returns the pending call if there is only one.
    pub(crate) fn take_broken(&self, line: &BrokenLine) -> Option<PendingRequest> {
        let requests = &mut self.state.lock().requests;
        match &line.id {
            _ if line.kind == BrokenKind::Log => None,
            Some(id) => requests.take_answered(id),
            None if line.is_response => requests.take_only_call(),
            None => None,
        }
    }

    pub(crate) fn log_broken(&self, line: &BrokenLine) {
        let shown = line.shown.trim().replace(char::is_control, " ");
        if line.kind == BrokenKind::Log {
            let noise = {
                let mut state = self.state.lock();
                state.noise += 1;
                state.noise
            };
            if noise == 1 {
                let text =
                    "writes lines to its standard output that are no messages; they are logged";
                self.log.write(&self.name, text);
            }
            return self.log.write(&self.name, &shown);
        }
        self.log
            .write(&self.name, &format!("a message that cannot be read: {}: {shown}", line.why));
    }

    pub(crate) fn take(&self, id: u64) -> Option<PendingRequest> {
        self.state.lock().requests.waiting.remove(&id)
    }

    pub(crate) fn waits_for(&self, id: u64) -> bool {
        self.state.lock().requests.waiting.contains_key(&id)
    }

    /// Stops the deadline of a request that is not sent yet. Returns false if it has none.
    pub(crate) fn stop_deadline(&self, id: u64) -> bool {
        let mut state = self.state.lock();
        let pending = state.requests.waiting.get_mut(&id);
        pending.is_some_and(|pending| pending.deadline.take().is_some())
    }

    pub(crate) fn start_deadline(&self, id: u64) {
        let deadline = self.deadline();
        if let Some(pending) = self.state.lock().requests.waiting.get_mut(&id) {
            pending.deadline = deadline;
        }
    }

    pub(crate) fn take_late(&self) -> Vec<(u64, PendingRequest)> {
        let mut state = self.state.lock();
        // The user may be answering a question, or the answer may be arriving.
        if (state.asked > 0 || state.long_lines > 0)
            && let Some(time) = self.timeout
        {
            state.requests.restart_all(time);
        }
        state.requests.take_late(Instant::now())
    }

    pub(crate) fn client_id(&self, id: u64) -> Option<String> {
        self.state.lock().requests.client_id(id).map(str::to_owned)
    }

    pub(crate) fn progressed(&self, token: &str) {
        if let Some(time) = self.timeout {
            self.state.lock().requests.restart(token, time);
        }
    }

    pub(crate) fn count_asked(&self, asks: bool) {
        let mut state = self.state.lock();
        state.asked = if asks { state.asked + 1 } else { state.asked.saturating_sub(1) };
    }

    pub(crate) fn forget_asked(&self) {
        self.state.lock().asked = 0;
    }

    pub(crate) fn count_long_line(&self, comes: bool) {
        let mut state = self.state.lock();
        state.long_lines =
            if comes { state.long_lines + 1 } else { state.long_lines.saturating_sub(1) };
    }

    /// Counts torn messages. Returns false if there were several in a row and the server must be
    /// restarted.
    pub(crate) fn goes_on_after(&self, kind: BrokenKind) -> bool {
        let mut state = self.state.lock();
        state.torn += u32::from(kind == BrokenKind::Torn);
        state.torn < MAX_TORN
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.state.lock().long_lines > 0
    }

    pub(crate) fn began(&self) {
        self.state.lock().is_running = true;
    }

    pub(crate) fn ended(&self, queue: &mut Receiver) -> Vec<PendingRequest> {
        let mut state = self.state.lock();
        let noise = std::mem::take(&mut state.noise);
        if noise > 1 {
            let text = format!("{noise} lines of its standard output were no messages");
            self.log.write(&self.name, &text);
        }
        while queue.try_recv().is_ok() {}
        state.is_running = false;
        state.long_lines = 0;
        state.torn = 0;
        state.asked = 0;
        state.requests.take_all()
    }

    pub(crate) fn waiting(&self) -> Vec<u64> {
        self.state.lock().requests.ids()
    }

    pub(crate) async fn is_busy(&self) {
        while self.state.lock().requests.waiting.is_empty() {
            self.busy.notified().await;
        }
    }

    pub(crate) fn handshake(&self) -> Handshake {
        self.state.lock().handshake.clone()
    }

    pub(crate) fn set_handshake(&self, change: impl FnOnce(&mut Handshake)) {
        change(&mut self.state.lock().handshake);
    }
}

impl LongLines for Upstream {
    fn arriving(&self, is_arriving: bool) {
        self.state.lock().long_lines = usize::from(is_arriving);
    }
}
