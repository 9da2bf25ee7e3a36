//! One call of a batch: made, and its result stored.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::bridge::client_said::ClientSaid;
use crate::bridge::crossing::{BatchInputs, Crossing};
use crate::bridge::{InputRequest, InputResponse};
use crate::call_id::new_call;
use crate::envelope::Envelope;
use crate::message::Message;
use crate::pending::Call;
use crate::raw_object::quoted;
use crate::relay::Relay;
use crate::results::StoredPart;
use crate::server_request::OwnRequest;
use crate::tool_name::TrueName;
use crate::upstream::Upstream;
use crate::{bridge, results, server_request};

/// The most bytes of arguments that are recorded.
const MOST_ARGUMENTS: usize = 64 * 1024;

/// A call that can be made.
#[derive(Debug)]
pub(super) struct ReadyCall {
    /// The index of its server; `None` for a tool of the gateway's own.
    pub(super) server: Option<usize>,
    pub(super) tool: TrueName,
    /// The arguments, an object, with what references stood for.
    pub(super) arguments: Value,
    /// The arguments as the model sent them.
    pub(super) given: String,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct MadeCall {
    pub(super) failed: bool,
    /// The stored parts, if they could be.
    pub(super) parts: Vec<StoredPart>,
    /// The text that is shown beside that.
    pub(super) said: Option<String>,
}

impl ReadyCall {
    pub(super) fn record(&self) -> Call {
        Call {
            id: new_call(),
            server: self.tool.server.clone(),
            tool: self.tool.tool.clone(),
            arguments: Some(&self.given).filter(|given| given.len() <= MOST_ARGUMENTS).cloned(),
            started: Instant::now(),
            links: false,
        }
    }
}

impl MadeCall {
    pub(super) fn failed(said: String) -> Self {
        Self { failed: true, parts: Vec::new(), said: Some(said) }
    }

    /// Stores all parts of the result at `range`. Waits for the disk.
    pub(super) fn stored(
        relay: &Relay,
        call: &Call,
        message: &Message,
        range: &Range<usize>,
    ) -> Self {
        match results::store_all(&relay.shelf, call, message, range) {
            Ok(stored) => Self { failed: stored.failed, parts: stored.parts, said: None },
            Err(why) => not_stored(message, range, &why),
        }
    }
}

/// The way in which what servers ask at a call reaches a client that takes no requests.
pub(super) struct CallInputs {
    pub(super) said: ClientSaid,
    pub(super) inputs: BatchInputs,
}

impl CallInputs {
    /// Returns the answers to requests of a server. The error follows its name.
    async fn answers(
        &self,
        relay: &Relay,
        requests: Vec<InputRequest>,
    ) -> Result<Vec<InputResponse>, String> {
        let bytes = requests.iter().map(|request| request.members().len() as u64).sum();
        let _place = relay.bridge.place(bytes).ok_or(bridge::TOO_MUCH)?;
        let asked = requests.into_iter().map(|request| {
            let waiting = self.inputs.ask(request.members());
            (request.key, waiting)
        });
        let mut responses = Vec::new();
        for (key, waiting) in asked.collect::<Vec<_>>() {
            let answer = waiting.await.map_err(|_| "asked, and nobody answered")?;
            responses.push((key, answer));
        }
        Ok(responses)
    }
}

/// Makes a call of a server, and stores its result.
pub(super) async fn make(
    relay: Arc<Relay>,
    call: Arc<ReadyCall>,
    inputs: Option<CallInputs>,
) -> MadeCall {
    let Some(upstream) = call.server.and_then(|server| relay.upstreams.get(server)) else {
        return MadeCall::failed("its server is gone".to_owned());
    };
    let record = call.record();
    let message = match asked(&relay, upstream, &call, inputs.as_ref()).await {
        Ok(message) => message,
        Err(why) => {
            relay.count(&record, true, 0, 0);
            return MadeCall::failed(format!("the server `{}` {why}", upstream.name));
        }
    };
    let Ok(turn) = Arc::clone(&relay.work).acquire_owned().await else {
        return MadeCall::failed("the gateway ends".to_owned());
    };
    let shared = Arc::clone(&relay);
    let stored = spawn_blocking(move || store(&shared, &record, &message)).await;
    drop(turn);
    stored.unwrap_or_else(|_| MadeCall::failed("a fault of the gateway".to_owned()))
}

/// Asks a server, and again with what it asks for. The error follows its name.
async fn asked(
    relay: &Arc<Relay>,
    upstream: &Upstream,
    call: &ReadyCall,
    inputs: Option<&CallInputs>,
) -> Result<Message, String> {
    let name = quoted(&call.tool.tool);
    let mut more = String::new();
    for round in 1.. {
        let arguments = &call.arguments;
        let parameters = format!("{{\"arguments\":{arguments},\"name\":{name}{more}}}");
        let mut own = OwnRequest::new(upstream, "tools/call", &parameters);
        if let Some(inputs) = inputs {
            let crossing = || Crossing::of_batch(inputs.said.abilities(), inputs.inputs.clone());
            own.crossing = Some(crossing());
            own.meta = own.meta.map(|_| inputs.said.meta());
        }
        let message = server_request::open(upstream, own)?.answer().await?;
        let client = inputs.map_or_else(|| relay.bridge.said(), |inputs| inputs.said.clone());
        let Some(required) = bridge::input_required(&message, client.abilities())? else {
            return Ok(message);
        };
        bridge::check_round(round, required.requests.is_empty()).await?;
        let responses = match inputs {
            Some(inputs) => inputs.answers(relay, required.requests).await?,
            None => bridge::put(relay, required.requests).await?,
        };
        more = format!(",{}", bridge::repeated(&responses, required.state.as_deref()));
    }
    Err("asked without end".to_owned())
}

/// Stores all parts of the result that a server answers with, and counts the call. Waits for the
/// disk.
fn store(relay: &Relay, call: &Call, message: &Message) -> MadeCall {
    let made = match Envelope::of(message) {
        Err(_) => MadeCall::failed("the answer is no message".to_owned()),
        Ok(envelope) => match envelope.result() {
            None => MadeCall::failed(server_request::refusal(message, "tools/call")),
            Some(result) => MadeCall::stored(relay, call, message, &result),
        },
    };
    // What the client gets of it is counted with the reply.
    relay.count(call, made.failed, message.length(), 0);
    made
}

/// Returns what is told of a result that cannot be stored: as much of it as the reply has room for.
fn not_stored(message: &Message, result: &Range<usize>, why: &str) -> MadeCall {
    let why = format!("[ctxfs] The result is not stored: {why}");
    let texts = if message.has_holes() { None } else { results::texts(message, result) };
    let Some(text) = texts else { return MadeCall::failed(why) };
    let hint = format!("{why}; what is missing of its {} bytes is lost", text.len());
    let summary = format!("{hint}\n{text}");
    let whole = format!("{why}\n{text}");
    let part = StoredPart { reference: None, text: Some(whole), summary, hint };
    MadeCall { failed: false, parts: vec![part], said: None }
}
