//! Parses messages of the client and dispatches them to the part of the gateway that answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use crate::client::{ClientRequest, QuestionSource, Route, held_calls, subscriptions};
use crate::hub::answer;
use crate::hub::route::{self, Destination};
use crate::json_rpc::{
    Envelope, EnvelopeError, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    MessageKind, PARSE_ERROR, Parsed, RpcError, answer, failed_call, is_batch, messages,
    request_id,
};
use crate::line_reader::{BrokenLine, InputLine, broken};
use crate::lists::{ListKind, ListPage};
use crate::message::{Edit, Message, with_id};
use crate::pending::{
    MAX_ARGUMENTS, PendingKind, PendingRequest, ToolCall, Translation, new_call_id,
};
use crate::queue::Refused;
use crate::raw_object::{RawObject, quoted, text};
use crate::references::{self, Resolver};
use crate::relay::Relay;
use crate::revision::translation::{SubscriptionFilter, with_members};
use crate::revision::{Era, EraMismatch};
use crate::upstream::requests::ForeignRequest;
use crate::upstream::{Upstream, handshake};
use crate::{context, own};

// Maximum size in bytes of a request that the gateway answers on behalf of its servers.
const MAX_IN_MEMORY: usize = 32 << 20;
// Suffixes, in lower case, of the `_meta` keys in which clients send their call ids.
const CALL_KEYS: [&str; 2] = ["tooluseid", "toolcallid"];

pub(crate) async fn line(relay: &Arc<Relay>, line: InputLine) {
    match line {
        InputLine::Message(message) => take(relay, message).await,
        InputLine::Broken(line) => refuse(relay, &line).await,
    }
}

async fn take(relay: &Arc<Relay>, message: Message) {
    if is_batch(&message) {
        return batch(relay, &message).await;
    }
    let envelope = match Envelope::of(&message) {
        Ok(envelope) => envelope,
        Err(error) => {
            let id = broken(message.text(), &error).id.filter(|id| is_id(id));
            return refuse_message(relay, id.as_deref(), error).await;
        }
    };
    match &envelope.kind {
        MessageKind::Request { method } => {
            let (id, method) = (envelope.id(&message).unwrap_or("null").to_owned(), method.clone());
            request(relay, ClientRequest { id, method, envelope, message }).await;
        }
        MessageKind::Notification { method } => {
            let method = method.clone();
            notification(relay, &method, &envelope, message);
        }
        MessageKind::Response { .. } => response(relay, &envelope, message),
    }
}

async fn batch(relay: &Arc<Relay>, message: &Message) {
    let messages = match messages(message) {
        Ok(messages) => messages,
        Err(error) => return refuse_message(relay, None, error).await,
    };
    for message in messages {
        if is_batch(&message) {
            relay.client.error("null", INVALID_REQUEST, "a batch has no batches").await;
        } else {
            Box::pin(take(relay, message)).await;
        }
    }
}

async fn refuse_message(relay: &Relay, id: Option<&str>, error: EnvelopeError) {
    match error {
        EnvelopeError::Json(why) => relay.client.error("null", PARSE_ERROR, &why).await,
        EnvelopeError::Shape(why) => {
            relay.client.error(id.unwrap_or("null"), INVALID_REQUEST, why).await;
        }
    }
}

async fn refuse(relay: &Relay, line: &BrokenLine) {
    let id = line.id.as_deref().filter(|id| is_id(id)).unwrap_or("null");
    relay
        .client
        .error(id, INVALID_REQUEST, &format!("the message cannot be taken: {}", line.why))
        .await;
}

