//! HTTP servers with a limited number of connections.
//!
//! Any user of this machine can connect and keep many silent connections open. A new connection is
//! therefore always accepted, and an old one is closed when the limit is reached. Connections of
//! clients that are not admitted are closed first, then connections without a request, and then
//! connections whose client does not read its answer.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

const CONNECTIONS: usize = 512;
/// Time limit for the head of a request, counted from the end of the previous request.
const HEAD: Duration = Duration::from_secs(15);
const MOST_HEAD: usize = 64 * 1024;
/// A client that reads nothing of its answer for this long may be disconnected.
const SLOW: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections forever. `service` creates the service for each connection.
pub async fn serve<S, B>(listener: &TcpListener, service: impl Fn(Connection) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connections = Arc::new(OpenConnections::default());
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("a connection cannot be taken: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        while !connections.make_room() {
            sleep(PAUSE).await;
        }
        let open = connections.open();
        let service = service(open.connection.clone());
        tokio::spawn(converse(stream, service, open));
    }
}

async fn converse<S, B>(stream: TcpStream, service: S, open: OpenConnection)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Pieces of pages and events are small and must be sent immediately.
    stream.set_nodelay(true).ok();
    let connection = open.connection.clone();
    let answer = service_fn(move |request| {
        connection.set(ConnectionPace::Answering);
        let (answer, connection) = (service.call(request), connection.clone());
        async { Ok::<_, Infallible>(answer.await?.map(|body| BusyBody::new(body, connection))) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.max_header_size(MOST_HEAD).max_buf_size(MOST_HEAD);
    tokio::select! {
        served = builder.serve_connection(TokioIo::new(stream), answer) => {
            if let Err(error) = served {
                tracing::debug!("a connection ended: {error}");
            }
        }
        () = open.connection.hang_up.notified() => {}
    }
}

/// A connection, for use by the services that answer its requests.
#[derive(Clone)]
pub struct Connection {
    /// Signal that closes the connection.
    pub hang_up: Arc<Notify>,
    state: Arc<Mutex<ConnectionState>>,
}

struct ConnectionState {
    is_admitted: bool,
    pace: ConnectionPace,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPace {
    Idle,
    Answering,
    Sending,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Records that a request has authenticated its client. If the limit is reached, connections
    /// without this record are closed first.
    pub fn admit(&self) {
        self.state.lock().is_admitted = true;
    }

    fn set(&self, pace: ConnectionPace) {
        let mut state = self.state.lock();
        state.pace = pace;
        state.since = Instant::now();
    }

    /// Returns the key by which connections are closed, lowest first: a rank, and the time at which
    /// the connection became idle or began to send. Returns `None` if the connection must not be
    /// closed.
    fn rank(&self) -> Option<(u8, Option<Instant>)> {
        let state = self.state.lock();
        match state.pace {
            // Activity does not protect a client that is not admitted.
            _ if !state.is_admitted => Some((0, None)),
            ConnectionPace::Idle => Some((1, Some(state.since))),
            ConnectionPace::Sending if state.since.elapsed() > SLOW => Some((2, Some(state.since))),
            ConnectionPace::Sending | ConnectionPace::Answering => None,
        }
    }
}

#[derive(Default)]
struct OpenConnections(Mutex<NumberedConnections>);

#[derive(Default)]
struct NumberedConnections {
    next: u64,
    open: std::collections::BTreeMap<u64, Connection>,
}

struct OpenConnection {
    connection: Connection,
    number: u64,
    connections: Arc<OpenConnections>,
}

impl OpenConnections {
    /// Closes a connection if the limit is reached. Returns false if no connection may be closed.
    fn make_room(&self) -> bool {
        let mut numbered = self.0.lock();
        if numbered.open.len() < CONNECTIONS {
            return true;
        }
        let ranks = numbered.open.iter();
        let ranks = ranks.filter_map(|(number, connection)| Some((connection.rank()?, *number)));
        let Some((_, number)) = ranks.min() else { return false };
        if let Some(connection) = numbered.open.remove(&number) {
            connection.hang_up.notify_one();
        }
        true
    }

    fn open(self: &Arc<Self>) -> OpenConnection {
        let state = ConnectionState {
            is_admitted: false,
            pace: ConnectionPace::Idle,
            since: Instant::now(),
        };
        let connection = Connection { hang_up: Arc::default(), state: Arc::new(Mutex::new(state)) };
        let mut numbered = self.0.lock();
        numbered.next += 1;
        let number = numbered.next;
        numbered.open.insert(number, connection.clone());
        OpenConnection { connection, number, connections: Arc::clone(self) }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.0.lock().open.remove(&self.number);
    }
}

struct BusyBody<B> {
    body: B,
    connection: Connection,
}

impl<B> BusyBody<B> {
    fn new(body: B, connection: Connection) -> Self {
        Self { body, connection }
    }
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        // This function is called again once the client has read enough of this part.
        self.connection.set(if polled.is_ready() {
            ConnectionPace::Sending
        } else {
            ConnectionPace::Answering
        });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for BusyBody<B> {
    fn drop(&mut self) {
        self.connection.set(ConnectionPace::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens the maximum number of connections.
    fn full(connections: &Arc<OpenConnections>) -> Vec<OpenConnection> {
        let room = |_| {
            assert!(connections.make_room());
            connections.open()
        };
        (0..CONNECTIONS).map(room).collect()
    }

    fn is_open(open: &OpenConnection) -> bool {
        open.connections.0.lock().open.contains_key(&open.number)
    }

    #[test]
    fn who_has_shown_nothing_gives_way_first_and_the_oldest_of_these() {
        let connections = Arc::default();
        let open = full(&connections);
        for (number, pace) in [(0, ConnectionPace::Idle), (1, ConnectionPace::Answering)] {
            open[number].connection.admit();
            open[number].connection.set(pace);
        }
        let newest = connections.make_room().then(|| connections.open()).unwrap();
        assert!(is_open(&open[0]) && is_open(&open[1]) && !is_open(&open[2]) && is_open(&open[3]));
        drop(newest);
        assert_eq!(connections.0.lock().open.len(), CONNECTIONS - 1);
    }

    #[test]
    fn of_those_that_may_come_in_the_longest_idle_gives_way() {
        let connections = Arc::default();
        let open = full(&connections);
        for open in &open {
            open.connection.admit();
            open.connection.set(ConnectionPace::Answering);
        }
        assert!(!connections.make_room(), "none waits for a client");
        open[7].connection.set(ConnectionPace::Sending);
        assert!(!connections.make_room(), "it may take its answer yet");
        open[5].connection.set(ConnectionPace::Idle);
        open[3].connection.set(ConnectionPace::Idle);
        assert!(connections.make_room() && !is_open(&open[5]) && is_open(&open[3]));
        let another = connections.open();
        another.connection.admit();
        for open in [&another, &open[3]] {
            open.connection.set(ConnectionPace::Answering);
        }
        assert!(!connections.make_room());
        open[7].connection.state.lock().since -= 2 * SLOW;
        assert!(connections.make_room() && !is_open(&open[7]), "it does not read");
    }
}
