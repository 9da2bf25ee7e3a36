//! The processes of servers, each in a process group of its own, and their end.
//!
//! A guard process ends the servers if the gateway is killed. The gateway reports each process group that
//! begins or ends through a pipe; when the pipe closes, the guard ends the groups that are left. It runs
//! in a group of its own, so signals sent to the gateway do not reach it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::options::ServerCommand;

// The time between closed input, SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

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
            guard.tell('+', group);
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
            self.guard.tell('-', group);
        }
        ended.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may have ended.
            kill_process_group(group, signal).ok();
        }
    }
}

/// The gateway's end of the pipe to the guard process. The process starts with the first server, so
/// a gateway without servers has none.
pub(crate) struct Guard {
    command: Vec<OsString>,
    pipe: Mutex<Option<std::process::ChildStdin>>,
}

impl Guard {
    pub(crate) fn new(command: Vec<OsString>) -> Self {
        Self { command, pipe: Mutex::new(None) }
    }

    fn tell(&self, what: char, group: Pid) {
        let mut pipe = self.pipe.lock();
        if pipe.is_none() {
            *pipe = self.start();
        }
        let line = format!("{what}{}\n", group.as_raw_nonzero());
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

/// Ends the process groups that `told` leaves when it ends. Its lines are `+GROUP` and `-GROUP`.
/// This is the guard process, which outlives a killed gateway by a few seconds.
pub fn end_servers(told: &mut dyn BufRead) {
    let mut groups = BTreeSet::new();
    for line in told.lines().map_while(Result::ok) {
        let Some((what, number)) = line.split_at_checked(1) else { continue };
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match what {
            "+" => groups.insert(group.as_raw_nonzero()),
            _ => groups.remove(&group.as_raw_nonzero()),
        };
    }
    let groups: Vec<Pid> = groups.iter().filter_map(|group| Pid::from_raw(group.get())).collect();
    let is_there = |group: &Pid| test_kill_process_group(*group).is_ok();
    for signal in [Signal::TERM, Signal::KILL] {
        for group in &groups {
            // The group may have ended.
            kill_process_group(*group, signal).ok();
        }
        let mut waited = Duration::ZERO;
        while waited < GRACE && groups.iter().any(is_there) {
            std::thread::sleep(BETWEEN_LOOKS);
            waited += BETWEEN_LOOKS;
        }
    }
}
