//! Requests of old servers to a new client: each is put to it by a call that is under way.

use std::sync::Arc;

use tokio::time::sleep;

use crate::bridge::client_said::Ask;
use crate::bridge::crossing::{BatchInputs, Carrier, Carries, Crossing};
use crate::bridge::era::Era;
use crate::bridge::held::{EarlyQuestion, HeldCall, HeldQuestion};
use crate::bridge::holding;
use crate::bridge::holding::CROWDED;
use crate::envelope::{Envelope, Kind};
use crate::message::Message;
use crate::pending::PendingRequests;
use crate::raw_object::quoted;
use crate::relay::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Refusal, Relay};
use crate::upstream::Upstream;
use crate::{envelope, origin};

/// The most bytes of a question.
const MOST_BYTES: usize = 16 << 20;
/// The reason why a question is refused that has no room.
const FULL: &str = "too much is asked at once";

/// The one who puts a question to the client.
enum QuestionTaker {
    Batch(BatchInputs),
    /// A call that is held from now on, and one that is not any more.
    Held(u64, Option<Box<HeldCall>>),
    /// A call that is held.
    Added,
    TooMany,
    Nobody,
}

/// Returns true if requests of a server are not for the client, as that takes none. What a server of
/// the same revision sends passes, where it talks to the client itself.
pub(crate) fn takes_requests(relay: &Relay, from: &Upstream) -> bool {
    relay.bridge.client() == Some(Era::Modern)
        && (relay.hub.is_some() || from.era() != Some(Era::Modern))
}

/// Takes a request of a server to a new client, which takes none.
pub(crate) async fn asked(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    head: &Envelope,
    message: Message,
) {
    let Some(id) = head.id(&message).map(str::to_owned) else { return };
    if from.era() == Some(Era::Modern) {
        let text = "the revision has no requests of servers";
        return from.notify(envelope::error(&id, METHOD_NOT_FOUND, text));
    }
    if matches!(&head.kind, Kind::Request { method } if method == "ping") {
        return from.notify(envelope::answer(&id, "{}"));
    }
    let Some(place) = relay.bridge.place(message.length()) else {
        return from.notify(envelope::error(&id, INTERNAL_ERROR, FULL));
    };
    let (ask, request) = match read(head, message) {
        Ok(read) => read,
        Err(refusal) => return from.notify(envelope::error(&id, refusal.code, &refusal.text)),
    };
    let (index, question) = (relay.index_of(from), HeldQuestion::new(id, request, Some(place)));
    match from.with_requests(|requests| carry(relay, index, requests, ask, &question)) {
        QuestionTaker::Batch(inputs) => {
            tokio::spawn(answer_by_batch(Arc::clone(from), inputs, question));
        }
        QuestionTaker::Held(number, oldest) => {
            from.count_asked(true);
            tokio::spawn(holding::settle(Arc::downgrade(relay), number));
            if let Some(oldest) = oldest {
                holding::give_up(relay, &oldest, CROWDED);
            }
        }
        QuestionTaker::Added => from.count_asked(true),
        QuestionTaker::TooMany => holding::refuse(from, &question, FULL),
        QuestionTaker::Nobody => wait_for_call(relay, from, index, ask, question),
    }
}

/// Reads a request: its kind, and its members.
fn read(head: &Envelope, message: Message) -> Result<(Ask, String), Refusal> {
    let method = match &head.kind {
        Kind::Request { method } => &**method,
        _ => "",
    };
    let no = || Refusal::new(METHOD_NOT_FOUND, format!("the client takes no `{method}`"));
    let message = message.filled(MOST_BYTES);
    let message = message.map_err(|why| Refusal::new(INVALID_PARAMS, why))?;
    let head = Envelope::of(&message).map_err(|_| no())?;
    let params = head.params(&message);
    let ask = Ask::of(method, params).ok_or_else(no)?;
    let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
    Ok((ask, format!("\"method\":{}{params}", quoted(method))))
}

/// Finds a request that puts a question to the client: the one on whose stream it came, else the
/// newest that can and is not held, else the newest that is.
fn carry(
    relay: &Relay,
    index: usize,
    requests: &mut PendingRequests,
    ask: Ask,
    question: &HeldQuestion,
) -> QuestionTaker {
    let mut able: Vec<(u64, &mut Carrier)> = carriers(requests, ask).collect();
    let origin = origin::request();
    let its_own = able.iter().position(|(number, _)| Some(*number) == origin);
    let free = able.iter().rposition(|(_, carrier)| carrier.held().is_none());
    let place = its_own.or(free).or(able.len().checked_sub(1));
    let Some((request, carrier)) = place.and_then(|place| able.get_mut(place)) else {
        return QuestionTaker::Nobody;
    };
    match &mut carrier.carries {
        Carries::Nothing => QuestionTaker::Nobody,
        Carries::Batch(inputs) => QuestionTaker::Batch(inputs.clone()),
        Carries::Held { number: Some(held), .. } => {
            match relay.bridge.held.change(*held, |call| call.add(question.clone())) {
                Some(true) => QuestionTaker::Added,
                Some(false) => QuestionTaker::TooMany,
                None => QuestionTaker::Nobody,
            }
        }
        Carries::Held { number, .. } => {
            let mut call = HeldCall::new(index, *request);
            call.add(question.clone());
            let (held, oldest) = relay.bridge.held.put(call);
            *number = Some(held);
            QuestionTaker::Held(held, oldest.map(Box::new))
        }
    }
}

/// Returns the requests that can put a question, the newest last.
fn carriers(requests: &mut PendingRequests, ask: Ask) -> impl Iterator<Item = (u64, &mut Carrier)> {
    requests.by_age().into_iter().filter_map(move |(number, pending)| {
        let Some(Crossing::Carrier(carrier)) = pending.crossing.as_deref_mut() else {
            return None;
        };
        let can = carrier.abilities.has(ask) && !matches!(carrier.carries, Carries::Nothing);
        can.then_some((number, carrier))
    })
}

/// Hands the answer of a batch to its server.
async fn answer_by_batch(from: Arc<Upstream>, inputs: BatchInputs, question: HeldQuestion) {
    match inputs.ask(question.request.clone()).await {
        Ok(result) => from.notify(envelope::answer(&question.id, &result)),
        Err(_) => holding::refuse(&from, &question, "the call has ended"),
    }
}

/// Keeps a question for the next request that can put it.
fn wait_for_call(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    index: usize,
    ask: Ask,
    question: HeldQuestion,
) {
    if !relay.bridge.said().abilities().has(ask) {
        return holding::refuse(from, &question, "the client cannot do that");
    }
    let id = question.id.clone();
    let early = EarlyQuestion { upstream: index, ask, question: question.clone() };
    if !relay.bridge.held.put_early(early) {
        return holding::refuse(from, &question, FULL);
    }
    // Its place is free once it is answered.
    drop(question);
    let (relay, time) = (Arc::downgrade(relay), holding::held_for(from));
    tokio::spawn(async move {
        sleep(time).await;
        let Some(relay) = relay.upgrade() else { return };
        let is_it = |early: &EarlyQuestion| early.question.id == id;
        for late in relay.bridge.held.take_early(index, is_it) {
            holding::refuse(
                &relay.upstreams[index],
                &late.question,
                "the client made no call in time",
            );
        }
    });
}
