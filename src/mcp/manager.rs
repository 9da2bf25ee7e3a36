//! Manages the process of a server: its start, its restart and its end.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::json_rpc::{INITIALIZED, cancelled, request};
use crate::line_reader::{InputLine, LineReader};
use crate::message::Outgoing;
use crate::options::ServerCommand;
use crate::pending::PendingRequest;
use crate::process::{Guard, ServerLog, ServerPipes, ServerProcess};
use crate::queue::{Queued, Receiver};
use crate::server_request::own_request;
use crate::shelf::LazyShelf;
use crate::upstream::{Handshake, Upstream};

// Interval between deadline checks.
const TICK: Duration = Duration::from_millis(200);
// The pause after a failed start. It doubles with each failure.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_mins(1);
// Time that a restarted server has to answer `initialize`.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(30);
// Time that a server has to read the cancellations of its calls.
pub(crate) const CANCEL_TIME: Duration = Duration::from_millis(200);
// Time for reading the remaining output after the server closed its input.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Receives the messages of servers, and the requests that will not be answered. Implemented for a
/// session, and for a server shared by sessions. Async methods may wait, which slows down the
/// server.
///
/// `line` returns false if the server must be restarted. `late` fails requests whose deadline has
/// passed. `lost` fails one request while the server keeps running. `failed` fails the requests
/// that were pending when the server ended.
pub(crate) trait Inbox: Send + Sync + 'static {
    fn line(&self, from: &Arc<Upstream>, line: InputLine) -> impl Future<Output = bool> + Send;

    fn late(&self, of: &Arc<Upstream>, late: Vec<(u64, PendingRequest)>);

    fn lost(
        &self,
        of: &Arc<Upstream>,
        pending: PendingRequest,
        why: &str,
    ) -> impl Future<Output = ()> + Send;

    fn failed(
        &self,
        of: &Arc<Upstream>,
        pending: Vec<PendingRequest>,
        why: &str,
    ) -> impl Future<Output = ()> + Send;
}

/// State shared by all managers of a session. `most` is the maximum length of a server message in
/// bytes. A longer message fails the request that it answers.
pub(crate) struct ManagerContext<I> {
    pub(crate) inbox: Arc<I>,
    pub(crate) shelf: Arc<LazyShelf>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) log: ServerLog,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) most: u64,
}

/// Starts, feeds and ends the process of one server. The process starts with the first message for
/// it. If the process has ended, it starts again with the next message. Failed starts are followed
/// by growing pauses, during which requests fail immediately.
pub(crate) struct Manager<I> {
    upstream: Arc<Upstream>,
    command: ServerCommand,
    queue: Receiver,
    context: ManagerContext<I>,
    failures: u32,
    not_before: Option<Instant>,
}

/// The reason why communication with a process ended. `Output` holds the reason why reading stopped
/// early, or an empty string at the end of the output.
enum TalkEnd {
    Stop,
    Output(&'static str),
    Input,
}

impl<I: Inbox> Manager<I> {
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        command: ServerCommand,
        queue: Receiver,
        context: ManagerContext<I>,
    ) -> Self {
        Self { upstream, command, queue, context, failures: 0, not_before: None }
    }

