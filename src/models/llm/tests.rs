//! Tests models with an endpoint that follows a script, over real sockets.

mod answers;
mod endpoint;
mod failures;
mod forms;
mod limits;
mod replies;
mod stopping;

use std::time::Duration;

use serde_json::json;

use crate::extract::fixture::profile;
use crate::extract::{
    LanguageModel as _, ModelFailure, ModelReply, ModelRequest, ProviderKind, TargetSettings,
    ToolSpec, Turn,
};
use crate::llm::HttpModel;

pub(super) const KEY: &str = "sk-test-0123456789abcdef";
/// The pauses in tests.
const SHORT: &[Duration] = &[Duration::from_millis(1); 3];
const LONG: Duration = Duration::from_mins(1);

pub(super) fn target(kind: ProviderKind, base_url: &str) -> TargetSettings {
    TargetSettings {
        profile: profile("local/qwen"),
        model: "qwen-1.5b".to_owned(),
        kind,
        base_url: base_url.to_owned(),
        api_key_env: Some("LOCAL_KEY".to_owned()),
    }
}

/// Returns a model with the test key and very short pauses between attempts.
pub(super) fn model_of(kind: ProviderKind, base_url: &str, timeout: Duration) -> HttpModel {
    let model = HttpModel::new(&target(kind, base_url), timeout, Some(KEY.to_owned())).unwrap();
    model.with_pauses(SHORT)
}

pub(super) fn openai(base_url: &str) -> HttpModel {
    model_of(ProviderKind::OpenAi, base_url, LONG)
}

pub(super) fn anthropic(base_url: &str) -> HttpModel {
    model_of(ProviderKind::Anthropic, base_url, LONG)
}

pub(super) fn ask(model: &HttpModel) -> Result<ModelReply, ModelFailure> {
    model.ask(&question(), &|| false)
}

pub(super) fn question() -> ModelRequest {
    ModelRequest {
        system: "You read.".to_owned(),
        turns: vec![Turn::User("Which line?".to_owned())],
        max_output_tokens: 140,
        ..ModelRequest::default()
    }
}

pub(super) fn tool() -> ToolSpec {
    ToolSpec {
        name: "Read".to_owned(),
        description: "Reads lines.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "from": { "type": "integer" } } }),
    }
}

#[test]
fn settings_that_make_no_model_are_refused() {
    let error = |base_url: &str, key: &str| {
        let target = target(ProviderKind::OpenAi, base_url);
        HttpModel::new(&target, LONG, Some(key.to_owned())).unwrap_err().to_string()
    };
    assert_eq!(
        error("localhost:8080", KEY),
        "the `base_url` of `local/qwen` is no URL such as `http://127.0.0.1:8080`"
    );
    assert!(!error(&format!("http://me:{KEY}@a/"), KEY).contains(KEY));
    assert_eq!(
        error("http://a/", "two words"),
        "the key in the variable `LOCAL_KEY` has spaces or other characters that no key has"
    );
}

#[test]
fn no_debug_output_has_the_key() {
    let base_url = format!("http://127.0.0.1:1/?key={KEY}");
    let model = openai(&base_url);
    let shown = format!("{model:?}");
    assert!(shown.contains("local/qwen") && shown.contains("127.0.0.1:1"), "{shown}");
    assert!(!shown.contains(KEY), "{shown}");
}
