//! Simulated network link between clients and the server. It delays each round trip, and limits the
//! bandwidth in each direction for all connections together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

/// Delay of each round trip. It also applies to a new connection.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Bandwidth of each direction.
const BYTES_PER_SECOND: f64 = 100e6;
/// Maximum bytes that are forwarded at once.
const CHUNK: usize = 64 << 10;
/// Maximum number of chunks in flight in one connection. The total of 4 MiB exceeds the
/// bandwidth-delay product of the link.
const ON_THE_WAY: usize = 64;
/// Tolerance for late timers. The link makes up for at most this time.
const SLACK: Duration = Duration::from_millis(5);

/// Simulated link. Clones share the bandwidth.
#[derive(Clone)]
pub(crate) struct Link {
    server: SocketAddr,
    to_server: Arc<Pace>,
    to_client: Arc<Pace>,
}

/// A direction of the link.
struct Pace {
    /// Time at which all accepted bytes are transferred.
    free: Mutex<Instant>,
    bytes: AtomicU64,
}

impl Link {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let pace = || Arc::new(Pace { free: Mutex::new(Instant::now()), bytes: AtomicU64::new(0) });
        Self { server, to_server: pace(), to_client: pace() }
    }

    /// Returns the number of bytes sent to the server, and the number received from the server.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.to_server.bytes.load(Relaxed), self.to_client.bytes.load(Relaxed))
    }

    /// Forwards all incoming connections until the future is dropped.
    pub(crate) async fn run(self, listener: TcpListener) {
        while let Ok((client, _)) = listener.accept().await {
            let link = self.clone();
            tokio::spawn(async move {
                // The client notices a broken connection.
                drop(link.carry(client).await);
            });
        }
    }

    async fn carry(self, client: TcpStream) -> std::io::Result<()> {
        sleep(ROUND_TRIP).await;
        let server = TcpStream::connect(self.server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::join!(
            one_way(from_client, to_server, &self.to_server),
            one_way(from_server, to_client, &self.to_client),
        );
        Ok(())
    }
}

/// Forwards bytes from one end to the other until one of them is closed.
async fn one_way(from: OwnedReadHalf, mut to: OwnedWriteHalf, pace: &Pace) {
    let (sender, mut receiver) = mpsc::channel(ON_THE_WAY);
    let reading = tokio::spawn(read(from, sender));
    while let Some((came, chunk)) = receiver.recv().await {
        sleep_until(came + ROUND_TRIP / 2).await;
        pace.pass(chunk.len()).await;
        if to.write_all(&chunk).await.is_err() {
            break;
        }
    }
    reading.abort();
    // The other end may be closed already.
    drop(to.shutdown().await);
}

async fn read(mut from: OwnedReadHalf, sender: mpsc::Sender<(Instant, Bytes)>) {
    loop {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        match from.read_buf(&mut buffer).await {
            Ok(1..) => {}
            _ => return,
        }
        if sender.send((Instant::now(), buffer.freeze())).await.is_err() {
            return;
        }
    }
}

impl Pace {
    /// Waits until `bytes` more bytes are transferred.
    async fn pass(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let now = Instant::now();
        let until = {
            let mut free = self.free.lock();
            let start = (*free).max(now.checked_sub(SLACK).unwrap_or(now));
            *free = start + Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND);
            *free
        };
        if until > now {
            sleep_until(until).await;
        }
    }
}
