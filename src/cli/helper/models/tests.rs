//! Tests with a model that obeys its requests.

use std::io::Write as _;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, JoinHandle};

use ctxfs_models::extract::fixture::profile;
use ctxfs_models::extract::{ProviderKind, ReplyEnd, ToolCall, ToolSpec, Turn};

use super::*;

/// A model whose behaviour is determined by its request.
struct Obeying(ModelProfile);

impl LanguageModel for Obeying {
    fn profile(&self) -> &ModelProfile {
        &self.0
    }

    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        let usage = TokenUsage { input: 7, output: 3 };
        if request.system == "wait" {
            while !stopped() {
                thread::sleep(Duration::from_millis(1));
            }
            let (kind, message) = (ModelFailureKind::Stopped, "stopped".to_owned());
            return Err(ModelFailure { kind, message, usage });
        }
        let call = ToolCall {
            id: "1".to_owned(),
            name: "Read".to_owned(),
            arguments: serde_json::to_string(&request.tools).unwrap(),
        };
        let text = format!("{:?}", request.turns);
        Ok(ModelReply { text, calls: vec![call], end: ReplyEnd::Length, usage })
    }
}

fn settings(timeout: Duration) -> ExtractSettings {
    let target = TargetSettings {
        profile: profile("local/qwen"),
        model: "qwen".to_owned(),
        kind: ProviderKind::OpenAi,
        base_url: "http://127.0.0.1:1".to_owned(),
        api_key_env: None,
    };
    ExtractSettings { targets: vec![target], timeout, ..ExtractSettings::default() }
}

fn apart() -> (Models, JoinHandle<io::Result<()>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serving = thread::spawn(move || {
        serve(&theirs, |target, timeout| {
            assert_eq!(timeout, Duration::from_secs(9));
            Arc::new(Obeying(target.profile.clone()))
        })
    });
    (model_proxies(settings(Duration::from_secs(9)), ours).unwrap(), serving)
}

#[test]
fn all_of_a_request_and_its_reply_arrive() {
    let (models, serving) = apart();
    let tools = vec![ToolSpec {
        name: "Read".to_owned(),
        description: "reads".to_owned(),
        parameters: serde_json::json!({"type": "object"}),
    }];
    let turns = vec![Turn::User("line\u{0}\u{fffd}\n".repeat(100_000))];
    let request = ModelRequest { turns, tools, ..ModelRequest::default() };
    let reply = models.all()[0].ask(&request, &|| false).unwrap();
    assert_eq!(reply.text, format!("{:?}", request.turns));
    assert_eq!(reply.calls[0].arguments, serde_json::to_string(&request.tools).unwrap());
    assert_eq!((reply.end, reply.usage.total()), (ReplyEnd::Length, 10));
    drop(models);
    serving.join().unwrap().unwrap();
}

#[test]
fn a_request_that_is_given_up_tells_its_cost() {
    let (models, _serving) = apart();
    let request = ModelRequest { system: "wait".to_owned(), ..ModelRequest::default() };
    let gone = AtomicBool::new(false);
    let failure = thread::scope(|scope| {
        let asking = scope.spawn(|| models.all()[0].ask(&request, &|| gone.load(SeqCst)));
        gone.store(true, SeqCst);
        asking.join().unwrap().unwrap_err()
    });
    assert_eq!((failure.kind, failure.usage.total()), (ModelFailureKind::Stopped, 10));
}

/// A question about a long output may have many chunks, of which `concurrency` are processed at the
/// same time.
#[test]
fn many_requests_are_answered_at_a_time() {
    let (models, _serving) = apart();
    let stop = AtomicBool::new(false);
    let request = ModelRequest { system: "wait".to_owned(), ..ModelRequest::default() };
    thread::scope(|scope| {
        let ask = || models.all()[0].ask(&request, &|| stop.load(SeqCst)).unwrap_err();
        let asking: Vec<_> = (0..100).map(|_| scope.spawn(ask)).collect();
        let other = models.all()[0].ask(&ModelRequest::default(), &|| false);
        stop.store(true, SeqCst);
        other.unwrap();
        for asking in asking {
            assert_eq!(asking.join().unwrap().usage.total(), 10);
        }
    });
}

#[test]
fn a_process_that_has_ended_is_named() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let models = model_proxies(settings(Duration::from_secs(9)), ours).unwrap();
    drop(theirs);
    let failure = models.all()[0].ask(&ModelRequest::default(), &|| false).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Unavailable);
    assert!(failure.message.ends_with("unmount and mount again"), "{failure}");
}

/// The server processes data from others, so it may send anything.
#[test]
fn a_document_that_is_too_long_is_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&ours).write_all(&u32::MAX.to_le_bytes()).unwrap();
    assert!(serve(&theirs, |_, _| unreachable!()).is_err());
}
