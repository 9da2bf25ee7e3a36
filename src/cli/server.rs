//! The life of a server: mount, serve, unmount, leave nothing behind.
//!
//! ```text
//! mount -> watchdogs -> store -> models -> confined -> session -> ready -> ...
//! ... -> stop: unmount lazily -> closed, or 5 s pass -> sealed, or 20 s pass
//!  +---> unmounted: sealed -> sent to other hosts, or 5 s pass
//! ```

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use rustix::process::{Resource, Rlimit};
use signal_hook::iterator::Signals;

use crate::confine::Needs;
use crate::plan::MountPlan;
use crate::remote::SharedObjects;
#[cfg(feature = "remote")]
use crate::remote::Starter;
use crate::serve;
use crate::serve::ServerParts;
use crate::settings::Key;
use crate::stop::{ServerEvent, Stop};
use crate::watchdog::Watchdogs;
use crate::{ask_models, confine, env, memory, remote};
use ctxfs_engine::Confinement;
use ctxfs_fuse::Processes;
use ctxfs_fuse::kernel::mount;
use ctxfs_fuse::kernel::mount::{MountError, MountMethod, MountOptions, MountState};
use ctxfs_models::extract::Models;
use ctxfs_store::Store;

/// The time for which open files are served after an unmount.
const AFTER_UNMOUNT: Duration = Duration::from_secs(5);
/// The longest time for sealing, and for sending that to other hosts, after a request to stop: it may
/// have to read terabytes, and a lock or a disk may hold it up.
const SEALING: Duration = Duration::from_secs(20);

/// Mounts and serves until the mount is gone. Calls `ready` once the mount answers; if that fails,
/// unmounts.
pub(super) fn run(
    plan: &MountPlan,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Otherwise a process started through /proc/self/exe is named `exe`.
    let _ = rustix::thread::set_name(c"ctxfs");
    memory::share();
    let (events, received) = mpsc::channel();
    let signals = Stop::signals()?;
    raise_open_files();
    let remote = remote::url(&plan.settings)?;
    let source = plan.source().to_string_lossy().into_owned();
    let options = MountOptions {
        source,
        allow_other: plan.allow_other,
        noexec: plan.settings.is_on(Key::NoExec),
    };
    let mounted = mount::mount(&plan.target, &options)?;
    let watched = WatchedMount::watch(mounted.method, &mounted.target, remote)?;
    let begun = begin(plan, mounted.fd, &watched, signals, events).and_then(|()| ready());
    begun.inspect_err(|_| watched.give_up())?;
    tracing::info!(store = %plan.store.display(), "serving `{}`", plan.target.display());
    wait(&received, &watched)
}

fn begin(
    plan: &MountPlan,
    fd: OwnedFd,
    watched: &WatchedMount,
    signals: Signals,
    events: Sender<ServerEvent>,
) -> anyhow::Result<()> {
    let store = Store::open_to_serve(&plan.store)?;
    let models = started_models(plan)?;
    let bucket = bucket(plan, &store, &watched.watchdogs)?;
    // Confined while there is one thread, before any byte of an output is read.
    let confinement = confine(plan, &store);
    let stop = Stop::new(events.clone());
    stop.listen(signals)?;
    watched.watchdogs.listen(&stop)?;
    let processes: Arc<dyn Processes> = Arc::clone(&watched.watchdogs) as _;
    let doors = ServerParts { processes, confinement, models, bucket };
    let (session, ending) = serve::start(plan, store, fd, doors)?;
    let wait = move || {
        let left = || _ = events.send(ServerEvent::Left);
        if let Err(error) = session.wait(left) {
            tracing::error!(%error, "the connection to the kernel broke");
        }
        ending();
        let _ = events.send(ServerEvent::Ended);
    };
    thread::Builder::new().name("session".to_owned()).spawn(wait)?;
    Ok(())
}

fn wait(events: &Receiver<ServerEvent>, watched: &WatchedMount) -> anyhow::Result<()> {
    match events.recv() {
        Ok(ServerEvent::Stop) => {
            tracing::info!("asked to stop: unmounting");
            watched.leave()?;
            if watched.target.is_some() {
                end(events);
            }
        }
        Ok(ServerEvent::Left | ServerEvent::Ended) | Err(_) => {
            watched.clear();
            let _ended = events.recv();
        }
    }
    tracing::info!("done");
    Ok(())
}

