//! The commands and their arguments. The doc comments become the help, the man pages and
//! `docs/CLI.md`. Nothing else in the program uses clap's derive.

mod hosts;
mod mounting;
mod moving;
mod outputs;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{SettingKey, args::outputs::ReaderArgs, env, helper::Role, settings::SettingValue};

pub(crate) use crate::args::hosts::{
    HookArgs, InstallAction, InstallArgs, InstallMcpArgs, McpAction, McpArgs, McpListArgs,
    McpLoginArgs, McpRuleArgs, McpServerArgs, StandInForm, ToolOffer,
};
pub(crate) use crate::args::mounting::{GcArgs, MountArgs, StatsArgs, UmountArgs};
pub(crate) use crate::args::moving::{
    ExportArgs, ImportArgs, PullArgs, PushArgs, RemoteAction, RemoteArgs, RemoteCheckArgs,
    RemoteGcArgs, RemotePurgeArgs,
};
pub(crate) use crate::args::outputs::{
    AppendArgs, ExtractArgs, Layout, LogAction, LogArgs, LsArgs, PutArgs, PutFormat, RunArgs,
    ShellArgs, ShellHost, ViewArgs,
};

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
pub(crate) struct Cli {
    /// Directory of the store, which keeps the outputs.
    ///
    /// Default: `$XDG_DATA_HOME/ctxfs`, or else `~/.local/share/ctxfs`.
    ///
    /// Environment: `CTXFS_STORE`.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,

    /// Read settings from this file too; `ctxfs config` prints the settings in effect.
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG, hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,

    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Log level: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `warn,ctxfs_fuse=trace`.
    ///
    /// Default: `info`. Environment: `CTXFS_LOG`.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = |text: &str| SettingKey::Log.parse(text))]
    pub(crate) log: Option<SettingValue>,

    // Used by `mount` to start itself.
    #[arg(long, hide = true)]
    pub(crate) detached: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mount(MountArgs),
    Umount(UmountArgs),
    Put(PutArgs),
    Run(RunArgs),
    Shell(ShellArgs),
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
    /// Do part of the work of another ctxfs process.
    #[command(hide = true)]
    Helper {
        #[arg(value_parser = |text: &str| serde_json::from_str::<Role>(text))]
        role: Role,
    },
}

/// Print the settings in effect, and the origin of each.
///
/// Settings come from `/etc/ctxfs.toml`, `ctxfs.toml` in `$XDG_CONFIG_HOME/ctxfs` (or else
/// `~/.config/ctxfs`), `ctxfs.toml` in the store, the file given with --config, environment
/// variables and flags. Later ones override earlier ones. In the store's file, settings that send
/// data, name keys or grant a right are ignored. The output is a valid settings file.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print the limits for the outputs of this tool, given as `server/tool` or `tool`.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,

    /// Print a template with every setting, its allowed values and its default. Read no files.
    #[arg(long)]
    pub(crate) defaults: bool,
}

/// Check this machine, and print how to fix problems.
///
/// Checks /dev/fuse, the kernel, fusermount3, the store, the mounts, and the hooks in agent hosts
/// with the last outputs. Changes nothing. Exit status: 0 if a mount can work here and the store of
/// each hook is mounted, 1 if not.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Check the MCP servers of this file too: start each, ask what it offers, and end it. If one
    /// cannot be used, the exit status is 1.
    ///
    /// The file has the format of `ctxfs mcp --servers`.
    #[arg(long, value_name = "FILE")]
    pub(crate) servers: Option<PathBuf>,
}

/// Demonstrate ctxfs on outputs of this machine, in about a minute.
///
/// Mounts a temporary store, captures a large listing, a JSON document and a failing command, and
/// reads the views beside them. Leaves nothing behind.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave the mount running, to look around in it.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Print a shell completion script.
///
/// For bash: `ctxfs completions bash > ~/.local/share/bash-completion/completions/ctxfs`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for.
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write one page for each command.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory to write `ctxfs.1`, `ctxfs-mount.1` and so on to.
    pub(crate) dir: Option<PathBuf>,
}

/// Show conversations and outputs in a browser.
///
/// Prints the address of the page, with a token that lets a browser in, and serves the page until
/// the command is interrupted. The page is read-only: nothing can be changed through it. The server
/// listens only on this machine unless --listen says otherwise. It gives up access to all files
/// except those of the store, which it can only read.
///
/// Examples: `ctxfs web --open`; `ctxfs web --listen 8080 --only c7`;
/// `ctxfs web --export c7-for-ann c7`
///
/// docs/PAGE.md shows the page and its keys.
#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// Address to listen on: HOST:PORT or PORT. Port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,

    /// Open the page in the browser of this machine.
    #[arg(long, conflicts_with = "export")]
    pub(crate) open: bool,

    /// Show only this conversation, and nothing of any other.
    #[arg(long, value_name = "CONVERSATION", conflicts_with = "export")]
    pub(crate) only: Option<String>,

    /// Write a conversation as files to this directory, which must be empty or missing, and serve
    /// nothing. A browser can open `index.html` in it without a server or scripts.
    #[arg(long, value_name = "DIR", requires = "conversation")]
    pub(crate) export: Option<PathBuf>,

    /// Conversation to export.
    #[arg(requires = "export")]
    pub(crate) conversation: Option<String>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}
