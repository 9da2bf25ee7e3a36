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

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::time::interval;
use tokio::time::sleep;

use crate::mcp::http::clients::Clients;
use crate::mcp::http::endpoint::Endpoint;
use crate::mcp::http::gate::Gate;
use crate::mcp::options::HttpOptions;
use crate::mcp::session::Gateway;
use crate::mcp::shelf::Shelves;
use crate::mcp::signals::Signals;

/// The most connections.
const CONNECTIONS: usize = 512;
/// The time for the head of a request, from the one before on.
const HEAD: Duration = Duration::from_mins(1);
/// The most bytes of the head of a request.
const MOST_HEAD: usize = 64 * 1024;
/// The time between looks for sessions that nobody uses.
const TICK: Duration = Duration::from_secs(1);
/// The pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

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
    tokio::select! {
        () = accept(&listener, &endpoint) => {}
        () = end_idle(&endpoint.clients) => {}
        () = signals.any() => {}
    }
    drop(listener);
    endpoint.clients.end().await;
    Ok(())
}

async fn accept(listener: &TcpListener, endpoint: &Arc<Endpoint>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(converse(stream, Arc::clone(endpoint), permit));
            }
            Err(error) => {
                tracing::warn!("a connection cannot be taken: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Answers the requests of a connection.
async fn converse(stream: TcpStream, endpoint: Arc<Endpoint>, _room: OwnedSemaphorePermit) {
    // Events are small, and each is to arrive at once.
    stream.set_nodelay(true).ok();
    let hang_up = Arc::new(Notify::new());
    let answer = service_fn(|request| Arc::clone(&endpoint).answer(request, Arc::clone(&hang_up)));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.max_header_size(MOST_HEAD).max_buf_size(MOST_HEAD);
    tokio::select! {
        served = builder.serve_connection(TokioIo::new(stream), answer) => {
            if let Err(error) = served {
                tracing::debug!("a connection ended: {error}");
            }
        }
        () = hang_up.notified() => {}
    }
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
