//! Which revisions a server speaks: it is asked first in the way of the client, then in the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use crate::bridge::client_said::ClientSaid;
use crate::bridge::era::Era;
use crate::bridge::introduction::Introduction;
use crate::bridge::listening;
use crate::delivery::{Answer, ServerAnswer, deliver};
use crate::envelope::Envelope;
use crate::manager::INITIALIZED;
use crate::message::Message;
use crate::pending::{Pending, PendingKind};
use crate::relay::{Declared, Relay};
use crate::server_request::{OwnRequest, result_of};
use crate::upstream::Upstream;
use crate::{envelope, own, server_request};

/// The time after which a server that does not answer `server/discover` is taken for an old one,
/// some of which are silent before `initialize`.
const PROBE: Duration = Duration::from_secs(10);
/// The codes of errors that servers of the newer revision alone have.
const MODERN_ERRORS: std::ops::RangeInclusive<i64> = -32022..=-32020;

/// The meetings with the only server.
#[derive(Default)]
pub(super) struct Meetings {
    turn: tokio::sync::Mutex<()>,
    /// Those that have ended.
    done: AtomicU64,
}

/// Why a server was not met.
enum NotMet {
    /// It said so in a way that a server of other revisions would.
    Other(String),
    Failed(String),
}

impl NotMet {
    fn why(self) -> String {
        match self {
            Self::Other(why) | Self::Failed(why) => why,
        }
    }
}

/// Asks a server what it is, of which nothing is known, and notes the revision that it speaks: by
/// `initialize` with these parameters, or by `server/discover`. The error is that of the `first`
/// way.
pub(crate) async fn introduce(
    upstream: &Arc<Upstream>,
    said: &ClientSaid,
    initialize: &str,
    first: Era,
) -> Result<Introduction, String> {
    let is_legacy_first = first == Era::Legacy;
    let tried = if is_legacy_first {
        by_initialize(upstream, initialize).await
    } else {
        by_discover(upstream, said, Some(PROBE)).await
    };
    let why = match tried {
        Ok(introduction) => return Ok(introduction),
        Err(NotMet::Failed(why)) => return Err(why),
        Err(NotMet::Other(why)) => why,
    };
    if is_legacy_first {
        return by_discover(upstream, said, None).await.map_err(|_| why);
    }
    match by_initialize(upstream, initialize).await {
        Ok(introduction) => Ok(introduction),
        // It may have been slow to start.
        Err(NotMet::Other(_)) => by_discover(upstream, said, None).await.map_err(NotMet::why),
        Err(NotMet::Failed(why)) => Err(why),
    }
}

async fn by_initialize(upstream: &Arc<Upstream>, parameters: &str) -> Result<Introduction, NotMet> {
    let answer = server_request::ask(upstream, "initialize", parameters).await;
    let result = result_of(answer.map_err(NotMet::Failed)?, "initialize").map_err(NotMet::Other)?;
    let introduction = Introduction::of_initialize(&result)
        .ok_or_else(|| NotMet::Other("answered `initialize` wrongly".to_owned()))?;
    upstream.set_legacy();
    upstream.set_handshake(|handshake| {
        handshake.initialize = Some(parameters.to_owned());
        handshake.is_done = true;
    });
    upstream.notify(INITIALIZED.to_vec());
    Ok(introduction)
}

