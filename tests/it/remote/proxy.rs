//! A proxy in front of the S3 server, which makes the weather and counts the requests.
//!
//! Each request has a connection of its own, and is read whole before it is handed on. So what
//! becomes of it can be chosen by what it is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use crate::remote::server::Server;
use crate::support::Command;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Get,
    Head,
    List,
    /// A whole object.
    Put,
    /// The beginning, a part, and the end of an object in parts.
    Begin,
    Part,
    Complete,
    /// Many keys, or one, or the parts of an object.
    Delete,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) kind: Kind,
    /// Its key below the prefix of the bucket; of a list the directory.
    pub(super) key: String,
    /// True if it has a checksum in a header.
    pub(super) has_checksum: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weather {
    /// It is handed on after this time.
    Late(Duration),
    /// So many bytes of it are handed on, then both connections are cut.
    CutRequest(usize),
    /// It is served, and the connection is cut after so many bytes of the answer.
    CutAnswer(usize),
    /// It is served; all of the body is announced, and half of it comes.
    HalfBody,
    /// It is served; half of the body comes, and the answer says that this is all.
    Short,
    /// It is served; a byte in the middle of the body is another one.
    WrongByte,
    /// It is not served: `SlowDown` (503), `AccessDenied` (403), `NoSuchBucket` (404) or
    /// `InvalidArgument` (400).
    Status(u16),
    /// It is not served: the answer is a web page.
    Page,
    /// It is not served: the answer is a page of so many names of `c7`, and says that there are
    /// more.
    Endless(usize),
}

/// What becomes of some requests.
struct Rule {
    /// The requests that still get it.
    left: usize,
    of: Box<dyn Fn(&Seen) -> bool + Send>,
    weather: Weather,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    seen: Vec<Seen>,
}

struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    is_over: AtomicBool,
}

/// A server, and the proxy in front of it. Both end when it is dropped.
pub(super) struct Proxy {
    server: Server,
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts both, with fair weather.
    pub(super) fn start() -> Self {
        let server = Server::start();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (state, is_over) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { server: server.address(), state, is_over });
        let accepting = Arc::clone(&shared);
        let thread = Some(thread::spawn(move || accept(&listener, &accepting)));
        Self { server, address, shared, thread }
    }

    /// Gives a command the bucket, behind the proxy.
    pub(super) fn environment(&self, command: Command) -> Command {
        let url = format!("http://{}", self.address);
        self.server.environment(command).env("AWS_ENDPOINT_URL", url)
    }

    /// Makes the weather for the first `times` requests of those that `of` names. What was chosen
    /// earlier comes first.
    pub(super) fn make(
        &self,
        times: usize,
        of: impl Fn(&Seen) -> bool + Send + 'static,
        weather: Weather,
    ) {
        self.shared.state.lock().rules.push(Rule { left: times, of: Box::new(of), weather });
    }

    /// Makes fair weather. Returns how many requests should have had another and did not come.
    pub(super) fn clear(&self) -> usize {
        let rules = std::mem::take(&mut self.shared.state.lock().rules);
        rules.iter().map(|rule| rule.left).sum()
    }

    /// Returns the requests that came since it was last asked.
    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.state.lock().seen)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The thread waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy has failed the test already.
            drop(thread.join());
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let (client, shared) = (client.unwrap(), Arc::clone(shared));
        // A client that is killed cuts its connection.
        thread::spawn(move || drop(shared.serve(&client)));
    }
}

impl Shared {
    fn serve(&self, mut client: &TcpStream) -> io::Result<()> {
        let request = read(client)?;
        let answer = match self.see(Seen::of(&request)) {
            Some(Weather::Status(status)) => refusal(status),
            Some(Weather::Endless(names)) => page(names),
            Some(Weather::Page) => answer(200, "text/html", "<html>Log in</html>"),
            Some(Weather::CutRequest(bytes)) => {
                let mut server = TcpStream::connect(self.server)?;
                return server.write_all(&request[..bytes.min(request.len())]);
            }
            Some(Weather::Late(time)) => {
                thread::sleep(time);
                self.ask(&request)?
            }
            Some(weather) => spoilt(self.ask(&request)?, weather),
            None => self.ask(&request)?,
        };
        client.write_all(&answer)
    }

