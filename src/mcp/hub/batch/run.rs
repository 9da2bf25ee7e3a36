//! `run_tool_batch`: makes the calls of a batch. A client may be able to answer a question of the
//! gateway or of a server only by repeating the call. The batch is then held until the client
//! repeats it.
//!
//! The client carries a signed token that identifies the batch and is valid only for the same call.
//! Calls that were already made are not made again. Calls whose servers asked for input continue
//! with the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::hub::batch::call::{self, CallInputs};
use crate::hub::batch::plan::{self, AskChannel};
use crate::hub::batch::{
    BatchPlan, CallOutcome, DecidedCall, FinishedCall, PlannedBatch, RunningBatch, reply,
};
use crate::hub::{BATCH, Hub, IndexMode};
use crate::json_rpc::{failed_call, notification};
use crate::own;
use crate::pending::{BatchInput, BatchInputs, QuestionReply, SETTLE_TIME};
use crate::permission::decision::{Decision, UserAnswer};
use crate::raw_object::quoted;
use crate::relay::Relay;
use crate::revision::ClientProfile;
use ctxfs_core::model::{CallCounts, Counts};

// Time that the user has to answer if the client carries the question.
const ANSWER_TIME: Duration = Duration::from_mins(10);

struct BatchClient<'a> {
    channel: AskChannel,
    id: &'a str,
    progress: Value,
    profile: Option<ClientProfile>,
}

/// The reason why a batch stopped. `Asks` means that all remaining calls need an answer from the
/// user or the client.
enum DriveEnd {
    Done,
    Asks,
}

pub(crate) async fn run(
    relay: &Arc<Relay>,
    hub: &Hub,
    mode: &IndexMode,
    id: &str,
    params: &Value,
) -> String {
    let is_modern = own::is_modern(params);
    let profile =
        if is_modern { ClientProfile::of_meta(&params["_meta"]) } else { relay.client.profile() };
    let channel = AskChannel::of(is_modern, profile.abilities());
    let begun = match params["requestState"].as_str() {
        Some(state) => resumed(relay, mode, params, state).await,
        None => plan::plan(relay, hub, mode, params, channel).await.map(RunningBatch::new),
    };
    let mut batch = match begun {
        Ok(batch) => batch,
        Err(why) => return own::for_client(params, failed_call(&why), false),
    };
    let client = BatchClient {
        channel,
        id,
        progress: params["_meta"]["progressToken"].clone(),
        profile: is_modern.then_some(profile),
    };
    match batch.drive(relay, mode, &client).await {
        DriveEnd::Done => {
            let (reply, given) = reply::result(&batch, mode.options.batch_budget);
            batch.count(relay, &given);
            own::for_client(params, reply, false)
        }
        DriveEnd::Asks => hold(relay, mode, params, batch),
    }
}

impl RunningBatch {
    fn new(planned: PlannedBatch) -> Self {
        let calls: Vec<_> = planned.calls.iter().map(DecidedCall::planned).collect();
        let made = calls.iter().map(|_| None).collect();
        let plan = BatchPlan::new(&calls, planned.parallel, planned.stops_on_error);
        let (asking, asked) = mpsc::unbounded_channel();
        let (running, places, questions) = (JoinSet::new(), BTreeSet::new(), Vec::new());
        Self { planned, plan, made, running, places, questions, asking, asked }
    }

    fn start(&mut self, relay: &Arc<Relay>, client: &BatchClient<'_>) {
        for place in self.plan.start_next() {
            let Some(call) = self.planned.ready(place) else { continue };
            let inputs = client.profile.clone().map(|profile| {
                let sender = self.asking.clone();
                CallInputs { profile, inputs: BatchInputs { place, sender } }
            });
            let relay = Arc::clone(relay);
            self.running.spawn(async move {
                let made = match call.server {
                    Some(_) => call::make(relay, call, inputs).await,
                    None => call::make_own(relay, call).await,
                };
                (place, made)
            });
            self.places.insert(place);
        }
    }

    fn only_asks(&self) -> bool {
        let asks = |place: &usize| self.questions.iter().any(|asked| asked.place == *place);
        !self.questions.is_empty() && self.places.iter().all(asks)
    }

