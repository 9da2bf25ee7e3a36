//! Clients over HTTP: the streamable transport of MCP, on one path.
//!
//! | module | content |
//! |---|---|
//! | `gate` | who may speak: hosts, origins, tokens |
//! | `endpoint` | what each request gets |
//! | `clients` | the sessions, by their ids |
//! | `client` | one of them: its session with the servers, its streams |
//! | `streams` | which message goes to which stream |
//! | `request_body` | the messages in requests |
//! | `modern` | headers of 2026-07-28 |
//! | `refusal`, `answer_body`, `event_body` | answers |

mod answer_body;
mod client;
mod clients;
mod endpoint;
mod event_body;
mod gate;
mod modern;
mod refusal;
mod request_body;
mod streams;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::time::interval;

use crate::http::clients::Clients;
use crate::http::endpoint::Endpoint;
use crate::http::gate::Gate;
use crate::options::HttpOptions;
use crate::session::Gateway;
use crate::shelf::Shelves;
use crate::signals::Signals;
use ctxfs_models::http_server;
use ctxfs_models::http_server::Connection;

/// The time between looks for sessions that nobody uses.
const TICK: Duration = Duration::from_secs(1);

/// Serves clients until a signal asks to stop.
pub(super) async fn serve(
    gateway: Gateway,
    options: HttpOptions,
    shelves: Arc<dyn Shelves>,
) -> io::Result<()> {
    let HttpOptions { listener, names, tokens, session_idle, max_body } = options;
    let mut signals = Signals::listen()?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let clients = Clients::new(gateway, shelves, session_idle);
    let endpoint = Arc::new(Endpoint { gate: Gate::new(names, &tokens), clients, max_body });
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

/// Ends sessions that nobody uses.
async fn end_idle(clients: &Clients) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        for client in clients.take_idle() {
            tracing::info!("a session ends: nobody used it");
            tokio::spawn(async move { client.end().await });
        }
    }
}
