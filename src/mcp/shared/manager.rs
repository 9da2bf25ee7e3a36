//! The end of a session at a shared server, in place of a process of its own.

use std::sync::Arc;

use crate::line_reader::LongLines as _;
use crate::manager::{Inbox, Surroundings, end_late, until_stopped};
use crate::queue::Receiver;
use crate::shared::SharedServer;
use crate::shared::events::{Event, Events};
use crate::upstream::Upstream;

/// Stands between the upstream of a session and a shared server.
pub(crate) struct SharedManager<I> {
    upstream: Arc<Upstream>,
    server: Arc<SharedServer>,
    queue: Receiver,
    around: Surroundings<I>,
}

impl<I: Inbox> SharedManager<I> {
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        server: Arc<SharedServer>,
        queue: Receiver,
        around: Surroundings<I>,
    ) -> Self {
        Self { upstream, server, queue, around }
    }

    /// Sends what is queued, and hands over what comes, until the session ends.
    pub(crate) async fn run(self) {
        let Self { upstream, server, mut queue, around } = self;
        let mut stop = around.stop.clone();
        let (session, events) = server.join();
        upstream.began();
        let reading = hand_over(Arc::clone(&upstream), events, Arc::clone(&around.inbox));
        let reading = tokio::spawn(reading);
        let look = || look(&upstream, &server, &*around.inbox);
        let sending = send_all(&server, session, &mut queue);
        until_stopped(&upstream, &mut stop, sending, look).await;
        reading.abort();
        server.leave(session);
    }
}

/// Ends requests whose time is over. It stands still while a long message comes in.
fn look<I: Inbox>(upstream: &Arc<Upstream>, server: &SharedServer, inbox: &I) {
    if server.upstream.is_receiving() {
        upstream.begins();
    } else {
        upstream.ends();
    }
    end_late(upstream, inbox);
}

async fn send_all(server: &SharedServer, session: u64, queue: &mut Receiver) {
    while let Some(queued) = queue.next().await {
        server.forward(session, queued.message).await;
    }
}

async fn hand_over<I: Inbox>(upstream: Arc<Upstream>, mut events: Events, inbox: Arc<I>) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Line(line, _room) => {
                inbox.line(&upstream, line).await;
            }
            Event::Lost { number, why } => {
                if let Some(pending) = upstream.take(number) {
                    inbox.lost(&upstream, pending, &why).await;
                }
            }
            Event::Failed { numbers, why } => {
                let pending = numbers.into_iter().filter_map(|number| upstream.take(number));
                inbox.failed(&upstream, pending.collect(), &why).await;
            }
        }
    }
}
