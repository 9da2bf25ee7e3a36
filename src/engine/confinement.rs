//! The limits that a server process has put on itself.

use serde::Serialize;

/// The confinement of the server, found by trying each limit after it was asked for.
///
/// `.ctxfs/status.json` shows it, and `ctxfs doctor` reads it there.
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself, as it is shown")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Confinement {
    /// Landlock's version, where the kernel has it and the server uses it.
    pub landlock: Option<i32>,
    /// No file opens but those that serving needs.
    pub files: bool,
    /// No TCP port can be bound or connected to.
    pub network: bool,
    /// No process but its own can be signalled.
    pub signals: bool,
    /// No program that it starts has more privileges than it has.
    pub no_new_privileges: bool,
    /// The capabilities that it has, and those that its children could get.
    pub capabilities: Vec<String>,
    /// Its memory goes to no core file, and no other process of its user may look at it.
    pub memory: bool,
}

impl Confinement {
    /// Returns true if everything that Landlock offers holds.
    pub fn is_complete(&self) -> bool {
        self.files && self.network && self.signals && self.no_new_privileges
    }
}
