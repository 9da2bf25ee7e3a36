//! `put`, `view` and `ls`: the commands that work on the store without a mount.

use std::path::PathBuf;

use clap::Args;
use clap::ValueEnum;

use crate::cli::env;
use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Store standard input as one complete output, and print what goes to the model in its place.
///
/// The bytes are kept as they come, however many. An output within the limits of the format is
/// printed unchanged, byte for byte; a longer one is replaced by its stand-in. Secrets are masked in
/// what is printed, where the settings ask for that.
///
/// `some-tool | ctxfs put -c c7 --tool shell/exec --call 9f3k`
///
/// A stand-in of a stored output that comes back is recognised by its reference, and printed
/// unchanged.
///
/// `$TOOL_OUTPUT_MAX_LINES` (2000), `$TOOL_OUTPUT_MAX_BYTES` (51200) and
/// `$TOOL_OUTPUT_TRUNCATE_DIRECTION` (`head`; `tail`, `head_tail`) set the limits of the envelope,
/// `$TOOL_OUTPUT_DIR` (`tool-output`) and `$TOOL_OUTPUT_RETENTION_DAYS` (7) the tool-output layout.
#[derive(Debug, Args)]
pub(in crate::cli) struct PutArgs {
    /// The conversation to store it in; made if it is not there.
    ///
    /// Default: a new one, `session-` and a UUID; with the tool-output layout, none.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(in crate::cli) conversation: Option<String>,

    /// The id of the tool call; it names the file. Default: a new one.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) call: Option<String>,

    /// The tool that was called.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) tool: Option<String>,

    /// The server that the tool belongs to.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) server: Option<String>,

    /// The arguments of the call, as JSON or as text.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) args: Option<String>,

    /// How the call ended; other than 0 is a failure, and its stand-in shows more of the end.
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    pub(in crate::cli) exit_code: Option<i32>,

    /// The type of the bytes, such as `application/json`, where it is known.
    #[arg(long, value_name = "TYPE")]
    pub(in crate::cli) mime: Option<String>,

    /// What to print.
    ///
    /// Default: the summary; with the tool-output layout, the envelope.
    #[arg(long, value_enum, hide_default_value = true)]
    pub(in crate::cli) format: Option<PutFormat>,

    /// Print the stand-in also of an output that is within the limits.
    #[arg(long)]
    pub(in crate::cli) always: bool,

    /// A tool that the model has, such as `Task`, `Read` or `Grep`; may be given several times.
    ///
    /// The envelope names only tools that are there. Default: not known.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) has_tool: Vec<String>,

    /// Where the output is kept.
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) layout: Layout,

    /// The mountpoint as the reader sees it, for the paths in the stand-in.
    ///
    /// Default: where this store is mounted, else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,
}

impl PutArgs {
    /// The settings among them.
    pub(in crate::cli) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum PutFormat {
    /// Facts, head and tail, errors, and where to read on; over 4,000 characters or 16,384 bytes.
    Summary,
    /// A response of the common protocol, as JSON; over 2,000 lines or 51,200 bytes.
    Envelope,
    /// For a host with the tool `tool_output`; over 12,288 bytes.
    Handle,
    /// The first 500 characters, for a message log; over 51,200 bytes.
    Preview,
    /// The reference: one line of JSON that names the output and says what it is.
    Ref,
    /// Everything that is known of it, as JSON.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Layout {
    /// In a conversation of the store, with its views.
    #[default]
    Context,
    /// As `tool_<YYYYMMDD_HHMMSS>_<tool>.json` (UTC) in `$TOOL_OUTPUT_DIR`, where files so named
    /// are removed `$TOOL_OUTPUT_RETENTION_DAYS` after they were written. With --conversation, in
    /// the store too.
    ToolOutput,
}

/// Print a view, or a stored file, without a mount.
///
/// `ctxfs view c7/artifacts/tool/9f3k.txt.summary` prints what the same path shows under a mount;
/// queries go as they are: `ctxfs view 'c7/artifacts/tool/9f3k.txt.grep/-i timeout'`. The handle
/// or the reference of an output prints the output: `ctxfs view c7/9f3k.txt`
#[derive(Debug, Args)]
pub(in crate::cli) struct ViewArgs {
    /// The conversation and the path inside it; a path under the mountpoint works too, and so do a
    /// reference (`ctx://...`) and a handle.
    pub(in crate::cli) path: PathBuf,

    /// The mountpoint as the reader sees it, for the paths in the text.
    ///
    /// Default: where this store is mounted, else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,
}

impl ViewArgs {
    /// The settings among them.
    pub(in crate::cli) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}

/// List the conversations, or the outputs of one: size, age, tool.
#[derive(Debug, Args)]
pub(in crate::cli) struct LsArgs {
    /// The conversation to list.
    pub(in crate::cli) conversation: Option<String>,
}
