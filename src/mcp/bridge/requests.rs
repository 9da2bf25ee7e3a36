//! Requests from the client to a server with a different revision.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::bridge::{handshake, held_calls, messages, notices, subscriptions};
use crate::json_rpc::{self, Envelope, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION};
use crate::message::{Edit, Message, ObjectMember, Outgoing};
use crate::pending::{Carrier, CarryMode, Repeatable, RequestIdentity, Translation};
use crate::permission::state_token::ArgumentsDigest;
use crate::raw_object::RawObject;
use crate::relay::Relay;
use crate::revision::{ClientProfile, Era, EraMismatch, MODERN, revision_of};
use crate::server_request;
use crate::upstream::Upstream;

// Maximum time that a request waits until the server has answered a change of the log level.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_RESPONSES: usize = 32 << 20;
// Requests whose results can ask for input.
const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// The outcome of translating a request. `Taken` means that the request was answered or held.
/// `With` holds the edits to apply before the request goes to the server.
pub(crate) enum Translated {
    Taken,
    With(Vec<Edit>, Option<Translation>),
}

struct ClientRequest<'a> {
    relay: &'a Arc<Relay>,
    index: usize,
    id: &'a str,
    method: &'a str,
    head: &'a Envelope,
    message: &'a Message,
}

/// Answers the client's handshake from the profile of the only server. An `initialize` to a server
/// of 2026-07-28 also subscribes to the server's notifications.
pub(crate) async fn shake_hands(
    relay: &Arc<Relay>,
    id: String,
    method: &str,
    params: Option<&RawValue>,
) {
    let Some(only) = relay.upstreams.first() else { return };
    let asked = params.and_then(RawObject::parse).and_then(|params| params.text("protocolVersion"));
    let version = (method == "initialize").then(|| asked.unwrap_or_default().into_owned());
    if version.is_some() && only.era.get() == Some(Era::Modern) {
        let known = relay.bridge.server_profile.lock().clone().unwrap_or_default();
        subscriptions::listen_to(relay, 0, &known);
    }
    handshake::answer_from_profile(relay, only, id, version.as_deref()).await;
}

/// Stores a log level for later requests to the only server.
pub(crate) async fn set_level(relay: &Relay, id: String, params: Option<&RawValue>) {
    let Some(only) = relay.upstreams.first() else { return };
    let level = params.map_or("{}", RawValue::get).to_owned();
    relay.client.end(&id);
    let logs =
        relay.bridge.server_profile.lock().as_ref().is_some_and(|known| known.has("logging", ""));
    if !logs {
        let text = "the server has no `logging/setLevel`";
        return relay.client.error(&id, METHOD_NOT_FOUND, text).await;
    }
    only.set_handshake(|handshake| handshake.level = Some(level));
    relay.client.send(json_rpc::answer(&id, "{}")).await;
}

/// Translates a client request for the server at `index`. A request to a server of the same era is
/// unchanged.
pub(crate) async fn translate(
    relay: &Arc<Relay>,
    index: usize,
    id: &str,
    method: &str,
    head: &Envelope,
    message: &Message,
) -> Translated {
    let era = relay.upstreams[index].era.get();
    let request = ClientRequest { relay, index, id, method, head, message };
    match relay.bridge.between(era) {
        Some(EraMismatch::OldClient) => request.to_new_server().await,
        Some(EraMismatch::NewClient) => request.to_old_server().await,
        None if method == "initialize" && era.is_none() => request.opening(),
        None => Translated::With(Vec::new(), None),
    }
}

