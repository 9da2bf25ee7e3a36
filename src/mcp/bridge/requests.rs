//! Requests of the client between revisions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::bridge::client_said::{ClientSaid, revision_of};
use crate::bridge::crossing::{Carrier, Carries, Crossing, Repeatable, RequestIdentity};
use crate::bridge::era::{Between, Era, MODERN};
use crate::bridge::filter::Filter;
use crate::bridge::inputs::with_members;
use crate::bridge::{
    going_on, holding, listeners, listening, meeting, notices, request_meta, result,
};
use crate::envelope::Envelope;
use crate::member::Member;
use crate::message::{Edit, Message, Outgoing};
use crate::permission::ArgumentsDigest;
use crate::raw_object::RawObject;
use crate::relay::{INVALID_PARAMS, METHOD_NOT_FOUND, Relay};
use crate::upstream::Upstream;
use crate::{envelope, meta, server_request};

/// The time for the answer to another level of log messages.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of the answers of a client.
const MOST_RESPONSES: usize = 32 << 20;
/// The code for a revision that is not known.
const UNSUPPORTED_VERSION: i32 = -32022;
/// The requests whose results may ask for input.
const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// A request on its way to a server.
pub(crate) enum Crossed {
    /// It is answered, or will be.
    Taken,
    /// It goes to the server, with these edits.
    With(Vec<Edit>, Option<Crossing>),
}

/// A request of the client to a server.
struct Request<'a> {
    relay: &'a Arc<Relay>,
    index: usize,
    id: &'a str,
    method: &'a str,
    head: &'a Envelope,
    message: &'a Message,
}

/// Returns true if a request is answered in place of the servers, as they do not know it.
pub(crate) fn answers(relay: &Relay, method: &str) -> bool {
    let is_modern = relay.bridge.client() == Some(Era::Modern);
    let only = relay.upstreams.first().filter(|_| relay.hub.is_none());
    let era = only.and_then(|only| only.era());
    match method {
        "subscriptions/listen" => is_modern && (relay.hub.is_some() || era == Some(Era::Legacy)),
        "initialize" => era.is_some() && relay.bridge.introduction.lock().is_some(),
        "server/discover" => era == Some(Era::Legacy) && relay.bridge.introduction.lock().is_some(),
        "logging/setLevel" => relay.bridge.between(era) == Some(Between::OldClient),
        _ => false,
    }
}

/// Answers such a request.
pub(crate) async fn answer(
    relay: &Arc<Relay>,
    id: String,
    method: &str,
    head: &Envelope,
    message: &Message,
) {
    let params = head.params(message);
    if method == "subscriptions/listen" {
        return listeners::open(Arc::clone(relay), id, Filter::of(params));
    }
    let Some(only) = relay.upstreams.first() else { return };
    if method == "logging/setLevel" {
        let level = params.map_or("{}", |params| params.get()).to_owned();
        return set_level(relay, only, id, level).await;
    }
    let asked = params.and_then(RawObject::parse).and_then(|params| params.text("protocolVersion"));
    let version = (method == "initialize").then(|| asked.unwrap_or_default().into_owned());
    if version.is_some() && only.era() == Some(Era::Modern) {
        listening::listen(relay, 0);
    }
    meeting::introduced(relay, only, id, version.as_deref()).await;
}

/// Keeps a level for the requests to a new server.
async fn set_level(relay: &Relay, only: &Upstream, id: String, params: String) {
    relay.end(&id);
    let logs =
        relay.bridge.introduction.lock().as_ref().is_some_and(|known| known.has("logging", ""));
    if !logs {
        let text = "the server has no `logging/setLevel`";
        return relay.error(&id, METHOD_NOT_FOUND, text).await;
    }
    only.set_handshake(|handshake| handshake.level = Some(params));
    relay.tell(envelope::answer(&id, "{}")).await;
}

/// Returns what becomes of a request to a server.
pub(crate) async fn cross(
    relay: &Arc<Relay>,
    index: usize,
    id: &str,
    method: &str,
    head: &Envelope,
    message: &Message,
) -> Crossed {
    let era = relay.upstreams[index].era();
    let request = Request { relay, index, id, method, head, message };
    match relay.bridge.between(era) {
        Some(Between::OldClient) => request.to_new_server().await,
        Some(Between::NewClient) => request.to_old_server().await,
        None if method == "initialize" && era.is_none() => request.opening(),
        None => Crossed::With(Vec::new(), None),
    }
}

