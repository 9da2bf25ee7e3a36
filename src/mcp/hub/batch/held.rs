//! Batches that wait for a person's answers, which come with the call made again.
//!
//! The client carries a signed token: it names the batch, and is good for the very same call alone.
//! The calls that were made stay made, and are not made again. Those whose servers ask for input go on
//! with the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;
use tokio::time::sleep;

use crate::mcp::bridge::crossing::BatchInput;
use crate::mcp::hub::IndexMode;
use crate::mcp::hub::batch::ANSWER_TIME;
use crate::mcp::hub::batch::Batch;
use crate::mcp::hub::names::BATCH;
use crate::mcp::permission::Answer;
use crate::mcp::permission::BoundCall;
use crate::mcp::raw_object::quoted;
use crate::mcp::relay::Relay;

/// The most batches that wait. The oldest is given up for a new one.
const MOST: usize = 64;

/// The batches that wait, by their numbers.
#[derive(Default)]
pub(in crate::mcp::hub) struct HeldBatches(Mutex<Held>);

#[derive(Default)]
struct Held {
    next: u64,
    batches: HashMap<u64, Batch>,
}

impl HeldBatches {
    fn put(&self, batch: Batch) -> u64 {
        let mut held = self.0.lock();
        held.next += 1;
        let number = held.next;
        held.batches.insert(number, batch);
        if held.batches.len() > MOST
            && let Some(oldest) = held.batches.keys().min().copied()
        {
            held.batches.remove(&oldest);
        }
        number
    }

    fn take(&self, number: u64) -> Option<Batch> {
        self.0.lock().batches.remove(&number)
    }
}

/// Holds a batch, and returns the result that asks.
pub(super) fn hold(relay: &Arc<Relay>, mode: &IndexMode, params: &Value, batch: Batch) -> String {
    let mut requests = Vec::new();
    for place in batch.plan.asked() {
        if let Some(question) = batch.planned.question(place) {
            let request = json!({"method": "elicitation/create", "params": question});
            requests.push(format!("\"{place}\":{request}"));
        }
    }
    let of_servers = batch.questions.iter().enumerate();
    requests.extend(
        of_servers.map(|(number, asked)| {
            format!("{}:{{{}}}", quoted(&key(asked, number)), asked.request)
        }),
    );
    let number = mode.held.put(batch);
    give_up_later(relay, number);
    let expires = now().saturating_add(ANSWER_TIME.as_millis() as u64);
    let state = mode.key.seal(&bound(relay, params), expires, number.to_string().as_bytes());
    format!(
        r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
        requests.join(","),
        quoted(&state)
    )
}

/// Returns the key of what a server asks, the one of some number.
fn key(asked: &BatchInput, number: usize) -> String {
    format!("{}.{number}", asked.place)
}

/// Ends a batch that the client does not go on with. The servers of its calls are told.
fn give_up_later(relay: &Arc<Relay>, number: u64) {
    let relay = Arc::downgrade(relay);
    tokio::spawn(async move {
        sleep(ANSWER_TIME).await;
        let Some(relay) = relay.upgrade() else { return };
        let mode = relay.hub.as_ref().and_then(|hub| hub.index.as_ref());
        drop(mode.and_then(|mode| mode.held.take(number)));
    });
}

/// Returns the batch that a call made again goes on with, with the person's answers.
pub(super) async fn resumed(
    relay: &Arc<Relay>,
    mode: &IndexMode,
    params: &Value,
    state: &str,
) -> Result<Batch, String> {
    let payload = mode.key.open(&bound(relay, params), state, now());
    let payload = payload.map_err(|error| error.to_string())?;
    let number = String::from_utf8(payload).ok().and_then(|number| number.parse().ok());
    let gone = || "the batch was answered already, or is too old: make the call anew".to_owned();
    let mut batch = number.and_then(|number| mode.held.take(number)).ok_or_else(gone)?;
    for place in batch.plan.asked() {
        let answer = Answer::of_result(&params["inputResponses"][place.to_string()]);
        batch.answered(relay, mode, place, answer).await;
    }
    let questions = std::mem::take(&mut batch.questions);
    for (number, asked) in questions.into_iter().enumerate() {
        match &params["inputResponses"][key(&asked, number)] {
            // It is asked again.
            Value::Null => batch.questions.push(asked),
            // The call may have ended meanwhile.
            result => drop(asked.answer.send(result.to_string())),
        }
    }
    Ok(batch)
}

fn bound<'a>(relay: &'a Relay, params: &'a Value) -> BoundCall<'a> {
    let conversation = relay.shelf.conversation().as_os_str().to_str().unwrap_or_default();
    BoundCall { conversation, tool: BATCH, arguments: &params["arguments"] }
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
