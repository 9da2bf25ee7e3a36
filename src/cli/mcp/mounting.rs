//! `ctxfs mcp --mount`: a mount in the background, which stays after the gateway ends.
//!
//! The gateway answers a client while the mount is starting. Only a request that needs the store
//! waits for the mount, for at most 10 seconds.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, sync::Arc, thread, time::Duration};

use parking_lot::{Condvar, Mutex};

use crate::{Cli, Context, Environment, Failure, SettingKey, Settings, mount, places};
use ctxfs_fuse::kernel::mount::is_inherited_fd;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct BackgroundMount {
    state: Mutex<BackgroundMountState>,
    changed: Condvar,
}

enum BackgroundMountState {
    Running,
    Done(Option<PathBuf>),
}

struct MountRequest {
    store: PathBuf,
    dir: Option<PathBuf>,
    flags: Vec<OsString>,
    environment: Environment,
}

impl BackgroundMount {
    /// Starts a mount in the background: at `dir`, or else at the mountpoint in the settings, or
    /// else at the default mountpoint. Uses an existing mount of the store at that place. If
    /// neither `dir` nor the settings name a place, uses an existing mount at any place. If
    /// mounting fails, prints the reason.
    pub(crate) fn begin(
        dir: Option<&Path>,
        settings: &Settings,
        cli: &Cli,
        context: &Context,
    ) -> anyhow::Result<Arc<Self>> {
        let environment = context.environment.clone();
        let store = settings.store(&environment)?;
        let dir = dir.or_else(|| settings.path(SettingKey::Mountpoint)).map(Path::to_owned);
        let request =
            MountRequest { flags: mount::flags(&store, settings, cli), store, dir, environment };
        let mounting = Arc::new(Self {
            state: Mutex::new(BackgroundMountState::Running),
            changed: Condvar::new(),
        });
        let result = Arc::clone(&mounting);
        thread::Builder::new()
            .name("ctxfs-mount".to_owned())
            .spawn(move || result.run(&request))?;
        Ok(mounting)
    }

    pub(crate) fn wait(&self) -> Option<PathBuf> {
        let mut state = self.state.lock();
        let is_running =
            |state: &mut BackgroundMountState| matches!(state, BackgroundMountState::Running);
        self.changed.wait_while_for(&mut state, is_running, PATIENCE);
        if let BackgroundMountState::Running = &*state {
            // Later calls do not wait.
            *state = BackgroundMountState::Done(None);
        }
        match &*state {
            BackgroundMountState::Done(mountpoint) => mountpoint.clone(),
            BackgroundMountState::Running => None,
        }
    }

    fn run(&self, request: &MountRequest) {
        let mounted = request.mount();
        let (mountpoint, server) = match mounted {
            Ok((mountpoint, server)) => (Some(mountpoint), server),
            Err(error) => {
                say(&Failure::from(error));
                (None, None)
            }
        };
        *self.state.lock() = BackgroundMountState::Done(mountpoint);
        self.changed.notify_all();
        // Waits for the server, so that it does not become a zombie.
        if let Some(mut server) = server {
            server.wait().ok();
        }
    }
}

impl MountRequest {
    fn mount(&self) -> anyhow::Result<(PathBuf, Option<std::process::Child>)> {
        if let Some(mountpoint) = places::live_mount(&self.store, self.dir.as_deref()) {
            return Ok((mountpoint, None));
        }
        let target = places::mountpoint(self.dir.as_deref(), &self.environment)?;
        if is_inherited_fd(&target) {
            let text = "a mount passed as a descriptor can be served only by `ctxfs mount`";
            return Err(Failure::usage(text, "name a directory").into());
        }
        let log = places::log_file(&target, &self.environment)?;
        let command = [OsString::from("mount"), target.into_os_string()];
        match mount::start(&log, self.flags.iter().cloned().chain(command)) {
            Ok((ready, server)) => Ok((ready.mountpoint, Some(server))),
            // Another gateway may have mounted the store meanwhile.
            Err(error) => {
                let found = places::live_mount(&self.store, self.dir.as_deref());
                found.map(|mountpoint| (mountpoint, None)).ok_or(error)
            }
        }
    }
}

fn say(failure: &Failure) {
    let mut printer = crate::output::Printer::new(false);
    let message = &failure.message;
    printer.message(&format_args!("no mount, so results are read by the context tools: {message}"));
    if let Some(hint) = &failure.hint {
        printer.message(&format_args!("to mount: {hint}"));
    }
}
