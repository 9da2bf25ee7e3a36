//! `ctxfs run-filter`: the process that runs a jq filter for the filesystem.

use std::ffi::OsString;
use std::io;
use std::io::Write as _;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::confine;

/// The limit of descriptors: standard input, output and error.
const DESCRIPTORS: u64 = 3;

/// Returns the command that the filesystem starts.
pub(super) fn command() -> Vec<OsString> {
    ["/proc/self/exe", "run-filter"].map(OsString::from).into()
}

/// Runs the filter on standard input.
pub(super) fn run() -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-jq");
    limit()?;
    std::panic::set_hook(Box::new(|panic| {
        // The reader sees only the message of the panic.
        drop(writeln!(io::stderr(), "{}", panic.payload_as_str().unwrap_or("it panicked")));
    }));
    Ok(ctxfs_view::run_filter(&mut io::stdin().lock(), &mut io::stdout().lock())?)
}

/// Takes from this process what a filter does not need, and makes it end with its parent, which
/// keeps the deadline.
fn limit() -> anyhow::Result<()> {
    let limits = [
        (Resource::As, ctxfs_view::FILTER_MEMORY),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, DESCRIPTORS),
    ];
    set_parent_process_death_signal(Some(Signal::KILL))?;
    confine::filter()?;
    for (what, most) in limits {
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}
