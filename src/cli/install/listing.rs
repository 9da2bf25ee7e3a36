//! The hosts, and where the hook is installed.

use std::path::PathBuf;

use serde::Serialize;

use crate::env::Environment;
use crate::hooks::Host;
use crate::install::change::{ChangeKind, EditedFile};
use crate::install::hosts;

/// A host on this machine.
#[derive(Debug, Serialize)]
pub(super) struct ListedHost {
    pub(super) host: &'static str,
    /// True if its program or its settings are there.
    pub(super) found: bool,
    /// Its program on the PATH.
    pub(super) program: Option<PathBuf>,
    pub(super) user: State,
    pub(super) project: State,
}

/// The state of a hook in the settings of a host. Programs may rely on the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is not.
    No,
    /// It is, with all that goes with it.
    Yes,
    /// It is, but not as this program would install it.
    Differs,
    /// The settings cannot be read, or have an unknown shape.
    Unreadable,
}

impl State {
    /// Returns the state of a host with these files, of which the last one has the hook.
    pub(super) fn of(targets: &[EditedFile]) -> Self {
        let Some(main) = targets.last() else { return Self::No };
        match main.hook() {
            Err(_) => Self::Unreadable,
            Ok(None) => Self::No,
            Ok(Some(_)) => {
                let is_current = |target: &EditedFile| {
                    target.install(true).is_ok_and(|change| change.kind() == ChangeKind::None)
                };
                if targets.iter().all(is_current) { Self::Yes } else { Self::Differs }
            }
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::No => "-",
            Self::Yes => "yes",
            Self::Differs => "differs",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Returns the program of a host on the PATH.
pub(super) fn program(host: Host, environment: &Environment) -> Option<PathBuf> {
    let name = hosts::program_of(host);
    environment.search.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Formats the listing as a table.
pub(super) fn table(hosts: &[ListedHost]) -> String {
    let row = |host: &str, found: &str, user: &str, project: &str| {
        let line = format!("{host:12} {found:6} {user:10} {project}");
        line.trim_end().to_owned() + "\n"
    };
    let rows = hosts.iter().map(|listed| {
        let found = if listed.found { "yes" } else { "-" };
        row(listed.host, found, listed.user.word(), listed.project.word())
    });
    [row("HOST", "FOUND", "USER", "PROJECT")].into_iter().chain(rows).collect()
}
