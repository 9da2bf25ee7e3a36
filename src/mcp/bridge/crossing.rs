//! The notes on a request that goes from one revision to the other.

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::bridge::client_said::Abilities;
use crate::message::Outgoing;

/// A request on its way.
#[derive(Debug)]
pub(crate) enum Crossing {
    /// `initialize` of a client that asks for revision `version`, to a server of which nothing is
    /// known.
    Opening { version: String },
    /// A request of an old client to a new server, which may ask for input.
    Repeatable(Repeatable),
    /// A request of a new client to an old server.
    Carrier(Carrier),
}

/// A request that is made again with the input that its server asks for.
pub(crate) struct Repeatable {
    /// It, as it was sent first.
    pub(super) request: Outgoing,
    /// The times that the server has asked.
    pub(super) rounds: u32,
    /// The questions that its client answers.
    pub(super) abilities: Abilities,
    /// True if it calls a tool.
    pub(super) is_call: bool,
}

/// A request that can tell its client what the server asks meanwhile.
#[derive(Debug)]
pub(crate) struct Carrier {
    /// The questions that its client answers.
    pub(super) abilities: Abilities,
    /// True if its client wants log messages.
    pub(super) logs: bool,
    /// True if the client may keep the result for later.
    pub(super) is_kept: bool,
    /// The token of its progress as the client knows it now, as written.
    pub(super) token: Option<String>,
    pub(super) carries: Carries,
    /// The times that it told its client so.
    pub(super) rounds: u32,
}

/// The way in which questions reach the client.
#[derive(Debug)]
pub(crate) enum Carries {
    /// They do not: the client does not expect any at this request.
    Nothing,
    /// The request ends with them, and comes again.
    Held {
        /// The identity of the request, which comes again the same.
        identity: RequestIdentity,
        /// The number under which it is held.
        number: Option<u64>,
    },
    /// Another request, of which this one is a part, takes them.
    Batch(BatchInputs),
}

/// The identity of a request, by which it is known when it comes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestIdentity {
    /// Its method, server and name.
    pub(super) name: String,
    /// A digest of its arguments.
    pub(super) digest: Value,
}

impl RequestIdentity {
    /// Returns it as the call that a state is good for.
    pub(super) fn call(&self) -> (&str, &Value) {
        (&self.name, &self.digest)
    }
}

/// A question of a server at a call of a batch.
#[derive(Debug)]
pub(crate) struct BatchInput {
    /// The place of the call in the batch.
    pub(crate) place: usize,
    /// The members of the request.
    pub(crate) request: String,
    /// Gets the result, as JSON.
    pub(crate) answer: oneshot::Sender<String>,
}

/// Takes the questions at one call of a batch to it.
#[derive(Debug, Clone)]
pub(crate) struct BatchInputs {
    pub(crate) place: usize,
    pub(crate) sender: mpsc::UnboundedSender<BatchInput>,
}

impl BatchInputs {
    /// Puts a question. Returns what waits for the answer; it hears of none if the batch ends.
    pub(crate) fn ask(&self, request: String) -> oneshot::Receiver<String> {
        let (answer, waiting) = oneshot::channel();
        // A batch that has ended hears nothing.
        drop(self.sender.send(BatchInput { place: self.place, request, answer }));
        waiting
    }
}

impl std::fmt::Debug for Repeatable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repeatable").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

impl Crossing {
    /// Returns what is noted of a call of a batch.
    pub(crate) fn of_batch(abilities: Abilities, inputs: BatchInputs) -> Self {
        Self::Carrier(Carrier {
            abilities,
            logs: false,
            is_kept: false,
            token: None,
            carries: Carries::Batch(inputs),
            rounds: 0,
        })
    }
}

impl Carrier {
    /// Returns the number under which the request is held, if it is.
    pub(super) fn held(&self) -> Option<u64> {
        match self.carries {
            Carries::Held { number, .. } => number,
            _ => None,
        }
    }
}
