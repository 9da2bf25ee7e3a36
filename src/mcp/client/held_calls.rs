//! Calls of a client of revision 2026-07-28 to a server of an older revision. If the server sends a
//! request to the client, the gateway ends the client's call with the result `input_required`, but
//! keeps the call open at the server. The call at the server continues when the client repeats its
//! call with the answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::sleep;

use crate::client::{CallEnd, EarlyQuestion, HeldCall, Route};
use crate::delivery::{ServerAnswer, deliver};
use crate::json_rpc::{
    self, Envelope, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, cancelled,
};
use crate::message::Message;
use crate::pending::{
    self, Carrier, CarryMode, PendingRequest, PendingRequests, QuestionReply, RequestIdentity,
    SETTLE_TIME,
};
use crate::raw_object::{RawObject, quoted};
use crate::relay::Relay;
use crate::revision::{Era, InputKind, InputKinds, translation};
use crate::upstream::Upstream;

const MAX_BYTES: usize = 16 << 20;
const FULL: &str = "too much is asked at once";
// Time that a call is held if its server has no timeout.
const HELD: Duration = Duration::from_mins(10);
// Maximum number of times that one call can end with questions.
const MAX_ROUNDS: u32 = 32;
const GONE: &str = "the call was answered already, or was held too long: make it anew";

/// Returns true if requests of this server must reach the client in results, because a client of
/// revision 2026-07-28 accepts no requests. Returns false if this is the only server and also has
/// revision 2026-07-28, because messages are then not translated.
pub(crate) fn must_carry(relay: &Relay, from: &Upstream) -> bool {
    relay.client.is_modern() && (relay.hub.is_some() || from.era.get() != Some(Era::Modern))
}

/// Handles a request that a server sends to a client that accepts no requests. The client gets the
/// request as a question in the result of an open call or batch, or of its next call. If that is
/// not possible, the request is refused.
pub(crate) fn take_request(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    (id, method): (&str, &str),
    message: Message,
) {
    if method == "ping" && from.era.get() != Some(Era::Modern) {
        return from.notify(json_rpc::answer(id, "{}"));
    }
    let question = match read(relay, from, (id, method), message) {
        Ok(question) => question,
        Err(refusal) => return from.notify(json_rpc::error(id, refusal.code, &refusal.text)),
    };
    match from.with_requests(|requests| choose_carrier(requests, question.kind)) {
        Some(request) => carry(relay, request, question),
        None => wait_for_call(relay, question),
    }
}

fn read(
    relay: &Relay,
    from: &Arc<Upstream>,
    (id, method): (&str, &str),
    message: Message,
) -> Result<EarlyQuestion, RpcError> {
    if from.era.get() == Some(Era::Modern) {
        let text = "the revision has no requests of servers";
        return Err(RpcError::new(METHOD_NOT_FOUND, text));
    }
    let room = relay.client.question_room(message.length());
    let room = room.ok_or_else(|| RpcError::new(INTERNAL_ERROR, FULL))?;
    let no = || RpcError::new(METHOD_NOT_FOUND, format!("the client takes no `{method}`"));
    let message = message.filled(MAX_BYTES);
    let message = message.map_err(|why| RpcError::new(INVALID_PARAMS, why))?;
    let head = Envelope::of(&message).map_err(|_| no())?;
    let params = head.params(&message);
    let kind = InputKind::of(method, params).ok_or_else(no)?;
    let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
    let request = format!("\"method\":{}{params}", quoted(method));
    Ok(EarlyQuestion { from: Arc::clone(from), id: id.to_owned(), kind, request, room })
}

/// Chooses the client request that carries a question. Prefers the request on whose stream the
/// question arrived, then the newest request without questions, then the newest request.
fn choose_carrier(requests: &mut PendingRequests, kind: InputKind) -> Option<u64> {
    let able = requests.by_age().into_iter().filter_map(|(number, pending)| {
        let Carrier { abilities, carries, .. } = pending.carrier()?;
        let is_free = match carries {
            CarryMode::Nothing => return None,
            CarryMode::Held(carried) => carried.held.is_none() && carried.questions.is_empty(),
            CarryMode::Batch(_) => true,
        };
        abilities.has(kind).then_some((number, is_free))
    });
    let able: Vec<(u64, bool)> = able.collect();
    let origin = pending::stream_request();
    let its_own = able.iter().find(|(number, _)| Some(*number) == origin);
    let free = able.iter().rfind(|(_, is_free)| *is_free);
    its_own.or(free).or(able.last()).map(|(number, _)| *number)
}

fn carry(relay: &Arc<Relay>, request: u64, question: EarlyQuestion) {
    let EarlyQuestion { from, id, request: members, room, .. } = question;
    from.count_asked(true);
    let (reply, replied) = oneshot::channel();
    tokio::spawn(reply_to(Arc::downgrade(&from), id.clone(), room, replied));
    let is_first = from.with_requests(|requests| {
        let carrier = requests.waiting.get_mut(&request)?.carrier_mut()?;
        match &mut carrier.carries {
            CarryMode::Nothing => None,
            CarryMode::Batch(inputs) => {
                inputs.ask(members, reply);
                None
            }
            CarryMode::Held(carried) => {
                let is_first = carried.questions.is_empty() && carried.held.is_none();
                if let Err(reply) = carried.add(id, members, reply) {
                    drop(reply.send(QuestionReply::Refused(FULL)));
                }
                Some(is_first)
            }
        }
    });
    if is_first == Some(true) {
        tokio::spawn(settle(Arc::downgrade(relay), from, request));
    }
}

