//! A queue of outgoing messages, limited in number and in bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::message::Outgoing;

const MESSAGES: usize = 1024;
// Limit on the bytes in memory. A single message of any length fits.
const BYTES: usize = 8 << 20;
// Minimum size charged for a message. It covers the overhead beyond the bytes.
const MIN_COST: usize = 256;

/// The sending end of the queue. All clones share the same limits. A sender waits or is refused if
/// there is no room; no message is dropped.
#[derive(Clone)]
pub(crate) struct Sender {
    messages: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
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
    (Sender { messages, room: Arc::new(Semaphore::new(BYTES)) }, received)
}

impl Sender {
    /// Sends a message, waiting until there is room. Returns false if the receiver is gone.
    pub(crate) async fn send(&self, message: impl Into<Outgoing>) -> bool {
        let message = message.into();
        let room = Arc::clone(&self.room).acquire_many_owned(room(&message));
        let Ok(room) = room.await else { return false };
        self.messages.send(Queued { message, _room: room }).await.is_ok()
    }

    pub(crate) fn try_send(&self, message: impl Into<Outgoing>) -> Result<(), Refused> {
        let message = message.into();
        let room = Arc::clone(&self.room).try_acquire_many_owned(room(&message));
        let room = room.map_err(|_| Refused::Full)?;
        self.messages.try_send(Queued { message, _room: room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Full,
            mpsc::error::TrySendError::Closed(_) => Refused::Closed,
        })
    }
}

fn room(message: &Outgoing) -> u32 {
    message.held().clamp(MIN_COST, BYTES) as u32
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
        for _ in 0..MESSAGES {
            assert_eq!(sender.try_send(vec![b'x']), Ok(()));
        }
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Full));
        drop(receiver);
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Closed));
    }
}
