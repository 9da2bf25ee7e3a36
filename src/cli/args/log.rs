//! `log`: the messages of a conversation.

use clap::Args;
use clap::Subcommand;

use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Print the messages of a conversation as a person reads them.
///
/// Who spoke, and when; tool calls by name; of their results the artifact and the first lines. On a
/// terminal through `$PAGER`, else `less`. With --json, the lines of the log as they are.
///
/// `ctxfs log append` adds messages.
#[derive(Debug, Args)]
pub(in crate::cli) struct LogArgs {
    /// The conversation. Default: the one whose log was written last.
    pub(in crate::cli) conversation: Option<String>,

    /// Print to the terminal itself.
    #[arg(long)]
    pub(in crate::cli) no_pager: bool,

    #[command(subcommand)]
    pub(in crate::cli) action: Option<LogAction>,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LogAction {
    Append(AppendArgs),
}

/// Add messages from standard input to the log of a conversation, each as soon as its line ends.
///
/// A message is a JSON object on a line of its own, with a `role`. The output of a tool that is
/// longer than `message_threshold` is kept as the artifact of its `tool_call_id`; the log has its
/// first characters and, in `fullOutputPath`, its path. A line that is no message ends the command:
/// the lines before it are in the log, it and those after it are not.
///
/// `echo '{"role":"user","content":"hello"}' | ctxfs log append c7`
#[derive(Debug, Args)]
pub(in crate::cli) struct AppendArgs {
    /// The conversation; made if it is not there. Default: `$CTXFS_CONVERSATION`.
    #[arg(env = crate::cli::env::CONVERSATION, hide_env = true)]
    pub(in crate::cli) conversation: String,

    /// The mountpoint as the reader sees it, for the paths in the log.
    ///
    /// Default: where this store is mounted, else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,
}

impl AppendArgs {
    /// The settings among them.
    pub(in crate::cli) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}
