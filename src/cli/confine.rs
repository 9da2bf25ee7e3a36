//! The confinement of the server. Once it has mounted and opened its store, it gives up everything
//! else, to limit what a hostile output could do through a bug in reading it.
//!
//! | given up | by |
//! |---|---|
//! | all files outside the store, except a few to read (`files`) | Landlock |
//! | TCP ports, signals to other processes, abstract sockets | Landlock |
//! | mounting, unmounting, inspecting other processes | Landlock |
//! | privileges from setuid programs | `no_new_privs` |
//! | capabilities that serving does not need (`rights`) | `capset`, and the bounding set |
//! | core dumps, and debuggers of the same user | `PR_SET_DUMPABLE`, `RLIMIT_CORE` |
//!
//! Confinement applies to the calling thread and to the threads and processes that it starts, so
//! the server confines itself while it has one thread. The watchdogs, started before, stay
//! unconfined. A kernel may lack Landlock, so the result is found by trying (`probe`).

mod files;
mod probe;
mod rights;

pub(super) use files::{LANDLOCK_COMPLETE_SINCE, Needs, landlock};

use std::os::fd::BorrowedFd;
#[cfg(feature = "remote")]
use std::path::Path;
#[cfg(feature = "remote")]
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit};

use ctxfs_engine::Confinement;

/// Confines this thread, and what it starts from now on, to `needs`, as far as the kernel can.
/// Returns what is in effect.
pub(super) fn server(needs: Needs<'_>) -> Confinement {
    warned("capabilities", rights::keep(rights::for_server(needs.passthrough)));
    warned("memory", hide_memory());
    let landlock = warned("Landlock", files::serve(needs)).flatten();
    probe::confinement(landlock)
}

/// Confines this thread, and what it starts from now on, to reading `store`, and to the sockets that
/// are open. Returns what is in effect.
pub(super) fn reader(store: BorrowedFd<'_>) -> Confinement {
    warned("capabilities", rights::keep(rights::FOR_READER));
    warned("memory", hide_memory());
    let landlock = warned("Landlock", files::read(store)).flatten();
    probe::confinement(landlock)
}

/// Confines this thread, and what it starts from now on, to the network. It can read what a
/// connection needs, such as certificates, and no other file; root's is no longer root's.
pub(super) fn network() -> anyhow::Result<()> {
    warned("user", rights::leave_root().map_err(Into::into));
    rights::keep(rights::NONE)?;
    hide_memory()?;
    files::network(&[])
}

/// Confines this thread, and what it starts from now on, to a bucket: to `directory` if it is one,
/// else to the network, what a connection needs, and `keys`, to read.
///
/// Root's is no longer root's, unless it has files of its own to read or to write.
#[cfg(feature = "remote")]
pub(super) fn bucket(directory: Option<&Path>, keys: &[PathBuf]) -> anyhow::Result<()> {
    if directory.is_none() && keys.is_empty() {
        warned("user", rights::leave_root().map_err(Into::into));
    }
    rights::keep(if directory.is_some() { rights::FOR_DIRECTORY } else { rights::NONE })?;
    hide_memory()?;
    directory.map_or_else(|| files::network(keys), files::directory)
}

/// Confines this thread to computing: it cannot open files, connect or send signals.
pub(super) fn filter() -> anyhow::Result<()> {
    rights::keep(rights::NONE)?;
    hide_memory()?;
    files::nothing()
}

fn hide_memory() -> anyhow::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn warned<T>(what: &str, done: anyhow::Result<T>) -> Option<T> {
    done.inspect_err(|error| tracing::warn!("the server is not confined: {what}: {error:#}")).ok()
}
