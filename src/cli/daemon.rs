//! The background server: the command starts itself again as the server, waits until the mount
//! answers, and ends.
//!
//! ```text
//! ctxfs mount DIR                 waits at most 30 s for one line of status; prints, ends
//!   ctxfs --detached mount DIR    the server: own session, works in `/`, logs to standard error
//!     ctxfs watch-mount DIR       the watchdog
//! ```
//!
//! A new program rather than a fork, so that it inherits only the environment of the caller.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::{io, thread};

use crate::outcome::{Failure, FailureKind};
use crate::plan::MountPlan;
use crate::status::{ServedMount, StartStatus};
use crate::{env, logging, server};

const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the server with the arguments of this process, and returns once its mount answers.
pub(super) fn launch(log: &Path) -> anyhow::Result<ServedMount> {
    start(log, std::env::args_os().skip(1)).map(|(ready, _server)| ready)
}

/// Starts the server with these arguments, and returns once its mount answers.
pub(super) fn start(
    log: &Path,
    arguments: impl Iterator<Item = OsString>,
) -> anyhow::Result<(ServedMount, Child)> {
    let mut server = spawn(logging::open_file(log)?, arguments)?;
    match wait(&mut server)? {
        Ok(Some(StartStatus::Ready(ready))) => Ok((ready, server)),
        Ok(Some(StartStatus::Failed(failure))) => {
            reap(server);
            Err(failure.into())
        }
        Ok(None) => Err(end(server, true, log).into()),
        Err(_) => Err(end(server, false, log).into()),
    }
}

fn spawn(log: File, arguments: impl Iterator<Item = OsString>) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("ctxfs")
        .arg("--detached")
        .args(arguments)
        .env_remove(env::NOTIFY_SOCKET)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

/// Waits for the server's status. Returns `None` inside if the server ended without sending one,
/// and an error inside if the time is up.
fn wait(server: &mut Child) -> io::Result<Result<Option<StartStatus>, RecvTimeoutError>> {
    let Some(from) = server.stdout.take() else { return Ok(Ok(None)) };
    let (send, received) = mpsc::channel();
    thread::Builder::new().spawn(move || send.send(StartStatus::receive(from)))?;
    Ok(received.recv_timeout(PATIENCE))
}

/// Kills a server that sent no status; its watchdog unmounts. Does not wait for its end, since the
/// server may be stuck in a mount that hangs.
fn end(mut server: Child, in_time: bool, log: &Path) -> Failure {
    drop(server.kill());
    reap(server);
    let message = if in_time {
        "the server ended before the mount answered".to_owned()
    } else {
        format!("the mount did not answer within {} s", PATIENCE.as_secs())
    };
    let hint = format!("read its log with `tail {}`, and run `ctxfs doctor`", log.display());
    Failure::new(FailureKind::Mount, message, hint)
}

/// Leaves nothing of a server that ends. Does not wait for that.
fn reap(mut server: Child) {
    let wait = move || server.wait();
    // Without a thread, it is left until this process ends.
    drop(thread::Builder::new().spawn(wait));
}

/// Runs the server in its own process.
pub(super) fn serve(plan: &MountPlan) -> anyhow::Result<()> {
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    server::run(plan, || {
        StartStatus::Ready(ServedMount::of(plan)).try_send()?;
        close_stdout()
    })
}

/// Closes the pipe to the waiting command.
fn close_stdout() -> anyhow::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nothing)?)
}
