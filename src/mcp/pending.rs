//! Requests that wait for a server's answer, with the data needed to process the answer.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use uuid::Uuid;

use crate::lists::ListPage;
use crate::message::{Message, Outgoing};
use crate::raw_object::RawObject;
use crate::revision::InputKinds;

// Maximum size in bytes of recorded call arguments.
pub(crate) const MAX_ARGUMENTS: usize = 64 * 1024;
// Maximum number of questions per request that carries them, and of early questions per server.
pub(crate) const MAX_QUESTIONS: usize = 16;
// Questions that arrive within this time are sent together.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(25);

const NUMBERS: u64 = 36_u64.pow(4);

/// A request that was sent to a server and is not answered yet.
///
/// `client_id` is the client's id of the request. It is `None` for a request of the gateway itself
/// and for a held call. Ids and progress tokens are kept as written. `translation` is set if client
/// and server use different revisions.
pub(crate) struct PendingRequest {
    pub(crate) client_id: Option<String>,
    pub(crate) kind: PendingKind,
    pub(crate) token: Option<String>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) translation: Option<Box<Translation>>,
}

/// The way in which an answer is processed. `Relay` passes the answer on unchanged. `Handshake` and
/// `Listing` add the entries of the gateway. `Call` stores long parts of the result. `Shared`
/// passes the answer to a session of a shared server, and `Own` to the gateway itself.
pub(crate) enum PendingKind {
    Relay,
    Handshake,
    Listing(ListPage),
    Call(Box<ToolCall>),
    Shared(SharedRequest),
    Own(oneshot::Sender<Result<Message, String>>),
}

/// A session's request to a shared server. `number` is the id of the request in the session's
/// upstream. `turn` is free for another request of the session once the session has taken the answer.
#[derive(Debug)]
pub(crate) struct SharedRequest {
    pub(crate) session: u64,
    pub(crate) number: u64,
    pub(crate) is_call: bool,
    pub(crate) turn: OwnedSemaphorePermit,
}

impl PendingRequest {
    pub(crate) fn carrier_mut(&mut self) -> Option<&mut Carrier> {
        match self.translation.as_deref_mut()? {
            Translation::Carrier(carrier) => Some(carrier),
            _ => None,
        }
    }

