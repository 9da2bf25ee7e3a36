//! The commands for agent hosts and MCP clients: `hook`, `install` and `mcp`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::{SettingKey, env, hooks::Host, settings::SettingValue};

/// Keep the long outputs of an agent's tools; for the hooks of its host.
///
/// Reads an event in the host's JSON on standard input, and prints the answer in the host's JSON.
/// An output that the host would cut is stored in the conversation of the host's session, and the
/// model gets the stand-in; with `[hooks] replace = "long"`, also an output over the limits whose
/// stand-in is short enough. When a session continues after a resume or a compaction, the model is
/// told which outputs are stored.
///
/// Never harms a call: after a failure or 10 seconds it prints nothing, so that the host keeps its
/// own result, and exits with 0. One line in `ctxfs/hook.log` below `$XDG_STATE_HOME` (or else
/// `~/.local/state`) gives the reason, and `ctxfs doctor` counts the calls of each host.
///
/// docs/HOSTS.md says what each host passes to its hook.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot` or `pi`.
    // Wrong usage is no failure: hosts take exit status 2 as an order to block the call.
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
}

/// Make an agent's host call `ctxfs hook`, or list the hosts.
///
/// Edits the settings of the host: adds the hook, the permission to read the mount, and, for Codex,
/// the outputs in the store as a directory that its sandbox may write. For Claude Code and Codex,
/// writes a program that runs commands of the model under `ctxfs run`, and names it in the
/// settings. Where systemd is the user's manager, writes a unit that mounts the store at login.
/// Prints its changes, and the steps left to do. Never asks.
///
/// Comments, order, indentation and everything else in the files stay. Before the first change, a
/// file is copied to `FILE.ctxfs.bak` beside it. If a file cannot be edited, nothing is changed. A
/// second run changes nothing.
///
/// A store that `--store`, `CTXFS_STORE` or the file of `--config` gives is named to the hook and
/// in the unit, if they would not find it by themselves. It stays until another one is given.
///
/// Without HOST, lists the hosts: which are found on this machine, and where the hook is installed.
///
/// `ctxfs install mcp HOST` stores the long results of the host's MCP servers as well.
///
/// Example: `ctxfs install claude-code --print`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InstallArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot` or `pi`.
    #[arg(value_name = "HOST", value_parser = parse_host)]
    pub(crate) host: Option<Host>,

    /// Edit the settings of the project in the current directory instead of the user's.
    #[arg(long, requires = "host")]
    pub(crate) project: bool,

    /// Print the changes, and make none.
    #[arg(long, requires = "host")]
    pub(crate) print: bool,

    /// Undo the installation: restore the files, except for changes by others.
    #[arg(long, requires = "host")]
    pub(crate) remove: bool,

    #[command(subcommand)]
    pub(crate) action: Option<InstallAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InstallAction {
    Mcp(InstallMcpArgs),
}

/// Make the MCP servers of an agent's host run through `ctxfs mcp`.
///
/// Puts `ctxfs mcp --` before the commands of the servers in the settings of the host, so that
/// their long results are stored. Servers over HTTP are left alone and named, and so is one that
/// runs through `ctxfs mcp` already. Prints what it changes. Never asks.
///
/// Everything else in the files stays. Before the first change, a file is copied to
/// `FILE.ctxfs.bak` beside it. If a file cannot be edited, nothing is changed. A second run changes
/// nothing.
///
/// The command line names the server, for limits and records; no time limit, as the host has its
/// own; and the store, if `--store`, `CTXFS_STORE` or the file of `--config` gives one that `ctxfs
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

    /// Edit the settings of the project in the current directory instead of the user's.
    #[arg(long)]
    pub(crate) project: bool,

    /// Print the changes, and make none.
    #[arg(long)]
    pub(crate) print: bool,

    /// Make the servers run as before: restore the files, except for changes by others.
    #[arg(long)]
    pub(crate) remove: bool,
}

