//! Batches that wait for a person's answers, which come with the call made again.
//!
//! The client carries a signed token: it names the batch, and is good for the very same call alone.
//! The calls that were made stay made, and are not made again. Those whose servers ask for input go on
//! with the answers.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bridge::crossing::BatchInput;
use crate::hub::IndexMode;
use crate::hub::batch::{ANSWER_TIME, Batch};
use crate::hub::names::BATCH;
use crate::numbered::Numbered;
use crate::permission::Answer;
use crate::raw_object::quoted;
use crate::relay::Relay;

/// The most batches that wait. The oldest is given up for a new one.
const MOST: usize = 64;

/// The batches that wait, by their numbers.
pub(crate) struct HeldBatches(Mutex<Numbered<Batch>>);

impl Default for HeldBatches {
    fn default() -> Self {
        Self(Mutex::new(Numbered::new(MOST)))
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
    // One that gives way is dropped, and its servers are told.
    let (number, oldest) = mode.held.0.lock().put(batch);
    drop(oldest);
    give_up_later(relay, number);
    let state = mode.key.seal(&relay.shelf, (BATCH, &params["arguments"]), number, ANSWER_TIME);
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
        drop(mode.and_then(|mode| mode.held.0.lock().take(number)));
    });
}

/// Returns the batch that a call made again goes on with, with the person's answers.
pub(super) async fn resumed(
    relay: &Arc<Relay>,
    mode: &IndexMode,
    params: &Value,
    state: &str,
) -> Result<Batch, String> {
    let number = mode.key.open(&relay.shelf, (BATCH, &params["arguments"]), state)?;
    let held = mode.held.0.lock().take(number);
    let mut batch =
        held.ok_or("the batch was answered already, or is too old: make the call anew")?;
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
