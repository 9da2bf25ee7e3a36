//! HTTP servers with a limited number of connections.
//!
//! Any user of this machine can connect and keep many silent connections open. A new connection is
//! therefore always accepted, and an old one is closed when the limit is reached. Connections of
//! clients that are not admitted are closed first, then connections without a request, then
//! connections whose client does not read its answer, and then connections that wait for a turn.
//!
//! No other machine has more than `SHARE` connections. Of each token, no more than `TURNS`
//! requests have a turn at a time, and further ones wait. So no single machine or token shuts out the
//! others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::pending;
use std::net::{IpAddr, Ipv6Addr};
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
/// Fewer than [`SHARE`], so that a machine whose requests have all turns can still connect to end one.
const TURNS: usize = CONNECTIONS / 2;
/// The part of an IPv6 address that is the same for all addresses of a machine.
const MACHINE_BITS: u128 = u128::MAX << 64;
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
            Ok((stream, peer)) => {
                let here = stream.local_addr().ok().map(|address| address.ip());
                (stream, Peer::of(peer.ip(), here))
            }
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
    peer: Peer,
    turns: Arc<TokenTurns>,
    state: Arc<Mutex<ConnectionState>>,
}

/// The machine that a connection comes from. All users of this machine have the same addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Here,
    Elsewhere(IpAddr),
}

impl Peer {
    /// Returns the machine with the address `peer`. `here` is the address of this machine that the
    /// peer has connected to.
    fn of(peer: IpAddr, here: Option<IpAddr>) -> Self {
        let peer = peer.to_canonical();
        if peer.is_loopback() || here.is_some_and(|here| here.to_canonical() == peer) {
            return Self::Here;
        }
        Self::Elsewhere(match peer {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & MACHINE_BITS).into(),
            IpAddr::V4(_) => peer,
        })
    }
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
        Arc::clone(turns.entry(token).or_insert_with(|| Arc::new(Semaphore::new(TURNS))))
    }
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

    /// Waits for a turn of the token with this number. The turn ends with the answer. Must not be
    /// called for a request that can end another one, which may have the last turn.
    pub async fn turn(&self, token: usize) {
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

    /// Returns `None` if the connection must not be closed.
    fn rank(&self) -> Option<ClosingRank> {
        let state = self.state.lock();
        match state.pace {
            // Activity does not protect a client that is not admitted.
            _ if !state.is_admitted => Some(ClosingRank::NotAdmitted),
            ConnectionPace::Idle => Some(ClosingRank::Idle(state.since)),
            ConnectionPace::Sending if state.since.elapsed() > SLOW => {
                Some(ClosingRank::Unread(state.since))
            }
            ConnectionPace::Waiting => Some(ClosingRank::Waiting(Reverse(state.since))),
            ConnectionPace::Sending | ConnectionPace::Answering => None,
        }
    }
}

/// The order in which connections are closed: by kind, and within a kind the oldest first. Of
/// connections that wait for a turn, the newest is closed first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ClosingRank {
    NotAdmitted,
    Idle(Instant),
    Unread(Instant),
    Waiting(Reverse<Instant>),
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
    fn make_room(&self, peer: Peer) -> Room {
        let mut numbered = self.numbered.lock();
        let of_peer = |connection: &Connection| connection.peer == peer;
        let has_share = peer != Peer::Here
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

    fn open(self: &Arc<Self>, peer: Peer) -> OpenConnection {
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

    const HERE: Peer = Peer::Here;
    const ELSEWHERE: Peer = Peer::Elsewhere(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)));

    /// Opens the maximum number of connections.
    fn full(connections: &Arc<OpenConnections>) -> Vec<OpenConnection> {
        let room = |_| {
            assert_eq!(connections.make_room(HERE), Room::Free);
            connections.open(HERE)
        };
        (0..CONNECTIONS).map(room).collect()
    }

    fn is_open(open: &OpenConnection) -> bool {
        open.connections.numbered.lock().open.contains_key(&open.number)
    }

    #[test]
    fn who_has_shown_nothing_gives_way_first_and_the_oldest_of_these() {
        let connections = Arc::<OpenConnections>::default();
        let open = full(&connections);
        for (number, pace) in [(0, ConnectionPace::Idle), (1, ConnectionPace::Answering)] {
            open[number].connection.admit();
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
            open.connection.admit();
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
        another.connection.admit();
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
            open.connection.admit();
            open.connection.set(ConnectionPace::Answering);
        }
        assert_eq!(connections.make_room(ELSEWHERE), Room::NoneOfPeer);
        assert_eq!(connections.make_room(HERE), Room::Free);
    }

    #[tokio::test]
    async fn requests_of_a_token_wait_for_its_turns_and_give_way_to_others() {
        let connections = Arc::<OpenConnections>::default();
        let open = full(&connections);
        for open in &open {
            open.connection.admit();
            open.connection.set(ConnectionPace::Answering);
        }
        for open in &open[..TURNS] {
            open.connection.turn(1).await;
        }
        open[TURNS + 2].connection.turn(2).await;
        let [older, newer] = [TURNS, TURNS + 1];
        for waiting in [older, newer] {
            assert!(timeout(SLOW / 100, open[waiting].connection.turn(1)).await.is_err());
        }
        let mut others = Vec::new();
        for (gives_way, stays) in [(newer, Some(older)), (older, None)] {
            assert_eq!(connections.make_room(HERE), Room::Free);
            assert!(!is_open(&open[gives_way]) && stays.is_none_or(|stays| is_open(&open[stays])));
            let another = connections.open(HERE);
            another.connection.admit();
            another.connection.set(ConnectionPace::Answering);
            others.push(another);
        }
        assert_eq!(connections.make_room(HERE), Room::None);
        open[0].connection.set(ConnectionPace::Idle);
        timeout(SLOW, open[older].connection.turn(1)).await.unwrap();
    }

    #[test]
    fn the_addresses_of_a_machine_are_one_peer() {
        let peer = |peer: &str, here: &str| Peer::of(peer.parse().unwrap(), here.parse().ok());
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "192.0.2.1"] {
            assert_eq!(peer(here, "::ffff:192.0.2.1"), Peer::Here, "{here}");
        }
        for (one, other) in [("192.0.2.7", "::ffff:192.0.2.7"), ("2001:db8::1", "2001:db8::f:2")] {
            assert_eq!(peer(one, "192.0.2.1"), peer(other, ""), "{one}");
        }
        assert_ne!(peer("2001:db8::1", ""), peer("2001:db8:0:1::1", ""));
        assert_ne!(peer("192.0.2.7", ""), peer("192.0.2.8", ""));
    }
}
