//! The environment: every variable that ctxfs reads. None is read elsewhere.
//!
//! `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE` are honoured in printing, and `NOTIFY_SOCKET`, by
//! which systemd hears that the mount is ready.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The store; as `--store`.
pub(super) const STORE: &str = "CTXFS_STORE";
/// What to log; as `--log`.
pub(super) const LOG: &str = "CTXFS_LOG";
/// The mountpoint; as the argument of `mount` and `umount`.
pub(super) const MOUNT: &str = "CTXFS_MOUNT";
/// The conversation that `put` writes to; as `--conversation`.
pub(super) const CONVERSATION: &str = "CTXFS_CONVERSATION";
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
        }
    }
}

/// Relative paths are to be ignored, says the XDG specification.
fn directory(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