    fn see(&self, seen: Seen) -> Option<Weather> {
        let mut state = self.state.lock();
        let rule = state.rules.iter_mut().find(|rule| rule.left > 0 && (rule.of)(&seen));
        let weather = rule.map(|rule| {
            rule.left -= 1;
            rule.weather
        });
        state.seen.push(seen);
        weather
    }

    /// Returns the answer of the server, as it comes over the wire.
    fn ask(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(self.server)?;
        server.write_all(request)?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

impl Seen {
    fn of(request: &[u8]) -> Self {
        let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (method, target) = (word(), word());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let asks = |name: &str| pairs().any(|(asked, _)| asked == name);
        let kind = match method {
            "GET" if asks("list-type") => Kind::List,
            "GET" => Kind::Get,
            "HEAD" => Kind::Head,
            "PUT" if asks("partNumber") => Kind::Part,
            "PUT" => Kind::Put,
            "POST" if asks("uploads") => Kind::Begin,
            "POST" if asks("uploadId") => Kind::Complete,
            _ => Kind::Delete,
        };
        let prefix = pairs().find(|(name, _)| *name == "prefix").map_or("", |(_, value)| value);
        let place = if kind == Kind::List { prefix } else { path };
        let place = percent_decode_str(place).decode_utf8_lossy().into_owned();
        let key = place.trim_start_matches("/bkt/");
        let key = key.strip_prefix("pre/fix/").unwrap_or(key).to_owned();
        let head = String::from_utf8_lossy(request).to_ascii_lowercase();
        let has_checksum = head.contains("\r\nx-amz-checksum-");
        Self { kind, key, has_checksum }
    }
}

/// Reads a request, and asks for an end of the connection after it.
fn read(client: &TcpStream) -> io::Result<Vec<u8>> {
    let (mut client, mut request) = (BufReader::new(client), Vec::<u8>::new());
    while !request.ends_with(b"\r\n\r\n") {
        if client.read_until(b'\n', &mut request)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let body = length(&request);
    request.truncate(request.len() - 2);
    request.extend_from_slice(b"connection: close\r\n\r\n");
    if client.take(body).read_to_end(&mut request)? as u64 != body {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(request)
}

/// Returns the bytes that a head announces.
fn length(head: &[u8]) -> u64 {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

/// Returns what comes of an answer.
fn spoilt(mut answer: Vec<u8>, weather: Weather) -> Vec<u8> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let body = head.map_or(answer.len(), |head| head + 4);
    let half = body + (answer.len() - body) / 2;
    match weather {
        Weather::CutAnswer(bytes) => answer.truncate(bytes),
        Weather::HalfBody => answer.truncate(half),
        Weather::Short => {
            let head = announcing(&answer[..body], half - body);
            answer.truncate(half);
            drop(answer.splice(..body, head));
        }
        Weather::WrongByte if half < answer.len() => answer[half] ^= 0x55,
        _ => {}
    }
    answer
}

/// Returns a head that announces so many bytes.
fn announcing(head: &[u8], length: usize) -> Vec<u8> {
    let line = |line: &str| {
        let is_length = line.to_ascii_lowercase().starts_with("content-length:");
        if is_length { format!("content-length: {length}") } else { line.to_owned() }
    };
    let lines: Vec<String> = String::from_utf8_lossy(head).split("\r\n").map(line).collect();
    lines.join("\r\n").into_bytes()
}

fn refusal(status: u16) -> Vec<u8> {
    let code = match status {
        403 => "AccessDenied",
        404 => "NoSuchBucket",
        400 => "InvalidArgument",
        _ => "SlowDown",
    };
    let error = format!("<Error><Code>{code}</Code><Message>weather</Message></Error>");
    answer(status, "application/xml", &error)
}

fn page(names: usize) -> Vec<u8> {
    let name = |number: usize| {
        format!(
            "<Contents><Key>pre/fix/conversations/c7/log/{number:08}</Key>\
             <LastModified>2026-01-13T12:00:00.000Z</LastModified><Size>1</Size></Contents>"
        )
    };
    let names: Vec<String> = (0..names).map(name).collect();
    let names = names.concat();
    answer(
        200,
        "application/xml",
        &format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>more</NextContinuationToken>{names}</ListBucketResult>"
        ),
    )
}

fn answer(status: u16, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Weather\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    (head + body).into_bytes()
}
