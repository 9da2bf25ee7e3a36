//! The two formats of requests and replies.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, header};

use crate::extract::{ModelRequest, ProviderKind, TargetSettings};
use crate::llm::address::ApiKey;
use crate::llm::dialect::Dialect;
use crate::llm::fault::AttemptFault;
use crate::llm::reply::PartialReply;
use crate::llm::{anthropic, openai};
use ctxfs_core::materialize::json::without_half_pairs;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");

pub(super) fn call(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::OpenAi => "chat/completions",
        ProviderKind::Anthropic => "messages",
    }
}

pub(super) fn headers(kind: ProviderKind, key: Option<&ApiKey>) -> HeaderMap {
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

/// Returns the body of a request to a target. The reply is limited by both the request and the
/// model.
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

pub(super) fn event(
    kind: ProviderKind,
    data: &str,
    reply: &mut PartialReply,
) -> Result<(), AttemptFault> {
    let data = &without_half_pairs(data);
    match kind {
        ProviderKind::OpenAi => openai::event(data, reply),
        ProviderKind::Anthropic => anthropic::event(data, reply),
    }
}

pub(super) fn document(
    kind: ProviderKind,
    text: &str,
    reply: &mut PartialReply,
) -> Result<(), AttemptFault> {
    let text = &without_half_pairs(text);
    match kind {
        ProviderKind::OpenAi => openai::document(text, reply),
        ProviderKind::Anthropic => anthropic::document(text, reply),
    }
}
