//! The confinement in effect, found by trying.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};

use rustix::process::{DumpableBehavior, Pid};
use rustix::thread::CapabilitySet;

use crate::confine::files::LANDLOCK_COMPLETE_SINCE;
use ctxfs_engine::Confinement;

/// Returns the confinement of this thread. `landlock` is its version, if it was applied.
pub(super) fn confinement(landlock: Option<i32>) -> Confinement {
    Confinement {
        landlock,
        files: File::open("/").is_err(),
        network: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).is_err(),
        signals: landlock.is_some_and(|version| version >= LANDLOCK_COMPLETE_SINCE)
            && !reaches_others(),
        no_new_privileges: rustix::thread::no_new_privs().unwrap_or(false),
        capabilities: capabilities(),
        memory: is_hidden(),
    }
}

/// Returns true if this process could signal its parent, which signal 0 tests without effect.
fn reaches_others() -> bool {
    rustix::process::getppid()
        .or(Some(Pid::INIT))
        .is_some_and(|other| rustix::process::test_kill_process(other).is_ok())
}

/// Returns the names of the effective and permitted capabilities.
fn capabilities() -> Vec<String> {
    let now = rustix::thread::capabilities(None);
    let now = now.map_or(CapabilitySet::all(), |sets| sets.effective | sets.permitted);
    now.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

fn is_hidden() -> bool {
    let behaviour = rustix::process::dumpable_behavior();
    matches!(behaviour, Ok(DumpableBehavior::NotDumpable))
}
