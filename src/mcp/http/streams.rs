//! The open streams of a client, and the assignment of messages to them.
//!
//! Clients number their requests independently, and several clients may share a session. Each
//! request therefore gets a number here, which is also its progress token. In messages about the
//! request, the number is replaced by the client's own id and token.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::json_rpc::{self, Envelope, MessageKind, error_code, raw};
use crate::message::{Edit, Message};
use crate::queue::Queued;
use crate::raw_object::RawObject;

// Limits on messages that wait for a stream: their number and their bytes.
const MAX_HELD: usize = 256;
const MAX_HELD_BYTES: usize = 1 << 20;

/// The streams of a session and the requests that wait on them. If `is_shared`, several clients of
/// a revision without sessions use the session. In that case, a message that names no request may
/// concern any of these clients, and is dropped unless exactly one request stream is open.
pub(crate) struct Streams {
    state: Mutex<StreamsState>,
    is_shared: bool,
}

/// Requests by number, and streams by number, oldest first. `held` contains messages that arrived
/// while no stream was open. `listener` is the stream that answers no request.
#[derive(Default)]
struct StreamsState {
    next: u64,
    requests: HashMap<u64, StreamedRequest>,
    streams: BTreeMap<u64, StreamState>,
    listener: Option<u64>,
    held: VecDeque<Queued>,
    is_closed: bool,
}

struct StreamedRequest {
    stream: u64,
    id: String,
    token: Option<String>,
}

/// An open stream of a client. It ends after `answers` more answers. `hang_up` closes the
/// connection of a client that does not read.
struct StreamState {
    sender: mpsc::UnboundedSender<StreamEvent>,
    answers: usize,
    progress: Arc<Mutex<ReadProgress>>,
    hang_up: Arc<Notify>,
}

pub(crate) struct ReadProgress {
    pub(crate) unread: usize,
    pub(crate) moved: Instant,
}

pub(crate) struct StreamEvents {
    pub(crate) number: u64,
    pub(crate) receiver: mpsc::UnboundedReceiver<StreamEvent>,
    pub(crate) progress: Arc<Mutex<ReadProgress>>,
}

/// A message on a stream. It is sent as one event, possibly in several parts. `code` is set if the
/// message is an error answer; it determines the status of the response.
pub(crate) struct StreamEvent {
    pub(crate) queued: Queued,
    pub(crate) is_answer: bool,
    pub(crate) code: Option<i64>,
    progress: SendProgress,
}

#[derive(PartialEq, Eq)]
enum SendProgress {
    Waiting,
    Begun,
    Sent,
}

pub(crate) struct StreamRequest {
    pub(crate) id: String,
    pub(crate) token: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Done,
    Refused(String),
}

impl StreamEvent {
    fn new(queued: Queued, is_answer: bool, code: Option<i64>) -> Self {
        Self { queued, is_answer, code, progress: SendProgress::Waiting }
    }

    pub(crate) fn prefix(&mut self) -> Vec<u8> {
        let is_first = self.progress == SendProgress::Waiting;
        self.progress = SendProgress::Begun;
        if is_first { b"data: ".to_vec() } else { Vec::new() }
    }

    pub(crate) fn finish(&mut self) {
        self.progress = SendProgress::Sent;
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.progress == SendProgress::Sent
    }
}

impl Streams {
    pub(crate) fn new(is_shared: bool) -> Self {
        Self { state: Mutex::default(), is_shared }
    }

    /// Opens a stream for requests. Returns the stream and the numbers of the requests. Fails if an
    /// id is already in use.
    pub(crate) fn open(
        &self,
        asked: Vec<StreamRequest>,
        hang_up: &Arc<Notify>,
    ) -> Result<(StreamEvents, Vec<u64>), String> {
        let mut state = self.state.lock();
        if !self.is_shared {
            let is_taken = |id: &str| state.requests.values().any(|waiting| waiting.id == id);
            if let Some(asked) = asked.iter().find(|asked| is_taken(&asked.id)) {
                return Err(format!("a request with the id {} waits for its answer", asked.id));
            }
        }
        let events = state.add(asked.len(), hang_up);
        let mut numbers = Vec::new();
        for StreamRequest { id, token } in asked {
            state.next += 1;
            let number = state.next;
            numbers.push(number);
            state.requests.insert(number, StreamedRequest { stream: events.number, id, token });
        }
        Ok((events, numbers))
    }

    pub(crate) fn listen(&self, hang_up: &Arc<Notify>) -> StreamEvents {
        let mut state = self.state.lock();
        let events = state.add(0, hang_up);
        if let Some(older) = state.listener.replace(events.number) {
            state.streams.remove(&older);
        }
        for queued in std::mem::take(&mut state.held) {
            state.send(events.number, StreamEvent::new(queued, false, None));
        }
        events
    }

