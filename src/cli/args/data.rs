//! `put`, `view` and `ls`: the commands that work on the store without a mount.

use std::path::PathBuf;

use clap::Args;
use clap::ValueEnum;

use crate::cli::env;

/// Store standard input as one complete output, and print what stands in for it.
///
/// The bytes are kept as they come, however many. The stand-in is what a host hands to the model in
/// place of the output: `some-tool | ctxfs put -c c7 --tool shell/exec --call 9f3k`
#[derive(Debug, Args)]
pub(in crate::cli) struct PutArgs {
    /// The conversation to store it in; made if it is not there.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(in crate::cli) conversation: String,

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
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) format: PutFormat,

    /// The mountpoint as the reader sees it, for the paths in the stand-in.
    ///
    /// Default: where this store is mounted, else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum PutFormat {
    /// The summary: facts, head and tail, errors, and where to read on.
    #[default]
    Summary,
    /// The reference: one line of JSON that names the output and says what it is.
    Ref,
    /// Everything that is known of it, as JSON.
    Json,
}

/// Print a view, or a stored file, without a mount.
///
/// `ctxfs view c7/artifacts/tool/9f3k.txt.summary` prints what the same path shows under a mount;
/// queries go as they are: `ctxfs view 'c7/artifacts/tool/9f3k.txt.grep/-i timeout'`
#[derive(Debug, Args)]
pub(in crate::cli) struct ViewArgs {
    /// The conversation and the path inside it; a path under the mountpoint works too.
    pub(in crate::cli) path: PathBuf,

    /// The mountpoint as the reader sees it, for the paths in the text.
    ///
    /// Default: where this store is mounted, else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,
}

/// List the conversations, or the outputs of one: size, age, tool.
#[derive(Debug, Args)]
pub(in crate::cli) struct LsArgs {
    /// The conversation to list.
    pub(in crate::cli) conversation: Option<String>,
}
