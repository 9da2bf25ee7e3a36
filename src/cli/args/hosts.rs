//! The commands for agent hosts and MCP clients: `hook`, `install` and `mcp`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::{SettingKey, env, hooks::Host, install::McpHost, settings::SettingValue};

/// Answer a hook of an agent's host, and store long outputs of tools.
///
/// Reads an event from standard input, and prints the answer, both in the JSON format of the host.
/// An output that the host would cut is stored in the conversation of the host's session, and the
/// model gets the stand-in. With `[hooks] replace = "long"`, the same happens to any output over
/// the limits if its stand-in is short enough. When a session continues after a resume or a
/// compaction, the model is told which outputs are stored.
///
/// Never harms a call: after a failure, or after 10 seconds, the hook prints nothing and exits with
/// 0, so that the host keeps its own result. A line in `ctxfs/hook.log` below `$XDG_STATE_HOME` (or
/// else `~/.local/state`) gives the reason, and `ctxfs doctor` counts the calls of each host.
///
/// docs/HOSTS.md says what each host passes to its hook.
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot`, `pi` or `cursor`.
    // Wrong usage is no failure: hosts take exit status 2 as an order to block the call.
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
}

/// Configure an agent's host to call `ctxfs hook`, or list the hosts.
///
/// Edits the settings of the host: adds the hook and the permission to read the mount. For Codex,
/// also allows the sandbox to write to the store's directory of outputs. For Claude Code and Codex,
/// writes a program that runs commands of the model under `ctxfs shell`, and adds this program to the
/// settings. If systemd manages the user's services, writes a unit that mounts the store at login.
/// Prints the changes, and the steps left to do. Never asks.
///
/// Comments, order, indentation and everything else in the files stay. Before the first change, a
/// file is copied to `FILE.ctxfs.bak` beside it. If a file cannot be edited, nothing is changed. A
/// second run changes nothing.
///
/// If `--store`, `CTXFS_STORE` or the file of `--config` gives a store that the hook and the unit
/// would not find by themselves, both name that store. They keep it until another store is given.
///
/// Without HOST, shows which hosts are found on this machine, and where the hook is installed.
///
/// With `ctxfs install mcp HOST`, long results of the host's MCP servers are stored as well.
///
/// Example: `ctxfs install claude-code --print`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InstallArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot`, `pi` or `cursor`.
    #[arg(value_name = "HOST", value_parser = parse_host)]
    pub(crate) host: Option<Host>,

    /// Edit the settings of the project in the current directory instead of the user's.
    #[arg(long, requires = "host")]
    pub(crate) project: bool,

    /// Print the changes, and make none.
    #[arg(long, requires = "host")]
    pub(crate) print: bool,

    /// Undo the installation: restore the files, but keep changes by others.
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
/// their long results are stored. Does not change servers over HTTP, or servers that already run
/// through a `ctxfs mcp` line of the user, but lists them. Prints the changes. Never asks.
///
/// Everything else in the files stays. Before the first change, a file is copied to
/// `FILE.ctxfs.bak` beside it. If a file cannot be edited, nothing is changed. A second run changes
/// nothing.
///
/// The added command line names the server, for limits and records. It disables the time limit of
/// `ctxfs mcp`, because the host has its own. It names the store if `--store`, `CTXFS_STORE` or the
/// file of `--config` gives a store that `ctxfs mcp` would not find by itself. That store stays
/// until another one is given.
///
/// Example: `ctxfs install mcp claude-code github --print`
#[derive(Debug, Args)]
pub(crate) struct InstallMcpArgs {
    /// The host: `claude-code`, `codex`, `opencode`, `gemini-cli`, `copilot`, `cursor`, `vscode`,
    /// `claude-desktop`, `zed`, `windsurf`, `junie` or `agy`.
    #[arg(value_name = "HOST", value_parser = McpHost::named)]
    pub(crate) host: &'static McpHost,

    /// Name of the server in the settings. Default: all servers.
    #[arg(value_name = "SERVER")]
    pub(crate) server: Option<String>,

    /// Edit the settings of the project in the current directory instead of the user's.
    #[arg(long)]
    pub(crate) project: bool,

    /// Print the changes, and make none.
    #[arg(long)]
    pub(crate) print: bool,

    /// Make the servers run as before: restore the files, but keep changes by others.
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

/// Stand between an MCP client and its servers, and store long results of tools.
///
/// Speaks MCP on standard input and output, or over HTTP. Everything passes unchanged, except
/// results over the limits (`max_inline_chars` and `max_inline_bytes`, which `[tool."server/name"]`
/// can set for one tool). Such a result is stored in the conversation, and the client gets a
/// summary and a link instead. Clients without file tools can read stored results with the tools
/// named `context_...`.
///
/// In the configuration of a client, put `ctxfs mcp --` before the command of a server, or replace
/// all servers by `ctxfs mcp --servers FILE`. Without a server, only the context tools are offered.
///
/// For a server that already runs, give its URL instead of a command. With --http, clients connect
/// over HTTP.
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
    /// of the package that a command such as `npx` runs; for a URL, the host.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) name: Option<String>,

    /// File with the servers, in the format of MCP clients: `{"mcpServers": {NAME: {...}}}`.
    ///
    /// Tools are then called `<name>__<tool>`. docs/GATEWAY.md lists the keys of a server.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) servers: Option<PathBuf>,

    /// Form in which the servers' tools are offered: each one directly, or all in a light index,
    /// with one tool that describes them and one that calls them.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ToolOffer::Direct)]
    pub(crate) tools: ToolOffer,

    /// Text that replaces a long result: its summary, or its handle, which the model has to pass to
    /// the tool `tool_output`.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = StandInForm::Summary)]
    pub(crate) stand_in: StandInForm,

