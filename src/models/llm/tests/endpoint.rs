//! An endpoint that follows a script.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use serde_json::Value;

/// A step of an answer.
#[derive(Clone)]
pub(super) enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    /// Sends these bytes this number of times, or until the client has disconnected.
    Repeat(Vec<u8>, usize),
    /// Waits until the client closes its connection, and reports that it did.
    WaitForEnd,
    /// Closes the connection.
    Close,
}

/// A request as it was received.
pub(super) struct Received {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }
}

/// Answers each request with the next answer of the script. The last answer is repeated forever.
pub(super) struct ModelEndpoint {
    pub(super) base_url: String,
    /// The requests that were received.
    pub(super) received: Receiver<Received>,
    /// One message for each connection that the client closed at [`Step::WaitForEnd`].
    pub(super) closed: Receiver<()>,
    connections: Arc<AtomicUsize>,
}

struct Script {
    answers: Mutex<VecDeque<Vec<Step>>>,
    received: Sender<Received>,
    closed: Sender<()>,
}

impl ModelEndpoint {
    pub(super) fn new(answers: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (received_by, received) = mpsc::channel();
        let (closed_by, closed) = mpsc::channel();
        let answers = Mutex::new(answers.into_iter().collect());
        let script = Arc::new(Script { answers, received: received_by, closed: closed_by });
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, script) = (stream.unwrap(), Arc::clone(&script));
                count.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || serve(&stream, &script));
            }
        });
        Self { base_url, received, closed, connections }
    }

    /// Returns the number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the requests that were received so far.
    pub(super) fn requests(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }

    /// Waits until the client has closed a connection at [`Step::WaitForEnd`]. The time limit is
    /// long enough for a busy machine, but shorter than any time after which the connection would
    /// be closed anyway.
    pub(super) fn is_closed_soon(&self) -> bool {
        self.closed.recv_timeout(Duration::from_secs(10)).is_ok()
    }
}

/// Serves a connection. Returns early if the client has disconnected.
fn serve(stream: &TcpStream, script: &Script) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let received = receive(&mut reader)?;
        script.received.send(received).ok()?;
        let answer = {
            let mut answers = script.answers.lock();
            let next = answers.pop_front()?;
            if answers.is_empty() {
                answers.push_back(next.clone());
            }
            next
        };
        for step in answer {
            play(&step, stream, script)?;
        }
    }
}

fn receive(reader: &mut BufReader<&TcpStream>) -> Option<Received> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let value = value.trim().to_owned();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        }
        headers.push((name.to_owned(), value));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).ok()?;
    Some(Received { line: line.trim_end().to_owned(), headers, body })
}

fn play(step: &Step, mut stream: &TcpStream, script: &Script) -> Option<()> {
    match step {
        Step::Send(bytes) => stream.write_all(bytes).ok(),
        Step::Pause(time) => {
            thread::sleep(*time);
            Some(())
        }
        Step::Repeat(bytes, times) => (0..*times).try_for_each(|_| stream.write_all(bytes).ok()),
        Step::WaitForEnd => {
            // If the client closes the connection with unread bytes, the connection is reset.
            let _end = stream.read(&mut [0; 16]);
            script.closed.send(()).ok();
            None
        }
        Step::Close => None,
    }
}

/// An address at which nothing listens. No other program can get its port.
pub(super) struct Nowhere {
    pub(super) host: String,
    _bound: OwnedFd,
}

impl Nowhere {
    pub(super) fn new() -> Self {
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddrV4::try_from(getsockname(&bound).unwrap()).unwrap();
        Self { host: address.to_string(), _bound: bound }
    }
}

/// An answer with a status, additional header lines, and a body of known length.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
    vec![Step::Send(text.into_bytes())]
}

/// An answer with a status and an error in JSON.
pub(super) fn error(status: &str, headers: &str, body: &Value) -> Vec<Step> {
    answer(status, &format!("content-type: application/json\r\n{headers}"), &body.to_string())
}

/// The head of an event stream.
pub(super) fn head() -> Step {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    Step::Send(head.into())
}

/// A part of an event stream.
pub(super) fn part(text: impl AsRef<[u8]>) -> Step {
    let text = text.as_ref();
    let mut chunk = format!("{:x}\r\n", text.len()).into_bytes();
    chunk.extend_from_slice(text);
    chunk.extend_from_slice(b"\r\n");
    Step::Send(chunk)
}

/// The end of an event stream.
pub(super) fn end() -> Step {
    Step::Send(b"0\r\n\r\n".to_vec())
}

/// A complete event stream of these texts.
pub(super) fn stream<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Vec<Step> {
    let parts = parts.into_iter().map(part);
    [head()].into_iter().chain(parts).chain([end()]).collect()
}

/// An event with this data.
pub(super) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An event in the first format with this `delta`.
pub(super) fn delta(delta: &Value) -> String {
    event(&serde_json::json!({ "choices": [{ "index": 0, "delta": delta }] }))
}

/// The last events of a reply in the first format: the reason for the end, the token counts, and
/// the end.
pub(super) fn ends(reason: &str) -> String {
    let reason = serde_json::json!({
        "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }],
    });
    let usage = serde_json::json!({
        "choices": [],
        "usage": { "prompt_tokens": 95, "completion_tokens": 30, "total_tokens": 125 },
    });
    format!("{}{}data: [DONE]\n\n", event(&reason), event(&usage))
}

/// A complete reply in the first format.
pub(super) fn says(text: &str) -> Vec<Step> {
    stream([delta(&serde_json::json!({ "content": text })), ends("stop")])
}
