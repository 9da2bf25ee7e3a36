//! Why an attempt has no reply.

use std::error::Error;
use std::time::Duration;

use hyper::StatusCode;

use crate::extract::TokenUsage;
use crate::http_client::causes;
use crate::llm::complaint::Complaint;
use crate::llm::patience::Interrupted;

/// An attempt that failed. What the endpoint said may hold the key, so it has no `Debug`.
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// The event, in words that follow the name of the endpoint: `ended its reply before the end`.
    pub(super) what: String,
    /// What the endpoint said.
    pub(super) complaint: Complaint,
    pub(super) hint: Hint,
    /// What it cost.
    pub(super) usage: TokenUsage,
}

/// What follows from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The request is too long.
    Overflow,
    /// The request is wrong.
    Rejected,
    /// Another attempt may help, after the time that the endpoint asks for.
    Passing(Option<Duration>),
    /// The endpoint does not work, and another attempt is vain.
    Lasting,
    /// Nobody waits for the reply.
    Stopped,
}

/// What somebody can do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    None,
    /// See whether the server runs at that address.
    Server,
    /// See whether the address is right.
    Address,
    /// See whether the address and the name of the model are right.
    Model,
    /// See whether the key is right.
    Key,
    /// Set the size of the context.
    Context,
    /// Give it more time.
    Timeout,
    /// Come back later.
    Later,
    /// Pay for more.
    Account,
    /// See whether the settings fit the endpoint.
    Settings,
}

impl Fault {
    pub(super) fn new(kind: FaultKind, what: impl Into<String>, hint: Hint) -> Self {
        let (complaint, usage) = (Complaint::default(), TokenUsage::default());
        Self { kind, what: what.into(), complaint, hint, usage }
    }

    /// A reply that broke off, or that is none.
    pub(super) fn broken(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Passing(None), what, Hint::Later)
    }

    /// An answer that is no reply, as another service gives it.
    pub(super) fn no_reply(what: &str) -> Self {
        Self::new(FaultKind::Rejected, what, Hint::Address)
    }

    /// A reply beyond a bound.
    pub(super) fn beyond(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Lasting, what, Hint::Address)
    }

    /// Adds the error that it comes from, with its causes.
    pub(super) fn caused_by(self, error: &dyn Error) -> Self {
        self.saying(causes(error))
    }

    /// Adds what the endpoint said about it.
    pub(super) fn saying(mut self, message: String) -> Self {
        self.complaint.message = message;
        self
    }

    /// Adds what the attempt had cost.
    pub(super) fn costing(mut self, usage: TokenUsage) -> Self {
        self.usage = usage;
        self
    }

    /// Returns the fault of an answer with this status.
    pub(super) fn of_status(
        status: StatusCode,
        complaint: Complaint,
        asked: Option<Duration>,
    ) -> Self {
        let (kind, hint) = follows(status.as_u16(), &complaint, asked);
        // Not every one has a name, such as 529.
        let name = status.canonical_reason().map_or_else(String::new, |name| format!(" {name}"));
        Self { complaint, ..Self::new(kind, format!("answered {}{name}", status.as_u16()), hint) }
    }

    /// Returns the fault of an error within a reply.
    pub(super) fn in_reply(complaint: Complaint) -> Self {
        let status = complaint.status().unwrap_or(500);
        let (kind, hint) = follows(status, &complaint, None);
        let what = format!("broke off its reply with an error ({status})");
        Self { complaint, ..Self::new(kind, what, hint) }
    }
}

impl From<Interrupted> for Fault {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Late => {
                Self::new(FaultKind::Passing(None), "did not reply in time", Hint::Timeout)
            }
            Interrupted::Stopped => {
                Self::new(FaultKind::Stopped, "was left: nobody waits for its reply", Hint::None)
            }
        }
    }
}

/// Returns what follows from an error with this status.
fn follows(status: u16, complaint: &Complaint, asked: Option<Duration>) -> (FaultKind, Hint) {
    let is_of_request = matches!(status, 400 | 413 | 422 | 500);
    match status {
        413 => (FaultKind::Overflow, Hint::Context),
        _ if is_of_request && complaint.is_overflow() => (FaultKind::Overflow, Hint::Context),
        429 if complaint.is_unpaid() => (FaultKind::Lasting, Hint::Account),
        401 | 403 => (FaultKind::Rejected, Hint::Key),
        404 => (FaultKind::Rejected, Hint::Model),
        // What the server does not do at this address.
        405 | 410 | 501 | 505 => (FaultKind::Rejected, Hint::Address),
        408 | 409 | 425 | 429 | 500.. => (FaultKind::Passing(asked), Hint::Later),
        _ => (FaultKind::Rejected, Hint::Settings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_follows() {
        let asked = Some(Duration::from_secs(7));
        let passing = FaultKind::Passing(asked);
        let table = [
            (400, FaultKind::Rejected),
            (401, FaultKind::Rejected),
            (403, FaultKind::Rejected),
            (404, FaultKind::Rejected),
            (408, passing),
            (413, FaultKind::Overflow),
            (418, FaultKind::Rejected),
            (429, passing),
            (500, passing),
            (501, FaultKind::Rejected),
            (503, passing),
            (529, passing),
        ];
        for (status, kind) in table {
            assert_eq!(follows(status, &Complaint::default(), asked).0, kind, "{status}");
        }
    }
}
