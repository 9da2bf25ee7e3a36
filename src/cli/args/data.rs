//! `put`, `view` and `ls`: the commands that work on the store without a mount.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::reader::ReaderArgs;
use crate::env;

/// Store standard input as one output, and print its stand-in for the model.
///
/// Every byte is stored. An output within the limits of the format is printed unchanged, byte for
/// byte; a longer one is replaced by its stand-in. If the settings ask for redaction, secrets are
/// masked in what is printed.
///
/// If the disk or a limit of the settings (`max_artifact`, `quota`, `min_free`) leaves too little
/// room, the beginning is kept and marked as incomplete, nothing is printed, and the exit status is
/// 1.
///
/// `some-tool | ctxfs put -c c7 --tool shell/exec --call 9f3k`
///
/// Input that is itself the stand-in of a stored output is recognized by its reference, and printed
/// unchanged.
///
/// `$TOOL_OUTPUT_MAX_LINES` (2000), `$TOOL_OUTPUT_MAX_BYTES` (51200) and
/// `$TOOL_OUTPUT_TRUNCATE_DIRECTION` (`head`; or `tail`, `head_tail`) set the limits of the
/// envelope. `$TOOL_OUTPUT_DIR` (`tool-output`) and `$TOOL_OUTPUT_RETENTION_DAYS` (7) configure the
/// tool-output layout.
#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// Conversation to store the output in; created if missing.
    ///
    /// Default: a new one named `session-` and a UUID; none with the tool-output layout.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Id of the tool call, which names the file. Default: a new id.
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,

    /// Name of the tool that was called.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// Name of the server that provides the tool.
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,

    /// Arguments of the call, as JSON or text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) args: Option<String>,

    /// Exit code of the call. The stand-in of a failure, any code but 0, shows more of the end.
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    pub(crate) exit_code: Option<i32>,

    /// Media type of the output, such as `application/json`, if known.
    #[arg(long, value_name = "TYPE")]
    pub(crate) mime: Option<String>,

    /// Stand-in to print.
    ///
    /// Default: `summary`; `envelope` with the tool-output layout.
    #[arg(long, value_enum, hide_default_value = true)]
    pub(crate) format: Option<PutFormat>,

    /// Print the stand-in even if the output is within the limits.
    #[arg(long)]
    pub(crate) always: bool,

    /// A tool that the model has, such as `Task`, `Read` or `Grep`; may be repeated.
    ///
    /// The envelope mentions only tools that the model has. Default: unknown.
    #[arg(long, value_name = "NAME")]
    pub(crate) has_tool: Vec<String>,

    /// Layout to store the output in.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) layout: Layout,

    /// Send the conversation to the bucket of `[remote]` before this ends.
    ///
    /// If that fails within 30 seconds, the exit status is 1: the output is safe in this store
    /// only.
    #[arg(long)]
    pub(crate) durable: bool,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PutFormat {
    /// Facts, head and tail, errors and where to read on; for over 8,000 characters or 16,384
    /// bytes.
    Summary,
    /// A response of the common protocol, as JSON; for over 2,000 lines or 51,200 bytes.
    Envelope,
    /// A handle, for a host with the tool `tool_output`; for over 12,288 bytes.
    Handle,
    /// The first 500 characters, for a message log; for over 51,200 bytes.
    Preview,
    /// The reference: one line of JSON that names and describes the output.
    Ref,
    /// Everything known about the output, as JSON.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Layout {
    /// In a conversation of the store, with views.
    #[default]
    Context,
    /// As `tool_<YYYYMMDD_HHMMSS>_<tool>.json` (UTC) in `$TOOL_OUTPUT_DIR`, where such files are
    /// removed `$TOOL_OUTPUT_RETENTION_DAYS` days after they were written. With --conversation, in
    /// the store too.
    ToolOutput,
}

/// Print a view or a stored file, without a mount.
///
/// `ctxfs view c7/artifacts/tool/9f3k.txt.summary` prints what the same path shows under a mount.
/// Quote a query for the shell: `ctxfs view 'c7/artifacts/tool/9f3k.txt.grep/-i timeout'`. The
/// handle or reference of an output prints the output: `ctxfs view c7/9f3k.txt`
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// Path, beginning with the conversation. A path below the mountpoint, a reference
    /// (`ctx://...`) or a handle works too.
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}

/// List the conversations, or the outputs of one, with size, age and tool.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Conversation to list.
    pub(crate) conversation: Option<String>,

    /// List what the bucket of `[remote]` has, not the store.
    #[arg(long)]
    pub(crate) remote: bool,
}
