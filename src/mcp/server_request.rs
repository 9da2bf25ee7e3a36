//! Requests of the gateway's own to a server.

use std::ops::Deref;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::bridge::crossing::Crossing;
use crate::bridge::request_meta::parameters_with;
use crate::envelope::{Envelope, error_in, raw};
use crate::manager::{cancelled, request};
use crate::message::Message;
use crate::pending::{Pending, PendingKind};
use crate::queue::Refused;
use crate::upstream::Upstream;

/// The most bytes of an answer that is read.
const MOST_BYTES: usize = 32 << 20;

/// A request.
pub(super) struct OwnRequest<'a> {
    pub(super) method: &'a str,
    /// Its parameters, a JSON object.
    pub(super) parameters: &'a str,
    /// The members of its `_meta`.
    pub(super) meta: Option<String>,
    pub(super) crossing: Option<Crossing>,
    pub(super) deadline: Option<Instant>,
}

impl<'a> OwnRequest<'a> {
    /// Returns a request as the server needs it.
    pub(super) fn new(upstream: &Upstream, method: &'a str, parameters: &'a str) -> Self {
        let (meta, deadline) = (upstream.meta(), upstream.deadline());
        Self { method, parameters, meta, crossing: None, deadline }
    }
}

/// A request that waits for its answer. If nobody waits for it any more, the server is told so.
pub(super) struct OpenRequest<U: Deref<Target = Upstream>> {
    upstream: U,
    pub(super) number: u64,
    method: String,
    answer: oneshot::Receiver<Result<Message, String>>,
}

/// Sends a request. The error says why it cannot be sent.
pub(super) fn open<U: Deref<Target = Upstream>>(
    upstream: U,
    own: OwnRequest<'_>,
) -> Result<OpenRequest<U>, String> {
    let (sender, answer) = oneshot::channel();
    let pending = Pending {
        client_id: None,
        kind: PendingKind::Own(sender),
        token: None,
        deadline: own.deadline,
        crossing: own.crossing.map(Box::new),
    };
    let parameters = match &own.meta {
        Some(meta) => parameters_with(own.parameters, meta),
        None => own.parameters.to_owned(),
    };
    let sent = upstream.request(pending, |id| request(id, own.method, &parameters).into());
    let number = sent.map_err(|refused| match refused {
        Refused::Full => "does not read its input".to_owned(),
        Refused::Closed => "is being stopped".to_owned(),
    })?;
    Ok(OpenRequest { upstream, number, method: own.method.to_owned(), answer })
}

impl<U: Deref<Target = Upstream>> OpenRequest<U> {
    /// Waits for the answer, or to hear why there is none.
    pub(super) async fn answer(mut self) -> Result<Message, String> {
        let answered = (&mut self.answer).await;
        answered.unwrap_or_else(|_| Err(format!("did not answer `{}`", self.method)))
    }
}

impl<U: Deref<Target = Upstream>> Drop for OpenRequest<U> {
    fn drop(&mut self) {
        // It is there as long as it is not answered and has not failed.
        if self.upstream.take(self.number).is_some() {
            self.upstream.notify(cancelled(self.number));
        }
    }
}

/// Asks a server. Returns its answer, or why there is none.
pub(super) async fn ask(
    upstream: &Upstream,
    method: &str,
    parameters: &str,
) -> Result<Message, String> {
    open(upstream, OwnRequest::new(upstream, method, parameters))?.answer().await
}

/// Asks a server, and returns the result as JSON.
pub(super) async fn result(
    upstream: &Upstream,
    method: &str,
    parameters: &str,
) -> Result<Box<RawValue>, String> {
    let message = ask(upstream, method, parameters).await?;
    result_of(message, method)
}

/// Returns the result in an answer, as JSON.
pub(super) fn result_of(message: Message, method: &str) -> Result<Box<RawValue>, String> {
    let message = message.filled(MOST_BYTES)?;
    let envelope = Envelope::of(&message).map_err(|_| format!("answered `{method}` wrongly"))?;
    let result = envelope.result().ok_or_else(|| refusal(&message, method))?;
    raw(&message, result).map(ToOwned::to_owned).ok_or_else(|| "answered no JSON".to_owned())
}

/// Returns what an answer says that is an error.
pub(super) fn refusal(message: &Message, method: &str) -> String {
    let error = error_in(message);
    let said = error.and_then(|error| error.text("message").map(std::borrow::Cow::into_owned));
    format!("refused `{method}`: {}", said.unwrap_or_default())
}

/// Returns the code of an answer that is an error.
pub(super) fn error_code(message: &Message) -> Option<i64> {
    error_in(message)?.get("code")?.get().parse().ok()
}
