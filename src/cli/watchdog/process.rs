//! The process of a watchdog. Its standard input is the socket to the server. It has one thread,
//! and one more for each process that it has started.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::fd::AsFd as _;
use signal_hook::low_level::pipe;

use crate::args::WatchArgs;
use crate::kept::Kept;
use crate::stop::SIGNALS;
use crate::watchdog::protocol::{ReceivedRequest, WatchdogReply, line};
use crate::{env, remote};
use ctxfs_fuse::kernel::mount;
use ctxfs_fuse::kernel::mount::{MountError, MountState};

/// The number of looks for a dead mount: a dying server closes its socket before the kernel ends
/// the mount.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// The time in which the other watchdog clears the mount.
const AFTER_THE_OTHER: Duration = Duration::from_secs(1);

/// Starts a watchdog in its own process group, where an interrupt from the terminal does not reach
/// it. `remote` is the bucket for which it may start a process.
pub(super) fn spawn(
    target: &Path,
    spare: bool,
    remote: Option<&str>,
    socket: OwnedFd,
) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("ctxfs")
        .arg("watch-mount")
        .args(spare.then_some("--spare"))
        .args(remote.map(|url| format!("--remote={url}")))
        .arg("--")
        .arg(target)
        .env_remove(env::NOTIFY_SOCKET)
        .current_dir("/")
        .process_group(0)
        .stdin(socket)
        .stdout(Stdio::null())
        .spawn()
}

/// Answers the server until it ends, then clears a dead mount that it left.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-watch");
    let server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    for signal in SIGNALS {
        pipe::register(signal, server.try_clone()?)?;
    }
    let mut kept = Kept::default();
    while let Ok(Some(request)) = ReceivedRequest::receive(&server) {
        let reply = reply(args, request, &mut kept);
        if (&server).write_all(line(&reply).as_bytes()).is_err() {
            break;
        }
    }
    let cleared = end(args);
    kept.finish();
    cleared
}

/// Clears a dead mount that the server left.
fn end(args: &WatchArgs) -> anyhow::Result<()> {
    if mount::is_inherited_fd(&args.target) {
        return Ok(());
    }
    if args.spare {
        thread::sleep(AFTER_THE_OTHER);
    }
    clear(&args.target)
}

fn reply(args: &WatchArgs, request: ReceivedRequest, kept: &mut Kept) -> WatchdogReply {
    match request {
        ReceivedRequest::Unmount => match mount::unmount(&args.target) {
            Ok(()) | Err(MountError::NotMounted { .. }) => Ok(String::new()),
            Err(error) => Err(error.to_string()),
        },
        ReceivedRequest::Stat(pid) => {
            fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())
        }
        ReceivedRequest::Another(socket) => {
            another(args, socket).map_err(|error| error.to_string())
        }
        ReceivedRequest::Remote(socket) => {
            start_remote(args, socket, kept).map_err(|error| error.to_string())
        }
    }
}

/// Starts the other watchdog: a spare, unless this is the spare.
fn another(args: &WatchArgs, socket: OwnedFd) -> io::Result<String> {
    let mut started = spawn(&args.target, !args.spare, args.remote.as_deref(), socket)?;
    thread::Builder::new().spawn(move || started.wait())?;
    Ok(String::new())
}

/// Starts the process that asks the bucket. Which one that is was said when this process started,
/// so that a server cannot name another.
fn start_remote(args: &WatchArgs, socket: OwnedFd, kept: &mut Kept) -> io::Result<String> {
    let url = args.remote.as_deref().ok_or_else(|| io::Error::other("no bucket is set"))?;
    let end = socket.try_clone()?;
    kept.add(remote::spawn_process(url, remote::Use::All, socket)?, end)?;
    Ok(String::new())
}

/// Unmounts a dead mount. One that is alive belongs to another server.
fn clear(target: &Path) -> anyhow::Result<()> {
    for _ in 0..LOOKS {
        match mount::state(target) {
            MountState::Dead { .. } => return Ok(mount::unmount(target)?),
            MountState::NotMounted | MountState::Foreign { .. } => return Ok(()),
            MountState::Alive { .. } => thread::sleep(BETWEEN_LOOKS),
        }
    }
    Ok(())
}
