//! The plan of a batch: its calls as they were meant, and the decision about each.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::batch_plan::{Gate, PlannedCall};
use crate::hub::asking::Channel;
use crate::hub::batch::{MOST_PARALLEL, PARALLEL};
use crate::hub::batch_call::ReadyCall;
use crate::hub::{Hub, IndexMode, index_tools, own_call};
use crate::index::{Call, Index, calls_of};
use crate::permission::{
    Answer, ArgumentsDigest, Decision, LogLine, Question, Risk, Rules, Verdict, add_stored, decide,
    keep, pattern_of,
};
use crate::references;
use crate::references::Resolver;
use crate::relay::Relay;
use crate::tool_name::TrueName;
use ctxfs_core::model::visible;

/// The most calls of a batch.
const MOST_CALLS: usize = 200;
/// Bytes of a name in a reply.
const NAME_BYTES: usize = 200;

/// The calls of a batch, and how they are to be made.
pub(crate) struct PlannedBatch {
    pub(crate) calls: Vec<DecidedCall>,
    pub(crate) parallel: usize,
    pub(crate) stops_on_error: bool,
}

/// A call, and what was decided about it.
pub(crate) struct DecidedCall {
    /// The name, as it is offered if that is known.
    pub(crate) name: String,
    /// The call, or why it cannot be made.
    pub(crate) call: Result<CheckedCall, String>,
}

/// A call that fits its tool.
pub(crate) struct CheckedCall {
    ready: Arc<ReadyCall>,
    pub(crate) risk: Risk,
    pub(crate) decision: Decision,
}

impl CheckedCall {
    pub(crate) fn tool(&self) -> &TrueName {
        &self.ready.tool
    }
}

impl DecidedCall {
    /// Returns the call as the plan needs it.
    pub(crate) fn planned(&self) -> PlannedCall {
        let Ok(call) = &self.call else { return PlannedCall { reads: false, gate: Gate::Invalid } };
        let gate = match call.decision {
            Decision::Allowed(_) => Gate::Open,
            Decision::Ask => Gate::Asked,
            Decision::Refused(_) => Gate::Refused,
        };
        PlannedCall { reads: call.risk == Risk::Read, gate }
    }
}

impl PlannedBatch {
    /// Returns the call at `place`, to be made now.
    pub(super) fn ready(&self, place: usize) -> Option<Arc<ReadyCall>> {
        Some(Arc::clone(&self.calls.get(place)?.call.as_ref().ok()?.ready))
    }

    /// Returns the question about the call at `place`.
    pub(super) fn question(&self, place: usize) -> Option<Value> {
        let CheckedCall { ready, risk, .. } = self.calls.get(place)?.call.as_ref().ok()?;
        let (tool, arguments) = (&ready.tool, &ready.arguments);
        Some(Question { tool, risk: *risk, arguments }.request())
    }
}

/// Plans a batch. The error is for the model.
pub(super) async fn plan(
    relay: &Arc<Relay>,
    hub: &Hub,
    mode: &IndexMode,
    params: &Value,
    channel: Channel,
) -> Result<PlannedBatch, String> {
    let arguments = &params["arguments"];
    let calls = calls_of(&arguments["calls"]).ok_or("`calls` must be a list of calls")?;
    if calls.len() > MOST_CALLS {
        return Err(format!("at most {MOST_CALLS} calls in a batch, not {}", calls.len()));
    }
    let parallel = arguments["parallelLimit"].as_u64().map(|limit| limit.clamp(1, MOST_PARALLEL));
    let index = index_tools::index(relay, hub, mode);
    let (rules, remembered) = (mode.options.rules.clone(), mode.remembered.lock().clone());
    let can_ask = channel != Channel::Nobody;
    let shared = Arc::clone(relay);
    let decided = spawn_blocking(move || {
        let rules = with_stored(&shared, rules);
        let decision = |tool: &TrueName, risk| decide(&rules, &remembered, tool, risk, can_ask);
        let own = LazyCell::new(own_call::index);
        let mut resolver = None;
        let mut decided = |call: &Value| {
            let is_own = shared.context_tools && own_call::is_own(call);
            let index = if is_own { &*own } else { &*index };
            decided(&shared, (index, is_own), call, &mut resolver, &decision)
        };
        let calls: Vec<DecidedCall> = calls.iter().map(&mut decided).collect();
        log(&shared, calls.iter().filter_map(|call| call.call.as_ref().ok()));
        calls
    });
    Ok(PlannedBatch {
        calls: decided.await.map_err(|_| "a fault of the gateway")?,
        parallel: parallel.map_or(PARALLEL, |limit| limit as usize),
        stops_on_error: arguments["stopOnError"].as_bool().unwrap_or(false),
    })
}

