//! A server shared by all sessions of a gateway: one process, or one session over HTTP.
//!
//! Each session keeps its own upstream, with its own ids, deadlines and conversation. The upstream
//! is connected to the shared server instead of a process. The shared server gives each request a
//! number that is unique among all sessions, and restores the session's number in the answer. The
//! shared server never waits for a session: if a session does not read, messages that do not fit
//! its queue are lost. A session has so few requests at the server, and answers in its queue, that
//! there is room for these answers. Its further requests wait for their turn.
//!
//! | module | content |
//! |---|---|
//! | `pool` | the shared servers of a gateway, and a session's connection to one |
//! | `messages` | messages from sessions and from the server |

pub(crate) mod messages;
pub(crate) mod pool;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::json_rpc::{self, INTERNAL_ERROR, cancelled};
use crate::line_reader::InputLine;
use crate::message::Message;
use crate::pending::{PendingKind, PendingRequest, SharedRequest};
use crate::upstream::Upstream;

const EVENTS: usize = 1024;
// Maximum number of requests of one session that are pending, or whose answers it has not taken.
pub(crate) const MAX_REQUESTS: usize = EVENTS / 2;
// Limit on the bytes of queued events per session.
const BYTES: usize = 4 << 20;
const MIN_COST: usize = 256;
const UNREAD: &str = "has answered, but the client does not read, and too much waits for it";

/// A server used by several sessions. `upstream` sends the requests of all sessions, without
/// deadlines. The deadlines are kept by the upstreams of the sessions.
pub(crate) struct SharedServer {
    upstream: Arc<Upstream>,
    state: Mutex<SharedState>,
}

/// The sessions by number, and the answer to the handshake. `questions` maps the id of each open
/// question of the server to its session. `subscribers` maps the URI of each resource to the
/// subscribed sessions.
#[derive(Default)]
struct SharedState {
    next: u64,
    sessions: HashMap<u64, EventSender>,
    introduction: SharedHandshake,
    questions: HashMap<String, u64>,
    subscribers: HashMap<String, BTreeSet<u64>>,
}

/// The answer to `initialize`, which is sent to the server once. `Asked` holds the waiting sessions
/// and the numbers of their requests.
#[derive(Default)]
enum SharedHandshake {
    #[default]
    Unknown,
    Asked(Vec<(u64, u64)>),
    Known(HandshakeAnswer),
}

#[derive(Clone)]
struct HandshakeAnswer {
    text: String,
    id: Range<usize>,
}

impl HandshakeAnswer {
    fn to(&self, number: u64) -> Message {
        let mut text = self.text.clone();
        text.replace_range(self.id.clone(), &number.to_string());
        Message::whole(text)
    }
}

impl SharedServer {
    fn new(upstream: Arc<Upstream>) -> Self {
        Self { upstream, state: Mutex::default() }
    }

    fn join(&self) -> (u64, SharedEvents) {
        let (sender, events) = event_queue();
        let mut state = self.state.lock();
        state.next += 1;
        let session = state.next;
        state.sessions.insert(session, sender);
        (session, events)
    }

    fn leave(&self, session: u64) {
        let mut state = self.state.lock();
        state.sessions.remove(&session);
        for subscribers in state.subscribers.values_mut() {
            subscribers.remove(&session);
        }
        state.subscribers.retain(|_, subscribers| !subscribers.is_empty());
        let asked: Vec<String> =
            state.questions.extract_if(|_, asked| *asked == session).map(|(id, _)| id).collect();
        drop(state);
        for id in asked {
            let text = "the session that was asked has ended";
            self.upstream.notify(json_rpc::error(&id, INTERNAL_ERROR, text));
        }
        self.give_up(session, |_| false);
    }

    /// Cancels the requests of a session for which it no longer waits. `waits` takes the session's
    /// number of a request.
    fn give_up(&self, session: u64, waits: impl Fn(u64) -> bool) {
        let of_it = self.upstream.with_requests(|all| {
            let of_it = all.shared().filter(|(_, request)| request.session == session);
            of_it.map(|(id, request)| (id, request.number)).collect::<Vec<_>>()
        });
        for (id, number) in of_it {
            if !waits(number) && self.upstream.take(id).is_some() {
                self.upstream.notify(cancelled(id));
            }
        }
    }

    fn lose(&self, to: SharedAnswer, why: &str) {
        let SharedAnswer { session, number, turn } = to;
        let lost = SharedEvent::Lost { number, why: why.to_owned(), turn };
        if let Some(events) = self.state.lock().sessions.get(&session) {
            // If the queue is full, the request times out.
            events.send(lost);
        }
    }

