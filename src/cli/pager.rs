//! A pager for long output on a terminal.

use std::ffi::OsStr;
use std::io;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anstream::AutoStream;

use crate::env;
use crate::env::Environment;

/// The options of `less` unless `$LESS` is set: quit if the output fits on one screen, pass colours
/// through, and leave the output on the screen.
const LESS_OPTIONS: &str = "FRX";

/// Calls `print` with standard output, or on a terminal with the user's pager unless `directly` is
/// set. It is not a failure if the reader leaves early.
pub(super) fn page(
    environment: &Environment,
    directly: bool,
    print: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let colours = AutoStream::choice(&stdout);
    let mut pager = if directly || !stdout.is_terminal() { None } else { start(environment)? };
    let raw: Box<dyn Write> = match pager.as_mut().and_then(|pager| pager.stdin.take()) {
        Some(pipe) => Box::new(pipe),
        None => Box::new(stdout.lock()),
    };
    let mut out = BufWriter::new(AutoStream::new(raw, colours));
    let printed = print(&mut out).and_then(|()| Ok(out.flush()?));
    // Closes the pipe, whose reader may not have read everything.
    drop(out.into_parts());
    if let Some(mut pager) = pager {
        pager.wait()?;
    }
    match printed {
        Err(error) if is_closed(&error) => Ok(()),
        printed => printed,
    }
}

/// Starts `$PAGER`, or else `less`. Returns `None` if there is no pager or none is wanted.
fn start(environment: &Environment) -> anyhow::Result<Option<Child>> {
    let mut command = match environment.pager.as_deref() {
        Some(none) if none.is_empty() || none == "cat" => return Ok(None),
        Some(pager) => shell(pager),
        None => Command::new("less"),
    };
    if !environment.less {
        command.env(env::LESS, LESS_OPTIONS);
    }
    // The pager handles an interrupt, and ends before this process does.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)))?;
    match command.stdin(Stdio::piped()).spawn() {
        Ok(child) => Ok(Some(child)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(anyhow::Error::new(error).context("cannot start the pager")),
    }
}

/// Runs the pager through a shell, as other programs do, so that it can have arguments.
fn shell(pager: &OsStr) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager);
    command
}

fn is_closed(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
