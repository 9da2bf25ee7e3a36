//! `hook`.

use clap::{Args, Subcommand};

use crate::hooks::Host;

/// Keep the long outputs of an agent's tools; for the hooks of its host.
///
/// Reads an event in the host's JSON on standard input and prints the answer in the host's JSON. An
/// output that the host would cut is stored in the conversation of the host's session, and the model
/// gets the stand-in; with `[hooks] replace = "long"`, also one over the limits whose stand-in is
/// short enough. When a session goes on after a resume or a
/// compaction, the model is told which outputs are stored.
///
/// Never harms a call: whatever fails, and after 10 seconds, prints nothing, so that the host keeps
/// its own result, and exits with 0. One line in `ctxfs/hook.log` below `$XDG_STATE_HOME` (or else
/// `~/.local/state`) says why, and `ctxfs doctor` counts the calls of each host.
///
/// docs/HOSTS.md says what each host hands over.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot` or `pi`.
    // Wrong usage is no failure: hosts take exit status 2 as an order to block the call.
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
}

/// Have an agent's host call `ctxfs hook`, or list the hosts.
///
/// Edits the settings of the host: the hook, the permission to read the mount, and, for Codex, the
/// outputs in the store as a directory that its sandbox may write. For Claude Code and Codex, writes
/// a program that runs commands of the model under `ctxfs run`, and names it in the settings. Where
/// systemd is the user's manager, writes a unit that mounts the store at login. Prints what it
/// changes, and what is left to do. Never asks.
///
/// Comments, order, indentation and everything else in the files stay. Before the first change, a
/// file is copied to `FILE.ctxfs.bak` beside it. If anything cannot be edited, nothing is changed.
/// A second run changes nothing.
///
/// A store that `--store`, `CTXFS_STORE` or the file of `--config` gives is named to the hook and in
/// the unit, if they would not find it by themselves. It stays until another one is given.
///
/// Without HOST, lists the hosts: which are found on this machine, and where the hook is installed.
///
/// `ctxfs install mcp HOST` has the results of the host's MCP servers kept as well.
///
/// Example: `ctxfs install claude-code --print`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InstallArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot` or `pi`.
    #[arg(value_name = "HOST", value_parser = parse_host)]
    pub(crate) host: Option<Host>,

    /// Edit the settings of the project in the current directory, not those of the user.
    #[arg(long, requires = "host")]
    pub(crate) project: bool,

    /// Print the changes, and make none.
    #[arg(long, requires = "host")]
    pub(crate) print: bool,

    /// Take out what was installed: the files become what they were, except for changes by others.
    #[arg(long, requires = "host")]
    pub(crate) remove: bool,

    #[command(subcommand)]
    pub(crate) action: Option<InstallAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InstallAction {
    Mcp(InstallMcpArgs),
}

/// Have the MCP servers of an agent's host run through `ctxfs mcp`.
///
/// Puts `ctxfs mcp --` before the commands of the servers in the settings of the host, so that
/// their long results are stored. Servers over HTTP are left alone and named, and so is one that
/// runs through `ctxfs mcp` already. Prints what it changes. Never asks.
///
/// Everything else in the files stays. Before the first change, a file is copied to
/// `FILE.ctxfs.bak` beside it. If anything cannot be edited, nothing is changed. A second run
/// changes nothing.
///
/// The line has the name of the server, for limits and records, no time limit, as the host has its
/// own, and the store, if `--store`, `CTXFS_STORE` or the file of `--config` gives one that `ctxfs
/// mcp` would not find by itself. It stays until another one is given.
///
/// Example: `ctxfs install mcp claude-code github --print`
#[derive(Debug, Args)]
pub(crate) struct InstallMcpArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli` or `copilot`.
    #[arg(value_name = "HOST", value_parser = parse_host)]
    pub(crate) host: Host,

    /// The server, by its name in the settings. Default: all of them.
    #[arg(value_name = "SERVER")]
    pub(crate) server: Option<String>,

    /// Edit the settings of the project in the current directory, not those of the user.
    #[arg(long)]
    pub(crate) project: bool,

    /// Print the changes, and make none.
    #[arg(long)]
    pub(crate) print: bool,

    /// Have the servers run as before: the files become what they were, except for changes by
    /// others.
    #[arg(long)]
    pub(crate) remove: bool,
}

pub(super) fn parse_host(name: &str) -> Result<Host, String> {
    Host::named(name).ok_or_else(|| {
        let names: Vec<&str> = Host::ALL.iter().map(|host| host.name()).collect();
        format!("the hosts are {}", names.join(", "))
    })
}
