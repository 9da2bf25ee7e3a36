//! Tests requests that are stopped because the caller no longer waits.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};
use serde_json::json;

use super::endpoint::{ModelEndpoint, Step, delta, error, event, head, part};
use super::{openai, question};
use crate::extract::{LanguageModel as _, ModelFailure, ModelFailureKind, TokenUsage};
use crate::llm::HttpModel;

/// Asks, stops the question after `begun` returns, and asserts that the model ends soon afterwards.
fn stopped(model: &HttpModel, begun: impl FnOnce()) -> ModelFailure {
    let stopped = AtomicBool::new(false);
    let (failure, took) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let failure = model.ask(&question(), &|| stopped.load(Ordering::Relaxed)).unwrap_err();
            (failure, Instant::now())
        });
        begun();
        let began = Instant::now();
        stopped.store(true, Ordering::Relaxed);
        let (failure, ended) = asking.join().unwrap();
        (failure, ended.saturating_duration_since(began))
    });
    assert_eq!(failure.kind, ModelFailureKind::Stopped, "{}", failure.message);
    assert!(took < Duration::from_secs(5), "{took:?}");
    failure
}

/// Waits until a request was received, and slightly longer.
fn received(endpoint: &ModelEndpoint) {
    endpoint.received.recv().unwrap();
    thread::sleep(Duration::from_millis(100));
}

#[test]
fn a_request_without_an_answer_is_left() {
    let endpoint = ModelEndpoint::new([vec![Step::WaitForEnd]]);
    let model = openai(&endpoint.base_url);
    stopped(&model, || received(&endpoint));
    assert!(endpoint.is_closed_soon());
}

#[test]
fn a_reply_is_left_with_what_it_cost() {
    let usage = event(&json!({ "choices": [], "usage": { "prompt_tokens": 95 } }));
    let text = delta(&json!({ "content": "x" }));
    let endpoint = ModelEndpoint::new([vec![head(), part(text + &usage), Step::WaitForEnd]]);
    let model = openai(&endpoint.base_url);
    let failure = stopped(&model, || received(&endpoint));
    assert!(endpoint.is_closed_soon());
    assert_eq!(failure.usage, TokenUsage { input: 95, output: 0 });
}

#[test]
fn an_endless_reply_is_left() {
    let text = Step::Repeat(b"2\r\n\n\n\r\n".to_vec(), usize::MAX);
    let endpoint = ModelEndpoint::new([vec![head(), text]]);
    let model = openai(&endpoint.base_url);
    stopped(&model, || received(&endpoint));
}

#[test]
fn the_text_of_an_error_is_left() {
    let head = Step::Send(b"HTTP/1.1 500 Oops\r\n\r\nx".to_vec());
    let endpoint = ModelEndpoint::new([vec![head, Step::WaitForEnd]]);
    let model = openai(&endpoint.base_url);
    stopped(&model, || received(&endpoint));
    assert!(endpoint.is_closed_soon());
}

#[test]
fn a_pause_is_left() {
    let busy = error("429 Too Many Requests", "retry-after: 60\r\n", &json!({ "error": "busy" }));
    let endpoint = ModelEndpoint::new([busy]);
    let model = openai(&endpoint.base_url);
    stopped(&model, || received(&endpoint));
    assert!(endpoint.requests().is_empty());
}

/// A listener whose queue is full, so that a further connection has to wait.
fn full() -> (TcpListener, Vec<TcpStream>) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&socket, &any).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let queued: Vec<_> = (0..3).map_while(connect).collect();
    (listener, queued)
}

#[test]
fn a_connection_is_left() {
    let (listener, _queued) = full();
    let model = openai(&format!("http://{}", listener.local_addr().unwrap()));
    stopped(&model, || thread::sleep(Duration::from_millis(200)));
}

#[test]
fn a_handshake_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = openai(&format!("https://{}", listener.local_addr().unwrap()));
    let mut stream = None;
    stopped(&model, || stream = Some(listener.accept().unwrap().0));
    let mut stream = stream.unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // The first bytes of the handshake, then the end.
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
}

#[test]
fn nothing_is_sent_if_nobody_waits() {
    let endpoint = ModelEndpoint::new([vec![Step::WaitForEnd]]);
    let failure = openai(&endpoint.base_url).ask(&question(), &|| true).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Stopped);
    assert_eq!(endpoint.connections(), 0);
}

#[test]
fn connections_end_with_the_model() {
    let endpoint =
        ModelEndpoint::new([[super::endpoint::says("x"), vec![Step::WaitForEnd]].concat()]);
    let model = openai(&endpoint.base_url);
    super::ask(&model).unwrap();
    drop(model);
    assert!(endpoint.is_closed_soon());
}
