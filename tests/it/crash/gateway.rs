//! `ctxfs mcp`, killed before any of its calls while it stores results.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::crash::chosen;
use crate::crash::sound::sound;
use crate::crash::stops::{attach_to_all, calls_by_thread, each_once};
use crate::support::{TestStore, eventually, listing, need};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
const LINE: &str = "2026-01-13 12:00:00 INFO request took 97 ms\n";
/// Lines of the short results.
const LINES: usize = 300;
/// Bytes of the result that is longer than the gateway holds in memory.
const LONG: usize = 2 << 20;

#[test]
fn gateway() {
    let whole = Traced::run(&[], |_| {});
    whole.check();
    let calls = each_once(calls_by_thread(&whole.trace));
    let mut stopped = 0;
    for call in chosen(calls) {
        println!("stopped before {call}");
        let run = Traced::run(&call.options(), |run| stopped += usize::from(run.was_killed()));
        run.check();
        run.again();
    }
    assert!(stopped >= 5, "stopped {stopped} times");
}

/// A store with what a gateway has left there.
struct Traced {
    store: TestStore,
    trace: PathBuf,
    /// The server and its child.
    processes: Vec<u32>,
    /// The calls that were answered, and the artifacts that their results name.
    answered: Vec<(&'static str, String)>,
}

impl Traced {
    /// Stores results while the system calls are traced, until the gateway dies.
    fn run(options: &[String], ended: impl FnOnce(&mut Gateway)) -> Self {
        let store = TestStore::new();
        let mut gateway = Gateway::start(&store);
        // With this, the store is open, and all threads have begun.
        let warm = gateway.call("warm", "text", &json!({"line": LINE, "counts": [LINES]}));
        assert!(!warm.is_empty());
        let processes = gateway.processes();
        let trace = store.scratch("trace").join("calls");
        let mut tracer = attach_to_all(gateway.child.id(), options, &trace);
        let mut answered = vec![("warm", warm)];
        answered.push((
            "one",
            gateway.call("one", "text", &json!({"line": LINE, "counts": [LINES, LINES]})),
        ));
        answered.push(("long", gateway.call("long", "stream", &json!({"size": LONG}))));
        answered.retain(|(_, artifact)| !artifact.is_empty());
        ended(&mut gateway);
        drop(gateway);
        tracer.wait().unwrap();
        Self { store, trace, processes, answered }
    }

    fn check(&self) {
        eventually("no process of the server is left", || {
            !self.processes.iter().any(|pid| is_there(*pid))
        });
        sound(&self.store);
        for artifact in self.outputs() {
            self.is_whole_or_told(&artifact);
        }
        for (call, artifact) in &self.answered {
            let bytes = self.store.view(artifact);
            assert!(is_of(call, &bytes), "{artifact}: {} bytes", bytes.len());
        }
    }

    /// Another gateway stores what this one could not, and removes what it left.
    fn again(&self) {
        let mut gateway = Gateway::start(&self.store);
        let artifact = gateway.call("one", "text", &json!({"line": LINE, "counts": [LINES]}));
        assert!(is_of("one", &self.store.view(&artifact)), "{artifact}");
        drop(gateway);
        let cache = self.store.path().join("cache");
        let left = if cache.exists() { listing(&cache) } else { Vec::new() };
        assert!(!left.iter().any(|name| name.starts_with(".ctxfs")), "{left:?}");
        self.check();
    }

    /// Returns the names of the outputs.
    fn outputs(&self) -> Vec<String> {
        let dir = self.store.path().join("context/c7/artifacts/tool");
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| format!("c7/artifacts/tool/{}", name.into_string().unwrap())).collect()
    }

    /// Asserts that an output is whole, or that its summary says that it is not.
    fn is_whole_or_told(&self, artifact: &str) {
        let call = artifact.rsplit('/').next().unwrap();
        let bytes = self.store.view(artifact);
        if !is_of(call, &bytes) {
            let summary =
                String::from_utf8(self.store.view(&format!("{artifact}.summary"))).unwrap();
            let told = summary.lines().next().unwrap().contains("INCOMPLETE");
            // Until there is a record, there is nothing to be lost.
            assert!(told || bytes.is_empty(), "{artifact}: {} bytes: {summary}", bytes.len());
        }
    }
}

/// Returns true if `bytes` are the whole result of a call, whose id `call` begins with.
fn is_of(call: &str, bytes: &[u8]) -> bool {
    if call.starts_with("long") {
        let line = b"2026-01-13 12:00:00 INFO request took 97 ms: caf\xc3\xa9 \"quoted\"\n";
        return bytes.len() >= LONG / 2 && bytes.chunks(line.len()).all(|one| one == line);
    }
    bytes == LINE.repeat(LINES).as_bytes()
}

/// A client with a gateway before the scripted server.
struct Gateway {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Gateway {
    fn start(store: &TestStore) -> Self {
        need("python3", "python3");
        let command = store.ctxfs("mcp", &["-c", "c7", "--", "python3", SERVER]).with(|inner| {
            inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        });
        let mut child = command.spawn();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut gateway = Self { child, input, output: BufReader::new(output), next: 0 };
        let client = json!({"name": "tests", "version": "1"});
        gateway.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client,
            }),
        );
        gateway
    }

    /// Returns the result of a request; null if the gateway dies.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        if writeln!(self.input, "{request}").is_err() {
            return Value::Null;
        }
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        // The last line may be cut.
        serde_json::from_str(&line).map_or(Value::Null, |message: Value| message["result"].clone())
    }

    /// Calls a tool. Returns the artifact of its result; nothing if the gateway dies.
    fn call(&mut self, id: &str, tool: &str, arguments: &Value) -> String {
        let meta = json!({"claudecode/toolUseId": id});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let result = self.request("tools/call", &params);
        let mut blocks = result["content"].as_array().into_iter().flatten();
        let link = blocks.find_map(|block| block["uri"].as_str()).unwrap_or_default();
        link.trim_start_matches("ctx://").to_owned()
    }

    /// Returns the ids of the server and of a process that it starts.
    fn processes(&mut self) -> Vec<u32> {
        let result = self.request("tools/call", &json!({"name": "child", "arguments": {}}));
        let text = result["content"][0]["text"].as_str().unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Returns true if it was killed and is not alive and well.
    fn was_killed(&mut self) -> bool {
        !is_there(self.child.id())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.child.wait().unwrap();
    }
}

fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
