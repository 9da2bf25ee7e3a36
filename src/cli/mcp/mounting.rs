//! `ctxfs mcp --mount`: a mount of the store that the gateway sees to, beside serving.
//!
//! The mount is started as `ctxfs mount` starts it, and stays as that does. A client is answered
//! meanwhile; only who needs the store waits for it, and not long.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::args::Cli;
use crate::context::Context;
use crate::env::Environment;
use crate::outcome::Failure;
use crate::output::Printer;
use crate::settings::{Key, Settings};
use crate::{daemon, places};
use ctxfs_fuse::kernel::mount;
use ctxfs_fuse::kernel::mount::MountState;

/// The longest time that a result waits for the mount.
const PATIENCE: Duration = Duration::from_secs(10);

/// A mount that is being seen to.
pub(super) struct Mounting {
    state: Mutex<MountingState>,
    changed: Condvar,
}

enum MountingState {
    Running,
    /// The mountpoint, unless the store cannot be mounted.
    Done(Option<PathBuf>),
}

/// A mount that is wanted.
struct MountRequest {
    store: PathBuf,
    /// The mountpoint, if it is given.
    dir: Option<PathBuf>,
    /// The flags that the command was given before its name.
    flags: Vec<OsString>,
    environment: Environment,
}

impl Mounting {
    /// Begins to see to a mount at `dir`, or at the usual place. If that fails, says so.
    pub(super) fn begin(
        dir: Option<&Path>,
        settings: &Settings,
        cli: &Cli,
        context: &Context,
    ) -> anyhow::Result<Arc<Self>> {
        let environment = context.environment.clone();
        let store = settings.store(&environment)?;
        let dir = dir.or_else(|| settings.path(Key::Mountpoint)).map(Path::to_owned);
        let request = MountRequest { flags: flags(&store, settings, cli), store, dir, environment };
        let mounting =
            Arc::new(Self { state: Mutex::new(MountingState::Running), changed: Condvar::new() });
        let told = Arc::clone(&mounting);
        thread::Builder::new().name("ctxfs-mount".to_owned()).spawn(move || told.run(&request))?;
        Ok(mounting)
    }

    /// Returns the mountpoint, if there is one in time.
    pub(super) fn wait(&self) -> Option<PathBuf> {
        let mut state = self.state.lock();
        let is_running = |state: &mut MountingState| matches!(state, MountingState::Running);
        self.changed.wait_while_for(&mut state, is_running, PATIENCE);
        if let MountingState::Running = &*state {
            // Nobody waits again.
            *state = MountingState::Done(None);
        }
        match &*state {
            MountingState::Done(mountpoint) => mountpoint.clone(),
            MountingState::Running => None,
        }
    }

    fn run(&self, request: &MountRequest) {
        let mounted = request.see_to();
        let (mountpoint, server) = match mounted {
            Ok((mountpoint, server)) => (Some(mountpoint), server),
            Err(error) => {
                say(&Failure::from(error));
                (None, None)
            }
        };
        *self.state.lock() = MountingState::Done(mountpoint);
        self.changed.notify_all();
        // Nothing of a server that has ended is left behind.
        if let Some(mut server) = server {
            server.wait().ok();
        }
    }
}

impl MountRequest {
    /// Mounts the store, unless it is mounted there. Returns the server too, if one was started.
    fn see_to(&self) -> anyhow::Result<(PathBuf, Option<Child>)> {
        if let Some(there) = self.there() {
            return Ok((there, None));
        }
        let target = places::mountpoint(self.dir.as_deref(), &self.environment)?;
        if mount::is_inherited_fd(&target) {
            let text = "a mount passed as a descriptor can be served only by `ctxfs mount`";
            return Err(Failure::usage(text, "name a directory").into());
        }
        let log = places::log_file(&target, &self.environment)?;
        let command = [OsString::from("mount"), target.into_os_string()];
        match daemon::start(&log, self.flags.iter().cloned().chain(command)) {
            Ok((ready, server)) => Ok((ready.mountpoint, Some(server))),
            // Another gateway may have been faster.
            Err(error) => self.there().map(|there| (there, None)).ok_or(error),
        }
    }

    /// Returns where the store is mounted, and answers: where that is given, there.
    fn there(&self) -> Option<PathBuf> {
        let given = self.dir.as_deref().map(places::resolve);
        let is_it = |target: &PathBuf| given.as_ref().is_none_or(|given| given == target);
        let mounts = places::mounts_of(&self.store).into_iter();
        let of_all = mounts.filter(|mount| mount.only.is_none()).map(|mount| mount.target);
        let is_alive = |target: &PathBuf| !matches!(mount::state(target), MountState::Dead { .. });
        of_all.filter(is_it).find(is_alive)
    }
}

/// Returns the flags of every command that this one was given.
fn flags(store: &Path, settings: &Settings, cli: &Cli) -> Vec<OsString> {
    let mut flags = vec![OsString::from("--store"), store.into()];
    if let Some(config) = &cli.config {
        flags.extend([OsString::from("--config"), config.into()]);
    }
    if let Some(log) = settings.text(Key::Log).filter(|_| cli.log.is_some()) {
        flags.extend([OsString::from("--log"), log.into()]);
    }
    flags
}

fn say(failure: &Failure) {
    let mut printer = Printer::new(false);
    let message = &failure.message;
    printer.say(&format_args!("no mount, so results are read by the context tools: {message}"));
    if let Some(hint) = &failure.hint {
        printer.say(&format_args!("to mount: {hint}"));
    }
}
