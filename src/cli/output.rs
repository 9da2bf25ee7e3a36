//! Printing: data to standard output, messages and failures to standard error. Colours are used
//! only on terminals, and only if `NO_COLOR` is not set.

use std::io::{self, IsTerminal as _, Write as _};
use std::{fmt::Display, process::ExitCode};

use anstyle::{AnsiColor, Style};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const STRONG: Style = Style::new().bold();

/// Prints data and messages as text or JSON. With JSON, messages for people are not printed.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    out: anstream::Stdout,
    err: anstream::Stderr,
}

// An error on standard output. If the reader closed the pipe, as `head` does, the error is not a
// failure of the command.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {0}")]
struct OutputError(#[from] io::Error);

pub(crate) fn refused(error: io::Error) -> anyhow::Error {
    OutputError(error).into()
}

/// Returns true if `error` only means that the reader of standard output closed the pipe.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let output = error.downcast_ref::<OutputError>();
    output.is_some_and(|OutputError(cause)| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints to standard error a text that the user must see even if the output is JSON.
pub(crate) fn note(text: &str) {
    drop(writeln!(anstream::stderr(), "ctxfs: {text}"));
}

impl Printer {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, out: anstream::stdout(), err: anstream::stderr() }
    }

    pub(crate) fn data(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(OutputError)?;
        Ok(())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut out = self.out.as_inner().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(OutputError)?;
        Ok(())
    }

    /// Prints one line: `value` if the output is JSON, and `text` otherwise.
    pub(crate) fn line(
        &mut self,
        text: &dyn Display,
        value: &impl Serialize,
    ) -> anyhow::Result<()> {
        let line = if self.json { serde_json::to_string(value)? } else { text.to_string() };
        self.data(&(line + "\n"))
    }

    /// Prints a report: `value` as one line if the output is JSON, and `text` otherwise.
    pub(crate) fn report(
        &mut self,
        text: impl FnOnce() -> String,
        value: impl FnOnce() -> Value,
    ) -> anyhow::Result<()> {
        let report = if self.json { value().to_string() + "\n" } else { text() };
        self.data(&report)
    }

    pub(crate) fn message(&mut self, text: &dyn Display) {
        if !self.json {
            self.write_message(text);
        }
    }

    pub(crate) fn is_interactive(&self) -> bool {
        !self.json && io::stderr().is_terminal()
    }

    /// Prints a failure and its hint to standard error.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        if self.json
            && let Ok(text) = serde_json::to_string(&json!({ "error": failure }))
        {
            return self.write_message(&text);
        }
        self.write_message(&format_args!("{BAD}error{BAD:#}: {}", failure.message));
        if let Some(hint) = &failure.hint {
            self.write_message(&format_args!("{GOOD}hint{GOOD:#}: {hint}"));
        }
    }

    fn write_message(&mut self, text: &dyn Display) {
        drop(writeln!(self.err, "{text}"));
    }
}

/// A failure of a command, ready to be printed or sent to a waiting process. The message states
/// what failed and for which object. The hint states what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// The kinds of failure. Programs may rely on them. Wrong usage and wrong settings have exit code
/// 2, all other failures exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    Usage,
    Mount,
    Machine,
    Failed,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: FailureKind::Usage, message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn new(
        kind: FailureKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            FailureKind::Usage => ExitCode::from(2),
            FailureKind::Mount | FailureKind::Machine | FailureKind::Failed => ExitCode::FAILURE,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let message = with_causes(&error);
        match error.downcast::<Self>() {
            Ok(failure) => failure,
            Err(error) => match error.downcast_ref::<ctxfs_fuse::kernel::mount::MountError>() {
                Some(mount) => Self { kind: FailureKind::Mount, message, hint: mount.hint() },
                None => Self { kind: FailureKind::Failed, message, hint: None },
            },
        }
    }
}

// Leaves out causes that are already contained in the text.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

pub(crate) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

// Formats a size like `ls -h`, in powers of 1024.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

#[cfg(test)]
mod tests {
    use ctxfs_store::StoreError;

    use ctxfs_fuse::kernel::mount::MountError;

    use super::*;

    #[test]
    fn a_mount_error_brings_its_hint() {
        let failure = Failure::from(anyhow::Error::from(MountError::NoDevice));
        assert_eq!(failure.kind, FailureKind::Mount);
        assert!(failure.hint.unwrap().contains("modprobe fuse"));
    }

    #[test]
    fn a_failure_comes_through_unchanged() {
        let failure = Failure::usage("no", "yes");
        assert_eq!(Failure::from(anyhow::Error::from(failure.clone())), failure);
    }

    #[test]
    fn the_message_has_the_causes() {
        let error = anyhow::Error::msg("disk full").context("cannot write `x`");
        assert_eq!(Failure::from(error).message, "cannot write `x`: disk full");
    }

    #[test]
    fn the_message_has_each_cause_once() {
        let source = std::io::Error::from_raw_os_error(libc::EACCES);
        let error = StoreError::Io { action: "lock", path: "/s/x".into(), source };
        let once = error.to_string();
        assert_eq!(Failure::from(anyhow::Error::from(error)).message, once);
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 1023, 1024, 10 * 1024, 1536 * 1024, 3 << 40].map(size);
        assert_eq!(sizes, ["0", "1023", "1.0K", "10K", "1.5M", "3.0T"]);
    }
}
