//! Helper processes: parts of ctxfs that run in processes of their own, each in one [`Role`].
//!
//! | role | name | started by | may use | ends |
//! |---|---|---|---|---|
//! | `WatchMount` | `ctxfs` | the server of a mount | all that its user may | some seconds after the server |
//! | `AskModels` | `ctxfs` | the server of a mount | the network, the keys | killed with the server |
//! | `StartBeside` | `ctxfs` | `ctxfs web` | all that its user may | with the page |
//! | `LookBeside` | `ctxfs-look` | `StartBeside` | the store | with the page, or killed |
//! | `AskBucket` | `ctxfs-remote` | `WatchMount`, `StartBeside` | the network, the keys; or the directory of the bucket | with its socket, or killed |
//! | `RunFilter` | `ctxfs` | the engine | nothing | killed with the engine, or at a deadline |
//! | `KeepOutput` | `ctxfs` | `ctxfs run` | all that its user may | with the output |
//! | `EndServers` | `ctxfs` | `ctxfs mcp` | all that its user may | some seconds after the gateway |
//! | `ProbeMount` | `ctxfs` | `ctxfs doctor` | all that its user may | at once, unless the mount hangs |
//!
//! A confined process can start only confined processes. Servers and pages therefore start the
//! first three before they confine themselves.
//!
//! The role and its parameters are on the command line. If a starter is compromised later, it
//! cannot change the mount, the bucket or the store of a helper process. Process lists show the
//! command line, so it contains no keys.
//!
//! Most helper processes have a socket as their standard input. Such a process exchanges the
//! documents of `ctxfs_sync::channel` over the socket, and ends when the other end is closed.

pub(crate) mod bucket;
pub(crate) mod models;
pub(crate) mod page;
pub(crate) mod watchdog;

use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{
    io, os::unix::net::UnixStream, os::unix::process::CommandExt as _, path::PathBuf, sync::Arc,
    sync::atomic::AtomicBool, thread,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{env, logging, system};
use ctxfs_sync::{channel, remote::TierOptions};

/// The name of the processes that access the bucket.
pub(crate) const REMOTE_PROCESS: &str = "ctxfs-remote";
/// The name of the process that looks for changes of other hosts.
pub(crate) const LOOK_PROCESS: &str = "ctxfs-look";

/// The purpose of a helper process, and its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    WatchMount(Watch),
    AskModels,
    StartBeside(Beside),
    LookBeside(Beside),
    AskBucket { url: String, read_only: bool },
    RunFilter,
    KeepOutput(KeptOutput),
    EndServers,
    ProbeMount(#[serde(with = "path_text")] PathBuf),
}

/// The mount that a watchdog clears, and the bucket for which the watchdog may start a process. If
/// `spare` is true, the watchdog clears the mount a moment after the other watchdog.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Watch {
    #[serde(with = "path_text")]
    pub(crate) target: PathBuf,
    pub(crate) bucket: Option<String>,
    pub(crate) spare: bool,
}

/// The store of a web page, and the bucket in which the page looks for changes of other hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Beside {
    #[serde(with = "path_text")]
    pub(crate) store: PathBuf,
    pub(crate) unconfined: bool,
    pub(crate) options: TierOptions,
}

/// The logs of a command that has ended while other processes still write to its output. `logs`
/// names the log of both streams, and with `--split` also the log of each stream. If the logs are
/// already incomplete, `cut` is the reason. If `discard` is true, the logs are removed unless bytes
/// are added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptOutput {
    pub(crate) conversation: String,
    pub(crate) exit_code: i32,
    pub(crate) duration_ms: u64,
    pub(crate) cut: Option<String>,
    pub(crate) discard: bool,
    pub(crate) logs: Vec<String>,
}

/// Serializes paths as text, with escapes for bytes that are not UTF-8.
mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serializer};

    use ctxfs_core::model::text;

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&text::encode(path.as_os_str().as_bytes()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let path = text::decode(&String::deserialize(from)?);
        Ok(OsString::from_vec(path).into())
    }
}

impl Role {
    fn names(&self) -> (&'static str, &'static CStr) {
        match self {
            Self::WatchMount(_) => ("ctxfs", c"ctxfs-watch"),
            Self::AskModels => ("ctxfs", c"ctxfs-models"),
            Self::StartBeside(_) => ("ctxfs", c"ctxfs-start"),
            Self::LookBeside(_) => (LOOK_PROCESS, c"ctxfs-look"),
            Self::AskBucket { .. } => (REMOTE_PROCESS, c"ctxfs-remote"),
            Self::RunFilter => ("ctxfs", c"ctxfs-jq"),
            Self::EndServers => ("ctxfs", c"ctxfs-end"),
            Self::KeepOutput(_) | Self::ProbeMount(_) => ("ctxfs", c"ctxfs"),
        }
    }

