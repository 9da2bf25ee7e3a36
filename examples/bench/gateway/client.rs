//! Client of MCP servers over stdio, and of a gateway over HTTP.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A client, and the server process to which it is connected.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    introduced: String,
}

impl Client {
    /// Starts a server and initializes the session.
    pub(crate) fn start(argv: &[String]) -> Self {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::with_capacity(1 << 16, child.stdout.take().unwrap());
        let input = child.stdin.take();
        let mut client = Self { child, input, output, line: Vec::new(), introduced: String::new() };
        client.send(&initialize());
        client.read();
        client.introduced = String::from_utf8(std::mem::take(&mut client.line)).unwrap();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// Reads a line and returns its length. Only the beginning of a long line is kept.
    fn read(&mut self) -> usize {
        self.line.clear();
        let mut length = 0;
        loop {
            let block = self.output.fill_buf().unwrap();
            assert!(!block.is_empty(), "the server ended");
            let end = block.iter().position(|byte| *byte == b'\n');
            let part = &block[..end.unwrap_or(block.len())];
            if self.line.len() < 8 << 20 {
                self.line.extend_from_slice(part);
            }
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.output.consume(used);
            if end.is_some() {
                return length;
            }
        }
    }

    /// Calls a tool that returns a text of `bytes` bytes. Returns the length of the answer in
    /// bytes.
    pub(crate) fn call_text(&mut self, bytes: usize) -> usize {
        self.send(&call(1, bytes));
        self.read()
    }

    /// Calls a tool that returns a text so short that the gateway forwards it.
    pub(crate) fn call_small(&mut self, bytes: usize) {
        let length = self.call_text(bytes);
        assert!(length > bytes, "{length} bytes");
    }

    /// Makes `count` calls, of which `under_way` are concurrent.
    pub(crate) fn call_many(&mut self, count: usize, under_way: usize, bytes: usize) {
        let first = under_way.min(count);
        (0..first).for_each(|id| self.send(&call(id, bytes)));
        for id in first..count + first {
            self.read();
            if id < count {
                self.send(&call(id, bytes));
            }
        }
    }

    /// Calls a tool. Returns the answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask("tools/call", &params)
    }

    fn ask(&mut self, method: &str, params: &Value) -> String {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.read();
        String::from_utf8(self.line.clone()).unwrap()
    }

    /// Returns the instructions and the list of tools, which a model receives at the start.
    pub(crate) fn told(&mut self) -> String {
        let introduced: Value = serde_json::from_str(&self.introduced).unwrap();
        let tools: Value = serde_json::from_str(&self.ask("tools/list", &json!({}))).unwrap();
        let instructions = introduced["result"]["instructions"].as_str().unwrap_or_default();
        format!("{instructions}\n{}", tools["result"]["tools"])
    }

    /// Returns the peak memory of the process in MB.
    pub(crate) fn peak(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes * 1024.0 / 1e6
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().unwrap();
    }
}

/// A gateway that serves clients over HTTP.
pub(crate) struct HttpGateway {
    child: Child,
    address: String,
}

impl HttpGateway {
    pub(crate) fn start(argv: &[String]) -> Self {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split('/').next()?.to_owned())
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.unwrap() }
    }

    /// Opens a session.
    pub(crate) fn session(&self) -> HttpSession {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let address = self.address.clone();
        let mut session = HttpSession { stream: BufReader::new(stream), address, id: None };
        session.post(&initialize());
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }
}

impl Drop for HttpGateway {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

/// A session over one connection.
pub(crate) struct HttpSession {
    stream: BufReader<TcpStream>,
    address: String,
    id: Option<String>,
}

impl HttpSession {
    pub(crate) fn call_text(&mut self, bytes: usize) {
        let length = self.post(&call(1, bytes));
        assert!(length > bytes, "{length} bytes");
    }

    /// Posts a message. Returns the length of the answer in bytes.
    fn post(&mut self, message: &Value) -> usize {
        let body = message.to_string();
        let session = match &self.id {
            Some(id) => format!("Mcp-Session-Id: {id}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let length = self.head();
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        length
    }

    /// Reads the head of an answer. Returns the length of its body.
    fn head(&mut self) -> usize {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let Some((name, value)) = line.split_once(':') else {
                if line.trim().is_empty() {
                    return length;
                }
                assert!(line.contains(" 20"), "{line}");
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "mcp-session-id" => self.id = Some(value.trim().to_owned()),
                _ => {}
            }
        }
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    }})
}

fn call(id: usize, bytes: usize) -> Value {
    let params = json!({"name": "tool_0", "arguments": {"bytes": bytes}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}
