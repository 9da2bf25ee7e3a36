//! Logging: to standard error, always. In the background standard error is a file, so a panic and
//! the words of a helper are found there too.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::IsTerminal as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::cli::outcome::Failure;

/// A log that has grown past this becomes `<name>.old` when the next server starts.
const ROTATE_AT: u64 = 8 << 20;

/// Refuses `directives` that cannot be.
pub(super) fn check(directives: &str) -> anyhow::Result<()> {
    filter(directives).map(drop)
}

fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    Ok(EnvFilter::try_new(directives).map_err(|error| {
        let text = format!("cannot log at `{directives}`: {error}");
        Failure::usage(text, "one of error, warn, info, debug, trace")
    })?)
}

/// Starts logging what `directives` let through.
pub(super) fn start(directives: &str) -> anyhow::Result<()> {
    let filter = filter(directives)?;
    let colours = std::io::stderr().is_terminal()
        && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = subscriber.with_ansi(colours).try_init();
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// Opens the background server's log for appending.
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