impl ClientRequest<'_> {
    fn upstream(&self) -> &Arc<Upstream> {
        &self.relay.upstreams[self.index]
    }

    fn params(&self) -> RawObject<'_> {
        self.head.params(self.message).and_then(RawObject::parse).unwrap_or_default()
    }

    fn opening(&self) -> Translated {
        let version = self.params().text("protocolVersion").unwrap_or_default().into_owned();
        Translated::With(Vec::new(), Some(Translation::Opening { version }))
    }

    async fn refuse(&self, code: i32, text: &str) -> Translated {
        self.relay.client.end(self.id);
        self.relay.client.error(self.id, code, text).await;
        Translated::Taken
    }

    async fn to_new_server(&self) -> Translated {
        if matches!(self.method, "resources/subscribe" | "resources/unsubscribe") {
            self.watch();
            return Translated::Taken;
        }
        let meta = self.upstream().meta().unwrap_or_default();
        let Ok(edit) = messages::with_meta(self.head, self.message, &meta) else {
            return self.refuse(INVALID_PARAMS, "the parameters have no place for `_meta`").await;
        };
        let asks = ASKING.contains(&self.method).then(|| {
            Translation::Repeatable(Repeatable {
                request: Vec::new().into(),
                rounds: 0,
                abilities: self.relay.bridge.profile().abilities(),
                is_call: self.method == "tools/call",
            })
        });
        Translated::With(vec![edit], asks)
    }

    fn watch(&self) {
        let (relay, index, id) = (Arc::clone(self.relay), self.index, self.id.to_owned());
        let uri = self.params().text("uri").unwrap_or_default().into_owned();
        let is_on = self.method == "resources/subscribe";
        tokio::spawn(async move {
            let is_done = subscriptions::watch_at_server(&relay, index, &uri, is_on).await;
            if relay.client.end(&id).is_none() {
                return;
            }
            if is_done {
                return relay.client.send(json_rpc::answer(&id, "{}")).await;
            }
            let text = format!(
                "the server `{}` does not tell of changes, or too many resources are watched",
                relay.upstreams[index].name
            );
            relay.client.error(&id, METHOD_NOT_FOUND, &text).await;
        });
    }

    async fn to_old_server(&self) -> Translated {
        let raw = self.head.params(self.message);
        let asked = revision_of(raw).filter(|asked| asked != MODERN);
        if let Some(asked) = asked {
            return self.refuse_version(&asked).await;
        }
        let meta = raw.and_then(json_rpc::meta_of).unwrap_or_default();
        let abilities = ClientProfile::of_request(raw).abilities();
        let token = meta.get("progressToken").map(|token| token.get().to_owned());
        let identity = if ASKING.contains(&self.method) { self.identity() } else { None };
        let params = self.params();
        if let Some((identity, state)) = identity.as_ref().zip(params.text("requestState")) {
            let responses = params.get("inputResponses").and_then(|value| self.whole(value));
            let id = self.id;
            let state = &state;
            let again =
                held_calls::RepeatedCall { id, identity, state, responses, token, abilities };
            held_calls::resume(self.relay, self.index, again).await;
            return Translated::Taken;
        }
        let level = notices::log_level(&meta);
        if let Some(level) = &level {
            self.log_at(level).await;
        }
        let carries = identity
            .map_or(CarryMode::Nothing, |identity| CarryMode::Held { identity, number: None });
        let carrier = Carrier {
            abilities,
            logs: level.is_some(),
            is_kept: messages::is_kept(self.method),
            token,
            carries,
            rounds: 0,
        };
        // These responses answer a result that asked for input without a state.
        let responses = ObjectMember::of(self.message, &params, "inputResponses");
        let meta = messages::without_meta(self.head, self.message);
        let edits = meta.into_iter().chain(responses.map(|member| member.removed())).collect();
        Translated::With(edits, Some(Translation::Carrier(carrier)))
    }

    /// Parses a part of the parameters, including values on disk. Returns `None` if it is longer
    /// than [`MAX_RESPONSES`] bytes.
    fn whole(&self, part: &RawValue) -> Option<Box<RawValue>> {
        let mut bytes = self.message.part(self.message.range_of(part), Vec::new());
        let mut text = Vec::new();
        while let Some(block) = bytes.next().ok()? {
            text.extend_from_slice(&block);
            if text.len() > MAX_RESPONSES {
                return None;
            }
        }
        serde_json::from_slice(&text).ok()
    }

    async fn refuse_version(&self, asked: &str) -> Translated {
        self.relay.client.end(self.id);
        let error = json!({
            "code": UNSUPPORTED_VERSION, "message": "the revision is not known",
            "data": {"supported": [MODERN], "requested": asked},
        });
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.id);
        self.relay.client.send(answer.into_bytes()).await;
        Translated::Taken
    }

    /// Returns the identity used to recognize a repetition of this request. Returns `None` if the
    /// request has no name, or if its arguments cannot be read.
    fn identity(&self) -> Option<RequestIdentity> {
        let params = self.params();
        let named = if self.method == "resources/read" { "uri" } else { "name" };
        let named = params.text(named)?;
        let name = format!("{}\n{}\n{named}", self.method, self.upstream().name);
        let digest = match params.get("arguments") {
            None => String::new(),
            Some(arguments) => {
                let range = self.message.range_of(arguments);
                if self.message.has_holes_in(&range) {
                    digest_of(self.message.part(range, Vec::new()))?
                } else {
                    let arguments = serde_json::from_str(arguments.get()).ok()?;
                    ArgumentsDigest::of(&arguments).to_string()
                }
            }
        };
        Some(RequestIdentity { name, digest: digest.into() })
    }

    /// Sets the log level of an old server if it changed, and waits for the answer up to
    /// [`LEVEL_TIMEOUT`], so that the client's request comes after the change. The answer is
    /// ignored, because a server without logs refuses the change.
    async fn log_at(&self, level: &str) {
        let upstream = Arc::clone(self.upstream());
        let params = format!("{{\"level\":{level}}}");
        if upstream.handshake().level.as_deref() == Some(&*params) {
            return;
        }
        upstream.set_handshake(|handshake| handshake.level = Some(params.clone()));
        let own = server_request::OwnRequest::new(&upstream, "logging/setLevel", &params);
        if let Ok(sent) = server_request::open(&*upstream, own) {
            timeout(LEVEL_TIMEOUT, sent.answer()).await.ok();
        }
    }
}

fn digest_of(mut bytes: Outgoing) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    while let Some(block) = bytes.next().ok()? {
        hasher.update(&block);
    }
    Some(hasher.finalize().to_string())
}

pub(crate) fn sent(relay: &Arc<Relay>, index: usize, number: u64) {
    let able = relay.upstreams[index].with_requests(|requests| {
        match requests.waiting.get_mut(&number)?.translation.as_deref()? {
            Translation::Carrier(Carrier {
                abilities, carries: CarryMode::Held { .. }, ..
            }) => Some(*abilities),
            _ => None,
        }
    });
    if let Some(abilities) = able {
        held_calls::take_early(relay, index, number, abilities);
    }
}