fn is_id(id: &str) -> bool {
    id.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

async fn request(relay: &Arc<Relay>, request: ClientRequest) {
    let ClientRequest { id, method, .. } = &request;
    if relay.client.is_removed(method) {
        let text = format!("there is no `{method}` since 2026-07-28");
        return relay.client.error(id, METHOD_NOT_FOUND, &text).await;
    }
    if method == "ping" {
        return relay.client.send(answer(id, "{}")).await;
    }
    if !relay.client.begin(id) {
        let text = format!("a request with the id {id} waits for its answer");
        return relay.client.error(id, INVALID_REQUEST, &text).await;
    }
    relay.client.learn(method, request.raw_params());
    let begins = matches!(&**method, "initialize" | "server/discover");
    let is_early = relay.hub.as_ref().is_some_and(|hub| !hub.has_begun() && !begins);
    let unknown = relay.only().filter(|only| relay.client.is_modern() && only.era.get().is_none());
    if !is_early && unknown.is_none() {
        return dispatch(relay, request).await;
    }
    let Some(place) = relay.client.place(id, request.message.length()).await else { return };
    let (relay, unknown) = (Arc::clone(relay), unknown.cloned());
    tokio::spawn(async move {
        if let Some(hub) = &relay.hub {
            answer::begin(&relay, hub, request.raw_params()).await;
        } else if let Some(only) = unknown {
            handshake::shake_hands(&relay, &only).await;
        }
        drop(place);
        // The request may have been cancelled in the meantime.
        if relay.client.is_open(&request.id) {
            dispatch(&relay, request).await;
        }
    });
}

/// The part of the gateway that answers a request.
///
/// `Subscription`: the gateway sends the notifications that a client of revision 2026-07-28
/// subscribes to, because there are several servers or the only server has an older revision.
/// `Handshake`: the gateway answers from the stored profile of the only server. `LogLevel`: the
/// gateway stores the log level that a client of an older revision sets. A server of revision
/// 2026-07-28 gets this level with each request. `Hub`: the hub answers on behalf of all servers.
/// `Own`: the gateway's own tools and resources. `ServerByReference`: the references in the
/// arguments are resolved before the server gets the call.
enum Responder {
    Subscription,
    Handshake,
    LogLevel,
    Hub,
    Own,
    ServerByReference,
    Server,
}

/// Decides which part of the gateway answers a request, by its method. `ping` and methods that the
/// client's revision removed are answered before this is called.
fn responder(relay: &Relay, request: &ClientRequest) -> Responder {
    let text = |name: &str| request.params().text(name);
    let hub = relay.hub.as_ref();
    let era = relay.only().and_then(|only| only.era.get());
    let is_alone = relay.upstreams.is_empty();
    let declared = relay.client.declared();
    let is_own = |is_named: bool| is_alone || (relay.context_tools && is_named);
    let is_introduced = || relay.only().is_some_and(|only| only.profile.lock().is_some());
    match &*request.method {
        "subscriptions/listen"
            if relay.client.is_modern() && (hub.is_some() || era == Some(Era::Legacy)) =>
        {
            Responder::Subscription
        }
        "initialize" if era.is_some() && is_introduced() => Responder::Handshake,
        "server/discover" if era == Some(Era::Legacy) && is_introduced() => Responder::Handshake,
        "logging/setLevel" if relay.client.mismatch(era) == Some(EraMismatch::OldClient) => {
            Responder::LogLevel
        }
        "initialize"
        | "server/discover"
        | "logging/setLevel"
        | "tools/list"
        | "prompts/list"
        | "resources/list"
        | "resources/templates/list"
            if hub.is_some() =>
        {
            Responder::Hub
        }
        "initialize" | "server/discover" if is_alone => Responder::Own,
        "tools/list" if is_own(!declared.tools) => Responder::Own,
        "resources/list" | "resources/templates/list" if is_own(!declared.resources) => {
            Responder::Own
        }
        "resources/read" | "resources/subscribe" | "resources/unsubscribe"
            if is_own(text("uri").is_some_and(|uri| uri.starts_with("ctx://"))) =>
        {
            Responder::Own
        }
        "tools/call" => {
            let is_context_tool = text("name").is_some_and(|name| context::NAMES.contains(&&*name));
            if hub.is_some_and(|hub| hub.index.is_some()) && !is_context_tool {
                Responder::Hub
            } else if is_own(is_context_tool) {
                Responder::Own
            } else if relay.references && has_references(request) {
                Responder::ServerByReference
            } else {
                Responder::Server
            }
        }
        _ => Responder::Server,
    }
}

async fn dispatch(relay: &Arc<Relay>, request: ClientRequest) {
    match responder(relay, &request) {
        Responder::Subscription => {
            let filter = SubscriptionFilter::of(request.raw_params());
            subscriptions::open_subscription(Arc::clone(relay), request.id, filter);
        }
        Responder::Handshake => handshake::answer(relay, &request).await,
        Responder::LogLevel => handshake::set_level(relay, &request).await,
        Responder::Hub => answer_by_hub(Arc::clone(relay), request).await,
        Responder::Own => own::answer(Arc::clone(relay), request).await,
        Responder::ServerByReference => resolve_and_send(Arc::clone(relay), request).await,
        Responder::Server => route(relay, request, None).await,
    }
}

async fn answer_by_hub(relay: Arc<Relay>, request: ClientRequest) {
    let ClientRequest { id, method, message, .. } = request;
    let Some(place) = relay.client.place(&id, message.length()).await else { return };
    tokio::spawn(async move {
        let (Some(hub), Some(_turn)) = (&relay.hub, relay.client.turn(&place, &id).await) else {
            return;
        };
        let answered = match message.filled(MAX_IN_MEMORY).map(Parsed::of) {
            Ok(Ok(Parsed { envelope, message })) => {
                let request = ClientRequest { id: id.clone(), method, envelope, message };
                answer::answer(&relay, hub, &request).await
            }
            Ok(Err(_)) => Err(RpcError::new(INTERNAL_ERROR, "the message cannot be read")),
            Err(why) => Err(RpcError::new(INVALID_PARAMS, why)),
        };
        // A cancelled request gets no answer.
        if relay.client.end(&id).is_none() {
            return;
        }
        match answered {
            Ok(result) => relay.client.send(answer(&id, &result)).await,
            Err(refusal) => relay.client.error(&id, refusal.code, &refusal.text).await,
        }
    });
}

/// Sends a request to its server. If the references in a call were resolved, `arguments` holds the
/// arguments as the client sent them, for the record of the call.
async fn route(relay: &Arc<Relay>, request: ClientRequest, arguments: Option<String>) {
    let found = match &relay.hub {
        Some(hub) => route::destination(relay, hub, &request),
        None => only_server(relay, &request),
    };
    match found {
        Ok(destination) => send_in_turn(relay, destination, request, arguments).await,
        Err(refusal) => {
            if relay.client.end(&request.id).is_some() {
                relay.client.error(&request.id, refusal.code, &refusal.text).await;
            }
        }
    }
}

/// Returns the only server as the destination. If a tool of the server has the name of a tool of
/// the gateway, the server's tool is offered under another name. In a call of such a tool, `edit`
/// restores the server's own name.
fn only_server(relay: &Relay, request: &ClientRequest) -> Result<Destination, RpcError> {
    let Some(upstream) = relay.upstreams.first() else {
        let text = format!("there is no `{}` here", request.method);
        return Err(RpcError::new(METHOD_NOT_FOUND, text));
    };
    if request.method != "tools/call" {
        return Ok(Destination { index: 0, edit: None, tool: None });
    }
    let called = request.params().get("name");
    let name = called.and_then(text);
    let is_called =
        |own: &&str| name.as_deref().is_some_and(|name| name == upstream.other_name(own));
    let own = context::NAMES.into_iter().filter(|_| relay.context_tools).find(is_called);
    let edit = called
        .zip(own)
        .map(|(called, own)| Edit::new(request.message.range_of(called), quoted(own)));
    let tool = own.map(str::to_owned).or(name.map(Cow::into_owned));
    Ok(Destination { index: 0, edit, tool })
}

fn has_references(request: &ClientRequest) -> bool {
    let names_one = |params: &RawValue| params.get().contains(references::MEMBER);
    request.raw_params().is_some_and(names_one) && !request.message.has_holes()
}

/// Resolves the references in a call's arguments and sends the call to its server. Does not delay
/// other requests.
async fn resolve_and_send(relay: Arc<Relay>, request: ClientRequest) {
    let Some(place) = relay.client.place(&request.id, request.message.length()).await else {
        return;
    };
    tokio::spawn(async move {
        let id = request.id.clone();
        let Some(_turn) = relay.client.turn(&place, &id).await else { return };
        let turn = Arc::clone(&relay.work).acquire_owned().await;
        let shared = Arc::clone(&relay);
        let resolved = spawn_blocking(move || resolved(&shared, request)).await;
        drop(turn);
        let why = match resolved {
            Ok(Ok((request, arguments))) => return route(&relay, request, Some(arguments)).await,
            Ok(Err(why)) => why,
            Err(_) => "a fault of the gateway".to_owned(),
        };
        if relay.client.end(&id).is_some() {
            relay.client.send(answer(&id, &relay.client.own_result(failed_call(&why)))).await;
        }
    });
}

fn resolved(relay: &Relay, request: ClientRequest) -> Result<(ClientRequest, String), String> {
    let arguments = request.params().get("arguments").ok_or("no arguments")?;
    let resolved = Resolver::new(relay.shelf.open()?).resolved(arguments)?;
    let mut text = request.message.text().to_owned();
    text.replace_range(request.message.range_of(arguments), &resolved);
    let given = arguments.get().to_owned();
    let parsed = Parsed::of(Message::whole(text)).map_err(|_| "the arguments cannot be read")?;
    let Parsed { envelope, message } = parsed;
    Ok((ClientRequest { envelope, message, ..request }, given))
}

/// Sends a request to its server. If too much waits for the server, the request waits too, and delays
/// no other request.
async fn send_in_turn(
    relay: &Arc<Relay>,
    destination: Destination,
    request: ClientRequest,
    arguments: Option<String>,
) {
    let upstream = Arc::clone(&relay.upstreams[destination.index]);
    let bytes = request.message.text().len();
    if let Some(room) = upstream.queue.try_room(bytes) {
        return send(relay, destination, request, arguments, room).await;
    }
    let Some(place) = relay.client.place(&request.id, request.message.length()).await else {
        return;
    };
    let relay = Arc::clone(relay);
    tokio::spawn(async move {
        let room = tokio::select! {
            room = upstream.queue.room(bytes) => room,
            () = relay.client.until_ended(&request.id) => None,
        };
        drop(place);
        if let Some(room) = room {
            send(&relay, destination, request, arguments, room).await;
        }
    });
}

/// Sends a request to its server in the reserved `room`. If the server is of the other era, the
/// request is translated first, or answered here if the server cannot answer it.
async fn send(
    relay: &Arc<Relay>,
    destination: Destination,
    request: ClientRequest,
    arguments: Option<String>,
    room: OwnedSemaphorePermit,
) {
    let Destination { index, edit, tool } = destination;
    let upstream = &relay.upstreams[index];
    let era = upstream.era.get();
    let foreign = ForeignRequest { relay, index, request: &request };
    let translated = match relay.client.mismatch(era) {
        Some(EraMismatch::OldClient) => foreign.to_new_server().await,
        Some(EraMismatch::NewClient) => foreign.to_old_server().await,
        None if request.method == "initialize" && era.is_none() => {
            let version = request.params().text("protocolVersion").unwrap_or_default().into_owned();
            Some((Vec::new(), Some(Translation::Opening { version })))
        }
        None => Some((Vec::new(), None)),
    };
    let Some((more, translation)) = translated else { return };
    let mut waiting = PendingRequest {
        client_id: Some(request.id.clone()),
        deadline: upstream.deadline().filter(|_| request.method != "subscriptions/listen"),
        token: member(request.params().get("_meta"), "progressToken")
            .map(|token| token.get().to_owned()),
        ..PendingRequest::new(kind(relay, upstream, tool, &request))
    };
    if let PendingKind::Call(call) = &mut waiting.kind {
        // Arguments with holes are too long to record.
        call.arguments.take_if(|_| request.message.has_holes());
        call.arguments = arguments.or(call.arguments.take());
    }
    remember_handshake(relay, upstream, &request);
    let ClientRequest { id, envelope, message, .. } = request;
    let Some(range) = envelope.id else { return };
    let compose = |number: u64| {
        let id = Edit::new(range, number.to_string());
        message.edited(edit.into_iter().chain(more).chain([id]).collect())
    };
    let sent = if let Some(Translation::Repeatable(mut again)) = translation {
        let request = compose(0);
        again.request = request.clone();
        waiting.translation = Some(Box::new(Translation::Repeatable(again)));
        upstream.request(Some(room), waiting, |number| with_members(&request, number, ""))
    } else {
        waiting.translation = translation.map(Box::new);
        upstream.request(Some(room), waiting, compose)
    };
    match sent {
        Ok(number) => {
            relay.client.sent(&id, Route::Upstream(index, number));
            held_calls::carry_early(relay, upstream, number);
        }
        Err(refused) => {
            relay.client.end(&id);
            let why = match refused {
                Refused::Full => "does not read its input, and too much waits for it",
                Refused::Closed => "is being stopped",
            };
            let text = format!("the server `{}` {why}", upstream.name);
            relay.client.error(&id, INTERNAL_ERROR, &text).await;
        }
    }
}

fn remember_handshake(relay: &Relay, upstream: &Upstream, request: &ClientRequest) {
    let Some(params) = request.raw_params() else { return };
    match &*request.method {
        "initialize" => {
            let parameters = (!request.message.has_holes()).then(|| params.get().to_owned());
            upstream.set_handshake(|handshake| {
                handshake.initialize = parameters;
                handshake.is_done = false;
            });
            if let Some(revision) = request.params().text("protocolVersion") {
                relay.client.set_revision(&revision);
            }
        }
        "logging/setLevel" => {
            upstream.set_handshake(|handshake| handshake.level = Some(params.get().to_owned()));
        }
        _ => {}
    }
}

fn kind(
    relay: &Relay,
    upstream: &Upstream,
    tool: Option<String>,
    request: &ClientRequest,
) -> PendingKind {
    match &*request.method {
        "initialize" | "server/discover" => PendingKind::Handshake,
        "tools/call" => {
            let params = request.params();
            let arguments = params.get("arguments").map(RawValue::get);
            let arguments = arguments.filter(|arguments| arguments.len() <= MAX_ARGUMENTS);
            PendingKind::Call(Box::new(ToolCall {
                id: call_id(params.get("_meta")).unwrap_or_else(new_call_id),
                server: upstream.name.clone(),
                tool: tool.unwrap_or_default(),
                arguments: arguments.map(str::to_owned),
                started: Instant::now(),
                links: relay.client.knows_links(),
            }))
        }
        method => ListKind::of_method(method).map_or(PendingKind::Relay, |kind| {
            let cursor = request.params().text("cursor").unwrap_or_default();
            PendingKind::Listing(ListPage::new(kind, &cursor))
        }),
    }
}

fn call_id(meta: Option<&RawValue>) -> Option<String> {
    let meta = RawObject::parse(meta?)?;
    let is_call = |key: &str| {
        let key = key.to_ascii_lowercase();
        CALL_KEYS.iter().any(|end| key.ends_with(end))
    };
    let found = meta.0.iter().find(|(key, _)| is_call(key))?;
    let id = text(found.1)?;
    (!id.is_empty()).then(|| id.into_owned())
}

fn member<'a>(object: Option<&'a RawValue>, name: &str) -> Option<&'a RawValue> {
    RawObject::parse(object?)?.get(name)
}

