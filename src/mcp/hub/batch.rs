//! `run_tool_batch`: the calls of a batch are read, decided about and made, each in its turn.

mod held;
mod plan;
mod reply;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::batch_plan::{BatchPlan, Outcome};
use crate::bridge::SETTLE;
use crate::bridge::client_said::ClientSaid;
use crate::bridge::crossing::{BatchInput, BatchInputs};
use crate::hub::asking::Channel;
use crate::hub::batch_call::{CallInputs, MadeCall};
use crate::hub::{Hub, IndexMode, asking, batch_call, own_call};
use crate::own;
use crate::permission::{Answer, Decision};
use crate::relay::{Relay, failure};
use ctxfs_core::model::{CallCounts, Counts};

pub(super) use held::HeldBatches;
use plan::DecidedCall;
pub(super) use plan::PlannedBatch;

/// The calls that run at a time, if the client does not say.
const PARALLEL: usize = 4;
const MOST_PARALLEL: u64 = 16;
/// The time in which a person can answer, where the client carries the question.
const ANSWER_TIME: Duration = Duration::from_mins(10);

/// A batch that has begun.
pub(super) struct Batch {
    pub(super) planned: PlannedBatch,
    pub(super) plan: BatchPlan,
    pub(super) made: Vec<Option<MadeCall>>,
    /// The calls that are being made, and their places.
    running: JoinSet<(usize, MadeCall)>,
    places: BTreeSet<usize>,
    /// The questions of servers at them, for a client that is told by the reply.
    pub(super) questions: Vec<BatchInput>,
    asking: mpsc::UnboundedSender<BatchInput>,
    asked: mpsc::UnboundedReceiver<BatchInput>,
}

/// The client, as far as a batch needs it.
struct BatchClient<'a> {
    channel: Channel,
    /// The id of its request, as written.
    id: &'a str,
    progress: Value,
    /// The words of its request about itself, if it takes no requests.
    said: Option<ClientSaid>,
}

/// The way in which a batch stopped.
enum Stop {
    Done,
    /// Only calls are left that a person has to be asked about, or whose servers ask.
    Asks,
}

/// Runs a batch, and returns the result of the tool.
pub(super) async fn run(
    relay: &Arc<Relay>,
    hub: &Hub,
    mode: &IndexMode,
    id: &str,
    params: &Value,
) -> String {
    let is_modern = own::is_modern(params);
    let said = if is_modern { ClientSaid::of_meta(&params["_meta"]) } else { relay.bridge.said() };
    let channel = Channel::of(is_modern, said.abilities());
    let begun = match params["requestState"].as_str() {
        Some(state) => held::resumed(relay, mode, params, state).await,
        None => plan::plan(relay, hub, mode, params, channel).await.map(Batch::new),
    };
    let mut batch = match begun {
        Ok(batch) => batch,
        Err(why) => return own::for_client(params, failure(&why), false),
    };
    let client = BatchClient {
        channel,
        id,
        progress: params["_meta"]["progressToken"].clone(),
        said: is_modern.then_some(said),
    };
    match batch.drive(relay, mode, &client).await {
        Stop::Done => {
            let (reply, given) = reply::result(&batch, mode.options.batch_budget);
            batch.count(relay, &given);
            own::for_client(params, reply, false)
        }
        Stop::Asks => held::hold(relay, mode, params, batch),
    }
}

impl Batch {
    fn new(planned: PlannedBatch) -> Self {
        let calls: Vec<_> = planned.calls.iter().map(DecidedCall::planned).collect();
        let made = calls.iter().map(|_| None).collect();
        let plan = BatchPlan::new(&calls, planned.parallel, planned.stops_on_error);
        let (asking, asked) = mpsc::unbounded_channel();
        let (running, places, questions) = (JoinSet::new(), BTreeSet::new(), Vec::new());
        Self { planned, plan, made, running, places, questions, asking, asked }
    }

