//! A queue of outgoing messages, bounded by their number and by the bytes that they hold.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::message::Outgoing;

/// The most messages.
const MESSAGES: usize = 1024;
/// The most bytes in memory. One message is always taken, however long.
const BYTES: usize = 8 << 20;
/// The least room that a message takes, which is more than it needs besides its bytes.
const LEAST: usize = 256;

/// The end where messages are put in.
#[derive(Clone)]
pub(super) struct Sender {
    messages: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
}

/// The end where messages are taken out.
pub(super) struct Receiver(mpsc::Receiver<Queued>);

/// A message, and the room that it takes until it is dropped.
pub(super) struct Queued {
    pub(super) message: Outgoing,
    _room: OwnedSemaphorePermit,
}

/// The reason why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Closed,
}

pub(super) fn queue() -> (Sender, Receiver) {
    let (messages, received) = mpsc::channel(MESSAGES);
    (Sender { messages, room: Arc::new(Semaphore::new(BYTES)) }, Receiver(received))
}

impl Sender {
    /// Puts a message in as soon as there is room. False if nobody takes messages any more.
    pub(super) async fn send(&self, message: impl Into<Outgoing>) -> bool {
        let message = message.into();
        let room = Arc::clone(&self.room).acquire_many_owned(room(&message));
        let Ok(room) = room.await else { return false };
        self.messages.send(Queued { message, _room: room }).await.is_ok()
    }

    /// Puts a message in if there is room now.
    pub(super) fn try_send(&self, message: impl Into<Outgoing>) -> Result<(), Refused> {
        let message = message.into();
        let room = Arc::clone(&self.room).try_acquire_many_owned(room(&message));
        let room = room.map_err(|_| Refused::Full)?;
        self.messages.try_send(Queued { message, _room: room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Full,
            mpsc::error::TrySendError::Closed(_) => Refused::Closed,
        })
    }
}

impl Receiver {
    pub(super) async fn next(&mut self) -> Option<Queued> {
        self.0.recv().await
    }

    /// Waits on this thread.
    pub(super) fn wait(&mut self) -> Option<Queued> {
        self.0.blocking_recv()
    }

    /// Takes the next message if there is one.
    pub(super) fn at_hand(&mut self) -> Option<Queued> {
        self.0.try_recv().ok()
    }
}

fn room(message: &Outgoing) -> u32 {
    message.held().clamp(LEAST, BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bounded_and_one_message_always_fits() {
        let (sender, mut receiver) = queue();
        assert_eq!(sender.try_send(vec![b'x'; 3 * BYTES]), Ok(()));
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Full));
        drop(receiver.at_hand().unwrap());
        for _ in 0..MESSAGES {
            assert_eq!(sender.try_send(vec![b'x']), Ok(()));
        }
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Full));
        drop(receiver);
        assert_eq!(sender.try_send(vec![b'x']), Err(Refused::Closed));
    }
}
