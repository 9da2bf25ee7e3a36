//! `ctxfs mcp` between a client of these tests and a scripted server: real processes, real pipes.

mod batches;
mod context;
mod counting;
mod ending;
mod extraction;
mod hostile;
mod http;
mod http_client;
mod http_hostile;
mod login;
mod mounting;
mod remote;
mod results;
mod revisions;
mod servers;
mod settings;
mod shared;
mod sharing;
mod survey;
mod transparent;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::support::{Command, TestStore, need};

/// The time for an answer. It ends tests that hang; a busy machine does not reach it.
const PATIENCE: Duration = Duration::from_mins(3);

/// The tools that a server of a file lists beside the three that all have.
const MORE_TOOLS: &str = "text,die,seen,change,ask,sleep,result,fail,silent,hang";

/// A client with a gateway.
struct Gateway {
    store: Arc<TestStore>,
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    next: u64,
    /// What came while an answer was waited for.
    other: Vec<Value>,
    /// The first bytes on its standard error.
    said: Arc<Mutex<Vec<u8>>>,
}

impl Gateway {
    /// Starts a gateway before the scripted server, and shakes hands.
    fn new() -> Self {
        Self::with(&[], &[])
    }

    /// The same with more options and environment.
    fn with(options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut gateway = Self::start(&Arc::new(TestStore::new()), options, &server(), environment);
        gateway.shake_hands("2025-11-25");
        gateway
    }

    fn start(
        store: &Arc<TestStore>,
        options: &[&str],
        server: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let options = [&["-c", "c7"], options].concat();
        let mut child = gateway(store, &options, server, environment)
            .with(|inner| {
                inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            })
            .spawn();
        let lines = lines_of(child.stdout.take().unwrap());
        let said = first_of(child.stderr.take().unwrap());
        let (input, other) = (child.stdin.take(), Vec::new());
        Self { store: Arc::clone(store), child, input, lines, next: 0, other, said }
    }

    /// Starts a gateway before the servers of a file, each with these members.
    fn of_servers(store: &Arc<TestStore>, options: &[&str], servers: &[(&str, Value)]) -> Self {
        let file = store.scratch("servers").join("mcp.json");
        let servers: serde_json::Map<String, Value> = servers
            .iter()
            .map(|(name, members)| {
                let [program, script] = server();
                let mut server = json!({"command": program, "args": [script]});
                let more = members.as_object().cloned().unwrap_or_default();
                server.as_object_mut().unwrap().extend(more);
                if server["env"]["SERVER_MORE"].is_null() {
                    server["env"]["SERVER_MORE"] = MORE_TOOLS.into();
                }
                ((*name).to_owned(), server)
            })
            .collect();
        std::fs::write(&file, json!({"mcpServers": servers}).to_string()).unwrap();
        let file = file.to_str().unwrap();
        Self::start(store, &[&["--servers", file], options].concat(), &[], &[])
    }

    fn shake_hands(&mut self, version: &str) -> Value {
        let capabilities = json!({"sampling": {}, "elicitation": {}});
        self.shake_hands_with(version, &capabilities)
    }

    fn shake_hands_with(&mut self, version: &str, capabilities: &Value) -> Value {
        let told = self.request(
            "initialize",
            &json!({
                "protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": "tests", "version": "1"},
            }),
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        told["result"].clone()
    }

    /// Sends a line.
    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Sends a request, and returns its id.
    fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string());
        id
    }

    /// Returns the next line.
    fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("no line came")
    }

    /// Returns the next message.
    fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:.500}"))
    }

    /// Waits for the answer with an id.
    fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let is_it = |message: &Value| message.get("method").is_none() && message["id"] == id;
        if let Some(at) = self.other.iter().position(is_it) {
            return self.other.remove(at);
        }
        loop {
            let message = self.message();
            if is_it(&message) {
                return message;
            }
            self.other.push(message);
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool, and returns its result.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object(), "{answer:.2000}");
        answer["result"].clone()
    }

    /// Calls a tool with the id of the call, and returns its result.
    fn call_as(&mut self, id: &str, tool: &str, arguments: &Value) -> Value {
        let meta = json!({"claudecode/toolUseId": id});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let answer = self.request("tools/call", &params);
        assert!(answer["result"].is_object(), "{answer:.2000}");
        answer["result"].clone()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Closes its input, and waits for its end.
    fn end(mut self) -> i32 {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        status.code().unwrap_or(-1)
    }

    /// Returns the first part of what it has said on standard error.
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock()).into_owned()
    }

    /// Returns the most memory that it had, in KiB.
    fn peak(&self) -> u64 {
        peak_of(self.child.id())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        rustix::process::kill_process(self.pid(), Signal::TERM).ok();
        self.child.wait().ok();
    }
}

/// Returns the command of a gateway before a server, or before none.
fn gateway(
    store: &TestStore,
    options: &[&str],
    server: &[&str],
    environment: &[(&str, &str)],
) -> Command {
    need("python3", "python3");
    let mut arguments = options.to_vec();
    if !server.is_empty() {
        arguments.push("--");
        arguments.extend(server);
    }
    let set = |command: Command, (name, value): &(&str, &str)| command.env(name, value);
    environment.iter().fold(store.ctxfs("mcp", &arguments), set)
}

/// The environment of a gateway that lets results of any length through.
const UNLIMITED: [(&str, &str); 2] =
    [("CTXFS_MAX_INLINE_CHARS", "never"), ("CTXFS_MAX_INLINE_BYTES", "never")];

/// Returns the command of the scripted server.
fn server() -> [&'static str; 2] {
    ["python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py")]
}

fn lines_of(output: ChildStdout) -> mpsc::Receiver<String> {
    // Bounded, so that a client that does not read is one.
    let (send, receive) = mpsc::sync_channel(4);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

/// Reads all that a gateway says, and keeps the first 64 KiB.
fn first_of(mut errors: ChildStderr) -> Arc<Mutex<Vec<u8>>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&said);
    thread::spawn(move || {
        let mut block = vec![0; 64 << 10];
        while let Ok(count @ 1..) = errors.read(&mut block) {
            let mut kept = kept.lock();
            let room = (64 << 10) - kept.len();
            kept.extend_from_slice(&block[..count.min(room)]);
        }
    });
    said
}

/// Returns the most memory that a process had, in KiB.
fn peak_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Returns the text of a block of a result.
fn text(result: &Value, block: usize) -> &str {
    result["content"][block]["text"].as_str().unwrap_or_else(|| panic!("{result:.2000}"))
}

/// Returns true if a process is there.
fn is_there(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z"))
}

/// Returns the plain bytes of an output of the conversation.
fn stored(store: &TestStore, name: &str) -> Vec<u8> {
    let path = store.plain("c7", name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", Path::display(&path)))
}
