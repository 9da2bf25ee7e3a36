//! Requests of the gateway's own to the client.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::manager::cancelled_because;
use crate::message::Message;
use crate::relay::{Asker, Relay};

/// Puts the request that `compose` makes with an id to the client, and waits for the answer; `None`
/// if the client is gone. If it is dropped before, the client is told so.
pub(super) async fn ask(
    relay: &Arc<Relay>,
    compose: impl FnOnce(u64) -> Vec<u8>,
) -> Option<Message> {
    let (sender, answer) = oneshot::channel();
    let id = relay.ask(Asker::Own(sender));
    let mut open = OpenQuestion { relay, id, is_open: true };
    relay.tell(compose(id)).await;
    let answer = answer.await;
    open.is_open = false;
    answer.ok()
}

/// A question that waits for its answer.
struct OpenQuestion<'a> {
    relay: &'a Arc<Relay>,
    id: u64,
    is_open: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        self.relay.answered(&self.id.to_string());
        let cancel = cancelled_because(self.id, "the answer is not needed any more");
        let relay = Arc::clone(self.relay);
        tokio::spawn(async move { relay.tell(cancel).await });
    }
}
