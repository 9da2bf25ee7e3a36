//! Serves clients over streamable HTTP, on one path.
//!
//! | module | content |
//! |---|---|
//! | `gate` | checks hosts, origins and tokens; builds refusals |
//! | `endpoint` | routes and answers each HTTP request |
//! | `clients` | sessions by id, each with its streams |
//! | `streams` | assigns messages to streams |

pub(crate) mod clients;
pub(crate) mod endpoint;
pub(crate) mod gate;
pub(crate) mod streams;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::time::interval;

use crate::http::clients::HttpSessions;
use crate::http::endpoint::Endpoint;
use crate::http::gate::HttpGate;
use crate::options::HttpOptions;
use crate::session::{Gateway, Signals};
use crate::shelf::ConversationSources;
use ctxfs_models::http_server::{self, Connection};

// Interval between checks for idle sessions.
const TICK: Duration = Duration::from_secs(1);

pub(crate) async fn serve(
    gateway: Gateway,
    options: HttpOptions,
    shelves: Arc<dyn ConversationSources>,
) -> io::Result<()> {
    let HttpOptions { listener, names, tokens, session_idle, max_body } = options;
    let mut signals = Signals::listen()?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let clients = HttpSessions::new(gateway, shelves, session_idle);
    let endpoint = Arc::new(Endpoint { gate: HttpGate::new(names, &tokens), clients, max_body });
    let answers = |connection: Connection| {
        let endpoint = Arc::clone(&endpoint);
        service_fn(move |request| Arc::clone(&endpoint).answer(request, connection.clone()))
    };
    tokio::select! {
        () = http_server::serve(&listener, answers) => {}
        () = end_idle(&endpoint.clients) => {}
        () = signals.any() => {}
    }
    drop(listener);
    endpoint.clients.end().await;
    Ok(())
}

async fn end_idle(clients: &HttpSessions) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        for client in clients.take_idle() {
            tracing::info!("a session ends: it was idle");
            tokio::spawn(async move { client.end().await });
        }
    }
}
