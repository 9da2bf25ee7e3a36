//! A queue of outgoing messages, limited in number and in bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::message::Outgoing;

// Limit on the bytes in memory. A single message of any length fits.
const BYTES: usize = 8 << 20;
// Minimum size charged for a message. It covers the overhead beyond the bytes, and limits the number
// of messages.
const MIN_COST: usize = 256;
// Further bytes for messages that end others, such as cancellations and responses.
const SPARE_BYTES: usize = 1 << 20;
const MESSAGES: usize = (BYTES + SPARE_BYTES) / MIN_COST;

/// The sending end of the queue. All clones share the same limits. A sender waits or is refused if
/// there is no room; no message is dropped.
#[derive(Clone)]
pub(crate) struct Sender {
    messages: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    spare: Arc<Semaphore>,
}

pub(crate) type Receiver = mpsc::Receiver<Queued>;

/// A message and the space reserved for it in the queue. Dropping this value releases the space, so
/// a message still counts while it is being written.
pub(crate) struct Queued {
    pub(crate) message: Outgoing,
    _room: OwnedSemaphorePermit,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full,
    Closed,
}

pub(crate) fn queue() -> (Sender, Receiver) {
    let (messages, received) = mpsc::channel(MESSAGES);
    let [room, spare] = [BYTES, SPARE_BYTES].map(|bytes| Arc::new(Semaphore::new(bytes)));
    (Sender { messages, room, spare }, received)
}

impl Sender {
    /// Sends a message, waiting until there is room. Returns false if the receiver is gone.
    pub(crate) async fn send(&self, message: impl Into<Outgoing>) -> bool {
        let message = message.into();
        let Some(room) = self.room(message.held()).await else { return false };
        self.messages.send(Queued { message, _room: room }).await.is_ok()
    }

    pub(crate) fn try_send(&self, message: impl Into<Outgoing>) -> Result<(), Refused> {
        let message = message.into();
        let room = self.try_room(message.held()).ok_or(Refused::Full)?;
        self.send_in(room, message)
    }

    /// Sends a message for which the messages in the queue may be waiting. If they have taken all room,
    /// there is spare room for it.
    pub(crate) fn send_ahead(&self, message: impl Into<Outgoing>) -> Result<(), Refused> {
        let message = message.into();
        let spare = || {
            let cost = message.held().clamp(MIN_COST, SPARE_BYTES) as u32;
            Arc::clone(&self.spare).try_acquire_many_owned(cost).ok()
        };
        let room = self.try_room(message.held()).or_else(spare).ok_or(Refused::Full)?;
        self.send_in(room, message)
    }

    /// Reserves room for a message of `bytes` bytes, if there is any.
    pub(crate) fn try_room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_many_owned(cost(bytes)).ok()
    }

    /// Reserves room for a message of `bytes` bytes, waiting until there is room.
    pub(crate) async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_many_owned(cost(bytes)).await.ok()
    }

    /// Sends a message in the reserved room.
    pub(crate) fn send_in(
        &self,
        room: OwnedSemaphorePermit,
        message: impl Into<Outgoing>,
    ) -> Result<(), Refused> {
        let message = message.into();
        self.messages.try_send(Queued { message, _room: room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Full,
            mpsc::error::TrySendError::Closed(_) => Refused::Closed,
        })
    }
}

fn cost(bytes: usize) -> u32 {
    bytes.clamp(MIN_COST, BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bounded_and_one_message_always_fits() {
        let (sender, mut receiver) = queue();
        assert_eq!(sender.try_send(vec![b'x'; 3 * BYTES]), Ok(()));
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Full));
        drop(receiver.try_recv().unwrap());
        for _ in 0..BYTES / MIN_COST {
            assert_eq!(sender.try_send(vec![b'x']), Ok(()));
        }
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Full));
        for _ in 0..SPARE_BYTES / MIN_COST {
            assert_eq!(sender.send_ahead(vec![b'x']), Ok(()));
        }
        assert_eq!(sender.send_ahead(vec![b'x']), Err(Refused::Full));
        drop(receiver);
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Closed));
    }
}
