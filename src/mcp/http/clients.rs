//! All clients over HTTP, by the ids of their sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::http::client::Client;
use crate::http::gate::Owner;
use crate::http::refusal::Refusal;
use crate::session::Gateway;
use crate::shelf::{LazyShelf, Shelf, Shelves};

/// The most sessions. Each has servers of its own.
const MOST: usize = 64;

pub(super) struct Clients {
    gateway: Gateway,
    shelves: Arc<dyn Shelves>,
    idle: Duration,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: HashMap<String, Arc<Client>>,
    /// Those of the revision without sessions.
    shared: HashMap<Owner, Arc<Client>>,
    /// True once all are to end.
    is_closed: bool,
}

impl Clients {
    pub(super) fn new(gateway: Gateway, shelves: Arc<dyn Shelves>, idle: Duration) -> Self {
        Self { gateway, shelves, idle, open: Mutex::default() }
    }

    /// Begins a session. Returns its id too.
    pub(super) fn begin(&self, owner: Owner) -> Result<(String, Arc<Client>), Refusal> {
        let mut open = self.open.lock();
        open.check_room()?;
        let shelf = self.shelves.of_session();
        let client = self.client(shelf, owner, false)?;
        // 122 bits of the system's random numbers.
        let id = Uuid::new_v4().to_string();
        tracing::info!("a session begins; its conversation is {}", client.shelf.conversation());
        open.sessions.insert(id.clone(), Arc::clone(&client));
        Ok((id, client))
    }

    /// Returns the session with an id, if it is of this owner.
    pub(super) fn find(&self, id: &str, owner: Owner) -> Result<Arc<Client>, Refusal> {
        let open = self.open.lock();
        let found = open.sessions.get(id).filter(|client| client.owner == owner);
        found.cloned().ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "the session has ended: initialize again")
        })
    }

    /// Returns what serves the requests of this owner that have no session.
    pub(super) fn shared(&self, owner: Owner, token: Option<&str>) -> Result<Arc<Client>, Refusal> {
        let mut open = self.open.lock();
        if let Some(client) = open.shared.get(&owner) {
            return Ok(Arc::clone(client));
        }
        open.check_room()?;
        let client = self.client(self.shelves.of_token(token), owner, true)?;
        open.shared.insert(owner, Arc::clone(&client));
        Ok(client)
    }

    /// Takes the session with an id, so that it can be ended.
    pub(super) fn take(&self, id: &str) -> Option<Arc<Client>> {
        self.open.lock().sessions.remove(id)
    }

    /// Takes the sessions that nobody used for a while.
    pub(super) fn take_idle(&self) -> Vec<Arc<Client>> {
        let mut open = self.open.lock();
        let sessions = open.sessions.extract_if(|_, client| client.is_idle(self.idle));
        let mut idle: Vec<_> = sessions.map(|(_, client)| client).collect();
        let shared = open.shared.extract_if(|_, client| client.is_idle(self.idle));
        idle.extend(shared.map(|(_, client)| client));
        idle
    }

    /// Ends all sessions.
    pub(super) async fn end(&self) {
        let none = Open { is_closed: true, ..Open::default() };
        let open = std::mem::replace(&mut *self.open.lock(), none);
        let mut ending = JoinSet::new();
        for client in open.sessions.into_values().chain(open.shared.into_values()) {
            ending.spawn(async move { client.end().await });
        }
        while ending.join_next().await.is_some() {}
        self.gateway.end().await;
    }

    fn client(
        &self,
        shelf: Arc<dyn Shelf>,
        owner: Owner,
        is_shared: bool,
    ) -> Result<Arc<Client>, Refusal> {
        let shelf = Arc::new(LazyShelf::new(shelf));
        Client::begin(&self.gateway, shelf, owner, is_shared).map_err(|error| {
            let text = format!("the session cannot begin: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, text)
        })
    }
}

impl Open {
    fn check_room(&self) -> Result<(), Refusal> {
        if self.is_closed {
            let text = "the gateway is being stopped";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        if self.sessions.len() + self.shared.len() < MOST {
            return Ok(());
        }
        let text = format!("{MOST} sessions are open: end one by DELETE, or try again later");
        Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text))
    }
}
