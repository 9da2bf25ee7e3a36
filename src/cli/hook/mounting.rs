//! The mount for the sessions of hosts. The hook at the start of a session starts it.
//!
//! ```text
//! ctxfs hook HOST               waits at most 0.8 s
//!   ctxfs mount DIR             holds the lock as its standard input until the mount answers
//!     ctxfs --detached mount    the server
//! ```

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{fs, thread, time::Duration, time::Instant};

use crate::{Cli, Environment, SettingKey, Settings, env, logging, mount, places};

// The host waits for the hook.
const PATIENCE: Duration = Duration::from_millis(800);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const REASON_CHARS: usize = 200;

/// Mounts the store, unless it is mounted at any place. Two hooks at the same time start one mount.
///
/// Fails with the reason if the store cannot be mounted, or if files are in the mountpoint. Succeeds
/// after 0.8 seconds in any case, because a mount that takes longer still comes.
pub(super) fn ensure(
    cli: &Cli,
    settings: &Settings,
    environment: &Environment,
) -> anyhow::Result<()> {
    let store = settings.store(environment)?;
    let is_mounted = || places::live_mount(&store, None).is_some();
    if is_mounted() {
        return Ok(());
    }
    let target = places::mountpoint(settings.path(SettingKey::Mountpoint), environment)?;
    // A mount that nobody asked for must not hide files of the user.
    let has_files = fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some());
    if has_files && !places::is_mounted(&target) {
        anyhow::bail!("`{}` is not empty", target.display());
    }
    let lock = places::log_file(&target, environment)?.with_extension("lock");
    let (lock, until) = (logging::open_file(&lock)?, Instant::now() + PATIENCE);
    let mut starting: Option<Child> = None;
    while Instant::now() < until {
        match &mut starting {
            Some(child) => match child.try_wait()? {
                Some(status) => return ended(child, status),
                None => thread::sleep(BETWEEN_LOOKS),
            },
            // While another process holds the lock, it is mounting.
            None if lock.try_lock().is_err() => thread::sleep(BETWEEN_LOOKS),
            None if is_mounted() => return Ok(()),
            None => {
                let mut command = Command::new("/proc/self/exe");
                command.arg0(places::PROGRAM_NAME).args(mount::flags(&store, settings, cli));
                command.arg("mount").arg(&target).env_remove(env::NOTIFY_SOCKET);
                command.stdin(lock.try_clone()?).stdout(Stdio::null()).stderr(Stdio::piped());
                starting = Some(command.process_group(0).spawn()?);
            }
        }
    }
    Ok(())
}

fn ended(child: &mut Child, status: ExitStatus) -> anyhow::Result<()> {
    if status.success() {
        return Ok(());
    }
    let mut text = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut text)?;
    }
    let reason = text.lines().find_map(|line| line.strip_prefix("error: "));
    let reason = reason.map_or_else(|| status.to_string(), str::to_owned);
    anyhow::bail!(
        reason.replace(char::is_control, " ").chars().take(REASON_CHARS).collect::<String>()
    )
}
