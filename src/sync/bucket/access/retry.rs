//! Requests that are repeated until their deadline.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use parking_lot::Mutex;

use super::deadline::Deadline;
use super::fault::Fault;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The time without a byte after which a connection counts as cut.
pub(super) const QUIET: Duration = Duration::from_secs(10);
/// The slowest way that a body may take: 64 KiB in a second.
const SLOWEST: u64 = 64 << 10;

/// Returns the time that a request with a body of `bytes` may take.
pub(super) fn patience(bytes: u64) -> Duration {
    QUIET + Duration::from_secs(bytes / SLOWEST)
}

/// Waits for `future` no longer than `limit`. Later it counts as cut, and is dropped.
pub(super) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let late = || Fault::Again(format!("no answer within {:.1} s", limit.as_secs_f32()));
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| Err(late()))
}

/// The last failure of a request that is being repeated.
#[derive(Debug, Default)]
pub(super) struct LastFailure(Mutex<Option<String>>);

impl LastFailure {
    /// Returns it, if no request was answered since.
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }

    /// Takes notice of the outcome of an attempt.
    fn note<T>(&self, outcome: &Result<T, Fault>) {
        let why = if let Err(Fault::Again(why)) = outcome { Some(why.clone()) } else { None };
        let mut last = self.0.lock();
        if last.is_some() || why.is_some() {
            *last = why;
        }
    }
}

/// Makes `attempt` until it succeeds, or fails in a way that stays, or `deadline` is past. `last`
/// tells meanwhile why.
///
/// Each attempt has at most the time `limit`. Pauses grow twofold and have a random part, so hosts
/// that failed together do not come back together. A pause that would end after the deadline is
/// not begun.
pub(super) async fn persist<T, F>(
    last: &LastFailure,
    deadline: Deadline,
    limit: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut pauses = Pauses::new();
    loop {
        let outcome = within(limit.min(deadline.left()), attempt()).await;
        last.note(&outcome);
        let why = match outcome {
            Err(Fault::Again(why)) => why,
            outcome => return outcome,
        };
        if !pauses.wait(deadline, &why).await {
            return Err(Fault::Again(why));
        }
    }
}

/// The pauses between attempts, each up to twice as long as the one before.
pub(super) struct Pauses {
    longest: Duration,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { longest: FIRST_PAUSE }
    }

    /// Waits after a failure. Returns false, at once, if the pause would not end in time.
    pub(super) async fn wait(&mut self, deadline: Deadline, why: &str) -> bool {
        let pause = self.longest.mul_f64(0.5 + 0.5 * chance());
        if pause >= deadline.left() {
            return false;
        }
        tracing::debug!(why, ?pause, "asks the bucket again");
        tokio::time::sleep(pause).await;
        self.longest = LONGEST_PAUSE.min(self.longest * 2);
        true
    }
}

/// Returns a number from 0 to 1 that differs from host to host.
fn chance() -> f64 {
    let random = RandomState::new().hash_one(0);
    random as f64 / u64::MAX as f64
}
