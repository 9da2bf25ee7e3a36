//! Detects a server's revision: tries the handshake of the client's revision first, then the other
//! one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use crate::client::{ClientRequest, Declared, subscriptions};
use crate::delivery::{ServerAnswer, deliver};
use crate::json_rpc::{self, Envelope, INITIALIZED, METHOD_NOT_FOUND};
use crate::message::Message;
use crate::own;
use crate::pending::{PendingKind, PendingRequest, Translation};
use crate::relay::Relay;
use crate::revision::{self, ClientProfile, Era, ServerProfile};
use crate::server_request::{self, OwnRequest, result_of};
use crate::upstream::{Introduction, Upstream};

/// Time to wait for an answer to `server/discover`. After this time, the server is assumed to have
/// a revision before 2026-07-28, because some such servers ignore all requests before `initialize`.
const PROBE: Duration = Duration::from_secs(10);
/// The pause after a failed introduction. It doubles with each failure, up to [`MAX_BACKOFF`].
pub(crate) const MIN_BACKOFF: Duration = Duration::from_secs(1);
pub(crate) const MAX_BACKOFF: Duration = Duration::from_mins(1);
// Error codes that only 2026-07-28 servers use.
const MODERN_ERRORS: std::ops::RangeInclusive<i64> = -32022..=-32020;

/// The reason why a handshake failed. `Other`: the server possibly has a revision of the other era.
/// `Failed`: the handshake of the other era is not tried.
enum HandshakeError {
    Other(String),
    Failed(String),
}

impl HandshakeError {
    fn why(self) -> String {
        match self {
            Self::Other(why) | Self::Failed(why) => why,
        }
    }
}

/// Introduces the client to a server of unknown revision. Tries the handshake of era `first`, and
/// if the server refuses it, the handshake of the other era. `initialize` holds the parameters of
/// `initialize`. If `first` is [`Era::Legacy`] and both handshakes fail, returns the error of
/// `initialize`.
pub(crate) async fn introduce(
    upstream: &Arc<Upstream>,
    profile: &ClientProfile,
    initialize: &str,
    first: Era,
) -> Result<ServerProfile, String> {
    let is_legacy_first = first == Era::Legacy;
    let tried = if is_legacy_first {
        by_initialize(upstream, initialize).await
    } else {
        by_discover(upstream, profile, Some(PROBE)).await
    };
    let why = match tried {
        Ok(introduction) => return Ok(introduction),
        Err(HandshakeError::Failed(why)) => return Err(why),
        Err(HandshakeError::Other(why)) => why,
    };
    if is_legacy_first {
        return by_discover(upstream, profile, None).await.map_err(|_| why);
    }
    match by_initialize(upstream, initialize).await {
        Ok(introduction) => Ok(introduction),
        // The server may have started slowly, so `server/discover` is tried again without a limit.
        Err(HandshakeError::Other(_)) => {
            by_discover(upstream, profile, None).await.map_err(HandshakeError::why)
        }
        Err(HandshakeError::Failed(why)) => Err(why),
    }
}

async fn by_initialize(
    upstream: &Arc<Upstream>,
    parameters: &str,
) -> Result<ServerProfile, HandshakeError> {
    let answer = server_request::ask(upstream, "initialize", parameters).await;
    let result = result_of(answer.map_err(HandshakeError::Failed)?, "initialize")
        .map_err(HandshakeError::Other)?;
    let introduction = ServerProfile::of_initialize(&result)
        .ok_or_else(|| HandshakeError::Other("answered `initialize` wrongly".to_owned()))?;
    upstream.era.set(Era::Legacy);
    upstream.set_handshake(|handshake| {
        handshake.initialize = Some(parameters.to_owned());
        handshake.is_done = true;
    });
    upstream.notify(INITIALIZED);
    Ok(introduction)
}

async fn by_discover(
    upstream: &Arc<Upstream>,
    profile: &ClientProfile,
    limit: Option<Duration>,
) -> Result<ServerProfile, HandshakeError> {
    let parameters = format!("{{\"_meta\":{{{}}}}}", profile.meta());
    let mut own = OwnRequest::new(upstream, "server/discover", &parameters);
    if limit.is_some() {
        own.deadline = None;
    }
    let sent = server_request::open(&**upstream, own).map_err(HandshakeError::Failed)?;
    let answer = if let Some(limit) = limit {
        let limit = upstream.timeout.map_or(limit, |time| time.min(limit));
        let silent = || format!("did not answer `server/discover` within {limit:?}");
        timeout(limit, sent.answer()).await.map_err(|_| HandshakeError::Other(silent()))?
    } else {
        sent.answer().await
    };
    let answer = answer.map_err(HandshakeError::Failed)?;
    let is_modern = json_rpc::error_code(&answer).is_some_and(|c| MODERN_ERRORS.contains(&c));
    let result = result_of(answer, "server/discover");
    let result =
        result.map_err(if is_modern { HandshakeError::Failed } else { HandshakeError::Other })?;
    let introduction = ServerProfile::of_discover(&result)
        .ok_or_else(|| HandshakeError::Other("answered `server/discover` wrongly".to_owned()))?;
    upstream.set_modern(profile.meta());
    Ok(introduction)
}

/// Does the handshake with the only server on behalf of a client of revision 2026-07-28. Requests
/// that arrive during the handshake wait for it and share the outcome. If the handshake fails,
/// these requests go to the server, which answers them itself.
pub(crate) async fn shake_hands(relay: &Arc<Relay>, upstream: &Arc<Upstream>) {
    let Introduction { turn, done } = &upstream.introduction;
    let before = done.load(Ordering::Relaxed);
    let _turn = turn.lock().await;
    let is_known = !relay.client.is_modern() || upstream.era.get().is_some();
    if done.load(Ordering::Relaxed) != before || is_known {
        return;
    }
    let profile = relay.client.profile();
    let initialize = profile.initialize(revision::negotiated("").as_str());
    match introduce(upstream, &profile, &initialize, Era::Modern).await {
        Ok(introduction) => {
            // Recorded here because the client may never request the server's capabilities.
            record(relay, upstream, introduction);
        }
        Err(why) => tracing::warn!("{}: {why}", upstream.name),
    }
    done.fetch_add(1, Ordering::Relaxed);
}

