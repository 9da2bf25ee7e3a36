//! The options of a gateway.

use std::ffi::OsString;
use std::fmt;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{ClientOptions, ToolFilter};
use crate::oauth::GrantFile;
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
///
/// If `context_tools` is true, the gateway offers tools and resources of its own. If `references`
/// is true, it resolves references in arguments. Binary content of more than `max_binary` decoded
/// bytes is stored. If `keeps_structure` is true, `structuredContent` stays whole in results, for
/// scripts that call tools; otherwise a long one is replaced by a stand-in. A server message of more than `max_result` bytes is an error. `guard_command`
/// starts the guard process, which must call [`end_servers`](crate::process::end_servers) with its
/// standard input.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GatewayOptions {
    pub servers: Vec<ServerOptions>,
    pub offer: OfferMode,
    pub context_tools: bool,
    pub references: bool,
    pub max_binary: u64,
    pub keeps_structure: bool,
    pub max_result: u64,
    pub guard_command: Vec<OsString>,
}

/// The way in which the servers are offered to clients. In `Through` mode, the client talks to the
/// only server, or to the gateway alone if there is none. In `Direct` mode, all tools are listed
/// under offered names. In `Index` mode, the light index replaces them. In the last two modes, the
/// gateway answers the client itself.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum OfferMode {
    Through,
    Direct,
    Index(Box<IndexOptions>),
}

/// A server behind the gateway, with its `name` in records, limits and rules.
///
/// `timeout` is the time for an answer; progress restarts it, and `None` waits forever. In
/// [`OfferMode::Through`], `offer` is ignored, because the client sees the server's own tools. All
/// sessions use one instance of a `shared` server.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ServerOptions {
    pub name: String,
    pub place: ServerPlace,
    pub timeout: Option<Duration>,
    pub offer: Offer,
    pub shared: bool,
}

/// A process to start, or the address of a server. In both cases, its messages are read as lines,
/// and long messages go to the disk.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ServerPlace {
    Command(ServerCommand),
    Remote(RemoteServer),
}

/// Options for serving clients over HTTP. The gateway does not support TLS; use a proxy in front of
/// it.
///
/// Clients may use the host names in `names`, addresses, and `localhost`. Each request needs one of
/// the bearer `tokens`, unless there are none. A session without requests and streams ends after
/// `session_idle`. `max_body` is the maximum size of a client message in bytes.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct HttpOptions {
    pub listener: TcpListener,
    pub names: Vec<String>,
    pub tokens: Vec<String>,
    pub session_idle: Duration,
    pub max_body: u64,
}

/// A server over HTTP, with its URL and the headers of every request. The URL starts with `http://`
/// or `https://`. `Debug` shows neither the URL nor the header values, because they may be secret.
/// Proxies from the environment are not used. `login` is ignored if `headers` has `Authorization`.
/// `client` is the client as which the user logs in.
#[derive(Clone, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RemoteServer {
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub client: ClientOptions,
    pub login: Option<ServerLogin>,
}

/// The tokens for a server: the file that has them, and the command with which the user logs in.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "described above")]
pub struct ServerLogin {
    pub file: GrantFile,
    pub command: String,
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Header values are secret, and the URL may be.
        let names: Vec<&String> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("RemoteServer").field("headers", &names).finish_non_exhaustive()
    }
}

/// The offer of a server's tools: the naming rule, a selection of tools, and `trust`, which is true
/// if the server's annotations about risk are believed.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Offer {
    pub naming: Naming,
    pub tools: ToolFilter,
    pub trust: bool,
}

/// Options of the light index: the risks and rules that the user configured, and the size of the
/// reply to a batch in bytes. Rules that the user keeps in the store are added to `rules` before
/// each batch.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct IndexOptions {
    pub risks: RiskRules,
    pub rules: Rules,
    pub batch_budget: usize,
}
