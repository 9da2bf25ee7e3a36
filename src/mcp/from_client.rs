//! What the client sends, and where it goes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::task::spawn_blocking;

use crate::bridge::Crossed;
use crate::call_id::new_call;
use crate::envelope::{Envelope, EnvelopeError, Kind, answer};
use crate::line_reader::{BrokenLine, Line, broken};
use crate::message::{Edit, Message};
use crate::message_batch::{is_batch, messages};
use crate::parsed::Parsed;
use crate::pending::{Call, ListKind, PendingKind};
use crate::queue::Refused;
use crate::raw_object::{RawObject, quoted};
use crate::references::Resolver;
use crate::relay::{
    Asker, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Refusal,
    Relay, Route, failure, pending,
};
use crate::upstream::{Upstream, with_id};
use crate::{bridge, context, hub, own, references};

/// The most bytes of the arguments of a call that are recorded.
const MOST_ARGUMENTS: usize = 64 * 1024;
/// The most bytes of a request that the gateway answers for its servers.
const MOST_IN_MEMORY: usize = 32 << 20;
/// The endings of the keys in `_meta` under which clients tell the id of a call.
const CALL_KEYS: [&str; 2] = ["tooluseid", "toolcallid"];

/// Takes a line of the client.
pub(super) async fn line(relay: &Arc<Relay>, line: Line) {
    match line {
        Line::Message(message) => take(relay, message).await,
        Line::Broken(line) => refuse(relay, &line).await,
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
        Kind::Request { method } => request(relay, method.clone(), envelope, message).await,
        Kind::Notification { method } => {
            let method = method.clone();
            notification(relay, &method, &envelope, message);
        }
        Kind::Response { .. } => response(relay, &envelope, message),
    }
}

/// Takes the messages of a batch one by one.
async fn batch(relay: &Arc<Relay>, message: &Message) {
    let messages = match messages(message) {
        Ok(messages) => messages,
        Err(error) => return refuse_message(relay, None, error).await,
    };
    for message in messages {
        if is_batch(&message) {
            relay.error("null", INVALID_REQUEST, "a batch has no batches").await;
        } else {
            Box::pin(take(relay, message)).await;
        }
    }
}

/// Refuses what is no message. JSON that is none may have an id all the same.
async fn refuse_message(relay: &Relay, id: Option<&str>, error: EnvelopeError) {
    match error {
        EnvelopeError::Json(why) => relay.error("null", PARSE_ERROR, &why).await,
        EnvelopeError::Shape(why) => {
            relay.error(id.unwrap_or("null"), INVALID_REQUEST, why).await;
        }
    }
}

async fn refuse(relay: &Relay, line: &BrokenLine) {
    let id = line.id.as_deref().filter(|id| is_id(id)).unwrap_or("null");
    relay.error(id, INVALID_REQUEST, &format!("the message cannot be taken: {}", line.why)).await;
}

