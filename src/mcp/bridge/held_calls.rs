//! New client, old server: a request of the server ends the client's call with `input_required`.
//! The call is held, and continues when the client repeats it with the answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::sleep;

use crate::bridge::{EarlyQuestion, HeldCall, HeldOutcome, HeldQuestion, messages};
use crate::client::Route;
use crate::delivery::{ServerAnswer, deliver_changed};
use crate::json_rpc::{
    self, Envelope, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MessageKind, RpcError,
    cancelled,
};
use crate::message::Message;
use crate::pending::{
    self, BatchInputs, Carrier, CarryMode, PendingRequests, RequestIdentity, Translation,
};
use crate::raw_object::{RawObject, quoted};
use crate::relay::Relay;
use crate::revision::{Era, InputKind, InputKinds};
use crate::upstream::Upstream;

const MAX_BYTES: usize = 16 << 20;
const FULL: &str = "too much is asked at once";
// Questions that arrive within this time are sent together.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(25);
// Time that a call is held if its server has no timeout.
const HELD: Duration = Duration::from_mins(10);
// Maximum number of times that one call can end with questions.
const MAX_ROUNDS: u32 = 32;
const CROWDED: &str = "too many other calls wait for answers";
const GONE: &str = "the call was answered already, or was held too long: make it anew";

/// How a question reaches the client. `Held` has the number of the newly held call, and the held
/// call that it evicted, if any.
enum CarriedBy {
    Batch(BatchInputs),
    Held(u64, Option<Box<HeldCall>>),
    Added,
    TooMany,
    Nobody,
}

/// Returns true if the server's requests cannot be sent to the client, because new clients accept
/// none. The only exception is a single server that is new itself, which talks to the client
/// directly.
pub(crate) fn must_carry(relay: &Relay, from: &Upstream) -> bool {
    relay.bridge.client.get() == Some(Era::Modern)
        && (relay.hub.is_some() || from.era.get() != Some(Era::Modern))
}

/// Handles a server's request for a client that accepts no requests. A batch, a held call or a
/// later call carries the request. Otherwise it is refused.
pub(crate) fn take_request(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    head: &Envelope,
    message: Message,
) {
    let Some(id) = head.id(&message).map(str::to_owned) else { return };
    if from.era.get() == Some(Era::Modern) {
        let text = "the revision has no requests of servers";
        return from.notify(json_rpc::error(&id, METHOD_NOT_FOUND, text));
    }
    if matches!(&head.kind, MessageKind::Request { method } if method == "ping") {
        return from.notify(json_rpc::answer(&id, "{}"));
    }
    let Some(place) = relay.bridge.questions.place(message.length()) else {
        return from.notify(json_rpc::error(&id, INTERNAL_ERROR, FULL));
    };
    let (ask, request) = match read(head, message) {
        Ok(read) => read,
        Err(refusal) => return from.notify(json_rpc::error(&id, refusal.code, &refusal.text)),
    };
    let (index, question) = (relay.index_of(from), HeldQuestion::new(id, request, Some(place)));
    match from.with_requests(|requests| choose_carrier(relay, index, requests, ask, &question)) {
        CarriedBy::Batch(inputs) => {
            tokio::spawn(answer_by_batch(Arc::clone(from), inputs, question));
        }
        CarriedBy::Held(number, oldest) => {
            from.count_asked(true);
            tokio::spawn(settle(Arc::downgrade(relay), number));
            if let Some(oldest) = oldest {
                give_up(relay, &oldest, CROWDED);
            }
        }
        CarriedBy::Added => from.count_asked(true),
        CarriedBy::TooMany => refuse(from, &question, FULL),
        CarriedBy::Nobody => wait_for_call(relay, from, index, ask, question),
    }
}

fn read(head: &Envelope, message: Message) -> Result<(InputKind, String), RpcError> {
    let method = match &head.kind {
        MessageKind::Request { method } => &**method,
        _ => "",
    };
    let no = || RpcError::new(METHOD_NOT_FOUND, format!("the client takes no `{method}`"));
    let message = message.filled(MAX_BYTES);
    let message = message.map_err(|why| RpcError::new(INVALID_PARAMS, why))?;
    let head = Envelope::of(&message).map_err(|_| no())?;
    let params = head.params(&message);
    let ask = InputKind::of(method, params).ok_or_else(no)?;
    let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
    Ok((ask, format!("\"method\":{}{params}", quoted(method))))
}

