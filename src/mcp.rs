//! The MCP gateway: it stands between a client and its servers. Long results of tools are stored,
//! and the client gets stand-ins; all else passes.
//!
//! What passes is never parsed into values: a message is its bytes, of which ids are replaced
//! (`message`, `envelope`). A message that is too long for memory is a file and a skeleton
//! (`line_reader`, `skeleton`), and the texts in it go from the file to the store.
//!
//! Each server has a task that starts it, writes to it and ends it (`manager`), and one that reads
//! (`from_upstream`). All queues are bounded: who is too fast waits, and nobody else.
//!
//! The public modules decide about several servers behind one gateway: their configuration, names of
//! tools, the light index, permissions, batches. They take and return values alone, without sockets,
//! processes or a clock.

pub mod batch_plan;
pub mod budget;
pub mod config;
pub mod index;
pub mod permission;
pub mod tool_name;
pub mod visible;

mod context;
mod envelope;
mod from_client;
mod from_upstream;
mod guard;
mod hub;
mod line_reader;
mod listing;
mod manager;
mod message;
mod own;
mod pending;
mod process;
mod queue;
mod raw_object;
mod references;
mod relay;
mod results;
mod scratch;
mod server_log;
mod shelf;
mod skeleton;
mod unescape;
mod upstream;

use std::ffi::OsString;
use std::io;
use std::io::BufWriter;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use guard::end_servers;
pub use hub::IndexOptions;
pub use hub::Offer;
pub use process::ServerCommand;
pub use shelf::OpenShelf;
pub use shelf::Shelf;

use from_upstream::FromUpstreams;
use guard::Guard;
use hub::Hub;
use hub::IndexMode;
use line_reader::LineReader;
use manager::Manager;
use manager::Surroundings;
use manager::stopped;
use queue::Receiver;
use relay::Relay;
use server_log::ServerLog;
use shelf::LazyShelf;
use upstream::Upstream;

/// The most bytes of a message of the client.
const MOST_FROM_CLIENT: u64 = 64 << 20;
/// The time in which all servers end, which is more than each of them has.
const ENDING: Duration = Duration::from_secs(10);
/// The time that the client has to read what was sent last.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The options of a gateway.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// The servers.
    pub servers: Vec<ServerOptions>,
    /// The way in which they are offered.
    pub offer: OfferMode,
    /// True if the gateway has tools and resources of its own.
    pub context_tools: bool,
    /// The most bytes of a message of a server.
    pub max_result: u64,
    /// The command that runs [`end_servers`] on its standard input.
    pub guard_command: Vec<OsString>,
}

/// The way in which servers are offered to the client.
#[derive(Debug, Clone)]
pub enum OfferMode {
    /// There is at most one, which the client talks to itself.
    Through,
    /// Their tools are listed, under their names.
    Direct,
    /// A light index stands for them.
    Index(Box<IndexOptions>),
}

/// A server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Its name, in records and limits.
    pub name: String,
    /// The command.
    pub command: ServerCommand,
    /// The time for an answer, which progress restarts. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// What is offered of it, where the gateway answers for it.
    pub offer: Offer,
}

/// Serves the client at standard input and output until that ends, or a signal asks to stop. No
/// process of a server is left.
pub fn serve(options: GatewayOptions, shelf: Arc<dyn Shelf>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, receiver) = queue::queue();
    let (stop, stopping) = watch::channel(false);
    let stop = Arc::new(stop);
    let written = start_writer(receiver, Arc::clone(&stop))?;
    let shelf = Arc::new(LazyShelf::new(shelf));
    let served = runtime.block_on(run(options, &shelf, sender, &stop, stopping));
    // Reading standard input cannot be interrupted.
    runtime.shutdown_background();
    written.recv_timeout(LAST_WORDS).ok();
    shelf.finish();
    served
}

async fn run(
    options: GatewayOptions,
    shelf: &Arc<LazyShelf>,
    sender: queue::Sender,
    stop: &watch::Sender<bool>,
    stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let guard = Arc::new(Guard::new(options.guard_command));
    let log = ServerLog::start()?;
    let (mut upstreams, mut queues, mut offers) = (Vec::new(), Vec::new(), Vec::new());
    for server in options.servers {
        let (sender, queue) = queue::queue();
        let ServerOptions { name, command, timeout, offer } = server;
        upstreams.push(Arc::new(Upstream::new(name, command, timeout, sender)));
        queues.push(queue);
        offers.push(offer);
    }
    let hub = match options.offer {
        OfferMode::Direct => Some(Hub::new(offers, None)),
        OfferMode::Index(index) => {
            let random = random()?;
            Some(Hub::new(offers, Some(IndexMode::new(*index, random))))
        }
        OfferMode::Through => None,
    };
    let shared = Arc::clone(shelf);
    let relay = Relay::new(shared, upstreams.clone(), options.context_tools, hub, sender);
    let relay = Arc::new(relay);
    let mut managers = JoinSet::new();
    for (upstream, queue) in upstreams.into_iter().zip(queues) {
        let around = Surroundings {
            inbox: Arc::new(FromUpstreams(Arc::clone(&relay))),
            shelf: Arc::clone(shelf),
            guard: Arc::clone(&guard),
            log: log.clone(),
            stop: stopping.clone(),
            most: options.max_result,
        };
        managers.spawn(Manager::new(upstream, queue, around).run());
    }
    let ended = until_end(&relay, stopping).await;
    stop.send_replace(true);
    let all = async { while managers.join_next().await.is_some() {} };
    timeout(ENDING, all).await.ok();
    ended
}

/// Returns random bytes of the kernel.
fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if count == bytes.len() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Takes what the client sends, until it ends or a signal asks to stop.
async fn until_end(relay: &Arc<Relay>, mut stopping: watch::Receiver<bool>) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let input = tokio::io::stdin();
    let mut lines = LineReader::new(input, Arc::clone(&relay.shelf), MOST_FROM_CLIENT);
    let serving = async {
        while let Some(line) = lines.next(&()).await? {
            from_client::line(relay, line).await;
        }
        Ok(())
    };
    tokio::select! {
        served = serving => served,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = hang_up.recv() => Ok(()),
        () = stopped(&mut stopping) => Ok(()),
    }
}

/// Starts the thread that writes to the client. The receiver hears when it has ended.
fn start_writer(queue: Receiver, stop: Arc<watch::Sender<bool>>) -> io::Result<mpsc::Receiver<()>> {
    let (done, written) = mpsc::channel();
    let work = move || {
        if let Err(error) = write(queue) {
            tracing::info!("the client is gone: {error}");
        }
        stop.send_replace(true);
        drop(done);
    };
    thread::Builder::new().name("ctxfs-mcp-out".to_owned()).spawn(work)?;
    Ok(written)
}

fn write(mut queue: Receiver) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    while let Some(first) = queue.wait() {
        let mut next = Some(first);
        while let Some(queued) = next {
            queued.message.write_to(&mut out)?;
            out.write_all(b"\n")?;
            next = queue.at_hand();
        }
        out.flush()?;
    }
    Ok(())
}
