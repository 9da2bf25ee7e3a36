//! The table of settings with the name, allowed values, default, environment variable and flag of
//! each. `docs/SETTINGS.md` and `ctxfs config --defaults` are generated from it.

use crate::env;
use crate::settings::value::{SettingValue, ValueKind};

const LIMIT: &[&str] = &["never", "mirror"];

macro_rules! settings {
    ($($group:ident { $(
        $key:ident: $name:literal, $variable:expr, $flag:expr,
            $kind:expr => $default:literal,
            $about:literal;
    )* })*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum SettingKey {
            $($($key,)*)*
        }

        pub(crate) static ROWS: &[SettingRow] = &[$($(
            SettingRow {
                key: SettingKey::$key,
                group: SettingGroup::$group,
                name: $name,
                kind: $kind,
                default: $default,
                variable: $variable,
                flag: $flag,
                about: $about,
            },
        )*)*];
    };
}

// Each row has the key, the name in `ctxfs.toml`, the environment variable and the flag; the
// allowed values and the default; and the description. Rows are in display order.
settings! {
    Places {
        Store: "store", env::STORE, Some("--store"),
            ValueKind::Path => "",
            "Directory of the store. Default: `$XDG_DATA_HOME/ctxfs`, or else \
             `~/.local/share/ctxfs`. Does not count in the store's own file.";
        Mountpoint: "mountpoint", "CTXFS_MOUNT", Some("DIR"),
            ValueKind::Path => "",
            "Directory that `ctxfs mount` mounts on. Default: `~/ctx`, and `/ctx` for root.";
        Advertise: "advertise", "CTXFS_ADVERTISE", Some("--advertise"),
            ValueKind::Text => "",
            "Mountpoint as readers see it, for the paths in views. Default: the mountpoint.";
    }
    Mount {
        Log: "log", "CTXFS_LOG", Some("--log"),
            ValueKind::Log => "info",
            "Log level: `error`, `warn`, `info`, `debug`, `trace`, or directives such as \
             `warn,ctxfs_fuse=trace`.";
        WriteOnce: "write_once", "CTXFS_WRITE_ONCE", Some("--write-once"),
            ValueKind::Switch => "false",
            "Forbid changes to the content of complete outputs, and replacing them by \
             `ctxfs put`.";
        AllowOther: "allow_other", "CTXFS_ALLOW_OTHER", Some("--allow-other"),
            ValueKind::Switch => "false",
            "Allow other users to enter the mount.";
        NoExec: "noexec", "CTXFS_NOEXEC", Some("--noexec"),
            ValueKind::Switch => "false",
            "Mount with `noexec`: programs in the mount cannot be run. Setuid bits and devices \
             are always ignored.";
        Views: "views", "CTXFS_VIEWS", Some("--views"),
            ValueKind::Choice(&["listed", "unlisted"]) => "listed",
            "List `X.summary`, `X.tail` and `X.grep` beside `X` in directories, or find them by \
             name only.";
        Passthrough: "passthrough", "CTXFS_PASSTHROUGH", Some("--passthrough"),
            ValueKind::Choice(&["auto", "off"]) => "auto",
            "Let reads go directly to the store's file, past the server.";
        Coherence: "coherence", "CTXFS_COHERENCE", Some("--coherence"),
            ValueKind::Choice(&["relaxed", "strict"]) => "relaxed",
            "Let the kernel answer for a moment for outputs at rest, which are watched for \
             changes by other processes, or ask the store at each look.";
        Confine: "confine", "CTXFS_CONFINE", Some("--confine"),
            ValueKind::Choice(&["auto", "off"]) => "auto",
            "Give up what serving does not need, as far as the kernel can: other files, the \
             network, privileges.";
        MaxArtifact: "max_artifact", "CTXFS_MAX_ARTIFACT", Some("--max-artifact"),
            ValueKind::Size(&["off"]) => "off",
            "Maximum bytes of one output. A write past it fails with EFBIG.";
        MaxTerminal: "max_terminal", "CTXFS_MAX_TERMINAL", Some("--max-terminal"),
            ValueKind::Size(&["off"]) => "1 GiB",
            "Maximum bytes of one log in `artifacts/terminal`. A write past it fails with EFBIG; \
             `ctxfs run` goes on, and keeps beginning and end.";
        Quota: "quota", env::QUOTA, Some("--quota"),
            ValueKind::Size(&["off"]) => "off",
            "Maximum bytes that everything in a conversation's directory may take on the disk. A \
             write past it fails with EDQUOT.";
        MinFree: "min_free", "CTXFS_MIN_FREE", Some("--min-free"),
            ValueKind::Size(&[]) => "64 MiB",
            "Bytes to leave free on the store's disk. A write that would leave less fails with \
             ENOSPC. What comes from other hosts leaves a quarter more.";
        CacheBytes: "cache_bytes", "CTXFS_CACHE_BYTES", None,
            ValueKind::Size(&[]) => "2 MiB",
            "Bytes of computed views that a mount keeps in memory for the next reader.";
        DiskCacheBytes: "disk_cache_bytes", "CTXFS_DISK_CACHE_BYTES", None,
            ValueKind::Size(&[]) => "1 GiB",
            "Bytes of large views that are kept in the store's directory `cache`, for all mounts \
             and commands.";
    }
    Keep {
        KeepAge: "keep_age", "CTXFS_KEEP_AGE", Some("--keep-age"),
            ValueKind::Age(&["off"]) => "off",
            "Time after which an unused output is removed. Creating, changing and reading an \
             output use it.";
        KeepConversation: "keep_conversation", "CTXFS_KEEP_CONVERSATION",
            Some("--keep-conversation"),
            ValueKind::Size(&["off"]) => "off",
            "Maximum bytes of the outputs of a conversation. Beyond it, the least recently used \
             are removed.";
        KeepStore: "keep_store", "CTXFS_KEEP_STORE", Some("--keep-store"),
            ValueKind::Size(&["off"]) => "off",
            "Maximum bytes of all outputs of the store. Beyond it, the least recently used are \
             removed.";
        KeepFree: "keep_free", "CTXFS_KEEP_FREE", Some("--keep-free"),
            ValueKind::Size(&["off"]) => "off",
            "Bytes to keep free on the store's disk. With less free, the least recently used \
             outputs are removed.";
    }
    Limits {
        MaxInlineChars: "max_inline_chars", "CTXFS_MAX_INLINE_CHARS", None,
            ValueKind::Count(LIMIT) => "8000",
            "Maximum characters of an output that goes to the model unchanged.";
        MaxInlineBytes: "max_inline_bytes", "CTXFS_MAX_INLINE_BYTES", None,
            ValueKind::Size(LIMIT) => "16 KiB",
            "Maximum bytes of an output that goes to the model unchanged. The stricter of the two \
             decides.";
        SnippetLines: "snippet_lines", "CTXFS_SNIPPET_LINES", None,
            ValueKind::Count(&[]) => "200",
            "Maximum lines of the head, and of the tail, in a summary.";
        SnippetBytes: "snippet_bytes", "CTXFS_SNIPPET_BYTES", None,
            ValueKind::Size(&[]) => "2 KiB",
            "Maximum bytes of the head, and of the tail, in a summary.";
        MaxLines: "max_lines", env::TOOL_OUTPUT_MAX_LINES, None,
            ValueKind::Count(LIMIT) => "2000",
            "Maximum lines of an output in its envelope.";
        MaxBytes: "max_bytes", "TOOL_OUTPUT_MAX_BYTES", None,
            ValueKind::Size(LIMIT) => "51200",
            "Maximum bytes of an output in its envelope. Both limits apply.";
        Direction: "direction", "TOOL_OUTPUT_TRUNCATE_DIRECTION", None,
            ValueKind::Choice(&["head", "tail", "head_tail"]) => "head",
            "Part of an output that its envelope holds.";
        Dir: "dir", "TOOL_OUTPUT_DIR", None,
            ValueKind::Text => "tool-output",
            "Directory of the tool-output layout. A relative path starts at the working \
             directory.";
        RetentionDays: "retention_days", "TOOL_OUTPUT_RETENTION_DAYS", None,
            ValueKind::Whole(&["never"]) => "7",
            "Days after which files of the tool-output layout are removed.";
        MessageThreshold: "message_threshold", "CTXFS_MESSAGE_THRESHOLD", None,
            ValueKind::Size(LIMIT) => "51200",
            "Maximum bytes of an output that the message log holds whole.";
        MessagePreview: "message_preview", "CTXFS_MESSAGE_PREVIEW", None,
            ValueKind::Count(&[]) => "500",
            "Characters of a longer output that the message log holds.";
        ToolResponseMaxBytes: "tool_response_max_bytes", "CTXFS_TOOL_RESPONSE_MAX_BYTES", None,
            ValueKind::Size(LIMIT) => "12288",
            "Maximum bytes of an output that goes unchanged to a host with the `tool_output` \
             tool.";
        TokenBudget: "token_budget", "CTXFS_TOKEN_BUDGET", None,
            ValueKind::Count(&["off", "never", "mirror"]) => "off",
            "Maximum tokens of an output that goes unchanged to such a host. Both limits apply.";
    }
    Gateway {
        SessionIdle: "session_idle", "CTXFS_SESSION_IDLE", None,
            ValueKind::Age(&[]) => "30m",
            "Time after which `ctxfs mcp --http` ends an unused session, and its servers.";
        MaxBody: "max_body", "CTXFS_MAX_BODY", None,
            ValueKind::Size(&[]) => "16 MiB",
            "Maximum bytes of a message of a client of `ctxfs mcp --http`.";
        BatchBudget: "batch_budget", "CTXFS_BATCH_BUDGET", None,
            ValueKind::Size(&[]) => "16 KiB",
            "Bytes that the results of `run_tool_batch` share. Beyond it, each result still gets \
             its reference and one line.";
        MaxBinary: "max_binary", "CTXFS_MAX_BINARY", None,
            ValueKind::Size(&[]) => "1 MiB",
            "Maximum bytes of an image, an audio or a blob, decoded, that passes the gateway. A \
             larger one is stored.";
        MaxResult: "max_result", "CTXFS_MAX_RESULT", None,
            ValueKind::Size(&[]) => "1 GiB",
            "Maximum bytes of a message of a server, at least 1 MiB. A longer one ends its call \
             with an error that names the part that was stored.";
        Structured: "structured", "CTXFS_STRUCTURED", None,
            ValueKind::Choice(&["keep", "offload"]) => "keep",
            "What becomes of `structuredContent` over the limits: \"keep\" leaves it in the result, \
             for scripts that call tools, and only texts are replaced by stand-ins; \"offload\" \
             replaces it too, and leaves `outputSchema` out of lists of tools, for a client whose \
             model reads `structuredContent`.";
        References: "references", "CTXFS_REFERENCES", None,
            ValueKind::Switch => "true",
            "Put stored text in place of `{\"$ctx\": REF}` in the arguments of calls. If false, \
             such arguments pass as they are.";
    }
    Hooks {
        HooksReplace: "replace", "CTXFS_HOOKS_REPLACE", None,
            ValueKind::Choice(&["cut", "long"]) => "cut",
            "Outputs that `ctxfs hook` and `ctxfs shell` replace by their stand-ins: those \
             that the host would cut, or also those over `max_inline_chars` or `max_inline_bytes` \
             whose stand-in has at most a third of their tokens.";
        HooksMount: "mount", "CTXFS_HOOKS_MOUNT", None,
            ValueKind::Switch => "true",
            "Mount the store at the start of a session of a host, if it is not mounted. Does not \
             count in the store's own file.";
        HooksStore: "store", "CTXFS_HOOKS_STORE", None,
            ValueKind::Choice(&["all", "long"]) => "all",
            "Outputs that `ctxfs hook` and `ctxfs shell` store: those that are replaced and, to be \
              searched later, all others of 1,000 characters or of a call that failed; or only \
              those that may be replaced.";
        HooksKeepAge: "keep_age", "CTXFS_HOOKS_KEEP_AGE", None,
            ValueKind::Age(&["off"]) => "30d",
            "As `keep_age` above, for outputs that hooks and `ctxfs shell` have stored.";
        HooksKeepStore: "keep_store", "CTXFS_HOOKS_KEEP_STORE", None,
            ValueKind::Size(&["off"]) => "10 GiB",
            "As `keep_store` above, for outputs that hooks and `ctxfs shell` have stored.";
        HooksPipes: "pipes", "CTXFS_HOOKS_PIPES", None,
            ValueKind::Switch => "true",
            "Store what comes into `tail`, `grep`, `sed -n` and `awk` in a command of `ctxfs shell`, \
             and tell the model of errors that they have not shown.";
    }
    Remote {
        RemoteUrl: "url", "CTXFS_REMOTE_URL", None,
            ValueKind::Text => "",
            "The bucket that hosts share, such as `s3://bucket/prefix`, `gs://bucket/prefix`, \
             `az://container/prefix` or `file:///directory`. Keys, region and endpoint come from \
             the environment variables of that service. Default: none.";
        RemotePush: "push", "CTXFS_REMOTE_PUSH", None,
            ValueKind::Choice(&["sealed", "asked"]) => "sealed",
            "What a mount and `ctxfs mcp` send to the bucket by themselves: \"sealed\" is \
             everything that is complete, \"asked\" is nothing, so that only `ctxfs push` and \
             `put --durable` send.";
        RemoteEvery: "every", "CTXFS_REMOTE_EVERY", None,
            ValueKind::Age(&[]) => "2s",
            "Outputs of a conversation that are completed within this time go in one request.";
        RemotePoll: "poll", "CTXFS_REMOTE_POLL", None,
            ValueKind::Age(&[]) => "2s",
            "Maximum age of an answer about other hosts. Nothing is asked unless someone looks.";
        RemoteCacheBytes: "cache_bytes", "CTXFS_REMOTE_CACHE_BYTES", None,
            ValueKind::Size(&[]) => "20 GiB",
            "Maximum bytes of outputs of other hosts that are kept for the next reader.";
        RemoteEvict: "evict", "CTXFS_REMOTE_EVICT", None,
            ValueKind::Switch => "false",
            "When the disk is nearly full (`min_free`), remove local copies of outputs that are \
             in the bucket, the least recently used first. Rules of retention do so in any case.";
        RemoteSweep: "sweep", "CTXFS_REMOTE_SWEEP", None,
            ValueKind::Switch => "true",
            "Let this host delete garbage from the bucket. Set it to false if the keys of this \
             host may not delete.";
    }
    Extract {
        ExtractMaxChunksFull: "max_chunks_full", "CTXFS_EXTRACT_MAX_CHUNKS_FULL", None,
            ValueKind::Count(&[]) => "1",
            "Maximum chunks of an output that is read in full in mode `auto`. A chunk fills the \
             context of the model.";
        ExtractLongLineBytes: "long_line_bytes", "CTXFS_EXTRACT_LONG_LINE_BYTES", None,
            ValueKind::Size(&[]) => "1000",
            "Average bytes of a line from which an output is read in full in mode `auto`, however \
             large it is: a search in it finds little.";
        ExtractOverlapPercent: "overlap_percent", "CTXFS_EXTRACT_OVERLAP_PERCENT", None,
            ValueKind::Whole(&[]) => "10",
            "Part of a chunk, in percent, that the chunk before it shows too. More than 50 counts \
             as 50.";
        ExtractConcurrency: "concurrency", "CTXFS_EXTRACT_CONCURRENCY", None,
            ValueKind::Count(&[]) => "3",
            "Chunks that a model is asked about at once.";
        ExtractMaxSteps: "max_steps", "CTXFS_EXTRACT_MAX_STEPS", None,
            ValueKind::Count(&[]) => "12",
            "Maximum turns of the reading agent.";
        ExtractMaxTokens: "max_tokens_per_question", "CTXFS_EXTRACT_MAX_TOKENS", None,
            ValueKind::Count(&[]) => "400000",
            "Maximum tokens that one question may cost, of requests and replies together.";
        ExtractTimeout: "timeout", "CTXFS_EXTRACT_TIMEOUT", None,
            ValueKind::Count(&[]) => "120",
            "Maximum seconds of one call of a model. A model on two cores reads 20 to 35 tokens a \
             second.";
        ExtractView: "view", "CTXFS_EXTRACT_VIEW", None,
            ValueKind::Switch => "false",
            "Show `X.extract/<question>`. Each question that is new costs money.";
    }
}

