//! An endpoint in the form of `OpenAI` that a script answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// What an endpoint does with a request.
pub(crate) enum Reply {
    /// Says this, in the wrapper that the request asks for.
    Answer(&'static str),
    /// Says this in the same way, and is cut before the closing tag.
    Cut(&'static str),
    /// Sends this status and body.
    Status(u16, &'static str),
    /// Sends nothing, until the client is gone.
    Silence,
}

type Script = dyn Fn(&Value) -> Reply + Send + Sync;

/// An endpoint on a port of its own, as long as the test runs.
pub(crate) struct Endpoint {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<Value>>>,
    gone: Arc<Mutex<u32>>,
}

impl Endpoint {
    pub(crate) fn new(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let script: Arc<Script> = Arc::new(script);
        let endpoint = Self { base_url, requests: Arc::default(), gone: Arc::default() };
        let (requests, gone) = (Arc::clone(&endpoint.requests), Arc::clone(&endpoint.gone));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = Arc::clone(&script);
                let (requests, gone) = (Arc::clone(&requests), Arc::clone(&gone));
                thread::spawn(move || {
                    while let Some(request) = read(&stream) {
                        let reply = script(&request);
                        requests.lock().push(request.clone());
                        if !answer(&stream, &request, &reply) {
                            *gone.lock() += 1;
                            return;
                        }
                    }
                });
            }
        });
        endpoint
    }

    /// Returns the bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().clone()
    }

    /// Returns how many connections the client closed while it waited for an answer.
    pub(crate) fn given_up(&self) -> u32 {
        *self.gone.lock()
    }

    /// Returns a settings file with the model of this endpoint, which asks for no key.
    pub(crate) fn keyless_settings(&self) -> String {
        self.settings().replace("api_key_env = \"TEST_KEY\"\n", "")
    }

    /// Returns a settings file with the model of this endpoint.
    pub(crate) fn settings(&self) -> String {
        format!(
            "[extract]\ntargets = [\"test/a\"]\n[extract.provider.test]\nkind = \"openai\"\n\
             base_url = \"{}\"\napi_key_env = \"TEST_KEY\"\n\
             models.a = {{ context_tokens = 8000, max_output_tokens = 500, tools = \"none\", \
             price_in = 1.0, price_out = 4.0 }}\n",
            self.base_url
        )
    }
}

/// Reads a request. `None` at the end of the connection.
fn read(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Returns false if the client is gone.
fn answer(mut stream: &TcpStream, request: &Value, reply: &Reply) -> bool {
    let (status, body) = match reply {
        Reply::Answer(text) => (200, completion(&wrapped(request, text), "stop")),
        Reply::Cut(text) => {
            let whole = wrapped(request, text);
            (200, completion(whole.rsplit_once("</").unwrap().0, "length"))
        }
        Reply::Status(status, body) => (*status, (*body).to_owned()),
        Reply::Silence => {
            let mut rest = [0];
            return stream.read(&mut rest).is_ok_and(|count| count > 0);
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).is_ok()
}

fn completion(text: &str, end: &str) -> String {
    let message = json!({"role": "assistant", "content": text});
    let choice = json!({"index": 0, "message": message, "finish_reason": end});
    json!({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
        .to_string()
}

fn wrapped(request: &Value, text: &str) -> String {
    let system = request["messages"][0]["content"].as_str().unwrap();
    let opening = system.lines().find(|line| line.starts_with("<ai-agent-")).unwrap();
    let name = opening.trim_start_matches('<').split(' ').next().unwrap();
    format!("{opening}\n{text}\n</{name}>")
}
