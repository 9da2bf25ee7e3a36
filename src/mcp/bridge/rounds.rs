//! Old client, new server: the gateway requests the needed input from the client, and repeats the
//! call with the answers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bridge::TOO_MUCH;
use crate::bridge::messages::{
    self, InputRequest, InputRequired, InputResponse, is_input_required, repeated, with_members,
};
use crate::client::Route;
use crate::delivery::{ServerAnswer, deliver_changed};
use crate::json_rpc::{Envelope, INTERNAL_ERROR, cancelled, raw};
use crate::message::Message;
use crate::pending::{PendingRequest, Repeatable, Translation};
use crate::relay::Relay;
use crate::revision::InputKinds;
use crate::server_request::result_of;
use crate::upstream::Upstream;

// Maximum number of times that a server can ask for input during one call, as in the reference
// implementations.
const MAX_ROUNDS: u32 = 10;
const MAX_BYTES: usize = 16 << 20;
// The pause before repeating a call that needs no input. It doubles with each repetition.
const MIN_BACKOFF: Duration = Duration::from_millis(50);

pub(crate) async fn modern_answered(relay: &Arc<Relay>, again: Repeatable, answer: ServerAnswer) {
    let ServerAnswer { envelope, message, .. } = &answer;
    let result = envelope.result();
    let of = |range: &Range<usize>| raw(message, range.clone());
    if result.as_ref().and_then(of).is_some_and(is_input_required) {
        tokio::spawn(go_on(Arc::clone(relay), again, answer));
        return;
    }
    let answer = without_new(answer);
    let edits = match answer.envelope.result() {
        Some(range) if again.is_call => {
            messages::older(&answer.message, &range, relay.client.knows_links())
        }
        _ => Vec::new(),
    };
    deliver_changed(relay, answer, edits, "").await;
}

pub(crate) fn without_new(mut answer: ServerAnswer) -> ServerAnswer {
    let edits =
        answer.envelope.result().map(|range| messages::without_new(&answer.message, &range));
    if let Some(edits) = edits.filter(|edits| !edits.is_empty()) {
        let message = answer.message.rewritten(edits);
        if let Ok(envelope) = Envelope::of(&message) {
            answer.envelope = envelope;
        }
        answer.message = message;
    }
    answer
}

async fn go_on(relay: Arc<Relay>, mut again: Repeatable, answer: ServerAnswer) {
    let ServerAnswer { from, pending, message, .. } = answer;
    let Some(client_id) = pending.client_id.clone() else { return };
    again.rounds += 1;
    let members = tokio::select! {
        members = answers(&relay, &again, message) => members,
        // A cancelled request gets no answer.
        () = relay.client.until_ended(&client_id) => return,
    };
    match members {
        Ok(members) => make_again(&relay, &from, again, pending, &members).await,
        Err(why) => {
            let text = format!("the server `{}` {why}", from.name);
            relay.fail(pending, INTERNAL_ERROR, &text).await;
        }
    }
}

/// Returns the members to add to the repeated call. The error text continues a sentence that starts
/// with the server's name.
async fn answers(
    relay: &Arc<Relay>,
    again: &Repeatable,
    message: Message,
) -> Result<String, String> {
    let _place = relay.bridge.questions.place(message.length()).ok_or(TOO_MUCH)?;
    let message = message.filled(MAX_BYTES)?;
    let range = result_range(&message).ok_or("answered no result")?;
    let result = raw(&message, range).ok_or("answered no JSON")?;
    let asked = InputRequired::of(result, again.abilities)?;
    check_round(again.rounds, asked.requests.is_empty()).await?;
    let responses = put_to_client(relay, asked.requests).await?;
    Ok(repeated(&responses, asked.state.as_deref()))
}

/// Fails if a call has had too many rounds. If the repetition needs no answer of the client, pauses
/// first. The error text continues a sentence that starts with the server's name.
pub(crate) async fn check_round(round: u32, is_alone: bool) -> Result<(), String> {
    if round > MAX_ROUNDS {
        return Err(format!("asked for input more than {MAX_ROUNDS} times at one call"));
    }
    if is_alone {
        sleep(MIN_BACKOFF * 2u32.saturating_pow(round.min(8))).await;
    }
    Ok(())
}

/// Returns the input that an answer asks for. The error text continues a sentence that starts with
/// the server's name.
pub(crate) fn input_required(
    message: &Message,
    client: InputKinds,
) -> Result<Option<InputRequired>, String> {
    let result = result_range(message).and_then(|range| raw(message, range));
    match result.filter(|result| is_input_required(result)) {
        Some(_) if message.has_holes() => Err(TOO_MUCH.to_owned()),
        Some(result) => InputRequired::of(result, client).map(Some),
        None => Ok(None),
    }
}

fn result_range(message: &Message) -> Option<Range<usize>> {
    Envelope::of(message).ok()?.result()
}

/// Sends all requests to the client at once and collects the answers. Dropping the future cancels
/// unanswered requests. The error text continues a sentence that starts with the server's name.
pub(crate) async fn put_to_client(
    relay: &Arc<Relay>,
    requests: Vec<InputRequest>,
) -> Result<Vec<InputResponse>, String> {
    let mut asking = JoinSet::new();
    for request in requests {
        let relay = Arc::clone(relay);
        asking.spawn(async move {
            let answer = relay.client.put_question(|id| request.request(id)).await;
            let method = &request.method;
            let answer = answer.ok_or_else(|| "asked, and the client is gone".to_owned())?;
            match result_of(answer, method) {
                Ok(result) => Ok((request.key, result.get().to_owned())),
                Err(why) => Err(format!("asked, and the client {why}")),
            }
        });
    }
    let mut responses = Vec::new();
    while let Some(answered) = asking.join_next().await {
        responses.push(
            answered
                .unwrap_or_else(|_| Err("asked, and a fault of the gateway came".to_owned()))?,
        );
    }
    Ok(responses)
}

async fn make_again(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    again: Repeatable,
    mut pending: PendingRequest,
    members: &str,
) {
    let Some(client_id) = pending.client_id.clone() else { return };
    let request = again.request.clone();
    pending.deadline = from.deadline();
    pending.translation = Some(Box::new(Translation::Repeatable(again)));
    if let Ok(number) = from.request(pending, |number| with_members(&request, number, members)) {
        let route = Route::Upstream(relay.index_of(from), number);
        if !relay.client.sent(&client_id, route) && from.take(number).is_some() {
            from.notify(cancelled(number));
        }
    } else if relay.client.end(&client_id).is_some() {
        let text = format!("the server `{}` does not take the call again", from.name);
        relay.client.error(&client_id, INTERNAL_ERROR, &text).await;
    }
}
