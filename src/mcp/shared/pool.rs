//! The shared servers of a gateway. A server starts with the first session that uses it and ends
//! with the gateway.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::json_rpc::{MessageKind, Parsed};
use crate::line_reader::LongLines as _;
use crate::manager::{Inbox, Manager, ManagerContext, end_late, until_stopped};
use crate::options::{ServerOptions, ServerPlace};
use crate::process::{Guard, ServerLog};
use crate::queue::{self, Queued, Receiver};
use crate::remote;
use crate::shared::{MAX_REQUESTS, SharedEvent, SharedEvents, SharedServer};
use crate::shelf::LazyShelf;
use crate::upstream::Upstream;

// Longer than any server takes to end.
const ENDING: Duration = Duration::from_secs(10);

pub(crate) struct SharedServers {
    guard: Arc<Guard>,
    log: ServerLog,
    most: u64,
    servers: Mutex<HashMap<String, Arc<SharedServer>>>,
    managers: Mutex<JoinSet<()>>,
    stop: watch::Sender<bool>,
}

impl SharedServers {
    pub(crate) fn new(guard: Arc<Guard>, log: ServerLog, most: u64) -> Self {
        let stop = watch::Sender::new(false);
        Self { guard, log, most, servers: Mutex::default(), managers: Mutex::default(), stop }
    }

    pub(crate) fn get(&self, server: &ServerOptions, shelf: &Arc<LazyShelf>) -> Arc<SharedServer> {
        let mut servers = self.servers.lock();
        if let Some(known) = servers.get(&server.name) {
            return Arc::clone(known);
        }
        let begun = self.begin(server, Arc::clone(shelf));
        servers.insert(server.name.clone(), Arc::clone(&begun));
        begun
    }

    fn begin(&self, server: &ServerOptions, shelf: Arc<LazyShelf>) -> Arc<SharedServer> {
        let (sender, queue) = queue::queue();
        // No timeout, because each session has its own deadlines.
        let upstream = Arc::new(Upstream::new(server.name.clone(), None, sender, self.log.clone()));
        let shared = Arc::new(SharedServer::new(Arc::clone(&upstream)));
        let context = ManagerContext {
            inbox: Arc::clone(&shared),
            shelf,
            guard: Arc::clone(&self.guard),
            log: self.log.clone(),
            stop: self.stop.subscribe(),
            most: self.most,
        };
        let mut managers = self.managers.lock();
        managers.spawn(run_server(server.place.clone(), upstream, queue, context));
        shared
    }

    pub(crate) async fn end(&self) {
        self.stop.send_replace(true);
        let mut managers = std::mem::take(&mut *self.managers.lock());
        let all = async { while managers.join_next().await.is_some() {} };
        timeout(ENDING, all).await.ok();
    }
}

pub(crate) async fn run_server<I: Inbox>(
    place: ServerPlace,
    upstream: Arc<Upstream>,
    queue: Receiver,
    context: ManagerContext<I>,
) {
    match place {
        ServerPlace::Command(command) => {
            Manager::new(upstream, command, queue, context).run().await;
        }
        ServerPlace::Remote(server) => remote::run(upstream, server, queue, context).await,
    }
}

/// Connects a session's upstream to a shared server, in place of a process. Returns when the
/// session ends.
pub(crate) async fn run_shared<I: Inbox>(
    upstream: Arc<Upstream>,
    server: Arc<SharedServer>,
    mut queue: Receiver,
    context: ManagerContext<I>,
) {
    let mut stop = context.stop.clone();
    let (session, events) = server.join();
    upstream.began();
    let reading = hand_over(Arc::clone(&upstream), events, Arc::clone(&context.inbox));
    let reading = tokio::spawn(reading);
    let look = || {
        upstream.arriving(server.upstream.is_receiving());
        end_late(&upstream, &*context.inbox);
        server.give_up(session, |number| upstream.waits_for(number));
    };
    let sending = send_all(&upstream, &server, session, &mut queue);
    until_stopped(&upstream, &mut stop, sending, look).await;
    reading.abort();
    server.leave(session);
}

/// Forwards the messages of a session. Requests wait for their turn, in order. Other messages pass
/// them, as a request may wait for one to end, or for the answer to a question of the server.
async fn send_all(upstream: &Upstream, server: &SharedServer, session: u64, queue: &mut Receiver) {
    let turns = Arc::new(Semaphore::new(MAX_REQUESTS));
    let mut waiting = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            Ok(turn) = Arc::clone(&turns).acquire_owned(), if !waiting.is_empty() => {
                let Some(Queued { message, .. }) = waiting.pop_front() else { continue };
                server.request((session, upstream), message, turn).await;
            }
            queued = queue.recv() => {
                let Some(queued) = queued else { return };
                let Ok(parsed) = Parsed::of(queued.message.outline()) else { continue };
                if let MessageKind::Request { .. } = parsed.envelope.kind {
                    waiting.push_back(queued);
                } else {
                    server.forward(session, &parsed, queued.message);
                }
            }
        }
    }
}

async fn hand_over<I: Inbox>(upstream: Arc<Upstream>, mut events: SharedEvents, inbox: Arc<I>) {
    while let Some(event) = events.recv().await {
        match event {
            SharedEvent::Line(line, _room) => {
                inbox.line(&upstream, line).await;
            }
            SharedEvent::Lost { number, why } => {
                if let Some(pending) = upstream.take(number) {
                    inbox.lost(&upstream, pending, &why).await;
                }
            }
            SharedEvent::Failed { numbers, why } => {
                let pending = numbers.into_iter().filter_map(|number| upstream.take(number));
                inbox.failed(&upstream, pending.collect(), &why).await;
            }
        }
    }
}
