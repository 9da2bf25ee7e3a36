//! The process of a server, in a group of its own, and its end.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::guard::Guard;

/// The time between the end of its input, SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// The command of a server.
#[derive(Debug, Clone)]
pub struct ServerCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory that it starts in.
    pub directory: Option<PathBuf>,
}

/// A running server.
pub(super) struct ServerProcess {
    child: Child,
    group: Option<Pid>,
    guard: Arc<Guard>,
}

/// The pipes of a server.
pub(super) struct ServerPipes {
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) errors: ChildStderr,
}

impl ServerProcess {
    pub(super) fn start(
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
            guard.began(group);
        }
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let pipes = ServerPipes {
            input: child.stdin.take().ok_or_else(closed)?,
            output: child.stdout.take().ok_or_else(closed)?,
            errors: child.stderr.take().ok_or_else(closed)?,
        };
        Ok((Self { child, group, guard: Arc::clone(guard) }, pipes))
    }

    /// Waits until the server has ended, whose input was closed. Ends it if it does not, and
    /// whatever is left of its group.
    pub(super) async fn end(mut self) -> io::Result<ExitStatus> {
        let mut ended = timeout(GRACE, self.child.wait()).await.ok();
        for signal in [Signal::TERM, Signal::KILL] {
            self.signal(signal);
            if ended.is_none() {
                ended = timeout(GRACE, self.child.wait()).await.ok();
            }
        }
        if let Some(group) = self.group {
            self.guard.ended(group);
        }
        ended.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Nothing may be left of it.
            kill_process_group(group, signal).ok();
        }
    }
}
