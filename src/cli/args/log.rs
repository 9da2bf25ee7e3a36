//! `log`: the messages of a conversation.

use clap::{Args, Subcommand};

use crate::args::reader::ReaderArgs;

/// Print the messages of a conversation for a person.
///
/// Shows who spoke and when, the names of tool calls, and the artifact and first lines of their
/// results. Uses `$PAGER`, or else `less`, on a terminal. With --json, prints the lines of the log
/// unchanged.
///
/// `ctxfs log append` adds messages.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Conversation to print. Default: the one whose log was written last.
    pub(crate) conversation: Option<String>,

    /// Do not use a pager.
    #[arg(long)]
    pub(crate) no_pager: bool,

    #[command(subcommand)]
    pub(crate) action: Option<LogAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogAction {
    Append(AppendArgs),
}

/// Append messages from standard input to the log of a conversation.
///
/// Each message is appended as soon as its line ends. A message is a JSON object on one line, with
/// a `role`. A tool output longer than `message_threshold` is stored as the artifact of its
/// `tool_call_id`; the log then has its first characters, and its path in `fullOutputPath`. The
/// same is done with a `response` in a `<function_call>` in the text of an assistant. A line that is
/// not a message ends the command: the lines before it are in the log, the line itself and those
/// after it are not.
///
/// `echo '{"role":"user","content":"hello"}' | ctxfs log append c7`
#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// Conversation to append to; created if missing. Default: `$CTXFS_CONVERSATION`.
    #[arg(env = crate::env::CONVERSATION, hide_env = true)]
    pub(crate) conversation: String,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}
