//! The MCP gateway between a client and its servers. It stores long results of tools and gives the
//! client stand-ins. All other messages pass through.
//!
//! Messages that pass through are not parsed into values: a message is its bytes, in which only ids
//! are replaced (`message`, `json_rpc`). A message that is too long for memory consists of a file
//! and a skeleton (`line_reader`). The long texts of such a message are copied from the file to the
//! store (`results`).
//!
//! A session (`relay`) has two independent halves: the client (`client`) and its servers
//! (`upstream`). Client requests enter at `from_client`, which selects by method the part of the
//! gateway that answers. Server messages enter at `from_upstream`. If there are several servers or
//! a light index, `hub` answers on behalf of the servers.
//!
//! The gateway supports two kinds of protocol revisions: 2026-07-28, and the older revisions up to
//! 2025-11-25. Inside the gateway, a message has the revision of its sender. It is translated where
//! it leaves the gateway, if the receiver needs the other form: `upstream` translates requests, and
//! `client` translates answers and notifications.
//!
//! Each server has one task that starts it, writes to it and ends it (`manager`, `remote`,
//! `shared`), and one task that reads from it. All queues are bounded: a sender that is too fast
//! waits without delaying the others. Clients connect through standard input and output (`stdio`)
//! or HTTP (`http`).
//!
//! `oauth` gets and renews the tokens for servers that need a login.
//!
//! The public modules use no sockets, processes or clocks: configuration, names of tools, the light
//! index, and permissions.

pub mod config;
pub mod index;
pub mod permission;
pub mod tool_name;

mod budget;
mod client;
mod context;
mod delivery;
mod from_client;
mod from_upstream;
mod held;
mod http;
mod http_message;
mod hub;
#[cfg(any(test, feature = "testing"))]
#[path = "tests/in_memory.rs"]
pub mod in_memory;
mod json_rpc;
mod line_reader;
mod lists;
mod manager;
mod message;
mod oauth;
mod options;
mod own;
mod pending;
mod process;
mod queue;
mod raw_object;
mod references;
mod relay;
mod remote;
mod results;
mod revision;
mod server_request;
mod session;
mod shared;
mod shelf;
mod stdio;
mod upstream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use hub::survey::{Survey, SurveyedOffer, SurveyedServer, SurveyedTool};
pub use oauth::{GrantFile, LoginOptions, log_in, log_out};
pub use options::{
    GatewayOptions, HttpOptions, IndexOptions, Offer, OfferMode, RemoteServer, ServerCommand,
    ServerLogin, ServerOptions, ServerPlace,
};
pub use process::end_servers;
pub use shelf::{ConversationSources, GatewayConversation, Shelf};

use session::{Gateway, GatewaySession};
use shelf::LazyShelf;

// Time that the client has to read the last messages.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Serves the client on standard input and output until its input ends or a signal requests a stop.
/// All server processes have ended when this returns.
pub fn serve(options: GatewayOptions, shelf: Arc<dyn Shelf>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gateway = Gateway::new(options)?;
    let shelf = Arc::new(LazyShelf::new(shelf, gateway.options.context_tools));
    let written = runtime.block_on(stdio::serve(&gateway, &shelf));
    // A read of standard input cannot be interrupted.
    runtime.shutdown_background();
    let served = written.map(|written| {
        written.recv_timeout(DRAIN_TIME).ok();
    });
    shelf.finish();
    served
}

/// Serves clients over HTTP until a signal requests a stop. All server processes have ended when
/// this returns.
pub fn serve_http(
    options: GatewayOptions,
    http: HttpOptions,
    shelves: Arc<dyn ConversationSources>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gateway = Gateway::new(options)?;
    let served = runtime.block_on(http::serve(gateway, http, shelves));
    runtime.shutdown_background();
    served
}

/// Starts the servers, lists their offers, and ends them. `options` must use [`OfferMode::Index`].
pub fn survey(options: GatewayOptions, shelf: Arc<dyn Shelf>) -> io::Result<Survey> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gateway = Gateway::new(options)?;
    let shelf = Arc::new(LazyShelf::new(shelf, gateway.options.context_tools));
    let surveyed = runtime.block_on(GatewaySession::survey(&gateway, &shelf));
    runtime.shutdown_background();
    shelf.finish();
    surveyed
}
