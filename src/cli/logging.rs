//! Logging, always to standard error. A background server's standard error is a file, so panics and
//! messages of helper programs are found there too.
//!
//! No level logs what is stored: no content, no names of files, no queries. Libraries see all of
//! these, so their records below `info` are logged only if a directive names the library.

mod rate_limit;

use std::fs;
use std::fs::{File, OpenOptions};
use std::io::IsTerminal as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::panic::PanicHookInfo;
use std::path::Path;
use std::str::FromStr as _;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::logging::rate_limit::RateLimitedStderr;
use crate::outcome::Failure;

/// The size of a log beyond which the next server renames it to `<name>.old`.
const ROTATE_AT: u64 = 8 << 20;

/// Checks that `directives` are valid.
pub(super) fn check(directives: &str) -> anyhow::Result<()> {
    filter(directives).map(drop)
}

fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    let level = LevelFilter::from_str(directives).ok();
    let all = level.map(|level| format!("{},ctxfs={level}", level.min(LevelFilter::INFO)));
    Ok(EnvFilter::try_new(all.as_deref().unwrap_or(directives)).map_err(|error| {
        let text = format!("invalid log level `{directives}`: {error}");
        Failure::usage(text, "use error, warn, info, debug or trace")
    })?)
}

/// Starts logging what `directives` let through. `own` says that a file behind standard error
/// belongs to the server and is to be kept small.
pub(super) fn start(directives: &str, own: bool) -> anyhow::Result<()> {
    let filter = filter(directives)?;
    let colours = std::io::stderr().is_terminal()
        && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let every = filter.max_level_hint().is_none_or(|level| level > LevelFilter::INFO);
    let writer = RateLimitedStderr::new(every, own);
    std::panic::set_hook(Box::new(panicked));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
    let started = subscriber.with_ansi(colours).try_init();
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// Logs a panic with its place and a message only if that is a literal: others may contain what is
/// stored.
fn panicked(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let text = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("a fault");
    tracing::error!("panicked at {place}: {text}");
}

/// Opens the log of a background server for appending.
pub(super) fn open_file(path: &Path) -> anyhow::Result<File> {
    let context = || format!("cannot open the log `{}`", path.display());
    if let Some(dir) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir).with_context(context)?;
    }
    if fs::metadata(path).is_ok_and(|found| found.len() > ROTATE_AT) {
        fs::rename(path, path.with_extension("log.old")).with_context(context)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).with_context(context)
}
