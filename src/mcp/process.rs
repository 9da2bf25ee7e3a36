//! Server processes: starting them in process groups of their own, ending them, and logging their
//! standard error.
//!
//! A guard process ends the servers if the gateway is killed. The gateway reports the start and the
//! end of each process group through a pipe. When the pipe closes, the guard ends the remaining
//! groups. The guard has its own process group, so it receives no signal that is sent to the group
//! of the gateway.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::options::ServerCommand;

// Time between closing the input and SIGTERM, and between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
// Limits of the standard error log: bytes per line, and lines in the queue.
const MAX_LOG_LINE: usize = 2048;
const LOG_QUEUE: usize = 256;

pub(crate) struct ServerProcess {
    child: Child,
    group: Option<Pid>,
    guard: Arc<Guard>,
}

pub(crate) struct ServerPipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) errors: ChildStderr,
}

impl ServerProcess {
    pub(crate) fn start(
        command: &ServerCommand,
        guard: &Arc<Guard>,
    ) -> io::Result<(Self, ServerPipes)> {
        let mut start = Command::new(&command.program);
        start.args(&command.arguments).env_clear().envs(command.environment.iter().cloned());
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        start.process_group(0).kill_on_drop(true);
        if let Some(directory) = &command.directory {
            start.current_dir(directory);
        }
        let mut child = start.spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        if let Some(group) = group {
            guard.report('+', group);
        }
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let pipes = ServerPipes {
            input: child.stdin.take().ok_or_else(closed)?,
            output: child.stdout.take().ok_or_else(closed)?,
            errors: child.stderr.take().ok_or_else(closed)?,
        };
        Ok((Self { child, group, guard: Arc::clone(guard) }, pipes))
    }

    pub(crate) async fn end(mut self) -> io::Result<ExitStatus> {
        let mut ended = timeout(GRACE, self.child.wait()).await.ok();
        for signal in [Signal::TERM, Signal::KILL] {
            self.signal(signal);
            if ended.is_none() {
                ended = timeout(GRACE, self.child.wait()).await.ok();
            }
        }
        if let Some(group) = self.group {
            self.guard.report('-', group);
        }
        ended.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may have ended already.
            kill_process_group(group, signal).ok();
        }
    }
}

/// Logs the standard error of servers line by line, prefixed with the server's name. A separate
/// thread writes the log, so a log that is not read slows down only the servers that fill it.
#[derive(Clone)]
pub(crate) struct ServerLog(SyncSender<String>);

impl ServerLog {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(LOG_QUEUE);
        thread::Builder::new().name("ctxfs-mcp-log".to_owned()).spawn(move || {
            for line in waiting {
                tracing::info!("{line}");
            }
        })?;
        Ok(Self(lines))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn unread() -> Self {
        Self(sync_channel(0).0)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        drop(self.0.try_send(format!("{name}: {text}")));
    }

    pub(crate) async fn copy(self, name: String, mut input: impl AsyncRead + Unpin) {
        let (mut block, mut line) = (vec![0; MAX_LOG_LINE], Vec::new());
        while let Ok(count @ 1..) = input.read(&mut block).await {
            for byte in &block[..count] {
                if *byte != b'\n' {
                    line.push(*byte);
                }
                if (*byte == b'\n' && !line.is_empty()) || line.len() >= MAX_LOG_LINE {
                    self.send(&name, &std::mem::take(&mut line)).await;
                }
            }
        }
        if !line.is_empty() {
            self.send(&name, &line).await;
        }
    }

    async fn send(&self, name: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = format!("{name}: {}", text.trim_end().replace(char::is_control, " "));
        let mut waiting = Some(text);
        while let Some(text) = waiting.take() {
            if let Err(TrySendError::Full(text)) = self.0.try_send(text) {
                waiting = Some(text);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// The gateway's end of the pipe to the guard process. The guard starts with the first server, so a
/// gateway without servers has no guard.
pub(crate) struct Guard {
    command: Vec<OsString>,
    pipe: Mutex<Option<std::process::ChildStdin>>,
}

impl Guard {
    pub(crate) fn new(command: Vec<OsString>) -> Self {
        Self { command, pipe: Mutex::new(None) }
    }

    fn report(&self, sign: char, group: Pid) {
        let mut pipe = self.pipe.lock();
        if pipe.is_none() {
            *pipe = self.start();
        }
        let line = format!("{sign}{}\n", group.as_raw_nonzero());
        if let Some(Err(error)) = pipe.as_mut().map(|pipe| pipe.write_all(line.as_bytes())) {
            tracing::warn!("the process that ends servers is gone: {error}");
        }
    }

    fn start(&self) -> Option<std::process::ChildStdin> {
        let (program, arguments) = self.command.split_first()?;
        let mut command = std::process::Command::new(program);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut started) => started.stdin.take(),
            Err(error) => {
                tracing::warn!("servers may outlive a killed gateway: {error}");
                None
            }
        }
    }
}

/// The main loop of the guard process. Reads `+GROUP` and `-GROUP` lines until `reports` ends, then
/// ends the remaining process groups. The guard outlives a killed gateway by a few seconds.
pub fn end_servers(reports: &mut dyn BufRead) {
    let mut groups = BTreeSet::new();
    for line in reports.lines().map_while(Result::ok) {
        let Some((sign, number)) = line.split_at_checked(1) else { continue };
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match sign {
            "+" => groups.insert(group.as_raw_nonzero()),
            _ => groups.remove(&group.as_raw_nonzero()),
        };
    }
    let groups: Vec<Pid> = groups.iter().filter_map(|group| Pid::from_raw(group.get())).collect();
    let is_there = |group: &Pid| test_kill_process_group(*group).is_ok();
    for signal in [Signal::TERM, Signal::KILL] {
        for group in &groups {
            // The group may have ended already.
            kill_process_group(*group, signal).ok();
        }
        let mut waited = Duration::ZERO;
        while waited < GRACE && groups.iter().any(is_there) {
            thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }
}
