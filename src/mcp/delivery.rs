//! The answers of servers on their way to the client.

use std::ops::Range;
use std::sync::Arc;

use crate::envelope::Envelope;
use crate::message::{Edit, Message, Outgoing};
use crate::pending::{Pending, PendingKind};
use crate::relay::{INTERNAL_ERROR, Relay};
use crate::upstream::Upstream;
use crate::{listing, own, results};

/// An answer.
pub(super) struct Answer {
    /// The id that the client gave the request, as written.
    pub(super) client_id: String,
    pub(super) kind: PendingKind,
    pub(super) envelope: Envelope,
    pub(super) message: Message,
    /// The members, each with a comma, that a result gets in front which is not in memory.
    pub(super) first: &'static str,
}

/// An answer as it came from its server.
pub(super) struct ServerAnswer {
    pub(super) from: Arc<Upstream>,
    pub(super) pending: Pending,
    pub(super) envelope: Envelope,
    pub(super) message: Message,
}

/// Hands an answer to the client.
pub(super) async fn deliver(relay: &Arc<Relay>, from: &Arc<Upstream>, answer: Answer) {
    let Answer { client_id, kind, envelope, message, first } = answer;
    let Some(id) = envelope.id.clone() else { return };
    let result = envelope.result();
    if let (PendingKind::Call(call), None) = (&kind, &result) {
        relay.count(call, true, message.length(), message.length());
    }
    match (kind, result) {
        (PendingKind::Call(call), Some(result)) => {
            let (call, max_binary) = (*call, relay.max_binary);
            let answered =
                results::Answered { call, client_id, id, result, message, max_binary, first };
            of_call(relay, answered).await;
        }
        (kind @ (PendingKind::Handshake | PendingKind::Listing(_)), Some(result)) => {
            let rows = own_rows(relay, &kind).await;
            relay.end(&client_id);
            let edits = listing::edits(relay, from, &kind, rows, &message, result);
            let id = Edit { range: id, with: client_id.into_bytes() };
            let mut edits: Vec<Edit> = edits.into_iter().chain([id]).collect();
            edits.sort_by_key(|edit| edit.range.start);
            relay.tell(message.edited(edits)).await;
        }
        (_, result) => {
            relay.end(&client_id);
            relay.tell(passed(message, id, client_id, result, first)).await;
        }
    }
}

/// Hands an answer with `edits` to the client.
pub(super) async fn deliver_changed(
    relay: &Arc<Relay>,
    answer: ServerAnswer,
    edits: Vec<Edit>,
    first: &'static str,
) {
    let ServerAnswer { from, pending, mut envelope, mut message } = answer;
    let Pending { client_id: Some(client_id), kind, .. } = pending else { return };
    if !edits.is_empty() {
        message = message.rewritten(edits);
        let Ok(changed) = Envelope::of(&message) else { return };
        envelope = changed;
    }
    deliver(relay, &from, Answer { client_id, kind, envelope, message, first }).await;
}

/// Hands the result of a tool to the client: at once if it is short.
async fn of_call(relay: &Arc<Relay>, answered: results::Answered) {
    let received = answered.message.length();
    if !results::may_be_long(&relay.shelf, &answered) {
        relay.end(&answered.client_id);
        relay.count(&answered.call, answered.is_error(), received, received);
        let results::Answered { client_id, id, result, message, first, .. } = answered;
        return relay.tell(passed(message, id, client_id, Some(result), first)).await;
    }
    let relay = Arc::clone(relay);
    let Ok(turn) = Arc::clone(&relay.work).acquire_owned().await else { return };
    tokio::spawn(async move {
        let shelf = Arc::clone(&relay.shelf);
        let (client_id, call) = (answered.client_id.clone(), answered.call.clone());
        let treated = tokio::task::spawn_blocking(move || {
            let failed = answered.is_error();
            (results::treat(&shelf, answered), failed)
        });
        let treated = treated.await;
        drop(turn);
        if let Ok((message, failed)) = &treated {
            relay.count(&call, *failed, received, message.length());
        }
        // A call that was cancelled meanwhile has no answer.
        if relay.end(&client_id).is_none() {
            return;
        }
        match treated {
            Ok((message, _)) => relay.tell(message).await,
            Err(_) => relay.error(&client_id, INTERNAL_ERROR, "a fault of the gateway").await,
        }
    });
}

/// Returns an answer with the id of the client.
fn passed(
    message: Message,
    id: Range<usize>,
    client_id: String,
    result: Option<Range<usize>>,
    first: &str,
) -> Outgoing {
    let id = Edit { range: id, with: client_id.into_bytes() };
    match result {
        Some(result) if !first.is_empty() => message.edited_on_disk(id, result.start, first),
        _ => message.edited(vec![id]),
    }
}

/// Returns what the gateway adds to a listing.
async fn own_rows(relay: &Arc<Relay>, kind: &PendingKind) -> Vec<String> {
    let PendingKind::Listing(kind) = *kind else { return Vec::new() };
    if !relay.context_tools {
        return Vec::new();
    }
    let relay = Arc::clone(relay);
    tokio::task::spawn_blocking(move || own::rows(&relay.shelf, kind)).await.unwrap_or_default()
}