/// Chooses the client request that carries a question: the request on whose stream the question
/// arrived, else the newest request that is not held, else the newest request.
fn choose_carrier(
    relay: &Relay,
    index: usize,
    requests: &mut PendingRequests,
    ask: InputKind,
    question: &HeldQuestion,
) -> CarriedBy {
    let mut able: Vec<(u64, &mut Carrier)> = carriers(requests, ask).collect();
    let origin = pending::stream_request();
    let its_own = able.iter().position(|(number, _)| Some(*number) == origin);
    let free = able.iter().rposition(|(_, carrier)| carrier.held().is_none());
    let place = its_own.or(free).or(able.len().checked_sub(1));
    let Some((request, carrier)) = place.and_then(|place| able.get_mut(place)) else {
        return CarriedBy::Nobody;
    };
    match &mut carrier.carries {
        CarryMode::Nothing => CarriedBy::Nobody,
        CarryMode::Batch(inputs) => CarriedBy::Batch(inputs.clone()),
        CarryMode::Held { number: Some(held), .. } => {
            match relay.bridge.held.change(*held, |call| call.add(question.clone())) {
                Some(true) => CarriedBy::Added,
                Some(false) => CarriedBy::TooMany,
                None => CarriedBy::Nobody,
            }
        }
        CarryMode::Held { number, .. } => {
            let mut call = HeldCall::new(index, *request);
            call.add(question.clone());
            let (held, oldest) = relay.bridge.held.put(call);
            *number = Some(held);
            CarriedBy::Held(held, oldest.map(Box::new))
        }
    }
}

fn carriers(
    requests: &mut PendingRequests,
    ask: InputKind,
) -> impl Iterator<Item = (u64, &mut Carrier)> {
    requests.by_age().into_iter().filter_map(move |(number, pending)| {
        let carrier = pending.carrier_mut()?;
        let can = carrier.abilities.has(ask) && !matches!(carrier.carries, CarryMode::Nothing);
        can.then_some((number, carrier))
    })
}

async fn answer_by_batch(from: Arc<Upstream>, inputs: BatchInputs, question: HeldQuestion) {
    match inputs.ask(question.request.clone()).await {
        Ok(result) => from.notify(json_rpc::answer(&question.id, &result)),
        Err(_) => refuse(&from, &question, "the call has ended"),
    }
}

fn wait_for_call(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    index: usize,
    ask: InputKind,
    question: HeldQuestion,
) {
    if !relay.bridge.profile().abilities().has(ask) {
        return refuse(from, &question, "the client cannot do that");
    }
    let id = question.id.clone();
    let early = EarlyQuestion { upstream: index, ask, question: question.clone() };
    if !relay.bridge.held.put_early(early) {
        return refuse(from, &question, FULL);
    }
    // The early question must hold the only reference to the reserved memory, so that answering it
    // releases the memory.
    drop(question);
    let (relay, time) = (Arc::downgrade(relay), from.timeout.unwrap_or(HELD));
    tokio::spawn(async move {
        sleep(time).await;
        let Some(relay) = relay.upgrade() else { return };
        let is_it = |early: &EarlyQuestion| early.question.id == id;
        for late in relay.bridge.held.take_early(index, is_it) {
            refuse(&relay.upstreams[index], &late.question, "the client made no call in time");
        }
    });
}

pub(crate) fn take_early(relay: &Arc<Relay>, index: usize, request: u64, abilities: InputKinds) {
    let early = relay.bridge.held.take_early(index, |early| abilities.has(early.ask));
    if early.is_empty() {
        return;
    }
    let questions = early.into_iter().map(|early| early.question).collect();
    if let Some(number) = hold(relay, index, request, questions) {
        tokio::spawn(settle(Arc::downgrade(relay), number));
    }
}

/// Holds a request with questions. Returns its number in the table of held calls, or `None` if the
/// request has ended.
pub(crate) fn hold(
    relay: &Arc<Relay>,
    index: usize,
    request: u64,
    questions: Vec<HeldQuestion>,
) -> Option<u64> {
    let from = &relay.upstreams[index];
    let mut call = HeldCall::new(index, request);
    for question in questions {
        from.count_asked(true);
        call.add(question);
    }
    let (number, oldest) = relay.bridge.held.put(call);
    if let Some(oldest) = oldest {
        give_up(relay, &oldest, CROWDED);
    }
    let is_held = from.with_requests(|requests| {
        let pending = requests.waiting.get_mut(&request)?;
        let carrier = pending.carrier_mut()?;
        let CarryMode::Held { number: held, .. } = &mut carrier.carries else { return None };
        *held = Some(number);
        Some(())
    });
    if is_held.is_none() {
        end(relay, number, "the call has ended");
    }
    is_held.map(|()| number)
}

