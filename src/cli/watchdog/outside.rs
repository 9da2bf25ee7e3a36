//! A watchdog's own process. The server's socket is its standard input; it has one thread, and one
//! more for each other watchdog that it has started.

use std::fs;
use std::io;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fd::AsFd as _;
use signal_hook::low_level::pipe;

use crate::cli::args::WatchArgs;
use crate::cli::stop::SIGNALS;
use crate::cli::watchdog::spawn;
use crate::cli::watchdog::words::Answer;
use crate::cli::watchdog::words::Asked;
use crate::cli::watchdog::words::line;
use crate::fuse::mount;
use crate::fuse::mount::MountError;
use crate::fuse::mount::MountState;

/// A dying server closes its end before the kernel has ended the mount.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// By then the other watchdog has cleared what there was.
const AFTER_THE_OTHER: Duration = Duration::from_secs(1);

/// Serves the server until its end; then clears what it left.
pub(in crate::cli) fn run(args: &WatchArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-watch");
    let server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    for signal in SIGNALS {
        pipe::register(signal, server.try_clone()?)?;
    }
    while let Ok(Some(asked)) = Asked::receive(&server) {
        let answer = answer(args, asked);
        if (&server).write_all(line(&answer).as_bytes()).is_err() {
            break;
        }
    }
    if mount::is_inherited_fd(&args.target) {
        return Ok(());
    }
    if args.spare {
        thread::sleep(AFTER_THE_OTHER);
    }
    clear(&args.target)
}

fn answer(args: &WatchArgs, asked: Asked) -> Answer {
    match asked {
        Asked::Unmount => match mount::unmount(&args.target) {
            Ok(()) | Err(MountError::NotMounted { .. }) => Ok(String::new()),
            Err(error) => Err(error.to_string()),
        },
        Asked::Stat(pid) => {
            fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())
        }
        Asked::Another(socket) => another(args, socket).map_err(|error| error.to_string()),
    }
}

/// Starts the other one: a spare, where this is none.
fn another(args: &WatchArgs, socket: OwnedFd) -> io::Result<String> {
    let mut started = spawn(&args.target, !args.spare, socket)?;
    thread::Builder::new().spawn(move || started.wait())?;
    Ok(String::new())
}

/// Unmounts what the server left dead. A mount that lives is another server's.
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