fn is_id(id: &str) -> bool {
    id.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

async fn request(relay: &Arc<Relay>, method: String, envelope: Envelope, message: Message) {
    let Some(id) = envelope.id(&message).map(str::to_owned) else { return };
    if relay.bridge.is_taken_out(&method) {
        let text = format!("there is no `{method}` since 2026-07-28");
        return relay.error(&id, METHOD_NOT_FOUND, &text).await;
    }
    if method == "ping" {
        return relay.tell(answer(&id, "{}")).await;
    }
    if !relay.begin(&id, Route::Own) {
        let text = format!("a request with the id {id} waits for its answer");
        return relay.error(&id, INVALID_REQUEST, &text).await;
    }
    relay.bridge.hear(&method, envelope.params(&message));
    let is_early = relay.hub.as_ref().is_some_and(|hub| !hub.has_begun() && !hub::begins(&method));
    if !is_early && !bridge::is_to_meet(relay) {
        return hand_on(relay, id, method, envelope, message).await;
    }
    let Some(place) = relay.place(&id, message.length()).await else { return };
    let relay = Arc::clone(relay);
    tokio::spawn(async move {
        match &relay.hub {
            Some(hub) => hub::begin(&relay, hub, envelope.params(&message)).await,
            None => bridge::meet(&relay).await,
        }
        drop(place);
        // It may have been cancelled meanwhile.
        if relay.is_open(&id) {
            hand_on(&relay, id, method, envelope, message).await;
        }
    });
}

/// Hands a request to what answers it.
async fn hand_on(
    relay: &Arc<Relay>,
    id: String,
    method: String,
    envelope: Envelope,
    message: Message,
) {
    if bridge::answers(relay, &method) {
        return bridge::answer(relay, id, &method, &envelope, &message).await;
    }
    if let Some(hub) = &relay.hub {
        let called = hub::called(&method, &envelope, &message);
        if hub::answers(hub, &method, called.as_deref()) {
            return of_hub(Arc::clone(relay), id, method, message).await;
        }
    }
    if own::answers(relay, &method, envelope.params(&message)) {
        return own::answer(Arc::clone(relay), id, method, &envelope, &message).await;
    }
    if method == "tools/call" && relay.references && has_references(&envelope, &message) {
        return by_reference(Arc::clone(relay), id, envelope, message).await;
    }
    route(relay, id, &method, &envelope, message, None).await;
}

/// Answers for all servers, while other requests go on.
async fn of_hub(relay: Arc<Relay>, id: String, method: String, message: Message) {
    let Some(place) = relay.place(&id, message.length()).await else { return };
    tokio::spawn(async move {
        let (Some(hub), Some(_turn)) = (&relay.hub, relay.turn(&place, &id).await) else { return };
        let answered = match message.filled(MOST_IN_MEMORY).map(Parsed::of) {
            Ok(Ok(Parsed { envelope, message })) => {
                hub::answer(&relay, hub, (&id, &method), &envelope, &message).await
            }
            Ok(Err(_)) => Err(Refusal::new(INTERNAL_ERROR, "the message cannot be read")),
            Err(why) => Err(Refusal::new(INVALID_PARAMS, why)),
        };
        // A request that was cancelled has no answer.
        if relay.end(&id).is_none() {
            return;
        }
        match answered {
            Ok(result) => relay.tell(answer(&id, &result)).await,
            Err(refusal) => relay.error(&id, refusal.code, &refusal.text).await,
        }
    });
}

/// The server that a request goes to, and its change on the way.
pub(super) struct Destination {
    pub(super) index: usize,
    pub(super) edit: Option<Edit>,
    /// The name that the server gave the tool that is called.
    pub(super) tool: Option<String>,
}

/// Sends a request to its server. The `arguments` of a call are what is recorded of it, if they are
/// not its own.
async fn route(
    relay: &Arc<Relay>,
    id: String,
    method: &str,
    envelope: &Envelope,
    message: Message,
    arguments: Option<String>,
) {
    let found = match &relay.hub {
        Some(hub) => hub::destination(relay, hub, method, envelope, &message),
        None => only_server(relay, method, envelope, &message),
    };
    match found {
        Ok(destination) => send(relay, destination, method, envelope, message, arguments).await,
        Err(refusal) => {
            if relay.end(&id).is_some() {
                relay.error(&id, refusal.code, &refusal.text).await;
            }
        }
    }
}

/// Returns the only server. Its tool gets its own name back, if the gateway has one of that name.
fn only_server(
    relay: &Relay,
    method: &str,
    envelope: &Envelope,
    message: &Message,
) -> Result<Destination, Refusal> {
    let Some(upstream) = relay.upstreams.first() else {
        return Err(Refusal::new(METHOD_NOT_FOUND, format!("there is no `{method}` here")));
    };
    let called =
        (method == "tools/call").then(|| member(envelope.params(message), "name")).flatten();
    let name = called.and_then(crate::raw_object::text);
    let own = name.as_deref().filter(|_| relay.context_tools).and_then(|n| own_name(upstream, n));
    let edit = called.zip(own).map(|(called, own)| Edit {
        range: message.range_of(called),
        with: quoted(own).into_bytes(),
    });
    let tool = own.map(str::to_owned).or(name.map(std::borrow::Cow::into_owned));
    Ok(Destination { index: 0, edit, tool })
}

fn has_references(envelope: &Envelope, message: &Message) -> bool {
    let params = envelope.params(message);
    params.is_some_and(|params| params.get().contains(references::MEMBER)) && !message.has_holes()
}

/// Sends a call to its server with what the references in its arguments stand for, while others go
/// on.
async fn by_reference(relay: Arc<Relay>, id: String, envelope: Envelope, message: Message) {
    let Some(place) = relay.place(&id, message.length()).await else { return };
    tokio::spawn(async move {
        let Some(_turn) = relay.turn(&place, &id).await else { return };
        let turn = Arc::clone(&relay.work).acquire_owned().await;
        let shared = Arc::clone(&relay);
        let resolved = spawn_blocking(move || resolved(&shared, &envelope, &message)).await;
        drop(turn);
        let why = match resolved {
            Ok(Ok((message, arguments))) => match Envelope::of(&message) {
                Ok(envelope) => {
                    return route(&relay, id, "tools/call", &envelope, message, arguments).await;
                }
                Err(_) => "the arguments cannot be read".to_owned(),
            },
            Ok(Err(why)) => why,
            Err(_) => "a fault of the gateway".to_owned(),
        };
        if relay.end(&id).is_some() {
            relay.tell(answer(&id, &relay.bridge.own_result(failure(&why)))).await;
        }
    });
}

/// Returns a call without references, and its arguments as they were.
fn resolved(
    relay: &Relay,
    envelope: &Envelope,
    message: &Message,
) -> Result<(Message, Option<String>), String> {
    let arguments = member(envelope.params(message), "arguments").ok_or("no arguments")?;
    let resolved = Resolver::new(relay.shelf.open()?).resolved(arguments)?;
    let mut text = message.text().to_owned();
    text.replace_range(message.range_of(arguments), &resolved);
    Ok((Message::whole(text), Some(arguments.get().to_owned())))
}

/// Sends a request to a server.
async fn send(
    relay: &Arc<Relay>,
    destination: Destination,
    method: &str,
    envelope: &Envelope,
    message: Message,
    arguments: Option<String>,
) {
    let (Some(id), Some(range)) = (envelope.id(&message), envelope.id.clone()) else { return };
    let id = id.to_owned();
    let Destination { index, edit, tool } = destination;
    let upstream = &*relay.upstreams[index];
    let (more, mut crossing) =
        match bridge::cross(relay, index, &id, method, envelope, &message).await {
            Crossed::Taken => return,
            Crossed::With(more, crossing) => (more, crossing),
        };
    let params = envelope.params(&message).and_then(RawObject::parse).unwrap_or_default();
    let kind = kind(relay, upstream, method, tool, &params);
    let mut waiting = pending(&id, kind, upstream);
    if let PendingKind::Call(call) = &mut waiting.kind
        && message.has_holes()
    {
        // They are longer than what is recorded.
        call.arguments = None;
    }
    if let (Some(arguments), PendingKind::Call(call)) = (arguments, &mut waiting.kind) {
        call.arguments = Some(arguments);
    }
    waiting.token =
        member(params.get("_meta"), "progressToken").map(|token| token.get().to_owned());
    note(relay, upstream, method, envelope, &message);
    if method == "subscriptions/listen" {
        waiting.deadline = None;
    }
    let compose = |number: u64| {
        let id = Edit { range, with: number.to_string().into_bytes() };
        let mut edits: Vec<Edit> = edit.into_iter().chain(more).chain([id]).collect();
        edits.sort_by_key(|edit| edit.range.start);
        message.edited(edits)
    };
    let is_between = crossing.is_some();
    let sent = match &mut crossing {
        None => upstream.request(waiting, compose),
        Some(noted) => {
            let request = compose(0);
            noted.note(&request);
            waiting.crossing = crossing.map(Box::new);
            upstream.request(waiting, |number| bridge::numbered(&request, number))
        }
    };
    match sent {
        Ok(number) => {
            relay.sent(&id, Route::Upstream(index, number));
            if is_between {
                bridge::sent(relay, index, number);
            }
        }
        Err(refused) => {
            relay.end(&id);
            let why = match refused {
                Refused::Full => "does not read its input, and too much waits for it",
                Refused::Closed => "is being stopped",
            };
            relay
                .error(&id, INTERNAL_ERROR, &format!("the server `{}` {why}", upstream.name))
                .await;
        }
    }
}

/// Returns the name that a server gave the tool which is called otherwise.
fn own_name(upstream: &Upstream, called: &str) -> Option<&'static str> {
    context::NAMES.into_iter().find(|name| called == upstream.other_name(name))
}

