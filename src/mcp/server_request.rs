//! Requests that the gateway itself sends to a server.

use std::ops::Deref;
use std::time::Instant;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::json_rpc::{Envelope, cancelled, error_in, raw, request};
use crate::message::Message;
use crate::pending::{PendingKind, PendingRequest, Translation};
use crate::queue::Refused;
use crate::raw_object::RawObject;
use crate::upstream::Upstream;

const MAX_BYTES: usize = 32 << 20;

/// A request of the gateway to a server. `parameters` is a JSON object. `meta` holds the members of
/// `_meta`, which servers of 2026-07-28 require.
pub(crate) struct OwnRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) parameters: &'a str,
    pub(crate) meta: Option<String>,
    pub(crate) translation: Option<Translation>,
    pub(crate) deadline: Option<Instant>,
}

impl<'a> OwnRequest<'a> {
    pub(crate) fn new(upstream: &Upstream, method: &'a str, parameters: &'a str) -> Self {
        let (meta, deadline) = (upstream.meta(), upstream.deadline());
        Self { method, parameters, meta, translation: None, deadline }
    }
}

/// A sent request of the gateway. Dropping it before the answer arrives cancels it at the server.
pub(crate) struct OpenRequest<U: Deref<Target = Upstream>> {
    upstream: U,
    pub(crate) number: u64,
    method: String,
    answer: oneshot::Receiver<Result<Message, String>>,
}

/// Sends a request of the gateway. Fails if the queue of the server is full or closed. The error
/// text is a predicate whose subject is the server: `is being stopped`.
pub(crate) fn open<U: Deref<Target = Upstream>>(
    upstream: U,
    own: OwnRequest<'_>,
) -> Result<OpenRequest<U>, String> {
    let (sender, answer) = oneshot::channel();
    let pending = PendingRequest {
        deadline: own.deadline,
        translation: own.translation.map(Box::new),
        ..PendingRequest::new(PendingKind::Own(sender))
    };
    let parameters = match &own.meta {
        Some(meta) => parameters_with(own.parameters, meta),
        None => own.parameters.to_owned(),
    };
    let sent = upstream.request(None, pending, |id| request(id, own.method, &parameters).into());
    let number = sent.map_err(|refused| match refused {
        Refused::Full => "does not read its input".to_owned(),
        Refused::Closed => "is being stopped".to_owned(),
    })?;
    Ok(OpenRequest { upstream, number, method: own.method.to_owned(), answer })
}

impl<U: Deref<Target = Upstream>> OpenRequest<U> {
    pub(crate) async fn answer(mut self) -> Result<Message, String> {
        let answered = (&mut self.answer).await;
        answered.unwrap_or_else(|_| Err(format!("did not answer `{}`", self.method)))
    }
}

impl<U: Deref<Target = Upstream>> Drop for OpenRequest<U> {
    fn drop(&mut self) {
        // The request is still present if it was neither answered nor failed.
        if self.upstream.take(self.number).is_some() {
            self.upstream.notify(cancelled(self.number));
        }
    }
}

pub(crate) async fn ask(
    upstream: &Upstream,
    method: &str,
    parameters: &str,
) -> Result<Message, String> {
    open(upstream, OwnRequest::new(upstream, method, parameters))?.answer().await
}

pub(crate) async fn result(
    upstream: &Upstream,
    method: &str,
    parameters: &str,
) -> Result<Box<RawValue>, String> {
    let message = ask(upstream, method, parameters).await?;
    result_of(message, method)
}

/// Returns the result in an answer, as JSON. The error text is a predicate whose subject is the
/// server: `refused ...`.
pub(crate) fn result_of(message: Message, method: &str) -> Result<Box<RawValue>, String> {
    let message = message.filled(MAX_BYTES)?;
    let envelope = Envelope::of(&message).map_err(|_| format!("answered `{method}` wrongly"))?;
    let result = envelope.result().ok_or_else(|| refusal(&message, method))?;
    raw(&message, result).map(ToOwned::to_owned).ok_or_else(|| "answered no JSON".to_owned())
}

pub(crate) fn refusal(message: &Message, method: &str) -> String {
    let error = error_in(message);
    let reason = error.and_then(|error| error.text("message").map(std::borrow::Cow::into_owned));
    format!("refused `{method}`: {}", reason.unwrap_or_default())
}

type OwnAnswer = oneshot::Receiver<Result<Message, String>>;

pub(crate) fn own_request(upstream: &Upstream) -> (u64, OwnAnswer) {
    let (sender, answer) = oneshot::channel();
    (upstream.expect(PendingRequest::new(PendingKind::Own(sender))), answer)
}

pub(crate) fn parameters_with(parameters: &str, members: &str) -> String {
    let is_empty = |object: RawObject<'_>| object.0.is_empty();
    let comma = if RawObject::of(parameters).is_none_or(is_empty) { "" } else { "," };
    let rest = parameters.trim_start().strip_prefix('{').unwrap_or("}");
    format!(r#"{{"_meta":{{{members}}}{comma}{rest}"#)
}
