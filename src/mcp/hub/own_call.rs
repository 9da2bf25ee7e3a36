//! A call of a batch that the gateway answers itself: a question about a stored output.

use std::sync::Arc;

use serde_json::{Value, to_value};
use tokio::task::spawn_blocking;

use crate::context::extraction;
use crate::context::extraction::AnswerWaiter;
use crate::hub::batch_call::{MadeCall, ReadyCall};
use crate::index::{Index, Tool};
use crate::message::Message;
use crate::pending::Call;
use crate::permission::Risk;
use crate::relay::Relay;

/// Returns the index of the tools that a batch may call beside those of servers.
pub(super) fn index() -> Index {
    let tool = Tool {
        name: extraction::NAME.to_owned(),
        true_name: extraction::true_name(),
        risk: Risk::Read,
        listed: to_value(extraction::tool()).unwrap_or_default(),
    };
    Index::new([tool])
}

/// Returns true if a call names one of them.
pub(super) fn is_own(call: &Value) -> bool {
    call["name"].as_str().is_some_and(|name| name.trim() == extraction::NAME)
}

/// Answers a question. A batch that is cancelled drops the future, which ends the calls of the
/// language model.
pub(super) async fn make(relay: Arc<Relay>, call: Arc<ReadyCall>) -> MadeCall {
    let record = call.record();
    let Ok(turn) = Arc::clone(&relay.questions).acquire_owned().await else {
        return MadeCall::failed("the gateway ends".to_owned());
    };
    let waiting = Arc::new(());
    let waits = Arc::downgrade(&waiting);
    let answered = spawn_blocking(move || {
        let stopped = || waits.strong_count() == 0;
        let made = answer(&relay, &call.arguments, &record, &stopped);
        drop(turn);
        made
    });
    let made = answered.await;
    drop(waiting);
    made.unwrap_or_else(|_| MadeCall::failed("a fault of the gateway".to_owned()))
}

/// Answers a question and stores the answer. Waits for the model and for the disk.
fn answer(
    relay: &Relay,
    arguments: &Value,
    record: &Call,
    stopped: &(dyn Fn() -> bool + Sync),
) -> MadeCall {
    let waiter = AnswerWaiter { stopped, tell: &|_| () };
    let answered =
        relay.shelf.open().and_then(|open| extraction::answer(&open, arguments, &waiter));
    let made = match answered {
        Err(why) => MadeCall::failed(why),
        Ok(result) => {
            let message = Message::whole(result.to_string());
            let range = 0..message.text().len();
            MadeCall::stored(relay, record, &message, &range)
        }
    };
    relay.count(record, made.failed, 0, 0);
    made
}
