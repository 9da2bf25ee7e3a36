//! The limits that a server process has put on itself.

use serde::Serialize;

/// The confinement of the server, as found by trying each limit after asking for it.
///
/// `.ctxfs/status.json` shows it, and `ctxfs doctor` reads it there.
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself, as it is shown")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Confinement {
    /// The version of Landlock, if the kernel has it and the server uses it.
    pub landlock: Option<i32>,
    /// True if no file opens but those that serving needs.
    pub files: bool,
    /// True if no TCP port can be bound or connected to.
    pub network: bool,
    /// True if it can signal no process but its own.
    pub signals: bool,
    /// True if no program that it starts can gain privileges.
    pub no_new_privileges: bool,
    /// The capabilities that it has, and that its children could get.
    pub capabilities: Vec<String>,
    /// True if its memory goes to no core file, and other processes of its user cannot read it.
    pub memory: bool,
}

impl Confinement {
    /// Returns true if every limit of Landlock holds, and no privileges can be gained.
    pub fn is_complete(&self) -> bool {
        self.files && self.network && self.signals && self.no_new_privileges
    }
}