/// Sends the reply to a server's question. `_room` is the memory reserved for the question. `from`
/// is weak, because the pending requests of the server hold the other end of `replied`: with a
/// strong reference, neither would ever be dropped.
async fn reply_to(
    from: Weak<Upstream>,
    id: String,
    _room: OwnedSemaphorePermit,
    replied: oneshot::Receiver<QuestionReply>,
) {
    let reply = replied.await.unwrap_or(QuestionReply::Refused("the call has ended"));
    let Some(from) = from.upgrade() else { return };
    from.count_asked(false);
    match reply {
        QuestionReply::Result(result) => from.notify(json_rpc::answer(&id, &result)),
        QuestionReply::Refused(why) => from.notify(json_rpc::error(&id, INTERNAL_ERROR, why)),
        QuestionReply::Withdrawn => {}
    }
}

fn wait_for_call(relay: &Arc<Relay>, question: EarlyQuestion) {
    if !relay.client.profile().abilities().has(question.kind) {
        return question.refuse("the client cannot do that");
    }
    let (from, id) = (Arc::downgrade(&question.from), question.id.clone());
    let time = question.from.timeout.unwrap_or(HELD);
    if let Err(question) = relay.client.put_early(question) {
        return question.refuse(FULL);
    }
    let relay = Arc::downgrade(relay);
    tokio::spawn(async move {
        sleep(time).await;
        let Some((relay, from)) = relay.upgrade().zip(from.upgrade()) else { return };
        for late in relay.client.take_early(&from, |early| early.id == id) {
            late.refuse("the client made no call in time");
        }
    });
}

impl EarlyQuestion {
    fn refuse(&self, why: &str) {
        self.from.notify(json_rpc::error(&self.id, INTERNAL_ERROR, why));
    }
}

/// Adds the stored early questions of a server to a new request, whose result will carry them to
/// the client.
pub(crate) fn carry_early(relay: &Arc<Relay>, from: &Arc<Upstream>, request: u64) {
    let abilities = from.with_requests(|requests| {
        let pending = requests.waiting.get_mut(&request)?;
        pending.questions()?;
        Some(pending.carrier()?.abilities)
    });
    let Some(abilities) = abilities else { return };
    for early in relay.client.take_early(from, |early| abilities.has(early.kind)) {
        carry(relay, request, early);
    }
}

/// Removes the questions that a server has cancelled. `is_it` returns true for the id of such a
/// question.
pub(crate) fn withdraw(relay: &Relay, from: &Arc<Upstream>, is_it: &dyn Fn(&str) -> bool) {
    drop(relay.client.take_early(from, |early| is_it(&early.id)));
    from.with_requests(|requests| {
        let carried = requests.waiting.values_mut().filter_map(PendingRequest::questions);
        carried.for_each(|carried| carried.withdraw(is_it));
    });
    let mut held = relay.client.held.calls.lock();
    let of_it = held.values_mut().filter(|call| Arc::ptr_eq(&call.from, from));
    let ended = of_it.filter_map(|call| call.ended.as_mut()?.0.questions());
    ended.for_each(|carried| carried.withdraw(is_it));
}

async fn settle(relay: Weak<Relay>, from: Arc<Upstream>, request: u64) {
    sleep(SETTLE_TIME).await;
    if let Some(relay) = relay.upgrade() {
        request_input(&relay, &from, request).await;
    }
}

/// Ends a request of the client with the questions that it carries, and holds the call at the
/// server.
async fn request_input(relay: &Arc<Relay>, from: &Arc<Upstream>, request: u64) {
    let released = from.with_requests(|requests| {
        let pending = requests.waiting.get_mut(&request)?;
        let carried = pending.questions().filter(|carried| !carried.questions.is_empty())?;
        carried.rounds += 1;
        let (identity, rounds) = (carried.identity.clone(), carried.rounds);
        pending.deadline = None;
        Some((pending.client_id.take()?, identity, rounds))
    });
    let Some((client_id, RequestIdentity { name, digest }, rounds)) = released else { return };
    if rounds > MAX_ROUNDS {
        return end_after_rounds(relay, from, request, client_id).await;
    }
    if relay.client.end(&client_id).is_none() {
        return drop(from.take(request));
    }
    let call = HeldCall { from: Arc::clone(from), request, ended: None };
    let time = from.timeout.unwrap_or(HELD);
    let (number, state) =
        relay.client.held.hold(&relay.shelf, (&name, &digest), time, (call, give_up));
    let requests = from.with_requests(|requests| {
        let carried = requests.waiting.get_mut(&request)?.questions()?;
        carried.held = Some(number);
        Some(carried.input_requests())
    });
    let result = format!(
        r#"{{"resultType":"input_required","inputRequests":{},"requestState":{}}}"#,
        requests.unwrap_or_default(),
        quoted(&state)
    );
    relay.client.send(json_rpc::answer(&client_id, &result)).await;
}

