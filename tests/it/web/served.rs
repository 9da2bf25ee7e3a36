//! A page that is served, and a browser that is nothing but HTTP.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Command, TestStore};

/// The time after which a connection on which nothing comes fails.
const PATIENCE: Duration = Duration::from_mins(2);

/// A page.
pub(super) struct Served {
    /// It lives as long as its page.
    _store: Arc<TestStore>,
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    pub(super) token: String,
    /// What it printed about itself.
    pub(super) told: Value,
    /// `name=value`.
    pub(super) cookie: String,
    pub(super) state: PathBuf,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// An answer that is read line by line.
pub(super) struct Lines {
    reader: BufReader<TcpStream>,
    chunk: Vec<u8>,
}

impl Served {
    pub(super) fn new(store: &Arc<TestStore>, options: &[&str]) -> Self {
        Self::with(store, options, |command| command)
    }

    /// Serves a page by a command that `set` changes.
    pub(super) fn with(
        store: &Arc<TestStore>,
        options: &[&str],
        set: impl FnOnce(Command) -> Command,
    ) -> Self {
        let state = store.scratch("state");
        let command = store.ctxfs("web", &["--json"]).args(options);
        let command = set(command).env("XDG_STATE_HOME", &state);
        let mut child = command
            .with(|inner| {
                inner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
            })
            .spawn();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let url = told["url"].as_str().unwrap();
        let (address, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let (address, token) = (address.to_owned(), token.to_owned());
        let mut served = Self {
            _store: Arc::clone(store),
            child,
            address,
            token,
            told,
            cookie: String::new(),
            state,
        };
        let welcome = served.ask("GET", &format!("/?token={}", served.token), &[]);
        assert_eq!(welcome.status, 303, "{welcome:?}");
        let cookie = welcome.header("set-cookie").unwrap();
        served.cookie = cookie.split(';').take(1).collect();
        served
    }

    /// Gets a page that is there.
    pub(super) fn get(&self, path: &str) -> Answer {
        let answer = self.try_get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer
    }

    pub(super) fn try_get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("cookie", &self.cookie)])
    }

    /// Sends a request with these headers beside its host, unless they have one.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        Answer::read(self.send(method, path, headers))
    }

    pub(super) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            write!(head, "host: {}\r\n", self.address).unwrap();
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        stream
    }

    /// Gets what comes line by line.
    pub(super) fn lines(&self, path: &str) -> Lines {
        Lines::read(self.send("GET", path, &[("cookie", &self.cookie)]))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and returns its exit code.
    pub(super) fn end(&mut self, signal: Signal) -> i32 {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        self.child.wait().ok();
    }
}

impl Answer {
    fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        let mut body = Vec::new();
        reader.read_to_end(&mut body).unwrap();
        let mut answer = Self { status, headers, body };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = joined(&answer.body);
        }
        answer
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Returns the values of an attribute, in the order of the page.
    pub(super) fn attributes(&self, name: &str) -> Vec<String> {
        let (text, mark) = (self.text(), format!(" {name}=\""));
        let marks = text.split(&mark).skip(1);
        marks.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    }
}

impl Lines {
    fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        let chunked = ("transfer-encoding".to_owned(), "chunked".to_owned());
        assert!(headers.contains(&chunked), "{status} {headers:?}");
        Self { reader, chunk: Vec::new() }
    }

    /// Returns the next line, or none at the end.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.chunk.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.chunk.drain(..=at).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            let mut size = String::new();
            if self.reader.read_line(&mut size).ok()? == 0 {
                return None;
            }
            let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
            let mut bytes = vec![0; size + 2];
            self.reader.read_exact(&mut bytes).ok()?;
            self.chunk.extend_from_slice(&bytes[..size]);
        }
    }

    /// Returns the data of the next event of this name.
    pub(super) fn event(&mut self, name: &str) -> Option<Value> {
        loop {
            let line = self.next()?;
            if line == format!("event: {name}") {
                let data = self.next()?;
                return serde_json::from_str(data.strip_prefix("data: ")?).ok();
            }
        }
    }
}

fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "it hung up: {lines:?}");
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &String| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    (status, lines[1..].iter().map(header).collect())
}

fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = chunks.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&chunks[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        body.extend_from_slice(&chunks[at + 2..at + 2 + size]);
        if size == 0 {
            break;
        }
        chunks = &chunks[at + 4 + size..];
    }
    body
}

/// Appends to a file a little at a time, in a thread.
pub(super) fn append_slowly(path: PathBuf, lines: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for number in 0..lines {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            writeln!(file, "later {number}").unwrap();
            thread::sleep(Duration::from_millis(20));
        }
    })
}
