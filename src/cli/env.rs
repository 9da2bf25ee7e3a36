//! The environment: every variable that ctxfs reads. None is read elsewhere.
//!
//! `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE` are honoured in printing, and `NOTIFY_SOCKET`, by
//! which systemd hears that the mount is ready.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::PathBuf;

/// The store; as `--store`.
pub(super) const STORE: &str = "CTXFS_STORE";
/// What to log; as `--log`.
pub(super) const LOG: &str = "CTXFS_LOG";
/// The mountpoint; as the argument of `mount` and `umount`.
pub(super) const MOUNT: &str = "CTXFS_MOUNT";
/// The conversation that `put` writes to; as `--conversation`.
pub(super) const CONVERSATION: &str = "CTXFS_CONVERSATION";
/// Most lines of an envelope's preview.
pub(super) const TOOL_OUTPUT_MAX_LINES: &str = "TOOL_OUTPUT_MAX_LINES";
/// Most bytes of an envelope's preview.
pub(super) const TOOL_OUTPUT_MAX_BYTES: &str = "TOOL_OUTPUT_MAX_BYTES";
/// Which part of an output an envelope shows.
pub(super) const TOOL_OUTPUT_TRUNCATE_DIRECTION: &str = "TOOL_OUTPUT_TRUNCATE_DIRECTION";
/// The directory of the tool-output layout.
pub(super) const TOOL_OUTPUT_DIR: &str = "TOOL_OUTPUT_DIR";
/// Days that its files are kept.
pub(super) const TOOL_OUTPUT_RETENTION_DAYS: &str = "TOOL_OUTPUT_RETENTION_DAYS";
/// Where systemd listens for readiness. Not for children.
pub(super) const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The places that the environment names, read once.
#[derive(Debug, Clone, Default)]
pub(super) struct Environment {
    /// Whether the user is root.
    pub(super) root: bool,
    /// `$HOME`, else the password database's word.
    pub(super) home: Option<PathBuf>,
    /// `$XDG_DATA_HOME`.
    pub(super) data_home: Option<PathBuf>,
    /// `$XDG_RUNTIME_DIR`.
    pub(super) runtime_dir: Option<PathBuf>,
    /// `$XDG_STATE_HOME`.
    pub(super) state_home: Option<PathBuf>,
    /// `$TOOL_OUTPUT_MAX_LINES` and the others of its protocol, as they are written.
    pub(super) tool_output: ToolOutput,
}

/// What the environment says of the tool-output protocol; an empty value says nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolOutput {
    pub(super) max_lines: Option<OsString>,
    pub(super) max_bytes: Option<OsString>,
    pub(super) direction: Option<OsString>,
    pub(super) dir: Option<OsString>,
    pub(super) retention_days: Option<OsString>,
}

impl Environment {
    /// Reads it.
    pub(super) fn read() -> Self {
        Self {
            root: rustix::process::geteuid().is_root(),
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            data_home: directory(XDG_DATA_HOME),
            runtime_dir: directory(XDG_RUNTIME_DIR),
            state_home: directory(XDG_STATE_HOME),
            tool_output: ToolOutput::read(),
        }
    }
}

impl ToolOutput {
    fn read() -> Self {
        let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            max_lines: value(TOOL_OUTPUT_MAX_LINES),
            max_bytes: value(TOOL_OUTPUT_MAX_BYTES),
            direction: value(TOOL_OUTPUT_TRUNCATE_DIRECTION),
            dir: value(TOOL_OUTPUT_DIR),
            retention_days: value(TOOL_OUTPUT_RETENTION_DAYS),
        }
    }
}

/// Relative paths are to be ignored, says the XDG specification.
fn directory(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
