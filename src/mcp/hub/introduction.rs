//! Introduces the client to all servers concurrently. Failed introductions are retried with growing
//! pauses.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::client::subscriptions;
use crate::hub::{Hub, ServerFacts};
use crate::lists::ListKind;
use crate::own;
use crate::relay::Relay;
use crate::revision::{self, Era};
use crate::upstream::handshake::{self, MAX_BACKOFF, MIN_BACKOFF};

// Maximum time that the client's first answer waits for the servers.
const INTRODUCTION_TIME: Duration = Duration::from_secs(5);

/// Introduces the client to all servers, with the `initialize` parameters of the first call. Later
/// calls only wait. Waits for the servers, but at most for [`INTRODUCTION_TIME`].
pub(crate) async fn begin(relay: &Arc<Relay>, hub: &Hub, parameters: impl FnOnce() -> String) {
    let is_first = {
        let mut session = hub.session.lock();
        let is_first = session.parameters.is_none();
        session.parameters.get_or_insert_with(parameters);
        is_first
    };
    if is_first {
        for server in 0..hub.servers.len() {
            tokio::spawn(meet(Arc::downgrade(relay), server));
        }
    }
    let all = async {
        for server in &hub.servers {
            // Does not wait for a server whose introduction failed.
            let mut known = server.introduced.subscribe();
            let is_known = |known: &Option<_>| known.is_some() || server.failure.lock().is_some();
            known.wait_for(is_known).await.ok();
        }
    };
    timeout(INTRODUCTION_TIME, all).await.ok();
    hub.session.lock().is_introduced = true;
}

pub(crate) async fn begin_by_request(relay: &Arc<Relay>, hub: &Hub, params: &Value) {
    begin(relay, hub, || relay.client.profile().initialize(revision::negotiated("").as_str()))
        .await;
    if own::is_modern(params) {
        hub.ready.send_replace(true);
    }
}

async fn meet(relay: Weak<Relay>, server: usize) {
    let mut pause = MIN_BACKOFF;
    while let Some(relay) = relay.upgrade() {
        let Some(hub) = &relay.hub else { return };
        let known = &hub.servers[server];
        match introduce(&relay, hub, server).await {
            Ok(introduced) => return publish(&relay, hub, server, introduced).await,
            Err(why) => {
                tracing::warn!("{}: {why}", relay.upstreams[server].name);
                *known.failure.lock() = Some(why);
                // Wakes the tasks that wait for the introduction, so that they see the failure.
                known.introduced.send_modify(|_| {});
            }
        }
        drop(relay);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

pub(crate) async fn introduce(
    relay: &Arc<Relay>,
    hub: &Hub,
    server: usize,
) -> Result<ServerFacts, String> {
    let (profile, parameters) = (relay.client.profile(), hub.session.lock().parameters.clone());
    let parameters =
        parameters.unwrap_or_else(|| profile.initialize(revision::negotiated("").as_str()));
    let upstream = &relay.upstreams[server];
    let first = relay.client.era.get().unwrap_or(Era::Legacy);
    let described = handshake::introduce(upstream, &profile, &parameters, first).await?;
    if upstream.era.get() == Some(Era::Modern) {
        upstream.listen(&described);
    }
    let mut introduced = ServerFacts {
        capabilities: serde_json::from_str(&described.capabilities).unwrap_or_default(),
        instructions: described.instructions(),
        unlisted: Vec::new(),
    };
    for kind in ListKind::ALL {
        if introduced.lists(kind)
            && let Err(why) = hub.servers[server].catalog.fetch(upstream, kind).await
        {
            tracing::warn!("{}: {why}", upstream.name);
            introduced.unlisted.push(why);
        }
    }
    Ok(introduced)
}

pub(crate) async fn publish(relay: &Relay, hub: &Hub, server: usize, introduced: ServerFacts) {
    let is_late = hub.session.lock().is_introduced;
    let lists = ListKind::CHANGING.into_iter().filter(|kind| introduced.lists(*kind));
    let lists: Vec<ListKind> = lists.collect();
    *hub.servers[server].failure.lock() = None;
    hub.servers[server].introduced.send_replace(Some(Arc::new(introduced)));
    hub.names.lock().forget();
    for kind in lists.into_iter().filter(|_| is_late) {
        announce(relay, hub, kind).await;
    }
}

/// Fetches the lists that a notification names, then notifies the client. If a list is already
/// being fetched, the running task fetches it again.
pub(crate) fn changed(relay: &Arc<Relay>, server: usize, notification: &str) {
    let Some(hub) = &relay.hub else { return };
    for kind in ListKind::ALL.into_iter().filter(|kind| kind.notification() == notification) {
        if hub.servers[server].catalog.begin_renewal(kind) {
            tokio::spawn(renew(Arc::downgrade(relay), server, kind));
        }
    }
}

async fn renew(relay: Weak<Relay>, server: usize, kind: ListKind) {
    while let Some(relay) = relay.upgrade() {
        let Some(hub) = &relay.hub else { return };
        let (upstream, catalog) = (&relay.upstreams[server], &hub.servers[server].catalog);
        match catalog.fetch(upstream, kind).await {
            Ok(()) => hub.names.lock().forget(),
            Err(why) => tracing::warn!("{}: {why}; its old list holds", upstream.name),
        }
        let is_due = catalog.end_renewal(kind);
        announce(&relay, hub, kind).await;
        if !is_due {
            return;
        }
    }
}

async fn announce(relay: &Relay, hub: &Hub, kind: ListKind) {
    if hub.announces(kind) {
        subscriptions::changed(relay, &kind.notification()).await;
    }
}
