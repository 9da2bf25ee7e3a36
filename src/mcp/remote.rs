//! A server over streamable HTTP; the gateway is its client.
//!
//! Each message is one request. Responses, whether one message or a stream of events, are read like the
//! lines of a process, so long ones go to a file.
//!
//! | module | content |
//! |---|---|
//! | `link` | messages and their responses, the session, and its renewal |
//! | `wire` | HTTP requests |
//! | `event_lines` | the data of a stream of events |

pub(crate) mod event_lines;
pub(crate) mod link;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::json_rpc::cancelled;
use crate::manager::{FAREWELL, Inbox, ManagerContext, end_late, stopped, until_stopped};
use crate::options::RemoteServer;
use crate::queue::Receiver;
use crate::remote::link::Link;
use crate::remote::wire::{RequestHead, Wire};
use crate::upstream::Upstream;

// How long the end of the session may take.
const GOODBYE: Duration = Duration::from_secs(2);

pub(crate) struct RemoteManager<I> {
    upstream: Arc<Upstream>,
    server: RemoteServer,
    queue: Receiver,
    around: ManagerContext<I>,
}

type Running = Mutex<JoinSet<()>>;

impl<I: Inbox> RemoteManager<I> {
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        server: RemoteServer,
        queue: Receiver,
        around: ManagerContext<I>,
    ) -> Self {
        Self { upstream, server, queue, around }
    }

    pub(crate) async fn run(self) {
        match Wire::new(&self.server) {
            Ok(wire) => self.serve(wire).await,
            Err(why) => self.refuse(&why).await,
        }
    }

    async fn refuse(mut self, why: &str) {
        self.around.log.say(&self.upstream.name, why);
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.around.stop) => return,
                queued = self.queue.next() => {
                    let Some(queued) = queued else { return };
                    let number = RequestHead::of(&queued.message).and_then(|head| head.number);
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

async fn send_all<I: Inbox>(link: &Arc<Link<I>>, queue: &mut Receiver, running: &Running) {
    while let Some(queued) = queue.next().await {
        let Some(head) = RequestHead::of(&queued.message) else { continue };
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

async fn cancel_all<I: Inbox>(link: &Arc<Link<I>>, upstream: &Upstream) {
    for number in upstream.waiting() {
        let message = cancelled(number).into();
        if let Some(head) = RequestHead::of(&message) {
            link.tell(&message, &head).await;
        }
    }
}
