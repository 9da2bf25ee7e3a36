//! The server of a mount, from mounting to its clean end.
//!
//! ```text
//! mount -> watchdogs -> store -> models -> confined -> session -> ready -> ...
//! ... -> stop: unmount lazily -> closed, or 5 s pass -> sealed, or 20 s pass
//!  +---> unmounted: sealed -> sent to other hosts, or 5 s pass
//! ```

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::{io, sync::Arc, thread, time::Duration};

use rustix::process::{Resource, Rlimit, geteuid};
use signal_hook::iterator::Signals;

use crate::confine::{self, ServerNeeds};
use crate::helper::watchdog::{STOP_SIGNALS, ServerEvent, StopRequests, Watchdogs};
use crate::remote::{self, SharedObjects};
use crate::{SettingKey, Settings, engine, env, helper::bucket::Starter, helper::models};
use ctxfs_engine::{Confinement, EngineOptions};
use ctxfs_fuse::kernel::mount::{self, MountError, MountMethod, MountOptions, MountState};
use ctxfs_fuse::kernel::{Session, SessionOptions};
use ctxfs_fuse::{Coherence, ContextFs, FsOptions, Processes};
use ctxfs_store::{Dir, Store, conversation_path};

/// The parameters of the server of a mount. Paths are absolute. `engine` names the conversation if
/// only one is mounted.
#[derive(Debug, Clone)]
pub(crate) struct MountPlan {
    pub(crate) store: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) allow_other: bool,
    pub(crate) passthrough: bool,
    pub(crate) engine: EngineOptions,
    pub(crate) settings: Arc<Settings>,
}

impl MountPlan {
    pub(crate) fn source(&self) -> PathBuf {
        let conversation = self.engine.only.as_ref().map(|id| conversation_path(&self.store, id));
        conversation.unwrap_or_else(|| self.store.clone())
    }
}

const AFTER_UNMOUNT: Duration = Duration::from_secs(5);
// Time to seal the outputs and to send them to other hosts. Sealing may have to read terabytes, and
// a lock or a disk may delay it.
const SEALING: Duration = Duration::from_secs(20);

/// Mounts the file system, and serves it until it is unmounted. Calls `ready` once the mount
/// answers, and unmounts if `ready` fails.
pub(crate) fn run(
    plan: &MountPlan,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Without this, a process that was started through /proc/self/exe is named `exe`.
    let _ = rustix::thread::set_name(c"ctxfs");
    crate::system::share_arena();
    let (events, received) = mpsc::channel();
    let signals = Signals::new(STOP_SIGNALS)?;
    raise_open_files();
    let remote = remote::url(&plan.settings)?;
    let source = plan.source().to_string_lossy().into_owned();
    let options = MountOptions {
        source,
        allow_other: plan.allow_other,
        noexec: plan.settings.is_on(SettingKey::NoExec),
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
    // The threads of the server must not wait for a lease.
    let store = Store::open_with(&plan.store, Dir::never_waiting)?;
    let models = started_models(plan)?;
    let bucket = bucket(plan, &store, &watched.watchdogs)?;
    // The process is confined while it has one thread, before it reads any byte of an output.
    let confinement = confine(plan, &store);
    let stop = StopRequests::new(events.clone());
    stop.listen(signals)?;
    watched.watchdogs.listen(&stop)?;
    let processes: Arc<dyn Processes> = Arc::clone(&watched.watchdogs) as _;
    let options = engine_options(plan);
    let models = models.unwrap_or_else(|| Arc::clone(&options.models));
    let options = EngineOptions { models, ..options };
    let (options, ending) = remote::share(&store, bucket, &plan.settings, options)?;
    let options_of_fs = FsOptions { processes, confinement, ..fs_options(plan) };
    let session = start_session(plan, store, fd, options, options_of_fs)?;
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
            watched.unmount()?;
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

fn end(events: &Receiver<ServerEvent>) {
    if events.recv_timeout(AFTER_UNMOUNT) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("files are still open; they end here");
    } else if events.recv_timeout(SEALING) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!("the last outputs could not be sealed in time");
    }
}

fn started_models(plan: &MountPlan) -> io::Result<Option<Arc<ctxfs_models::extract::Models>>> {
    if is_unconfined(plan) { Ok(None) } else { models::start(plan.engine.models.settings()) }
}

