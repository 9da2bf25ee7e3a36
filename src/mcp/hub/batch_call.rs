//! One call of a batch: made, and its result stored.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::mcp::envelope::Envelope;
use crate::mcp::envelope::Kind;
use crate::mcp::hub::server_request;
use crate::mcp::message::Message;
use crate::mcp::own;
use crate::mcp::pending::Call;
use crate::mcp::relay::Relay;
use crate::mcp::results;
use crate::mcp::results::StoredPart;
use crate::mcp::tool_name::TrueName;

/// The most bytes of arguments that are recorded.
const MOST_ARGUMENTS: usize = 64 * 1024;

/// A call that can be made.
#[derive(Debug)]
pub(super) struct ReadyCall {
    /// The index of its server.
    pub(super) server: usize,
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
    /// What was stored, if it could be.
    pub(super) parts: Vec<StoredPart>,
    /// The text that is shown beside that.
    pub(super) said: Option<String>,
}

impl MadeCall {
    fn failed(said: String) -> Self {
        Self { failed: true, parts: Vec::new(), said: Some(said) }
    }
}

/// Makes a call, and stores its result.
pub(super) async fn make(relay: Arc<Relay>, call: Arc<ReadyCall>) -> MadeCall {
    let upstream = &relay.upstreams[call.server];
    let record = Call {
        id: own::new_call(relay.next_call()),
        server: upstream.name.clone(),
        tool: call.tool.tool.clone(),
        arguments: Some(&call.given).filter(|given| given.len() <= MOST_ARGUMENTS).cloned(),
        started: Instant::now(),
        links: false,
    };
    let parameters = serde_json::json!({"name": call.tool.tool, "arguments": call.arguments});
    let answer = server_request::ask(upstream, "tools/call", &parameters.to_string()).await;
    let message = match answer {
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
    let stored = spawn_blocking(move || {
        let made = store(&shared, &record, &message);
        // What the client gets of it is counted with the reply.
        shared.count(&record, made.failed, message.length(), 0);
        made
    });
    let stored = stored.await;
    drop(turn);
    stored.unwrap_or_else(|_| MadeCall::failed("a fault of the gateway".to_owned()))
}

/// Stores all parts of a result. Waits for the disk.
fn store(relay: &Relay, call: &Call, message: &Message) -> MadeCall {
    let Ok(envelope) = Envelope::of(message) else {
        return MadeCall::failed("the answer is no message".to_owned());
    };
    let Kind::Response { result: Some(result) } = envelope.kind else {
        return MadeCall::failed(server_request::refusal(message, "tools/call"));
    };
    match results::store_all(&relay.shelf, call, message, &result) {
        Ok(stored) => MadeCall { failed: stored.failed, parts: stored.parts, said: None },
        Err(why) => not_stored(message, &result, &why),
    }
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
