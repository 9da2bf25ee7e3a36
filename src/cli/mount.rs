//! `ctxfs mount` and `ctxfs umount`: serve and end a mount.
//!
//! A mount is served either in this process or in the background. In the background, the command
//! starts itself again as the server, waits until the mount answers, and ends.
//!
//! ```text
//! ctxfs mount DIR                 waits at most 30 s for one line of status; prints, ends
//!   ctxfs --detached mount DIR    the server: own session, works in `/`, logs to standard error
//!     watch-mount                 the watchdogs
//! ```
//!
//! The server is a new program rather than a fork, so it inherits only the environment of the
//! caller.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::{ffi::OsString, fs::File, os::unix::process::CommandExt as _, thread, time::Duration};

use serde::{Deserialize, Serialize};

use crate::args::{MountArgs, UmountArgs};
use crate::server::{self, MountPlan};
use crate::{
    Cli, Context, Failure, FailureKind, SettingKey, Settings, engine, env, logging, page_link,
    places, remote,
};
use ctxfs_core::model::Root;
use ctxfs_fuse::kernel::mount;

pub(crate) fn run(args: &MountArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.settings())?);
    let plan = plan(args, &settings, context)?;
    let log = settings.text(SettingKey::Log).unwrap_or_default();
    if cli.detached {
        logging::start(log, true)?;
        return serve_detached(&plan);
    }
    if args.foreground {
        logging::start(log, false)?;
        return foreground(&plan, context);
    }
    if mount::is_inherited_fd(&plan.target) {
        let text = "a mount passed as a descriptor can be served only in the foreground";
        return Err(Failure::usage(text, "add --foreground").into());
    }
    let log = places::log_file(&plan.target, &context.environment)?;
    let (ready, _server) = start(&log, std::env::args_os().skip(1))?;
    announce(&ready, context)
}

fn plan(args: &MountArgs, given: &Arc<Settings>, context: &Context) -> anyhow::Result<MountPlan> {
    let store = given.store(&context.environment)?;
    let target = places::mountpoint(given.path(SettingKey::Mountpoint), &context.environment)?;
    places::check_apart(&store, &target)?;
    remote::check_place(given, &store, &target)?;
    places::create(&target)?;
    let prefix = given.text(SettingKey::Advertise).map_or_else(|| prefix(&target), str::to_owned);
    let only = args.only.as_deref().map(places::conversation_id).transpose()?;
    let root = if only.is_some() { Root::One(prefix) } else { Root::All(prefix) };
    Ok(MountPlan {
        store,
        target,
        allow_other: given.is_on(SettingKey::AllowOther),
        passthrough: given.text(SettingKey::Passthrough) == Some("auto"),
        engine: engine::options(given, &root, only.as_ref())?,
        settings: Arc::clone(given),
    })
}

// Only the parent process can determine the mountpoint of an inherited mount, so the default
// mountpoint is assumed.
fn prefix(target: &Path) -> String {
    let unknown = mount::is_inherited_fd(target);
    if unknown { places::ROOT_MOUNTPOINT.to_owned() } else { target.display().to_string() }
}

fn foreground(plan: &MountPlan, context: &mut Context) -> anyhow::Result<()> {
    server::run(plan, || {
        sd_notify::notify(&[sd_notify::NotifyState::Ready])?;
        let ready = ServedMount::of(plan);
        announce(&ready, context)
    })
}

fn announce(ready: &ServedMount, context: &mut Context) -> anyhow::Result<()> {
    context.printer.line(&ready.mountpoint.display(), ready)?;
    page_link::print_link(context, &ready.store, None, None);
    Ok(())
}

pub(crate) fn umount(args: &UmountArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    // With an explicit mountpoint, the command works even if the settings are invalid.
    let target = if let Some(dir) = &args.dir {
        dir.clone()
    } else {
        let settings = context.settings(cli, Vec::new())?;
        places::mounted(settings.path(SettingKey::Mountpoint), &context.environment)?
    };
    mount::unmount(&target)?;
    context.printer.message(&format_args!("unmounted `{}`", target.display()));
    Ok(())
}

