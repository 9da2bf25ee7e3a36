//! `mcp`.

use std::ffi::OsString;

use clap::Args;

use crate::cli::env;
use crate::cli::settings::Key;
use crate::cli::settings::Value;

/// Stand between an MCP client and its server, and keep long results of tools.
///
/// Speaks MCP on standard input and output. Everything passes, except that a result over the limits
/// (`max_inline_chars`, `max_inline_bytes`; by tool under `[tool."server/name"]`) is stored in the
/// conversation, and the client gets a summary and a link. Tools named `context_...` read what is
/// stored, for clients without file tools.
///
/// In the configuration of a client, put `ctxfs mcp --` before the command of a server. Without a
/// command, only the context tools are served.
///
/// Example: `ctxfs mcp -- npx -y @modelcontextprotocol/server-everything`
///
/// docs/GATEWAY.md says what passes and what changes.
#[derive(Debug, Args)]
pub(in crate::cli) struct McpArgs {
    /// Name of the server in records and limits. Default: the last part of the command's name, or
    /// of the package that it runs.
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(in crate::cli) name: Option<String>,

    /// Conversation to store results in; created if missing. Default: a new one named `session-`
    /// and a UUID, which is printed on standard error.
    #[arg(long, short, value_name = "ID", env = env::CONVERSATION, hide_env_values = true)]
    pub(in crate::cli) conversation: Option<String>,

    /// Seconds that the server has for an answer; progress restarts them. 0: no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(in crate::cli) timeout: u64,

    /// Offer no tools and resources of the gateway's own.
    #[arg(long, requires = "command")]
    pub(in crate::cli) no_context_tools: bool,

    /// Mountpoint as the reader sees it, for paths in the summaries.
    ///
    /// Default: where this store is mounted. If it is not, summaries name references, which the
    /// context tools read.
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) advertise: Option<String>,

    /// Command of the server, with its arguments.
    #[arg(last = true, value_name = "CMD")]
    pub(in crate::cli) command: Vec<OsString>,
}

impl McpArgs {
    /// Returns the settings among the arguments.
    pub(in crate::cli) fn settings(&self) -> Vec<(Key, Value)> {
        self.advertise.iter().map(|prefix| (Key::Advertise, Value::Text(prefix.clone()))).collect()
    }
}
