//! How many workers wait for the kernel at a time.
//!
//! The kernel hands its requests to waiting workers in turn, the one that has waited longest first.
//! So with many of them each request wakes a thread that has long been asleep, often on another
//! processor: with four, a round trip takes about twice as long as with two. But two workers that
//! the disk keeps would keep everybody waiting. So two wait, and the rest rest: they are woken when
//! no worker is left to wait, and go back to rest when that has not happened for a while.

use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Workers that wait for the kernel while there is little to do.
const WAITING: usize = 2;
/// Requests in a row that found a waiting worker left, after which one more may rest.
const CALM: usize = 64;
/// How long a worker rests unless it is woken. It then waits for one request, and learns so that the
/// mount has ended.
const REST: Duration = Duration::from_millis(50);

/// The workers of a session.
#[derive(Debug)]
pub(super) struct Crew {
    /// Workers that wait for the kernel, or are about to.
    waiting: AtomicUsize,
    /// Requests since none was left to wait.
    calm: AtomicUsize,
    /// Workers that rest.
    resting: AtomicUsize,
    /// How many of them are to wake.
    called: Mutex<usize>,
    woken: Condvar,
    rest: Duration,
}

impl Crew {
    /// Of so many workers, which all wait.
    pub(super) fn new(workers: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(workers),
            calm: AtomicUsize::default(),
            resting: AtomicUsize::default(),
            called: Mutex::default(),
            woken: Condvar::new(),
            rest: REST,
        }
    }

    /// Has a worker `handle` a request, and lets it rest afterwards where others wait.
    pub(super) fn handle(&self, handle: impl FnOnce()) {
        if self.waiting.fetch_sub(1, SeqCst) == 1 {
            self.calm.store(0, Relaxed);
            self.call();
        } else {
            self.calm.fetch_add(1, Relaxed);
        }
        handle();
        if self.calm.load(Relaxed) >= CALM && self.waiting.load(SeqCst) >= WAITING {
            self.rest();
        }
        self.waiting.fetch_add(1, SeqCst);
    }

    /// Wakes one worker, if any rests.
    fn call(&self) {
        if self.resting.load(SeqCst) > 0 {
            *self.lock() += 1;
            self.woken.notify_one();
        }
    }

    fn rest(&self) {
        self.resting.fetch_add(1, SeqCst);
        // Whoever has begun to handle a request before may not have seen that one rests.
        if self.waiting.load(SeqCst) >= WAITING {
            let called = self.lock();
            let rested = self.woken.wait_timeout_while(called, self.rest, |called| *called == 0);
            let mut called = rested.unwrap_or_else(PoisonError::into_inner).0;
            *called = called.saturating_sub(1);
        }
        self.resting.fetch_sub(1, SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A crew that rests until it is called.
    fn patient(workers: usize) -> Arc<Crew> {
        Arc::new(Crew { rest: Duration::from_hours(1), ..Crew::new(workers) })
    }

    #[test]
    fn two_workers_never_rest() {
        let crew = patient(2);
        for _ in 0..10 * CALM {
            crew.handle(|| {});
        }
        assert_eq!(crew.waiting.load(SeqCst), 2);
    }

    #[test]
    fn a_third_worker_rests_until_none_is_left_to_wait() {
        let crew = patient(3);
        let third = Arc::clone(&crew);
        let third = thread::spawn(move || (0..=CALM).for_each(|_| third.handle(|| {})));
        while crew.resting.load(SeqCst) == 0 {
            thread::yield_now();
        }
        crew.handle(|| {
            assert_eq!((crew.waiting.load(SeqCst), crew.resting.load(SeqCst)), (1, 1));
            crew.handle(|| third.join().unwrap());
        });
        assert_eq!((crew.waiting.load(SeqCst), crew.resting.load(SeqCst)), (3, 0));
    }

    #[test]
    fn nobody_rests_while_requests_come_faster_than_they_are_handled() {
        let crew = patient(3);
        for _ in 0..10 {
            (0..CALM - 1).for_each(|_| crew.handle(|| {}));
            crew.handle(|| crew.handle(|| crew.handle(|| {})));
        }
        assert_eq!(crew.waiting.load(SeqCst), 3);
    }
}
