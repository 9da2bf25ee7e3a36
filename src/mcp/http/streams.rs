//! The streams that are open to a client, and which message goes to which.
//!
//! Clients count their requests by themselves, and several may share a session. So each request gets
//! a number here, which is also the token of its progress, and messages about it get the client's
//! own id and token back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::envelope::{Envelope, Kind, error_in, raw};
use crate::message::{Edit, Message};
use crate::meta;
use crate::queue::Queued;
use crate::raw_object::RawObject;

/// The most messages, and their bytes, that wait for a stream to be opened.
const MOST_HELD: usize = 256;
const MOST_HELD_BYTES: usize = 1 << 20;

/// The streams of a session.
pub(super) struct Streams {
    state: Mutex<State>,
    /// True if several clients share the session, of a revision without streams of their own.
    is_shared: bool,
}

#[derive(Default)]
struct State {
    next: u64,
    /// The requests that wait for an answer, by their numbers.
    requests: HashMap<u64, Waiting>,
    /// The open streams, the newest last.
    streams: BTreeMap<u64, Stream>,
    /// The stream that answers no request.
    listener: Option<u64>,
    /// The messages that came while no stream was open.
    held: VecDeque<Queued>,
    is_closed: bool,
}

/// A request that waits for its answer.
struct Waiting {
    stream: u64,
    id: String,
    token: Option<String>,
}

/// An open stream.
struct Stream {
    sender: mpsc::UnboundedSender<Event>,
    /// The answers that are to come.
    answers: usize,
    pace: Arc<Mutex<Pace>>,
    /// Ends the connection.
    hang_up: Arc<Notify>,
}

/// The pace at which a client reads a stream.
pub(super) struct Pace {
    /// Events that it has not read.
    pub(super) unread: usize,
    /// The time when it read last.
    pub(super) moved: Instant,
}

/// The end of a stream where events come out.
pub(super) struct Events {
    pub(super) number: u64,
    pub(super) receiver: mpsc::UnboundedReceiver<Event>,
    pub(super) pace: Arc<Mutex<Pace>>,
}

/// A message on a stream.
pub(super) struct Event {
    pub(super) queued: Queued,
    /// True if it answers a request.
    pub(super) is_answer: bool,
    /// The code of an answer that is an error.
    pub(super) code: Option<i64>,
    progress: Progress,
}

#[derive(PartialEq, Eq)]
enum Progress {
    Waiting,
    Begun,
    Sent,
}

/// A request, as the client wrote its id and its token.
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) token: Option<String>,
}

/// The outcome of a delivery.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Done,
    /// Nobody answers this request of a server, which has this id.
    Refused(String),
}

impl Event {
    fn new(queued: Queued, is_answer: bool, code: Option<i64>) -> Self {
        Self { queued, is_answer, code, progress: Progress::Waiting }
    }

    /// Returns what stands before the next bytes.
    pub(super) fn prefix(&mut self) -> Vec<u8> {
        let is_first = self.progress == Progress::Waiting;
        self.progress = Progress::Begun;
        if is_first { b"data: ".to_vec() } else { Vec::new() }
    }

    pub(super) fn finish(&mut self) {
        self.progress = Progress::Sent;
    }

    pub(super) fn is_sent(&self) -> bool {
        self.progress == Progress::Sent
    }
}

impl Streams {
    pub(super) fn new(is_shared: bool) -> Self {
        Self { state: Mutex::default(), is_shared }
    }