async fn by_discover(
    upstream: &Arc<Upstream>,
    said: &ClientSaid,
    limit: Option<Duration>,
) -> Result<Introduction, NotMet> {
    let parameters = format!("{{\"_meta\":{{{}}}}}", said.meta());
    let mut own = OwnRequest::new(upstream, "server/discover", &parameters);
    if limit.is_some() {
        own.deadline = None;
    }
    let sent = server_request::open(&**upstream, own).map_err(NotMet::Failed)?;
    let answer = if let Some(limit) = limit {
        let limit = upstream.timeout.map_or(limit, |time| time.min(limit));
        let silent = || format!("did not answer `server/discover` within {limit:?}");
        timeout(limit, sent.answer()).await.map_err(|_| NotMet::Other(silent()))?
    } else {
        sent.answer().await
    };
    let answer = answer.map_err(NotMet::Failed)?;
    let is_modern = server_request::error_code(&answer).is_some_and(|c| MODERN_ERRORS.contains(&c));
    let result = result_of(answer, "server/discover");
    let result = result.map_err(if is_modern { NotMet::Failed } else { NotMet::Other })?;
    let introduction = Introduction::of_discover(&result)
        .ok_or_else(|| NotMet::Other("answered `server/discover` wrongly".to_owned()))?;
    upstream.set_modern(said.meta());
    Ok(introduction)
}

/// Returns true if a new client speaks to the only server, of which nothing is known.
pub(crate) fn is_to_meet(relay: &Relay) -> bool {
    let only = relay.upstreams.first().filter(|_| relay.hub.is_none());
    relay.bridge.client() == Some(Era::Modern) && only.is_some_and(|only| only.era().is_none())
}

/// Meets the only server for a new client. Those who come meanwhile share the outcome: if it fails,
/// the server answers their requests itself.
pub(crate) async fn meet(relay: &Arc<Relay>) {
    let meetings = &relay.bridge.meetings;
    let before = meetings.done.load(Ordering::Relaxed);
    let _turn = meetings.turn.lock().await;
    if meetings.done.load(Ordering::Relaxed) != before || !is_to_meet(relay) {
        return;
    }
    let Some(upstream) = relay.upstreams.first() else { return };
    let said = relay.bridge.said();
    let initialize = said.initialize(own::version("").as_str());
    match introduce(upstream, &said, &initialize, Era::Modern).await {
        Ok(introduction) => {
            // The client may never ask what the server has.
            relay.set_declared(Declared {
                tools: introduction.has("tools", ""),
                resources: introduction.has("resources", ""),
            });
            if upstream.era() == Some(Era::Legacy) {
                *relay.bridge.introduction.lock() = Some(introduction);
            }
        }
        Err(why) => tracing::warn!("{}: {why}", upstream.name),
    }
    meetings.done.fetch_add(1, Ordering::Relaxed);
}

/// Takes the answer to the client's own `initialize`. A server that refuses it may speak the newer
/// revision alone.
pub(super) async fn opened(relay: &Arc<Relay>, version: String, answer: ServerAnswer) {
    let ServerAnswer { from, pending, envelope, message } = answer;
    let Pending { client_id: Some(client_id), kind, .. } = pending else { return };
    let answer = Answer { client_id, kind, envelope, message, first: "" };
    if answer.envelope.result().is_some() {
        from.set_legacy();
        return deliver(relay, &from, answer).await;
    }
    let relay = Arc::clone(relay);
    tokio::spawn(async move {
        match by_discover(&from, &relay.bridge.said(), None).await {
            Ok(introduction) => {
                *relay.bridge.introduction.lock() = Some(introduction);
                listening::listen(&relay, relay.index_of(&from));
                introduced(&relay, &from, answer.client_id, Some(&version)).await;
            }
            // What it said first holds.
            Err(_) => deliver(&relay, &from, answer).await,
        }
    });
}

/// Answers the client in place of the only server, by what that said to the gateway: `initialize`
/// for revision `version`, else `server/discover`.
pub(super) async fn introduced(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    client_id: String,
    version: Option<&str>,
) {
    let known = relay.bridge.introduction.lock().clone().unwrap_or_default();
    let result = match version {
        Some(asked) => known.initialize_result(own::version(asked).as_str(), &from.name),
        None => known.discover_result(),
    };
    let message =
        Message::whole(String::from_utf8(envelope::answer("0", &result)).unwrap_or_default());
    let Ok(envelope) = Envelope::of(&message) else { return };
    let kind = PendingKind::Handshake;
    deliver(relay, from, Answer { client_id, kind, envelope, message, first: "" }).await;
}