    /// Conversation to store results in; created if missing. Default: a new conversation, named
    /// `session-` and a UUID. Its name is printed on standard error.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(crate) conversation: Option<String>,

    /// Seconds that the server may take to answer. Each progress message restarts the time. 0: no
    /// limit.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "servers")]
    pub(crate) timeout: u64,

    /// Do not offer the gateway's own tools and resources.
    #[arg(long)]
    pub(crate) no_context_tools: bool,

    /// Serve clients over streamable HTTP on this address, on the path `/mcp`.
    ///
    /// The default host is 127.0.0.1. Port 0 chooses a free port. The address is printed on
    /// standard error. Each session has its own servers and, without --conversation, its own
    /// conversation.
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) http: Option<String>,

    /// File with bearer tokens, one per line. A client needs one of them.
    ///
    /// Default: on a loopback address, clients need no token. On any other address, they need a new
    /// token, which is printed on standard error.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,

    /// Mount the store, so that summaries name paths.
    ///
    /// Mounts the store in the background, as `ctxfs mount` does. If the store is already mounted
    /// at DIR or the setting `mountpoint`, or anywhere if neither is given, uses that mount. The
    /// mount stays when the gateway ends; `ctxfs umount` ends it. If the store cannot be mounted, a
    /// message on standard error says so, and clients have to use the context tools.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "")]
    pub(crate) mount: Option<OsString>,

    /// Mountpoint as the reader sees it, for paths in the summaries.
    ///
    /// Default: the mountpoint of this store. If the store is not mounted, summaries contain
    /// references, which the context tools can read.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) advertise: Option<String>,

    /// Command of the server with its arguments, or the server's `http://` or `https://` URL.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Allow calls of tools in a light index without asking the user.
    ///
    /// Keeps the rule in `permissions.toml` in the store. Replaces a rule with the same pattern.
    ///
    /// Examples: `ctxfs mcp allow github/create_issue`; `ctxfs mcp allow 'fs/*'`
    Allow(McpRuleArgs),
    /// Deny calls of tools in a light index without asking the user.
    ///
    /// Keeps the rule in `permissions.toml` in the store. Replaces a rule with the same pattern.
    ///
    /// Example: `ctxfs mcp deny 'shell/*'`
    Deny(McpRuleArgs),
    List(McpListArgs),
    Login(McpLoginArgs),
    /// Forget the tokens for a server over HTTP, and have them revoked if the server can do that.
    Logout(McpServerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpRuleArgs {
    /// Pattern for `server/tool`, or a risk: `read`, `write`, `execute`, `unknown`.
    #[arg(value_name = "SERVER/TOOL")]
    pub(crate) pattern: String,
}

/// List what servers offer, and estimate the tokens that this takes in the context of a model.
///
/// Starts the servers, asks for their lists, and ends them. For each server, counts the tools,
/// prompts, resources and templates. Also estimates the tokens of the server's tools: as schemas,
/// which a client gives its model, and in a light index (`ctxfs mcp --tools index`). Then lists
/// each tool with the risk of a call, and shows the tokens that the index saves.
///
/// The exit status is 1 if a server cannot be used, or does not list everything that it offers.
/// Other servers are still shown.
///
/// Examples: `ctxfs mcp list --servers mcp.json`; `ctxfs mcp list -- npx -y some-server`
#[derive(Debug, Args)]
pub(crate) struct McpListArgs {
    /// File with the servers, in the format of MCP clients.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "command",
        required_unless_present = "command"
    )]
    pub(crate) servers: Option<PathBuf>,

    /// Name of the server whose command follows `--`. Default: as for `ctxfs mcp`.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) name: Option<String>,

    /// Seconds in which the server after `--` has to start and list everything. 0: no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, conflicts_with = "servers")]
    pub(crate) timeout: u64,

    /// Command of a server with its arguments, or the server's `http://` or `https://` URL.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Log in to a server over HTTP that needs it, with OAuth.
///
/// Prints an address to open in a browser of this machine, and waits until you have agreed there. The
/// tokens go to a file that only you can read, in `$XDG_STATE_HOME/ctxfs` or else
/// `~/.local/state/ctxfs`. Every `ctxfs mcp` uses and renews them.
///
/// Examples: `ctxfs mcp login --servers mcp.json github`; `ctxfs mcp login https://example.com/mcp`
#[derive(Debug, Args)]
pub(crate) struct McpLoginArgs {
    #[command(flatten)]
    pub(crate) server: McpServerArgs,

    /// Scopes to ask for, separated by blanks. Default: the scopes that the server names.
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,

    /// Id of a client that the authorization server knows. Default: a new client is registered.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,

    /// File whose first line is the secret of that client.
    #[arg(long, value_name = "FILE", requires = "client_id")]
    pub(crate) client_secret_file: Option<PathBuf>,

    /// https:// address of a public document about the client, for servers that take it as its id.
    #[arg(long, value_name = "URL")]
    pub(crate) client_metadata_url: Option<String>,

    /// Port of this machine to which the browser comes back. Default: any that is free.
    #[arg(long, value_name = "PORT")]
    pub(crate) callback_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct McpServerArgs {
    /// Name of a server in the file that --servers names, or the URL of a server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// File with the servers, in the format of MCP clients.
    #[arg(long, value_name = "FILE")]
    pub(crate) servers: Option<PathBuf>,
}

impl McpArgs {
    pub(crate) fn settings(&self) -> Vec<(SettingKey, SettingValue)> {
        self.advertise
            .iter()
            .map(|prefix| (SettingKey::Advertise, SettingValue::Text(prefix.clone())))
            .collect()
    }
}
