//! A gateway whose client and server are bytes in memory, for the fuzzers.

mod pieces;
mod scripted_server;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::bridge::Bridge;
use crate::config::ToolFilter;
use crate::envelope::{Envelope, Kind};
use crate::from_upstream::FromUpstreams;
use crate::hub::{Hub, IndexMode, Offer};
use crate::in_memory::pieces::PieceReader;
use crate::line_reader::{Line, LineReader};
use crate::manager::Inbox as _;
use crate::message::Message;
use crate::message_batch::{is_batch, messages};
use crate::options::{GatewayOptions, OfferMode};
use crate::pending::{Call, ListKind, Pending, PendingKind};
use crate::queue::{Queued, Receiver};
use crate::relay::{Relay, Route};
use crate::remote::event_lines::{EventLines, Marks};
use crate::server_log::ServerLog;
use crate::shelf::{LazyShelf, Shelf};
use crate::tool_name::Naming;
use crate::upstream::Upstream;
use crate::{from_client, queue};

/// The name of the server.
pub const SERVER: &str = "srv";
/// The most bytes of a message.
const MOST: u64 = 64 << 20;
/// The time for an answer. A request that takes longer is lost.
const PATIENCE: Duration = Duration::from_mins(1);

/// A gateway between one client and one server.
pub struct InMemoryGateway {
    runtime: Runtime,
    relay: Arc<Relay>,
    upstream: Arc<Upstream>,
    to_client: Receiver,
    to_server: Receiver,
    turns: u32,
}

/// A request of the client that waits for the server's answer.
#[derive(Debug, Clone, Copy)]
pub enum Waiting<'a> {
    /// The call of a tool, with the id of the call.
    Call(&'a str),
    /// The list of tools.
    Tools,
    /// `initialize`.
    Handshake,
    /// Any other.
    Other,
}

/// The messages that left the gateway.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// To the client.
    pub to_client: Vec<Vec<u8>>,
    /// To the server.
    pub to_server: Vec<Vec<u8>>,
}

impl InMemoryGateway {
    /// Returns a gateway that stores in a conversation.
    pub fn new(shelf: Arc<dyn Shelf>, mode: OfferMode) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (client, to_client) = queue::queue();
        let (server, to_server) = queue::queue();
        let upstream =
            Arc::new(Upstream::new(SERVER.to_owned(), None, server, ServerLog::unread()));
        upstream.began();
        let hub = match mode {
            OfferMode::Through => None,
            OfferMode::Direct => Some(Hub::new(vec![offer()], None)),
            OfferMode::Index(index) => {
                Some(Hub::new(vec![offer()], Some(IndexMode::new(*index, [7; 32]))))
            }
        };
        let shelf = Arc::new(LazyShelf::new(shelf));
        let (options, bridge) = (options(), Bridge::new([7; 32], 1, None));
        let upstreams = vec![Arc::clone(&upstream)];
        let relay = Arc::new(Relay::new(shelf, upstreams, &options, hub, bridge, client));
        let turns = relay.work.available_permits() as u32;
        Self { runtime, relay, upstream, to_client, to_server, turns }
    }

    /// Notes a request of the client, with its id as written. Returns the id that the answer has.
    pub fn expect(&self, waiting: Waiting<'_>, client_id: &str) -> u64 {
        self.relay.begin(client_id, Route::Own);
        let kind = match waiting {
            Waiting::Call(id) => PendingKind::Call(Box::new(call(id))),
            Waiting::Tools => PendingKind::Listing(ListKind::Tools),
            Waiting::Handshake => PendingKind::Handshake,
            Waiting::Other => PendingKind::Relay,
        };
        let client_id = Some(client_id.to_owned());
        self.upstream.expect(Pending {
            client_id,
            kind,
            token: None,
            deadline: None,
            crossing: None,
        })
    }

    /// Takes what the server says, in pieces.
    pub fn server_says(&mut self, pieces: &[&[u8]]) -> Sent {
        let relay = Arc::clone(&self.relay);
        let (upstream, turns) = (Arc::clone(&self.upstream), self.turns);
        let work = async move {
            let inbox = FromUpstreams(Arc::clone(&relay));
            let input = PieceReader::new(pieces);
            let mut lines = LineReader::new(input, Arc::clone(&relay.shelf), MOST);
            while let Some(line) = lines.next(&*upstream).await.expect("memory can be read") {
                inbox.line(&upstream, line).await;
            }
            settle(&relay, turns).await;
        };
        self.drive(work)
    }

    /// Takes what the client says, in pieces. The server answers each request, and the client
    /// refuses what it is asked. Returns when each request has its answer.
    pub fn client_says(&mut self, pieces: &[&[u8]]) -> Sent {
        let (relay, turns) = (Arc::clone(&self.relay), self.turns);
        let work = async move {
            let mut lines =
                LineReader::new(PieceReader::new(pieces), Arc::clone(&relay.shelf), MOST);
            let mut asked = Vec::new();
            while let Some(line) = lines.next(&()).await.expect("memory can be read") {
                if let Line::Message(message) = &line {
                    asked.extend(requests(message));
                }
                from_client::line(&relay, line).await;
            }
            for id in asked {
                let ended = timeout(PATIENCE, relay.until_ended(&id)).await;
                ended.unwrap_or_else(|_| panic!("the request {id} has no answer"));
            }
            settle(&relay, turns).await;
        };
        self.drive(work)
    }

    /// Does `work`, and hands over what leaves the gateway meanwhile.
    fn drive(&mut self, work: impl Future<Output = ()>) -> Sent {
        let Self { runtime, relay, upstream, to_client, to_server, .. } = self;
        let inbox = FromUpstreams(Arc::clone(relay));
        runtime.block_on(async {
            let (mut sent, mut work) = (Sent::default(), pin!(work));
            loop {
                tokio::select! {
                    biased;
                    Some(queued) = to_client.next() => {
                        let told = bytes(queued);
                        let refusal = refusal(&told);
                        sent.to_client.push(told);
                        if let Some(refusal) = refusal {
                            from_client::line(relay, line(refusal)).await;
                        }
                    }
                    Some(queued) = to_server.next() => {
                        let told = bytes(queued);
                        let answer = scripted_server::answer(&told);
                        sent.to_server.push(told);
                        if let Some(answer) = answer {
                            inbox.line(upstream, line(answer)).await;
                        }
                    }
                    () = &mut work => break,
                }
            }
            while let Some(queued) = to_client.at_hand() {
                sent.to_client.push(bytes(queued));
            }
            while let Some(queued) = to_server.at_hand() {
                sent.to_server.push(bytes(queued));
            }
            sent
        })
    }
}