pub(crate) fn parse_host(name: &str) -> Result<Host, String> {
    Host::named(name).ok_or_else(|| {
        let names: Vec<&str> = Host::ALL.iter().map(|host| host.name()).collect();
        format!("the hosts are {}", names.join(", "))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolOffer {
    Direct,
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StandInForm {
    Summary,
    Handle,
}

/// Stand between an MCP client and its servers, and keep long results of tools.
///
/// Speaks MCP on standard input and output, or over HTTP. Everything passes, except that a result
/// over the limits (`max_inline_chars`, `max_inline_bytes`; by tool under `[tool."server/name"]`)
/// is stored in the conversation, and the client gets a summary and a link. Tools named
/// `context_...` read stored results, for clients without file tools.
///
/// In the configuration of a client, put `ctxfs mcp --` before the command of a server, or let
/// `ctxfs mcp --servers FILE` stand for all of them. Without either, only the context tools are
/// served.
///
/// A server that runs already is named by its URL, and clients can speak over HTTP too.
///
/// Examples: `ctxfs mcp -- npx -y @modelcontextprotocol/server-everything`; `ctxfs mcp --servers
/// mcp.json --tools index`; `ctxfs mcp --http 8080 -- https://example.com/mcp`
///
/// docs/GATEWAY.md lists all changes to messages.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) action: Option<McpAction>,

    /// Name of the server in records and limits. Default: the last part of the command's name, or
    /// of the package that it runs.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) name: Option<String>,

    /// File with the servers, as clients have it: `{"mcpServers": {NAME: {...}}}`.
    ///
    /// Their tools are called `<name>__<tool>`. docs/GATEWAY.md has the keys of a server.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) servers: Option<PathBuf>,

    /// Way in which the servers' tools are offered: each by itself, or behind a light index, by two
    /// tools that describe them and call them.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ToolOffer::Direct)]
    pub(crate) tools: ToolOffer,

    /// Text that stands for a long result: its summary, or its handle, with which the model has to
    /// ask `tool_output`.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = StandInForm::Summary)]
    pub(crate) stand_in: StandInForm,

    /// Conversation to store results in; created if missing. Default: a new one named `session-`
    /// and a UUID, which is printed on standard error.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Seconds that the server has for an answer; progress restarts them. 0: no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "servers")]
    pub(crate) timeout: u64,

    /// Offer no tools and resources of the gateway's own.
    #[arg(long)]
    pub(crate) no_context_tools: bool,

    /// Serve clients over streamable HTTP on this address, on the path `/mcp`.
    ///
    /// Without a host it is 127.0.0.1; port 0 is any that is free. The address is printed on
    /// standard error. Each session has servers and, without --conversation, a conversation of its
    /// own.
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) http: Option<String>,

    /// File with bearer tokens, one a line. A client needs one of them.
    ///
    /// Default: none on a loopback address; on any other, a new one, which is printed on standard
    /// error.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,

    /// Mount the store, so that summaries name paths.
    ///
    /// Mounts it in the background as `ctxfs mount` does, at DIR or at the usual place, unless it
    /// is mounted there, or without DIR anywhere. The mount stays when the gateway ends; `ctxfs
    /// umount` ends it. If the store cannot be mounted, a message on standard error says so, and
    /// the context tools read it.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "")]
    pub(crate) mount: Option<OsString>,

    /// Mountpoint as the reader sees it, for paths in the summaries.
    ///
    /// Default: where this store is mounted. If it is not, summaries name references, which the
    /// context tools read.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) advertise: Option<String>,

    /// Command of the server, with its arguments; or its `http://` or `https://` URL.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Allow calls of tools behind a light index, without asking.
    ///
    /// The rule is kept in `permissions.toml` in the store, in place of one with the same pattern.
    ///
    /// Examples: `ctxfs mcp allow github/create_issue`; `ctxfs mcp allow 'fs/*'`
    Allow(McpRuleArgs),
    /// Deny calls of tools behind a light index, without asking.
    ///
    /// The rule is kept in `permissions.toml` in the store, in place of one with the same pattern.
    ///
    /// Example: `ctxfs mcp deny 'shell/*'`
    Deny(McpRuleArgs),
    List(McpListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpRuleArgs {
    /// Pattern of `server/tool`, or a risk: `read`, `write`, `execute`, `unknown`.
    #[arg(value_name = "SERVER/TOOL")]
    pub(crate) pattern: String,
}

/// Show what servers offer, and how many tokens that takes in the context of a model.
///
/// Starts the servers, asks for their lists, and ends them. Shows the number of tools, prompts,
/// resources and templates of each, and estimated tokens of its tools: as schemas, which a client
/// gives its model, and in a light index (`ctxfs mcp --tools index`). Then lists each tool with the
/// risk of a call, and the tokens that the index saves.
///
/// Exit status 1 if a server cannot be used, or does not list what it has; the others are shown.
///
/// Examples: `ctxfs mcp list --servers mcp.json`; `ctxfs mcp list -- npx -y some-server`
#[derive(Debug, Args)]
pub(crate) struct McpListArgs {
    /// File with the servers, as clients have it.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    pub(crate) servers: Option<PathBuf>,

    /// Name of the server behind `--`. Default: as for `ctxfs mcp`.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) name: Option<String>,

    /// Seconds that the server behind `--` has for everything. 0: no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "servers")]
    pub(crate) timeout: u64,

    /// Command of a server, with its arguments; or its `http://` or `https://` URL.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl McpArgs {
    pub(crate) fn settings(&self) -> Vec<(SettingKey, SettingValue)> {
        self.advertise
            .iter()
            .map(|prefix| (SettingKey::Advertise, SettingValue::Text(prefix.clone())))
            .collect()
    }
}
