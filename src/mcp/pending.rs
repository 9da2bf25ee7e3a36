//! Requests to a server that wait for their answer.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::bridge::crossing::Crossing;
use crate::message::Message;

/// A request that waits for its answer.
pub(super) struct Pending {
    /// The id that the client gave it, as written; `None` for one of the gateway's own.
    pub(super) client_id: Option<String>,
    pub(super) kind: PendingKind,
    /// The token of its progress, as written.
    pub(super) token: Option<String>,
    pub(super) deadline: Option<Instant>,
    /// Present where client and server speak different revisions.
    pub(super) crossing: Option<Box<Crossing>>,
}

/// The treatment of the answer.
pub(super) enum PendingKind {
    /// It passes.
    Relay,
    /// It passes, with what the gateway adds and takes out.
    Handshake,
    /// As [`PendingKind::Handshake`], for a listing.
    Listing(ListKind),
    /// The result of a tool, which may be long.
    Call(Box<Call>),
    /// A session asked a server that several share.
    Shared(SharedRequest),
    /// The gateway waits for it, or to hear why there is none.
    Own(oneshot::Sender<Result<Message, String>>),
}

/// A request of a session to a server that several share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedRequest {
    pub(super) session: u64,
    /// Its number there.
    pub(super) number: u64,
    /// True if it calls a tool.
    pub(super) is_call: bool,
}

impl Pending {
    /// Tells the gateway that a request of its own has no answer. Returns any other request.
    pub(super) fn of_client(self, why: &str) -> Option<Self> {
        match self.kind {
            PendingKind::Own(waiting) => {
                drop(waiting.send(Err(why.to_owned())));
                None
            }
            _ => Some(self),
        }
    }
}

/// A listing of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Resources,
    Templates,
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) arguments: Option<String>,
    pub(super) started: Instant,
    /// True if the client knows the type `resource_link`.
    pub(super) links: bool,
}

impl Call {
    /// Returns `server/tool`.
    pub(super) fn tool_name(&self) -> String {
        format!("{}/{}", self.server, self.tool)
    }
}

/// The requests to one server.
#[derive(Default)]
pub(super) struct PendingRequests {
    next: u64,
    waiting: HashMap<u64, Pending>,
}

impl PendingRequests {
    /// Returns the id of the next request.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Returns the requests, the newest last.
    pub(super) fn by_age(&mut self) -> Vec<(u64, &mut Pending)> {
        let mut all: Vec<_> = self.waiting.iter_mut().map(|(id, pending)| (*id, pending)).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Pending> {
        self.waiting.get_mut(&id)
    }

    pub(super) fn insert(&mut self, id: u64, pending: Pending) {
        self.waiting.insert(id, pending);
    }

    /// Takes the request with the id that an answer has, as written.
    pub(super) fn take_answered(&mut self, id: &str) -> Option<Pending> {
        self.take(id.parse().ok()?)
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Pending> {
        self.waiting.remove(&id)
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Takes the only call of a tool, if there is just one.
    pub(super) fn take_only_call(&mut self) -> Option<Pending> {
        let is_call = |pending: &Pending| match &pending.kind {
            PendingKind::Call(_) => true,
            PendingKind::Shared(request) => request.is_call,
            _ => false,
        };
        let mut calls = self.waiting.iter().filter(|(_, pending)| is_call(pending));
        let id = *calls.next()?.0;
        if calls.next().is_some() {
            return None;
        }
        self.take(id)
    }

    pub(super) fn take_all(&mut self) -> Vec<Pending> {
        self.waiting.drain().map(|(_, pending)| pending).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    /// Returns the requests of sessions that share the server, by their ids.
    pub(super) fn shared(&self) -> impl Iterator<Item = (u64, SharedRequest)> {
        self.waiting.iter().filter_map(|(id, pending)| match &pending.kind {
            PendingKind::Shared(request) => Some((*id, *request)),
            _ => None,
        })
    }

    /// Returns the token of the progress of the request with this id.
    pub(super) fn token(&self, id: u64) -> Option<&str> {
        self.waiting.get(&id)?.token.as_deref()
    }

    /// Returns the client's id of the request with this id.
    pub(super) fn client_id(&self, id: u64) -> Option<&str> {
        self.waiting.get(&id)?.client_id.as_deref()
    }

    /// Gives the request with this token its whole time again.
    pub(super) fn restart(&mut self, token: &str, time: Duration) {
        for pending in self.waiting.values_mut() {
            if pending.token.as_deref() == Some(token) && pending.deadline.is_some() {
                pending.deadline = Some(Instant::now() + time);
            }
        }
    }

    /// Gives all requests their whole time again.
    pub(super) fn restart_all(&mut self, time: Duration) {
        for pending in self.waiting.values_mut().filter(|pending| pending.deadline.is_some()) {
            pending.deadline = Some(Instant::now() + time);
        }
    }

    /// Takes the requests whose time is over.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<(u64, Pending)> {
        let is_late = |pending: &Pending| pending.deadline.is_some_and(|deadline| deadline <= now);
        let late = self.waiting.iter().filter(|(_, pending)| is_late(pending));
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        late.into_iter().filter_map(|id| Some((id, self.take(id)?))).collect()
    }
}
