//! The requests of sessions that wait at a shared server.

use std::collections::BTreeSet;

use crate::pending::SharedRequest;
use crate::upstream::Upstream;

impl Upstream {
    /// Returns the number of requests of a session.
    pub(super) fn count_of_session(&self, session: u64) -> usize {
        self.requests(|all| all.shared().filter(|(_, request)| request.session == session).count())
    }

    /// Returns the id of a request of a session.
    pub(super) fn number_of(&self, session: u64, number: u64) -> Option<u64> {
        let is_it =
            |request: &SharedRequest| (request.session, request.number) == (session, number);
        self.requests(|all| all.shared().find(|(_, request)| is_it(request)).map(|(id, _)| id))
    }

    /// Returns the sessions whose calls of tools run.
    pub(super) fn callers(&self) -> BTreeSet<u64> {
        self.requests(|all| {
            let calls = all.shared().filter(|(_, request)| request.is_call);
            calls.map(|(_, request)| request.session).collect()
        })
    }

    /// Returns the request with an id, as written, and the token of its progress.
    pub(super) fn shared_request(&self, id: &str) -> Option<(SharedRequest, Option<String>)> {
        let id = id.parse().ok()?;
        self.requests(|all| {
            let (_, request) = all.shared().find(|(other, _)| *other == id)?;
            Some((request, all.token(id).map(str::to_owned)))
        })
    }

    /// Takes all requests of a session. Returns their ids.
    pub(super) fn take_of_session(&self, session: u64) -> Vec<u64> {
        let ids: Vec<u64> = self.requests(|all| {
            let of_it = all.shared().filter(|(_, request)| request.session == session);
            of_it.map(|(id, _)| id).collect()
        });
        ids.into_iter().filter(|id| self.take(*id).is_some()).collect()
    }
}