/// Notes what a request says of the session.
fn note(relay: &Relay, upstream: &Upstream, method: &str, envelope: &Envelope, message: &Message) {
    let Some(params) = envelope.params(message) else { return };
    match method {
        "initialize" => {
            let parameters = (!message.has_holes()).then(|| params.get().to_owned());
            upstream.set_handshake(|handshake| {
                handshake.initialize = parameters;
                handshake.is_done = false;
            });
            if let Some(revision) =
                RawObject::parse(params).and_then(|params| params.text("protocolVersion"))
            {
                relay.set_revision(&revision);
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
    method: &str,
    tool: Option<String>,
    params: &RawObject<'_>,
) -> PendingKind {
    match method {
        "initialize" | "server/discover" => PendingKind::Handshake,
        "tools/list" => PendingKind::Listing(ListKind::Tools),
        "resources/list" => PendingKind::Listing(ListKind::Resources),
        "resources/templates/list" => PendingKind::Listing(ListKind::Templates),
        "tools/call" => PendingKind::Call(Box::new(call(relay, upstream, tool, params))),
        _ => PendingKind::Relay,
    }
}

fn call(relay: &Relay, upstream: &Upstream, tool: Option<String>, params: &RawObject<'_>) -> Call {
    let arguments = params.get("arguments").map(RawValue::get);
    let arguments = arguments.filter(|arguments| arguments.len() <= MOST_ARGUMENTS);
    Call {
        id: call_id(params.get("_meta")).unwrap_or_else(new_call),
        server: upstream.name.clone(),
        tool: tool.unwrap_or_default(),
        arguments: arguments.map(str::to_owned),
        started: Instant::now(),
        links: relay.knows_links(),
    }
}

/// Returns the client's own id of a call.
fn call_id(meta: Option<&RawValue>) -> Option<String> {
    let meta = RawObject::parse(meta?)?;
    let is_call = |key: &str| {
        let key = key.to_ascii_lowercase();
        CALL_KEYS.iter().any(|end| key.ends_with(end))
    };
    let found = meta.0.iter().find(|(key, _)| is_call(key))?;
    let id = crate::raw_object::text(found.1)?;
    (!id.is_empty()).then(|| id.into_owned())
}

/// Returns a member of an object.
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
        // Each server has been told when it was ready itself.
        return hub.set_ready();
    }
    let takes = |upstream: &&Arc<Upstream>| !bridge::is_dropped(relay, upstream, method);
    for upstream in relay.upstreams.iter().skip(1).filter(takes) {
        upstream.notify(message.text().as_bytes().to_vec());
    }
    if let Some(upstream) = relay.upstreams.first().filter(takes) {
        upstream.notify(message.edited(Vec::new()));
    }
}

fn cancelled(relay: &Relay, envelope: &Envelope, message: Message) {
    let Some((id, range)) = request_id(envelope, &message) else { return };
    if let Some(Route::Upstream(index, number)) = relay.end(&id) {
        let upstream = &relay.upstreams[index];
        if upstream.take(number).is_some() {
            let edit = Edit { range, with: number.to_string().into_bytes() };
            upstream.notify(message.edited(vec![edit]));
        }
    }
}

/// Returns the `requestId` that a cancellation names, as written.
pub(super) fn request_id(envelope: &Envelope, message: &Message) -> Option<(String, Range<usize>)> {
    let id = member(envelope.params(message), "requestId")?;
    Some((id.get().to_owned(), message.range_of(id)))
}

fn response(relay: &Relay, envelope: &Envelope, message: Message) {
    let (Some(id), Some(range)) = (envelope.id(&message), envelope.id.clone()) else { return };
    match relay.answered(id) {
        Some(Asker::Server(question)) => {
            relay.upstreams[question.upstream].notify(with_id(message, range, &question.id));
        }
        // Who asked may be gone.
        Some(Asker::Own(waiting)) => drop(waiting.send(message)),
        None => {}
    }
}