/// Processes the answer to the client's own `initialize` for revision `version`. If the server
/// refused the request, the server may support only 2026-07-28, so `server/discover` is tried.
pub(crate) async fn initialize_answered(relay: &Arc<Relay>, version: String, answer: ServerAnswer) {
    let from = Arc::clone(&answer.from);
    if answer.envelope.result().is_some() {
        from.era.set(Era::Legacy);
        return deliver(relay, answer, Vec::new(), "").await;
    }
    let relay = Arc::clone(relay);
    tokio::spawn(async move {
        match by_discover(&from, &relay.client.profile(), None).await {
            Ok(introduction) => {
                from.listen(&introduction);
                *from.profile.lock() = Some(introduction);
                answer_from_profile(&relay, &from, answer.pending.client_id, Some(&version)).await;
            }
            // Discovery failed too, so the client gets the server's first answer.
            Err(_) => deliver(&relay, answer, Vec::new(), "").await,
        }
    });
}

/// Answers the client's handshake from the profile of the only server. If the request is
/// `initialize` and the server has revision 2026-07-28, also subscribes to the server's
/// notifications.
pub(crate) async fn answer(relay: &Arc<Relay>, request: &ClientRequest) {
    let Some(only) = relay.upstreams.first() else { return };
    let asked = request.params().text("protocolVersion").unwrap_or_default();
    let version = Some(asked).filter(|_| request.method == "initialize");
    if version.is_some() && only.era.get() == Some(Era::Modern) {
        only.listen(&only.profile.lock().clone().unwrap_or_default());
    }
    answer_from_profile(relay, only, Some(request.id.clone()), version.as_deref()).await;
}

/// Answers the client's handshake from the server's profile. The answer is an `initialize` result
/// for revision `version`, or a `server/discover` result if `version` is `None`.
async fn answer_from_profile(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    client_id: Option<String>,
    version: Option<&str>,
) {
    let known = from.profile.lock().clone().unwrap_or_default();
    let result = match version {
        Some(asked) => known.initialize_result(revision::negotiated(asked).as_str(), &from.name),
        None => known.discover_result(),
    };
    let message = Message::whole(json_rpc::answer("0", &result));
    let Ok(envelope) = Envelope::of(&message) else { return };
    let pending = PendingRequest { client_id, ..PendingRequest::new(PendingKind::Handshake) };
    let answer = ServerAnswer { from: Arc::clone(from), pending, envelope, message };
    deliver(relay, answer, Vec::new(), "").await;
}

/// Answers the client's handshake in place of the only server, which `why` says cannot be used, so
/// that the client has the gateway's own tools. Goes on trying to reach the server, and announces it.
pub(crate) async fn answer_without(relay: &Arc<Relay>, pending: PendingRequest, why: &str) {
    let Some(id) = pending.client_id.filter(|id| relay.client.end(id).is_some()) else { return };
    let version = match pending.translation.map(|translation| *translation) {
        Some(Translation::Opening { version }) => Some(version),
        _ => None,
    };
    relay.client.set_declared(Declared { tools: false, resources: false });
    relay.client.send(json_rpc::answer(&id, &own::handshake(relay, version.as_deref(), why))).await;
    tokio::spawn(reach(Arc::downgrade(relay)));
}

fn record(relay: &Relay, upstream: &Upstream, introduction: ServerProfile) {
    relay.client.set_declared(Declared {
        tools: introduction.has("tools", ""),
        resources: introduction.has("resources", ""),
    });
    *upstream.profile.lock() = Some(introduction);
}

async fn reach(relay: Weak<Relay>) {
    let mut pause = MIN_BACKOFF;
    loop {
        sleep(pause).await;
        pause = (pause * 2).min(MAX_BACKOFF);
        let Some(relay) = relay.upgrade() else { return };
        let Some(only) = relay.only() else { return };
        let profile = relay.client.profile();
        let told = only.handshake().initialize;
        let initialize =
            told.unwrap_or_else(|| profile.initialize(revision::negotiated("").as_str()));
        let first = relay.client.era.get().unwrap_or(Era::Legacy);
        let Ok(introduction) = introduce(only, &profile, &initialize, first).await else {
            continue;
        };
        if !relay.client.is_modern() && only.era.get() == Some(Era::Modern) {
            only.listen(&introduction);
        }
        record(&relay, only, introduction);
        for list in ["tools", "resources"] {
            subscriptions::changed(&relay, &format!("notifications/{list}/list_changed")).await;
        }
        return;
    }
}

/// Stores a log level for later requests to the only server, because a server of 2026-07-28 gets it
/// with each request.
pub(crate) async fn set_level(relay: &Relay, request: &ClientRequest) {
    let Some(only) = relay.upstreams.first() else { return };
    let (id, level) = (&request.id, request.raw_params().map_or("{}", RawValue::get).to_owned());
    relay.client.end(id);
    if !only.profile.lock().as_ref().is_some_and(|known| known.has("logging", "")) {
        let text = "the server has no `logging/setLevel`";
        return relay.client.error(id, METHOD_NOT_FOUND, text).await;
    }
    only.set_handshake(|handshake| handshake.level = Some(level));
    relay.client.send(json_rpc::answer(id, "{}")).await;
}
