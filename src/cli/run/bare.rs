//! Running the command by itself, where its output cannot be stored.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use crate::args::RunArgs;
use crate::output::Printer;
use crate::run::child;

/// The longest wait for the store, whose lock another process may hold for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time until the command starts. If it takes too long, the command runs by itself.
pub(super) struct Preparation {
    /// True once it is decided how the command is run.
    is_decided: Arc<AtomicBool>,
    /// Wakes the thread that waits.
    ended: mpsc::Sender<()>,
}

impl Preparation {
    pub(super) fn begin(args: &RunArgs) -> Self {
        let (ended, wait) = mpsc::channel();
        let is_decided = Arc::new(AtomicBool::new(false));
        let (bare, decided) = (BareCommand::of(args), Arc::clone(&is_decided));
        // Without this thread, it may wait.
        let _watching = thread::Builder::new().name("patience".to_owned()).spawn(move || {
            let late = wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if late && !decided.swap(true, Relaxed) {
                let mut printer = Printer::new(false);
                exit(bare.run(&"the store does not answer", &mut printer));
            }
        });
        Self { is_decided, ended }
    }

    /// Ends it: the caller runs the command. Does not return if that runs already.
    pub(super) fn end(self) {
        if self.is_decided.swap(true, Relaxed) {
            loop {
                thread::park();
            }
        }
        drop(self.ended);
    }
}

/// A command that runs as without ctxfs.
pub(super) struct BareCommand {
    command: Vec<OsString>,
    /// True to print no notice: with `--discard-short` or `--host`, a short output needs none, and the
    /// length of the output is not known after exec.
    is_quiet: bool,
}

impl BareCommand {
    pub(super) fn of(args: &RunArgs) -> Self {
        let is_discarded = args.discard_short || args.host.is_some();
        let is_quiet = is_discarded && !io::stderr().is_terminal();
        Self { command: args.command.clone(), is_quiet }
    }

    /// Runs the command in the place of this process. Returns the exit code if it cannot be run.
    pub(super) fn run(&self, why: &dyn Display, printer: &mut Printer) -> u8 {
        if !self.is_quiet {
            printer.say(&format_args!("ctxfs: the output is not stored: {why}"));
        }
        let error = child::start_of(&self.command).exec();
        let (text, code) = child::not_run(&self.command, &error);
        printer.say(&text.trim_end());
        code
    }
}

#[expect(clippy::exit, reason = "the main thread waits for the store")]
fn exit(code: u8) {
    std::process::exit(code.into());
}
