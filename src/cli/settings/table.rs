//! Every setting: its name, what it can be, its default, its environment variable and its flag.

use std::ffi::OsStr;

use crate::cli::env;
use crate::cli::settings::value::Value;
use crate::cli::settings::value::ValueKind;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::cli) enum Key {
    Store,
    Mountpoint,
    Advertise,
    Log,
    WriteOnce,
    AllowOther,
    NoExec,
    Views,
    Passthrough,
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
}

/// What a setting is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Group {
    /// Where things are.
    Places,
    /// How a mount behaves.
    Mount,
    /// What is kept when there is more.
    Keep,
    /// What fits into a conversation: can differ from tool to tool.
    Limits,
}

/// What there is to know of a setting.
#[derive(Debug)]
pub(in crate::cli) struct Row {
    pub(in crate::cli) key: Key,
    pub(in crate::cli) group: Group,
    /// As `ctxfs.toml` has it.
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) kind: ValueKind,
    /// As an environment variable would have it; empty, where it is found otherwise.
    pub(in crate::cli) default: &'static str,
    pub(in crate::cli) variable: &'static str,
    pub(in crate::cli) flag: Option<&'static str>,
    /// What it does, in a sentence.
    pub(in crate::cli) about: &'static str,
}

const LIMIT: &[&str] = &["never", "mirror"];

