//! `run`.

use std::ffi::OsString;

use clap::Args;

use crate::cli::args::data::PutFormat;
use crate::cli::env;
use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Run a command, keep its output as a log of the conversation, and print what goes to the model in
/// its place.
///
/// Both streams go to `artifacts/terminal/<id>.log` in their order, as they come: the log can be read
/// and followed while the command runs. A person at a terminal sees them too; a program gets the
/// stand-in alone, once the output has ended, as with `put`. What is typed goes to the command, and
/// so do signals.
///
/// `ctxfs run -c c7 -- make test`
///
/// Exit status: that of the command; 128 and the number of the signal that ended it; 127 where there
/// is no such command, 126 where it cannot be run; 1 and 2 also where ctxfs itself failed, and says so
/// on standard error.
#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    /// The conversation to keep it in; made if it is not there. Default: a new one, `session-` and a
    /// UUID.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(in crate::cli) conversation: Option<String>,

    /// The id of the log; it names the file. Default: a new one.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) id: Option<String>,

    /// Run it on a terminal of its own, for programs that colour or ask only there.
    #[arg(long)]
    pub(in crate::cli) pty: bool,

    /// Keep the streams apart too, in `<id>.stdout.log` and `<id>.stderr.log`.
    ///
    /// Which of the two came first is then told by when each arrives.
    #[arg(long, conflicts_with = "pty")]
    pub(in crate::cli) split: bool,

    /// The tool that it is run by.
    #[arg(long, value_name = "NAME", default_value = "exec")]
    pub(in crate::cli) tool: String,

    /// The server that the tool belongs to.
    #[arg(long, value_name = "NAME", default_value = "shell")]
    pub(in crate::cli) server: String,

    /// What to print.
    #[arg(long, value_enum, default_value_t = PutFormat::Summary)]
    pub(in crate::cli) format: PutFormat,

    /// Print the stand-in also of an output that is within the limits.
    #[arg(long)]
    pub(in crate::cli) always: bool,

    /// A tool that the model has, such as `Task`, `Read` or `Grep`; may be given several times.
    ///
    /// The envelope names only tools that are there. Default: not known.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) has_tool: Vec<String>,

    /// The mountpoint as the reader sees it, for the paths in the stand-in.
    ///
    /// Default: where this store is mounted, else where `ctxfs mount` would mount it.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,

    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(in crate::cli) command: Vec<OsString>,
}

impl RunArgs {
    /// The settings among them.
    pub(in crate::cli) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}
