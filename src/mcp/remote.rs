//! A server over streamable HTTP, with the gateway as its client.
//!
//! Each message is sent as one HTTP request. A response is one message or a stream of events. Both
//! are read like the lines of a process, so a long message goes to a file.
//!
//! | module | content |
//! |---|---|
//! | `link` | sends messages, reads responses, and renews the session |
//! | `wire` | HTTP requests |
//! | `event_lines` | extracts the data of an event stream |

pub(crate) mod event_lines;
pub(crate) mod link;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::json_rpc::cancelled;
use crate::manager::{CANCEL_TIME, Inbox, ManagerContext, end_late, stopped, until_stopped};
use crate::options::RemoteServer;
use crate::queue::Receiver;
use crate::remote::link::Link;
use crate::remote::wire::{RequestHead, Wire};
use crate::upstream::Upstream;

// Maximum time for ending the session.
const SESSION_END_TIME: Duration = Duration::from_secs(2);

type RunningRequests = Mutex<JoinSet<()>>;

/// Sends queued messages until the gateway stops. If the server cannot be contacted at all, fails
/// every request instead.
pub(crate) async fn run<I: Inbox>(
    upstream: Arc<Upstream>,
    server: RemoteServer,
    queue: Receiver,
    context: ManagerContext<I>,
) {
    match Wire::new(&server) {
        Ok(wire) => serve(upstream, wire, queue, context).await,
        Err(why) => refuse_all(&upstream, queue, context, &why).await,
    }
}

async fn refuse_all<I: Inbox>(
    upstream: &Arc<Upstream>,
    mut queue: Receiver,
    mut context: ManagerContext<I>,
    why: &str,
) {
    context.log.write(&upstream.name, why);
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut context.stop) => return,
            queued = queue.recv() => {
                let Some(queued) = queued else { return };
                let number = RequestHead::of(&queued.message).and_then(|head| head.number);
                if let Some(pending) = number.and_then(|number| upstream.take(number)) {
                    context.inbox.lost(upstream, pending, why).await;
                }
            }
        }
    }
}

async fn serve<I: Inbox>(
    upstream: Arc<Upstream>,
    wire: Wire,
    mut queue: Receiver,
    context: ManagerContext<I>,
) {
    let mut stop = context.stop.clone();
    let inbox = Arc::clone(&context.inbox);
    let link = Arc::new(Link::new(Arc::clone(&upstream), wire, context));
    let running = RunningRequests::default();
    let look = || {
        end_late(&upstream, &*inbox);
        let mut running = running.lock();
        while running.try_join_next().is_some() {}
    };
    let sending = send_all(&link, &mut queue, &running);
    until_stopped(&upstream, &mut stop, sending, look).await;
    timeout(CANCEL_TIME, cancel_all(&link, &upstream)).await.ok();
    timeout(SESSION_END_TIME, link.end()).await.ok();
}

async fn send_all<I: Inbox>(link: &Arc<Link<I>>, queue: &mut Receiver, running: &RunningRequests) {
    while let Some(queued) = queue.recv().await {
        let Some(head) = RequestHead::of(&queued.message) else { continue };
        match head.number {
            Some(number) => {
                let request = Arc::clone(link).request(queued, head, number);
                running.lock().spawn(request);
            }
            None if head.is("notifications/cancelled") => {
                let link = Arc::clone(link);
                running.lock().spawn(async move { link.notify(&queued.message, &head).await });
            }
            None => link.notify(&queued.message, &head).await,
        }
    }
}

async fn cancel_all<I: Inbox>(link: &Arc<Link<I>>, upstream: &Upstream) {
    for number in upstream.waiting() {
        let message = cancelled(number).into();
        if let Some(head) = RequestHead::of(&message) {
            link.notify(&message, &head).await;
        }
    }
}
