//! The options of the page.

use std::net::TcpListener;
use std::sync::Arc;

use ctxfs_engine::Engine;

/// All that the page needs.
#[derive(Debug)]
pub struct WebOptions {
    /// The socket, which listens already.
    pub listener: TcpListener,
    /// The names of this machine by which a browser may ask, beside addresses and `localhost`.
    pub names: Vec<String>,
    /// The token that lets a browser in.
    pub token: String,
    /// The engine, whose options say which conversations are shown.
    pub engine: Arc<Engine>,
}