    /// Opens the stream of some requests. Returns it with their numbers; an error if one has the id
    /// of a request that waits for an answer, or the session has ended.
    pub(super) fn open(
        &self,
        asked: Vec<Asked>,
        hang_up: &Arc<Notify>,
    ) -> Result<(Events, Vec<u64>), String> {
        let mut state = self.state.lock();
        if !self.is_shared {
            let is_taken = |id: &str| state.requests.values().any(|waiting| waiting.id == id);
            if let Some(asked) = asked.iter().find(|asked| is_taken(&asked.id)) {
                return Err(format!("a request with the id {} waits for its answer", asked.id));
            }
        }
        let events = state.add(asked.len(), hang_up);
        let mut numbers = Vec::new();
        for Asked { id, token } in asked {
            state.next += 1;
            let number = state.next;
            numbers.push(number);
            state.requests.insert(number, Waiting { stream: events.number, id, token });
        }
        Ok((events, numbers))
    }

    /// Opens the stream that answers no request, in place of an older one.
    pub(super) fn listen(&self, hang_up: &Arc<Notify>) -> Events {
        let mut state = self.state.lock();
        let events = state.add(0, hang_up);
        if let Some(older) = state.listener.replace(events.number) {
            state.streams.remove(&older);
        }
        for queued in std::mem::take(&mut state.held) {
            state.send(events.number, Event::new(queued, false, None));
        }
        events
    }

    /// Sends a message to the stream that it belongs to.
    pub(super) fn deliver(&self, queued: Queued) -> Delivered {
        let outline = queued.message.outline();
        let Ok(envelope) = Envelope::of(&outline) else { return Delivered::Done };
        let mut state = self.state.lock();
        match &envelope.kind {
            Kind::Response { result } => {
                let code = if result.is_none() { error_code(&outline) } else { None };
                state.answer(queued, &envelope, &outline, code);
            }
            Kind::Notification { method } => match About::of(method, &envelope, &outline) {
                Some(about) => state.tell(queued, about),
                None => self.unrelated(&mut state, queued, method == "notifications/message"),
            },
            Kind::Request { .. } if self.is_shared => {
                return Delivered::Refused(envelope.id(&outline).unwrap_or("null").to_owned());
            }
            Kind::Request { .. } => self.unrelated(&mut state, queued, true),
        }
        Delivered::Done
    }

    /// Sends a message that names no request. One that likely belongs to a call goes to the newest
    /// of these. It is held while no stream is open.
    fn unrelated(&self, state: &mut State, queued: Queued, of_call: bool) {
        let listener = state.listener;
        let mut of_requests = state.streams.keys().rev().filter(|key| Some(**key) != listener);
        let newest = of_requests.next().copied();
        let is_only = of_requests.next().is_none();
        let to = if of_call { newest.or(listener) } else { listener.or(newest) };
        match to {
            // It may be about another client's request.
            Some(_) if self.is_shared && !is_only => {}
            Some(to) => state.send(to, Event::new(queued, false, None)),
            None if self.is_shared => {}
            None => state.hold(queued),
        }
    }

    /// Returns the number of the request that has this id, and answers it no more.
    pub(super) fn cancelled(&self, id: &str) -> Option<u64> {
        let mut state = self.state.lock();
        let found = state.requests.iter().find(|(_, waiting)| waiting.id == id);
        let number = *found?.0;
        let waiting = state.requests.remove(&number)?;
        state.answered(waiting.stream);
        Some(number)
    }

    /// Notes that a stream is closed. Returns the requests that nobody waits for any more.
    pub(super) fn closed(&self, stream: u64) -> Vec<u64> {
        let mut state = self.state.lock();
        state.streams.remove(&stream);
        state.listener.take_if(|listener| *listener == stream);
        let of_it = state.requests.iter().filter(|(_, waiting)| waiting.stream == stream);
        let of_it: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        state.requests.retain(|number, _| !of_it.contains(number));
        of_it
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().streams.is_empty()
    }

    /// Ends the connections of clients that have not read their streams for `time`.
    pub(super) fn end_stuck(&self, time: Duration) {
        for stream in self.state.lock().streams.values() {
            let pace = stream.pace.lock();
            if pace.unread > 0 && pace.moved.elapsed() > time {
                stream.hang_up.notify_one();
            }
        }
    }