impl fmt::Debug for InMemoryGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryGateway").finish_non_exhaustive()
    }
}

/// Returns the lines that a stream of events has, which comes in pieces.
pub fn event_lines(pieces: &[&[u8]]) -> Vec<u8> {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let marks = Arc::new(Mutex::new(Marks::default()));
    let mut lines = Vec::new();
    let mut reader = EventLines::new(PieceReader::new(pieces), marks);
    runtime.block_on(reader.read_to_end(&mut lines)).expect("memory can be read");
    lines
}

/// Waits until all results are treated.
async fn settle(relay: &Relay, turns: u32) {
    drop(relay.work.acquire_many(turns).await);
    // Whoever had a turn sends what came of it.
    for _ in 0..8 {
        yield_now().await;
    }
}

/// Returns the ids of the requests in a message of the client, which may be a batch.
fn requests(message: &Message) -> Vec<String> {
    let of = |message: &Message| {
        let envelope = Envelope::of(message).ok()?;
        let is_request = matches!(envelope.kind, Kind::Request { .. });
        envelope.id(message).filter(|_| is_request).map(str::to_owned)
    };
    if !is_batch(message) {
        return of(message).into_iter().collect();
    }
    messages(message).unwrap_or_default().iter().filter_map(of).collect()
}

/// Returns the client's answer to a question.
fn refusal(told: &[u8]) -> Option<String> {
    let message = Message::whole(String::from_utf8(told.to_vec()).ok()?);
    let envelope = Envelope::of(&message).ok()?;
    let is_request = matches!(envelope.kind, Kind::Request { .. });
    let id = envelope.id(&message).filter(|_| is_request)?;
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"decline"}}}}"#))
}

fn line(text: String) -> Line {
    Line::Message(Message::whole(text))
}

fn bytes(queued: Queued) -> Vec<u8> {
    let mut bytes = Vec::new();
    queued.message.write_to(&mut bytes).expect("memory takes all");
    bytes
}

/// Returns the options of the gateway, as far as they matter in memory.
fn options() -> GatewayOptions {
    GatewayOptions {
        servers: Vec::new(),
        offer: OfferMode::Through,
        context_tools: true,
        references: true,
        max_binary: 1 << 20,
        max_result: MOST,
        guard_command: Vec::new(),
    }
}

fn offer() -> Offer {
    let naming = Naming::with_prefix(SERVER);
    Offer { naming, tools: ToolFilter::default(), trust: true }
}

fn call(id: &str) -> Call {
    Call {
        id: id.to_owned(),
        server: SERVER.to_owned(),
        tool: "tool".to_owned(),
        arguments: Some("{}".to_owned()),
        started: Instant::now(),
        links: true,
    }
}
