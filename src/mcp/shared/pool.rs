//! The shared servers of a gateway. One is begun with the first session that uses it, and ends with
//! the gateway.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::guard::Guard;
use crate::manager::{Manager, Surroundings};
use crate::options::{ServerOptions, ServerPlace};
use crate::queue;
use crate::remote::RemoteManager;
use crate::server_log::ServerLog;
use crate::shared::SharedServer;
use crate::shelf::LazyShelf;
use crate::upstream::Upstream;

/// The time in which all of them end, which is more than each has.
const ENDING: Duration = Duration::from_secs(10);

pub(crate) struct SharedServers {
    guard: Arc<Guard>,
    log: ServerLog,
    /// The most bytes of a message.
    most: u64,
    servers: Mutex<HashMap<String, Arc<SharedServer>>>,
    managers: Mutex<JoinSet<()>>,
    stop: watch::Sender<bool>,
}

impl SharedServers {
    pub(crate) fn new(guard: Arc<Guard>, log: ServerLog, most: u64) -> Self {
        let stop = watch::Sender::new(false);
        Self { guard, log, most, servers: Mutex::default(), managers: Mutex::default(), stop }
    }

    /// Returns a server. The disk of `shelf` takes long messages of one that begins.
    pub(crate) fn get(&self, server: &ServerOptions, shelf: &Arc<LazyShelf>) -> Arc<SharedServer> {
        let mut servers = self.servers.lock();
        if let Some(known) = servers.get(&server.name) {
            return Arc::clone(known);
        }
        let begun = self.begin(server, Arc::clone(shelf));
        servers.insert(server.name.clone(), Arc::clone(&begun));
        begun
    }

    fn begin(&self, server: &ServerOptions, shelf: Arc<LazyShelf>) -> Arc<SharedServer> {
        let (sender, queue) = queue::queue();
        // Each session has its own deadlines.
        let upstream = Arc::new(Upstream::new(server.name.clone(), None, sender, self.log.clone()));
        let shared = Arc::new(SharedServer::new(Arc::clone(&upstream)));
        let around = Surroundings {
            inbox: Arc::clone(&shared),
            shelf,
            guard: Arc::clone(&self.guard),
            log: self.log.clone(),
            stop: self.stop.subscribe(),
            most: self.most,
        };
        let mut managers = self.managers.lock();
        match server.place.clone() {
            ServerPlace::Command(command) => {
                managers.spawn(Manager::new(upstream, command, queue, around).run())
            }
            ServerPlace::Remote(remote) => {
                managers.spawn(RemoteManager::new(upstream, remote, queue, around).run())
            }
        };
        shared
    }

    /// Ends all of them. No process is left.
    pub(crate) async fn end(&self) {
        self.stop.send_replace(true);
        let mut managers = std::mem::take(&mut *self.managers.lock());
        let all = async { while managers.join_next().await.is_some() {} };
        timeout(ENDING, all).await.ok();
    }
}