    /// Closes all streams, for good.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        *state = State { is_closed: true, next: state.next, ..State::default() };
    }
}

impl State {
    fn add(&mut self, answers: usize, hang_up: &Arc<Notify>) -> Events {
        self.next += 1;
        let number = self.next;
        let (sender, receiver) = mpsc::unbounded_channel();
        let pace = Arc::new(Mutex::new(Pace { unread: 0, moved: Instant::now() }));
        let events = Events { number, receiver, pace: Arc::clone(&pace) };
        // The stream of a session that has ended ends at once.
        if !self.is_closed {
            self.streams
                .insert(number, Stream { sender, answers, pace, hang_up: Arc::clone(hang_up) });
        }
        events
    }

    /// Sends an answer to the stream of its request, with the client's own id.
    fn answer(
        &mut self,
        mut queued: Queued,
        envelope: &Envelope,
        outline: &Message,
        code: Option<i64>,
    ) {
        let number: Option<u64> = envelope.id(outline).and_then(|id| id.parse().ok());
        let waiting = number.and_then(|number| self.requests.remove(&number));
        let (Some(waiting), Some(range)) = (waiting, envelope.id.clone()) else { return };
        queued.message.replace(&Edit { range, with: waiting.id.into_bytes() });
        self.send(waiting.stream, Event::new(queued, true, code));
    }

    /// Sends a notification to the stream of the request that it is about.
    fn tell(&mut self, mut queued: Queued, about: About) {
        let Some(waiting) = self.requests.get(&about.number) else { return };
        let own = if about.is_token { waiting.token.clone() } else { Some(waiting.id.clone()) };
        let (Some(own), stream) = (own, waiting.stream) else { return };
        queued.message.replace(&Edit { range: about.place, with: own.into_bytes() });
        self.send(stream, Event::new(queued, false, None));
    }

    fn send(&mut self, to: u64, event: Event) {
        let is_answer = event.is_answer;
        if let Some(stream) = self.streams.get(&to) {
            let mut pace = stream.pace.lock();
            if pace.unread == 0 {
                pace.moved = Instant::now();
            }
            pace.unread += 1;
            // The client may have gone in this moment.
            drop(stream.sender.send(event));
        }
        if is_answer {
            self.answered(to);
        }
    }

    /// Notes that one answer less is to come on a stream, which ends with the last.
    fn answered(&mut self, stream: u64) {
        if let Some(open) = self.streams.get_mut(&stream) {
            open.answers = open.answers.saturating_sub(1);
            if open.answers == 0 {
                self.streams.remove(&stream);
            }
        }
    }

    fn hold(&mut self, queued: Queued) {
        self.held.push_back(queued);
        let bytes = |held: &VecDeque<Queued>| -> usize {
            held.iter().map(|queued| queued.message.held()).sum()
        };
        while self.held.len() > MOST_HELD || bytes(&self.held) > MOST_HELD_BYTES {
            tracing::debug!("a message is lost: the client opened no stream for it");
            self.held.pop_front();
        }
    }
}

/// The request that a notification is about.
struct About {
    number: u64,
    /// The place where the notification names it.
    place: Range<usize>,
    /// True if it is named by the token of its progress, not by its id.
    is_token: bool,
}

impl About {
    fn of(method: &str, envelope: &Envelope, message: &Message) -> Option<Self> {
        let params = RawObject::parse(raw(message, envelope.params.clone()?)?)?;
        let is_token = method == "notifications/progress";
        let named =
            if is_token { params.get("progressToken")? } else { meta::subscription(&params)? };
        let number = meta::number(named);
        // A token of no request here is that of one that has ended.
        let number = if is_token { number.unwrap_or_default() } else { number? };
        Some(Self { number, place: message.range_of(named), is_token })
    }
}

fn error_code(message: &Message) -> Option<i64> {
    error_in(message)?.get("code")?.get().parse().ok()
}

#[cfg(test)]
mod tests;
