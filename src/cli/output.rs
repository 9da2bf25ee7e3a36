//! Printing: standard output is data, standard error is talk.

use std::fmt::Display;
use std::io;
use std::io::Write as _;

use anstyle::AnsiColor;
use anstyle::Style;
use serde::Serialize;

use crate::cli::outcome::Failure;

/// For what is right.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// For what deserves a look.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
/// For what is wrong.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// For headings.
pub(super) const STRONG: Style = Style::new().bold();

/// The one way to print. Colours reach terminals only, and only where `NO_COLOR` is not set.
#[derive(Debug)]
pub(super) struct Printer {
    json: bool,
    out: anstream::Stdout,
    err: anstream::Stderr,
}

/// Standard output took no more. If its reader left, as `head` does, that is no failure.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
struct OutputError(#[from] io::Error);

/// `error` came of writing to standard output.
pub(super) fn refused(error: io::Error) -> anyhow::Error {
    OutputError(error).into()
}

/// Whether `error` says only that the reader of standard output has left.
pub(super) fn is_closed(error: &anyhow::Error) -> bool {
    let output = error.downcast_ref::<OutputError>();
    output.is_some_and(|OutputError(cause)| cause.kind() == io::ErrorKind::BrokenPipe)
}

impl Printer {
    /// `json` is for programs that read.
    pub(super) fn new(json: bool) -> Self {
        Self { json, out: anstream::stdout(), err: anstream::stderr() }
    }

    /// Prints data for people: as it is, but for its colours.
    pub(super) fn data(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(OutputError)?;
        Ok(())
    }

    /// Prints bytes, untouched.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = self.out.as_inner().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(OutputError)?;
        Ok(())
    }

    /// Prints a line of data: `text` for people, `value` for programs.
    pub(super) fn line(
        &mut self,
        text: &dyn Display,
        value: &impl Serialize,
    ) -> anyhow::Result<()> {
        let line = if self.json { serde_json::to_string(value)? } else { text.to_string() };
        self.data(&(line + "\n"))
    }

    /// Tells the user something that is not data. Silent where programs read.
    pub(super) fn say(&mut self, text: &dyn Display) {
        if !self.json {
            self.talk(text);
        }
    }

    /// Says what failed, and what to do about it.
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

    /// Where nobody listens there is nothing to be done.
    fn talk(&mut self, text: &dyn Display) {
        drop(writeln!(self.err, "{text}"));
    }
}
