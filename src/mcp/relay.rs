//! The state of a session: the client, the servers, and the state that they share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::client::ClientSession;
use crate::hub::Hub;
use crate::json_rpc::{self, failed_call};
use crate::options::GatewayOptions;
use crate::pending::{PendingKind, PendingRequest, ToolCall};
use crate::shelf::LazyShelf;
use crate::upstream::Upstream;
use ctxfs_core::model::{CallCounts, Counts};

// Maximum number of results stored and own tools called concurrently.
const MAX_CONCURRENT: usize = 4;

/// A session: one client, its servers, and the state that they share.
///
/// [`ClientSession`] represents the client, and an [`Upstream`] represents each server. The two do
/// not know each other. The modules for translation and for answers reach both through this type.
/// `questions` limits requests answered by a language model, separately from `work`, because they
/// can take minutes.
pub(crate) struct Relay {
    pub(crate) client: Arc<ClientSession>,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) hub: Option<Hub>,
    pub(crate) shelf: Arc<LazyShelf>,
    pub(crate) context_tools: bool,
    pub(crate) references: bool,
    pub(crate) max_binary: u64,
    keeps_structure: bool,
    pub(crate) work: Arc<Semaphore>,
    pub(crate) questions: Arc<Semaphore>,
}

impl Relay {
    pub(crate) fn new(
        shelf: Arc<LazyShelf>,
        upstreams: Vec<Arc<Upstream>>,
        options: &GatewayOptions,
        hub: Option<Hub>,
        client: ClientSession,
    ) -> Self {
        Self {
            client: Arc::new(client),
            upstreams,
            hub,
            shelf,
            context_tools: options.context_tools,
            references: options.references,
            max_binary: options.max_binary,
            keeps_structure: options.keeps_structure,
            work: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            questions: Arc::new(Semaphore::new(MAX_CONCURRENT)),
        }
    }

    /// Returns true if `structuredContent` stays in results, and `outputSchema` in lists of tools.
    /// Clients of revisions without structured content get stand-ins only.
    pub(crate) fn keeps_structure(&self) -> bool {
        // Links and structured content are in the protocol since the same revision.
        self.keeps_structure && self.client.knows_links()
    }

    /// Records a finished call in the conversation's counts, with the bytes received from the
    /// server and the bytes sent to the client.
    pub(crate) fn count(&self, call: &ToolCall, failed: bool, received: u64, given: u64) {
        let millis = u64::try_from(call.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let calls = CallCounts { times: 1, errors: u64::from(failed), millis, received, given };
        self.shelf.count(call.tool_name(), &Counts { calls, ..Counts::default() });
    }

    /// Fails a request that its server does not answer. A call gets a result marked as an error,
    /// which the model sees. Any other request gets a JSON-RPC error.
    pub(crate) async fn fail(&self, pending: PendingRequest, code: i32, text: &str) {
        let Some(id) = pending.client_id.clone() else {
            return self.client.held_call_ended(pending, Err((code, text.to_owned())));
        };
        self.client.end(&id);
        let message = match pending.kind {
            PendingKind::Call(call) => {
                let message = json_rpc::answer(&id, &self.client.own_result(failed_call(text)));
                self.count(&call, true, 0, message.len() as u64);
                message
            }
            _ => json_rpc::error(&id, code, text),
        };
        self.client.send(message).await;
    }

    /// Returns the only server. Returns `None` if a hub answers the client, or if there is no
    /// server.
    pub(crate) fn only(&self) -> Option<&Arc<Upstream>> {
        self.upstreams.first().filter(|_| self.hub.is_none())
    }

    pub(crate) fn index_of(&self, upstream: &Arc<Upstream>) -> usize {
        let is_it = |other: &Arc<Upstream>| Arc::ptr_eq(other, upstream);
        self.upstreams.iter().position(is_it).unwrap_or_default()
    }
}
