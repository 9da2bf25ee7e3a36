//! Printing: data to standard output, messages to standard error.

use std::fmt::Display;
use std::io;
use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::outcome::Failure;

/// The style of what is right.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of what deserves attention.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// The style of what is wrong.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// The style of headings.
pub(super) const STRONG: Style = Style::new().bold();

/// Prints data and messages. Writes colours only to terminals, and only if `NO_COLOR` is not set.
#[derive(Debug)]
pub(super) struct Printer {
    json: bool,
    out: anstream::Stdout,
    err: anstream::Stderr,
}

/// The error of a write to standard output. It is not a failure if the reader closed the pipe, as
/// `head` does.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
struct OutputError(#[from] io::Error);

/// Marks `error` as one of writing to standard output.
pub(super) fn refused(error: io::Error) -> anyhow::Error {
    OutputError(error).into()
}

/// Returns true if `error` says only that the reader of standard output closed the pipe.
pub(super) fn is_closed(error: &anyhow::Error) -> bool {
    let output = error.downcast_ref::<OutputError>();
    output.is_some_and(|OutputError(cause)| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints to standard error what a person must know whatever the form of the output.
pub(super) fn note(text: &str) {
    drop(writeln!(anstream::stderr(), "ctxfs: {text}"));
}

impl Printer {
    /// Creates a printer of JSON or of text for people.
    pub(super) fn new(json: bool) -> Self {
        Self { json, out: anstream::stdout(), err: anstream::stderr() }
    }

    /// Prints text, without its colours if they are not wanted.
    pub(super) fn data(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(OutputError)?;
        Ok(())
    }

    /// Prints bytes unchanged.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = self.out.as_inner().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(OutputError)?;
        Ok(())
    }

    /// Prints one line: `value` as JSON, or else `text`.
    pub(super) fn line(
        &mut self,
        text: &dyn Display,
        value: &impl Serialize,
    ) -> anyhow::Result<()> {
        let line = if self.json { serde_json::to_string(value)? } else { text.to_string() };
        self.data(&(line + "\n"))
    }

    /// Prints a message to standard error, unless the output is JSON.
    pub(super) fn say(&mut self, text: &dyn Display) {
        if !self.json {
            self.talk(text);
        }
    }

    /// Returns true if messages go to a person at a terminal.
    pub(super) fn is_for_person(&self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// Prints a failure and its hint to standard error.
    pub(super) fn failure(&mut self, failure: &Failure) {
        if self.json
            && let Ok(text) = serde_json::to_string(&serde_json::json!({ "error": failure }))
        {
            return self.talk(&text);
        }
        self.talk(&format_args!("{BAD}error{BAD:#}: {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.talk(&format_args!("{GOOD}hint{GOOD:#}: {hint}"));
        }
    }

    /// Ignores errors: nobody is left to tell about them.
    fn talk(&mut self, text: &dyn Display) {
        drop(writeln!(self.err, "{text}"));
    }
}
