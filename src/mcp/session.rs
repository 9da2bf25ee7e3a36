//! The gateway, and the sessions of its clients.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::ClientSession;
use crate::from_upstream::SessionInbox;
use crate::hub::survey::{self, Survey};
use crate::hub::{Hub, IndexMode};
use crate::manager::ManagerContext;
use crate::options::{GatewayOptions, OfferMode};
use crate::process::{Guard, ServerLog};
use crate::queue;
use crate::relay::Relay;
use crate::revision::Era;
use crate::shared::pool::{self, SharedServers};
use crate::shelf::LazyShelf;
use crate::upstream::Upstream;

// Longer than any server takes to end.
const ENDING: Duration = Duration::from_secs(10);

pub(crate) struct Gateway {
    pub(crate) options: GatewayOptions,
    guard: Arc<Guard>,
    log: ServerLog,
    shared: SharedServers,
}

/// A session and the managers of its servers. Call [`GatewaySession::end`] before dropping it;
/// otherwise its server processes run until the guard ends them.
pub(crate) struct GatewaySession {
    pub(crate) relay: Arc<Relay>,
    managers: Mutex<JoinSet<()>>,
    pub(crate) stop: Arc<watch::Sender<bool>>,
}

impl Gateway {
    pub(crate) fn new(options: GatewayOptions) -> io::Result<Self> {
        let guard = Arc::new(Guard::new(options.guard_command.clone()));
        let log = ServerLog::start()?;
        let shared = SharedServers::new(Arc::clone(&guard), log.clone(), options.max_result);
        Ok(Self { options, guard, log, shared })
    }

    pub(crate) async fn end(&self) {
        self.shared.end().await;
    }
}

impl GatewaySession {
    /// Starts a session. Messages for the client go to `client`. `era` is set if the transport
    /// fixes the client's era.
    pub(crate) fn begin(
        gateway: &Gateway,
        shelf: &Arc<LazyShelf>,
        client: queue::Sender,
        era: Option<Era>,
    ) -> io::Result<Self> {
        let (stop, stopping) = watch::channel(false);
        let hub = hub_of(&gateway.options)?;
        let (mut upstreams, mut places) = (Vec::new(), Vec::new());
        for server in &gateway.options.servers {
            let (sender, queue) = queue::queue();
            let log = gateway.log.clone();
            let upstream = Upstream::new(server.name.clone(), server.timeout, sender, log);
            upstreams.push(Arc::new(upstream));
            places.push((server, queue));
        }
        let options = &gateway.options;
        let client = ClientSession::new(client, era, random()?);
        let relay = Relay::new(Arc::clone(shelf), upstreams.clone(), options, hub, client);
        let relay = Arc::new(relay);
        let mut managers = JoinSet::new();
        for (upstream, (server, queue)) in upstreams.into_iter().zip(places) {
            let context = ManagerContext {
                inbox: Arc::new(SessionInbox(Arc::clone(&relay))),
                shelf: Arc::clone(shelf),
                guard: Arc::clone(&gateway.guard),
                log: gateway.log.clone(),
                stop: stopping.clone(),
                most: gateway.options.max_result,
            };
            if server.shared {
                let shared = gateway.shared.get(server, shelf);
                managers.spawn(pool::run_shared(upstream, shared, queue, context));
            } else {
                managers.spawn(pool::run_server(server.place.clone(), upstream, queue, context));
            }
        }
        Ok(Self { relay, managers: Mutex::new(managers), stop: Arc::new(stop) })
    }

    pub(crate) async fn survey(gateway: &Gateway, shelf: &Arc<LazyShelf>) -> io::Result<Survey> {
        let (sender, mut queue) = queue::queue();
        let session = Self::begin(gateway, shelf, sender, None)?;
        // Discards the messages, because there is no client.
        let unread = tokio::spawn(async move { while queue.recv().await.is_some() {} });
        let survey = survey::survey(&session.relay).await;
        session.end().await;
        unread.abort();
        Ok(survey)
    }

    pub(crate) async fn end(&self) {
        self.stop.send_replace(true);
        let mut managers = std::mem::take(&mut *self.managers.lock());
        let all = async { while managers.join_next().await.is_some() {} };
        timeout(ENDING, all).await.ok();
        self.relay.client.close();
    }
}

fn hub_of(options: &GatewayOptions) -> io::Result<Option<Hub>> {
    let offers =
        options.servers.iter().map(|server| (server.name.clone(), server.offer.clone())).collect();
    let index = match &options.offer {
        OfferMode::Through => return Ok(None),
        OfferMode::Direct => None,
        OfferMode::Index(index) => Some(IndexMode::new((**index).clone(), random()?)),
    };
    Ok(Some(Hub::new(offers, index)))
}

pub(crate) fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if count == bytes.len() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

pub(crate) struct Signals([Signal; 3]);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hang_up] = kinds.map(signal);
        Ok(Self([terminate?, interrupt?, hang_up?]))
    }

    pub(crate) async fn any(&mut self) {
        let [terminate, interrupt, hang_up] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}