    /// Returns the program and its arguments.
    pub(crate) fn words(&self) -> [OsString; 3] {
        let role = serde_json::to_string(self).expect("a role is made of text and numbers");
        ["/proc/self/exe".into(), "helper".into(), role.into()]
    }

    /// Returns the command that starts the process in `/`.
    ///
    /// The process inherits the environment without `NOTIFY_SOCKET`, with two exceptions.
    /// `AskBucket` gets only the variables that connections to buckets need. `LookBeside`, which
    /// reads records of other hosts, gets no variables. A process that must outlive an interrupt
    /// from the terminal of its starter gets its own process group.
    pub(crate) fn command(&self) -> Command {
        let [program, words @ ..] = self.words();
        let mut command = Command::new(program);
        command.arg0(self.names().0).args(words).current_dir("/");
        match self {
            Self::AskBucket { .. } => command.env_clear().envs(env::of_remote_process()),
            Self::LookBeside(_) => command.env_clear(),
            _ => command.env_remove(env::NOTIFY_SOCKET),
        };
        if let Self::WatchMount(_)
        | Self::StartBeside(_)
        | Self::LookBeside(_)
        | Self::AskBucket { .. } = self
        {
            command.process_group(0);
        }
        command
    }

    /// Starts the process with `socket` as its standard input, and no standard output.
    pub(crate) fn start(&self, socket: OwnedFd) -> io::Result<Child> {
        self.command().stdin(socket).stdout(Stdio::null()).spawn()
    }

    /// Prepares this process for its role. Sets the name that tools show for the process.
    ///
    /// A process that reads data from others closes all file descriptors except the standard ones.
    /// `StartBeside`, `LookBeside` and `AskBucket` log warnings. They also ignore the signals that
    /// a terminal or systemd sends to all processes of a mount, because their starters may still
    /// need them.
    pub(crate) fn begin(&self) -> anyhow::Result<()> {
        let _ = rustix::thread::set_name(self.names().1);
        if matches!(self, Self::LookBeside(_) | Self::AskBucket { .. } | Self::KeepOutput(_)) {
            system::close_inherited()?;
        }
        if matches!(self, Self::StartBeside(_) | Self::LookBeside(_) | Self::AskBucket { .. }) {
            for signal in [SIGHUP, SIGINT, SIGTERM] {
                signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
            }
            logging::start("warn", false)?;
        }
        Ok(())
    }
}

/// Returns standard input, which is the socket to the starter of this process.
pub(crate) fn starter_socket() -> io::Result<UnixStream> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Answers the requests that arrive over `control`. Each request is a socket, over which `answer`
/// reads and replies. Each request has its own thread, and at most `most` threads run at a time.
/// Further requests wait in `control`, which has room for a few hundred. Returns when the other end
/// of `control` is closed, or when `goes_on` returns false after a request has arrived.
pub(crate) fn answer_each(
    control: &UnixStream,
    most: usize,
    goes_on: impl Fn() -> bool,
    answer: impl Fn(&UnixStream) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    // Each running request holds another reference, so the number of references is the number of
    // running requests plus one.
    let answer = Arc::new(answer);
    while let Some(((), socket)) = channel::receive(control)? {
        if !goes_on() {
            break;
        }
        // If this process has no free file descriptors, the socket is lost, and the other process
        // sees the end of its own socket.
        let Some(socket) = socket.map(UnixStream::from) else { continue };
        while Arc::strong_count(&answer) > most {
            thread::sleep(AGAIN);
        }
        let answer = Arc::clone(&answer);
        let work = move || {
            if let Err(error) = answer(&socket) {
                tracing::debug!(%error, "a request of the server broke off");
            }
        };
        thread::Builder::new().name("request".to_owned()).spawn(work)?;
    }
    Ok(())
}

// Time for a process to end by itself after its socket is closed.
const GRACE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(5);

/// Child processes of this process. Each child serves the other end of a socket, and a separate
/// thread waits for the child to end.
#[derive(Default)]
pub(crate) struct Children(Vec<std::thread::JoinHandle<()>>);

impl Children {
    /// Waits for `child` on a separate thread. `socket` is the standard input of the child, which
    /// should end when the other end of the socket is closed. A child that still runs a second
    /// after that is killed, because it hangs or is stopped.
    ///
    /// On kernels before 5.3, which have no pidfd, the child is not killed.
    pub(crate) fn add(&mut self, child: Child, socket: OwnedFd) -> io::Result<()> {
        self.add_thread(move || wait_for_child(child, socket))
    }

    pub(crate) fn add_thread(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.0.retain(|thread| !thread.is_finished());
        self.0.push(thread::Builder::new().name("keep".to_owned()).spawn(work)?);
        Ok(())
    }

