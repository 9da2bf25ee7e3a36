//! A limit on the number of workers that wait for the kernel at the same time.
//!
//! The kernel gives each request to the worker that has waited longest. With many waiting workers,
//! each request wakes a thread that has slept for long, often on another processor: with four, a
//! round trip takes about twice as long as with two. But with only two workers, every client would
//! have to wait while both are busy with the disk. Two workers therefore wait, and the rest are
//! parked. When no waiting worker is left, a parked worker is woken. When that has not happened for
//! a while, a worker parks.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

const WAITING: usize = 2;
/// Number of consecutive requests that left another worker waiting, after which a worker may park.
const CALM_REQUESTS: usize = 64;
/// Maximum time for which a worker parks. It then waits for one request, and so detects the end of
/// the mount.
const PARK_TIME: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct KernelWorkers {
    waiting: AtomicUsize,
    calm_requests: AtomicUsize,
    parked: AtomicUsize,
    unparked: Mutex<usize>,
    wake: Condvar,
    park_time: Duration,
}

impl KernelWorkers {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            waiting: AtomicUsize::new(workers),
            calm_requests: AtomicUsize::default(),
            parked: AtomicUsize::default(),
            unparked: Mutex::default(),
            wake: Condvar::new(),
            park_time: PARK_TIME,
        }
    }

    pub(super) fn run(&self, handle: impl FnOnce()) {
        if self.waiting.fetch_sub(1, SeqCst) == 1 {
            self.calm_requests.store(0, Relaxed);
            self.unpark_one();
        } else {
            self.calm_requests.fetch_add(1, Relaxed);
        }
        handle();
        if self.calm_requests.load(Relaxed) >= CALM_REQUESTS && self.waiting.load(SeqCst) >= WAITING
        {
            self.park();
        }
        self.waiting.fetch_add(1, SeqCst);
    }

    fn unpark_one(&self) {
        if self.parked.load(SeqCst) > 0 {
            *self.unparked.lock() += 1;
            self.wake.notify_one();
        }
    }

    fn park(&self) {
        self.parked.fetch_add(1, SeqCst);
        // A worker that took a request before this point may not have seen a parked worker to wake.
        if self.waiting.load(SeqCst) >= WAITING {
            let mut unparked = self.unparked.lock();
            self.wake.wait_while_for(&mut unparked, |unparked| *unparked == 0, self.park_time);
            *unparked = unparked.saturating_sub(1);
        }
        self.parked.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn patient(workers: usize) -> Arc<KernelWorkers> {
        Arc::new(KernelWorkers {
            park_time: Duration::from_hours(1),
            ..KernelWorkers::new(workers)
        })
    }

    #[test]
    fn two_workers_never_park() {
        let workers = patient(2);
        for _ in 0..10 * CALM_REQUESTS {
            workers.run(|| {});
        }
        assert_eq!(workers.waiting.load(SeqCst), 2);
    }

    #[test]
    fn a_third_worker_parks_until_none_is_left_to_wait() {
        let workers = patient(3);
        let third = Arc::clone(&workers);
        let third = thread::spawn(move || (0..=CALM_REQUESTS).for_each(|_| third.run(|| {})));
        while workers.parked.load(SeqCst) == 0 {
            thread::yield_now();
        }
        workers.run(|| {
            assert_eq!((workers.waiting.load(SeqCst), workers.parked.load(SeqCst)), (1, 1));
            workers.run(|| third.join().unwrap());
        });
        assert_eq!((workers.waiting.load(SeqCst), workers.parked.load(SeqCst)), (3, 0));
    }

    #[test]
    fn no_worker_parks_while_requests_come_faster_than_they_are_handled() {
        let workers = patient(3);
        for _ in 0..10 {
            (0..CALM_REQUESTS - 1).for_each(|_| workers.run(|| {}));
            workers.run(|| workers.run(|| workers.run(|| {})));
        }
        assert_eq!(workers.waiting.load(SeqCst), 3);
    }
}
