//! Translates client requests for a server of the other era.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::client::ClientRequest;
use crate::client::held_calls::{self, RepeatedCall};
use crate::json_rpc::{self, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION};
use crate::message::{Edit, ObjectMember, Outgoing};
use crate::pending::{
    CarriedQuestions, Carrier, CarryMode, Repeatable, RequestIdentity, Translation,
};
use crate::permission::state_token::ArgumentsDigest;
use crate::relay::Relay;
use crate::revision::{ClientProfile, MODERN, revision_of, translation};
use crate::server_request;
use crate::upstream::Upstream;

// Maximum time that a request waits until the server has answered a change of the log level.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_RESPONSES: usize = 32 << 20;
// Requests whose results can ask for input.
const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// A client request for a server of the other era. Each method that returns [`Translated`] returns
/// the edits to apply before the request is sent, and the translation of its answer. `None` means
/// that the request is not sent, because the gateway answered the request or the request repeats a
/// held call.
pub(crate) struct ForeignRequest<'a> {
    pub(crate) relay: &'a Arc<Relay>,
    pub(crate) index: usize,
    pub(crate) request: &'a ClientRequest,
}

type Translated = Option<(Vec<Edit>, Option<Translation>)>;

impl ForeignRequest<'_> {
    fn upstream(&self) -> &Arc<Upstream> {
        &self.relay.upstreams[self.index]
    }

    async fn refuse(&self, code: i32, text: &str) -> Translated {
        self.relay.client.end(&self.request.id);
        self.relay.client.error(&self.request.id, code, text).await;
        None
    }

    pub(crate) async fn to_new_server(&self) -> Translated {
        if matches!(&*self.request.method, "resources/subscribe" | "resources/unsubscribe") {
            self.watch();
            return None;
        }
        let meta = self.upstream().meta().unwrap_or_default();
        let Ok(edit) = translation::with_meta(&self.request.envelope, &self.request.message, &meta)
        else {
            return self.refuse(INVALID_PARAMS, "the parameters have no place for `_meta`").await;
        };
        let again = Repeatable { request: Vec::new().into(), rounds: 0 };
        let asks =
            ASKING.contains(&&*self.request.method).then_some(Translation::Repeatable(again));
        Some((vec![edit], asks))
    }

    fn watch(&self) {
        let (relay, upstream) = (Arc::clone(self.relay), Arc::clone(self.upstream()));
        let uri = self.request.params().text("uri").unwrap_or_default().into_owned();
        let (id, is_on) = (self.request.id.clone(), self.request.method == "resources/subscribe");
        tokio::spawn(async move {
            let is_done = upstream.watch(&uri, is_on).await;
            if relay.client.end(&id).is_none() {
                return;
            }
            if is_done {
                return relay.client.send(json_rpc::answer(&id, "{}")).await;
            }
            let text = format!(
                "the server `{}` does not tell of changes, or too many resources are watched",
                upstream.name
            );
            relay.client.error(&id, METHOD_NOT_FOUND, &text).await;
        });
    }

    pub(crate) async fn to_old_server(&self) -> Translated {
        let raw = self.request.raw_params();
        let asked = revision_of(raw).filter(|asked| asked != MODERN);
        if let Some(asked) = asked {
            self.refuse_version(&asked).await;
            return None;
        }
        let meta = raw.and_then(json_rpc::meta_of).unwrap_or_default();
        let abilities = ClientProfile::of_request(raw).abilities();
        let token = meta.get("progressToken").map(|token| token.get().to_owned());
        let identity = if ASKING.contains(&&*self.request.method) { self.identity() } else { None };
        let params = self.request.params();
        if let Some((identity, state)) = identity.as_ref().zip(params.text("requestState")) {
            let responses = params.get("inputResponses").and_then(|value| self.whole(value));
            let (id, state) = (&*self.request.id, &*state);
            let again = RepeatedCall { id, identity, state, responses, token, abilities };
            held_calls::resume(self.relay, self.index, again).await;
            return None;
        }
        let level = meta.get(json_rpc::LEVEL_KEY).map(RawValue::get);
        if let Some(level) = level {
            self.log_at(level).await;
        }
        let carrier = Carrier {
            abilities,
            logs: level.is_some(),
            is_kept: translation::is_kept(&self.request.method),
            token,
            carries: identity.map_or(CarryMode::Nothing, |identity| {
                CarryMode::Held(Box::new(CarriedQuestions::new(identity)))
            }),
        };
        // Responses that belong to no held call are removed, because a server of an older revision
        // does not know them.
        let responses = ObjectMember::of(&self.request.message, &params, "inputResponses");
        let meta = translation::without_meta(&self.request.envelope, &self.request.message);
        let edits = meta.into_iter().chain(responses.map(|member| member.removed())).collect();
        Some((edits, Some(Translation::Carrier(carrier))))
    }

    /// Parses a part of the parameters, including values on disk. Returns `None` if it is longer
    /// than [`MAX_RESPONSES`] bytes.
    fn whole(&self, part: &RawValue) -> Option<Box<RawValue>> {
        let mut bytes = self.request.message.part(self.request.message.range_of(part), Vec::new());
        let mut text = Vec::new();
        while let Some(block) = bytes.next().ok()? {
            text.extend_from_slice(&block);
            if text.len() > MAX_RESPONSES {
                return None;
            }
        }
        serde_json::from_slice(&text).ok()
    }

    async fn refuse_version(&self, asked: &str) {
        self.relay.client.end(&self.request.id);
        let error = json!({
            "code": UNSUPPORTED_VERSION, "message": "the revision is not known",
            "data": {"supported": [MODERN], "requested": asked},
        });
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.request.id);
        self.relay.client.send(answer).await;
    }

    /// Returns the identity used to recognize a repetition of this request. Returns `None` if the
    /// request has no name, or if its arguments cannot be read.
    fn identity(&self) -> Option<RequestIdentity> {
        let params = self.request.params();
        let named = if self.request.method == "resources/read" { "uri" } else { "name" };
        let named = params.text(named)?;
        let name = format!("{}\n{}\n{named}", self.request.method, self.upstream().name);
        let digest = match params.get("arguments") {
            None => String::new(),
            Some(arguments) => {
                let range = self.request.message.range_of(arguments);
                if self.request.message.has_holes_in(&range) {
                    digest_of(self.request.message.part(range, Vec::new()))?
                } else {
                    let arguments = serde_json::from_str(arguments.get()).ok()?;
                    ArgumentsDigest::of(&arguments).to_string()
                }
            }
        };
        Some(RequestIdentity { name, digest: digest.into() })
    }

    /// Sets the log level of a server of an older revision if it changed. Waits for the answer up
    /// to [`LEVEL_TIMEOUT`], so that the client's request comes after the change. The answer is
    /// ignored, because a server without logs refuses the change.
    async fn log_at(&self, level: &str) {
        let upstream = self.upstream();
        let params = format!("{{\"level\":{level}}}");
        if upstream.handshake().level.as_deref() == Some(&*params) {
            return;
        }
        upstream.set_handshake(|handshake| handshake.level = Some(params.clone()));
        let asked = server_request::ask(upstream, "logging/setLevel", &params);
        timeout(LEVEL_TIMEOUT, asked).await.ok();
    }
}

fn digest_of(mut bytes: Outgoing) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    while let Some(block) = bytes.next().ok()? {
        hasher.update(&block);
    }
    Some(hasher.finalize().to_string())
}
