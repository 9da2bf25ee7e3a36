//! The definition of a setting.

use crate::settings::value::ValueKind;

/// The key of a setting, which is also the index of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Store,
    Mountpoint,
    Advertise,
    Log,
    WriteOnce,
    AllowOther,
    NoExec,
    Views,
    Passthrough,
    Coherence,
    Confine,
    MaxArtifact,
    MaxTerminal,
    Quota,
    MinFree,
    CacheBytes,
    DiskCacheBytes,
    KeepAge,
    KeepConversation,
    KeepStore,
    KeepFree,
    MaxInlineChars,
    MaxInlineBytes,
    SnippetLines,
    SnippetBytes,
    MaxLines,
    MaxBytes,
    Direction,
    Dir,
    RetentionDays,
    MessageThreshold,
    MessagePreview,
    ToolResponseMaxBytes,
    TokenBudget,
    SessionIdle,
    MaxBody,
    BatchBudget,
    MaxBinary,
    MaxResult,
    References,
    HooksReplace,
    RemoteUrl,
    RemotePush,
    RemoteEvery,
    RemotePoll,
    RemoteCacheBytes,
    RemoteEvict,
    RemoteSweep,
    ExtractMaxChunksFull,
    ExtractLongLineBytes,
    ExtractOverlapPercent,
    ExtractConcurrency,
    ExtractMaxSteps,
    ExtractMaxTokens,
    ExtractTimeout,
    ExtractView,
}

impl Key {
    /// Returns true if the store's own file may set it, which others than the user can write: it
    /// grants nothing, sends nothing, and reaches nothing outside of the store.
    pub(super) fn counts_from_store(self) -> bool {
        !matches!(
            self,
            Self::Store
                | Self::Mountpoint
                | Self::AllowOther
                | Self::NoExec
                | Self::Confine
                | Self::Dir
                | Self::RetentionDays
                | Self::References
        ) && !matches!(self.row().group, Group::Extract | Group::Remote)
    }
}

/// The groups of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Directories and paths.
    Places,
    /// The behaviour of mounts.
    Mount,
    /// The retention of outputs.
    Keep,
    /// The limits on what enters a conversation. They can differ between tools.
    Limits,
    /// The MCP gateway. They stand in the table `[mcp]`.
    Gateway,
    /// The hooks of agent hosts. They stand in the table `[hooks]`.
    Hooks,
    /// Questions to language models. They stand in the table `[extract]`.
    Extract,
    /// The bucket that hosts share. They stand in the table `[remote]`.
    Remote,
}

impl Group {
    /// Returns the table of `ctxfs.toml` that the settings of the group stand in.
    pub(super) fn table(self) -> Option<&'static str> {
        match self {
            Self::Places | Self::Mount | Self::Keep | Self::Limits => None,
            Self::Gateway => Some("mcp"),
            Self::Hooks => Some("hooks"),
            Self::Extract => Some("extract"),
            Self::Remote => Some("remote"),
        }
    }
}

/// The definition of a setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) group: Group,
    /// The key in `ctxfs.toml`.
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    /// The default in the syntax of environment variables; empty if it is computed.
    pub(crate) default: &'static str,
    pub(crate) variable: &'static str,
    pub(crate) flag: Option<&'static str>,
    /// A description in a sentence or two.
    pub(crate) about: &'static str,
}
