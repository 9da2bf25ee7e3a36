//! HTTP servers with a limited number of connections.
//!
//! Any user of this machine can connect and keep many silent connections open. A new connection is
//! therefore always accepted, and an old one is closed when the limit is reached. Connections of
//! clients that are not admitted are closed first, then connections without a request, then
//! connections whose client does not read its answer, and then connections that wait for a turn.
//!
//! No peer on another machine has more than [`SHARE`] connections, and of each token no more than as
//! many requests are answered at a time: further ones wait. So neither shuts out the others.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::pending;
use std::net::IpAddr;
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
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

const CONNECTIONS: usize = 512;
const SHARE: usize = CONNECTIONS / 4 * 3;
/// Time limit for the head of the first request.
const FIRST_HEAD: Duration = Duration::from_secs(5);
/// Time limit for the head of a further request, counted from the end of the previous request.
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
        let (stream, peer) = match listener.accept().await {
            Ok((stream, peer)) => (stream, peer.ip()),
            Err(error) => {
                tracing::warn!("a connection cannot be taken: {error}");
                sleep(PAUSE).await;
                continue;
            }
        };
        let room = loop {
            match connections.make_room(peer) {
                Room::None => sleep(PAUSE).await,
                room => break room,
            }
        };
        if room == Room::NoneOfPeer {
            continue;
        }
        let open = connections.open(peer);
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
        () = open.connection.silence() => {}
    }
}

/// A connection, for use by the services that answer its requests.
#[derive(Clone)]
pub struct Connection {
    /// Signal that closes the connection.
    pub hang_up: Arc<Notify>,
    peer: IpAddr,
    turns: Arc<TokenTurns>,
    state: Arc<Mutex<ConnectionState>>,
}

/// `turn` is held while a request of a token is answered.
struct ConnectionState {
    is_admitted: bool,
    has_asked: bool,
    pace: ConnectionPace,
    since: Instant,
    turn: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionPace {
    Idle,
    Waiting,
    Answering,
    Sending,
}

/// The turns of each token, by its number.
#[derive(Default)]
struct TokenTurns(Mutex<HashMap<usize, Arc<Semaphore>>>);

impl TokenTurns {
    fn of(&self, token: usize) -> Arc<Semaphore> {
        let mut turns = self.0.lock();
        Arc::clone(turns.entry(token).or_insert_with(|| Arc::new(Semaphore::new(SHARE))))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Records that a request has authenticated its client, and waits for a turn of the `token`
    /// with this number, if the client has one. The turn ends with the answer. If the limit is
    /// reached, connections without this record are closed first.
    pub async fn admit(&self, token: Option<usize>) {
        self.state.lock().is_admitted = true;
        let Some(token) = token else { return };
        let turns = self.turns.of(token);
        let mut turn = Arc::clone(&turns).try_acquire_owned().ok();
        if turn.is_none() {
            self.set(ConnectionPace::Waiting);
            turn = turns.acquire_owned().await.ok();
            self.set(ConnectionPace::Answering);
        }
        self.state.lock().turn = turn;
    }

    fn set(&self, pace: ConnectionPace) {
        let mut state = self.state.lock();
        state.has_asked |= pace == ConnectionPace::Answering;
        state.pace = pace;
        state.since = Instant::now();
        state.turn.take_if(|_| pace == ConnectionPace::Idle);
    }

    /// Waits until the time for the first request is over. Never ends if there is one by then.
    async fn silence(&self) {
        sleep(FIRST_HEAD).await;
        if self.state.lock().has_asked {
            pending::<()>().await;
        }
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
            ConnectionPace::Waiting => Some((3, Some(state.since))),
            ConnectionPace::Sending | ConnectionPace::Answering => None,
        }
    }
}

#[derive(Default)]
struct OpenConnections {
    numbered: Mutex<NumberedConnections>,
    turns: Arc<TokenTurns>,
}

#[derive(Default)]
struct NumberedConnections {
    next: u64,
    open: BTreeMap<u64, Connection>,
}

/// Room for a new connection. `None` and `NoneOfPeer` mean that no connection, or none of the same
/// peer, may be closed for it.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Free,
    None,
    NoneOfPeer,
}

struct OpenConnection {
    connection: Connection,
    number: u64,
    connections: Arc<OpenConnections>,
}

impl OpenConnections {
    /// Closes a connection if a limit is reached.
    fn make_room(&self, peer: IpAddr) -> Room {
        let mut numbered = self.numbered.lock();
        let of_peer = |connection: &Connection| connection.peer == peer;
        // All users of this machine have the same address.
        let has_share = !peer.is_loopback()
            && numbered.open.values().filter(|open| of_peer(open)).count() >= SHARE;
        if numbered.open.len() < CONNECTIONS && !has_share {
            return Room::Free;
        }
        let concerned = numbered.open.iter().filter(|(_, open)| !has_share || of_peer(open));
        let ranks = concerned.filter_map(|(number, open)| Some((open.rank()?, *number)));
        let Some((_, number)) = ranks.min() else {
            return if has_share { Room::NoneOfPeer } else { Room::None };
        };
        if let Some(connection) = numbered.open.remove(&number) {
            connection.hang_up.notify_one();
        }
        Room::Free
    }

