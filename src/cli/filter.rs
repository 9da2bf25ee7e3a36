//! The process of a filter: `ctxfs run-filter`, which the filesystem starts.

use std::ffi::OsString;
use std::io;
use std::io::Write as _;

use rustix::process::Resource;
use rustix::process::Rlimit;
use rustix::process::Signal;
use rustix::process::set_parent_process_death_signal;
use rustix::process::setrlimit;

use crate::cli::confine;
use crate::view;

/// Descriptors that it may have: the three that it is given.
const DESCRIPTORS: u64 = 3;

/// What the filesystem starts.
pub(super) fn command() -> Vec<OsString> {
    ["/proc/self/exe", "run-filter"].map(OsString::from).into()
}

/// Runs the filter that comes on standard input.
pub(super) fn run() -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-jq");
    limit()?;
    std::panic::set_hook(Box::new(|panic| {
        // All that its reader is to know of it.
        drop(writeln!(io::stderr(), "{}", panic.payload_as_str().unwrap_or("it panicked")));
    }));
    Ok(view::run_filter(&mut io::stdin().lock(), &mut io::stdout().lock())?)
}

/// Takes from this process what a filter does not need. It ends with the one that started it, whose
/// deadline it has.
fn limit() -> anyhow::Result<()> {
    let limits = [
        (Resource::As, view::FILTER_MEMORY),
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
