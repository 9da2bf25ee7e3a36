//! `mount` and `umount`.

use std::path::PathBuf;

use clap::Args;
use clap::ValueEnum;

use crate::cli::env;

/// Mount the store as a directory.
///
/// Returns once the mount answers, and prints where it is; a server stays in the background and
/// logs to `$XDG_STATE_HOME/ctxfs/<mountpoint>.log`. `ctxfs umount` ends it, and so does SIGTERM,
/// SIGINT or SIGHUP; a second signal ends it at once. A server that is killed leaves no dead mount.
#[derive(Debug, Args)]
pub(in crate::cli) struct MountArgs {
    /// The mountpoint; made if it is not there. `/dev/fd/N` serves a mount whose open descriptor
    /// the starting program hands down (with --foreground).
    ///
    /// Default: for root, `/ctx`; else `$XDG_RUNTIME_DIR/ctxfs`, else `~/ctx`.
    #[arg(env = env::MOUNT, hide_env_values = true)]
    pub(in crate::cli) dir: Option<PathBuf>,

    /// Serve in this process, log to standard error, and tell systemd when it is ready.
    #[arg(long, short)]
    pub(in crate::cli) foreground: bool,

    /// Keep complete outputs as evidence: their content cannot change any more.
    #[arg(long)]
    pub(in crate::cli) write_once: bool,

    /// The mountpoint as the reader sees it, for paths in the text of views.
    ///
    /// Default: the mountpoint. Give it where the reader is in a container that has the mount
    /// elsewhere.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,

    /// Let other users in, root among them; the modes of files still hold.
    ///
    /// Ordinary users need the line `user_allow_other` in /etc/fuse.conf for this.
    #[arg(long)]
    pub(in crate::cli) allow_other: bool,

    /// Most bytes of one output: a write past it fails with EFBIG, and what came is kept.
    #[arg(long, value_name = "BYTES")]
    pub(in crate::cli) max_artifact: Option<u64>,

    /// Most bytes of all outputs of one conversation: a write past it fails with EDQUOT.
    #[arg(long, value_name = "BYTES")]
    pub(in crate::cli) quota: Option<u64>,

    /// Bytes to leave free on the store's disk: a write that would leave less fails with ENOSPC.
    ///
    /// Default: 64 MiB.
    #[arg(long, value_name = "BYTES")]
    pub(in crate::cli) min_free: Option<u64>,

    /// Whether reads may go to the store's file without passing the server.
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) passthrough: Passthrough,

    /// Whether directories list the views; unlisted ones are still found by name.
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) views: Views,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Passthrough {
    /// Where kernel and privilege allow.
    #[default]
    Auto,
    /// Never.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Views {
    /// `ls` shows `x.summary`, `x.tail` and `x.grep` beside `x`.
    #[default]
    Listed,
    /// `ls` shows the outputs alone.
    Unlisted,
}

/// Unmount, also a mount whose server is dead.
///
/// Files that are open stay readable until they are closed or five seconds have passed. Only a
/// ctxfs is unmounted, nothing else.
#[derive(Debug, Args)]
pub(in crate::cli) struct UmountArgs {
    /// The mountpoint.
    ///
    /// Default: where `ctxfs mount` mounts by default.
    #[arg(env = env::MOUNT, hide_env_values = true)]
    pub(in crate::cli) dir: Option<PathBuf>,
}
