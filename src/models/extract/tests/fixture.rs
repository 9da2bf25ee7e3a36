//! Documents in memory and models that follow a script, for tests.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use std::sync::Arc;

use parking_lot::Mutex;

use crate::extract::{
    Document, DocumentError, DocumentFacts, ExtractSettings, Extraction, Extractor, LanguageModel,
    Mode, ModelFailure, ModelFailureKind, ModelProfile, ModelReply, ModelRequest, ReplyEnd,
    Stopped, TokenUsage, ToolCall, ToolUse, Turn,
};
use ctxfs_core::model::{Content, Json};
use ctxfs_view::fixture::Fixture;
use ctxfs_view::{View, ViewDir};

pub(crate) struct TextDocument {
    fixture: Fixture,
    facts: DocumentFacts,
}

impl TextDocument {
    pub(crate) fn new(text: &str) -> Self {
        let fixture = Fixture::analysed(text);
        let facts = DocumentFacts {
            tool: "shell".to_owned(),
            arguments: r#"{"command":"make"}"#.to_owned(),
            handle: "c7/9f3k.txt".to_owned(),
            name: "9f3k.txt".to_owned(),
            digest: fixture.analysis.digest.clone(),
            bytes: fixture.analysis.bytes,
            lines: fixture.analysis.lines,
            tokens: fixture.analysis.tokens,
            is_binary: fixture.analysis.is_binary(),
        };
        Self { fixture, facts }
    }
}

impl Document for TextDocument {
    fn facts(&self) -> &DocumentFacts {
        &self.facts
    }

    fn content(&self) -> &dyn Content {
        &self.fixture.bytes
    }

    fn view(&self, name: &str) -> Result<String, DocumentError> {
        let failed = |why: String| DocumentError::View { view: name.to_owned(), why };
        for (prefix, base) in [("pretty.", View::Pretty), ("wrap.", View::Wrap)] {
            if let Some(rest) = name.strip_prefix(prefix) {
                if base == View::Pretty && self.fixture.analysis.json == Json::No {
                    return Err(failed("it is no JSON".to_owned()));
                }
                let text = self.fixture.render(&base).map_err(|error| failed(error.to_string()))?.0;
                return Self { fixture: Fixture::analysed(text), facts: self.facts.clone() }
                    .view(rest);
            }
        }
        let (kind, argument) = name.split_once('/').unwrap_or((name, ""));
        let argument = std::ffi::OsStr::new(argument);
        let view = match kind {
            "summary" => Some(View::Summary),
            "errors" => Some(View::Errors),
            "grep" => ViewDir::Grep.view(argument),
            "find" => ViewDir::Find.view(argument),
            "lines" => ViewDir::Lines.view(argument),
            _ => None,
        };
        let view = view.ok_or_else(|| failed("there is no such view".to_owned()))?;
        let rendered = self.fixture.render(&view).map_err(|error| failed(error.to_string()))?;
        let (text, rendered) = rendered;
        Ok(rendered.notice.unwrap_or_default() + &String::from_utf8_lossy(&text))
    }
}

/// Returns the profile of the model `target`, with the limits of a small server.
pub fn profile(target: &str) -> ModelProfile {
    ModelProfile {
        target: target.to_owned(),
        context_tokens: 32768,
        max_output_tokens: 2048,
        tools: ToolUse::Auto,
        price_in: 0.0,
        price_out: 0.0,
    }
}

type Script = dyn Fn(&ModelRequest) -> Result<ModelReply, ModelFailure> + Send + Sync;

pub struct Scripted {
    profile: ModelProfile,
    script: Box<Script>,
    asked: Mutex<Vec<ModelRequest>>,
}

impl Scripted {
    pub fn new(
        name: &str,
        script: impl Fn(&ModelRequest) -> Result<ModelReply, ModelFailure> + Send + Sync + 'static,
    ) -> Self {
        let profile = ModelProfile {
            context_tokens: 4000,
            max_output_tokens: 500,
            tools: ToolUse::Native,
            price_in: 1.0,
            price_out: 4.0,
            ..profile(&format!("test/{name}"))
        };
        Self { profile, script: Box::new(script), asked: Mutex::default() }
    }

    pub fn with(mut self, change: impl FnOnce(&mut ModelProfile)) -> Arc<Self> {
        change(&mut self.profile);
        Arc::new(self)
    }

    pub fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().clone()
    }
}

impl LanguageModel for Scripted {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        self.asked.lock().push(request.clone());
        if stopped() {
            return failure(ModelFailureKind::Stopped);
        }
        (self.script)(request)
    }
}

pub fn failure(kind: ModelFailureKind) -> Result<ModelReply, ModelFailure> {
    let message = format!("the endpoint is {}", kind.name());
    Err(ModelFailure { kind, message, usage: TokenUsage::default() })
}

#[expect(clippy::unnecessary_wraps, reason = "scripts return it as it is")]
pub(crate) fn says(text: impl Into<String>) -> Result<ModelReply, ModelFailure> {
    let usage = TokenUsage { input: 100, output: 10 };
    Ok(ModelReply { text: text.into(), calls: Vec::new(), end: ReplyEnd::Done, usage })
}

pub(super) fn calls(calls: &[(&str, &str)]) -> Result<ModelReply, ModelFailure> {
    let mut reply = says("")?;
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let (id, name) = (format!("call_{index}"), (*name).to_owned());
        reply.calls.push(ToolCall { id, name, arguments: (*arguments).to_owned() });
    }
    Ok(reply)
}

/// Returns a reply with an answer in the wrapper that the request requires.
pub fn answers(request: &ModelRequest, text: &str) -> Result<ModelReply, ModelFailure> {
    says(wrapped(request, text))
}

pub(super) fn wrapped(request: &ModelRequest, text: &str) -> String {
    let opening = request.system.lines().find(|line| line.starts_with("<ai-agent-"));
    let opening = opening.expect("the system message names the wrapper");
    let name = opening.trim_start_matches('<').split(' ').next().expect("a name");
    format!("thinking first\n{opening}\n{text}\n</{name}>")
}

pub(crate) fn last_text(request: &ModelRequest) -> String {
    match request.turns.last().expect("a turn") {
        Turn::User(text) | Turn::Model { text, .. } => text.clone(),
        Turn::Results(results) => {
            results.iter().map(|result| result.text.clone()).collect::<Vec<_>>().join("\n")
        }
    }
}

pub(super) fn extract(
    settings: &ExtractSettings,
    models: &[&Arc<Scripted>],
    document: &TextDocument,
    (question, mode): (&str, Mode),
) -> Extraction {
    let models: Vec<Arc<dyn LanguageModel>> =
        models.iter().map(|model| Arc::clone(model) as Arc<dyn LanguageModel>).collect();
    let number = Mutex::new(0);
    let nonce = || {
        *number.lock() += 1;
        format!("n{}", *number.lock())
    };
    let extractor =
        Extractor { settings, models: &models, nonce: &nonce, stopped: &|| false, tell: &|_| {} };
    extractor.answer(document, question, mode)
}
