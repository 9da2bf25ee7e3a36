//! The commands `mount`, `umount`, `gc` and `stats`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{SettingKey, settings::SettingValue};

/// Mount the store as a directory.
///
/// Returns once the mount answers, and prints the mountpoint. A server stays in the background and
/// logs to `$XDG_STATE_HOME/ctxfs/<mountpoint>.log`. `ctxfs umount` stops it, and so do SIGTERM,
/// SIGINT and SIGHUP; a second signal stops it at once. A server that is killed leaves no dead
/// mount.
#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// Mountpoint; created if missing. With --foreground, `/dev/fd/N` serves a mount that the
    /// parent process made; N is the inherited file descriptor of the mount.
    ///
    /// Default: `~/ctx`, and `/ctx` for root. Environment:
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

    /// Limit each output to this many bytes, such as `2GiB`. `off`: no limit. A write past the
    /// limit fails with EFBIG; the bytes before the limit are kept.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| SettingKey::MaxArtifact.parse(text))]
    pub(crate) max_artifact: Option<SettingValue>,

    /// Limit each log in `artifacts/terminal` to this many bytes. `off`: no limit. Default: 1 GiB.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| SettingKey::MaxTerminal.parse(text))]
    pub(crate) max_terminal: Option<SettingValue>,

    /// Limit the disk space of each conversation's directory to this many bytes. `off`: no limit. A
    /// write past the limit fails with EDQUOT.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| SettingKey::Quota.parse(text))]
    pub(crate) quota: Option<SettingValue>,

    /// Leave this many bytes free on the store's disk. A write that would leave less fails with
    /// ENOSPC.
    ///
    /// Default: 64 MiB.
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| SettingKey::MinFree.parse(text))]
    pub(crate) min_free: Option<SettingValue>,

    #[command(flatten)]
    pub(crate) keep: KeepArgs,

    /// Let the kernel read directly from the store's files, without the server. Default: `auto`.
    #[arg(long, value_enum)]
    pub(crate) passthrough: Option<PassthroughMode>,

    /// Let the kernel answer from its cache for outputs that no process is writing, or ask the
    /// store every time. Default: `relaxed`.
    #[arg(long, value_enum)]
    pub(crate) coherence: Option<CoherenceMode>,

    /// Give up unneeded access: to other files, the network, privileges. Default: `auto`.
    #[arg(long, value_enum)]
    pub(crate) confine: Option<ConfineMode>,

    /// List views in directories. Unlisted views can still be opened by name. Default: `listed`.
    #[arg(long, value_enum)]
    pub(crate) views: Option<ViewListing>,
}

impl MountArgs {
    pub(crate) fn settings(&self) -> Vec<(SettingKey, SettingValue)> {
        let given = [
            (SettingKey::Mountpoint, self.dir.clone().map(SettingValue::Path)),
            (SettingKey::WriteOnce, self.write_once.map(SettingValue::Switch)),
            (SettingKey::Advertise, self.advertise.clone().map(SettingValue::Text)),
            (SettingKey::AllowOther, self.allow_other.map(SettingValue::Switch)),
            (SettingKey::NoExec, self.noexec.map(SettingValue::Switch)),
            (SettingKey::MaxArtifact, self.max_artifact.clone()),
            (SettingKey::MaxTerminal, self.max_terminal.clone()),
            (SettingKey::Quota, self.quota.clone()),
            (SettingKey::MinFree, self.min_free.clone()),
            (SettingKey::Passthrough, word(self.passthrough)),
            (SettingKey::Coherence, word(self.coherence)),
            (SettingKey::Confine, word(self.confine)),
            (SettingKey::Views, word(self.views)),
        ];
        let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
        given.chain(self.keep.settings()).collect()
    }
}

fn word(choice: Option<impl ValueEnum>) -> Option<SettingValue> {
    Some(SettingValue::Text(choice?.to_possible_value()?.get_name().to_owned()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PassthroughMode {
    /// Read directly if the kernel and the privileges allow it.
    Auto,
    /// Never read directly.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CoherenceMode {
    /// The kernel may answer from its cache. A change by another process may appear a moment later.
    Relaxed,
    /// The store is asked every time.
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfineMode {
    /// Give up all unneeded access that the kernel can restrict.
    Auto,
    /// Keep all access.
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
    /// Default: the setting `mountpoint`, or else the default mountpoint of `ctxfs mount`.
    /// Environment: `CTXFS_MOUNT`.
    pub(crate) dir: Option<PathBuf>,
}

/// Remove outputs that the settings do not keep, and print each with the reason.
///
/// Without `keep_age`, `keep_conversation`, `keep_store` or `keep_free`, as settings or flags,
/// everything is kept, except for what hooks store, which `keep_age` and `keep_store` in `[hooks]`
/// limit from the start. The least recently used outputs are removed first. Outputs that a message
/// refers to are removed after all others, and outputs that are being written are never removed.
/// The summary of a removed output stays, and says when and why the output was removed. A running
/// mount removes outputs by itself.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Remove outputs of this conversation only, by their age and their total size.
    pub(crate) conversation: Option<String>,

    /// Print what would be removed, and remove nothing.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

/// Show how many outputs were stored, and how many tokens their stand-ins saved.
///
/// For each tool, conversation and day, shows the outputs and bytes stored, and the estimated
/// tokens stored, handed out as stand-ins, read back through other views, and saved. Saved tokens
/// are the stored tokens minus the tokens handed out and read back, and can be negative. Direct
/// reads of the outputs are not counted.
///
/// Then shows the calls of tools through `ctxfs mcp`: the failures, the time of the calls, the
/// bytes of their results, and the bytes that the client got instead. Also compares the tokens of
/// light indexes with the tokens of the schemas that they replaced.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Count this conversation only.
    pub(crate) conversation: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// Remove outputs that were not used for this long, such as `30d`. Default: `off`, no limit.
    #[arg(long = "keep-age", value_name = "TIME", value_parser = |text: &str| SettingKey::KeepAge.parse(text))]
    age: Option<SettingValue>,

    /// Limit the outputs of each conversation to this many bytes, by removing the least recently
    /// used ones. Default: `off`, no limit.
    #[arg(id = "keep_conversation", long = "keep-conversation", value_name = "BYTES", value_parser = |text: &str| SettingKey::KeepConversation.parse(text))]
    conversation: Option<SettingValue>,

    /// Limit all outputs of the store to this many bytes in the same way. Default: `off`, no limit.
    #[arg(id = "keep_store", long = "keep-store", value_name = "BYTES", value_parser = |text: &str| SettingKey::KeepStore.parse(text))]
    store: Option<SettingValue>,

    /// Keep this many bytes free on the store's disk, by removing the least recently used outputs.
    /// Default: `off`.
    #[arg(long = "keep-free", value_name = "BYTES", value_parser = |text: &str| SettingKey::KeepFree.parse(text))]
    free: Option<SettingValue>,
}

impl KeepArgs {
    pub(crate) fn settings(&self) -> impl Iterator<Item = (SettingKey, SettingValue)> {
        let given = [
            (SettingKey::KeepAge, self.age.clone()),
            (SettingKey::KeepConversation, self.conversation.clone()),
            (SettingKey::KeepStore, self.store.clone()),
            (SettingKey::KeepFree, self.free.clone()),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}
