//! The options of a gateway.

use std::ffi::OsString;
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::ToolFilter;
use crate::permission::rules::{RiskRules, Rules};
use crate::tool_name::Naming;

/// The command that starts a server. The process inherits no environment: `environment` is its
/// whole environment. Without a `directory`, it starts in the gateway's directory.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ServerCommand {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub directory: Option<PathBuf>,
}

/// The options of a gateway, for all its sessions. The conversation and its limits come from a
/// [`Shelf`](crate::Shelf).
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// The servers behind the gateway.
    pub servers: Vec<ServerOptions>,
    /// How the servers are offered to clients.
    pub offer: OfferMode,
    /// True if the gateway offers its own tools and resources.
    pub context_tools: bool,
    /// True if the gateway resolves references in arguments.
    pub references: bool,
    /// Maximum decoded size in bytes of binary content that passes through. Larger content is
    /// stored.
    pub max_binary: u64,
    /// Maximum size of a server message in bytes.
    pub max_result: u64,
    /// The command that starts the guard process, which must call
    /// [`end_servers`](crate::process::end_servers) with its standard input.
    pub guard_command: Vec<OsString>,
}

/// How the servers are offered to clients. In `Through` mode, the client talks to the only server,
/// or to the gateway alone if there is none. In `Direct` mode, all tools are listed under offered
/// names. In `Index` mode, the light index replaces them. In the last two modes, the gateway
/// answers the client itself.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OfferMode {
    Through,
    Direct,
    Index(Box<IndexOptions>),
}

/// A server behind the gateway. In [`OfferMode::Through`], `offer` is ignored, because the client
/// sees the server's own tools.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Name of the server in records, limits and rules.
    pub name: String,
    /// How to reach the server: a process to start, or an address.
    pub place: ServerPlace,
    /// Maximum time for an answer; progress restarts it. `None` waits forever.
    pub timeout: Option<Duration>,
    /// Naming and selection of the server's tools, unless the client talks to the server directly.
    pub offer: Offer,
    /// True if all sessions share one instance of the server.
    pub shared: bool,
}

/// How to reach a server: a process to start, or an address. In both cases, its messages are read
/// as lines, and long messages go to the disk.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ServerPlace {
    Command(ServerCommand),
    Remote(RemoteServer),
}

/// Options for serving clients over HTTP. The gateway does not support TLS; use a proxy in front of
/// it.
#[derive(Debug)]
pub struct HttpOptions {
    /// Socket that accepts clients.
    pub listener: TcpListener,
    /// Host names of this machine that clients may use, in addition to addresses and `localhost`.
    pub names: Vec<String>,
    /// Accepted bearer tokens. If empty, no token is required.
    pub tokens: Vec<String>,
    /// Time after which a session without requests and streams ends.
    pub session_idle: Duration,
    /// Maximum size of a client message in bytes.
    pub max_body: u64,
}

/// A server over HTTP, with its URL and the headers of every request. The URL starts with `http://`
/// or `https://`. `Debug` shows neither the URL nor header values, because they may be secret.
/// Proxies from the environment are not used.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RemoteServer {
    pub url: String,
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Header values are secret, and the URL may be.
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("RemoteServer").field("headers", &names).finish_non_exhaustive()
    }
}

/// How a server's tools are offered: the naming rule, a selection of tools, and `trust`, which is
/// true if the server's annotations about risk are believed.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Offer {
    pub naming: Naming,
    pub tools: ToolFilter,
    pub trust: bool,
}

/// Options of the light index. Rules that the user keeps in the store are added to `rules` before
/// each batch.
#[derive(Debug, Clone, Default)]
pub struct IndexOptions {
    /// Risks of tools, as configured by the user.
    pub risks: RiskRules,
    /// Rules of the user, without the rules in the store.
    pub rules: Rules,
    /// Size of the reply to a batch in bytes.
    pub batch_budget: usize,
}
