//! Delivers the answers of servers to the client. Adds the gateway's own entries to lists and
//! capabilities, and edits those entries of servers that would mislead the client.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::task::spawn_blocking;

use crate::client::Declared;
use crate::json_rpc::{Envelope, INTERNAL_ERROR, raw};
use crate::lists::{ListKind, ListPage, PageVerdict};
use crate::message::{self, Edit, Message, Outgoing};
use crate::pending::{PendingKind, PendingRequest};
use crate::raw_object::{self, RawObject, elements, quoted};
use crate::relay::Relay;
use crate::revision::{EraMismatch, translation};
use crate::upstream::Upstream;
use crate::{context, own, results};

/// An answer as received from a server, with the request that it answers. `envelope` holds
/// positions in the message and must be updated when the message is edited.
pub(crate) struct ServerAnswer {
    pub(crate) from: Arc<Upstream>,
    pub(crate) pending: PendingRequest,
    pub(crate) envelope: Envelope,
    pub(crate) message: Message,
}

pub(crate) async fn deliver_to_old_client(relay: &Arc<Relay>, answer: ServerAnswer) {
    let result = answer.envelope.result();
    let edits = result.map(|range| translation::without_new(&answer.message, &range));
    let Some(answer) = answer.edited(edits.unwrap_or_default()) else { return };
    let edits = match answer.envelope.result() {
        Some(range) if matches!(answer.pending.kind, PendingKind::Call(_)) => {
            translation::older(&answer.message, &range, relay.client.knows_links())
        }
        _ => Vec::new(),
    };
    deliver(relay, answer, edits, "").await;
}

impl ServerAnswer {
    /// Applies edits to the message. Returns `None` if the edited message cannot be read.
    fn edited(mut self, edits: Vec<Edit>) -> Option<Self> {
        if !edits.is_empty() {
            self.message = self.message.rewritten(edits);
            self.envelope = Envelope::of(&self.message).ok()?;
        }
        Some(self)
    }
}

/// Sends an answer to the client under the client's request id, after applying `edits`. Long
/// results of calls are stored and replaced by stand-ins. Handshakes and lists get the gateway's
/// additions. All other answers are unchanged. A cancelled request gets no answer.
///
/// The members in `first`, each followed by a comma, are inserted at the start of a result that is
/// not in memory or that the gateway builds.
pub(crate) async fn deliver(
    relay: &Arc<Relay>,
    answer: ServerAnswer,
    edits: Vec<Edit>,
    first: &'static str,
) {
    let Some(answer) = answer.edited(edits) else { return };
    let ServerAnswer { from, pending, envelope, message } = answer;
    let PendingRequest { client_id: Some(client_id), kind, .. } = pending else { return };
    let Some(id) = envelope.id.clone() else { return };
    let result = envelope.result();
    match (kind, result) {
        (PendingKind::Call(call), result) => {
            let is_refused = result.is_none();
            let error = RawObject::of(message.text()).and_then(|answer| answer.get("error"));
            let error = error.map(|error| message.range_of(error));
            let Some(result) = result.or(error) else { return };
            let mut call = *call;
            call.links &= !is_refused;
            let (max_binary, keeps_structure) = (relay.max_binary, relay.keeps_structure());
            deliver_call(
                relay,
                results::Answered {
                    call,
                    client_id,
                    id,
                    result,
                    is_refused,
                    message,
                    max_binary,
                    keeps_structure,
                    first,
                },
            )
            .await;
        }
        (kind @ (PendingKind::Handshake | PendingKind::Listing(_)), Some(result)) => {
            let rows = own_rows(relay, &kind).await;
            relay.client.end(&client_id);
            let mut edits = additions(relay, &from, &kind, rows, &message, result);
            edits.push(Edit::new(id, client_id));
            relay.client.send(message.edited(edits)).await;
        }
        (_, result) => {
            relay.client.end(&client_id);
            relay.client.send(passed(message, id, client_id, result, first)).await;
        }
    }
}

