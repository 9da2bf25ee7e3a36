//! A batch of calls: its state, and the order of its calls.
//!
//! Calls that only read run in parallel, up to a limit. Any other call runs alone, after all
//! earlier calls of the batch and before all later ones. After a refused call, later calls that do
//! not only read are skipped. After a failed call, no later call is started if the batch stops on
//! errors. "Later" refers to the position in the batch. Calls that may change something are
//! therefore made or skipped as if the batch made one call at a time.

pub(crate) mod call;
pub(crate) mod plan;
pub(crate) mod reply;
pub(crate) mod run;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::pending::{BatchInput, MAX_ARGUMENTS, ToolCall, new_call_id};
use crate::permission::decision::{CallQuestion, Decision};
use crate::permission::rules::Risk;
use crate::results::StoredPart;
use crate::tool_name::ServerTool;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedCall {
    pub(crate) reads: bool,
    pub(crate) gate: CallGate,
}

/// The permission for a call. `Asked` calls wait for [`BatchPlan::answered`]. `Invalid` calls name
/// no tool or have invalid arguments, which counts as an error of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallGate {
    Open,
    Asked,
    Refused,
    Invalid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Ok,
    Error,
}

/// The reason why a call is not made. `AfterRefusal` and `AfterError` hold the position of the
/// refused or failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkippedCall {
    Refused,
    Invalid,
    AfterRefusal(usize),
    AfterError(usize),
    Cancelled,
}

/// Decides which calls of a batch start next, based on the outcomes of the others.
///
/// At most `parallel_limit` reading calls run at a time, and any other call runs alone. The plan
/// makes no calls itself: the caller makes the calls that `start_next` returns, and reports ends
/// and answers. The order can therefore be tested without servers.
#[derive(Debug, Clone)]
pub(crate) struct BatchPlan {
    calls: Vec<(PlannedCall, CallState)>,
    parallel_limit: usize,
    stop_on_error: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    Waiting,
    Running,
    Ended(CallOutcome),
    Skipped(SkippedCall),
}

impl CallState {
    fn is_settled(self) -> bool {
        matches!(self, Self::Ended(_) | Self::Skipped(_))
    }
}

impl BatchPlan {
    pub(crate) fn new(calls: &[PlannedCall], parallel_limit: usize, stop_on_error: bool) -> Self {
        let calls = calls.iter().map(|call| (*call, CallState::Waiting)).collect();
        let mut plan = Self { calls, parallel_limit: parallel_limit.max(1), stop_on_error };
        for (call, state) in &mut plan.calls {
            match call.gate {
                CallGate::Open | CallGate::Asked => {}
                CallGate::Refused => *state = CallState::Skipped(SkippedCall::Refused),
                CallGate::Invalid => *state = CallState::Skipped(SkippedCall::Invalid),
            }
        }
        (0..plan.calls.len()).for_each(|place| plan.stop_later(place));
        plan
    }

    /// Returns the calls to start now, in order, and marks them as running.
    pub(crate) fn start_next(&mut self) -> Vec<usize> {
        let mut started = Vec::new();
        let mut running = self.running();
        let mut all_before_settled = true;
        for place in 0..self.calls.len() {
            let (call, state) = self.calls[place];
            if state.is_settled() {
                continue;
            }
            let in_turn =
                if call.reads { running < self.parallel_limit } else { all_before_settled };
            if state == CallState::Waiting && call.gate == CallGate::Open && in_turn {
                self.calls[place].1 = CallState::Running;
                started.push(place);
                running += 1;
            }
            if !call.reads {
                break;
            }
            all_before_settled = false;
        }
        started
    }

    pub(crate) fn finished(&mut self, place: usize, outcome: CallOutcome) {
        if self.calls.get(place).is_some_and(|(_, state)| *state == CallState::Running) {
            self.settle(place, CallState::Ended(outcome));
        }
    }

    pub(crate) fn answered(&mut self, place: usize, allowed: bool) {
        let waits = |(call, state): &(PlannedCall, CallState)| {
            call.gate == CallGate::Asked && *state == CallState::Waiting
        };
        if !self.calls.get(place).is_some_and(waits) {
        } else if allowed {
            self.calls[place].0.gate = CallGate::Open;
        } else {
            self.settle(place, CallState::Skipped(SkippedCall::Refused));
        }
    }

    pub(crate) fn cancel(&mut self) {
        for (_, state) in &mut self.calls {
            if *state == CallState::Waiting {
                *state = CallState::Skipped(SkippedCall::Cancelled);
            }
        }
    }

    pub(crate) fn asked(&self) -> Vec<usize> {
        let asked = |(place, (call, state)): (usize, &(PlannedCall, CallState))| {
            (call.gate == CallGate::Asked && *state == CallState::Waiting).then_some(place)
        };
        self.calls.iter().enumerate().filter_map(asked).collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.calls.iter().filter(|(_, state)| *state == CallState::Running).count()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.calls.iter().all(|(_, state)| state.is_settled())
    }

