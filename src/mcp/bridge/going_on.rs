//! New clients, old servers: a held call goes on when the client makes it again, and ends.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::bridge::client_said::{Abilities, Ask};
use crate::bridge::crossing::{Carrier, Carries, Crossing, RequestIdentity};
use crate::bridge::held::{CallEnd, HeldCall, HeldQuestion};
use crate::bridge::{Bridge, holding, result};
use crate::delivery::{ServerAnswer, deliver_changed};
use crate::envelope;
use crate::envelope::Envelope;
use crate::pending::{Pending, PendingRequests};
use crate::raw_object::RawObject;
use crate::relay::{INTERNAL_ERROR, INVALID_PARAMS, Relay, Route};
use crate::upstream::Upstream;

const GONE: &str = "the call was answered already, or was held too long: make it anew";

/// Takes the answer to a request of a new client.
pub(super) async fn answered(relay: &Arc<Relay>, carrier: Carrier, mut answer: ServerAnswer) {
    let is_kept = carrier.is_kept;
    match carrier.held() {
        Some(number) if answer.pending.client_id.is_none() => {
            let ServerAnswer { mut pending, message, .. } = answer;
            pending.crossing = Some(Box::new(Crossing::Carrier(carrier)));
            let outcome = CallEnd { pending, is_kept, answer: Ok(message) };
            // Nobody waits for one that was given up.
            relay.bridge.held.change(number, |call| call.outcome = Some(outcome));
            return;
        }
        Some(number) => holding::end(relay, number, "the call has ended"),
        None => {}
    }
    let failed = answer.envelope.result().is_none();
    let can_ask = carrier.abilities.has(Ask::Url) && !matches!(carrier.carries, Carries::Nothing);
    if failed
        && can_ask
        && let Some(asks) = result::pages(&answer.message)
    {
        let Some(client_id) = answer.pending.client_id.take() else { return };
        relay.end(&client_id);
        return relay.tell(envelope::answer(&client_id, &asks)).await;
    }
    complete(relay, answer, is_kept).await;
}

/// Hands an answer to a new client as that needs it.
async fn complete(relay: &Arc<Relay>, answer: ServerAnswer, is_kept: bool) {
    let edits = match answer.envelope.result() {
        Some(range) => result::completed(&answer.message, &range, is_kept),
        None => result::error(&answer.message),
    };
    deliver_changed(relay, answer, edits, result::first(is_kept)).await;
}

/// A request that makes a held call again.
pub(super) struct Again<'a> {
    pub(super) id: &'a str,
    pub(super) identity: &'a RequestIdentity,
    pub(super) state: &'a str,
    pub(super) responses: Option<Box<RawValue>>,
    pub(super) token: Option<String>,
    pub(super) abilities: Abilities,
}

/// Goes on with a held call.
pub(super) async fn resume(relay: &Arc<Relay>, index: usize, again: Again<'_>) {
    let opened = relay.bridge.key.open(&relay.shelf, again.identity.call(), again.state);
    let taken = opened.and_then(|number| relay.bridge.held.take(number).ok_or(GONE.to_owned()));
    let mut call = match taken {
        Ok(call) => call,
        Err(why) => {
            relay.end(again.id);
            return relay.error(again.id, INVALID_PARAMS, &why).await;
        }
    };
    let from = &relay.upstreams[index];
    let open = answer(from, &mut call, again.responses.as_deref());
    if let Some(outcome) = call.outcome {
        refuse_all(from, &open);
        return conclude(relay, from, outcome, again.id).await;
    }
    if from.with_requests(|requests| tightened(requests, call.request, &again, from)).is_none() {
        refuse_all(from, &open);
        relay.end(again.id);
        return relay.error(again.id, INTERNAL_ERROR, GONE).await;
    }
    relay.sent(again.id, Route::Upstream(index, call.request));
    if !open.is_empty() {
        // They are counted anew.
        for _ in &open {
            from.count_asked(false);
        }
        if let Some(number) = holding::hold(relay, index, call.request, open) {
            holding::tell(relay, number).await;
        }
    }
}

fn refuse_all(from: &Upstream, questions: &[HeldQuestion]) {
    for question in questions {
        holding::refuse_counted(from, question, "the call has ended");
    }
}

/// Hands a server the answers of the client. Returns the questions without one.
fn answer(from: &Upstream, call: &mut HeldCall, responses: Option<&RawValue>) -> Vec<HeldQuestion> {
    let responses = responses.and_then(RawObject::parse).unwrap_or_default();
    let mut open = Vec::new();
    for question in call.questions.drain(..).filter(HeldQuestion::is_waited_for) {
        match responses.get(&question.key).filter(|_| question.is_told) {
            Some(result) => {
                from.count_asked(false);
                from.notify(envelope::answer(&question.id, result.get()));
            }
            None => open.push(question),
        }
    }
    open
}

/// Gives a held request another id of the client, and time.
fn tightened(
    requests: &mut PendingRequests,
    request: u64,
    again: &Again<'_>,
    from: &Upstream,
) -> Option<()> {
    let pending = requests.get_mut(request)?;
    pending.client_id = Some(again.id.to_owned());
    pending.deadline = from.deadline();
    let Some(Crossing::Carrier(carrier)) = pending.crossing.as_deref_mut() else { return None };
    carrier.token.clone_from(&again.token);
    carrier.abilities = again.abilities;
    if let Carries::Held { number, .. } = &mut carrier.carries {
        *number = None;
    }
    Some(())
}

/// Answers a request that makes a call again which has ended meanwhile.
async fn conclude(relay: &Arc<Relay>, from: &Arc<Upstream>, outcome: CallEnd, id: &str) {
    let CallEnd { mut pending, is_kept, answer } = outcome;
    pending.client_id = Some(id.to_owned());
    pending.crossing = None;
    match answer {
        Ok(message) => {
            let Ok(envelope) = Envelope::of(&message) else { return };
            let answer = ServerAnswer { from: Arc::clone(from), pending, envelope, message };
            complete(relay, answer, is_kept).await;
        }
        Err((code, text)) => relay.fail(pending, code, &text).await,
    }
}

impl Bridge {
    /// Keeps the failure of a request for the client that makes it again.
    pub(crate) fn failed(&self, pending: Pending, code: i32, text: &str) {
        let number = match pending.crossing.as_deref() {
            Some(Crossing::Carrier(carrier)) => carrier.held(),
            _ => None,
        };
        let Some(number) = number else { return };
        let answer = Err((code, text.to_owned()));
        let outcome = CallEnd { pending, is_kept: false, answer };
        self.held.change(number, |call| call.outcome = Some(outcome));
    }

    /// Notes that a server waits for no answer any more.
    pub(crate) fn server_ended(&self, index: usize) {
        self.held.forget_all(index);
    }
}
