//! Connects the gateway to a client and a server in memory, for fuzzing.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{fmt, io};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::client::ClientSession;
use crate::config::ToolFilter;
use crate::from_client;
use crate::from_upstream::SessionInbox;
use crate::hub::{Hub, IndexMode};
use crate::json_rpc::{self, Envelope, MessageKind, is_batch, messages};
use crate::line_reader::{InputLine, LineReader};
use crate::lists::{ListKind, ListPage};
use crate::manager::Inbox as _;
use crate::message::Message;
use crate::options::{GatewayOptions, Offer, OfferMode};
use crate::pending::{PendingKind, PendingRequest, ToolCall};
use crate::process::ServerLog;
use crate::queue::{self, Queued, Receiver};
use crate::raw_object::RawObject;
use crate::relay::Relay;
use crate::remote::event_lines::{EventLines, StreamPosition};
use crate::shelf::{LazyShelf, Shelf};
use crate::tool_name::Naming;
use crate::upstream::Upstream;

/// The name of the only server.
pub const SERVER: &str = "srv";
const MAX_BYTES: u64 = 64 << 20;
// A request without an answer within this time fails the fuzz run.
const ANSWER_TIME: Duration = Duration::from_mins(1);

/// A gateway between one client and one server, with all messages as bytes in memory.
///
/// A scripted server answers the client's requests. Requests to the client are declined. The
/// gateway runs on a current-thread runtime, which makes runs reproducible.
pub struct InMemoryGateway {
    runtime: Runtime,
    relay: Arc<Relay>,
    upstream: Arc<Upstream>,
    to_client: Receiver,
    to_server: Receiver,
    turns: u32,
}

/// The kind of a request registered by [`InMemoryGateway::expect`], which decides how its answer is
/// processed.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Waiting<'a> {
    Call(&'a str),
    Tools,
    Handshake,
    Other,
}

/// The messages that the gateway sent during one call, in order, without their newlines.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Sent {
    pub to_client: Vec<Vec<u8>>,
    pub to_server: Vec<Vec<u8>>,
}

impl InMemoryGateway {
    /// Returns a gateway that stores outputs in the conversation of `shelf`.
    pub fn new(shelf: Arc<dyn Shelf>, mode: OfferMode) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (client, to_client) = queue::queue();
        let (server, to_server) = queue::queue();
        let upstream =
            Arc::new(Upstream::new(SERVER.to_owned(), None, server, ServerLog::unread()));
        upstream.began();
        let hub = match mode {
            OfferMode::Through => None,
            OfferMode::Direct => Some(Hub::new(vec![(SERVER.to_owned(), offer())], None)),
            OfferMode::Index(index) => Some(Hub::new(
                vec![(SERVER.to_owned(), offer())],
                Some(IndexMode::new(*index, [7; 32])),
            )),
        };
        let shelf = Arc::new(LazyShelf::new(shelf, true));
        let client = ClientSession::new(client, None, [7; 32]);
        let upstreams = vec![Arc::clone(&upstream)];
        let relay = Arc::new(Relay::new(shelf, upstreams, &options(), hub, client));
        let turns = relay.work.available_permits() as u32;
        Self { runtime, relay, upstream, to_client, to_server, turns }
    }

    /// Registers a client request under `client_id`, the client's id as written. Returns the id
    /// that the server's answer must carry.
    pub fn expect(&self, waiting: Waiting<'_>, client_id: &str) -> u64 {
        self.relay.client.begin(client_id);
        let kind = match waiting {
            Waiting::Call(id) => PendingKind::Call(Box::new(call(id))),
            Waiting::Tools => PendingKind::Listing(ListPage::new(ListKind::Tools, "")),
            Waiting::Handshake => PendingKind::Handshake,
            Waiting::Other => PendingKind::Relay,
        };
        let client_id = Some(client_id.to_owned());
        self.upstream.expect(PendingRequest { client_id, ..PendingRequest::new(kind) })
    }

    /// Processes input from the server. Each element of `pieces` is returned by one read.
    pub fn server_says(&mut self, pieces: &[&[u8]]) -> Sent {
        let relay = Arc::clone(&self.relay);
        let (upstream, turns) = (Arc::clone(&self.upstream), self.turns);
        let work = async move {
            let inbox = SessionInbox(Arc::clone(&relay));
            let input = PieceReader::new(pieces);
            let mut lines = LineReader::new(input, Arc::clone(&relay.shelf), MAX_BYTES);
            while let Some(line) = lines.next(&*upstream).await.expect("memory can be read") {
                inbox.line(&upstream, line).await;
            }
            settle(&relay, turns).await;
        };
        self.drive(work)
    }

    /// Processes input from the client. Each element of `pieces` is returned by one read. Returns
    /// after every request is answered.
    pub fn client_says(&mut self, pieces: &[&[u8]]) -> Sent {
        let (relay, turns) = (Arc::clone(&self.relay), self.turns);
        let work = async move {
            let mut lines =
                LineReader::new(PieceReader::new(pieces), Arc::clone(&relay.shelf), MAX_BYTES);
            let mut asked = Vec::new();
            while let Some(line) = lines.next(&()).await.expect("memory can be read") {
                if let InputLine::Message(message) = &line {
                    asked.extend(requests(message));
                }
                from_client::line(&relay, line).await;
            }
            for id in asked {
                let ended = timeout(ANSWER_TIME, relay.client.until_ended(&id)).await;
                ended.unwrap_or_else(|_| panic!("the request {id} has no answer"));
            }
            settle(&relay, turns).await;
        };
        self.drive(work)
    }

    fn drive(&mut self, work: impl Future<Output = ()>) -> Sent {
        let Self { runtime, relay, upstream, to_client, to_server, .. } = self;
        let inbox = SessionInbox(Arc::clone(relay));
        runtime.block_on(async {
            let (mut sent, mut work) = (Sent::default(), pin!(work));
            loop {
                tokio::select! {
                    biased;
                    Some(queued) = to_client.recv() => {
                        let text = bytes(queued);
                        let refusal = refusal(&text);
                        sent.to_client.push(text);
                        if let Some(refusal) = refusal {
                            from_client::line(relay, input_line(refusal)).await;
                        }
                    }
                    Some(queued) = to_server.recv() => {
                        let text = bytes(queued);
                        let answer = scripted_answer(&text);
                        sent.to_server.push(text);
                        if let Some(answer) = answer {
                            inbox.line(upstream, input_line(answer)).await;
                        }
                    }
                    () = &mut work => break,
                }
            }
            while let Ok(queued) = to_client.try_recv() {
                sent.to_client.push(bytes(queued));
            }
            while let Ok(queued) = to_server.try_recv() {
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

/// Returns the data lines of an event stream. Each element of `pieces` is returned by one read.
pub fn event_lines(pieces: &[&[u8]]) -> Vec<u8> {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let marks = Arc::new(Mutex::new(StreamPosition::default()));
    let mut lines = Vec::new();
    let mut reader = EventLines::new(PieceReader::new(pieces), marks);
    runtime.block_on(reader.read_to_end(&mut lines)).expect("memory can be read");
    lines
}

async fn settle(relay: &Relay, turns: u32) {
    drop(relay.work.acquire_many(turns).await);
    // Lets tasks that finished in this turn send their messages.
    for _ in 0..8 {
        yield_now().await;
    }
}

fn requests(message: &Message) -> Vec<String> {
    let of = |message: &Message| {
        let envelope = Envelope::of(message).ok()?;
        let is_request = matches!(envelope.kind, MessageKind::Request { .. });
        envelope.id(message).filter(|_| is_request).map(str::to_owned)
    };
    if !is_batch(message) {
        return of(message).into_iter().collect();
    }
    messages(message).unwrap_or_default().iter().filter_map(of).collect()
}

fn refusal(text: &[u8]) -> Option<String> {
    let message = Message::whole(String::from_utf8(text.to_vec()).ok()?);
    let envelope = Envelope::of(&message).ok()?;
    let is_request = matches!(envelope.kind, MessageKind::Request { .. });
    let id = envelope.id(&message).filter(|_| is_request)?;
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"decline"}}}}"#))
}

