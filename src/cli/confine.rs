//! What the server gives up once it has mounted and opened its store: whatever a hostile output, or a
//! fault in reading one, might make of it, it cannot reach further than this.
//!
//! | given up | by |
//! |---|---|
//! | every file but the store's, and few to read (`files`) | Landlock |
//! | binding and connecting to TCP ports, signals to others, abstract sockets | Landlock |
//! | mounting, unmounting, looking into other processes | Landlock |
//! | more rights by way of a setuid program | `no_new_privs` |
//! | the capabilities that serving does not need (`rights`) | `capset`, and the bounding set |
//! | core files, and debuggers of the same user | `PR_SET_DUMPABLE`, `RLIMIT_CORE` |
//!
//! All this is of the thread that asks for it, and of the threads and processes that it starts: so it
//! is asked for while the server has one thread. The watchdogs, started before, stay as they are.
//! A kernel without Landlock leaves the server as it was; what holds in the end is tried out
//! (`probe`).

mod files;
mod probe;
mod rights;

pub(super) use files::LANDLOCK_COMPLETE_SINCE;
pub(super) use files::Needs;
pub(super) use files::landlock;

use rustix::process::DumpableBehavior;
use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::setrlimit;

use crate::fs::Confinement;

/// Confines this thread, and what it starts from now on, to `needs`. What the kernel does not have is
/// left out; the rest holds.
pub(super) fn server(needs: Needs<'_>) -> Confinement {
    told("capabilities", rights::keep(rights::of_server(needs.passthrough)));
    told("memory", hide_memory());
    let landlock = told("Landlock", files::serve(needs)).flatten();
    probe::confinement(landlock)
}

/// Confines this thread to computing: it opens nothing, connects to nothing, signals nobody.
pub(super) fn filter() -> anyhow::Result<()> {
    rights::keep(rights::NONE)?;
    hide_memory()?;
    files::nothing()
}

fn hide_memory() -> anyhow::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn told<T>(what: &str, done: anyhow::Result<T>) -> Option<T> {
    done.inspect_err(|error| tracing::warn!("the server is not confined: {what}: {error:#}")).ok()
}
