//! What the server in the background tells the command that started it: one line of JSON on the
//! server's standard output.

use std::io;
use std::io::Read;
use std::io::Write as _;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use crate::cli::outcome::Failure;
use crate::cli::plan::MountPlan;

/// How the start went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StartStatus {
    /// The mount answers.
    Ready(ServedMount),
    /// It does not, and will not.
    Failed(Failure),
}

/// A mount that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServedMount {
    /// Where.
    pub(super) mountpoint: PathBuf,
    /// Of what.
    pub(super) store: PathBuf,
    /// Who serves it.
    pub(super) pid: u32,
}

impl ServedMount {
    /// This process serves `plan`.
    pub(super) fn of(plan: &MountPlan) -> Self {
        let (mountpoint, store) = (plan.target.clone(), plan.store.clone());
        Self { mountpoint, store, pid: std::process::id() }
    }
}

impl StartStatus {
    /// Sends it, if anyone listens.
    pub(super) fn send(&self) {
        if let Err(error) = self.try_send() {
            tracing::warn!("nobody waits for the mount: {error}");
        }
    }

    /// Sends it; an error means that whoever started the mount is gone.
    pub(super) fn try_send(&self) -> io::Result<()> {
        let line = serde_json::to_string(self)? + "\n";
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Waits for it. Nothing, if the server ended without a word.
    pub(super) fn receive(from: impl Read) -> Option<Self> {
        let mut line = String::new();
        let mut from = io::BufReader::new(from);
        io::BufRead::read_line(&mut from, &mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received() {
        let failed = StartStatus::Failed(Failure::usage("no\nway", "another"));
        let line = serde_json::to_string(&failed).unwrap() + "\n";
        assert_eq!(StartStatus::receive(line.as_bytes()), Some(failed));
    }

    #[test]
    fn silence_is_told_from_words() {
        assert_eq!(StartStatus::receive(&b""[..]), None);
        assert_eq!(StartStatus::receive(&b"Segmentation fault\n"[..]), None);
    }
}