impl SettingKey {
    pub(crate) fn row(self) -> &'static SettingRow {
        &ROWS[self as usize]
    }

    pub(crate) fn parse(self, text: &str) -> Result<SettingValue, String> {
        let kind = self.row().kind;
        kind.of_text(std::ffi::OsStr::new(text)).map_err(|_| format!("expected {}", kind.allowed()))
    }
}

impl SettingRow {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let mut rows = ROWS.iter().filter(|row| row.name == name);
        let is_in_no_table = |row: &&Self| row.group.table().is_none();
        rows.clone().find(is_in_no_table).or_else(|| rows.next())
    }

    pub(crate) fn default_value(&self) -> Option<SettingValue> {
        self.kind.of_text(std::ffi::OsStr::new(self.default)).ok()
    }
}

impl SettingKey {
    /// Returns true if the store's own file may set this setting. Such a setting grants no right,
    /// sends no data, and affects nothing outside of the store, because other users may be able to
    /// write that file.
    pub(crate) fn counts_from_store(self) -> bool {
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
                | Self::HooksMount
        ) && !matches!(self.row().group, SettingGroup::Extract | SettingGroup::Remote)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingGroup {
    Places,
    Mount,
    Keep,
    Limits,
    Gateway,
    Hooks,
    Extract,
    Remote,
}

impl SettingGroup {
    pub(crate) fn table(self) -> Option<&'static str> {
        match self {
            Self::Places | Self::Mount | Self::Keep | Self::Limits => None,
            Self::Gateway => Some("mcp"),
            Self::Hooks => Some("hooks"),
            Self::Extract => Some("extract"),
            Self::Remote => Some("remote"),
        }
    }
}

/// The definition of a setting. `name` is its key in `ctxfs.toml`. `default` has the syntax of
/// environment variables, and is empty if the default is computed. `about` describes the setting in
/// one or two sentences.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingRow {
    pub(crate) key: SettingKey,
    pub(crate) group: SettingGroup,
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    pub(crate) default: &'static str,
    pub(crate) variable: &'static str,
    pub(crate) flag: Option<&'static str>,
    pub(crate) about: &'static str,
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
            let named = SettingRow::named(row.name).unwrap();
            assert!(table.is_some() || std::ptr::eq(named, row), "{} is found", row.name);
            assert_eq!(row.default.is_empty(), row.default_value().is_none(), "{}", row.name);
            assert_eq!(ROWS.iter().filter(|other| other.variable == row.variable).count(), 1);
        }
    }
}
