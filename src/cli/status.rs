//! The message of a background server to the command that started it: one line of JSON on the
//! server's standard output.

use std::io;
use std::io::{Read, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::outcome::Failure;
use crate::plan::MountPlan;

/// The result of starting a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StartStatus {
    /// The mount answers.
    Ready(ServedMount),
    /// The mount failed.
    Failed(Failure),
}

/// A mount that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ServedMount {
    /// The mountpoint.
    pub(super) mountpoint: PathBuf,
    /// The store.
    pub(super) store: PathBuf,
    /// The process that serves.
    pub(super) pid: u32,
}

impl ServedMount {
    /// Describes the mount of `plan` by this process.
    pub(super) fn of(plan: &MountPlan) -> Self {
        let (mountpoint, store) = (plan.target.clone(), plan.store.clone());
        Self { mountpoint, store, pid: std::process::id() }
    }
}

impl StartStatus {
    /// Sends the status, if the receiver still exists.
    pub(super) fn send(&self) {
        if let Err(error) = self.try_send() {
            tracing::warn!("nobody waits for the mount: {error}");
        }
    }

    /// Sends the status. An error means that the command that started the mount is gone.
    pub(super) fn try_send(&self) -> io::Result<()> {
        let line = serde_json::to_string(self)? + "\n";
        let mut out = io::stdout().lock();
        out.write_all(line.as_bytes())?;
        out.flush()
    }

    /// Waits for the status. Returns `None` if the server ended without sending one.
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
    fn other_output_is_no_status() {
        assert_eq!(StartStatus::receive(&b""[..]), None);
        assert_eq!(StartStatus::receive(&b"Segmentation fault\n"[..]), None);
    }
}
