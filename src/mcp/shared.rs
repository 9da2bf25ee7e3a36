//! A server that the sessions of a gateway share: one process, or one session over HTTP, for all.
//!
//! Each session has an upstream of its own, as for any server, and so its own ids, deadlines and
//! conversation. In place of a process, that talks to the shared server (`manager`), which gives each
//! request a number that is unique among all sessions, and the answer its own one back. Nothing here
//! waits for a session: one that does not read loses what does not fit its queue, and is told so.
//!
//! | module | content |
//! |---|---|
//! | `pool` | the shared servers of a gateway |
//! | `manager` | the end of a session |
//! | `from_sessions` | what sessions send |
//! | `inbox` | what the server sends |
//! | `events` | the queue to a session |

mod events;
mod from_sessions;
mod inbox;
mod manager;
mod pool;
mod requests;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

pub(super) use manager::SharedManager;
pub(super) use pool::SharedServers;

use crate::envelope;
use crate::line_reader::Line;
use crate::manager::cancelled;
use crate::message::Message;
use crate::relay::INTERNAL_ERROR;
use crate::shared::events::{Event, EventSender, Events};
use crate::upstream::Upstream;

/// A server that several sessions use.
pub(super) struct SharedServer {
    /// The server itself; its requests are those of all sessions.
    upstream: Arc<Upstream>,
    state: Mutex<SharedState>,
}

#[derive(Default)]
struct SharedState {
    next: u64,
    sessions: HashMap<u64, EventSender>,
    introduction: SharedIntroduction,
    /// The sessions that the server asks, by the ids of its requests as written.
    questions: HashMap<String, u64>,
    /// The sessions that subscribed to a resource.
    subscribers: HashMap<String, BTreeSet<u64>>,
}

/// The answer to `initialize`, which the server gets once.
#[derive(Default)]
enum SharedIntroduction {
    #[default]
    Unknown,
    /// These sessions wait for it, with the numbers of their requests.
    Asked(Vec<(u64, u64)>),
    Known(KnownAnswer),
}

/// An answer, and the place of the id in it.
#[derive(Clone)]
struct KnownAnswer {
    text: String,
    id: Range<usize>,
}

impl KnownAnswer {
    /// Returns the answer to the request with this number.
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

    /// Adds a session. Returns its number, and what comes for it.
    fn join(&self) -> (u64, Events) {
        let (sender, events) = events::queue();
        let mut state = self.state.lock();
        state.next += 1;
        let session = state.next;
        state.sessions.insert(session, sender);
        (session, events)
    }

    /// Removes a session. Its requests are cancelled, and its questions are answered with an error.
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
            self.upstream.notify(envelope::error(&id, INTERNAL_ERROR, text));
        }
        for number in self.upstream.take_of_session(session) {
            self.upstream.notify(cancelled(number));
        }
    }

    /// Hands a line to a session. Returns false if its queue is full, or it has ended.
    fn hand(&self, session: u64, line: Line) -> bool {
        self.state.lock().sessions.get(&session).is_some_and(|events| events.send_line(line))
    }

    /// Tells a session that a request of its has no answer.
    fn lose(&self, session: u64, number: u64, why: &str) {
        let lost = Event::Lost { number, why: why.to_owned() };
        if let Some(events) = self.state.lock().sessions.get(&session) {
            // If there is no room, its time passes.
            events.send(lost);
        }
    }

    /// Hands the answer to a request to its session.
    fn answer(&self, session: u64, number: u64, message: Message) {
        if !self.hand(session, Line::Message(message)) {
            let why = "has answered, but the client does not read, and too much waits for it";
            self.lose(session, number, why);
        }
    }
}
