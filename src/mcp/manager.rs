//! The life of a server: started at the first message for it, ended with the gateway, started again
//! at the next message after it died.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::guard::Guard;
use crate::line_reader::{Line, LineReader};
use crate::message::{Message, Outgoing};
use crate::pending::{Pending, PendingKind};
use crate::process::{ServerCommand, ServerPipes, ServerProcess};
use crate::queue::{Queued, Receiver};
use crate::server_log::ServerLog;
use crate::shelf::LazyShelf;
use crate::upstream::{Handshake, Upstream};

/// The time between looks for requests whose time is over.
const TICK: Duration = Duration::from_millis(200);
/// The pause after a start that failed. It doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The time for the answer to `initialize` when a server is started again.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(30);
/// The time in which a server is told that its calls are cancelled.
pub(super) const FAREWELL: Duration = Duration::from_millis(200);
/// The time for what a server has said last.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The receiver of what servers say.
pub(super) trait Inbox: Send + Sync + 'static {
    /// Takes a line. Returns false if the server should be started again.
    fn line(&self, from: &Arc<Upstream>, line: Line) -> impl Future<Output = bool> + Send;

    /// Ends requests whose time is over.
    fn late(&self, of: &Arc<Upstream>, late: Vec<(u64, Pending)>);

    /// Ends a request that nobody answers any more, while others go on.
    fn lost(
        &self,
        of: &Arc<Upstream>,
        pending: Pending,
        why: &str,
    ) -> impl Future<Output = ()> + Send;

    /// Ends requests that nobody answers any more.
    fn failed(
        &self,
        of: &Arc<Upstream>,
        pending: Vec<Pending>,
        why: &str,
    ) -> impl Future<Output = ()> + Send;
}

/// The parts that all managers share.
pub(super) struct Surroundings<I> {
    pub(super) inbox: Arc<I>,
    pub(super) shelf: Arc<LazyShelf>,
    pub(super) guard: Arc<Guard>,
    pub(super) log: ServerLog,
    pub(super) stop: watch::Receiver<bool>,
    /// The most bytes of a message.
    pub(super) most: u64,
}

/// The manager of a server.
pub(super) struct Manager<I> {
    upstream: Arc<Upstream>,
    command: ServerCommand,
    queue: Receiver,
    around: Surroundings<I>,
    failures: u32,
    not_before: Option<Instant>,
}

/// The reason why a server is no longer talked to.
enum Ending {
    Stop,
    /// Its output ended, or it said too much that is no message.
    Output(&'static str),
    Input,
}

impl<I: Inbox> Manager<I> {
    pub(super) fn new(
        upstream: Arc<Upstream>,
        command: ServerCommand,
        queue: Receiver,
        around: Surroundings<I>,
    ) -> Self {
        Self { upstream, command, queue, around, failures: 0, not_before: None }
    }

    /// Manages the server until the gateway stops.
    pub(super) async fn run(mut self) {
        while let Some(first) = self.first().await {
            if let Some(pause) = self.pause() {
                let why = format!("failed to start; the next try is in {} s", pause.as_secs() + 1);
                self.fail(&why).await;
                continue;
            }
            let started = ServerProcess::start(&self.command, &self.around.guard);
            match started {
                Ok((process, pipes)) => {
                    self.not_before = None;
                    self.serve(process, pipes, first).await;
                }
                Err(error) => {
                    let program = self.command.program.to_string_lossy();
                    let why = format!("cannot be started: `{program}`: {error}");
                    self.failed_to_start();
                    self.fail(&why).await;
                }
            }
        }
    }

    /// Waits for a message for the server; `None` if the gateway stops.
    async fn first(&mut self) -> Option<Queued> {
        tokio::select! {
            biased;
            () = stopped(&mut self.around.stop) => None,
            first = self.queue.next() => first,
        }
    }

    fn pause(&self) -> Option<Duration> {
        let pause = self.not_before?.saturating_duration_since(Instant::now());
        Some(pause).filter(|pause| !pause.is_zero())
    }

    fn failed_to_start(&mut self) {
        let pause = FIRST_PAUSE * 2u32.saturating_pow(self.failures.min(10));
        self.failures += 1;
        self.not_before = Some(Instant::now() + pause.min(LONGEST_PAUSE));
    }

    async fn fail(&mut self, why: &str) {
        self.around.log.say(&self.upstream.name, why);
        let pending = self.upstream.ended(&mut self.queue);
        if *self.around.stop.borrow() {
            return;
        }
        self.around.inbox.failed(&self.upstream, pending, why).await;
    }

    async fn serve(&mut self, process: ServerProcess, pipes: ServerPipes, first: Queued) {
        let ServerPipes { mut input, output, errors } = pipes;
        self.upstream.began();
        let log = self.around.log.clone();
        tokio::spawn(log.copy(self.upstream.name.clone(), errors));
        let shelf = Arc::clone(&self.around.shelf);
        let lines = LineReader::new(output, shelf, self.around.most);
        let inbox = Arc::clone(&self.around.inbox);
        let said = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut reader =
            tokio::spawn(read(Arc::clone(&self.upstream), lines, inbox, Arc::clone(&said)));
        let ending = self.talk(&mut input, &mut reader, first).await;
        let stop = matches!(ending, Ending::Stop);
        if stop {
            timeout(FAREWELL, cancel_all(&self.upstream, &mut input)).await.ok();
        }
        drop(input);
        let output_ended = matches!(ending, Ending::Output(_));
        if !stop && !output_ended {
            timeout(LAST_WORDS, &mut reader).await.ok();
        }
        let status = process.end().await;
        reader.abort();
        if said.load(std::sync::atomic::Ordering::Relaxed) {
            self.failures = 0;
        } else if !stop {
            self.failed_to_start();
        }
        let how = match (ending, status) {
            (Ending::Output(why), _) if !why.is_empty() => why.to_owned(),
            (_, Ok(status)) => format!("ended ({status})"),
            (_, Err(error)) => format!("ended ({error})"),
        };
        self.fail(&how).await;
    }