    /// Queues a line that answers a request. If there is no room for it, the request fails with
    /// `why`.
    fn answer(&self, to: SharedAnswer, line: InputLine, why: &str) {
        let SharedAnswer { session, number, turn } = to;
        let unsent = match self.state.lock().sessions.get(&session) {
            Some(events) => events.send_line(line, turn),
            None => return,
        };
        if let Err(turn) = unsent {
            self.lose(SharedAnswer { session, number, turn }, why);
        }
    }
}

/// The request that an answer goes to: a session, and the number of the request in the session's
/// upstream. `turn` is `None` for `initialize`, which gives up its turn at once.
struct SharedAnswer {
    session: u64,
    number: u64,
    turn: RequestTurn,
}

impl From<SharedRequest> for SharedAnswer {
    fn from(SharedRequest { session, number, turn, .. }: SharedRequest) -> Self {
        Self { session, number, turn: Some(turn) }
    }
}

type RequestTurn = Option<OwnedSemaphorePermit>;

/// An event for one session of a shared server. `Line` has the session's own ids, and takes up
/// space in the queue until it is handled. An event that ends a request keeps the turn of the
/// request until it is handled.
pub(crate) enum SharedEvent {
    Line(InputLine, OwnedSemaphorePermit, RequestTurn),
    Lost { number: u64, why: String, turn: RequestTurn },
    Failed { numbers: Vec<u64>, why: String },
}

pub(crate) type SharedEvents = mpsc::Receiver<SharedEvent>;

struct EventSender {
    events: mpsc::Sender<SharedEvent>,
    room: Arc<Semaphore>,
}

fn event_queue() -> (EventSender, SharedEvents) {
    let (events, received) = mpsc::channel(EVENTS);
    (EventSender { events, room: Arc::new(Semaphore::new(BYTES)) }, received)
}

impl EventSender {
    /// Queues a line that does not answer a request. Returns false if the line does not fit in the
    /// half of the queue that is open to such lines. The other half is kept for answers.
    pub(crate) fn send_notice(&self, line: InputLine) -> bool {
        let has_room = self.room.available_permits() > BYTES / 2;
        has_room && self.events.capacity() > EVENTS / 2 && self.send_line(line, None).is_ok()
    }

    /// Queues a line, with the turn of the request that it answers. Returns the turn if there is no
    /// room.
    pub(crate) fn send_line(&self, line: InputLine, turn: RequestTurn) -> Result<(), RequestTurn> {
        let held = match &line {
            InputLine::Message(message) => message.text().len(),
            InputLine::Broken(line) => line.shown.len(),
        };
        let room =
            Arc::clone(&self.room).try_acquire_many_owned(held.clamp(MIN_COST, BYTES) as u32);
        let Ok(room) = room else { return Err(turn) };
        self.events.try_send(SharedEvent::Line(line, room, turn)).map_err(|unsent| {
            match unsent.into_inner() {
                SharedEvent::Line(_, _, turn) | SharedEvent::Lost { turn, .. } => turn,
                SharedEvent::Failed { .. } => None,
            }
        })
    }

    pub(crate) fn send(&self, event: SharedEvent) {
        self.events.try_send(event).ok();
    }
}

impl Upstream {
    pub(crate) fn number_of(&self, session: u64, number: u64) -> Option<u64> {
        let is_it =
            |request: &SharedRequest| (request.session, request.number) == (session, number);
        self.with_requests(|all| all.shared().find(|(_, request)| is_it(request)).map(|(id, _)| id))
    }

    pub(crate) fn callers(&self) -> BTreeSet<u64> {
        self.with_requests(|all| {
            let calls = all.shared().filter(|(_, request)| request.is_call);
            calls.map(|(_, request)| request.session).collect()
        })
    }

    /// Returns the session of a request, and its own number and progress token of it.
    pub(crate) fn shared_request(&self, id: &str) -> Option<(u64, u64, Option<String>)> {
        let id = id.parse().ok()?;
        self.with_requests(|all| {
            let PendingRequest { kind, token, .. } = all.waiting.get(&id)?;
            let PendingKind::Shared(request) = kind else { return None };
            Some((request.session, request.number, token.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: usize) -> InputLine {
        InputLine::Message(Message::whole("x".repeat(bytes)))
    }

    #[test]
    fn notices_leave_room_for_answers() {
        for bytes in [1, 100_000] {
            let (sender, events) = event_queue();
            let notices = (0..EVENTS).take_while(|_| sender.send_notice(line(bytes))).count();
            assert!(notices >= BYTES / 2 / 100_000, "{notices}");
            let has_room = |_: &usize| sender.send_line(line(bytes), None).is_ok();
            let answers = (0..EVENTS).take_while(has_room).count();
            assert!(answers + 1 >= notices, "{answers} after {notices}");
            drop(events);
        }
    }
}