async fn end_after_rounds(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    request: u64,
    client_id: String,
) {
    let Some(mut pending) = from.take(request) else { return };
    from.notify(cancelled(request));
    if let Some(carried) = pending.questions() {
        carried.refuse("it was asked too often");
    }
    pending.client_id = Some(client_id);
    let text = format!(
        "the server `{}` asked for input more than {MAX_ROUNDS} times at one call",
        from.name
    );
    relay.fail(pending, INTERNAL_ERROR, &text).await;
}

fn give_up(call: HeldCall, why: &'static str) {
    let HeldCall { from, request, ended } = call;
    let mut pending = match ended {
        Some((pending, _)) => Some(pending),
        None => from.take(request).inspect(|_| from.notify(cancelled(request))),
    };
    if let Some(carried) = pending.as_mut().and_then(PendingRequest::questions) {
        carried.refuse(why);
    }
}

/// Processes a server's answer to a request of a client of revision 2026-07-28. If the request is
/// held, the answer is stored until the client repeats the request.
pub(crate) async fn carrier_answered(relay: &Arc<Relay>, answer: ServerAnswer) {
    if answer.pending.client_id.is_none() {
        return relay.client.held_call_ended(answer.pending, Ok(answer.message));
    }
    let can_ask = answer.pending.carrier().is_some_and(|carrier| {
        carrier.abilities.has(InputKind::Url) && !matches!(carrier.carries, CarryMode::Nothing)
    });
    if can_ask
        && answer.envelope.result().is_none()
        && let Some(asks) = translation::pages(&answer.message)
        && let Some(client_id) = &answer.pending.client_id
    {
        relay.client.end(client_id);
        return relay.client.send(json_rpc::answer(client_id, &asks)).await;
    }
    complete(relay, answer).await;
}

async fn complete(relay: &Arc<Relay>, answer: ServerAnswer) {
    let is_kept = answer.pending.carrier().is_some_and(|carrier| carrier.is_kept);
    let edits = match answer.envelope.result() {
        Some(range) => translation::completed(&answer.message, &range, is_kept),
        None => translation::modern_error(&answer.message),
    };
    deliver(relay, answer, edits, translation::modern_members(is_kept)).await;
}

/// A client request that repeats a held call. `state` identifies the held call, and `responses`
/// holds the client's answers to its questions.
pub(crate) struct RepeatedCall<'a> {
    pub(crate) id: &'a str,
    pub(crate) identity: &'a RequestIdentity,
    pub(crate) state: &'a str,
    pub(crate) responses: Option<Box<RawValue>>,
    pub(crate) token: Option<String>,
    pub(crate) abilities: InputKinds,
}

/// Resumes a held call that the client repeated with answers. Unanswered questions are sent again.
pub(crate) async fn resume(relay: &Arc<Relay>, index: usize, again: RepeatedCall<'_>) {
    let RequestIdentity { name, digest } = again.identity;
    let opened = relay.client.held.open(&relay.shelf, (name, digest), again.state);
    let call = match opened.and_then(|call| call.ok_or_else(|| GONE.to_owned())) {
        Ok(call) => call,
        Err(why) => {
            relay.client.end(again.id);
            return relay.client.error(again.id, INVALID_PARAMS, &why).await;
        }
    };
    let responses = again.responses.as_deref().and_then(RawObject::parse).unwrap_or_default();
    if let Some((mut pending, end)) = call.ended {
        if let Some(carried) = pending.questions() {
            carried.answer(&responses);
            carried.refuse("the call has ended");
        }
        pending.client_id = Some(again.id.to_owned());
        return conclude(relay, &call.from, pending, end).await;
    }
    let (from, request) = (&relay.upstreams[index], call.request);
    let is_asking = from.with_requests(|requests| {
        let pending = requests.waiting.get_mut(&request)?;
        pending.client_id = Some(again.id.to_owned());
        pending.deadline = from.deadline();
        let carrier = pending.carrier_mut()?;
        carrier.token.clone_from(&again.token);
        carrier.abilities = again.abilities;
        let carried = pending.questions()?;
        carried.held = None;
        carried.answer(&responses);
        Some(!carried.questions.is_empty())
    });
    let Some(is_asking) = is_asking else {
        relay.client.end(again.id);
        return relay.client.error(again.id, INTERNAL_ERROR, GONE).await;
    };
    relay.client.sent(again.id, Route::Upstream(index, request));
    if is_asking {
        request_input(relay, from, request).await;
    }
}

async fn conclude(relay: &Arc<Relay>, from: &Arc<Upstream>, pending: PendingRequest, end: CallEnd) {
    match end {
        Ok(message) => {
            let Ok(envelope) = Envelope::of(&message) else { return };
            let answer = ServerAnswer { from: Arc::clone(from), pending, envelope, message };
            complete(relay, answer).await;
        }
        Err((code, text)) => relay.fail(pending, code, &text).await,
    }
}