    /// Waits until all children have ended, but at most a few seconds, because a process that waits
    /// for a disk cannot be killed.
    pub(crate) fn finish(self) {
        let end = Instant::now() + GRACE * 4;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(AGAIN);
        }
    }
}

fn wait_for_child(mut child: Child, socket: OwnedFd) {
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    if let Ok(pidfd) = pidfd
        && is_left(&pidfd, &socket)
    {
        tracing::warn!(process = child.id(), "a process did not end by itself, and is killed");
        drop(child.kill());
    }
    // The process at the other end notices the end of the child by the end of the socket.
    drop(socket);
    drop(child.wait());
}

// Waits until the process ends or the other end of `socket` is closed. Returns true if the process
// still runs a grace period later.
fn is_left(pidfd: &OwnedFd, socket: &OwnedFd) -> bool {
    let ended = || PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN);
    // The end of a socket is reported even if no event is requested.
    let mut either = [ended(), PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty())];
    let waited = rustix::io::retry_on_intr(|| poll(&mut either, None));
    if waited.is_err() || !either[0].revents().is_empty() {
        return false;
    }
    let grace = Timespec { tv_sec: GRACE.as_secs().cast_signed(), tv_nsec: 0 };
    let count = rustix::io::retry_on_intr(|| poll(&mut [ended()], Some(&grace)));
    count == Ok(0)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::process::ExitStatusExt as _;

    use clap::Parser as _;
    use rustix::process::{Signal, kill_process};

    use crate::args::{Cli, Command as Subcommand};
    use ctxfs_sync::remote::Limits;

    use super::*;

    fn start(program: &str, args: &[&str]) -> (Child, UnixStream, OwnedFd) {
        let (asker, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let kept = theirs.try_clone().unwrap();
        let child = Command::new(program).args(args).stdin(theirs).stdout(Stdio::null()).spawn();
        (child.unwrap(), asker, kept)
    }

    #[test]
    fn a_role_comes_back_from_its_words() {
        let options = TierOptions {
            url: "s3://bkt/pre".to_owned(),
            pushes: false,
            write_once: true,
            every: Duration::ZERO,
            poll: Duration::from_secs(7),
            cache_bytes: u64::MAX,
            limits: Limits { min_free: 5, quota: Some(6) },
            evicts: false,
            sweeps: false,
        };
        let path = PathBuf::from(OsStr::from_bytes(b"-a \\xff\xff\\ store"));
        let output = KeptOutput {
            conversation: "-c7".to_owned(),
            exit_code: -1,
            duration_ms: u64::MAX,
            cut: Some("no room".to_owned()),
            discard: true,
            logs: vec!["--x.log".into(), "a.log".into(), "b.log".into()],
        };
        for role in [
            Role::WatchMount(Watch { target: path.clone(), bucket: None, spare: true }),
            Role::LookBeside(Beside { store: path.clone(), unconfined: true, options }),
            Role::AskBucket { url: "file:///x".to_owned(), read_only: true },
            Role::KeepOutput(output),
            Role::EndServers,
            Role::ProbeMount(path),
        ] {
            let [_, words @ ..] = role.words();
            let cli = Cli::try_parse_from([OsString::from("ctxfs")].into_iter().chain(words));
            let Subcommand::Helper { role: read } = cli.unwrap().command else {
                panic!("{role:?}")
            };
            assert_eq!(format!("{read:?}"), format!("{role:?}"));
        }
    }

    #[test]
    fn one_that_is_stopped_is_killed_once_nobody_asks_it() {
        let (child, asker, socket) = start("cat", &[]);
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        let mut kept = Children::default();
        kept.add(child, socket).unwrap();
        thread::sleep(GRACE * 2);
        kill_process(pid, Signal::STOP).unwrap();
        drop(asker);
        kept.finish();
        assert!(kill_process(pid, Signal::STOP).is_err(), "it lives on");
    }

    #[test]
    fn one_that_ends_by_itself_is_not_killed() {
        let (mut child, asker, socket) = start("cat", &[]);
        drop(asker);
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        assert!(!is_left(&pidfd, &socket));
        assert_eq!(child.wait().unwrap().signal(), None);
    }

    #[test]
    fn whoever_asks_sees_the_end_of_a_process() {
        let (child, asker, socket) = start("sleep", &["1000"]);
        let pid = Pid::from_child(&child);
        let mut kept = Children::default();
        kept.add(child, socket).unwrap();
        let killed = Instant::now();
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(io::Read::read(&mut &asker, &mut [0]).unwrap(), 0);
        assert!(killed.elapsed() < GRACE * 10);
        kept.finish();
    }
}