    /// Starts the calls whose turn it is.
    fn start(&mut self, relay: &Arc<Relay>, client: &BatchClient<'_>) {
        for place in self.plan.start_next() {
            let Some(call) = self.planned.ready(place) else { continue };
            let inputs = client.said.clone().map(|said| {
                let sender = self.asking.clone();
                CallInputs { said, inputs: BatchInputs { place, sender } }
            });
            let relay = Arc::clone(relay);
            self.running.spawn(async move {
                let made = match call.server {
                    Some(_) => batch_call::make(relay, call, inputs).await,
                    None => own_call::make(relay, call).await,
                };
                (place, made)
            });
            self.places.insert(place);
        }
    }

    /// Returns true if no call can end before the client answers.
    fn only_asks(&self) -> bool {
        let asks = |place: &usize| self.questions.iter().any(|asked| asked.place == *place);
        !self.questions.is_empty() && self.places.iter().all(asks)
    }

    /// Makes the calls that can be made. Returns when all have ended, or only those are left that a
    /// person is asked about by other means.
    async fn drive(
        &mut self,
        relay: &Arc<Relay>,
        mode: &IndexMode,
        client: &BatchClient<'_>,
    ) -> Stop {
        let mut asking = JoinSet::new();
        if client.channel == Channel::Elicitation {
            for place in self.plan.asked() {
                let Some(question) = self.planned.question(place) else { continue };
                let relay = Arc::clone(relay);
                asking.spawn(async move { (place, asking::ask(relay, question).await) });
            }
        }
        loop {
            self.start(relay, client);
            if self.running.is_empty() && (self.plan.is_done() || asking.is_empty()) {
                return if self.plan.is_done() { Stop::Done } else { Stop::Asks };
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
                () = sleep(SETTLE), if only_asks => return Stop::Asks,
                Some(answered) = asking.join_next() => {
                    if let Ok((place, answer)) = answered {
                        self.answered(relay, mode, place, answer).await;
                    }
                }
                () = relay.until_ended(client.id) => {
                    // What runs is dropped, and its servers are told.
                    self.plan.cancel();
                    return Stop::Done;
                }
            }
        }
    }

    fn ended(&mut self, place: usize, made: MadeCall) {
        let outcome = if made.failed { Outcome::Error } else { Outcome::Ok };
        self.made[place] = Some(made);
        self.places.remove(&place);
        self.questions.retain(|asked| asked.place != place);
        self.plan.finished(place, outcome);
    }

    /// Takes a person's answer about a call, and keeps what it says of others.
    pub(super) async fn answered(
        &mut self,
        relay: &Arc<Relay>,
        mode: &IndexMode,
        place: usize,
        answer: Answer,
    ) {
        if !self.plan.asked().contains(&place) {
            return;
        }
        let decision = Decision::of_answer(answer);
        let allowed = matches!(decision, Decision::Allowed(_));
        plan::remember(relay, mode, &mut self.planned, place, answer, decision).await;
        self.plan.answered(place, allowed);
    }

    /// Counts the bytes that the client got of each call that was made.
    fn count(&self, relay: &Relay, given: &[usize]) {
        for ((call, made), given) in self.planned.calls.iter().zip(&self.made).zip(given) {
            if let (Ok(call), Some(_)) = (&call.call, made) {
                let calls = CallCounts { given: *given as u64, ..CallCounts::default() };
                let counts = Counts { calls, ..Counts::default() };
                relay.shelf.count(call.tool().to_string(), &counts);
            }
        }
    }

    /// Tells the client how many calls have ended.
    async fn report(&self, relay: &Relay, token: &Value) {
        if token.is_null() {
            return;
        }
        let ended = self.made.iter().filter(|made| made.is_some()).count();
        let params = json!({"progressToken": token, "progress": ended, "total": self.made.len()});
        let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        relay.tell(told.to_string().into_bytes()).await;
    }
}
