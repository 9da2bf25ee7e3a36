//! The shared servers of a gateway. A server starts with the first session that uses it and ends
//! with the gateway.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::json_rpc::{MessageKind, Parsed, request_id};
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

/// A request that waits for its turn. `is_timed` is true if its deadline starts with the turn.
struct WaitingRequest {
    queued: Queued,
    is_timed: bool,
}

/// Forwards the messages of a session. Requests wait for their turn, in the order of their numbers.
/// Other messages pass them, as a request may wait for one to end, or for the answer to a question
/// of the server.
async fn send_all(upstream: &Upstream, server: &SharedServer, session: u64, queue: &mut Receiver) {
    let turns = Arc::new(Semaphore::new(MAX_REQUESTS));
    let mut waiting = BTreeMap::new();
    loop {
        tokio::select! {
            biased;
            Ok(turn) = Arc::clone(&turns).acquire_owned(), if !waiting.is_empty() => {
                let Some((number, WaitingRequest { queued, is_timed })) = waiting.pop_first() else {
                    continue;
                };
                if is_timed {
                    upstream.start_deadline(number);
                }
                server.request((session, upstream), queued.message, turn).await;
            }
            queued = queue.recv() => {
                let Some(queued) = queued else { return };
                let Ok(parsed) = Parsed::of(queued.message.outline()) else { continue };
                if let MessageKind::Request { .. } = parsed.envelope.kind {
                    let number = parsed.envelope.id(&parsed.message);
                    let Some(number) = number.and_then(|id| id.parse().ok()) else { continue };
                    let is_timed = upstream.stop_deadline(number);
                    waiting.insert(number, WaitingRequest { queued, is_timed });
                } else {
                    if let Some(number) = cancelled_number(&parsed) {
                        waiting.remove(&number);
                    }
                    server.forward(session, &parsed, queued.message);
                }
            }
        }
    }
}

fn cancelled_number(parsed: &Parsed) -> Option<u64> {
    let MessageKind::Notification { method } = &parsed.envelope.kind else { return None };
    let (id, _) = request_id(&parsed.envelope, &parsed.message)?;
    id.parse().ok().filter(|_| method == "notifications/cancelled")
}

async fn hand_over<I: Inbox>(upstream: Arc<Upstream>, mut events: SharedEvents, inbox: Arc<I>) {
    while let Some(event) = events.recv().await {
        match event {
            SharedEvent::Line(line, _room, _turn) => {
                inbox.line(&upstream, line).await;
            }
            SharedEvent::Lost { number, why, turn: _turn } => {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use tokio::time::sleep;

    use super::*;
    use crate::json_rpc;
    use crate::line_reader::InputLine;
    use crate::message::Message;
    use crate::pending::{PendingKind, PendingRequest};

    const REQUESTS: usize = 3 * 1024;
    const SLEEP: Duration = Duration::from_millis(300);

    /// A session that sleeps before it takes its first answer.
    #[derive(Default)]
    struct LateReader {
        answered: AtomicUsize,
        lost: AtomicUsize,
    }

    impl Inbox for LateReader {
        async fn line(&self, of: &Arc<Upstream>, line: InputLine) -> bool {
            if self.answered.load(Relaxed) == 0 {
                sleep(SLEEP).await;
            }
            let InputLine::Message(message) = line else { return true };
            let parsed = Parsed::of(message).unwrap();
            let id = parsed.envelope.id(&parsed.message).unwrap();
            assert!(of.take_answered(id).is_some(), "{id}");
            self.answered.fetch_add(1, Relaxed);
            true
        }

        fn late(&self, _: &Arc<Upstream>, _: Vec<(u64, PendingRequest)>) {}

        async fn lost(&self, _: &Arc<Upstream>, _: PendingRequest, _: &str) {
            self.lost.fetch_add(1, Relaxed);
        }

        async fn failed(&self, _: &Arc<Upstream>, lost: Vec<PendingRequest>, _: &str) {
            self.lost.fetch_add(lost.len(), Relaxed);
        }
    }

    fn upstream(name: &str) -> (Arc<Upstream>, Receiver) {
        let (sender, queue) = queue::queue();
        let upstream = Upstream::new(name.to_owned(), None, sender, ServerLog::unread());
        (Arc::new(upstream), queue)
    }

    #[tokio::test]
    async fn a_session_that_reads_late_loses_no_answer() {
        let (of_server, mut to_server) = upstream("shared");
        let (of_session, mut of_client) = upstream("session");
        let server = Arc::new(SharedServer::new(of_server));
        let (session, events) = server.join();
        let inbox = Arc::new(LateReader::default());
        let answers_at_once = async {
            while let Some(Queued { message, .. }) = to_server.recv().await {
                let parsed = Parsed::of(message.outline()).unwrap();
                let answer = json_rpc::answer(parsed.envelope.id(&parsed.message).unwrap(), "{}");
                let line = InputLine::Message(Message::whole(answer));
                server.line(&server.upstream, line).await;
            }
        };
        for _ in 0..REQUESTS {
            let pending = PendingRequest::new(PendingKind::Relay);
            let request = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into();
            of_session.request(None, pending, request).unwrap();
        }
        let all_ended = async {
            while !of_session.waiting().is_empty() {
                sleep(SLEEP / 10).await;
            }
        };
        tokio::select! {
            () = answers_at_once => {}
            () = send_all(&of_session, &server, session, &mut of_client) => {}
            () = hand_over(Arc::clone(&of_session), events, Arc::clone(&inbox)) => {}
            () = all_ended => {}
            () = sleep(100 * SLEEP) => panic!("{} requests wait", of_session.waiting().len()),
        }
        assert_eq!((inbox.answered.load(Relaxed), inbox.lost.load(Relaxed)), (REQUESTS, 0));
    }
}
