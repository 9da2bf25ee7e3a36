//! `mcp`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::env;
use crate::settings::{Key, Value};

/// The way in which tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolOffer {
    Direct,
    Index,
}

/// The text that stands for a long result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StandInForm {
    Summary,
    Handle,
}

/// Stand between an MCP client and its servers, and keep long results of tools.
///
/// Speaks MCP on standard input and output, or over HTTP. Everything passes, except that a result
/// over the limits (`max_inline_chars`, `max_inline_bytes`; by tool under `[tool."server/name"]`) is
/// stored in the conversation, and the client gets a summary and a link. Tools named `context_...`
/// read what is stored, for clients without file tools.
///
/// In the configuration of a client, put `ctxfs mcp --` before the command of a server, or let
/// `ctxfs mcp --servers FILE` stand for all of them. Without either, only the context tools are
/// served.
///
/// A server that runs already is named by its URL, and clients can speak over HTTP too.
///
/// Examples: `ctxfs mcp -- npx -y @modelcontextprotocol/server-everything`;
/// `ctxfs mcp --servers mcp.json --tools index`; `ctxfs mcp --http 8080 -- https://example.com/mcp`
///
/// docs/GATEWAY.md says what passes and what changes.
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

    /// File with the bearer tokens of which a client needs one, one a line.
    ///
    /// Default: none on a loopback address; on any other, a new one, which is printed on standard
    /// error.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,

    /// See to a mount of the store, so that summaries name paths.
    ///
    /// Mounts it in the background as `ctxfs mount` does, at DIR or at the usual place, unless it is
    /// mounted there, or without DIR anywhere. The mount stays when the gateway ends; `ctxfs umount`
    /// ends it. If the store cannot be mounted, that is said on standard error, and the context tools
    /// read it.
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

/// An action other than serving.
#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    /// Allow calls of tools behind a light index, without asking.
    ///
    /// The rule is kept in `permissions.toml` in the store, in place of one with the same pattern.
    ///
    /// Examples: `ctxfs mcp allow github/create_issue`; `ctxfs mcp allow 'fs/*'`
    Allow(McpRuleArgs),
    /// Deny calls of tools behind a light index; nobody is asked.
    ///
    /// The rule is kept as that of `allow` is.
    ///
    /// Example: `ctxfs mcp deny 'shell/*'`
    Deny(McpRuleArgs),
    List(McpListArgs),
}

/// A rule about calls.
#[derive(Debug, Args)]
pub(crate) struct McpRuleArgs {
    /// Pattern of `server/tool`, or a risk: `read`, `write`, `execute`, `unknown`.
    #[arg(value_name = "SERVER/TOOL")]
    pub(crate) pattern: String,
}

/// Show what servers offer, and what that weighs in the context of a model.
///
/// Starts the servers, asks for their lists, and ends them. Shows the number of tools, prompts,
/// resources and templates of each, and estimated tokens of its tools: as schemas, which a client
/// tells its model, and in a light index (`ctxfs mcp --tools index`). Then each tool with the risk of
/// a call, and what the index saves.
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

    /// Name of the server behind `--`. Default: that of `ctxfs mcp`.
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
    /// Returns the settings among the arguments.
    pub(crate) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}
