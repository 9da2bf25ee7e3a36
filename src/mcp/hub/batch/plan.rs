//! Plans a batch: reads its calls and decides about each one.

use std::cell::LazyCell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::hub::batch::{CheckedCall, DecidedCall, PlannedBatch, ReadyCall, call};
use crate::hub::{Hub, IndexMode, index_tools};
use crate::index::Index;
use crate::index::call::{Call, calls_of};
use crate::permission::decision::{Decision, DecisionRecord, UserAnswer, decide};
use crate::permission::rule_file::{add_stored, keep, pattern_of};
use crate::permission::rules::{Risk, Rules, Verdict};
use crate::permission::state_token::ArgumentsDigest;
use crate::references::{self, Resolver};
use crate::relay::Relay;
use crate::revision::{InputKind, InputKinds};
use crate::tool_name::ServerTool;
use ctxfs_core::model::visible;
use ctxfs_store::history;

// Default and maximum number of concurrent calls.
const PARALLEL: usize = 4;
const MAX_PARALLEL: u64 = 16;

const MAX_CALLS: usize = 200;
const NAME_BYTES: usize = 200;

/// Plans a batch. Errors are worded for the model.
pub(crate) async fn plan(
    relay: &Arc<Relay>,
    hub: &Hub,
    mode: &IndexMode,
    params: &Value,
    channel: AskChannel,
) -> Result<PlannedBatch, String> {
    let arguments = &params["arguments"];
    let calls = calls_of(&arguments["calls"]).ok_or("`calls` must be a list of calls")?;
    if calls.len() > MAX_CALLS {
        return Err(format!("at most {MAX_CALLS} calls in a batch, not {}", calls.len()));
    }
    let parallel = arguments["parallelLimit"].as_u64().map(|limit| limit.clamp(1, MAX_PARALLEL));
    let index = index_tools::index(relay, hub, mode);
    let (rules, remembered) = (mode.options.rules.clone(), mode.remembered.lock().clone());
    let can_ask = channel != AskChannel::Nobody;
    let shared = Arc::clone(relay);
    let decided = spawn_blocking(move || {
        let rules = with_stored(&shared, rules);
        let decision = |tool: &ServerTool, risk| decide(&rules, &remembered, tool, risk, can_ask);
        let own = LazyCell::new(call::own_index);
        let mut resolver = None;
        let mut decided = |call: &Value| {
            let is_own = shared.context_tools && call::is_own(call);
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
    decision: &dyn Fn(&ServerTool, Risk) -> Decision,
) -> DecidedCall {
    let shown_name = || visible::escaped(call["name"].as_str().unwrap_or_default(), NAME_BYTES);
    let read = match Call::read(index, call) {
        Ok(read) => read,
        Err(error) => return DecidedCall { name: shown_name(), call: Err(error.to_string()) },
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

pub(crate) async fn remember(
    relay: &Arc<Relay>,
    mode: &IndexMode,
    batch: &mut PlannedBatch,
    place: usize,
    answer: UserAnswer,
    decision: Decision,
) {
    let Some(Ok(call)) = batch.calls.get_mut(place).map(|call| call.call.as_mut()) else { return };
    call.decision = decision;
    mode.remembered.lock().keep(&call.ready.tool, answer);
    let line = line_of(call);
    let pattern = (answer == UserAnswer::Always).then(|| pattern_of(&call.ready.tool));
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

fn log<'c>(relay: &Relay, calls: impl Iterator<Item = &'c CheckedCall>) {
    let lines: String = calls.map(line_of).collect();
    append(relay, &lines);
}

fn line_of(call: &CheckedCall) -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = DecisionRecord {
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
        let appended = history::append(&open.conversation, history::PERMISSIONS, lines.as_bytes());
        appended.map_err(|error| error.to_string())
    });
    if let Err(why) = appended {
        tracing::warn!("decisions are not logged: {why}");
    }
}

/// The way in which a client can ask the user: by an `elicitation/create` request, by an
/// `input_required` result after which it repeats the call, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskChannel {
    Elicitation,
    InputRequired,
    Nobody,
}

impl AskChannel {
    pub(crate) fn of(is_modern: bool, client: InputKinds) -> Self {
        match (client.has(InputKind::Form), is_modern) {
            (false, _) => Self::Nobody,
            (true, true) => Self::InputRequired,
            (true, false) => Self::Elicitation,
        }
    }
}
