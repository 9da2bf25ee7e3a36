//! Asking a person about calls: through the client, in whatever way it can.

use std::sync::Arc;

use serde_json::Value;

use crate::bridge::client_said::{Abilities, Ask};
use crate::client_question;
use crate::permission::Answer;
use crate::relay::Relay;

/// The way in which a client can put a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// A request to the client, `elicitation/create`.
    Elicitation,
    /// A result that asks, `input_required`, after which the call comes again.
    InputRequired,
    /// None.
    Nobody,
}

impl Channel {
    /// Returns the way of a client, which may be one of 2026-07-28.
    pub(super) fn of(is_modern: bool, client: Abilities) -> Self {
        match (client.has(Ask::Form), is_modern) {
            (false, _) => Self::Nobody,
            (true, true) => Self::InputRequired,
            (true, false) => Self::Elicitation,
        }
    }
}

/// Puts a question to the client, and waits for the answer. If it is dropped before, the client is
/// told so.
pub(super) async fn ask(relay: Arc<Relay>, parameters: Value) -> Answer {
    let compose = |id: u64| {
        let request = serde_json::json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": parameters,
        });
        request.to_string().into_bytes()
    };
    let Some(answer) = client_question::ask(&relay, compose).await else {
        // The client is gone.
        return Answer::No;
    };
    let answer: Value = serde_json::from_str(answer.text()).unwrap_or_default();
    Answer::of_result(&answer["result"])
}