// Returns access to the bucket through a process that the watchdogs start. The watchdogs have the
// keys, so a confined server removes the keys from its own environment.
fn bucket(
    plan: &MountPlan,
    store: &Store,
    watchdogs: &Arc<Watchdogs>,
) -> anyhow::Result<Option<SharedObjects>> {
    let watchdogs = Arc::clone(watchdogs);
    let starter: Starter = Arc::new(move |socket| watchdogs.start_remote(socket.as_fd()));
    let bucket = remote::bucket_process(&plan.settings, store, starter)?;
    if bucket.is_some() && !is_unconfined(plan) {
        env::forget_object_stores();
    }
    Ok(bucket)
}

fn is_unconfined(plan: &MountPlan) -> bool {
    plan.settings.text(SettingKey::Confine) == Some("off")
}

fn confine(plan: &MountPlan, store: &Store) -> Confinement {
    if is_unconfined(plan) {
        return Confinement::default();
    }
    let needs = ServerNeeds {
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

#[derive(Debug)]
struct WatchedMount {
    // The mountpoint, which is cleared at the end. `None` if another process mounted it.
    target: Option<PathBuf>,
    watchdogs: Arc<Watchdogs>,
}

impl WatchedMount {
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

    // Sends the request to the watchdogs first, because a confined server cannot unmount by itself.
    fn unmount(&self) -> Result<(), MountError> {
        let Some(target) = &self.target else { return Ok(()) };
        let Err(error) = self.watchdogs.unmount() else { return Ok(()) };
        match mount::unmount(target) {
            Err(MountError::NotMounted { .. }) => Ok(()),
            other => other.inspect_err(|_| tracing::error!("no watchdog unmounts: {error}")),
        }
    }

    fn give_up(&self) {
        if let Err(error) = self.unmount() {
            tracing::error!("{error}");
        }
    }

    // Clears a dead mount, which an aborted connection leaves. A live mount belongs to another
    // server.
    fn clear(&self) {
        let dead = |target: &Path| matches!(mount::state(target), MountState::Dead { .. });
        if self.target.as_deref().is_some_and(dead) {
            self.give_up();
        }
    }
}

// Raises the limit, because each file that a reader has open is also open in the server.
fn raise_open_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}

// A request that exceeds the kernel's timeout (`fs.fuse.max_request_timeout`, Linux 6.15) ends the
// whole mount. Views may take half of that time.
const TIMEOUT_SHARE: u32 = 2;

fn start_session(
    plan: &MountPlan,
    store: Store,
    fd: OwnedFd,
    options: EngineOptions,
    options_of_fs: FsOptions,
) -> anyhow::Result<Session> {
    let stacked_store = store.is_stacked();
    let fs = ContextFs::new(engine::open(store, options), options_of_fs)?;
    let session = SessionOptions {
        passthrough: plan.passthrough,
        allow_other: plan.allow_other,
        stacked_store,
        ..SessionOptions::default()
    };
    let session = Session::start(fs, fd, &session)?;
    tracing::info!(passthrough = session.is_passthrough(), "the kernel answers");
    Ok(session)
}

fn fs_options(plan: &MountPlan) -> FsOptions {
    let (defaults, settings) = (FsOptions::default(), &plan.settings);
    FsOptions {
        coherence: match settings.text(SettingKey::Coherence) {
            Some("strict") => Coherence::Strict,
            _ => Coherence::Relaxed,
        },
        list_views: settings.text(SettingKey::Views) == Some("listed"),
        // Other users may create conversations, and remove only their own. Only root can make the
        // creator the owner of a new conversation.
        root_mode: if plan.allow_other && geteuid().is_root() {
            0o1777
        } else {
            defaults.root_mode
        },
        ..defaults
    }
}

fn engine_options(plan: &MountPlan) -> EngineOptions {
    let longest = plan.engine.view_deadline;
    let view_deadline =
        request_timeout().map_or(longest, |kernel| longest.min(kernel / TIMEOUT_SHARE));
    EngineOptions { view_deadline, allow_other: plan.allow_other, ..plan.engine.clone() }
}

fn request_timeout() -> Option<Duration> {
    let seconds = ["max_request_timeout", "default_request_timeout"].iter().filter_map(|name| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/fuse/{name}")).ok()?;
        text.trim().parse().ok().filter(|seconds| *seconds > 0)
    });
    seconds.min().map(Duration::from_secs)
}
