//! The commands and their arguments. The doc comments become the help, the man pages and
//! `docs/CLI.md`. Nothing else in the program uses clap's derive.

mod data;
mod extracting;
mod gateway;
mod hosts;
mod keeping;
mod log;
mod mounting;
mod moving;
mod reader;
mod remote;
mod running;
mod web;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(super) use data::{Layout, LsArgs, PutArgs, PutFormat, ViewArgs};
pub(super) use extracting::ExtractArgs;
pub(super) use gateway::{McpAction, McpArgs, McpListArgs, McpRuleArgs, StandInForm, ToolOffer};
pub(super) use hosts::{HookArgs, InstallAction, InstallArgs, InstallMcpArgs};
pub(super) use keeping::{GcArgs, StatsArgs};
pub(super) use log::{AppendArgs, LogAction, LogArgs};
pub(super) use mounting::{MountArgs, UmountArgs};
pub(super) use moving::{ExportArgs, ImportArgs};
#[cfg(feature = "remote")]
pub(super) use remote::RemoteAction;
pub(super) use remote::RemoteArgs;
#[cfg(feature = "remote")]
pub(super) use remote::RemoteCheckArgs;
#[cfg(feature = "remote")]
pub(super) use remote::RemoteGcArgs;
#[cfg(feature = "remote")]
pub(super) use remote::RemotePurgeArgs;
pub(super) use remote::{BesideArgs, PullArgs, PushArgs};
pub(super) use running::{KeepOutputArgs, RunArgs};
pub(super) use web::WebArgs;

use crate::env;
use crate::settings::{Key, Value};

/// Keep tool outputs as files, with computed views beside them.
///
/// An agent's tool call can return 400 KB of log. ctxfs stores every byte as a plain file under
/// `<mountpoint>/<conversation>/artifacts/tool/`. Beside a file `x.txt` it shows computed files,
/// called views: `x.txt.summary`, `x.txt.tail`, `x.txt.grep/ERROR` and more.
///
/// Data goes to standard output, everything else to standard error. Exit status: 0 for success, 1
/// for failure, 2 for wrong usage or settings. Flags override environment variables, which override
/// settings files, which override the defaults.
#[derive(Debug, Parser)]
#[command(name = "ctxfs", version, max_term_width = 100, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(super) struct Cli {
    /// Directory of the store, which keeps the outputs.
    ///
    /// Default: `$XDG_DATA_HOME/ctxfs`, or else `~/.local/share/ctxfs`.
    ///
    /// Environment: `CTXFS_STORE`.
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,

    /// Read settings from this file too; `ctxfs config` prints the settings in effect.
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG, hide_env_values = true)]
    pub(super) config: Option<PathBuf>,

    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub(super) json: bool,

    /// Log level: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `warn,ctxfs_fuse=trace`.
    ///
    /// Default: `info`. Environment: `CTXFS_LOG`.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = |text: &str| Key::Log.parse(text))]
    pub(super) log: Option<Value>,

    /// Serve in the background and report on standard output; used by `mount` to start itself.
    #[arg(long, hide = true)]
    pub(super) detached: bool,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Mount(MountArgs),
    Umount(UmountArgs),
    Put(PutArgs),
    Run(RunArgs),
    View(ViewArgs),
    Extract(ExtractArgs),
    Ls(LsArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Push(PushArgs),
    Pull(PullArgs),
    Remote(RemoteArgs),
    Gc(GcArgs),
    Log(LogArgs),
    Stats(StatsArgs),
    Hook(HookArgs),
    Mcp(McpArgs),
    Web(WebArgs),
    Install(InstallArgs),
    Config(ConfigArgs),
    Doctor(DoctorArgs),
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Print the reference of all commands that `docs/CLI.md` holds.
    #[command(hide = true)]
    HelpMarkdown,
    /// Wait until the parent server ends, and clear its mount if it is left dead.
    #[command(hide = true)]
    WatchMount(WatchArgs),
    /// Check that a mount answers.
    #[command(hide = true)]
    ProbeMount(TargetArgs),
    /// End the processes that standard input tells of.
    #[command(hide = true)]
    EndServers,
    /// Ask language models, for the parent process.
    #[command(hide = true)]
    AskModels,
    /// Ask the bucket at a URL, for the process at the other end of standard input.
    #[command(hide = true)]
    AskBucket(AskBucketArgs),
    /// Start what the page may not be: the process that asks the bucket, and the one that looks.
    #[command(hide = true)]
    StartBeside(BesideArgs),
    /// Look what other hosts did, for the page at the other end of standard input.
    #[command(hide = true)]
    LookBeside(BesideArgs),
    /// Store what processes in the background print, for a `run` that has ended.
    #[command(hide = true)]
    KeepOutput(KeepOutputArgs),
    /// Run the jq filter on standard input, for the parent process.
    #[command(hide = true)]
    RunFilter,
}

/// Print the settings in effect, and the origin of each.
///
/// Settings come from `/etc/ctxfs.toml`, `ctxfs.toml` in `$XDG_CONFIG_HOME/ctxfs` (or else
/// `~/.config/ctxfs`), `ctxfs.toml` in the store, the file given with --config, environment
/// variables and flags. Later ones override earlier ones. The store's file cannot set what sends
/// data, names keys or grants a right. The output is a valid settings file.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Print the limits for the outputs of this tool: `server/tool` or `tool`.
    #[arg(long, value_name = "NAME")]
    pub(super) tool: Option<String>,

    /// Print a template with every setting, its allowed values and its default; read no files.
    #[arg(long)]
    pub(super) defaults: bool,
}

/// Check what this machine supports, and print how to fix what is wrong.
///
/// Checks /dev/fuse, the kernel, fusermount3, the store and the mounts. Changes nothing. Exit
/// status: 0 if a mount can work here, 1 if not.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Try the MCP servers of this file too: each is started, asked what it offers, and ended. If
    /// one cannot be used, the exit status is 1.
    ///
    /// The file is that of `ctxfs mcp --servers`.
    #[arg(long, value_name = "FILE")]
    pub(super) servers: Option<PathBuf>,
}

/// Demonstrate ctxfs on outputs of this machine, in about a minute.
///
/// Mounts a temporary store, captures a large listing, a JSON document and a failing command, and
/// reads the views beside them. Leaves nothing behind.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Keep the mount, to look around in.
    #[arg(long)]
    pub(super) keep: bool,
}

/// Print a shell completion script.
///
/// For bash: `ctxfs completions bash > ~/.local/share/bash-completion/completions/ctxfs`
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell to complete for.
    pub(super) shell: Shell,
}

/// Print the manual page, or write one page for each command.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Directory to write `ctxfs.1`, `ctxfs-mount.1` and so on to.
    pub(super) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    /// The mountpoint.
    pub(super) target: PathBuf,
}

/// The arguments of a watchdog.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Act as the spare, which clears the mount a moment after the other watchdog.
    #[arg(long)]
    pub(super) spare: bool,

    /// The bucket for which it may start a process.
    #[arg(long)]
    pub(super) remote: Option<String>,

    /// The mountpoint.
    pub(super) target: PathBuf,
}

/// The arguments of the process that asks a bucket.
#[derive(Debug, Args)]
pub(super) struct AskBucketArgs {
    /// Refuse what would change the bucket.
    #[arg(long)]
    pub(super) read_only: bool,

    /// The URL of the bucket.
    pub(super) url: String,
}
