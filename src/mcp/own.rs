//! Answers the requests for the gateway's own tools and resources, and all requests if there is no
//! server.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rmcp::model::{
    Implementation, InitializeResult, ProtocolVersion, ResourceTemplate, ResourcesCapability,
    ServerCapabilities, ToolsCapability,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::client::ClientRequest;
use crate::context;
use crate::context::extraction::{self, QuestionMonitor};
use crate::context::location::uri;
use crate::json_rpc::{self, INTERNAL_ERROR, INVALID_PARAMS, RpcError, failed_call};
use crate::lists::ListKind;
use crate::pending::{ToolCall, new_call_id};
use crate::raw_object::RawObject;
use crate::relay::Relay;
use crate::results;
use crate::revision::negotiated;
use crate::revision::translation::{modern_members, with_first};
use crate::shelf::LazyShelf;
use crate::tool_name::ServerTool;
use ctxfs_models::extract::{CallRecord, CallTally};

// Instructions for models about the gateway.
pub(crate) const INSTRUCTIONS: &str = "Long results of tools are stored whole, and a summary with \
    a reference (ctx://...) stands in for each. Do not call the tool again for the rest: read on \
    with context_read, context_grep, context_tail and context_view, or list all with context_list.";

pub(crate) async fn answer(relay: Arc<Relay>, request: ClientRequest) {
    let params = request.raw_params().filter(|_| !request.message.has_holes());
    let params = params.map(|params| params.get().to_owned()).unwrap_or_default();
    let ClientRequest { id, method, .. } = request;
    let Some(place) = relay.client.place(&id, params.len() as u64).await else { return };
    tokio::spawn(async move {
        let Some(_turn) = relay.client.turn(&place, &id).await else { return };
        let work = if is_question(&method, &params) { &relay.questions } else { &relay.work };
        let turn = Arc::clone(work).acquire_owned().await;
        let shared = Arc::clone(&relay);
        let request = id.clone();
        let work = move || result(&shared, (&request, &method), &params);
        let done = tokio::task::spawn_blocking(work).await;
        drop(turn);
        // A cancelled request gets no answer.
        if relay.client.end(&id).is_none() {
            return;
        }
        match done {
            Ok(Ok(result)) => relay.client.send(json_rpc::answer(&id, &result)).await,
            Ok(Err(refusal)) => relay.client.error(&id, refusal.code, &refusal.text).await,
            Err(_) => relay.client.error(&id, INTERNAL_ERROR, "a fault of the gateway").await,
        }
    });
}

fn is_question(method: &str, params: &str) -> bool {
    let name = || serde_json::from_str::<&RawValue>(params).ok().and_then(RawObject::parse);
    method == "tools/call"
        && name()
            .and_then(|params| params.text("name"))
            .is_some_and(|name| name == extraction::NAME)
}

fn result(relay: &Relay, (id, method): (&str, &str), params: &str) -> Result<String, RpcError> {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let shelf = &*relay.shelf;
    let result = match method {
        "initialize" => initialize(relay, &params),
        "server/discover" => {
            discover(&serde_json::to_value(capabilities()).unwrap_or_default(), INSTRUCTIONS)
        }
        "tools/call" => call(relay, id, &params)?,
        "resources/read" => read(shelf, &params)?,
        _ => match ListKind::of_method(method) {
            Some(kind) => listing(shelf, &params, kind)?,
            None => "{}".to_owned(),
        },
    };
    Ok(for_client(&params, result, method != "tools/call"))
}

pub(crate) fn is_modern(params: &Value) -> bool {
    params["_meta"][json_rpc::REVISION_KEY].is_string()
}

/// Returns `result` in the revision of the client that sent `params`. `is_kept` is true if clients
/// may cache the result.
pub(crate) fn for_client(params: &Value, result: String, is_kept: bool) -> String {
    if is_modern(params) { with_first(modern_members(is_kept), &result) } else { result }
}

fn initialize(relay: &Relay, params: &Value) -> String {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    relay.client.set_revision(asked);
    let result = InitializeResult::new(capabilities())
        .with_protocol_version(negotiated(asked))
        .with_server_info(info())
        .with_instructions(INSTRUCTIONS);
    text_of(&result)
}

/// Returns the answer to a handshake in place of a server that cannot be used: to `initialize` for
/// the revision `version`, or to `server/discover` if that is `None`.
pub(crate) fn handshake(relay: &Relay, version: Option<&str>, why: &str) -> String {
    let mut capabilities = serde_json::to_value(capabilities()).unwrap_or_default();
    for list in ["tools", "resources"] {
        capabilities[list] = json!({"listChanged": true});
    }
    let instructions = format!("{why}.\n\n{INSTRUCTIONS}");
    let Some(version) = version else {
        let result = discover(&capabilities, &instructions);
        return with_first(modern_members(true), &result);
    };
    let version = negotiated(version);
    relay.client.set_revision(version.as_str());
    json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": info(),
        "instructions": instructions,
    })
    .to_string()
}

