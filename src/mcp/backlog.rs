//! The requests that the gateway answers itself: few at a time, and a bounded number that wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests that are answered at a time.
const AT_A_TIME: usize = 64;
/// The most requests that have come and are not answered, and the most bytes of them. One is taken,
/// however long.
const REQUESTS: usize = 4096;
const BYTES: usize = 64 << 20;
/// The least room that a request takes.
const LEAST: usize = 1024;

/// The requests of a session that the gateway answers.
pub(super) struct Backlog {
    places: Arc<Semaphore>,
    room: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// The place of a request that has come.
pub(super) struct BacklogPlace {
    turns: Arc<Semaphore>,
    _held: [OwnedSemaphorePermit; 2],
}

impl Backlog {
    pub(super) fn new() -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Self { places: semaphore(REQUESTS), room: semaphore(BYTES), turns: semaphore(AT_A_TIME) }
    }

    /// Returns a place for a request of so many bytes, if there is one. Nobody waits for a place: the
    /// answer that one needs to go on may stand behind.
    pub(super) fn place(&self, bytes: u64) -> Option<BacklogPlace> {
        let bytes = usize::try_from(bytes).unwrap_or(BYTES).clamp(LEAST, BYTES);
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes as u32).ok()?;
        Some(BacklogPlace { turns: Arc::clone(&self.turns), _held: [place, room] })
    }
}

impl BacklogPlace {
    /// Waits until the request can be answered, for as long as the permit is held.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn requests_and_their_bytes_are_bounded() {
        let backlog = Backlog::new();
        let long = backlog.place(u64::MAX);
        assert!(long.is_some() && backlog.place(1).is_none(), "it takes all room");
        drop(long);
        let mut places: Vec<_> = (0..REQUESTS).map(|_| backlog.place(1).unwrap()).collect();
        assert!(backlog.place(1).is_none());
        places.pop();
        assert!(backlog.place(1).is_some());
    }

    #[tokio::test]
    async fn so_many_are_answered_at_a_time() {
        let backlog = Backlog::new();
        let place = backlog.place(1).unwrap();
        let mut turns = Vec::new();
        for _ in 0..AT_A_TIME {
            turns.push(place.turn().await);
        }
        assert!(timeout(SOON, place.turn()).await.is_err());
        turns.pop();
        assert!(timeout(SOON, place.turn()).await.is_ok());
    }
}
