//! `mount` and `umount`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::keeping::KeepArgs;
use crate::settings::{Key, Value};

/// Mount the store as a directory.
///
/// Returns once the mount answers, and prints the mountpoint. A server stays in the background and
/// logs to `$XDG_STATE_HOME/ctxfs/<mountpoint>.log`. `ctxfs umount` stops it, and so do SIGTERM,
/// SIGINT and SIGHUP; a second signal stops it at once. A server that is killed leaves no dead
/// mount.
#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// Mountpoint; created if missing. `/dev/fd/N` serves a mount whose open descriptor the parent
    /// process passes on (with --foreground).
    ///
    /// Default: `/ctx` for root, or else `$XDG_RUNTIME_DIR/ctxfs`, or else `~/ctx`. Environment:
    /// `CTXFS_MOUNT`.
    pub(crate) dir: Option<PathBuf>,

    /// Mount only this conversation, as the root; it is created if missing.
    ///
    /// An agent or a container then sees neither the names nor the number of the other
    /// conversations.
    #[arg(long, value_name = "CONVERSATION")]
    pub(crate) only: Option<String>,

    /// Serve in this process, log to standard error, and notify systemd when ready.
    #[arg(long, short)]
    pub(crate) foreground: bool,

    /// Forbid changes to the content of complete outputs, to keep them as evidence.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) write_once: Option<bool>,

    /// Mountpoint as the reader sees it, for paths in the text of views.
    ///
    /// Default: the mountpoint. Set it for a reader in a container that has the mount elsewhere.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) advertise: Option<String>,

    /// Allow other users, including root, to enter the mount; file modes still apply.
    ///
    /// If root serves, each user may create conversations, which belong to that user and are closed
    /// to all others. If another user serves, the others may read what that user's file modes
    /// allow.
    ///
    /// Ordinary users need the line `user_allow_other` in /etc/fuse.conf for this.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) allow_other: Option<bool>,

    /// Mount with `noexec`: programs in the mount cannot be run. Setuid bits and devices are always
    /// ignored.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(crate) noexec: Option<bool>,

    /// Limit each output to this many bytes, such as `2GiB`, or `off`. A write past the limit fails
    /// with EFBIG; what was written before it is kept.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MaxArtifact.parse(text))]
    pub(crate) max_artifact: Option<Value>,

    /// Limit each log in `artifacts/terminal` in the same way. Default: 1 GiB.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MaxTerminal.parse(text))]
    pub(crate) max_terminal: Option<Value>,

    /// Limit everything in each conversation's directory to this many bytes on the disk, or `off`.
    /// A write past the limit fails with EDQUOT.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::Quota.parse(text))]
    pub(crate) quota: Option<Value>,

    /// Leave this many bytes free on the store's disk. A write that would leave less fails with
    /// ENOSPC.
    ///
    /// Default: 64 MiB.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MinFree.parse(text))]
    pub(crate) min_free: Option<Value>,

    #[command(flatten)]
    pub(crate) keep: KeepArgs,

    /// Let reads go directly to the store's file, past the server. Default: `auto`.
    #[arg(long, value_enum)]
    pub(crate) passthrough: Option<PassthroughMode>,

    /// Let the kernel answer for outputs at rest, or ask the store at each look. Default:
    /// `relaxed`.
    #[arg(long, value_enum)]
    pub(crate) coherence: Option<CoherenceMode>,

    /// Give up what serving does not need: other files, the network, privileges. Default: `auto`.
    #[arg(long, value_enum)]
    pub(crate) confine: Option<ConfineMode>,

    /// List views in directories; unlisted views are still found by name. Default: `listed`.
    #[arg(long, value_enum)]
    pub(crate) views: Option<ViewListing>,
}

impl MountArgs {
    /// Returns the settings among the arguments.
    pub(crate) fn settings(&self) -> Vec<(Key, Value)> {
        let text = |word: &str| Value::Text(word.to_owned());
        let passthrough = self.passthrough.map(|passthrough| match passthrough {
            PassthroughMode::Auto => text("auto"),
            PassthroughMode::Off => text("off"),
        });
        let coherence = self.coherence.map(|coherence| match coherence {
            CoherenceMode::Relaxed => text("relaxed"),
            CoherenceMode::Strict => text("strict"),
        });
        let confine = self.confine.map(|confine| match confine {
            ConfineMode::Auto => text("auto"),
            ConfineMode::Off => text("off"),
        });
        let views = self.views.map(|views| match views {
            ViewListing::Listed => text("listed"),
            ViewListing::Unlisted => text("unlisted"),
        });
        let given = [
            (Key::Mountpoint, self.dir.clone().map(Value::Path)),
            (Key::WriteOnce, self.write_once.map(Value::Switch)),
            (Key::Advertise, self.advertise.clone().map(Value::Text)),
            (Key::AllowOther, self.allow_other.map(Value::Switch)),
            (Key::NoExec, self.noexec.map(Value::Switch)),
            (Key::MaxArtifact, self.max_artifact.clone()),
            (Key::MaxTerminal, self.max_terminal.clone()),
            (Key::Quota, self.quota.clone()),
            (Key::MinFree, self.min_free.clone()),
            (Key::Passthrough, passthrough),
            (Key::Coherence, coherence),
            (Key::Confine, confine),
            (Key::Views, views),
        ];
        let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
        given.chain(self.keep.settings()).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PassthroughMode {
    /// If the kernel and the privileges allow it.
    Auto,
    /// Never.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CoherenceMode {
    /// A change by another process may show a moment later.
    Relaxed,
    /// Each look asks the store.
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfineMode {
    /// As far as the kernel can.
    Auto,
    /// Not at all.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewListing {
    /// `ls` shows `x.summary`, `x.tail` and `x.grep` beside `x`.
    Listed,
    /// `ls` shows only the outputs.
    Unlisted,
}

/// Unmount, even if the server of the mount is dead.
///
/// Open files stay readable until they are closed, for at most five seconds. Only ctxfs mounts are
/// unmounted.
#[derive(Debug, Args)]
pub(crate) struct UmountArgs {
    /// Mountpoint.
    ///
    /// Default: the setting `mountpoint`, or else where `ctxfs mount` mounts by default.
    /// Environment: `CTXFS_MOUNT`.
    pub(crate) dir: Option<PathBuf>,
}
