//! The commands that store outputs, show them or run programs: `put`, `run`, `view`, `extract`,
//! `ls` and `log`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::{SettingKey, args::hosts::parse_host, env, hooks::Host, settings::SettingValue};

/// The flag of commands that print paths. The readers of these paths may see the mount elsewhere.
#[derive(Debug, Args)]
pub(crate) struct ReaderArgs {
    /// Mountpoint as the reader sees it, for paths in the text.
    ///
    /// Default: where this store is mounted. If it is not mounted, the text says `ctxfs view PATH`.
    #[arg(long, value_name = "PREFIX")]
    advertise: Option<String>,
}

impl ReaderArgs {
    pub(crate) fn settings(&self) -> Vec<(SettingKey, SettingValue)> {
        self.advertise
            .iter()
            .map(|prefix| (SettingKey::Advertise, SettingValue::Text(prefix.clone())))
            .collect()
    }
}

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

    /// Exit code of the call. If it is not 0, the stand-in shows more of the end of the output.
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

    /// Send the conversation to the bucket of `[remote]` before this command ends.
    ///
    /// If the output is not in the bucket within 30 seconds, the exit status is 1, and the output
    /// is only in this store.
    #[arg(long)]
    pub(crate) durable: bool,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PutFormat {
    /// Facts, head, tail and errors, and where to read on. Used if the output exceeds 8,000
    /// characters or 16,384 bytes.
    Summary,
    /// A JSON response of the tool-output protocol. Used if the output exceeds 2,000 lines or
    /// 51,200 bytes.
    Envelope,
    /// A handle, for a host with the tool `tool_output`. Used if the output exceeds 12,288 bytes.
    Handle,
    /// The first 500 characters, for a message log. Used if the output exceeds 51,200 bytes.
    Preview,
    /// The reference: one line of JSON that names and describes the output.
    Ref,
    /// Everything known about the output, as JSON.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Layout {
    /// A file in a conversation of the store, with views.
    #[default]
    Context,
    /// The file `tool_<YYYYMMDD_HHMMSS>_<tool>.json` (UTC) in `$TOOL_OUTPUT_DIR`. Such files are
    /// removed `$TOOL_OUTPUT_RETENTION_DAYS` days after they were written. With --conversation, the
    /// output is also stored in the store.
    ToolOutput,
}

/// Print a view or a stored file, without a mount.
///
/// `ctxfs view c7/artifacts/tool/9f3k.txt.summary` prints what the same path shows under a mount.
/// Quote a query for the shell: `ctxfs view 'c7/artifacts/tool/9f3k.txt.grep/-i timeout'`. Given
/// the handle or reference of an output, prints the output: `ctxfs view c7/9f3k.txt`
///
/// A line that begins with `ctxfs view` only reads: --config, and --store for a new store, are
/// accepted only before `view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// Path, beginning with the conversation. A path below the mountpoint, a reference
    /// (`ctx://...`) or a handle works too.
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}

/// List the conversations, or the outputs of one: what each is of, how it ended, size, age and name.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Conversation to list.
    pub(crate) conversation: Option<String>,

    /// List the content of the bucket of `[remote]` instead of the store.
    #[arg(long)]
    pub(crate) remote: bool,
}

/// Run a command, store its output as a log, and print the stand-in for the model.
///
/// Both streams go to `artifacts/terminal/<id>.log`, in order and without delay, so the log can be
/// read and followed while the command runs. If standard output is a terminal, it also shows the
/// output. Otherwise the first 2,000 characters are printed as they arrive. The rest follows once
/// the command has ended, or the stand-in, if the output is over the limits. Input and signals are
/// passed on to the command. Later output of background processes goes to the log too.
///
/// If the disk or a limit of the settings (`max_artifact`, `max_terminal`, `quota`, `min_free`)
/// leaves too little room, the command continues. The log keeps the beginning and the end of the
/// output, and the part that the log lacks is printed. If nothing can be stored, because the store
/// cannot be written or the settings cannot be read, the command runs as it would without ctxfs.
/// One line on standard error says why; with `--discard-short`, only if standard error is a terminal.
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

    /// Run the command on a terminal of its own, for programs that use colours or prompts only on a
    /// terminal.
    #[arg(long)]
    pub(crate) pty: bool,

    /// Also store the streams apart, in `<id>.stdout.log` and `<id>.stderr.log`.
    ///
    /// In `<id>.log`, the two streams then have the order in which ctxfs reads them.
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

    /// If the output is within the limits, print it unchanged, and remove the log at the end.
    ///
    /// While the command runs, its output is nevertheless stored, and can be read.
    #[arg(long, conflicts_with = "always")]
    pub(crate) discard_short: bool,

    // Set by `ctxfs shell`.
    #[arg(skip)]
    pub(crate) shell: Option<ShellHost>,

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