    pub(crate) fn skipped(&self, place: usize) -> Option<SkippedCall> {
        match self.calls.get(place)?.1 {
            CallState::Skipped(why) => Some(why),
            _ => None,
        }
    }

    fn settle(&mut self, place: usize, state: CallState) {
        self.calls[place].1 = state;
        self.stop_later(place);
    }

    fn stop_later(&mut self, place: usize) {
        let state = self.calls[place].1;
        let refused = state == CallState::Skipped(SkippedCall::Refused);
        let failed = state == CallState::Ended(CallOutcome::Error)
            || state == CallState::Skipped(SkippedCall::Invalid)
            || refused;
        for (call, later) in &mut self.calls[place + 1..] {
            if *later != CallState::Waiting {
            } else if refused && !call.reads {
                *later = CallState::Skipped(SkippedCall::AfterRefusal(place));
            } else if failed && self.stop_on_error {
                *later = CallState::Skipped(SkippedCall::AfterError(place));
            }
        }
    }
}

pub(crate) struct PlannedBatch {
    pub(crate) calls: Vec<DecidedCall>,
    pub(crate) parallel: usize,
    pub(crate) stops_on_error: bool,
}

/// A call and the decision about it. `name` is the offered name, if the tool is known. If the call
/// cannot be made, `call` holds the reason.
pub(crate) struct DecidedCall {
    pub(crate) name: String,
    pub(crate) call: Result<CheckedCall, String>,
}

pub(crate) struct CheckedCall {
    ready: Arc<ReadyCall>,
    pub(crate) risk: Risk,
    pub(crate) decision: Decision,
}

impl CheckedCall {
    pub(crate) fn tool(&self) -> &ServerTool {
        &self.ready.tool
    }
}

impl DecidedCall {
    pub(crate) fn planned(&self) -> PlannedCall {
        let Ok(call) = &self.call else {
            return PlannedCall { reads: false, gate: CallGate::Invalid };
        };
        let gate = match call.decision {
            Decision::Allowed(_) => CallGate::Open,
            Decision::Ask => CallGate::Asked,
            Decision::Refused(_) => CallGate::Refused,
        };
        PlannedCall { reads: call.risk == Risk::Read, gate }
    }
}

impl PlannedBatch {
    pub(crate) fn ready(&self, place: usize) -> Option<Arc<ReadyCall>> {
        Some(Arc::clone(&self.calls.get(place)?.call.as_ref().ok()?.ready))
    }

    pub(crate) fn question(&self, place: usize) -> Option<Value> {
        let CheckedCall { ready, risk, .. } = self.calls.get(place)?.call.as_ref().ok()?;
        let (tool, arguments) = (&ready.tool, &ready.arguments);
        Some(CallQuestion { tool, risk: *risk, arguments }.request())
    }
}

/// A batch in progress. `places` holds the positions of `running` calls. `questions` holds the
/// input that servers need for these calls, for a client that receives questions in the reply.
/// Dropping the batch cancels the running calls at their servers.
pub(crate) struct RunningBatch {
    pub(crate) planned: PlannedBatch,
    pub(crate) plan: BatchPlan,
    pub(crate) made: Vec<Option<FinishedCall>>,
    running: JoinSet<(usize, FinishedCall)>,
    places: BTreeSet<usize>,
    pub(crate) questions: Vec<BatchInput>,
    asking: mpsc::UnboundedSender<BatchInput>,
    asked: mpsc::UnboundedReceiver<BatchInput>,
}

/// A call that can be made. `server` is `None` for a tool of the gateway. References in `arguments`
/// are resolved. `given` holds the arguments as the model sent them; these are recorded.
#[derive(Debug)]
pub(crate) struct ReadyCall {
    pub(crate) server: Option<usize>,
    pub(crate) tool: ServerTool,
    pub(crate) arguments: Value,
    pub(crate) given: String,
}

/// The result of a call. `parts` are stored and shown as stand-ins. `note` is shown next to them,
/// or alone if there is nothing to store.
#[derive(Debug)]
pub(crate) struct FinishedCall {
    pub(crate) failed: bool,
    pub(crate) parts: Vec<StoredPart>,
    pub(crate) note: Option<String>,
}

impl ReadyCall {
    pub(crate) fn record(&self) -> ToolCall {
        ToolCall {
            id: new_call_id(),
            server: self.tool.server.clone(),
            tool: self.tool.tool.clone(),
            arguments: Some(&self.given).filter(|given| given.len() <= MAX_ARGUMENTS).cloned(),
            started: Instant::now(),
            links: false,
        }
    }
}

#[cfg(test)]
mod tests;
