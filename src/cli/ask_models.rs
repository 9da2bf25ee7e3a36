//! `ctxfs ask-models`: the process that asks language models for a server. It has the network and the
//! keys, and no file of the store.

use std::io;
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::Signal;
use rustix::process::set_parent_process_death_signal;

use crate::cli::confine;
use crate::cli::models;
use crate::cli::plan::MountPlan;
use crate::extract::Models;
use crate::llm;

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
    Ok(Some(Arc::new(llm::models_apart(settings.clone(), control)?)))
}

/// Asks models for the parent process, until that ends.
pub(super) fn run() -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-models");
    set_parent_process_death_signal(Some(Signal::KILL))?;
    confine::network()?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(llm::serve(&control, models::model)?)
}
