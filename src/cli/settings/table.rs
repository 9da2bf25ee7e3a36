//! The table of settings: name, allowed values, default, environment variable and flag of each.

mod doors;

use std::ffi::OsStr;
use std::sync::LazyLock;

use crate::env;
use crate::settings::row::{Group, Key, Row};
use crate::settings::value::{Value, ValueKind};

const LIMIT: &[&str] = &["never", "mirror"];

/// All settings in the order of [`Key`], which is also the order of display.
pub(crate) static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| [OWN, doors::ROWS].concat());

/// The settings that stand in no table.
const OWN: &[Row] = &[
    Row {
        key: Key::Store,
        group: Group::Places,
        name: "store",
        kind: ValueKind::Path,
        default: "",
        variable: env::STORE,
        flag: Some("--store"),
        about: "Directory of the store. Default: `$XDG_DATA_HOME/ctxfs`, or else \
                `~/.local/share/ctxfs`. Does not count in the store's own file.",
    },
    Row {
        key: Key::Mountpoint,
        group: Group::Places,
        name: "mountpoint",
        kind: ValueKind::Path,
        default: "",
        variable: env::MOUNT,
        flag: Some("DIR"),
        about: "Directory that `ctxfs mount` mounts on. Default: `/ctx` for root, or else \
                `$XDG_RUNTIME_DIR/ctxfs`, or else `~/ctx`.",
    },
    Row {
        key: Key::Advertise,
        group: Group::Places,
        name: "advertise",
        kind: ValueKind::Text,
        default: "",
        variable: env::ADVERTISE,
        flag: Some("--advertise"),
        about: "Mountpoint as readers see it, for the paths in views. Default: the mountpoint.",
    },
    Row {
        key: Key::Log,
        group: Group::Mount,
        name: "log",
        kind: ValueKind::Log,
        default: "info",
        variable: env::LOG,
        flag: Some("--log"),
        about: "Log level: `error`, `warn`, `info`, `debug`, `trace`, or directives such as \
                `warn,ctxfs_fuse=trace`.",
    },
    Row {
        key: Key::WriteOnce,
        group: Group::Mount,
        name: "write_once",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::WRITE_ONCE,
        flag: Some("--write-once"),
        about: "Forbid changes to the content of complete outputs, and replacing them by `ctxfs put`.",
    },
    Row {
        key: Key::AllowOther,
        group: Group::Mount,
        name: "allow_other",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::ALLOW_OTHER,
        flag: Some("--allow-other"),
        about: "Allow other users to enter the mount.",
    },
    Row {
        key: Key::NoExec,
        group: Group::Mount,
        name: "noexec",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::NOEXEC,
        flag: Some("--noexec"),
        about: "Mount with `noexec`: programs in the mount cannot be run. Setuid bits and \
                devices are always ignored.",
    },
    Row {
        key: Key::Views,
        group: Group::Mount,
        name: "views",
        kind: ValueKind::Choice(&["listed", "unlisted"]),
        default: "listed",
        variable: env::VIEWS,
        flag: Some("--views"),
        about: "List `X.summary`, `X.tail` and `X.grep` beside `X` in directories, or find them \
                by name only.",
    },
    Row {
        key: Key::Passthrough,
        group: Group::Mount,
        name: "passthrough",
        kind: ValueKind::Choice(&["auto", "off"]),
        default: "auto",
        variable: env::PASSTHROUGH,
        flag: Some("--passthrough"),
        about: "Let reads go directly to the store's file, past the server.",
    },
    Row {
        key: Key::Coherence,
        group: Group::Mount,
        name: "coherence",
        kind: ValueKind::Choice(&["relaxed", "strict"]),
        default: "relaxed",
        variable: env::COHERENCE,
        flag: Some("--coherence"),
        about: "Let the kernel answer for a moment for outputs at rest, which are watched for \
                changes by other processes, or ask the store at each look.",
    },
    Row {
        key: Key::Confine,
        group: Group::Mount,
        name: "confine",
        kind: ValueKind::Choice(&["auto", "off"]),
        default: "auto",
        variable: env::CONFINE,
        flag: Some("--confine"),
        about: "Give up what serving does not need, as far as the kernel can: other files, the \
                network, privileges.",
    },
    Row {
        key: Key::MaxArtifact,
        group: Group::Mount,
        name: "max_artifact",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::MAX_ARTIFACT,
        flag: Some("--max-artifact"),
        about: "Maximum bytes of one output. A write past it fails with EFBIG.",
    },
    Row {
        key: Key::MaxTerminal,
        group: Group::Mount,
        name: "max_terminal",
        kind: ValueKind::Size(&["off"]),
        default: "1 GiB",
        variable: env::MAX_TERMINAL,
        flag: Some("--max-terminal"),
        about: "Maximum bytes of one log in `artifacts/terminal`. A write past it fails with \
                EFBIG; `ctxfs run` goes on, and keeps beginning and end.",
    },
    Row {
        key: Key::Quota,
        group: Group::Mount,
        name: "quota",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::QUOTA,
        flag: Some("--quota"),
        about: "Maximum bytes that everything in a conversation's directory may take on the disk. \
                A write past it fails with EDQUOT.",
    },
    Row {
        key: Key::MinFree,
        group: Group::Mount,
        name: "min_free",
        kind: ValueKind::Size(&[]),
        default: "64 MiB",
        variable: env::MIN_FREE,
        flag: Some("--min-free"),
        about: "Bytes to leave free on the store's disk. A write that would leave less fails \
                with ENOSPC. What comes from other hosts leaves a quarter more.",
    },
    Row {
        key: Key::CacheBytes,
        group: Group::Mount,
        name: "cache_bytes",
        kind: ValueKind::Size(&[]),
        default: "2 MiB",
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
        about: "Bytes of large views that are kept in the store's directory `cache`, for all \
                mounts and commands.",
    },
    Row {
        key: Key::KeepAge,
        group: Group::Keep,
        name: "keep_age",
        kind: ValueKind::Age(&["off"]),
        default: "off",
        variable: env::KEEP_AGE,
        flag: Some("--keep-age"),
        about: "Time after which an unused output is removed. Creating, changing and reading an \
                output use it.",
    },
    Row {
        key: Key::KeepConversation,
        group: Group::Keep,
        name: "keep_conversation",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::KEEP_CONVERSATION,
        flag: Some("--keep-conversation"),
        about: "Maximum bytes of the outputs of a conversation. Beyond it, the least recently \
                used are removed.",
    },
    Row {
        key: Key::KeepStore,
        group: Group::Keep,
        name: "keep_store",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::KEEP_STORE,
        flag: Some("--keep-store"),
        about: "Maximum bytes of all outputs of the store. Beyond it, the least recently used \
                are removed.",
    },
    Row {
        key: Key::KeepFree,
        group: Group::Keep,
        name: "keep_free",
        kind: ValueKind::Size(&["off"]),
        default: "off",
        variable: env::KEEP_FREE,
        flag: Some("--keep-free"),
        about: "Bytes to keep free on the store's disk. With less free, the least recently used \
                outputs are removed.",
    },
    Row {
        key: Key::MaxInlineChars,
        group: Group::Limits,
        name: "max_inline_chars",
        kind: ValueKind::Count(LIMIT),
        default: "8000",
        variable: env::MAX_INLINE_CHARS,
        flag: None,
        about: "Maximum characters of an output that goes to the model unchanged.",
    },
    Row {
        key: Key::MaxInlineBytes,
        group: Group::Limits,
        name: "max_inline_bytes",
        kind: ValueKind::Size(LIMIT),
        default: "16 KiB",
        variable: env::MAX_INLINE_BYTES,
        flag: None,
        about: "Maximum bytes of an output that goes to the model unchanged. The stricter of the \
                two decides.",
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
        about: "Bytes of the head, and of the tail, in a summary.",
    },
    Row {
        key: Key::MaxLines,
        group: Group::Limits,
        name: "max_lines",
        kind: ValueKind::Count(LIMIT),
        default: "2000",
        variable: env::TOOL_OUTPUT_MAX_LINES,
        flag: None,
        about: "Maximum lines of an output in its envelope.",
    },
    Row {
        key: Key::MaxBytes,
        group: Group::Limits,
        name: "max_bytes",
        kind: ValueKind::Size(LIMIT),
        default: "51200",
        variable: env::TOOL_OUTPUT_MAX_BYTES,
        flag: None,
        about: "Maximum bytes of an output in its envelope. Both limits apply.",
    },
    Row {
        key: Key::Direction,
        group: Group::Limits,
        name: "direction",
        kind: ValueKind::Choice(&["head", "tail", "head_tail"]),
        default: "head",
        variable: env::TOOL_OUTPUT_TRUNCATE_DIRECTION,
        flag: None,
        about: "Part of an output that its envelope holds.",
    },
    Row {
        key: Key::Dir,
        group: Group::Limits,
        name: "dir",
        kind: ValueKind::Text,
        default: "tool-output",
        variable: env::TOOL_OUTPUT_DIR,
        flag: None,
        about: "Directory of the tool-output layout. A relative path starts at the working \
                directory.",
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
        about: "Maximum bytes of an output that the message log holds whole.",
    },
    Row {
        key: Key::MessagePreview,
        group: Group::Limits,
        name: "message_preview",
        kind: ValueKind::Count(&[]),
        default: "500",
        variable: env::MESSAGE_PREVIEW,
        flag: None,
        about: "Characters of a longer output that the message log holds.",
    },
    Row {
        key: Key::ToolResponseMaxBytes,
        group: Group::Limits,
        name: "tool_response_max_bytes",
        kind: ValueKind::Size(LIMIT),
        default: "12288",
        variable: env::TOOL_RESPONSE_MAX_BYTES,
        flag: None,
        about: "Maximum bytes of an output that goes unchanged to a host with the `tool_output` \
                tool.",
    },
    Row {
        key: Key::TokenBudget,
        group: Group::Limits,
        name: "token_budget",
        kind: ValueKind::Count(&["off", "never", "mirror"]),
        default: "off",
        variable: env::TOKEN_BUDGET,
        flag: None,
        about: "Maximum tokens of an output that goes unchanged to such a host. Both limits apply.",
    },
];

impl Key {
    /// Returns the definition of the setting.
    pub(crate) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Parses the value of the flag, for clap.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        let kind = self.row().kind;
        kind.of_text(OsStr::new(text)).map_err(|_| format!("expected {}", kind.allowed()))
    }
}

impl Row {
    /// Returns the setting called `name`: the one outside of tables, if there is one.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        let mut rows = ROWS.iter().filter(|row| row.name == name);
        let is_in_no_table = |row: &&Self| row.group.table().is_none();
        rows.clone().find(is_in_no_table).or_else(|| rows.next())
    }

    /// Returns the default, unless it is computed.
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
            let table = row.group.table();
            let same = ROWS.iter().filter(|other| other.name == row.name);
            assert_eq!(same.filter(|other| other.group.table() == table).count(), 1);
            let named = Row::named(row.name).unwrap();
            assert!(table.is_some() || std::ptr::eq(named, row), "{} is found", row.name);
            assert_eq!(row.default.is_empty(), row.default_value().is_none(), "{}", row.name);
            assert_eq!(ROWS.iter().filter(|other| other.variable == row.variable).count(), 1);
        }
    }
}