/// Returns the flags with which another ctxfs process uses the same store and settings.
pub(crate) fn flags(store: &Path, settings: &Settings, cli: &Cli) -> Vec<OsString> {
    let mut flags = vec![OsString::from("--store"), store.into()];
    if let Some(config) = &cli.config {
        flags.extend([OsString::from("--config"), config.into()]);
    }
    if let Some(log) = settings.text(SettingKey::Log).filter(|_| cli.log.is_some()) {
        flags.extend([OsString::from("--log"), log.into()]);
    }
    flags
}

const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the server with these arguments, and returns once its mount answers. If the mount does
/// not answer within 30 seconds, kills the server and fails.
pub(crate) fn start(
    log: &Path,
    arguments: impl Iterator<Item = OsString>,
) -> anyhow::Result<(ServedMount, Child)> {
    let mut server = spawn_server(logging::open_file(log)?, arguments)?;
    match wait_for_status(&mut server)? {
        Ok(Some(StartStatus::Ready(ready))) => Ok((ready, server)),
        Ok(Some(StartStatus::Failed(failure))) => {
            reap(server);
            Err(failure.into())
        }
        Ok(None) => Err(kill(server, true, log).into()),
        Err(_) => Err(kill(server, false, log).into()),
    }
}

fn spawn_server(log: File, arguments: impl Iterator<Item = OsString>) -> io::Result<Child> {
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

// Fails after the timeout. The inner value is `None` if the server ended without sending a status.
fn wait_for_status(
    server: &mut Child,
) -> io::Result<Result<Option<StartStatus>, std::sync::mpsc::RecvTimeoutError>> {
    let Some(from) = server.stdout.take() else { return Ok(Ok(None)) };
    let (send, received) = mpsc::channel();
    thread::Builder::new().spawn(move || send.send(StartStatus::receive(from)))?;
    Ok(received.recv_timeout(PATIENCE))
}

// Kills the server and lets the watchdog unmount. Does not wait for the end of the server, which
// may be stuck in a hanging mount.
fn kill(mut server: Child, in_time: bool, log: &Path) -> Failure {
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

// Waits for the server on another thread, so that it does not become a zombie.
fn reap(mut server: Child) {
    let wait = move || server.wait();
    // If no thread can be started, the zombie remains until this process ends.
    drop(thread::Builder::new().spawn(wait));
}

fn serve_detached(plan: &MountPlan) -> anyhow::Result<()> {
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    server::run(plan, || {
        StartStatus::Ready(ServedMount::of(plan)).try_send()?;
        close_stdout()
    })
}

fn close_stdout() -> anyhow::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdout(nothing)?)
}

/// The message of a background server to the command that started it. It is one line of JSON on the
/// standard output of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartStatus {
    Ready(ServedMount),
    Failed(Failure),
}

/// A mount that answers, its store, and the process that serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedMount {
    pub(crate) mountpoint: PathBuf,
    pub(crate) store: PathBuf,
    pub(crate) pid: u32,
}

impl ServedMount {
    pub(crate) fn of(plan: &MountPlan) -> Self {
        let (mountpoint, store) = (plan.target.clone(), plan.store.clone());
        Self { mountpoint, store, pid: std::process::id() }
    }
}

impl StartStatus {
    pub(crate) fn send(&self) {
        if let Err(error) = self.try_send() {
            tracing::warn!("nobody waits for the mount: {error}");
        }
    }

    // An error means that the command that started the mount has ended.
    fn try_send(&self) -> io::Result<()> {
        let line = serde_json::to_string(self)? + "\n";
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    pub(crate) fn receive(from: impl Read) -> Option<Self> {
        let mut line = String::new();
        let mut from = io::BufReader::new(from);
        io::BufRead::read_line(&mut from, &mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let failed = StartStatus::Failed(Failure::usage("no\nway", "another"));
        let line = serde_json::to_string(&failed).unwrap() + "\n";
        assert_eq!(StartStatus::receive(line.as_bytes()), Some(failed));
    }

    #[test]
    fn other_output_is_no_status() {
        assert_eq!(StartStatus::receive(&b""[..]), None);
        assert_eq!(StartStatus::receive(&b"Segmentation fault\n"[..]), None);
    }
}
