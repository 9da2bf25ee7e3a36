//! `ctxfs ask-models`: the process that asks language models for a server. It has the network and the
//! keys, and no file of the store.
//!
//! ```text
//! the server                       ask-models
//!   targets, as one document  ->     makes the models, with its own keys
//!   a socket                  ->     a thread for it
//!     request, as one document  ->     asks
//!     a byte: give it up        ->     stops
//!                               <-   reply, as one document
//! ```

mod document;
mod model;
mod serving;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::plan::MountPlan;
use crate::{confine, models};
use ctxfs_models::extract::Models;

/// Starts the process, if the views of the mount ask models. Must be called before the server is
/// confined: a confined process can start only confined ones.
pub(super) fn start(plan: &MountPlan) -> io::Result<Option<Arc<Models>>> {
    let settings = plan.engine.models.settings();
    if !settings.view || settings.targets.is_empty() {
        return Ok(None);
    }
    let (control, theirs) = UnixStream::pair()?;
    // It ends with this process, and not before.
    Command::new("/proc/self/exe")
        .arg0("ctxfs")
        .arg("ask-models")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .current_dir("/")
        .spawn()?;
    Ok(Some(Arc::new(model::models(settings.clone(), control)?)))
}

/// Asks models for the parent process, until that ends.
pub(super) fn run() -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-models");
    confine::network()?;
    // The kernel forgets this when the user changes.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(serving::serve(&control, models::model)?)
}