    pub(crate) fn deliver(&self, queued: Queued) -> Delivered {
        let outline = queued.message.outline();
        let Ok(envelope) = Envelope::of(&outline) else { return Delivered::Done };
        let mut state = self.state.lock();
        match &envelope.kind {
            MessageKind::Response { result } => {
                let code = if result.is_none() { error_code(&outline) } else { None };
                state.answer(queued, &envelope, &outline, code);
            }
            MessageKind::Notification { method } => {
                match NamedRequest::of(method, &envelope, &outline) {
                    Some(about) => state.relate(queued, about),
                    None => self.unrelated(&mut state, queued, method == "notifications/message"),
                }
            }
            MessageKind::Request { .. } if self.is_shared => {
                return Delivered::Refused(envelope.id(&outline).unwrap_or("null").to_owned());
            }
            MessageKind::Request { .. } => self.unrelated(&mut state, queued, true),
        }
        Delivered::Done
    }

    /// Sends a message that names no request. If `of_call` is true, the message likely belongs to a
    /// call, and the newest request stream is preferred. Otherwise, the listener is preferred. The
    /// message is held while no stream is open.
    fn unrelated(&self, state: &mut StreamsState, queued: Queued, of_call: bool) {
        let listener = state.listener;
        let mut of_requests = state.streams.keys().rev().filter(|key| Some(**key) != listener);
        let newest = of_requests.next().copied();
        let is_only = of_requests.next().is_none();
        let to = if of_call { newest.or(listener) } else { listener.or(newest) };
        match to {
            // The message may be about another client's request.
            Some(_) if self.is_shared && !is_only => {}
            Some(to) => state.send(to, StreamEvent::new(queued, false, None)),
            None if self.is_shared => {}
            None => state.hold(queued),
        }
    }

    pub(crate) fn cancelled(&self, id: &str) -> Option<u64> {
        let mut state = self.state.lock();
        let found = state.requests.iter().find(|(_, waiting)| waiting.id == id);
        let number = *found?.0;
        let waiting = state.requests.remove(&number)?;
        state.answered(waiting.stream);
        Some(number)
    }

    pub(crate) fn closed(&self, stream: u64) -> Vec<u64> {
        let mut state = self.state.lock();
        state.streams.remove(&stream);
        state.listener.take_if(|listener| *listener == stream);
        let of_it = state.requests.iter().filter(|(_, waiting)| waiting.stream == stream);
        let of_it: Vec<u64> = of_it.map(|(number, _)| *number).collect();
        state.requests.retain(|number, _| !of_it.contains(number));
        of_it
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().streams.is_empty()
    }

    pub(crate) fn end_stuck(&self, time: Duration) {
        for stream in self.state.lock().streams.values() {
            let progress = stream.progress.lock();
            if progress.unread > 0 && progress.moved.elapsed() > time {
                stream.hang_up.notify_one();
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        *state = StreamsState { is_closed: true, next: state.next, ..StreamsState::default() };
    }
}

impl StreamsState {
    fn add(&mut self, answers: usize, hang_up: &Arc<Notify>) -> StreamEvents {
        self.next += 1;
        let number = self.next;
        let (sender, receiver) = mpsc::unbounded_channel();
        let progress = Arc::new(Mutex::new(ReadProgress { unread: 0, moved: Instant::now() }));
        let events = StreamEvents { number, receiver, progress: Arc::clone(&progress) };
        // If the session has ended, the new stream ends immediately.
        if !self.is_closed {
            self.streams.insert(
                number,
                StreamState { sender, answers, progress, hang_up: Arc::clone(hang_up) },
            );
        }
        events
    }

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
        queued.message.edit(vec![Edit::new(range, waiting.id)]);
        self.send(waiting.stream, StreamEvent::new(queued, true, code));
    }

    fn relate(&mut self, mut queued: Queued, about: NamedRequest) {
        let Some(waiting) = self.requests.get(&about.number) else { return };
        let own = if about.is_token { waiting.token.clone() } else { Some(waiting.id.clone()) };
        let (Some(own), stream) = (own, waiting.stream) else { return };
        queued.message.edit(vec![Edit::new(about.place, own)]);
        self.send(stream, StreamEvent::new(queued, false, None));
    }

    fn send(&mut self, to: u64, event: StreamEvent) {
        let is_answer = event.is_answer;
        if let Some(stream) = self.streams.get(&to) {
            let mut progress = stream.progress.lock();
            if progress.unread == 0 {
                progress.moved = Instant::now();
            }
            progress.unread += 1;
            // The client may just have closed the stream.
            drop(stream.sender.send(event));
        }
        if is_answer {
            self.answered(to);
        }
    }

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
        while self.held.len() > MAX_HELD || bytes(&self.held) > MAX_HELD_BYTES {
            tracing::debug!("a message is lost: the client opened no stream for it");
            self.held.pop_front();
        }
    }
}

/// The request that a notification refers to by id or by progress token. `place` is the position of
/// the id or token in the text.
struct NamedRequest {
    number: u64,
    place: Range<usize>,
    is_token: bool,
}

impl NamedRequest {
    fn of(method: &str, envelope: &Envelope, message: &Message) -> Option<Self> {
        let params = RawObject::parse(raw(message, envelope.params.clone()?)?)?;
        let is_token = method == "notifications/progress";
        let named = if is_token {
            params.get("progressToken")?
        } else {
            json_rpc::subscription_id(&params)?
        };
        let number = json_rpc::number_of(named);
        // An unknown token belongs to a request that has ended.
        let number = if is_token { number.unwrap_or_default() } else { number? };
        Some(Self { number, place: message.range_of(named), is_token })
    }
}

#[cfg(test)]
mod tests;
