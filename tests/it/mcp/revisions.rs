//! Clients and servers that speak different revisions: each server here speaks one way alone.

mod held_calls;
mod new_clients;
mod old_clients;
mod together;

use super::*;
use crate::support::eventually;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The script of the servers.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/revisions.py");

/// The way in which a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is the only one, and a process.
    Process,
    /// It is the only one, over HTTP.
    Http,
    /// It is one of a file.
    File,
}

const WAYS: [Way; 3] = [Way::Process, Way::Http, Way::File];

/// A gateway before a server, and what runs that.
struct Pair {
    gateway: Gateway,
    way: Way,
    server: Option<Child>,
}

impl Pair {
    fn new(kind: &str, way: Way) -> Self {
        Self::with(kind, way, &[])
    }

    fn with(kind: &str, way: Way, options: &[&str]) -> Self {
        let store = Arc::new(TestStore::new());
        match way {
            Way::Process => {
                let command = ["python3", SCRIPT, kind];
                let gateway = Gateway::start(&store, options, &command, &[]);
                Self { gateway, way, server: None }
            }
            Way::Http => {
                let (server, url) = http_server(kind);
                let gateway = Gateway::start(&store, options, &[&url], &[]);
                Self { gateway, way, server: Some(server) }
            }
            Way::File => {
                let member = json!({"command": "python3", "args": [SCRIPT, kind]});
                let gateway = Gateway::of_servers(&store, options, &[("s", member)]);
                Self { gateway, way, server: None }
            }
        }
    }

    /// Shakes hands, and waits until the server is known.
    fn shake_hands(&mut self, version: &str) -> Value {
        self.shake_hands_with(version, &json!({"sampling": {}, "elicitation": {}}))
    }

    fn shake_hands_with(&mut self, version: &str, capabilities: &Value) -> Value {
        let said = self.gateway.shake_hands_with(version, capabilities);
        if self.way == Way::File {
            until_known(&mut self.gateway, &["s__echo"], None);
            self.gateway.other.clear();
        }
        said
    }

    /// Waits until the server is known to a new client.
    fn meet(&mut self) {
        if self.way == Way::File {
            until_known(&mut self.gateway, &["s__echo"], Some(meta(&all())));
        }
    }

    /// Returns the name of a tool as the client sees it.
    fn tool(&self, name: &str) -> String {
        if self.way == Way::File { format!("s__{name}") } else { name.to_owned() }
    }

    /// Returns the parameters of a call by an old client.
    fn old_call(&self, name: &str, arguments: &Value) -> Value {
        json!({"name": self.tool(name), "arguments": arguments})
    }

    /// Returns the parameters of a call by a new client.
    fn new_call(&self, name: &str, arguments: &Value, capabilities: &Value) -> Value {
        let meta = meta(capabilities);
        json!({"name": self.tool(name), "arguments": arguments, "_meta": meta})
    }

    /// Makes a call by a new client, and returns its result.
    fn call_new(&mut self, name: &str, arguments: &Value) -> Value {
        let params = self.new_call(name, arguments, &all());
        let answer = self.gateway.request("tools/call", &params);
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Makes a call again that asked for input.
    fn again(&mut self, mut params: Value, asked: &Value, responses: &Value) -> Value {
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = responses.clone();
        self.gateway.request("tools/call", &params)
    }

    fn seen_by_new(&mut self) -> String {
        let told = self.call_new("seen", &json!({}));
        text(&told, 0).to_owned()
    }

    fn seen_by_old(&mut self) -> String {
        let tool = self.tool("seen");
        text(&self.gateway.call(&tool, &json!({})), 0).to_owned()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().ok();
            server.wait().ok();
        }
    }
}

/// Waits until tools are listed. A busy machine may start a server late.
fn until_known(gateway: &mut Gateway, tools: &[&str], meta: Option<Value>) {
    let params = meta.map_or_else(|| json!({}), |meta| json!({"_meta": meta}));
    eventually("the servers are known", || {
        let listed = gateway.request("tools/list", &params).to_string();
        tools.iter().all(|tool| listed.contains(&format!("\"{tool}\"")))
    });
}

fn http_server(kind: &str) -> (Child, String) {
    let mut server = std::process::Command::new("python3")
        .args([SCRIPT, kind, "http"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (server, format!("http://127.0.0.1:{}/mcp", port.trim()))
}

/// The capabilities of a client that does everything.
fn all() -> Value {
    json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}})
}

/// Returns the `_meta` of the requests of a new client.
fn meta(capabilities: &Value) -> Value {
    json!({
        VERSION: "2026-07-28", CAPABILITIES: capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    })
}

/// Returns what a tool told as JSON.
fn told(result: &Value) -> Value {
    serde_json::from_str(text(result, 0)).unwrap_or_else(|error| panic!("{error}: {result}"))
}

/// Answers the next requests to an old client by their methods. Returns these with their parameters.
fn answer_all(gateway: &mut Gateway, count: usize) -> Vec<(String, Value)> {
    let mut asked = Vec::new();
    while asked.len() < count {
        let message = gateway.message();
        let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some())
        else {
            gateway.other.push(message);
            continue;
        };
        asked.push((method.to_owned(), message["params"].clone(), message["id"].clone()));
    }
    for (method, _, id) in asked.iter().rev() {
        let result = json!({"for": method, "n": 1});
        gateway.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }
    asked.sort_by_key(|(method, ..)| method.clone());
    asked.into_iter().map(|(method, params, _)| (method, params)).collect()
}

fn elicitation() -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}})
}

fn sampling() -> Value {
    let messages = json!([{"role": "user", "content": {"type": "text", "text": "Hi"}}]);
    json!({"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 9}})
}

fn roots() -> Value {
    json!({"method": "roots/list"})
}