/// Returns the rules with those of the store.
fn with_stored(relay: &Relay, mut rules: Rules) -> Rules {
    match relay.shelf.open() {
        Ok(open) => {
            for flaw in add_stored(&mut rules, open.engine.store()) {
                tracing::warn!("{flaw}");
            }
        }
        Err(why) => {
            tracing::warn!("the rules of the store cannot be read: {why}");
            rules.add_unreadable();
        }
    }
    rules
}

fn decided(
    relay: &Relay,
    (index, is_own): (&Index, bool),
    call: &Value,
    resolver: &mut Option<Resolver>,
    decision: &dyn Fn(&TrueName, Risk) -> Decision,
) -> DecidedCall {
    let said = || visible::escaped(call["name"].as_str().unwrap_or_default(), NAME_BYTES);
    let read = match Call::read(index, call) {
        Ok(read) => read,
        Err(error) => return DecidedCall { name: said(), call: Err(error.to_string()) },
    };
    let (name, tool, risk) = (read.tool.name.clone(), &read.tool.true_name, read.tool.risk);
    let server = relay.upstreams.iter().position(|upstream| upstream.name == tool.server);
    let given = Value::Object(read.arguments.clone()).to_string();
    let checked = resolved(relay, &read.arguments, resolver).and_then(|arguments| {
        let whole = Call { tool: read.tool, arguments };
        whole.check().map_err(|error| error.to_string())?;
        Ok(Value::Object(whole.arguments))
    });
    let call = checked.and_then(|arguments| {
        let gone = || format!("the server of `{name}` is gone");
        let server = if is_own { None } else { Some(server.ok_or_else(gone)?) };
        let ready = Arc::new(ReadyCall { server, tool: tool.clone(), arguments, given });
        Ok(CheckedCall { ready, risk, decision: decision(tool, risk) })
    });
    DecidedCall { name, call }
}

/// Returns arguments with what the references in them stand for.
fn resolved(
    relay: &Relay,
    arguments: &Map<String, Value>,
    resolver: &mut Option<Resolver>,
) -> Result<Map<String, Value>, String> {
    let raw = to_raw_value(arguments).map_err(|error| error.to_string())?;
    if !relay.references || !raw.get().contains(references::MEMBER) {
        return Ok(arguments.clone());
    }
    let resolver = match resolver {
        Some(resolver) => resolver,
        None => resolver.insert(Resolver::new(relay.shelf.open()?)),
    };
    let resolved = resolver.resolved(&raw)?;
    serde_json::from_str(&resolved).map_err(|error| error.to_string())
}

/// Keeps a person's answer about a call: in the log, and as far as it is about further calls.
pub(super) async fn remember(
    relay: &Arc<Relay>,
    mode: &IndexMode,
    batch: &mut PlannedBatch,
    place: usize,
    answer: Answer,
    decision: Decision,
) {
    let Some(Ok(call)) = batch.calls.get_mut(place).map(|call| call.call.as_mut()) else { return };
    call.decision = decision;
    mode.remembered.lock().keep(&call.ready.tool, answer);
    let line = line_of(call);
    let pattern = (answer == Answer::Always).then(|| pattern_of(&call.ready.tool));
    let relay = Arc::clone(relay);
    let kept = spawn_blocking(move || {
        append(&relay, &line);
        let Some(pattern) = pattern else { return };
        let kept = relay.shelf.open().and_then(|open| {
            keep(open.engine.store(), &pattern, Verdict::Allow).map_err(|error| error.to_string())
        });
        if let Err(why) = kept {
            tracing::warn!("`{pattern}` is not allowed for good: {why}");
        }
    });
    kept.await.ok();
}

/// Writes what was decided to the log of the conversation.
fn log<'c>(relay: &Relay, calls: impl Iterator<Item = &'c CheckedCall>) {
    let lines: String = calls.map(line_of).collect();
    append(relay, &lines);
}

fn line_of(call: &CheckedCall) -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = LogLine {
        time: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        tool: &call.ready.tool,
        risk: call.risk,
        arguments: ArgumentsDigest::of(&call.ready.arguments),
        decision: &call.decision,
    };
    line.text()
}

fn append(relay: &Relay, lines: &str) {
    if lines.is_empty() {
        return;
    }
    let appended = relay.shelf.open().and_then(|open| {
        let appended =
            ctxfs_store::history::append_permissions(&open.conversation, lines.as_bytes());
        appended.map_err(|error| error.to_string())
    });
    if let Err(why) = appended {
        tracing::warn!("decisions are not logged: {why}");
    }
}
