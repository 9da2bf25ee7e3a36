
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use parking_lot::Mutex;

use super::deadline::Deadline;
use super::fault::Fault;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
///+ A connection counts as broken after this time without a byte.
pub(super) const QUIET: Duration = Duration::from_secs(10);
///+ Slowest accepted transfer rate: 64 KiB/s.
const SLOWEST: u64 = 64 << 10;

pub(super) fn patience(bytes: u64) -> Duration {
    QUIET + Duration::from_secs(bytes / SLOWEST)
}

pub(super) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let late = || Fault::Again(format!("no answer within {:.1} s", limit.as_secs_f32()));
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| Err(late()))
}

///+ Last failure of a request that is being retried.
#[derive(Debug, Default)]
pub(super) struct LastFailure(Mutex<Option<String>>);

impl LastFailure {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn note<T>(&self, outcome: &Result<T, Fault>) {
        let why = if let Err(Fault::Again(why)) = outcome { Some(why.clone()) } else { None };
        let mut last = self.0.lock();
        if last.is_some() || why.is_some() {
            *last = why;
        }
    }
}

///+ Retries `attempt` with backoff until it succeeds, fails for good, or `deadline` passes.
///+ Meanwhile `last` has the reason of the last failure.
///+
///+ Each attempt takes at most `limit`. Pauses double and are jittered, so that hosts that failed
///+ together do not retry together. A pause that would end after the deadline is skipped.
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

///+ Backoff: each pause is up to twice as long as the one before.
pub(super) struct Pauses {
    longest: Duration,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { longest: FIRST_PAUSE }
    }

    ///+ Sleeps after a failure. Returns false at once if the pause would end after the deadline.
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

///+ Returns a random number from 0 to 1.
fn chance() -> f64 {
    let random = RandomState::new().hash_one(0);
    random as f64 / u64::MAX as f64
}
