//! Answers of servers between revisions.

use std::sync::Arc;

use crate::mcp::bridge::crossing::Crossing;
use crate::mcp::bridge::going_on;
use crate::mcp::bridge::meeting;
use crate::mcp::bridge::rounds;
use crate::mcp::envelope::Envelope;
use crate::mcp::message::Message;
use crate::mcp::pending::Pending;
use crate::mcp::relay::Relay;
use crate::mcp::upstream::Upstream;

/// Takes the answer to a request between revisions.
pub(in crate::mcp) async fn answered(
    relay: &Arc<Relay>,
    from: &Arc<Upstream>,
    crossing: Crossing,
    pending: Pending,
    envelope: Envelope,
    message: Message,
) {
    match crossing {
        Crossing::Opening { version } => {
            meeting::opened(relay, from, version, pending, envelope, message).await;
        }
        Crossing::Repeatable(again) => {
            rounds::of_new_server(relay, from, again, pending, envelope, message).await;
        }
        Crossing::Carrier(carrier) => {
            going_on::answered(relay, from, carrier, pending, envelope, message).await;
        }
    }
}
