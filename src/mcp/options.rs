//! The options of a gateway.

use std::ffi::OsString;
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::ToolFilter;
use crate::permission::rules::{RiskRules, Rules};
use crate::tool_name::Naming;

/// The command that starts a server. Nothing is inherited from the gateway's environment:
/// `environment` is all that the process gets. Without a `directory` it starts in the gateway's.
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
    /// Mode in which they are offered to clients.
    pub offer: OfferMode,
    /// True if the gateway has tools and resources of its own.
    pub context_tools: bool,
    /// True if references in arguments are resolved.
    pub references: bool,
    /// Decoded bytes of binary content that pass; longer content is stored.
    pub max_binary: u64,
    /// Bytes of a message of a server.
    pub max_result: u64,
    /// Runs [`end_servers`](crate::process::end_servers) on its standard input.
    pub guard_command: Vec<OsString>,
}

/// The mode in which servers are offered to clients. With `Through`, the client talks to the only
/// server, if there is one. With `Direct`, all tools are listed under offered names, and with
/// `Index`, a light index stands for them; then the gateway answers the client itself.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OfferMode {
    Through,
    Direct,
    Index(Box<IndexOptions>),
}

/// A server behind the gateway. With [`OfferMode::Through`], `offer` is not used, as the client
/// sees the server's own tools.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Name in records, limits and rules.
    pub name: String,
    /// Process or address.
    pub place: ServerPlace,
    /// Time for an answer, restarted by progress. `None` waits forever.
    pub timeout: Option<Duration>,
    /// Naming and selection of its tools, unless the client talks to it directly.
    pub offer: Offer,
    /// True if all sessions share one instance.
    pub shared: bool,
}

/// The process or the address of a server. Either way its messages are read as lines, and long ones
/// go to the disk.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ServerPlace {
    Command(ServerCommand),
    Remote(RemoteServer),
}

/// Options of a gateway for clients over HTTP. There is no TLS; a proxy in front has to provide it.
#[derive(Debug)]
pub struct HttpOptions {
    /// Socket that clients connect to.
    pub listener: TcpListener,
    /// Host names of this machine that clients may use, besides addresses and `localhost`.
    pub names: Vec<String>,
    /// Accepted bearer tokens; empty if none is required.
    pub tokens: Vec<String>,
    /// A session without requests and streams ends after this time.
    pub session_idle: Duration,
    /// Bytes of a message of a client.
    pub max_body: u64,
}

/// A server over HTTP, with an address that begins with `http://` or `https://` and the headers of
/// every request. `Debug` shows neither the URL nor header values, as they may be secret. Proxies
/// of the environment are not used.
#[derive(Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RemoteServer {
    pub url: String,
    pub headers: Vec<(String, String)>,
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of headers are secrets, and so may be the URL.
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("RemoteServer").field("headers", &names).finish_non_exhaustive()
    }
}

/// The offer of a server's tools: the rule for their names, a selection, and `trust`, which says
/// whether the server's annotations about their risk are believed.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Offer {
    pub naming: Naming,
    pub tools: ToolFilter,
    pub trust: bool,
}

/// Options of the light index. Rules that the user keeps in the store are read before each batch
/// and added to `rules`.
#[derive(Debug, Clone, Default)]
pub struct IndexOptions {
    /// The user's risks of tools.
    pub risks: RiskRules,
    /// The user's rules, without those in the store.
    pub rules: Rules,
    /// Bytes of the reply to a batch.
    pub batch_budget: usize,
}
