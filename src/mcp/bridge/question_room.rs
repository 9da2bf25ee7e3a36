//! The memory of a session for what servers ask, until the client has answered.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most bytes of all questions.
const BYTES: usize = 16 << 20;
/// The least room that a question takes, so that their number is bounded too.
const LEAST: usize = 64 << 10;

/// The reason why a question without room is refused.
pub(crate) const TOO_MUCH: &str = "asks for too much at once";

/// The room.
pub(super) struct QuestionRoom(Arc<Semaphore>);

/// A part of it, which is free again when this is dropped.
pub(crate) type QuestionPlace = OwnedSemaphorePermit;

impl Default for QuestionRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BYTES)))
    }
}

impl QuestionRoom {
    /// Returns the place of so many bytes, if there is one. Nobody waits for it: the answer that
    /// frees some may stand behind.
    pub(super) fn place(&self, bytes: u64) -> Option<QuestionPlace> {
        let bytes = usize::try_from(bytes).ok()?.max(LEAST);
        Arc::clone(&self.0).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_bounded_by_number_and_bytes() {
        let room = QuestionRoom::default();
        assert!(room.place(u64::MAX).is_none() && room.place(BYTES as u64 + 1).is_none());
        let whole = room.place(BYTES as u64);
        assert!(whole.is_some() && room.place(1).is_none());
        drop(whole);
        let many: Vec<_> = std::iter::from_fn(|| room.place(1)).collect();
        assert_eq!(many.len(), BYTES / LEAST);
    }
}
