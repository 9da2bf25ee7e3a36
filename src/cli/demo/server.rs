//! The server of a demo, which ends with the demo unless it is to stay.

use std::io;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::outcome::{Failure, FailureKind};

/// A mounted store.
#[derive(Debug)]
pub(super) struct Server {
    /// The server in the foreground of this process group, so that an interrupt ends it too; `None`
    /// if it stays in the background.
    process: Option<Child>,
    pub(super) mountpoint: PathBuf,
}

impl Server {
    /// Mounts a new store below `dir`.
    pub(super) fn start(dir: &Path, keep: bool) -> anyhow::Result<Self> {
        let mountpoint = dir.join("ctx");
        let mut command = Command::new("/proc/self/exe");
        command.args(["mount", "--log", "warn", "--store"]).arg(dir.join("store"));
        command.arg(&mountpoint).stdin(Stdio::null()).stdout(Stdio::piped());
        if !keep {
            command.arg("--foreground");
        }
        let mut process = command.spawn()?;
        let mut line = String::new();
        let told = process.stdout.take().map(|out| io::BufReader::new(out).read_line(&mut line));
        let ready = matches!(told, Some(Ok(count)) if count > 0);
        let process = if keep { process.wait().map(|_| None)? } else { Some(process) };
        let server = Self { process, mountpoint };
        if ready {
            return Ok(server);
        }
        Err(Failure::new(FailureKind::Mount, "cannot mount for the demo", "run `ctxfs doctor`")
            .into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
            drop(process.wait());
        }
    }
}
