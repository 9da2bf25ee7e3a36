//! The settings of the gateway, of hooks, of extraction and of the remote tier, in tables of their own.

use crate::cli::env;
use crate::cli::settings::row::Group;
use crate::cli::settings::row::Key;
use crate::cli::settings::row::Row;
use crate::cli::settings::value::ValueKind;

/// The settings in the tables `[mcp]`, `[hooks]`, `[extract]` and `[remote]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        key: Key::SessionIdle,
        group: Group::Gateway,
        name: "session_idle",
        kind: ValueKind::Age(&[]),
        default: "30m",
        variable: env::SESSION_IDLE,
        flag: None,
        about: "Time after which `ctxfs mcp --http` ends a session that nobody uses, and its \
                servers.",
    },
    Row {
        key: Key::MaxBody,
        group: Group::Gateway,
        name: "max_body",
        kind: ValueKind::Size(&[]),
        default: "16 MiB",
        variable: env::MAX_BODY,
        flag: None,
        about: "Maximum bytes of a message of a client of `ctxfs mcp --http`.",
    },
    Row {
        key: Key::BatchBudget,
        group: Group::Gateway,
        name: "batch_budget",
        kind: ValueKind::Size(&[]),
        default: "16 KiB",
        variable: env::BATCH_BUDGET,
        flag: None,
        about: "Bytes that the results of `run_tool_batch` share. More is shown only where each \
                result has no more than its reference and one line.",
    },
    Row {
        key: Key::MaxBinary,
        group: Group::Gateway,
        name: "max_binary",
        kind: ValueKind::Size(&[]),
        default: "1 MiB",
        variable: env::MAX_BINARY,
        flag: None,
        about: "Maximum bytes of an image, an audio or a blob, decoded, that passes the gateway. \
                A larger one is stored.",
    },
    Row {
        key: Key::MaxResult,
        group: Group::Gateway,
        name: "max_result",
        kind: ValueKind::Size(&[]),
        default: "1 GiB",
        variable: env::MAX_RESULT,
        flag: None,
        about: "Maximum bytes of a message of a server; less than 1 MiB counts as that. A longer one \
                ends its call with an error that names what was kept of it.",
    },
    Row {
        key: Key::References,
        group: Group::Gateway,
        name: "references",
        kind: ValueKind::Switch,
        default: "true",
        variable: env::REFERENCES,
        flag: None,
        about: "Put stored text in place of `{\"$ctx\": REF}` in the arguments of calls. If false, \
                such arguments pass as they are.",
    },
    Row {
        key: Key::HooksReplace,
        group: Group::Hooks,
        name: "replace",
        kind: ValueKind::Choice(&["cut", "long"]),
        default: "cut",
        variable: env::HOOKS_REPLACE,
        flag: None,
        about: "Outputs that `ctxfs hook` and `ctxfs run --host` replace by their stand-ins: those \
                that the host would cut, or also those over `max_inline_chars` or \
                `max_inline_bytes` whose stand-in has at most a third of their tokens.",
    },
    Row {
        key: Key::RemoteUrl,
        group: Group::Remote,
        name: "url",
        kind: ValueKind::Text,
        default: "",
        variable: env::REMOTE_URL,
        flag: None,
        about: "The bucket that hosts share, such as `s3://bucket/prefix`, `gs://bucket/prefix`, \
                `az://container/prefix` or `file:///directory`. Keys, region and endpoint come \
                from the environment variables of that service. Default: none.",
    },
    Row {
        key: Key::RemotePush,
        group: Group::Remote,
        name: "push",
        kind: ValueKind::Choice(&["sealed", "asked"]),
        default: "sealed",
        variable: env::REMOTE_PUSH,
        flag: None,
        about: "What a mount and `ctxfs mcp` send to the bucket by themselves: \"sealed\" is all \
                that is complete, \"asked\" is nothing, so that only `ctxfs push` and `put \
                --durable` send.",
    },
    Row {
        key: Key::RemoteEvery,
        group: Group::Remote,
        name: "every",
        kind: ValueKind::Age(&[]),
        default: "2s",
        variable: env::REMOTE_EVERY,
        flag: None,
        about: "Outputs of a conversation that are completed within this time go in one request.",
    },
    Row {
        key: Key::RemotePoll,
        group: Group::Remote,
        name: "poll",
        kind: ValueKind::Age(&[]),
        default: "2s",
        variable: env::REMOTE_POLL,
        flag: None,
        about: "How old an answer about other hosts may be. Nothing is asked for which nobody looks.",
    },
    Row {
        key: Key::RemoteCacheBytes,
        group: Group::Remote,
        name: "cache_bytes",
        kind: ValueKind::Size(&[]),
        default: "20 GiB",
        variable: env::REMOTE_CACHE_BYTES,
        flag: None,
        about: "Maximum bytes of outputs of other hosts that are kept for the next reader.",
    },
    Row {
        key: Key::RemoteEvict,
        group: Group::Remote,
        name: "evict",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::REMOTE_EVICT,
        flag: None,
        about: "When the disk is nearly full (`min_free`), let go of local copies of what is sent, \
                the longest unused first. Rules that keep less do so in any case.",
    },
    Row {
        key: Key::RemoteSweep,
        group: Group::Remote,
        name: "sweep",
        kind: ValueKind::Switch,
        default: "true",
        variable: env::REMOTE_SWEEP,
        flag: None,
        about: "Let this host delete from the bucket what is of no use any more. False where its \
                keys may not.",
    },
    Row {
        key: Key::ExtractMaxChunksFull,
        group: Group::Extract,
        name: "max_chunks_full",
        kind: ValueKind::Count(&[]),
        default: "1",
        variable: env::EXTRACT_MAX_CHUNKS_FULL,
        flag: None,
        about: "An output that fits into so many chunks is read in full in mode `auto`. A \
                chunk is what the context of the model has room for.",
    },
    Row {
        key: Key::ExtractLongLineBytes,
        group: Group::Extract,
        name: "long_line_bytes",
        kind: ValueKind::Size(&[]),
        default: "1000",
        variable: env::EXTRACT_LONG_LINE_BYTES,
        flag: None,
        about: "Average bytes of a line from which an output is read in full in mode `auto`, \
                however large it is: a search in it finds little.",
    },
    Row {
        key: Key::ExtractOverlapPercent,
        group: Group::Extract,
        name: "overlap_percent",
        kind: ValueKind::Whole(&[]),
        default: "10",
        variable: env::EXTRACT_OVERLAP_PERCENT,
        flag: None,
        about: "Part of a chunk, in percent, that the chunk before it shows too. More than \
                50 counts as 50.",
    },
    Row {
        key: Key::ExtractConcurrency,
        group: Group::Extract,
        name: "concurrency",
        kind: ValueKind::Count(&[]),
        default: "3",
        variable: env::EXTRACT_CONCURRENCY,
        flag: None,
        about: "Chunks that a model is asked about at once.",
    },
    Row {
        key: Key::ExtractMaxSteps,
        group: Group::Extract,
        name: "max_steps",
        kind: ValueKind::Count(&[]),
        default: "12",
        variable: env::EXTRACT_MAX_STEPS,
        flag: None,
        about: "Maximum turns of the reading agent.",
    },
    Row {
        key: Key::ExtractMaxTokens,
        group: Group::Extract,
        name: "max_tokens_per_question",
        kind: ValueKind::Count(&[]),
        default: "400000",
        variable: env::EXTRACT_MAX_TOKENS,
        flag: None,
        about: "Maximum tokens that one question may cost, of requests and replies together.",
    },
    Row {
        key: Key::ExtractTimeout,
        group: Group::Extract,
        name: "timeout",
        kind: ValueKind::Count(&[]),
        default: "120",
        variable: env::EXTRACT_TIMEOUT,
        flag: None,
        about: "Seconds of one call of a model. One on two cores reads 20 to 35 tokens a \
                second.",
    },
    Row {
        key: Key::ExtractView,
        group: Group::Extract,
        name: "view",
        kind: ValueKind::Switch,
        default: "false",
        variable: env::EXTRACT_VIEW,
        flag: None,
        about: "Show `X.extract/<question>`. Each question that is new costs money.",
    },
];