    /// Sends what is queued until the server or the gateway ends.
    async fn talk(
        &mut self,
        input: &mut ChildStdin,
        reader: &mut JoinHandle<&'static str>,
        first: Queued,
    ) -> Ending {
        let handshake = self.upstream.handshake();
        let writing = write(&self.upstream, handshake, &mut self.queue, input, first);
        let talk = async {
            tokio::select! {
                biased;
                why = reader => Ending::Output(why.unwrap_or("failed")),
                _ = writing => Ending::Input,
            }
        };
        let look = || end_late(&self.upstream, &*self.around.inbox);
        until_stopped(&self.upstream, &mut self.around.stop, talk, look)
            .await
            .unwrap_or(Ending::Stop)
    }
}

/// Does `work`, and looks from time to time while requests wait for an answer. Returns its outcome;
/// `None` if the gateway stops before.
pub(super) async fn until_stopped<T>(
    upstream: &Upstream,
    stop: &mut watch::Receiver<bool>,
    work: impl Future<Output = T>,
    mut look: impl FnMut(),
) -> Option<T> {
    let mut work = pin!(work);
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopped(stop) => return None,
            done = &mut work => return Some(done),
            () = look_due(upstream, &mut tick) => look(),
        }
    }
}

/// Ends the requests whose time is over.
pub(super) fn end_late<I: Inbox>(upstream: &Arc<Upstream>, inbox: &I) {
    let late = upstream.take_late();
    if !late.is_empty() {
        inbox.late(upstream, late);
    }
}

/// Tells a server that nobody waits for it any more.
async fn cancel_all(upstream: &Upstream, input: &mut ChildStdin) -> io::Result<()> {
    for id in upstream.waiting() {
        line(cancelled(id).into(), input).await?;
    }
    Ok(())
}

/// The notification that a session begins.
pub(super) const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Returns the notification that nobody waits for a request.
pub(super) fn cancelled(id: u64) -> Vec<u8> {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
    .into_bytes()
}

/// Returns the same with the reason.
pub(super) fn cancelled_because(id: u64, reason: &str) -> Vec<u8> {
    let params = json!({"requestId": id, "reason": reason});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        .to_string()
        .into_bytes()
}

/// Waits until the gateway is to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone stops too.
    stop.wait_for(|stop| *stop).await.ok();
}

/// Waits until it is time to look for requests whose time is over, if there are any requests.
async fn look_due(upstream: &Upstream, tick: &mut tokio::time::Interval) {
    upstream.is_busy().await;
    tick.tick().await;
}

/// Hands over the lines of a server. Returns why it stopped before their end, if it did.
async fn read<I: Inbox>(
    upstream: Arc<Upstream>,
    mut lines: LineReader<tokio::process::ChildStdout>,
    inbox: Arc<I>,
    said: Arc<std::sync::atomic::AtomicBool>,
) -> &'static str {
    while let Ok(Some(line)) = lines.next(&*upstream).await {
        if matches!(line, Line::Message(_)) {
            said.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        if !inbox.line(&upstream, line).await {
            return "sent too many messages that are not JSON";
        }
        // A line that is no message waits for nothing.
        tokio::task::consume_budget().await;
    }
    ""
}

/// Writes to a server what is queued, for as long as it takes it.
async fn write(
    upstream: &Upstream,
    handshake: Handshake,
    queue: &mut Receiver,
    input: &mut ChildStdin,
    first: Queued,
) -> io::Result<()> {
    if handshake.is_done
        && let Some(parameters) = &handshake.initialize
    {
        initialize_again(upstream, parameters, input).await?;
        if let Some(level) = &handshake.level {
            let (id, _answer) = own_request(upstream);
            let text = request(id, "logging/setLevel", level);
            line(text.into(), input).await?;
        }
    }
    write_queued(first, input).await?;
    while let Some(next) = queue.next().await {
        write_queued(next, input).await?;
    }
    Ok(())
}

/// Writes a message, whose room in the queue is free again then.
async fn write_queued(queued: Queued, input: &mut ChildStdin) -> io::Result<()> {
    line(queued.message, input).await
}

async fn initialize_again(
    upstream: &Upstream,
    parameters: &str,
    input: &mut ChildStdin,
) -> io::Result<()> {
    let (id, answer) = own_request(upstream);
    line(request(id, "initialize", parameters).into(), input).await?;
    let answered = timeout(HANDSHAKE, answer).await;
    if !matches!(answered, Ok(Ok(Ok(_)))) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    line(INITIALIZED.to_vec().into(), input).await
}

/// The answer to a request of the gateway's own, or why there is none.
pub(super) type OwnAnswer = oneshot::Receiver<Result<Message, String>>;

pub(super) fn own_request(upstream: &Upstream) -> (u64, OwnAnswer) {
    let (sender, answer) = oneshot::channel();
    let pending = Pending {
        client_id: None,
        kind: PendingKind::Own(sender),
        token: None,
        deadline: None,
        crossing: None,
    };
    (upstream.expect(pending), answer)
}

/// Returns a request of the gateway's own.
pub(super) fn request(id: u64, method: &str, parameters: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{parameters}}}"#).into()
}

async fn line(mut message: Outgoing, input: &mut ChildStdin) -> io::Result<()> {
    while let Some(mut bytes) = message.next()? {
        if message.is_empty() {
            bytes.push(b'\n');
        }
        input.write_all(&bytes).await?;
    }
    input.flush().await
}