    pub(crate) async fn run(mut self) {
        while let Some(first) = self.first().await {
            if let Some(pause) = self.pause() {
                let why = format!("failed to start; the next try is in {} s", pause.as_secs() + 1);
                self.fail(&why).await;
                continue;
            }
            let started = ServerProcess::start(&self.command, &self.context.guard);
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

    async fn first(&mut self) -> Option<Queued> {
        tokio::select! {
            biased;
            () = stopped(&mut self.context.stop) => None,
            first = self.queue.recv() => first,
        }
    }

    fn pause(&self) -> Option<Duration> {
        let pause = self.not_before?.saturating_duration_since(Instant::now());
        Some(pause).filter(|pause| !pause.is_zero())
    }

    fn failed_to_start(&mut self) {
        let pause = MIN_BACKOFF * 2u32.saturating_pow(self.failures.min(10));
        self.failures += 1;
        self.not_before = Some(Instant::now() + pause.min(MAX_BACKOFF));
    }

    async fn fail(&mut self, why: &str) {
        self.context.log.write(&self.upstream.name, why);
        let pending = self.upstream.ended(&mut self.queue);
        if *self.context.stop.borrow() {
            return;
        }
        self.context.inbox.failed(&self.upstream, pending, why).await;
    }

    async fn serve(&mut self, process: ServerProcess, pipes: ServerPipes, first: Queued) {
        let ServerPipes { mut input, output, errors } = pipes;
        self.upstream.began();
        let log = self.context.log.clone();
        tokio::spawn(log.copy(self.upstream.name.clone(), errors));
        let shelf = Arc::clone(&self.context.shelf);
        let lines = LineReader::new(output, shelf, self.context.most);
        let inbox = Arc::clone(&self.context.inbox);
        let has_spoken = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut reader =
            tokio::spawn(read(Arc::clone(&self.upstream), lines, inbox, Arc::clone(&has_spoken)));
        let ending = self.talk(&mut input, &mut reader, first).await;
        let stop = matches!(ending, TalkEnd::Stop);
        if stop {
            timeout(CANCEL_TIME, cancel_all(&self.upstream, &mut input)).await.ok();
        }
        drop(input);
        let output_ended = matches!(ending, TalkEnd::Output(_));
        if !stop && !output_ended {
            timeout(DRAIN_TIME, &mut reader).await.ok();
        }
        let status = process.end().await;
        reader.abort();
        if has_spoken.load(std::sync::atomic::Ordering::Relaxed) {
            self.failures = 0;
        } else if !stop {
            self.failed_to_start();
        }
        let how = match (ending, status) {
            (TalkEnd::Output(why), _) if !why.is_empty() => why.to_owned(),
            (_, Ok(status)) => format!("ended ({status})"),
            (_, Err(error)) => format!("ended ({error})"),
        };
        self.fail(&how).await;
    }

    async fn talk(
        &mut self,
        input: &mut ChildStdin,
        reader: &mut JoinHandle<&'static str>,
        first: Queued,
    ) -> TalkEnd {
        let handshake = self.upstream.handshake();
        let writing = write(&self.upstream, handshake, &mut self.queue, input, first);
        let talk = async {
            tokio::select! {
                biased;
                why = reader => TalkEnd::Output(why.unwrap_or("failed")),
                _ = writing => TalkEnd::Input,
            }
        };
        let look = || end_late(&self.upstream, &*self.context.inbox);
        until_stopped(&self.upstream, &mut self.context.stop, talk, look)
            .await
            .unwrap_or(TalkEnd::Stop)
    }
}

/// Runs `work`, and calls `look` at regular intervals while requests are pending. Returns `None` if
/// the gateway stops first.
pub(crate) async fn until_stopped<T>(
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

pub(crate) fn end_late<I: Inbox>(upstream: &Arc<Upstream>, inbox: &I) {
    let late = upstream.take_late();
    if !late.is_empty() {
        inbox.late(upstream, late);
    }
}

async fn cancel_all(upstream: &Upstream, input: &mut ChildStdin) -> io::Result<()> {
    for id in upstream.waiting() {
        line(cancelled(id).into(), input).await?;
    }
    Ok(())
}

pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender also means stop.
    stop.wait_for(|stop| *stop).await.ok();
}

async fn look_due(upstream: &Upstream, tick: &mut tokio::time::Interval) {
    upstream.is_busy().await;
    tick.tick().await;
}

async fn read<I: Inbox>(
    upstream: Arc<Upstream>,
    mut lines: LineReader<tokio::process::ChildStdout>,
    inbox: Arc<I>,
    has_spoken: Arc<std::sync::atomic::AtomicBool>,
) -> &'static str {
    while let Ok(Some(line)) = lines.next(&*upstream).await {
        if matches!(line, InputLine::Message(_)) {
            has_spoken.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        if !inbox.line(&upstream, line).await {
            return "sent too many messages that are not JSON";
        }
        // Yields, because lines that are not messages never wait for anything.
        tokio::task::consume_budget().await;
    }
    ""
}

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
    while let Some(next) = queue.recv().await {
        write_queued(next, input).await?;
    }
    Ok(())
}

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
    line(INITIALIZED.into(), input).await
}

async fn line(mut message: Outgoing, input: &mut ChildStdin) -> io::Result<()> {
    while let Some(mut bytes) = message.next()? {
        if message.pieces.is_empty() {
            bytes.push(b'\n');
        }
        input.write_all(&bytes).await?;
    }
    input.flush().await
}
