//! New clients, old servers: a call ends with what its server asks, and is held.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use crate::bridge::client_said::Abilities;
use crate::bridge::crossing::{Carries, Crossing, RequestIdentity};
use crate::bridge::held::{HeldCall, HeldQuestion};
use crate::envelope;
use crate::manager::cancelled;
use crate::pending::PendingRequests;
use crate::raw_object::quoted;
use crate::relay::{INTERNAL_ERROR, Relay};
use crate::upstream::Upstream;

/// The time in which questions that come together are asked together.
pub(crate) const SETTLE: Duration = Duration::from_millis(25);
/// The time that a call is held, if its server has no time for answers.
const HELD: Duration = Duration::from_mins(10);
/// The most times that one call is held.
const MOST_ROUNDS: u32 = 32;
/// Why a call is given up for another.
pub(super) const CROWDED: &str = "too many other calls wait for answers";

/// Gives a request of the client, which was sent, what its server asked before.
pub(super) fn take_early(relay: &Arc<Relay>, index: usize, request: u64, abilities: Abilities) {
    let early = relay.bridge.held.take_early(index, |early| abilities.has(early.ask));
    if early.is_empty() {
        return;
    }
    let questions = early.into_iter().map(|early| early.question).collect();
    if let Some(number) = hold(relay, index, request, questions) {
        tokio::spawn(settle(Arc::downgrade(relay), number));
    }
}

/// Holds a request with some questions. Returns the number under which it is held.
pub(super) fn hold(
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
        let pending = requests.get_mut(request)?;
        let Some(Crossing::Carrier(carrier)) = pending.crossing.as_deref_mut() else { return None };
        let Carries::Held { number: held, .. } = &mut carrier.carries else { return None };
        *held = Some(number);
        Some(())
    });
    if is_held.is_none() {
        end(relay, number, "the call has ended");
    }
    is_held.map(|()| number)
}

pub(super) async fn settle(relay: Weak<Relay>, number: u64) {
    sleep(SETTLE).await;
    if let Some(relay) = relay.upgrade() {
        tell(&relay, number).await;
    }
}

/// Ends the client's request with what was asked, and holds it from now on.
pub(super) async fn tell(relay: &Arc<Relay>, number: u64) {
    let known = relay.bridge.held.change(number, |call| (call.upstream, call.request));
    let Some((index, request)) = known else { return };
    let from = &relay.upstreams[index];
    let Some((client_id, identity, rounds)) =
        from.with_requests(|requests| loosened(requests, request))
    else {
        return end(relay, number, "the call has ended");
    };
    if rounds > MOST_ROUNDS {
        return ask_no_more(relay, from, number, request, client_id).await;
    }
    if relay.end(&client_id).is_none() {
        return end(relay, number, "the call was cancelled");
    }
    let time = held_for(from);
    let asked = relay.bridge.held.change(number, HeldCall::tell).unwrap_or_default();
    let state = relay.bridge.key.seal(&relay.shelf, identity.call(), number, time);
    let result = format!(
        r#"{{"resultType":"input_required","inputRequests":{asked},"requestState":{}}}"#,
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
    relay.tell(envelope::answer(&client_id, &result)).await;
}

/// Takes the client's id from a request, whose time stands still.
fn loosened(
    requests: &mut PendingRequests,
    request: u64,
) -> Option<(String, RequestIdentity, u32)> {
    let pending = requests.get_mut(request)?;
    let Some(Crossing::Carrier(carrier)) = pending.crossing.as_deref_mut() else { return None };
    let Carries::Held { identity, .. } = &carrier.carries else { return None };
    let identity = identity.clone();
    carrier.rounds += 1;
    let rounds = carrier.rounds;
    pending.deadline = None;
    Some((pending.client_id.take()?, identity, rounds))
}

/// Ends a call whose server asks again and again.
async fn ask_no_more(
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
        "the server `{}` asked for input more than {MOST_ROUNDS} times at one call",
        from.name
    );
    relay.fail(pending, INTERNAL_ERROR, &text).await;
}

/// Ends what is held without its call.
pub(super) fn end(relay: &Relay, number: u64, why: &str) {
    if let Some(call) = relay.bridge.held.take(number) {
        let from = &relay.upstreams[call.upstream];
        call.questions.iter().for_each(|question| refuse_counted(from, question, why));
    }
}

/// Ends a held call that the client does not make again.
pub(super) fn give_up(relay: &Relay, call: &HeldCall, why: &str) {
    let from = &relay.upstreams[call.upstream];
    if call.outcome.is_none() && from.take(call.request).is_some() {
        from.notify(cancelled(call.request));
    }
    call.questions.iter().for_each(|question| refuse_counted(from, question, why));
}

pub(super) fn refuse_counted(from: &Upstream, question: &HeldQuestion, why: &str) {
    if question.is_waited_for() {
        from.count_asked(false);
        refuse(from, question, why);
    }
}

pub(super) fn refuse(from: &Upstream, question: &HeldQuestion, why: &str) {
    from.notify(envelope::error(&question.id, INTERNAL_ERROR, why));
}

pub(super) fn held_for(from: &Upstream) -> Duration {
    from.timeout.unwrap_or(HELD)
}
