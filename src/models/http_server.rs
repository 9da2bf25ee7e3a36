//! What all servers over HTTP share: connections, of which there are only so many.
//!
//! Any user of this machine can connect, and hold many connections that say nothing. So a new one is
//! always taken, and another gives way where there are too many: one whose client has not shown that
//! it may come in, else one without a request, else one whose client does not read its answer.

mod busy_body;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::http_server::busy_body::BusyBody;

/// The most connections.
const CONNECTIONS: usize = 512;
/// The time for the head of a request, from the one before on.
const HEAD: Duration = Duration::from_mins(1);
/// The most bytes of the head of a request.
const MOST_HEAD: usize = 64 * 1024;
/// The time for which a client need not take a part of its answer.
const SLOW: Duration = Duration::from_secs(2);
/// The pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves connections without an end, each by what `service` makes for it.
pub async fn serve<S, B>(listener: &TcpListener, service: impl Fn(Connection) -> S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connections = Arc::new(Connections::default());
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

/// Answers the requests of a connection.
async fn converse<S, B>(stream: TcpStream, service: S, open: OpenConnection)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Pieces of pages and events are small, and each is to arrive at once.
    stream.set_nodelay(true).ok();
    let connection = open.connection.clone();
    let answer = service_fn(move |request| {
        connection.set(Pace::Answering);
        let (answer, connection) = (service.call(request), connection.clone());
        async { Ok::<_, Infallible>(answer.await?.map(|body| BusyBody::new(body, connection))) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.max_header_size(MOST_HEAD).max_buf_size(MOST_HEAD);
    tokio::select! {
        served = builder.serve_connection(TokioIo::new(stream), answer) => {
            if let Err(error) = served {
                tracing::debug!("a connection ended: {error}");
            }
        }
        () = open.connection.0.hang_up.notified() => {}
    }
}

/// A connection, as the answers to its requests see it.
#[derive(Clone)]
pub struct Connection(Arc<Held>);

struct Held {
    hang_up: Arc<Notify>,
    state: Mutex<Standing>,
}

/// What decides whether a connection gives way.
struct Standing {
    /// True once a request has shown that its client may come in.
    is_admitted: bool,
    pace: Pace,
    since: Instant,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// A request.
    Idle,
    /// The next part of an answer.
    Answering,
    /// The client, which has to take what there is of the answer.
    Sending,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Notes that a request has shown that its client may come in, so that the connection does not
    /// give way to others that have not.
    pub fn admit(&self) {
        self.0.state.lock().is_admitted = true;
    }

    /// Returns what ends the connection.
    pub fn hang_up(&self) -> Arc<Notify> {
        Arc::clone(&self.0.hang_up)
    }

    fn set(&self, pace: Pace) {
        let mut state = self.0.state.lock();
        state.pace = pace;
        state.since = Instant::now();
    }

    /// Returns its place among those that give way, the lowest first, of equal ones the oldest.
    /// `None` if it does not.
    fn rank(&self) -> Option<(u8, Option<Instant>)> {
        let state = self.0.state.lock();
        match state.pace {
            // Its requests make it no younger.
            _ if !state.is_admitted => Some((0, None)),
            Pace::Idle => Some((1, Some(state.since))),
            Pace::Sending if state.since.elapsed() > SLOW => Some((2, Some(state.since))),
            Pace::Sending | Pace::Answering => None,
        }
    }
}

/// The open connections, by their numbers.
#[derive(Default)]
struct Connections(Mutex<Numbered>);

#[derive(Default)]
struct Numbered {
    next: u64,
    open: BTreeMap<u64, Connection>,
}

/// A connection that is counted until this is dropped.
struct OpenConnection {
    connection: Connection,
    number: u64,
    connections: Arc<Connections>,
}

impl Connections {
    /// Ends a connection if there is no room for another one. Returns false if none may end.
    fn make_room(&self) -> bool {
        let mut numbered = self.0.lock();
        if numbered.open.len() < CONNECTIONS {
            return true;
        }
        let ranks = numbered.open.iter();
        let ranks = ranks.filter_map(|(number, connection)| Some((connection.rank()?, *number)));
        let Some((_, number)) = ranks.min() else { return false };
        if let Some(connection) = numbered.open.remove(&number) {
            connection.0.hang_up.notify_one();
        }
        true
    }

    fn open(self: &Arc<Self>) -> OpenConnection {
        let state = Standing { is_admitted: false, pace: Pace::Idle, since: Instant::now() };
        let held = Held { hang_up: Arc::default(), state: Mutex::new(state) };
        let connection = Connection(Arc::new(held));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns as many connections as there may be.
    fn full(connections: &Arc<Connections>) -> Vec<OpenConnection> {
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
        for (number, pace) in [(0, Pace::Idle), (1, Pace::Answering)] {
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
            open.connection.set(Pace::Answering);
        }
        assert!(!connections.make_room(), "none waits for a client");
        open[7].connection.set(Pace::Sending);
        assert!(!connections.make_room(), "it may take its answer yet");
        open[5].connection.set(Pace::Idle);
        open[3].connection.set(Pace::Idle);
        assert!(connections.make_room() && !is_open(&open[5]) && is_open(&open[3]));
        let another = connections.open();
        another.connection.admit();
        for open in [&another, &open[3]] {
            open.connection.set(Pace::Answering);
        }
        assert!(!connections.make_room());
        open[7].connection.0.state.lock().since -= 2 * SLOW;
        assert!(connections.make_room() && !is_open(&open[7]), "it does not read");
    }
}