/// Run a shell command of an agent in place of its host, and print what the model should get.
///
/// An output that the host shows whole is printed unchanged. It is stored if it has at least 1,000
/// characters or the command failed, unless `[hooks] store = "long"`. A longer output is stored, and
/// its stand-in is printed. With `[hooks] replace = "long"`, an output over the limits is replaced
/// as well, if the stand-in has at most a third of its tokens. If nothing can be stored, the command
/// runs silently as it would without ctxfs.
///
/// `ctxfs install` has the hosts start their commands by this. Any other host that runs `bash -c`
/// does so with the file that `ctxfs shell --bash-env` prints:
///
/// `ctxfs shell --bash-env > ~/.config/ctxfs-shell.bash`
///
/// `BASH_ENV=~/.config/ctxfs-shell.bash some-agent`
///
/// The exit status is the status of the command, as for `ctxfs run`.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot` or `pi`. Its limits
    /// decide what it shows whole, and are often lower for a command that failed.
    ///
    /// Default: any other host, which is taken to show whole up to 10,000 characters.
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(crate) host: Option<Host>,

    /// Conversation to store the log in; created if missing. Default: one for the process that
    /// started the command, which is the host.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Id of the log, which names the file. Default: a new id.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Print the file to name in `BASH_ENV`: bash reads it before a command, and has `ctxfs shell`
    /// run the command.
    #[arg(long, conflicts_with_all = ["conversation", "id"])]
    pub(crate) bash_env: bool,

    /// Command to run, with its arguments.
    #[arg(
        required_unless_present = "bash_env",
        conflicts_with = "bash_env",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    pub(crate) command: Vec<OsString>,
}

/// The host whose commands `ctxfs shell` runs, or `None` for one without an adapter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellHost(pub(crate) Option<Host>);

impl ShellArgs {
    /// Returns the arguments of `ctxfs run` that do the same.
    pub(crate) fn as_run(&self, conversation: Option<String>) -> RunArgs {
        RunArgs {
            conversation,
            id: self.id.clone(),
            pty: false,
            split: false,
            tool: "Bash".to_owned(),
            server: self.host.map_or("shell", Host::name).to_owned(),
            format: PutFormat::Summary,
            always: false,
            discard_short: false,
            shell: Some(ShellHost(self.host)),
            has_tool: Vec::new(),
            reader: ReaderArgs { advertise: None },
            command: self.command.clone(),
        }
    }
}

/// Answer a question about an output with a language model.
///
/// This model reads the output, so that the model of the conversation need not. It reads a short
/// output whole and searches a long one; --mode selects the way. The answer names the lines that it
/// is based on, and quotes them. The same question about the same bytes is asked only once.
///
/// `ctxfs extract c7/artifacts/tool/9f3k.txt 'why did the deployment fail?'`
///
/// The table `[extract]` in the settings names the models. If it names none, the beginning, the end
/// and the errors of the output are printed. Exit status: 0 if there is an answer, even one that
/// says that nothing was found; 1 if there is no answer.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct ExtractArgs {
    /// Outputs to read: paths that begin with the conversation, paths below the mountpoint,
    /// references (`ctx://...`) or handles. Several are read one after the other.
    #[arg(value_name = "OUTPUT")]
    pub(crate) outputs: Vec<PathBuf>,

    /// Question, such as `why did the deployment fail?`
    #[arg(value_name = "QUESTION")]
    pub(crate) question: String,

    /// Ask about this conversation: read the outputs that rank first in a search for the words of
    /// the question.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Way in which the model reads: `auto`, `full-chunked`, `read-grep` or `truncate`.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) mode: ctxfs_models::extract::Mode,

    /// Print the cost of the question without asking it: mode, chunks, calls, tokens and dollars.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}

/// Print the messages of a conversation in a readable form.
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
/// `tool_call_id`; the log then has the first characters of the output, and the path of the
/// artifact in `fullOutputPath`. The same happens to a `response` in a `<function_call>` in the
/// text of an assistant. A line that is not a message ends the command: the lines before it are in
/// the log, that line and the lines after it are not.
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
