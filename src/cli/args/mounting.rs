//! `mount` and `umount`.

use std::path::PathBuf;

use clap::Args;
use clap::ValueEnum;

use crate::cli::args::keeping::KeepArgs;
use crate::cli::settings::Key;
use crate::cli::settings::Value;

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
    /// Default: for root, `/ctx`; else `$XDG_RUNTIME_DIR/ctxfs`, else `~/ctx`. Environment:
    /// `CTXFS_MOUNT`.
    pub(in crate::cli) dir: Option<PathBuf>,

    /// Mount this conversation alone, as the root; it is made if it is not there.
    ///
    /// An agent or a container then sees nothing of the others: neither their names nor their number.
    #[arg(long, value_name = "CONVERSATION")]
    pub(in crate::cli) only: Option<String>,

    /// Serve in this process, log to standard error, and tell systemd when it is ready.
    #[arg(long, short)]
    pub(in crate::cli) foreground: bool,

    /// Keep complete outputs as evidence: their content cannot change any more.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(in crate::cli) write_once: Option<bool>,

    /// The mountpoint as the reader sees it, for paths in the text of views.
    ///
    /// Default: the mountpoint. Give it where the reader is in a container that has the mount
    /// elsewhere.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,

    /// Let other users in, root among them; the modes of files still hold.
    ///
    /// Where root serves, each user may make conversations, which are that user's and closed to all
    /// others. Where another user does, the others may read what that user opens to them.
    ///
    /// Ordinary users need the line `user_allow_other` in /etc/fuse.conf for this.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(in crate::cli) allow_other: Option<bool>,

    /// Keep programs in the mount from being run, as `mount -o noexec` does; setuid bits and devices
    /// never count there.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true")]
    pub(in crate::cli) noexec: Option<bool>,

    /// Most bytes of one output, such as `2GiB`, or `off`: a write past it fails with EFBIG, and
    /// what came is kept.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MaxArtifact.parse(text))]
    pub(in crate::cli) max_artifact: Option<Value>,

    /// The same for one log in `artifacts/terminal`. Default: 1 GiB.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MaxTerminal.parse(text))]
    pub(in crate::cli) max_terminal: Option<Value>,

    /// Most bytes of all outputs of one conversation, or `off`: a write past it fails with EDQUOT.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::Quota.parse(text))]
    pub(in crate::cli) quota: Option<Value>,

    /// Bytes to leave free on the store's disk: a write that would leave less fails with ENOSPC.
    ///
    /// Default: 64 MiB.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| Key::MinFree.parse(text))]
    pub(in crate::cli) min_free: Option<Value>,

    #[command(flatten)]
    pub(in crate::cli) keep: KeepArgs,

    /// Whether reads may go to the store's file without passing the server. Default: `auto`.
    #[arg(long, value_enum)]
    pub(in crate::cli) passthrough: Option<PassthroughMode>,

    /// Whether the server gives up what serving does not need: files but the store's, the network,
    /// privileges. Default: `auto`, as far as the kernel can.
    #[arg(long, value_enum)]
    pub(in crate::cli) confine: Option<ConfineMode>,

    /// Whether directories list the views; unlisted ones are still found by name. Default: `listed`.
    #[arg(long, value_enum)]
    pub(in crate::cli) views: Option<ViewListing>,
}

impl MountArgs {
    /// The settings among them.
    pub(in crate::cli) fn settings(&self) -> Vec<(Key, Value)> {
        let text = |word: &str| Value::Text(word.to_owned());
        let passthrough = self.passthrough.map(|passthrough| match passthrough {
            PassthroughMode::Auto => text("auto"),
            PassthroughMode::Off => text("off"),
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
            (Key::Confine, confine),
            (Key::Views, views),
        ];
        let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
        given.chain(self.keep.settings()).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum PassthroughMode {
    /// Where kernel and privilege allow.
    Auto,
    /// Never.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ConfineMode {
    /// As far as the kernel can.
    Auto,
    /// Not at all.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ViewListing {
    /// `ls` shows `x.summary`, `x.tail` and `x.grep` beside `x`.
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
    /// Default: the setting `mountpoint`, else where `ctxfs mount` mounts by default. Environment:
    /// `CTXFS_MOUNT`.
    pub(in crate::cli) dir: Option<PathBuf>,
}