/// All of them, in the order in which they are shown; the order of [`Key`].
pub(in crate::cli) static ROWS: &[Row] = &[
    Row {
        key: Key::Store,
        group: Group::Places,
        name: "store",
        kind: ValueKind::Path,
        default: "",
        variable: env::STORE,
        flag: Some("--store"),
        about: "Where the outputs are kept. Default: `$XDG_DATA_HOME/ctxfs`, else \
                `~/.local/share/ctxfs`. Not in the store's own file.",
    },
    Row {
        key: Key::Mountpoint,
        group: Group::Places,
        name: "mountpoint",
        kind: ValueKind::Path,
        default: "",
        variable: env::MOUNT,
        flag: Some("DIR"),
        about: "Where `ctxfs mount` mounts. Default: for root `/ctx`, else \
                `$XDG_RUNTIME_DIR/ctxfs`, else `~/ctx`.",
    },
    Row {
        key: Key::Advertise,
        group: Group::Places,
        name: "advertise",
        kind: ValueKind::Text,
        default: "",
        variable: env::ADVERTISE,
        flag: Some("--advertise"),
        about: "The mountpoint as readers see it, for the paths in views. Default: the mountpoint.",
    },
    Row {
        key: Key::Log,
        group: Group::Mount,
        name: "log",
        kind: ValueKind::Log,
        default: "info",
        variable: env::LOG,
        flag: Some("--log"),
        about: "What to log: `error`, `warn`, `info`, `debug`, `trace`, or directives such as \
                `warn,ctxfs::fuse=trace`.",
    },
    Row {
        key: Key::WriteOnce,
        group: Group::Mount,
        name: "write_once",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::WRITE_ONCE,
        flag: Some("--write-once"),
        about: "Whether the content of complete outputs is kept from change.",
    },
    Row {
        key: Key::AllowOther,
        group: Group::Mount,
        name: "allow_other",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::ALLOW_OTHER,
        flag: Some("--allow-other"),
        about: "Whether other users may enter the mount.",
    },
    Row {
        key: Key::NoExec,
        group: Group::Mount,
        name: "noexec",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::NOEXEC,
        flag: Some("--noexec"),
        about: "Whether programs in the mount cannot be run. Setuid programs and devices never count.",
    },
    Row {
        key: Key::Views,
        group: Group::Mount,
        name: "views",
        kind: ValueKind::Choice(&["listed", "unlisted"]),
        default: "listed",
        variable: env::VIEWS,
        flag: Some("--views"),
        about: "Whether directories list `X.summary`, `X.tail` and `X.grep` beside `X`.",
    },
    Row {
        key: Key::Passthrough,
        group: Group::Mount,
        name: "passthrough",
        kind: ValueKind::Choice(&["auto", "off"]),
        default: "auto",
        variable: env::PASSTHROUGH,
        flag: Some("--passthrough"),
        about: "Whether reads may go to the store's file without passing the server.",
    },
    Row {
        key: Key::Confine,
        group: Group::Mount,
        name: "confine",
        kind: ValueKind::Choice(&["auto", "off"]),
        default: "auto",
        variable: env::CONFINE,
        flag: Some("--confine"),
        about: "Whether the server gives up what serving does not need: files but the store's, the \
                network, privileges; as far as the kernel can.",
    },
    Row {
        key: Key::MaxArtifact,
        group: Group::Mount,
        name: "max_artifact",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::MAX_ARTIFACT,
        flag: Some("--max-artifact"),
        about: "Most bytes of one output; a write past it fails with EFBIG.",
    },
    Row {
        key: Key::MaxTerminal,
        group: Group::Mount,
        name: "max_terminal",
        kind: ValueKind::Size(&["off"]),
        default: "1 GiB",
        variable: env::MAX_TERMINAL,
        flag: Some("--max-terminal"),
        about: "Most bytes of one log in `artifacts/terminal`; a write past it fails with EFBIG, and \
                `ctxfs run` keeps no more.",
    },
    Row {
        key: Key::Quota,
        group: Group::Mount,
        name: "quota",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::QUOTA,
        flag: Some("--quota"),
        about: "Most bytes of all outputs of a conversation; a write past it fails with EDQUOT.",
    },
    Row {
        key: Key::MinFree,
        group: Group::Mount,
        name: "min_free",
        kind: ValueKind::Size(&[]),
        default: "64 MiB",
        variable: env::MIN_FREE,
        flag: Some("--min-free"),
        about: "Bytes to leave free on the store's disk; a write that leaves less fails with ENOSPC.",
    },
    Row {
        key: Key::CacheBytes,
        group: Group::Mount,
        name: "cache_bytes",
        kind: ValueKind::Size(&[]),
        default: "8 MiB",
        variable: env::CACHE_BYTES,
        flag: None,
        about: "Bytes of computed views that a mount keeps in memory for the next reader.",
    },
    Row {
        key: Key::DiskCacheBytes,
        group: Group::Mount,
        name: "disk_cache_bytes",
        kind: ValueKind::Size(&[]),
        default: "1 GiB",
        variable: env::DISK_CACHE_BYTES,
        flag: None,
        about: "Bytes of large views that are kept in the store's directory `cache`, for all mounts and \
                commands.",
    },
    Row {
        key: Key::KeepAge,
        group: Group::Keep,
        name: "keep_age",
        kind: ValueKind::Age(&["off"]),
        default: "off",
        variable: env::KEEP_AGE,
        flag: Some("--keep-age"),
        about: "Outputs that were not used for longer are removed; used is made, changed or read.",
    },
    Row {
        key: Key::KeepConversation,
        group: Group::Keep,
        name: "keep_conversation",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::KEEP_CONVERSATION,
        flag: Some("--keep-conversation"),
        about: "Bytes of the outputs of a conversation; where they are more, those used longest ago \
                are removed.",
    },
    Row {
        key: Key::KeepStore,
        group: Group::Keep,
        name: "keep_store",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::KEEP_STORE,
        flag: Some("--keep-store"),
        about: "As `keep_conversation`, of all outputs of the store.",
    },
    Row {
        key: Key::KeepFree,
        group: Group::Keep,
        name: "keep_free",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::KEEP_FREE,
        flag: Some("--keep-free"),
        about: "Bytes to keep free on the store's disk; where they are less, the outputs used longest \
                ago are removed.",
    },
    Row {
        key: Key::MaxInlineChars,
        group: Group::Limits,
        name: "max_inline_chars",
        kind: ValueKind::Count(LIMIT),
        default: "4000",
        variable: env::MAX_INLINE_CHARS,
        flag: None,
        about: "An output of at most so many characters goes to the model as it is.",
    },
    Row {
        key: Key::MaxInlineBytes,
        group: Group::Limits,
        name: "max_inline_bytes",
        kind: ValueKind::Size(LIMIT),
        default: "16 KiB",
        variable: env::MAX_INLINE_BYTES,
        flag: None,
        about: "As `max_inline_chars`, in bytes; the stricter decides.",
    },
    Row {
        key: Key::SnippetLines,
        group: Group::Limits,
        name: "snippet_lines",
        kind: ValueKind::Count(&[]),
        default: "40",
        variable: env::SNIPPET_LINES,
        flag: None,
        about: "Lines of the head, and of the tail, in a summary.",
    },
    Row {
        key: Key::SnippetBytes,
        group: Group::Limits,
        name: "snippet_bytes",
        kind: ValueKind::Size(&[]),
        default: "2 KiB",
        variable: env::SNIPPET_BYTES,
        flag: None,
        about: "As `snippet_lines`, in bytes.",
    },
    Row {
        key: Key::MaxLines,
        group: Group::Limits,
        name: "max_lines",
        kind: ValueKind::Count(LIMIT),
        default: "2000",
        variable: env::TOOL_OUTPUT_MAX_LINES,
        flag: None,
        about: "Lines of an output that its envelope holds at most.",
    },
    Row {
        key: Key::MaxBytes,
        group: Group::Limits,
        name: "max_bytes",
        kind: ValueKind::Size(LIMIT),
        default: "51200",
        variable: env::TOOL_OUTPUT_MAX_BYTES,
        flag: None,
        about: "As `max_lines`, in bytes; both hold.",
    },
    Row {
        key: Key::Direction,
        group: Group::Limits,
        name: "direction",
        kind: ValueKind::Choice(&["head", "tail", "head_tail"]),
        default: "head",
        variable: env::TOOL_OUTPUT_TRUNCATE_DIRECTION,
        flag: None,
        about: "Which part of an output an envelope holds.",
    },
    Row {
        key: Key::Dir,
        group: Group::Limits,
        name: "dir",
        kind: ValueKind::Text,
        default: "tool-output",
        variable: env::TOOL_OUTPUT_DIR,
        flag: None,
        about: "The directory of the tool-output layout; a relative one counts from where the program runs.",
    },
    Row {
        key: Key::RetentionDays,
        group: Group::Limits,
        name: "retention_days",
        kind: ValueKind::Whole(&["never"]),
        default: "7",
        variable: env::TOOL_OUTPUT_RETENTION_DAYS,
        flag: None,
        about: "Days after which files of the tool-output layout are removed.",
    },
    Row {
        key: Key::MessageThreshold,
        group: Group::Limits,
        name: "message_threshold",
        kind: ValueKind::Size(LIMIT),
        default: "51200",
        variable: env::MESSAGE_THRESHOLD,
        flag: None,
        about: "Bytes up to which the message log holds an output itself.",
    },
    Row {
        key: Key::MessagePreview,
        group: Group::Limits,
        name: "message_preview",
        kind: ValueKind::Count(&[]),
        default: "500",
        variable: env::MESSAGE_PREVIEW,
        flag: None,
        about: "Characters of a longer one that the message log holds.",
    },
    Row {
        key: Key::ToolResponseMaxBytes,
        group: Group::Limits,
        name: "tool_response_max_bytes",
        kind: ValueKind::Size(LIMIT),
        default: "12288",
        variable: env::TOOL_RESPONSE_MAX_BYTES,
        flag: None,
        about: "Bytes up to which a host with the `tool_output` tool is given an output itself.",
    },
    Row {
        key: Key::TokenBudget,
        group: Group::Limits,
        name: "token_budget",
        kind: ValueKind::Count(&["off", "never", "mirror"]),
        default: "off",
        variable: env::TOKEN_BUDGET,
        flag: None,
        about: "As `tool_response_max_bytes`, in tokens; either one triggers.",
    },
];

impl Key {
    /// What there is to know of it.
    pub(in crate::cli) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Reads a value of its flag, for clap.
    pub(in crate::cli) fn parse(self, text: &str) -> Result<Value, String> {
        let kind = self.row().kind;
        kind.of_text(OsStr::new(text)).map_err(|_| format!("it is {}", kind.allowed()))
    }
}

impl Row {
    /// The setting of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// Its default, where that is the same everywhere.
    pub(super) fn default_value(&self) -> Option<Value> {
        self.kind.of_text(OsStr::new(self.default)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_keys_say() {
        for (number, row) in ROWS.iter().enumerate() {
            assert_eq!(row.key as usize, number);
            assert!(std::ptr::eq(Row::named(row.name).unwrap(), row), "{} is unique", row.name);
            assert_eq!(row.default.is_empty(), row.default_value().is_none(), "{}", row.name);
            assert_eq!(ROWS.iter().filter(|other| other.variable == row.variable).count(), 1);
        }
    }
}
