//! A gateway over HTTP, and a client that speaks HTTP byte by byte.

use std::io::Read;

use super::*;

/// A gateway that listens.
pub(super) struct Served {
    pub(super) store: Arc<TestStore>,
    pub(super) child: Child,
    pub(super) address: String,
    /// The lines on standard error before the address.
    pub(super) said: Vec<String>,
}

impl Served {
    /// Starts a gateway before the scripted server.
    pub(super) fn new(options: &[&str]) -> Self {
        Self::start(&Arc::new(TestStore::new()), "127.0.0.1:0", options, &server(), &[])
    }

    pub(super) fn start(
        store: &Arc<TestStore>,
        address: &str,
        options: &[&str],
        server: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let options = [&["--http", address], options].concat();
        let mut child = gateway(store, &options, server, environment)
            .with(|inner| {
                inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            })
            .spawn();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut said = Vec::new();
        let address = loop {
            let mut line = String::new();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it ended: {said:?}");
            if let Some((_, url)) = line.trim().split_once("listening on http://") {
                break url.strip_suffix("/mcp").unwrap().to_owned();
            }
            said.push(line.trim().to_owned());
        };
        thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { store: Arc::clone(store), child, address, said }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn client(&self) -> Client {
        Client { address: self.address.clone(), headers: Vec::new(), next: 0 }
    }

    /// Returns a client with a session.
    pub(super) fn session(&self) -> Client {
        let mut client = self.client();
        client.shake_hands();
        client
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(super) fn peak(&self) -> u64 {
        peak_of(self.child.id())
    }

    /// Asks it to end, and returns its exit code.
    pub(super) fn end(&mut self, signal: Signal) -> i32 {
        rustix::process::kill_process(self.pid(), signal).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        rustix::process::kill_process(self.pid(), Signal::TERM).ok();
        self.child.wait().ok();
    }
}

/// A client. Its headers go with every request.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) address: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) next: u64,
}

impl Client {
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.headers.retain(|(header, _)| header != name);
        other
    }

    pub(super) fn shake_hands(&mut self) -> Value {
        let answer = self.post(&initialize());
        assert_eq!(answer.status, 200, "{:?}", answer.head);
        let session = answer.header("mcp-session-id").expect("no session").to_owned();
        let told = answer.json();
        self.set("mcp-session-id", &session);
        self.set("mcp-protocol-version", "2025-11-25");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&initialized).status, 202);
        told["result"].clone()
    }

    pub(super) fn post(&self, message: &Value) -> Answer {
        self.post_text(&message.to_string())
    }

    pub(super) fn post_text(&self, body: &str) -> Answer {
        self.send("POST", "/mcp", &[], Some(body))
    }

    /// Sends a request. The headers that every client sends are there unless `headers` names them.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        let mut stream = self.connect();
        stream.write_all(self.head(method, path, headers, body.map(str::len)).as_bytes()).unwrap();
        // It may refuse before it has read all.
        stream.write_all(body.unwrap_or_default().as_bytes()).ok();
        Answer::read(stream)
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Returns the head of a request.
    pub(super) fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: Option<usize>,
    ) -> String {
        let mut all = vec![
            ("host".to_owned(), self.address.clone()),
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
        ];
        all.extend(length.map(|length| ("content-length".to_owned(), length.to_string())));
        for (name, value) in self
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .chain(headers.iter().copied())
        {
            all.retain(|(other, _)| other != name);
            if !value.is_empty() {
                all.push((name.to_owned(), value.to_owned()));
            }
        }
        let lines: Vec<String> =
            all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} {path} HTTP/1.1\r\n{}\r\n", lines.concat())
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Answer {
        self.next += 1;
        self.post(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}))
    }

    /// Calls a tool, and returns its result.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer.status, 200, "{:?}", answer.head);
        answer.result()
    }

    pub(super) fn listen(&self) -> Answer {
        self.send("GET", "/mcp", &[("accept", "text/event-stream")], None)
    }
}

/// An answer, of which the body may still come.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: Vec<String>,
    body: Body,
}

struct Body {
    reader: BufReader<TcpStream>,
    /// The bytes that are left of a chunk or of the whole.
    left: usize,
    is_chunked: bool,
    is_done: bool,
}

impl Answer {
    pub(super) fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let status = head.first().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let body = Body { reader, left: 0, is_chunked: false, is_done: false };
        let mut answer = Self { status: status.unwrap_or(0), head, body };
        answer.body.is_chunked = answer.header("transfer-encoding") == Some("chunked");
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        answer.body.left = length;
        answer.body.is_done = !answer.body.is_chunked && length == 0;
        answer
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.iter().filter_map(|line| line.split_once(": "));
        found
            .into_iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(super) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    pub(super) fn text(mut self) -> String {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        text
    }

    pub(super) fn json(self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:.500}"))
    }

    /// Returns the next message of a stream.
    pub(super) fn event(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            if self.body.read(&mut byte).unwrap() == 0 {
                return None;
            }
            if byte[0] != b'\n' {
                line.push(byte[0]);
                continue;
            }
            if let Some(data) = line.strip_prefix(b"data: ") {
                return Some(serde_json::from_slice(data).unwrap());
            }
            line.clear();
        }
    }

    /// Returns the result in the answer, which may be a stream.
    pub(super) fn result(&mut self) -> Value {
        let answer = if self.is_stream() {
            std::iter::from_fn(|| self.event()).find(|event| event.get("method").is_none()).unwrap()
        } else {
            let mut text = String::new();
            self.body.read_to_string(&mut text).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        assert!(answer["result"].is_object(), "{answer:.1000}");
        answer["result"].clone()
    }

    /// Reads some bytes of the body.
    pub(super) fn some(&mut self, bytes: &mut [u8]) -> usize {
        self.body.read(bytes).unwrap()
    }
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.is_done {
            return Ok(0);
        }
        if self.left == 0 && self.is_chunked {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            self.is_done = self.left == 0;
            if self.is_done {
                return Ok(0);
            }
        }
        let most = self.left.min(into.len());
        let count = self.reader.read(&mut into[..most])?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count;
        if self.left == 0 && self.is_chunked {
            self.reader.read_exact(&mut [0; 2])?;
        }
        self.is_done = self.left == 0 && !self.is_chunked;
        Ok(count)
    }
}

pub(super) fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"sampling": {}, "elicitation": {}},
        "clientInfo": {"name": "tests", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params})
}