/// Serves open files for a while after an unmount, and then waits until what was written last is
/// sealed.
fn end(events: &Receiver<ServerEvent>) {
    if events.recv_timeout(AFTER_UNMOUNT) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("files are still open; they end here");
    } else if events.recv_timeout(SEALING) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("the last outputs could not be sealed in time");
    }
}

/// Starts the process that asks models for a server that cannot.
fn started_models(plan: &MountPlan) -> io::Result<Option<Arc<Models>>> {
    if is_unconfined(plan) { Ok(None) } else { ask_models::start(plan) }
}

/// Returns the bucket that hosts share, if one is set. Its keys are those of the process that asks
/// it, which the watchdogs start: a confined server forgets them.
#[cfg(feature = "remote")]
fn bucket(
    plan: &MountPlan,
    store: &Store,
    watchdogs: &Arc<Watchdogs>,
) -> anyhow::Result<Option<SharedObjects>> {
    let watchdogs = Arc::clone(watchdogs);
    let starter: Starter = Box::new(move |socket| watchdogs.start_remote(socket.as_fd()));
    let bucket = remote::start_process(&plan.settings, store, starter)?;
    if bucket.is_some() && !is_unconfined(plan) {
        env::forget_object_stores();
    }
    Ok(bucket)
}

/// Returns none, as this build has no remote tier.
#[cfg(not(feature = "remote"))]
#[expect(clippy::unnecessary_wraps, reason = "a build with the tier may fail")]
fn bucket(_: &MountPlan, _: &Store, _: &Arc<Watchdogs>) -> anyhow::Result<Option<SharedObjects>> {
    Ok(None)
}

fn is_unconfined(plan: &MountPlan) -> bool {
    plan.settings.text(Key::Confine) == Some("off")
}

/// Gives up what serving does not need, unless the settings forbid that.
fn confine(plan: &MountPlan, store: &Store) -> Confinement {
    if is_unconfined(plan) {
        return Confinement::default();
    }
    let needs = Needs {
        store: store.as_fd(),
        passthrough: plan.passthrough,
        abstract_sockets: env::is_notified_abstractly(),
    };
    let confinement = confine::server(needs);
    if !confinement.is_complete() {
        tracing::warn!(?confinement, "this kernel does not confine the server fully");
    }
    confinement
}

/// A mount and its watchdogs.
#[derive(Debug)]
struct WatchedMount {
    /// The mountpoint to clear at the end; `None` if another process mounted.
    target: Option<PathBuf>,
    watchdogs: Arc<Watchdogs>,
}

impl WatchedMount {
    /// Starts the watchdogs, which may start a process for the bucket `remote`. Unmounts if that fails.
    fn watch(method: MountMethod, target: &Path, remote: Option<&str>) -> anyhow::Result<Self> {
        let own = (!matches!(method, MountMethod::InheritedFd(_))).then(|| target.to_owned());
        match Watchdogs::start(target, remote) {
            Ok(watchdogs) => Ok(Self { target: own, watchdogs }),
            Err(error) => {
                own.as_deref().map_or(Ok(()), mount::unmount)?;
                Err(error.into())
            }
        }
    }

    /// Unmounts, unless that has happened already. A confined server cannot unmount by itself, so
    /// the watchdogs are asked first.
    fn leave(&self) -> Result<(), MountError> {
        let Some(target) = &self.target else { return Ok(()) };
        let Err(error) = self.watchdogs.unmount() else { return Ok(()) };
        match mount::unmount(target) {
            Err(MountError::NotMounted { .. }) => Ok(()),
            other => other.inspect_err(|_| tracing::error!("no watchdog unmounts: {error}")),
        }
    }

    /// Unmounts after a start that failed.
    fn give_up(&self) {
        if let Err(error) = self.leave() {
            tracing::error!("{error}");
        }
    }

    /// Unmounts a dead mount, which an aborted connection leaves. One that is alive belongs to
    /// another server.
    fn clear(&self) {
        let dead = |target: &Path| matches!(mount::state(target), MountState::Dead { .. });
        if self.target.as_deref().is_some_and(dead) {
            self.give_up();
        }
    }
}

/// Raises the limit of open files: each file that a reader has open is open here too.
fn raise_open_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}