pub(crate) fn discover(capabilities: &Value, instructions: &str) -> String {
    let versions = ProtocolVersion::KNOWN_VERSIONS.to_vec();
    let info = serde_json::to_value(info()).unwrap_or_default();
    json!({
        "supportedVersions": versions,
        "capabilities": capabilities,
        "instructions": instructions,
        "_meta": {json_rpc::SERVER_KEY: info},
    })
    .to_string()
}

pub(crate) fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities.resources = Some(ResourcesCapability::default());
    capabilities
}

pub(crate) fn info() -> Implementation {
    Implementation::new("ctxfs", env!("CARGO_PKG_VERSION"))
}

fn listing(shelf: &LazyShelf, params: &Value, kind: ListKind) -> Result<String, RpcError> {
    check_cursor(params)?;
    Ok(format!("{{\"{}\":[{}]}}", kind.member(), rows(shelf, kind).join(",")))
}

/// Refuses a request for a further page of a list of the gateway, which has one page.
pub(crate) fn check_cursor(params: &Value) -> Result<(), RpcError> {
    match &params["cursor"] {
        Value::Null => Ok(()),
        Value::String(cursor) if cursor.is_empty() => Ok(()),
        _ => Err(RpcError::new(INVALID_PARAMS, "the cursor is of no page: the list has one page")),
    }
}

pub(crate) fn rows(shelf: &LazyShelf, kind: ListKind) -> Vec<String> {
    match kind {
        ListKind::Tools => {
            context::tools(shelf.source.answers_questions()).iter().map(text_of).collect()
        }
        ListKind::Resources => {
            let found = shelf.open().and_then(|open| context::resources(&open));
            found.map_or_else(
                |why| {
                    tracing::warn!("the outputs are not listed: {why}");
                    Vec::new()
                },
                |rows| rows.iter().map(text_of).collect(),
            )
        }
        ListKind::Prompts => Vec::new(),
        ListKind::Templates => {
            let conversation = uri(&shelf.source.conversation().to_text());
            let uri = format!("{conversation}/{{+path}}");
            let about = "An output of this conversation, or a view of one: \
                         artifacts/tool/ID.txt, artifacts/tool/ID.txt.grep/PATTERN";
            vec![text_of(&ResourceTemplate::new(uri, "output").with_description(about))]
        }
    }
}

fn call(relay: &Relay, id: &str, params: &Value) -> Result<String, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    if !context::NAMES.contains(&name) {
        return Err(RpcError::new(INVALID_PARAMS, format!("there is no tool `{name}`")));
    }
    let progress = ProgressReporter::of(relay, &params["_meta"]["progressToken"]);
    let waiter = QuestionMonitor {
        stopped: &|| !relay.client.is_open(id),
        tell: &|call| {
            if let Some(progress) = &progress {
                progress.report(call);
            }
        },
    };
    let called = (name, &params["arguments"]);
    let answer = relay.shelf.open().and_then(|open| context::call(&open, called, &waiter));
    Ok(match answer {
        Ok(result) if name == extraction::NAME => {
            let call = question_call(relay, &params["arguments"]);
            results::treat_own(&relay.shelf, &call, result.to_string())
        }
        Ok(result) => result.to_string(),
        Err(why) => failed_call(&why),
    })
}

fn question_call(relay: &Relay, arguments: &Value) -> ToolCall {
    let ServerTool { server, tool } = extraction::true_name();
    ToolCall {
        id: new_call_id(),
        server,
        tool,
        arguments: Some(arguments.to_string()),
        started: Instant::now(),
        links: relay.client.knows_links(),
    }
}

/// Reports the calls of a language model as progress of the request. Runs on the thread that waits
/// for the model.
struct ProgressReporter<'a> {
    relay: &'a Relay,
    token: &'a Value,
    runtime: Handle,
    tally: Mutex<CallTally>,
}

impl<'a> ProgressReporter<'a> {
    fn of(relay: &'a Relay, token: &'a Value) -> Option<Self> {
        let is_one = token.is_string() || token.is_number();
        is_one.then(|| Self { relay, token, runtime: Handle::current(), tally: Mutex::default() })
    }

    fn report(&self, call: &CallRecord) {
        let (calls, message) = self.tally.lock().add(call);
        let params = json!({"progressToken": self.token, "progress": calls, "message": message});
        let message = json_rpc::notification("notifications/progress", &params.to_string());
        self.runtime.block_on(self.relay.client.send(message));
    }
}

fn read(shelf: &LazyShelf, params: &Value) -> Result<String, RpcError> {
    let uri = params["uri"].as_str().unwrap_or_default();
    let read = shelf.open().and_then(|open| context::resource(&open, uri));
    read.map(|result| result.to_string()).map_err(|why| RpcError::new(INVALID_PARAMS, why))
}

fn text_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