    fn open(self: &Arc<Self>, peer: IpAddr) -> OpenConnection {
        let state = ConnectionState {
            is_admitted: false,
            has_asked: false,
            pace: ConnectionPace::Idle,
            since: Instant::now(),
            turn: None,
        };
        let connection = Connection {
            hang_up: Arc::default(),
            peer,
            turns: Arc::clone(&self.turns),
            state: Arc::new(Mutex::new(state)),
        };
        let mut numbered = self.numbered.lock();
        numbered.next += 1;
        let number = numbered.next;
        numbered.open.insert(number, connection.clone());
        OpenConnection { connection, number, connections: Arc::clone(self) }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.numbered.lock().open.remove(&self.number);
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
    use std::net::Ipv4Addr;

    use tokio::time::timeout;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    /// Opens the maximum number of connections.
    fn full(connections: &Arc<OpenConnections>) -> Vec<OpenConnection> {
        let room = |_| {
            assert_eq!(connections.make_room(HERE), Room::Free);
            connections.open(HERE)
        };
        (0..CONNECTIONS).map(room).collect()
    }

    fn admit(open: &OpenConnection) {
        open.connection.state.lock().is_admitted = true;
    }

    fn is_open(open: &OpenConnection) -> bool {
        open.connections.numbered.lock().open.contains_key(&open.number)
    }

    #[test]
    fn who_has_shown_nothing_gives_way_first_and_the_oldest_of_these() {
        let connections = Arc::<OpenConnections>::default();
        let open = full(&connections);
        for (number, pace) in [(0, ConnectionPace::Idle), (1, ConnectionPace::Answering)] {
            admit(&open[number]);
            open[number].connection.set(pace);
        }
        assert_eq!(connections.make_room(HERE), Room::Free);
        let newest = connections.open(HERE);
        assert!(is_open(&open[0]) && is_open(&open[1]) && !is_open(&open[2]) && is_open(&open[3]));
        drop(newest);
        assert_eq!(connections.numbered.lock().open.len(), CONNECTIONS - 1);
    }

    #[test]
    fn of_those_that_may_come_in_the_longest_idle_gives_way() {
        let connections = Arc::<OpenConnections>::default();
        let open = full(&connections);
        for open in &open {
            admit(open);
            open.connection.set(ConnectionPace::Answering);
        }
        assert_eq!(connections.make_room(HERE), Room::None, "none waits for a client");
        open[7].connection.set(ConnectionPace::Sending);
        assert_eq!(connections.make_room(HERE), Room::None, "it may take its answer yet");
        open[5].connection.set(ConnectionPace::Idle);
        open[3].connection.set(ConnectionPace::Idle);
        assert_eq!(connections.make_room(HERE), Room::Free);
        assert!(!is_open(&open[5]) && is_open(&open[3]));
        let another = connections.open(HERE);
        admit(&another);
        for open in [&another, &open[3]] {
            open.connection.set(ConnectionPace::Answering);
        }
        assert_eq!(connections.make_room(HERE), Room::None);
        open[7].connection.state.lock().since -= 2 * SLOW;
        assert_eq!(connections.make_room(HERE), Room::Free);
        assert!(!is_open(&open[7]), "it does not read");
    }

    #[test]
    fn a_peer_on_another_machine_has_its_share_and_no_more() {
        let connections = Arc::<OpenConnections>::default();
        let mut open: Vec<OpenConnection> =
            (0..SHARE).map(|_| connections.open(ELSEWHERE)).collect();
        assert_eq!(connections.make_room(HERE), Room::Free);
        open.push(connections.open(HERE));
        assert_eq!(connections.make_room(ELSEWHERE), Room::Free);
        assert!(!is_open(&open[0]) && is_open(&open[SHARE]));
        open.push(connections.open(ELSEWHERE));
        for open in &open {
            admit(open);
            open.connection.set(ConnectionPace::Answering);
        }
        assert_eq!(connections.make_room(ELSEWHERE), Room::NoneOfPeer);
        assert_eq!(connections.make_room(HERE), Room::Free);
    }

    #[tokio::test]
    async fn requests_of_a_token_wait_for_its_turns_and_give_way_to_others() {
        let connections = Arc::<OpenConnections>::default();
        let open = full(&connections);
        for open in &open[..SHARE] {
            open.connection.set(ConnectionPace::Answering);
            open.connection.admit(Some(1)).await;
        }
        open[SHARE + 1].connection.admit(Some(2)).await;
        open[SHARE + 1].connection.set(ConnectionPace::Answering);
        for open in &open[SHARE + 2..] {
            admit(open);
            open.connection.set(ConnectionPace::Answering);
        }
        assert!(timeout(SLOW / 100, open[SHARE].connection.admit(Some(1))).await.is_err());
        assert_eq!(connections.make_room(HERE), Room::Free);
        assert!(!is_open(&open[SHARE]), "it waits");
        let another = connections.open(HERE);
        admit(&another);
        another.connection.set(ConnectionPace::Answering);
        assert_eq!(connections.make_room(HERE), Room::None);
        open[0].connection.set(ConnectionPace::Idle);
        timeout(SLOW, open[SHARE].connection.admit(Some(1))).await.unwrap();
    }
}
