//! The MCP gateway: it stands between a client and its servers. Long results of tools are stored, and the
//! client gets stand-ins; everything else passes.
//!
//! Messages that pass are not parsed into values: a message is its bytes, in which ids are replaced
//! ([`message`], [`json_rpc`]). A message that is too long for memory is a file and a skeleton
//! ([`line_reader`]), and the texts in it go from the file to the store ([`results`]).
//!
//! A session ([`relay`]) has two halves that do not know each other: the client ([`client`]), and its
//! servers ([`upstream`]). Requests of the client enter at [`from_client`], which decides by their method
//! which part answers; messages of servers enter at [`from_upstream`]. Where the two speak different
//! revisions, [`bridge`] translates; where there are several servers or a light index, [`hub`] answers for
//! them.
//!
//! Each server has a task that starts it, writes to it and ends it ([`manager`], [`remote`], [`shared`]),
//! and one that reads. All queues are bounded: a fast peer waits, and delays no other. Clients connect at
//! standard input and output ([`stdio`]) or over HTTP ([`http`]).
//!
//! The public modules are free of sockets, processes and clocks: configuration, names of tools, the light
//! index, and permissions.

pub mod config;
pub mod index;
pub mod permission;
pub mod tool_name;

mod bridge;
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
pub mod in_memory;
mod json_rpc;
mod line_reader;
mod manager;
mod message;
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
pub use options::{
    GatewayOptions, HttpOptions, IndexOptions, Offer, OfferMode, RemoteServer, ServerCommand,
    ServerOptions, ServerPlace,
};
pub use process::end_servers;
pub use shelf::{ConversationSources, GatewayConversation, Shelf};

use session::{Gateway, GatewaySession};
use shelf::LazyShelf;

// How long the client may take to read what was sent last.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Serves the client at standard input and output until its input ends or a signal asks to stop.
/// All processes of servers have ended on return.
pub fn serve(options: GatewayOptions, shelf: Arc<dyn Shelf>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gateway = Gateway::new(options)?;
    let shelf = Arc::new(LazyShelf::new(shelf));
    let written = runtime.block_on(stdio::serve(&gateway, &shelf));
    // Reading standard input cannot be interrupted.
    runtime.shutdown_background();
    let served = written.map(|written| {
        written.recv_timeout(DRAIN_TIME).ok();
    });
    shelf.finish();
    served
}

/// Serves clients over HTTP until a signal asks to stop. All processes of servers have ended on
/// return.
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

/// Starts the servers, asks them for what they offer, and ends them. The options must have
/// [`OfferMode::Index`].
pub fn survey(options: GatewayOptions, shelf: Arc<dyn Shelf>) -> io::Result<Survey> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let gateway = Gateway::new(options)?;
    let shelf = Arc::new(LazyShelf::new(shelf));
    let surveyed = runtime.block_on(GatewaySession::survey(&gateway, &shelf));
    runtime.shutdown_background();
    shelf.finish();
    surveyed
}