pub(crate) async fn settle(relay: Weak<Relay>, number: u64) {
    sleep(SETTLE_TIME).await;
    if let Some(relay) = relay.upgrade() {
        request_input(&relay, number).await;
    }
}

pub(crate) async fn request_input(relay: &Arc<Relay>, number: u64) {
    let known = relay.bridge.held.change(number, |call| (call.upstream, call.request));
    let Some((index, request)) = known else { return };
    let from = &relay.upstreams[index];
    let Some((client_id, identity, rounds)) =
        from.with_requests(|requests| release_client(requests, request))
    else {
        return end(relay, number, "the call has ended");
    };
    if rounds > MAX_ROUNDS {
        return end_after_rounds(relay, from, number, request, client_id).await;
    }
    if relay.client.end(&client_id).is_none() {
        return end(relay, number, "the call was cancelled");
    }
    let time = from.timeout.unwrap_or(HELD);
    let requests = relay.bridge.held.change(number, HeldCall::input_requests).unwrap_or_default();
    let state = relay.bridge.key.seal(&relay.shelf, identity.call(), number, time);
    let result = format!(
        r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":{}}}"#,
        quoted(&state)
    );
    let weak = Arc::downgrade(relay);
    tokio::spawn(async move {
        sleep(time).await;
        let Some(relay) = weak.upgrade() else { return };
        if let Some(call) = relay.bridge.held.take(number) {
            give_up(&relay, &call, "the client did not answer in time");
        }
    });
    relay.client.send(json_rpc::answer(&client_id, &result)).await;
}

fn release_client(
    requests: &mut PendingRequests,
    request: u64,
) -> Option<(String, RequestIdentity, u32)> {
    let pending = requests.waiting.get_mut(&request)?;
    let carrier = pending.carrier_mut()?;
    let CarryMode::Held { identity, .. } = &carrier.carries else { return None };
    let identity = identity.clone();
    carrier.rounds += 1;
    let rounds = carrier.rounds;
    pending.deadline = None;
    Some((pending.client_id.take()?, identity, rounds))
}

async fn end_after_rounds(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    number: u64,
    request: u64,
    client_id: String,
) {
    end(relay, number, "it was asked too often");
    let Some(mut pending) = from.take(request) else { return };
    from.notify(cancelled(request));
    pending.client_id = Some(client_id);
    let text = format!(
        "the server `{}` asked for input more than {MAX_ROUNDS} times at one call",
        from.name
    );
    relay.fail(pending, INTERNAL_ERROR, &text).await;
}

pub(crate) fn end(relay: &Relay, number: u64, why: &str) {
    if let Some(call) = relay.bridge.held.take(number) {
        let from = &relay.upstreams[call.upstream];
        call.questions.iter().for_each(|question| refuse_counted(from, question, why));
    }
}

fn give_up(relay: &Relay, call: &HeldCall, why: &str) {
    let from = &relay.upstreams[call.upstream];
    if call.outcome.is_none() && from.take(call.request).is_some() {
        from.notify(cancelled(call.request));
    }
    call.questions.iter().for_each(|question| refuse_counted(from, question, why));
}

fn refuse_counted(from: &Upstream, question: &HeldQuestion, why: &str) {
    if question.is_waited_for() {
        from.count_asked(false);
        refuse(from, question, why);
    }
}

pub(crate) fn refuse(from: &Upstream, question: &HeldQuestion, why: &str) {
    from.notify(json_rpc::error(&question.id, INTERNAL_ERROR, why));
}

