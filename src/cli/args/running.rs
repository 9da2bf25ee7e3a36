//! `run`.

use std::ffi::OsString;

use clap::Args;

use crate::args::data::PutFormat;
use crate::args::hosts::parse_host;
use crate::args::reader::ReaderArgs;
use crate::env;
use crate::hooks::Host;

/// Run a command, store its output as a log, and print the stand-in for the model.
///
/// Both streams go to `artifacts/terminal/<id>.log` in order, as they come; the log can be read and
/// followed while the command runs. On a terminal the output is shown too. A program gets only the
/// stand-in, as with `put`, once the command has ended. Input and signals are passed on to the
/// command. What processes in the background print later goes to the log all the same.
///
/// If the disk or a limit of the settings (`max_artifact`, `max_terminal`, `quota`, `min_free`)
/// leaves too little room, the command goes on; the log keeps the beginning and the end of its
/// output, and what the log lacks is printed. If nothing can be stored, as the store cannot be
/// written or the settings cannot be read, the command runs all the same, as if by itself. One line
/// on standard error says why, with `--discard-short` only at a terminal.
///
/// `ctxfs run -c c7 -- make test`
///
/// Exit status: that of the command; 128 plus the signal number if a signal ended it; 127 if there
/// is no such command; 126 if it cannot be run.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct RunArgs {
    /// Conversation to store the log in; created if missing. Default: a new one named `session-`
    /// and a UUID.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Id of the log, which names the file. Default: a new id.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Run the command on a terminal of its own, for programs that colour or prompt only there.
    #[arg(long)]
    pub(crate) pty: bool,

    /// Also store the streams apart, in `<id>.stdout.log` and `<id>.stderr.log`.
    ///
    /// The order of the two in `<id>.log` is then the order in which they arrive.
    #[arg(long, conflicts_with = "pty")]
    pub(crate) split: bool,

    /// Name of the tool that runs the command.
    #[arg(long, value_name = "NAME", default_value = "exec")]
    pub(crate) tool: String,

    /// Name of the server that provides the tool.
    #[arg(long, value_name = "NAME", default_value = "shell")]
    pub(crate) server: String,

    /// Stand-in to print.
    #[arg(long, value_enum, default_value_t = PutFormat::Summary)]
    pub(crate) format: PutFormat,

    /// Print the stand-in even if the output is within the limits.
    #[arg(long)]
    pub(crate) always: bool,

    /// Remove the log at the end if the output is within the limits. It is printed unchanged.
    ///
    /// While the command runs, its output is stored and can be read all the same.
    #[arg(long, conflicts_with = "always")]
    pub(crate) discard_short: bool,

    /// Print what the model of this host is to get: `claude-code`, `codex`, `opencode`, `gemini-cli`,
    /// `copilot` or `pi`.
    ///
    /// An output that the host shows whole is printed unchanged, and its log is removed at the end.
    /// What counts is the host's own limit for a command that ended as this one did. With
    /// `[hooks] replace = "long"`, an output over the limits is replaced as well, if its stand-in has
    /// at most a third of its tokens.
    #[arg(long, value_name = "HOST", value_parser = parse_host, conflicts_with = "always")]
    pub(crate) host: Option<Host>,

    /// A tool that the model has, such as `Task`, `Read` or `Grep`; may be repeated.
    ///
    /// The envelope mentions only tools that the model has. Default: unknown.
    #[arg(long, value_name = "NAME")]
    pub(crate) has_tool: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// Command to run, with its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

/// The arguments of the process that stores what processes in the background print.
#[derive(Debug, Args, PartialEq, Eq)]
pub(crate) struct KeepOutputArgs {
    /// The conversation of the logs.
    #[arg(long)]
    pub(crate) conversation: String,

    /// The exit code of the command.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) exit_code: i32,

    /// The milliseconds that the command took.
    #[arg(long)]
    pub(crate) duration_ms: u64,

    /// The reason that the logs are incomplete already.
    #[arg(long)]
    pub(crate) cut: Option<String>,

    /// Remove the logs if nothing more comes.
    #[arg(long)]
    pub(crate) discard: bool,

    /// The log of both streams, followed by one log for each stream with `--split`.
    pub(crate) logs: Vec<OsString>,
}
