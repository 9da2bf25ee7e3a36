//! Answers of servers between revisions.

use std::sync::Arc;

use crate::bridge::crossing::Crossing;
use crate::bridge::era::Between;
use crate::bridge::{going_on, meeting, rounds};
use crate::delivery::{ServerAnswer, deliver_changed};
use crate::relay::Relay;

/// Takes the answer to a request between revisions.
pub(crate) async fn answered(relay: &Arc<Relay>, crossing: Crossing, answer: ServerAnswer) {
    match crossing {
        Crossing::Opening { version } => meeting::opened(relay, version, answer).await,
        Crossing::Repeatable(again) => rounds::of_new_server(relay, again, answer).await,
        Crossing::Carrier(carrier) => going_on::answered(relay, carrier, answer).await,
    }
}

/// Hands over the answer to any other request.
pub(crate) async fn passed(relay: &Arc<Relay>, answer: ServerAnswer) {
    let is_newer = relay.bridge.between(answer.from.era()) == Some(Between::OldClient);
    let answer = if is_newer { rounds::without_new(answer) } else { answer };
    deliver_changed(relay, answer, Vec::new(), "").await;
}
