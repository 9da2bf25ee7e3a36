//! Starts the filesystem and its adaptor to the kernel, from the plan of a mount.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::geteuid;

use crate::plan::MountPlan;
use crate::remote::{Ending, SharedObjects};
use crate::settings::Key;
use crate::{engine, remote};
use ctxfs_engine::{Confinement, EngineOptions};
use ctxfs_fuse::kernel::{Session, SessionOptions};
use ctxfs_fuse::{Coherence, ContextFs, FsOptions, Processes};
use ctxfs_models::extract::Models;
use ctxfs_store::Store;

/// The divisor of the kernel's request timeout that gives the deadline of a view. A request that
/// outlives the timeout ends the whole mount (`fs.fuse.max_request_timeout`, Linux 6.15).
const TIMEOUT_SHARE: u32 = 2;

/// What a server has beside its plan.
pub(super) struct ServerParts {
    /// Looks at other processes.
    pub(super) processes: Arc<dyn Processes>,
    /// The limits that hold for this one.
    pub(super) confinement: Confinement,
    /// The models that another process asks, if this one may not.
    pub(super) models: Option<Arc<Models>>,
    /// The bucket that hosts share, asked by another process.
    pub(super) bucket: Option<SharedObjects>,
}

/// Starts to answer the kernel on `fd`, and returns once the mount works. What it returns beside the
/// session is to be called once that has ended.
pub(super) fn start(
    plan: &MountPlan,
    store: Store,
    fd: OwnedFd,
    parts: ServerParts,
) -> anyhow::Result<(Session, Ending)> {
    let stacked_store = store.is_stacked();
    let ServerParts { processes, confinement, models, bucket } = parts;
    let options = engine_options(plan);
    let models = models.unwrap_or_else(|| Arc::clone(&options.models));
    let options = EngineOptions { models, ..options };
    let (options, ending) = remote::share(&store, bucket, &plan.settings, options)?;
    let engine = engine::open(store, options);
    let fs = ContextFs::new(engine, FsOptions { processes, confinement, ..fs_options(plan) })?;
    let session = SessionOptions {
        passthrough: plan.passthrough,
        allow_other: plan.allow_other,
        stacked_store,
        ..SessionOptions::default()
    };
    let session = Session::start(fs, fd, &session)?;
    tracing::info!(passthrough = session.is_passthrough(), "the kernel answers");
    Ok((session, ending))
}

fn fs_options(plan: &MountPlan) -> FsOptions {
    let (defaults, settings) = (FsOptions::default(), &plan.settings);
    FsOptions {
        write_once: settings.is_on(Key::WriteOnce),
        coherence: match settings.text(Key::Coherence) {
            Some("strict") => Coherence::Strict,
            _ => Coherence::Relaxed,
        },
        list_views: settings.text(Key::Views) == Some("listed"),
        // Other users may create conversations, and remove only their own. Only root can give a new
        // conversation to its creator.
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

/// Returns the kernel's request timeout, if it sets one.
fn request_timeout() -> Option<Duration> {
    let seconds = ["max_request_timeout", "default_request_timeout"].iter().filter_map(|name| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/fuse/{name}")).ok()?;
        text.trim().parse().ok().filter(|seconds| *seconds > 0)
    });
    seconds.min().map(Duration::from_secs)
}
