//! Requests of the gateway's own to a server.

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::mcp::envelope::Envelope;
use crate::mcp::envelope::Kind;
use crate::mcp::envelope::raw;
use crate::mcp::manager::request;
use crate::mcp::message::Message;
use crate::mcp::pending::Pending;
use crate::mcp::pending::PendingKind;
use crate::mcp::queue::Refused;
use crate::mcp::raw_object::RawObject;
use crate::mcp::upstream::Upstream;

/// The most bytes of an answer that is read.
const MOST_BYTES: usize = 32 << 20;

/// Asks a server. Returns its answer, or why there is none.
pub(super) async fn ask(
    upstream: &Upstream,
    method: &str,
    parameters: &str,
) -> Result<Message, String> {
    let (sender, answer) = oneshot::channel();
    let kind = PendingKind::Own(sender);
    let pending = Pending { client_id: None, kind, token: None, deadline: upstream.deadline() };
    let sent = upstream.request(pending, |id| request(id, method, parameters).into());
    let id = sent.map_err(|refused| match refused {
        Refused::Full => "does not read its input".to_owned(),
        Refused::Closed => "is being stopped".to_owned(),
    })?;
    let open = OpenRequest { upstream, id };
    let answered = answer.await;
    drop(open);
    answered.unwrap_or_else(|_| Err(format!("did not answer `{method}`")))
}

/// A request that waits for its answer. If nobody waits for it any more, the server is told so.
struct OpenRequest<'a> {
    upstream: &'a Upstream,
    id: u64,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        // It is there as long as it is not answered and has not failed.
        if self.upstream.take(self.id).is_some() {
            let cancel = serde_json::json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled",
                "params": {"requestId": self.id},
            });
            self.upstream.notify(cancel.to_string().into_bytes());
        }
    }
}

/// Asks a server, and returns the result as JSON.
pub(super) async fn result(
    upstream: &Upstream,
    method: &str,
    parameters: &str,
) -> Result<Box<RawValue>, String> {
    let message = ask(upstream, method, parameters).await?.filled(MOST_BYTES)?;
    let envelope = Envelope::of(&message).map_err(|_| format!("answered `{method}` wrongly"))?;
    match envelope.kind {
        Kind::Response { result: Some(result) } => raw(&message, result)
            .map(ToOwned::to_owned)
            .ok_or_else(|| "answered no JSON".to_owned()),
        _ => Err(refusal(&message, method)),
    }
}

/// Returns what an answer says that is an error.
pub(super) fn refusal(message: &Message, method: &str) -> String {
    let parsed: Option<RawObject<'_>> = serde_json::from_str(message.text()).ok();
    let error = parsed.and_then(|message| RawObject::parse(message.get("error")?));
    let said = error.and_then(|error| error.text("message").map(std::borrow::Cow::into_owned));
    format!("refused `{method}`: {}", said.unwrap_or_default())
}
