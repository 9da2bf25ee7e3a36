//! A server over HTTP: the streamable transport of MCP, as its client.
//!
//! Each message is a request of its own. What comes back, as one message or as a stream of events,
//! goes the way of the lines of a process: long ones to a file.
//!
//! | module | content |
//! |---|---|
//! | `address` | where it is |
//! | `link` | messages and their answers, the session, what is done when it is lost |
//! | `wire` | requests over HTTP |
//! | `head` | what a request says of the message in it |
//! | `event_lines` | the data of a stream of events |
//! | `long` | long messages, of which several may come at once |

mod address;
pub(super) mod event_lines;
mod head;
mod link;
mod long;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use address::RemoteServer;

use crate::manager::{FAREWELL, Inbox, Surroundings, cancelled, end_late, stopped, until_stopped};
use crate::queue::Receiver;
use crate::remote::head::Head;
use crate::remote::link::Link;
use crate::remote::wire::Wire;
use crate::upstream::Upstream;

/// The time for the end of the session.
const GOODBYE: Duration = Duration::from_secs(2);

/// The manager of a server over HTTP.
pub(super) struct RemoteManager<I> {
    upstream: Arc<Upstream>,
    server: RemoteServer,
    queue: Receiver,
    around: Surroundings<I>,
}

/// The requests that are under way.
type Running = Mutex<JoinSet<()>>;

impl<I: Inbox> RemoteManager<I> {
    pub(super) fn new(
        upstream: Arc<Upstream>,
        server: RemoteServer,
        queue: Receiver,
        around: Surroundings<I>,
    ) -> Self {
        Self { upstream, server, queue, around }
    }

    /// Sends what is queued until the gateway stops.
    pub(super) async fn run(self) {
        match Wire::new(&self.server) {
            Ok(wire) => self.serve(wire).await,
            Err(why) => self.refuse(&why).await,
        }
    }

    /// Fails every request to a server that cannot be talked to.
    async fn refuse(mut self, why: &str) {
        self.around.log.say(&self.upstream.name, why);
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.around.stop) => return,
                queued = self.queue.next() => {
                    let Some(queued) = queued else { return };
                    let number = Head::of(&queued.message).and_then(|head| head.number);
                    if let Some(pending) = number.and_then(|number| self.upstream.take(number)) {
                        self.around.inbox.lost(&self.upstream, pending, why).await;
                    }
                }
            }
        }
    }

    async fn serve(self, wire: Wire) {
        let Self { upstream, mut queue, around, .. } = self;
        let mut stop = around.stop.clone();
        let inbox = Arc::clone(&around.inbox);
        let link = Arc::new(Link::new(Arc::clone(&upstream), wire, around));
        let running = Running::default();
        let look = || {
            end_late(&upstream, &*inbox);
            let mut running = running.lock();
            while running.try_join_next().is_some() {}
        };
        let sending = send_all(&link, &mut queue, &running);
        until_stopped(&upstream, &mut stop, sending, look).await;
        timeout(FAREWELL, cancel_all(&link, &upstream)).await.ok();
        timeout(GOODBYE, link.end()).await.ok();
    }
}

/// Sends what is queued: requests and cancellations side by side, and all else in its order.
async fn send_all<I: Inbox>(link: &Arc<Link<I>>, queue: &mut Receiver, running: &Running) {
    while let Some(queued) = queue.next().await {
        let Some(head) = Head::of(&queued.message) else { continue };
        match head.number {
            Some(number) => {
                let request = Arc::clone(link).request(queued, head, number);
                running.lock().spawn(request);
            }
            None if head.is("notifications/cancelled") => {
                let link = Arc::clone(link);
                running.lock().spawn(async move { link.tell(&queued.message, &head).await });
            }
            None => link.tell(&queued.message, &head).await,
        }
    }
}

/// Tells a server that nobody waits for it any more.
async fn cancel_all<I: Inbox>(link: &Arc<Link<I>>, upstream: &Upstream) {
    for number in upstream.waiting() {
        let message = cancelled(number).into();
        if let Some(head) = Head::of(&message) {
            link.tell(&message, &head).await;
        }
    }
}
