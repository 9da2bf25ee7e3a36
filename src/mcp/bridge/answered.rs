//! Answers of servers between revisions.

use std::sync::Arc;

use crate::mcp::bridge::crossing::Crossing;
use crate::mcp::bridge::going_on;
use crate::mcp::bridge::meeting;
use crate::mcp::bridge::rounds;
use crate::mcp::delivery::ServerAnswer;
use crate::mcp::relay::Relay;

/// Takes the answer to a request between revisions.
pub(in crate::mcp) async fn answered(relay: &Arc<Relay>, crossing: Crossing, answer: ServerAnswer) {
    match crossing {
        Crossing::Opening { version } => meeting::opened(relay, version, answer).await,
        Crossing::Repeatable(again) => rounds::of_new_server(relay, again, answer).await,
        Crossing::Carrier(carrier) => going_on::answered(relay, carrier, answer).await,
    }
}