/// Processes the answer to a new client's request. If the request is held, the answer is stored
/// until the client repeats it.
pub(crate) async fn carrier_answered(
    relay: &Arc<Relay>,
    carrier: Carrier,
    mut answer: ServerAnswer,
) {
    let is_kept = carrier.is_kept;
    match carrier.held() {
        Some(number) if answer.pending.client_id.is_none() => {
            let ServerAnswer { mut pending, message, .. } = answer;
            pending.translation = Some(Box::new(Translation::Carrier(carrier)));
            let outcome = HeldOutcome { pending, is_kept, answer: Ok(message) };
            // Does nothing if the call was given up.
            relay.bridge.held.change(number, |call| call.outcome = Some(outcome));
            return;
        }
        Some(number) => end(relay, number, "the call has ended"),
        None => {}
    }
    let failed = answer.envelope.result().is_none();
    let can_ask =
        carrier.abilities.has(InputKind::Url) && !matches!(carrier.carries, CarryMode::Nothing);
    if failed
        && can_ask
        && let Some(asks) = messages::pages(&answer.message)
    {
        let Some(client_id) = answer.pending.client_id.take() else { return };
        relay.client.end(&client_id);
        return relay.client.send(json_rpc::answer(&client_id, &asks)).await;
    }
    complete(relay, answer, is_kept).await;
}

async fn complete(relay: &Arc<Relay>, answer: ServerAnswer, is_kept: bool) {
    let edits = match answer.envelope.result() {
        Some(range) => messages::completed(&answer.message, &range, is_kept),
        None => messages::modern_error(&answer.message),
    };
    deliver_changed(relay, answer, edits, messages::modern_members(is_kept)).await;
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
    let opened = relay.bridge.key.open(&relay.shelf, again.identity.call(), again.state);
    let taken = opened.and_then(|number| relay.bridge.held.take(number).ok_or(GONE.to_owned()));
    let mut call = match taken {
        Ok(call) => call,
        Err(why) => {
            relay.client.end(again.id);
            return relay.client.error(again.id, INVALID_PARAMS, &why).await;
        }
    };
    let from = &relay.upstreams[index];
    let open = answer_server(from, &mut call, again.responses.as_deref());
    if let Some(outcome) = call.outcome {
        refuse_all(from, &open);
        return conclude(relay, from, outcome, again.id).await;
    }
    if from
        .with_requests(|requests| reattach_client(requests, call.request, &again, from))
        .is_none()
    {
        refuse_all(from, &open);
        relay.client.end(again.id);
        return relay.client.error(again.id, INTERNAL_ERROR, GONE).await;
    }
    relay.client.sent(again.id, Route::Upstream(index, call.request));
    if !open.is_empty() {
        // `hold` counts these questions again.
        for _ in &open {
            from.count_asked(false);
        }
        if let Some(number) = hold(relay, index, call.request, open) {
            request_input(relay, number).await;
        }
    }
}

fn refuse_all(from: &Upstream, questions: &[HeldQuestion]) {
    for question in questions {
        refuse_counted(from, question, "the call has ended");
    }
}

fn answer_server(
    from: &Upstream,
    call: &mut HeldCall,
    responses: Option<&RawValue>,
) -> Vec<HeldQuestion> {
    let responses = responses.and_then(RawObject::parse).unwrap_or_default();
    let mut open = Vec::new();
    for question in call.questions.drain(..).filter(HeldQuestion::is_waited_for) {
        match responses.get(&question.key).filter(|_| question.is_sent) {
            Some(result) => {
                from.count_asked(false);
                from.notify(json_rpc::answer(&question.id, result.get()));
            }
            None => open.push(question),
        }
    }
    open
}

fn reattach_client(
    requests: &mut PendingRequests,
    request: u64,
    again: &RepeatedCall<'_>,
    from: &Upstream,
) -> Option<()> {
    let pending = requests.waiting.get_mut(&request)?;
    pending.client_id = Some(again.id.to_owned());
    pending.deadline = from.deadline();
    let carrier = pending.carrier_mut()?;
    carrier.token.clone_from(&again.token);
    carrier.abilities = again.abilities;
    if let CarryMode::Held { number, .. } = &mut carrier.carries {
        *number = None;
    }
    Some(())
}

async fn conclude(relay: &Arc<Relay>, from: &Arc<Upstream>, outcome: HeldOutcome, id: &str) {
    let HeldOutcome { mut pending, is_kept, answer } = outcome;
    pending.client_id = Some(id.to_owned());
    pending.translation = None;
    match answer {
        Ok(message) => {
            let Ok(envelope) = Envelope::of(&message) else { return };
            let answer = ServerAnswer { from: Arc::clone(from), pending, envelope, message };
            complete(relay, answer, is_kept).await;
        }
        Err((code, text)) => relay.fail(pending, code, &text).await,
    }
}