    /// Makes calls until all have ended, or until all remaining calls wait for the client to repeat
    /// the batch.
    async fn drive(
        &mut self,
        relay: &Arc<Relay>,
        mode: &IndexMode,
        client: &BatchClient<'_>,
    ) -> DriveEnd {
        let (mut asking, mut open) = (JoinSet::new(), BTreeMap::new());
        if client.channel == AskChannel::Elicitation {
            for place in self.plan.asked() {
                let Some(question) = self.planned.question(place) else { continue };
                let relay = Arc::clone(relay);
                let asked = async move { (place, ask_person(relay, question).await) };
                open.insert(place, asking.spawn(asked));
            }
        }
        loop {
            self.start(relay, client);
            if self.running.is_empty() && (self.plan.is_done() || asking.is_empty()) {
                return if self.plan.is_done() { DriveEnd::Done } else { DriveEnd::Asks };
            }
            let only_asks = asking.is_empty() && self.only_asks();
            tokio::select! {
                Some(ended) = self.running.join_next() => {
                    if let Ok((place, made)) = ended {
                        self.ended(place, made);
                        self.report(relay, &client.progress).await;
                    }
                }
                Some(question) = self.asked.recv() => self.questions.push(question),
                () = sleep(SETTLE_TIME), if only_asks => return DriveEnd::Asks,
                Some(answered) = asking.join_next() => {
                    if let Ok((place, answer)) = answered {
                        self.answered(relay, mode, place, answer).await;
                        // After a refusal, questions about later calls are taken back.
                        let asked = self.plan.asked();
                        for (_, question) in open.extract_if(.., |place, _| !asked.contains(place)) {
                            question.abort();
                        }
                    }
                }
                () = relay.client.until_ended(client.id) => {
                    // Dropping running calls cancels them at their servers.
                    self.plan.cancel();
                    return DriveEnd::Done;
                }
            }
        }
    }

    fn ended(&mut self, place: usize, made: FinishedCall) {
        let outcome = if made.failed { CallOutcome::Error } else { CallOutcome::Ok };
        self.made[place] = Some(made);
        self.places.remove(&place);
        self.questions.retain(|asked| asked.place != place);
        self.plan.finished(place, outcome);
    }

    pub(crate) async fn answered(
        &mut self,
        relay: &Arc<Relay>,
        mode: &IndexMode,
        place: usize,
        answer: UserAnswer,
    ) {
        if !self.plan.asked().contains(&place) {
            return;
        }
        let decision = Decision::of_answer(answer);
        let allowed = matches!(decision, Decision::Allowed(_));
        plan::remember(relay, mode, &mut self.planned, place, answer, decision).await;
        self.plan.answered(place, allowed);
    }

    fn count(&self, relay: &Relay, given: &[usize]) {
        for ((call, made), given) in self.planned.calls.iter().zip(&self.made).zip(given) {
            if let (Ok(call), Some(_)) = (&call.call, made) {
                let calls = CallCounts { given: *given as u64, ..CallCounts::default() };
                let counts = Counts { calls, ..Counts::default() };
                relay.shelf.count(call.tool().to_string(), &counts);
            }
        }
    }

    async fn report(&self, relay: &Relay, token: &Value) {
        if token.is_null() {
            return;
        }
        let ended = self.made.iter().filter(|made| made.is_some()).count();
        let params = json!({"progressToken": token, "progress": ended, "total": self.made.len()});
        relay.client.send(notification("notifications/progress", &params.to_string())).await;
    }
}

pub(crate) fn hold(
    relay: &Arc<Relay>,
    mode: &IndexMode,
    params: &Value,
    batch: RunningBatch,
) -> String {
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
    let request = (BATCH, &params["arguments"]);
    // Dropping a batch cancels its calls at their servers.
    let give_up: fn(RunningBatch, &'static str) = |batch, _| drop(batch);
    let (_, state) = mode.held.hold(&relay.shelf, request, ANSWER_TIME, (batch, give_up));
    format!(
        r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}"#,
        requests.join(","),
        quoted(&state)
    )
}

fn key(asked: &BatchInput, number: usize) -> String {
    format!("{}.{number}", asked.place)
}

pub(crate) async fn resumed(
    relay: &Arc<Relay>,
    mode: &IndexMode,
    params: &Value,
    state: &str,
) -> Result<RunningBatch, String> {
    let held = mode.held.open(&relay.shelf, (BATCH, &params["arguments"]), state)?;
    let mut batch =
        held.ok_or("the batch was answered already, or is too old: make the call anew")?;
    for place in batch.plan.asked() {
        let answer = UserAnswer::of_result(&params["inputResponses"][place.to_string()]);
        batch.answered(relay, mode, place, answer).await;
    }
    let questions = std::mem::take(&mut batch.questions);
    for (number, asked) in questions.into_iter().enumerate() {
        match &params["inputResponses"][key(&asked, number)] {
            // An unanswered question is sent again.
            Value::Null => batch.questions.push(asked),
            // The call may have ended in the meantime.
            result => drop(asked.reply.send(QuestionReply::Result(result.to_string()))),
        }
    }
    Ok(batch)
}

/// Asks the user through the client. Dropping the future cancels the question.
async fn ask_person(relay: Arc<Relay>, parameters: Value) -> UserAnswer {
    let compose = |id: u64| {
        let request = serde_json::json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": parameters,
        });
        request.to_string()
    };
    let Some(answer) = relay.client.put_question(compose).await else {
        // The client is gone.
        return UserAnswer::Missing;
    };
    let answer: Value = serde_json::from_str(answer.text()).unwrap_or_default();
    UserAnswer::of_result(&answer["result"])
}
