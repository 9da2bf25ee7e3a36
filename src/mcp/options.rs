//! The options of gateways.

use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Duration;

use crate::hub::{IndexOptions, Offer};
use crate::process::ServerCommand;
use crate::remote::RemoteServer;

/// The options of a gateway.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// The servers.
    pub servers: Vec<ServerOptions>,
    /// The way in which they are offered.
    pub offer: OfferMode,
    /// True if the gateway has tools and resources of its own.
    pub context_tools: bool,
    /// True if references in arguments stand for stored text.
    pub references: bool,
    /// The most bytes of binary content, decoded, that passes.
    pub max_binary: u64,
    /// The most bytes of a message of a server.
    pub max_result: u64,
    /// The command that runs [`end_servers`](crate::guard::end_servers) on its standard input.
    pub guard_command: Vec<OsString>,
}

/// The way in which servers are offered to the client.
#[derive(Debug, Clone)]
pub enum OfferMode {
    /// There is at most one, which the client talks to itself.
    Through,
    /// Their tools are listed, under their names.
    Direct,
    /// A light index stands for them.
    Index(Box<IndexOptions>),
}

/// A server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Its name, in records and limits.
    pub name: String,
    /// Its place.
    pub place: ServerPlace,
    /// The time for an answer, which progress restarts. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// The part of it that is offered, where the gateway answers for it.
    pub offer: Offer,
    /// True if the sessions of a gateway share it.
    pub shared: bool,
}

/// The place of a server.
#[derive(Debug, Clone)]
pub enum ServerPlace {
    /// It is started, and speaks on its standard input and output.
    Command(ServerCommand),
    /// It runs, and speaks over HTTP.
    Remote(RemoteServer),
}

/// The options of a gateway for clients over HTTP.
#[derive(Debug)]
pub struct HttpOptions {
    /// The socket that clients connect to.
    pub listener: TcpListener,
    /// The names of this machine, besides addresses and `localhost`, that a client may use.
    pub names: Vec<String>,
    /// The tokens of which a client needs one; empty if it needs none.
    pub tokens: Vec<String>,
    /// The time after which a session without requests ends.
    pub session_idle: Duration,
    /// The most bytes of a message of a client.
    pub max_body: u64,
}