async fn deliver_call(relay: &Arc<Relay>, answered: results::Answered) {
    let received = answered.message.length();
    if !results::may_be_long(&relay.shelf, &answered) {
        relay.client.end(&answered.client_id);
        relay.count(&answered.call, answered.is_error(), received, received);
        let results::Answered { client_id, id, result, is_refused, message, first, .. } = answered;
        let result = Some(result).filter(|_| !is_refused);
        return relay.client.send(passed(message, id, client_id, result, first)).await;
    }
    let relay = Arc::clone(relay);
    let Ok(turn) = Arc::clone(&relay.work).acquire_owned().await else { return };
    tokio::spawn(async move {
        let shelf = Arc::clone(&relay.shelf);
        let (client_id, call) = (answered.client_id.clone(), answered.call.clone());
        let treated = spawn_blocking(move || {
            let failed = answered.is_error();
            (results::treat(&shelf, answered), failed)
        });
        let treated = treated.await;
        drop(turn);
        if let Ok((message, failed)) = &treated {
            relay.count(&call, *failed, received, message.length());
        }
        // A call that was cancelled in the meantime gets no answer.
        if relay.client.end(&client_id).is_none() {
            return;
        }
        match treated {
            Ok((message, _)) => relay.client.send(message).await,
            Err(_) => {
                relay.client.error(&client_id, INTERNAL_ERROR, "a fault of the gateway").await;
            }
        }
    });
}

fn passed(
    message: Message,
    id: Range<usize>,
    client_id: String,
    result: Option<Range<usize>>,
    first: &str,
) -> Outgoing {
    let id = Edit::new(id, client_id);
    match result {
        Some(result) if !first.is_empty() => message.edited_on_disk(id, result.start, first),
        _ => message.edited(vec![id]),
    }
}

async fn own_rows(relay: &Arc<Relay>, kind: &PendingKind) -> Vec<String> {
    let PendingKind::Listing(ListPage { kind, .. }) = *kind else { return Vec::new() };
    if !relay.context_tools {
        return Vec::new();
    }
    let relay = Arc::clone(relay);
    spawn_blocking(move || own::rows(&relay.shelf, kind)).await.unwrap_or_default()
}

fn additions(
    relay: &Relay,
    from: &Upstream,
    kind: &PendingKind,
    own_rows: Vec<String>,
    message: &Message,
    result: Range<usize>,
) -> Vec<Edit> {
    let Some(object) = raw(message, result.clone()).and_then(RawObject::parse) else {
        return Vec::new();
    };
    if raw(message, result.clone()).is_some_and(|result| message.hole(result).is_some()) {
        return Vec::new();
    }
    let place = PlacedResult { message, result };
    match kind {
        PendingKind::Handshake => handshake(relay, from, &object, &place),
        PendingKind::Listing(page) => listed(relay, from, *page, &object, &place, own_rows),
        _ => Vec::new(),
    }
}

/// A result in memory, with the message that contains it, for editing its members.
struct PlacedResult<'a> {
    message: &'a Message,
    result: Range<usize>,
}

impl PlacedResult<'_> {
    fn replace(&self, object: &RawObject<'_>, name: &str, with: String) -> Option<Edit> {
        let range = self.message.range_of(object.get(name)?);
        Some(Edit::new(range, with))
    }

    fn add(&self, object: &RawObject<'_>, members: String) -> Edit {
        let members = if object.0.is_empty() { members[1..].to_owned() } else { members };
        Edit::insert(self.result.end - 1, members)
    }
}

fn handshake(
    relay: &Relay,
    from: &Upstream,
    object: &RawObject<'_>,
    place: &PlacedResult<'_>,
) -> Vec<Edit> {
    from.set_handshake(|handshake| handshake.is_done = handshake.initialize.is_some());
    if let Some(revision) = object.text("protocolVersion") {
        relay.client.set_revision(&revision);
    }
    let capabilities = object.get("capabilities").and_then(RawObject::parse).unwrap_or_default();
    let has = |name: &str| capabilities.get(name).is_some();
    relay.client.set_declared(Declared { tools: has("tools"), resources: has("resources") });
    if !relay.context_tools {
        return Vec::new();
    }
    let mut more = Vec::new();
    let mut edits = Vec::new();
    let missing = ["tools", "resources"].into_iter().filter(|name| !has(name));
    let members = capabilities.0.iter().map(|(name, value)| raw_object::member(name, value));
    let all = raw_object::object(members.chain(missing.map(|name| raw_object::member(name, "{}"))));
    match place.replace(object, "capabilities", all.clone()) {
        Some(edit) => edits.push(edit),
        None => more.push(format!(",\"capabilities\":{all}")),
    }
    let instructions = object.text("instructions").unwrap_or_default();
    let separator = if instructions.is_empty() { "" } else { "\n\n" };
    let extended = quoted(&format!("{instructions}{separator}{}", own::INSTRUCTIONS));
    match place.replace(object, "instructions", extended.clone()) {
        Some(edit) => edits.push(edit),
        None => more.push(format!(",\"instructions\":{extended}")),
    }
    if !more.is_empty() {
        edits.push(place.add(object, more.concat()));
    }
    edits
}

