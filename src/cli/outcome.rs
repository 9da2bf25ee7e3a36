//! Failures: the message, hint and exit code of an error.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use ctxfs_fuse::kernel::mount::MountError;

/// A failure of a command, ready to be printed or sent to a waiting process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// The error, with what it is about.
    pub(super) message: String,
    /// Advice on what to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// The kinds of failure. Programs may rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureKind {
    /// Wrong usage or wrong settings: exit code 2.
    Usage,
    /// Mounting or unmounting failed.
    Mount,
    /// The machine lacks a requirement.
    Machine,
    /// Anything else.
    Failed,
}

impl Failure {
    /// Returns a failure of wrong usage.
    pub(super) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: FailureKind::Usage, message: message.into(), hint: Some(hint.into()) }
    }

    /// Returns a failure of the given kind.
    pub(super) fn new(
        kind: FailureKind,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, message: message.into(), hint: Some(hint.into()) }
    }

    /// Returns 2 for wrong usage, or else 1.
    pub(super) fn exit_code(&self) -> ExitCode {
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
            Err(error) => match error.downcast_ref::<MountError>() {
                Some(mount) => Self { kind: FailureKind::Mount, message, hint: mount.hint() },
                None => Self { kind: FailureKind::Failed, message, hint: None },
            },
        }
    }
}

/// Returns the text of `error` and of its causes. Leaves out a cause that the text before has.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_store::StoreError;

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
}
