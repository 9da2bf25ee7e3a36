//! The two forms of requests and replies.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, header};

use crate::extract::{ModelRequest, ProviderKind, TargetSettings};
use crate::llm::dialect::Dialect;
use crate::llm::fault::Fault;
use crate::llm::key::Key;
use crate::llm::reply::Reply;
use crate::llm::{anthropic, openai};

/// The header that has the key of Anthropic.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The header that has the version of its form.
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Returns the path of the call, below `/v1`.
pub(super) fn call(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::OpenAi => "chat/completions",
        ProviderKind::Anthropic => "messages",
    }
}

/// Returns the headers of every request.
pub(super) fn headers(kind: ProviderKind, key: Option<&Key>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let agent = concat!("ctxfs/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = HeaderValue::from_static("text/event-stream, application/json");
    headers.insert(header::ACCEPT, accept);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    match kind {
        ProviderKind::OpenAi => {
            key.map(|key| headers.insert(header::AUTHORIZATION, key.header("Bearer ")));
        }
        ProviderKind::Anthropic => {
            headers.insert(VERSION, HeaderValue::from_static("2023-06-01"));
            key.map(|key| headers.insert(API_KEY, key.header("")));
        }
    }
    headers
}

/// Returns the body of a request to a target. Limits the reply by the request, and by the model.
pub(super) fn body(target: &TargetSettings, request: &ModelRequest, dialect: Dialect) -> String {
    let most = target.profile.max_output_tokens.max(1);
    let wanted = Some(request.max_output_tokens).filter(|wanted| *wanted > 0);
    let tokens = wanted.map_or(most, |wanted| wanted.min(most));
    let body = match target.kind {
        ProviderKind::OpenAi => openai::body(&target.model, request, tokens, dialect),
        ProviderKind::Anthropic => anthropic::body(&target.model, request, tokens, dialect),
    };
    body.to_string()
}

/// Adds the data of an event to `reply`.
pub(super) fn event(kind: ProviderKind, data: &str, reply: &mut Reply) -> Result<(), Fault> {
    match kind {
        ProviderKind::OpenAi => openai::event(data, reply),
        ProviderKind::Anthropic => anthropic::event(data, reply),
    }
}

/// Reads the answer of an endpoint that does not stream.
pub(super) fn document(kind: ProviderKind, text: &str, reply: &mut Reply) -> Result<(), Fault> {
    match kind {
        ProviderKind::OpenAi => openai::document(text, reply),
        ProviderKind::Anthropic => anthropic::document(text, reply),
    }
}
