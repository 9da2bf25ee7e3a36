//! Calls for which a 2026-07-28 server asks for input: the gateway gets the input from the client,
//! and repeats the call with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::Route;
use crate::delivery::ServerAnswer;
use crate::json_rpc::{Envelope, INTERNAL_ERROR, cancelled, raw};
use crate::message::Message;
use crate::pending::{Repeatable, Translation};
use crate::relay::Relay;
use crate::revision::InputKinds;
use crate::revision::translation::{
    InputRequest, InputRequired, InputResponse, is_input_required, repeated, with_members,
};
use crate::server_request::result_of;

// Maximum number of times that a server can ask for input during one call, as in the reference
// implementations.
const MAX_ROUNDS: u32 = 10;
const MAX_BYTES: usize = 16 << 20;
// The pause before repeating a call that needs no input. It doubles with each repetition.
const MIN_BACKOFF: Duration = Duration::from_millis(50);
pub(crate) const TOO_MUCH: &str = "asks for too much at once";

pub(crate) fn asks(answer: &ServerAnswer) -> bool {
    let result = answer.envelope.result().and_then(|range| raw(&answer.message, range));
    result.is_some_and(is_input_required)
}

/// Asks the client for the input that the server's answer requires. Then repeats the request to the
/// server, with the responses of the client. A cancelled request is not repeated.
pub(crate) async fn repeat(relay: Arc<Relay>, mut again: Repeatable, answer: ServerAnswer) {
    let ServerAnswer { from, mut pending, message, .. } = answer;
    let Some(client_id) = pending.client_id.clone() else { return };
    again.rounds += 1;
    let members = tokio::select! {
        members = input_of_client(&relay, again.rounds, message) => members,
        () = relay.client.until_ended(&client_id) => return,
    };
    let members = match members {
        Ok(members) => members,
        Err(why) => {
            let text = format!("the server `{}` {why}", from.name);
            return relay.fail(pending, INTERNAL_ERROR, &text).await;
        }
    };
    let request = again.request.clone();
    pending.deadline = from.deadline();
    pending.translation = Some(Box::new(Translation::Repeatable(again)));
    if let Ok(number) =
        from.request(None, pending, |number| with_members(&request, number, &members))
    {
        let route = Route::Upstream(relay.index_of(&from), number);
        if !relay.client.sent(&client_id, route) && from.take(number).is_some() {
            from.notify(cancelled(number));
        }
    } else if relay.client.end(&client_id).is_some() {
        let text = format!("the server `{}` does not take the call again", from.name);
        relay.client.error(&client_id, INTERNAL_ERROR, &text).await;
    }
}

async fn input_of_client(
    relay: &Arc<Relay>,
    round: u32,
    message: Message,
) -> Result<String, String> {
    let _room = relay.client.question_room(message.length()).ok_or(TOO_MUCH)?;
    let message = message.filled(MAX_BYTES)?;
    let abilities = relay.client.profile().abilities();
    let members = input(round, &message, abilities, |requests| put_to_client(relay, requests));
    members.await?.ok_or_else(|| "answered no result".to_owned())
}

/// Gets the input that a server's answer requires, by calling `ask`. Returns the members to add to
/// the repeated call, or `None` if the answer is already the result of the call.
///
/// If the server asks for a repetition without input, pauses first. Fails if a call has had too
/// many rounds, or if the client cannot provide the input. The error text is a predicate whose
/// subject is the server: `asked for input more than 10 times`.
pub(crate) async fn input<A: Future<Output = Result<Vec<InputResponse>, String>>>(
    round: u32,
    message: &Message,
    client: InputKinds,
    ask: impl FnOnce(Vec<InputRequest>) -> A,
) -> Result<Option<String>, String> {
    let range = Envelope::of(message).ok().and_then(|envelope| envelope.result());
    let result = range.and_then(|range| raw(message, range));
    let Some(result) = result.filter(|result| is_input_required(result)) else { return Ok(None) };
    if message.has_holes() {
        return Err(TOO_MUCH.to_owned());
    }
    let required = InputRequired::of(result, client)?;
    if round > MAX_ROUNDS {
        return Err(format!("asked for input more than {MAX_ROUNDS} times at one call"));
    }
    if required.requests.is_empty() {
        sleep(MIN_BACKOFF * 2u32.saturating_pow(round.min(8))).await;
    }
    let responses = ask(required.requests).await?;
    Ok(Some(repeated(&responses, required.state.as_deref())))
}

/// Sends all requests to the client at once and collects the answers. Dropping the future cancels
/// unanswered requests. The error text is a predicate whose subject is the server: `asked, and the
/// client is gone`.
pub(crate) async fn put_to_client(
    relay: &Arc<Relay>,
    requests: Vec<InputRequest>,
) -> Result<Vec<InputResponse>, String> {
    let mut asking = JoinSet::new();
    for request in requests {
        let relay = Arc::clone(relay);
        asking.spawn(async move {
            let answer = relay.client.put_question(|id| request.request(id)).await;
            let answer = answer.ok_or_else(|| "asked, and the client is gone".to_owned())?;
            let result = result_of(answer, &request.method);
            let result = result.map_err(|why| format!("asked, and the client {why}"))?;
            Ok((request.key, result.get().to_owned()))
        });
    }
    let fault = |_| Err("asked, and a fault of the gateway came".to_owned());
    let mut responses = Vec::new();
    while let Some(answered) = asking.join_next().await {
        responses.push(answered.unwrap_or_else(fault)?);
    }
    Ok(responses)
}