fn input_line(text: String) -> InputLine {
    InputLine::Message(Message::whole(text))
}

fn bytes(queued: Queued) -> Vec<u8> {
    let mut bytes = Vec::new();
    queued.message.write_to(&mut bytes).expect("memory takes all");
    bytes
}

fn options() -> GatewayOptions {
    GatewayOptions {
        servers: Vec::new(),
        offer: OfferMode::Through,
        context_tools: true,
        references: true,
        max_binary: 1 << 20,
        keeps_structure: true,
        max_result: MAX_BYTES,
        guard_command: Vec::new(),
    }
}

fn offer() -> Offer {
    let naming = Naming::with_prefix(SERVER);
    Offer { naming, tools: ToolFilter::default(), trust: true }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        server: SERVER.to_owned(),
        tool: "tool".to_owned(),
        arguments: Some("{}".to_owned()),
        started: Instant::now(),
        links: true,
    }
}

struct PieceReader<'a> {
    piece: &'a [u8],
    next: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> PieceReader<'a> {
    pub(crate) fn new(pieces: &'a [&'a [u8]]) -> Self {
        Self { piece: &[], next: pieces.iter() }
    }
}

impl AsyncRead for PieceReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.piece.is_empty() {
            let Some(piece) = self.next.next() else { return Poll::Ready(Ok(())) };
            self.piece = piece;
        }
        let (now, later) = self.piece.split_at(self.piece.len().min(into.remaining()));
        into.put_slice(now);
        self.piece = later;
        Poll::Ready(Ok(()))
    }
}

fn scripted_answer(message: &[u8]) -> Option<String> {
    let message = Message::whole(String::from_utf8(message.to_vec()).ok()?);
    let envelope = Envelope::of(&message).ok()?;
    let MessageKind::Request { method } = &envelope.kind else { return None };
    let params = envelope.params(&message).and_then(RawObject::parse).unwrap_or_default();
    let result = match &**method {
        "initialize" => initialized(),
        "tools/list" => tools(),
        "prompts/list" => json!({"prompts": [{"name": "ask"}]}),
        "resources/list" => json!({"resources": [{"uri": "test://one", "name": "one"}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "test://{id}", "name": "any"}]})
        }
        "tools/call" => {
            let arguments = params.get("arguments").map_or("", |arguments| arguments.get());
            json!({"content": [{"type": "text", "text": arguments}]})
        }
        _ => json!({}),
    };
    Some(json_rpc::answer(envelope.id(&message)?, &result.to_string()))
}

fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "scripted", "version": "1"},
        "instructions": "Be kind.",
    })
}

fn tools() -> Value {
    let text = json!({"type": "string"});
    json!({"tools": [
        {"name": "echo", "annotations": {"readOnlyHint": true}, "inputSchema": {"type": "object"}},
        {"name": "write", "inputSchema": {
            "type": "object", "properties": {"path": text, "text": text}, "required": ["path"],
        }},
        {"name": "context_tail", "inputSchema": {"type": "object"}},
    ]})
}
