//! The commands and their arguments. The doc comments are the help, the man pages and
//! `docs/CLI.md`; nothing else in the program names clap's derive.

mod data;
mod keeping;
mod log;
mod mounting;
mod moving;
mod running;

use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap_complete::Shell;

pub(super) use data::Layout;
pub(super) use data::LsArgs;
pub(super) use data::PutArgs;
pub(super) use data::PutFormat;
pub(super) use data::ViewArgs;
pub(super) use keeping::GcArgs;
pub(super) use keeping::StatsArgs;
pub(super) use log::AppendArgs;
pub(super) use log::LogAction;
pub(super) use log::LogArgs;
pub(super) use mounting::MountArgs;
pub(super) use mounting::UmountArgs;
pub(super) use moving::ExportArgs;
pub(super) use moving::ImportArgs;
pub(super) use running::RunArgs;

use crate::cli::env;
use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Keep the output of tools as files, and show beside each file what is worth reading in it.
///
/// An agent's tool call can return 400 KB of log. ctxfs keeps every byte as a plain file under
/// `<mountpoint>/<conversation>/artifacts/tool/`, and beside the file `x.txt` it shows computed
/// ones: `x.txt.summary`, `x.txt.tail`, `x.txt.grep/ERROR` and more.
///
/// Data goes to standard output, all else to standard error. Exit status: 0, done; 1, failed; 2,
/// wrong usage or settings. Flags win over the environment, the environment over files of settings,
/// and these over the defaults.
#[derive(Debug, Parser)]
#[command(name = "ctxfs", version, max_term_width = 100, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(super) struct Cli {
    /// Where the outputs are kept.
    ///
    /// Default: `$XDG_DATA_HOME/ctxfs`, else `~/.local/share/ctxfs`.
    ///
    /// Environment: `CTXFS_STORE`.
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,

    /// A file of settings, beside the user's and the store's; `ctxfs config` prints what holds.
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG, hide_env_values = true)]
    pub(super) config: Option<PathBuf>,

    /// Print JSON, for programs.
    #[arg(long, global = true)]
    pub(super) json: bool,

    /// What to log: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `warn,ctxfs::fuse=trace`.
    ///
    /// Default: `info`. Environment: `CTXFS_LOG`.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = |text: &str| Key::Log.parse(text))]
    pub(super) log: Option<Value>,

    /// Serve in the background, and report on standard output: how `mount` starts itself.
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
    Ls(LsArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Gc(GcArgs),
    Log(LogArgs),
    Stats(StatsArgs),
    Config(ConfigArgs),
    /// Say what this machine can do, what is wrong, and the line that mends it.
    ///
    /// Looks at /dev/fuse, the kernel, fusermount3, the store and the mounts. Changes nothing.
    /// Exit status: 0 if a mount can work here, 1 if not.
    Doctor,
    Demo(DemoArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Print the reference of every command, as `docs/CLI.md` holds it.
    #[command(hide = true)]
    HelpMarkdown,
    /// Wait until the server that started this ends, and clear its mount if it is left dead.
    #[command(hide = true)]
    WatchMount(WatchArgs),
    /// Ask the mount whether it answers.
    #[command(hide = true)]
    ProbeMount(TargetArgs),
    /// Run the jq filter that comes on standard input, for the process that started this.
    #[command(hide = true)]
    RunFilter,
}

/// Print the settings that hold, and where each comes from.
///
/// The settings are those of `$XDG_CONFIG_HOME/ctxfs/ctxfs.toml` (else `~/.config`), of `ctxfs.toml`
/// in the store, of `--config FILE`, of the environment and of flags; what comes later wins. The
/// output is a file of settings itself.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Print the limits that hold for the output of this tool: `server/tool`, or `tool`.
    #[arg(long, value_name = "NAME")]
    pub(super) tool: Option<String>,

    /// Print every setting, what it can be and its default, to make a file from; read no file.
    #[arg(long)]
    pub(super) defaults: bool,
}

/// Show what ctxfs does, on outputs of this machine, in a minute.
///
/// Mounts a temporary store, captures a large listing, a JSON document and a command that fails,
/// and reads the views beside them. Leaves nothing behind.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Leave it mounted, to look around in.
    #[arg(long)]
    pub(super) keep: bool,
}

/// Print the completions of a shell.
///
/// For bash: `ctxfs completions bash > ~/.local/share/bash-completion/completions/ctxfs`
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    pub(super) shell: Shell,
}

/// Print the manual page, or write a page for each command.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write `ctxfs.1`, `ctxfs-mount.1` and so on here.
    pub(super) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    /// The mountpoint.
    pub(super) target: PathBuf,
}

/// What a watchdog is told.
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Whether another one watches, too, and comes first.
    #[arg(long)]
    pub(super) spare: bool,

    /// The mountpoint.
    pub(super) target: PathBuf,
}