/// Adds our own rows to the last page of a list, edits the tools, and leaves out rows that an earlier
/// page has. The cursor of a next page that would lead nowhere is taken out.
fn listed(
    relay: &Relay,
    from: &Upstream,
    page: ListPage,
    object: &RawObject<'_>,
    place: &PlacedResult<'_>,
    own: Vec<String>,
) -> Vec<Edit> {
    let name = page.kind.member();
    let Some(rows) = object.get(name) else { return Vec::new() };
    if place.message.has_holes_in(&place.message.range_of(rows)) {
        return Vec::new();
    }
    let Some(listed) = elements(rows) else { return Vec::new() };
    let keys = listed.iter().map(|row| RawObject::parse(row)?.text(page.kind.key()));
    let keys: Vec<Option<Cow<'_, str>>> = keys.collect();
    let keys: Vec<Option<&str>> = keys.iter().map(Option::as_deref).collect();
    let next = object.text("nextCursor");
    let PageVerdict { shown, is_last } = from.pages.lock().take(page, &keys, next.as_deref());
    let row = |row: &RawValue| match page.kind {
        ListKind::Tools => tool(relay, from, row).unwrap_or_else(|| row.get().to_owned()),
        _ => row.get().to_owned(),
    };
    let shown = listed.iter().zip(shown).filter(|(_, shown)| *shown).map(|(listed, _)| row(listed));
    let all: Vec<String> = shown.chain(own.into_iter().filter(|_| is_last)).collect();
    let all = format!("[{}]", all.join(","));
    let mut edits: Vec<Edit> = place.replace(object, name, all).into_iter().collect();
    if is_last {
        let start = place.result.start;
        edits.extend(message::without_members(place.message, object, start, &["nextCursor"]));
    }
    edits
}

/// Returns the edited list entry of a tool, or `None` if the entry is unchanged. Removes
/// `outputSchema` if stand-ins would violate it. Renames a tool that has the name of one of the
/// gateway's own tools.
fn tool(relay: &Relay, from: &Upstream, row: &RawValue) -> Option<String> {
    let tool = RawObject::parse(row)?;
    let name = tool.text("name")?;
    let limits = relay.shelf.source.limits(&format!("{}/{name}", from.name));
    let schema = tool.get("outputSchema");
    let is_violated = limits.may_replace() && !relay.keeps_structure();
    let goes = schema.is_some_and(|schema| is_violated || is_foreign(relay, from, schema));
    let is_taken = relay.context_tools && context::NAMES.contains(&&*name);
    if !goes && !is_taken {
        return None;
    }
    let other = is_taken.then(|| from.other_name(&name));
    Some(tool_row(&tool, other.as_deref(), goes, None))
}

/// Returns the list entry of a tool or prompt. `other` and `meta` replace the name and `_meta` if
/// given. Removes `outputSchema` if `goes` is true.
pub(crate) fn tool_row(
    tool: &RawObject<'_>,
    other: Option<&str>,
    goes: bool,
    meta: Option<&str>,
) -> String {
    let member = |(key, value): &(Cow<'_, str>, &RawValue)| match (&**key, other) {
        ("outputSchema", _) if goes => None,
        ("name", Some(other)) => Some(raw_object::member("name", quoted(other))),
        ("_meta", _) if meta.is_some() => None,
        (key, _) => Some(raw_object::member(key, value)),
    };
    let meta = meta.map(|meta| raw_object::member("_meta", meta));
    raw_object::object(tool.0.iter().filter_map(member).chain(meta))
}

pub(crate) fn is_foreign(relay: &Relay, from: &Upstream, schema: &RawValue) -> bool {
    relay.client.mismatch(from.era.get()) == Some(EraMismatch::OldClient)
        && RawObject::parse(schema).and_then(|schema| schema.text("type")).as_deref()
            != Some("object")
}