fn notification(relay: &Relay, method: &str, envelope: &Envelope, message: Message) {
    if method == "notifications/cancelled" {
        return cancelled(relay, envelope, message);
    }
    if let Some(hub) = &relay.hub
        && method == "notifications/initialized"
    {
        // Each server got this notification when the client was introduced to it.
        hub.ready.send_replace(true);
        return;
    }
    // Notifications that 2026-07-28 removed.
    let is_removed = matches!(
        method,
        "notifications/initialized" | "notifications/roots/list_changed" | "notifications/progress"
    );
    let takes = |upstream: &&Arc<Upstream>| {
        let mismatch = relay.client.mismatch(upstream.era.get());
        !(is_removed && mismatch == Some(EraMismatch::OldClient))
    };
    for upstream in relay.upstreams.iter().skip(1).filter(takes) {
        upstream.notify(message.text());
    }
    if let Some(upstream) = relay.upstreams.first().filter(takes) {
        upstream.notify(message.edited(Vec::new()));
    }
}

fn cancelled(relay: &Relay, envelope: &Envelope, message: Message) {
    let Some((id, range)) = request_id(envelope, &message) else { return };
    if let Some(Route::Upstream(index, number)) = relay.client.end(&id) {
        let upstream = &relay.upstreams[index];
        if upstream.take(number).is_some() {
            let edit = Edit::new(range, number.to_string());
            upstream.notify(message.edited(vec![edit]));
        }
    }
}

fn response(relay: &Relay, envelope: &Envelope, message: Message) {
    let (Some(id), Some(range)) = (envelope.id(&message), envelope.id.clone()) else { return };
    match relay.client.answered(id) {
        Some(QuestionSource::Server(question)) => {
            question.from.notify(with_id(message, range, &question.id));
        }
        // The waiting task may be gone.
        Some(QuestionSource::Gateway(waiting)) => drop(waiting.send(message)),
        None => {}
    }
}