    pub(crate) fn questions(&mut self) -> Option<&mut CarriedQuestions> {
        match &mut self.carrier_mut()?.carries {
            CarryMode::Held(questions) => Some(questions),
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

    /// Fails a request of the gateway itself, with `why` as the error. Returns any other request,
    /// so that the caller fails it.
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

/// A tool call, as recorded with its result. `arguments` is `None` if they are too long. `links` is
/// true if the client supports `resource_link`.
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

/// The pending requests to one server, by id. Ids increase, so the newest request has the highest
/// id.
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
        self.waiting.remove(&id.parse().ok()?)
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
        self.waiting.remove(&id)
    }

    pub(crate) fn take_all(&mut self) -> Vec<PendingRequest> {
        self.waiting.drain().map(|(_, pending)| pending).collect()
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    /// Returns the progress token that the client currently expects for a request sent with
    /// `token`. A client that repeats the request may choose a new token. Returns `None` while no
    /// request of the client waits for the answer.
    pub(crate) fn client_token(&self, token: &str) -> Option<String> {
        let of_it = self.waiting.iter().filter(|(_, sent)| sent.token.as_deref() == Some(token));
        let carrier = of_it
            .min_by_key(|(id, _)| **id)
            .and_then(|(_, sent)| Some((sent.carrier()?, sent.client_id.is_some())));
        match carrier {
            Some((carrier, is_waited_for)) => carrier.token.clone().filter(|_| is_waited_for),
            None => Some(token.to_owned()),
        }
    }

    pub(crate) fn want_logs(&self) -> bool {
        let mut all = self.waiting.values();
        all.any(|pending| pending.carrier().is_some_and(|carrier| carrier.logs))
    }

    pub(crate) fn shared(&self) -> impl Iterator<Item = (u64, &SharedRequest)> {
        self.waiting.iter().filter_map(|(id, pending)| match &pending.kind {
            PendingKind::Shared(request) => Some((*id, request)),
            _ => None,
        })
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
        late.into_iter().filter_map(|id| Some((id, self.waiting.remove(&id)?))).collect()
    }
}

/// The translation of an answer to the revision of the client. `Opening` is for the answer to
/// `initialize` from a server of unknown revision. The other two are for a client and a server of
/// different revisions. `Repeatable` is for a server of revision 2026-07-28, and `Carrier` for a
/// client of revision 2026-07-28.
pub(crate) enum Translation {
    Opening { version: String },
    Repeatable(Repeatable),
    Carrier(Carrier),
}

/// A request that can be repeated with input. `request` is the original request, without the
/// members added in later rounds.
pub(crate) struct Repeatable {
    pub(crate) request: Outgoing,
    pub(crate) rounds: u32,
}

/// A request of a client of revision 2026-07-28 to a server of an older revision. The result of the
/// request can carry questions of the server to the client. `abilities` are the kinds of input that
/// the client can provide. `logs` is true if the client wants log messages. `is_kept` is true if
/// the client may cache the result. `token` is the progress token that the client sent last.
#[derive(Debug)]
pub(crate) struct Carrier {
    pub(crate) abilities: InputKinds,
    pub(crate) logs: bool,
    pub(crate) is_kept: bool,
    pub(crate) token: Option<String>,
    pub(crate) carries: CarryMode,
}

/// The way in which the questions of a server reach the client of a [`Carrier`]. `Nothing`: not at
/// all. `Held`: the request ends with the questions, and is held until the client repeats it.
/// `Batch`: the batch that contains the call passes them on.
#[derive(Debug)]
pub(crate) enum CarryMode {
    Nothing,
    Held(Box<CarriedQuestions>),
    Batch(BatchInputs),
}

/// The questions of a server that end a client's request. `held` is set while the request waits to
/// be repeated. `identity` recognizes the repetition. Dropping a question refuses it.
#[derive(Debug)]
pub(crate) struct CarriedQuestions {
    pub(crate) identity: RequestIdentity,
    pub(crate) held: Option<u64>,
    pub(crate) rounds: u32,
    pub(crate) questions: Vec<CarriedQuestion>,
    last_key: u32,
}

/// A server's request that the client gets under `key`. `id` is the server's own id, as written.
/// `request` holds the members of the request.
#[derive(Debug)]
pub(crate) struct CarriedQuestion {
    id: String,
    key: String,
    request: String,
    is_sent: bool,
    reply: oneshot::Sender<QuestionReply>,
}

/// The reply to a server's question: a result as JSON, or a refusal with its reason. A question
/// that the server no longer asks gets no reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QuestionReply {
    Result(String),
    Refused(&'static str),
    Withdrawn,
}

impl CarriedQuestions {
    pub(crate) fn new(identity: RequestIdentity) -> Self {
        Self { identity, held: None, rounds: 0, questions: Vec::new(), last_key: 0 }
    }

    /// Adds a question under a new key. Returns `reply` if the request already carries
    /// [`MAX_QUESTIONS`].
    pub(crate) fn add(
        &mut self,
        id: String,
        request: String,
        reply: oneshot::Sender<QuestionReply>,
    ) -> Result<(), oneshot::Sender<QuestionReply>> {
        if self.questions.len() == MAX_QUESTIONS {
            return Err(reply);
        }
        self.last_key += 1;
        let key = format!("q{}", self.last_key);
        self.questions.push(CarriedQuestion { id, key, request, is_sent: false, reply });
        Ok(())
    }

    /// Marks all questions as sent and returns them as the `inputRequests` object.
    pub(crate) fn input_requests(&mut self) -> String {
        let requests = self.questions.iter_mut().map(|question| {
            question.is_sent = true;
            format!("\"{}\":{{{}}}", question.key, question.request)
        });
        format!("{{{}}}", requests.collect::<Vec<_>>().join(","))
    }

    /// Passes the client's responses to the server. Questions without a response remain.
    pub(crate) fn answer(&mut self, responses: &RawObject<'_>) {
        let answered = |question: &mut CarriedQuestion| {
            question.is_sent && responses.get(&question.key).is_some()
        };
        for question in self.questions.extract_if(.., answered).collect::<Vec<_>>() {
            let result = responses.get(&question.key).map_or("null", RawValue::get);
            drop(question.reply.send(QuestionReply::Result(result.to_owned())));
        }
    }

    pub(crate) fn refuse(&mut self, why: &'static str) {
        for question in self.questions.drain(..) {
            drop(question.reply.send(QuestionReply::Refused(why)));
        }
    }

    /// Removes the questions that the server no longer asks. `is_it` returns true for the id of
    /// such a question.
    pub(crate) fn withdraw(&mut self, is_it: &dyn Fn(&str) -> bool) {
        for question in self.questions.extract_if(.., |question| is_it(&question.id)) {
            drop(question.reply.send(QuestionReply::Withdrawn));
        }
    }
}

/// Identifies a request across repetitions: method, server, name, and a digest of the arguments. It
/// prevents the use of a state for a different request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestIdentity {
    pub(crate) name: String,
    pub(crate) digest: Value,
}

/// Input that a server needs for the call at position `place` of a batch. `request` holds the
/// members of the server's request.
#[derive(Debug)]
pub(crate) struct BatchInput {
    pub(crate) place: usize,
    pub(crate) request: String,
    pub(crate) reply: oneshot::Sender<QuestionReply>,
}

#[derive(Debug, Clone)]
pub(crate) struct BatchInputs {
    pub(crate) place: usize,
    pub(crate) sender: mpsc::UnboundedSender<BatchInput>,
}

impl BatchInputs {
    pub(crate) fn ask(&self, request: String, reply: oneshot::Sender<QuestionReply>) {
        // The batch may have ended.
        drop(self.sender.send(BatchInput { place: self.place, request, reply }));
    }
}

/// Returns a new call id made of the time and a number, such as `mib1x0cz-4k2a`.
///
/// Each process starts its numbers at a random value, because two gateways of the same conversation
/// may start calls in the same millisecond.
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

/// Marks the messages handled by `taking` as received on the stream of a request. Messages from a
/// process have no such mark.
pub(crate) async fn on_stream_of<T>(request: u64, taking: impl Future<Output = T>) -> T {
    ORIGIN.scope(request, taking).await
}

pub(crate) fn stream_request() -> Option<u64> {
    ORIGIN.try_with(|request| *request).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Replied = oneshot::Receiver<QuestionReply>;

    fn questions() -> CarriedQuestions {
        let identity = RequestIdentity { name: String::new(), digest: Value::Null };
        CarriedQuestions::new(identity)
    }

    fn ask(carried: &mut CarriedQuestions, id: &str) -> Option<Replied> {
        let (reply, replied) = oneshot::channel();
        carried
            .add(id.to_owned(), format!("\"method\":\"m{id}\""), reply)
            .is_ok()
            .then_some(replied)
    }

    #[test]
    fn questions_have_keys_and_are_told_once_more_until_answered() {
        let mut carried = questions();
        let mut one = ask(&mut carried, "1").unwrap();
        let mut two = ask(&mut carried, "2").unwrap();
        carried.answer(&RawObject::of(r#"{"q1":1}"#).unwrap());
        assert!(one.try_recv().is_err(), "the client has not got it yet");
        let both = r#"{"q1":{"method":"m1"},"q2":{"method":"m2"}}"#;
        assert_eq!(carried.input_requests(), both);
        assert!(carried.questions.iter().all(|question| question.is_sent));
        carried.answer(&RawObject::of(r#"{"q1":{"n":1.10},"q3":1}"#).unwrap());
        assert_eq!(one.try_recv(), Ok(QuestionReply::Result(r#"{"n":1.10}"#.to_owned())));
        assert_eq!(carried.input_requests(), r#"{"q2":{"method":"m2"}}"#);
        carried.refuse("no");
        assert_eq!(two.try_recv(), Ok(QuestionReply::Refused("no")));
        for n in 0..MAX_QUESTIONS {
            assert!(ask(&mut carried, &n.to_string()).is_some(), "{n}");
        }
        assert!(ask(&mut carried, "x").is_none());
    }

    #[test]
    fn what_a_server_gives_up_gets_no_reply() {
        let mut carried = questions();
        let mut one = ask(&mut carried, "1").unwrap();
        let mut two = ask(&mut carried, "2").unwrap();
        carried.withdraw(&|id| id == "1");
        assert_eq!(one.try_recv(), Ok(QuestionReply::Withdrawn));
        assert_eq!(carried.input_requests(), r#"{"q2":{"method":"m2"}}"#);
        carried.withdraw(&|_| true);
        assert_eq!(two.try_recv(), Ok(QuestionReply::Withdrawn));
        assert!(carried.questions.is_empty());
    }
}