impl Request<'_> {
    fn upstream(&self) -> &Arc<Upstream> {
        &self.relay.upstreams[self.index]
    }

    fn params(&self) -> RawObject<'_> {
        self.head.params(self.message).and_then(RawObject::parse).unwrap_or_default()
    }

    fn opening(&self) -> Crossed {
        let version = self.params().text("protocolVersion").unwrap_or_default().into_owned();
        Crossed::With(Vec::new(), Some(Crossing::Opening { version }))
    }

    async fn refuse(&self, code: i32, text: &str) -> Crossed {
        self.relay.end(self.id);
        self.relay.error(self.id, code, text).await;
        Crossed::Taken
    }

    async fn to_new_server(&self) -> Crossed {
        if matches!(self.method, "resources/subscribe" | "resources/unsubscribe") {
            self.watch();
            return Crossed::Taken;
        }
        let meta = self.upstream().meta().unwrap_or_default();
        let Ok(edit) = request_meta::added(self.head, self.message, &meta) else {
            return self.refuse(INVALID_PARAMS, "the parameters have no place for `_meta`").await;
        };
        let asks = ASKING.contains(&self.method).then(|| {
            Crossing::Repeatable(Repeatable {
                request: Vec::new().into(),
                rounds: 0,
                abilities: self.relay.bridge.said().abilities(),
                is_call: self.method == "tools/call",
            })
        });
        Crossed::With(vec![edit], asks)
    }

    /// Watches a resource of a new server for an old client, or no longer.
    fn watch(&self) {
        let (relay, index, id) = (Arc::clone(self.relay), self.index, self.id.to_owned());
        let uri = self.params().text("uri").unwrap_or_default().into_owned();
        let is_on = self.method == "resources/subscribe";
        tokio::spawn(async move {
            let is_done = listening::watch(&relay, index, &uri, is_on).await;
            if relay.end(&id).is_none() {
                return;
            }
            if is_done {
                return relay.tell(envelope::answer(&id, "{}")).await;
            }
            let text = format!(
                "the server `{}` does not tell of changes, or too many resources are watched",
                relay.upstreams[index].name
            );
            relay.error(&id, METHOD_NOT_FOUND, &text).await;
        });
    }

    async fn to_old_server(&self) -> Crossed {
        let raw = self.head.params(self.message);
        let asked = revision_of(raw).filter(|asked| asked != MODERN);
        if let Some(asked) = asked {
            return self.refuse_version(&asked).await;
        }
        let meta = raw.and_then(meta::of).unwrap_or_default();
        let abilities = ClientSaid::of_request(raw).abilities();
        let token = meta.get("progressToken").map(|token| token.get().to_owned());
        let identity = if ASKING.contains(&self.method) { self.identity() } else { None };
        let params = self.params();
        if let Some((identity, state)) = identity.as_ref().zip(params.text("requestState")) {
            let responses = params.get("inputResponses").and_then(|said| self.whole(said));
            let id = self.id;
            let state = &state;
            let again = going_on::Again { id, identity, state, responses, token, abilities };
            going_on::resume(self.relay, self.index, again).await;
            return Crossed::Taken;
        }
        let level = notices::level(&meta);
        if let Some(level) = &level {
            self.log_at(level).await;
        }
        let carries =
            identity.map_or(Carries::Nothing, |identity| Carries::Held { identity, number: None });
        let carrier = Carrier {
            abilities,
            logs: level.is_some(),
            is_kept: result::is_kept(self.method),
            token,
            carries,
            rounds: 0,
        };
        // They are for a result that asked without a state.
        let responses = Member::of(self.message, &params, "inputResponses");
        let meta = request_meta::stripped(self.head, self.message);
        let edits = meta.into_iter().chain(responses.map(|member| member.removed())).collect();
        Crossed::With(edits, Some(Crossing::Carrier(carrier)))
    }

    /// Returns a part of the parameters with what is not in memory; `None` if that is too long.
    fn whole(&self, part: &RawValue) -> Option<Box<RawValue>> {
        let mut bytes = self.message.part(self.message.range_of(part), Vec::new());
        let mut text = Vec::new();
        while let Some(block) = bytes.next().ok()? {
            text.extend_from_slice(&block);
            if text.len() > MOST_RESPONSES {
                return None;
            }
        }
        serde_json::from_slice(&text).ok()
    }

    async fn refuse_version(&self, asked: &str) -> Crossed {
        self.relay.end(self.id);
        let error = json!({
            "code": UNSUPPORTED_VERSION, "message": "the revision is not known",
            "data": {"supported": [MODERN], "requested": asked},
        });
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.id);
        self.relay.tell(answer.into_bytes()).await;
        Crossed::Taken
    }

    /// Returns the identity of the request; `None` if it cannot be read.
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

    /// Tells an old server the level of log messages, if it is another than before.
    async fn log_at(&self, level: &str) {
        let upstream = Arc::clone(self.upstream());
        let params = format!("{{\"level\":{level}}}");
        if upstream.handshake().level.as_deref() == Some(&*params) {
            return;
        }
        upstream.set_handshake(|handshake| handshake.level = Some(params.clone()));
        let own = server_request::OwnRequest::new(&upstream, "logging/setLevel", &params);
        // What asks for it goes after it. A server without logs refuses it.
        if let Ok(sent) = server_request::open(&*upstream, own) {
            timeout(PATIENCE, sent.answer()).await.ok();
        }
    }
}

/// Digests bytes that are partly on disk.
fn digest_of(mut bytes: Outgoing) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    while let Some(block) = bytes.next().ok()? {
        hasher.update(&block);
    }
    Some(hasher.finalize().to_string())
}

impl Crossing {
    /// Notes the request as it is sent, with any number.
    pub(crate) fn note(&mut self, request: &Outgoing) {
        if let Self::Repeatable(again) = self {
            again.request = request.clone();
        }
    }
}

/// Returns a request with another id.
pub(crate) fn numbered(request: &Outgoing, number: u64) -> Outgoing {
    with_members(request, number, "")
}

/// Notes that a request between revisions was sent.
pub(crate) fn sent(relay: &Arc<Relay>, index: usize, number: u64) {
    let able = relay.upstreams[index].with_requests(|requests| {
        match requests.get_mut(number)?.crossing.as_deref()? {
            Crossing::Carrier(Carrier { abilities, carries: Carries::Held { .. }, .. }) => {
                Some(*abilities)
            }
            _ => None,
        }
    });
    if let Some(abilities) = able {
        holding::take_early(relay, index, number, abilities);
    }
}
