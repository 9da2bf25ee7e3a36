//! Work on several threads whose results are consumed in order.
//!
//! There is no separate thread that collects results. The thread that finishes the next result in
//! order consumes it, together with all consecutive results that wait behind it. Therefore no
//! thread has to be woken for each item of work, which may be small.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::thread;

use parking_lot::{Condvar, Mutex};

// Maximum number of results that wait for an earlier result.
const MAX_WAITING: usize = 16 << 10;
// Maximum size in bytes of all waiting results. Each thread may exceed it by one result.
const MAX_WAITING_BYTES: usize = 16 << 20;

/// Calls `work` for each number below `count` on `threads` threads, and passes the results to
/// `take` in order. Stops when `take` returns `Break`. Each thread has its own state, created by
/// `start`. `weight` returns the memory of a result in bytes.
pub(crate) fn in_order<S, T: Send>(
    count: usize,
    threads: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    take: impl FnMut(&mut S, usize, T) -> ControlFlow<()> + Send,
) {
    let queue = OrderedQueue {
        state: Mutex::new(PendingOutcomes::new(count, take)),
        moved: Condvar::new(),
    };
    let run = || {
        let _stop = StopOnPanic(&queue);
        let mut own = start();
        while let Some(number) = queue.claim() {
            let outcome = work(&mut own, number);
            let weight = weight(&outcome);
            queue.done(&mut own, number, (outcome, weight));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(run);
        }
        run();
    });
}

struct OrderedQueue<T, F> {
    state: Mutex<PendingOutcomes<T, F>>,
    // Signalled when waiting threads may continue, because the first result was consumed or the
    // work stopped.
    moved: Condvar,
}

struct PendingOutcomes<T, F> {
    take: F,
    count: usize,
    // The number of the first result that was not consumed.
    first: usize,
    // The results from `first` on that were begun, with their weights. `None` marks an unfinished
    // result.
    begun: VecDeque<Option<(T, usize)>>,
    // Sum of the weights of all results in `begun`.
    bytes: usize,
    // Number of threads that wait for `moved`.
    waiting: usize,
    stopped: bool,
}

impl<T, F> PendingOutcomes<T, F> {
    fn new(count: usize, take: F) -> Self {
        let begun = VecDeque::new();
        Self { take, count, first: 0, begun, bytes: 0, waiting: 0, stopped: false }
    }

    fn is_full(&self) -> bool {
        self.begun.len() >= MAX_WAITING || self.bytes > MAX_WAITING_BYTES
    }
}

impl<T, F> OrderedQueue<T, F> {
    // Returns the next number to work on. Waits while too many results wait for the first one.
    fn claim(&self) -> Option<usize> {
        let mut state = self.state.lock();
        while !state.stopped && state.is_full() {
            state.waiting += 1;
            self.moved.wait(&mut state);
            state.waiting -= 1;
        }
        let number = state.first + state.begun.len();
        if state.stopped || number >= state.count {
            return None;
        }
        state.begun.push_back(None);
        Some(number)
    }

    fn stop(&self) {
        self.state.lock().stopped = true;
        self.moved.notify_all();
    }
}

impl<T, F> OrderedQueue<T, F> {
    // Stores a result. If it is the first in order, consumes it and all consecutive results behind
    // it.
    fn done<S>(&self, own: &mut S, number: usize, outcome: (T, usize))
    where
        F: FnMut(&mut S, usize, T) -> ControlFlow<()>,
    {
        let mut state = self.state.lock();
        let state = &mut *state;
        let place = number - state.first;
        state.bytes += outcome.1;
        state.begun[place] = Some(outcome);
        while !state.stopped
            && let Some((outcome, weight)) = state.begun.front_mut().and_then(Option::take)
        {
            state.bytes -= weight;
            state.stopped = (state.take)(own, state.first, outcome).is_break();
            state.begun.pop_front();
            state.first += 1;
        }
        if state.waiting > 0 {
            self.moved.notify_all();
        }
    }
}

// Stops the other threads if one thread panics, because its result would never arrive.
struct StopOnPanic<'a, T, F>(&'a OrderedQueue<T, F>);

impl<T, F> Drop for StopOnPanic<'_, T, F> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    #[test]
    fn outcomes_come_in_order() {
        for threads in [1, 2, 4] {
            let mut taken = Vec::new();
            let work = |(): &mut (), number: usize| {
                if number.is_multiple_of(300) {
                    thread::sleep(Duration::from_millis(5));
                }
                number * 2
            };
            in_order(
                2000,
                threads,
                || (),
                work,
                |_| 0,
                |(), number, outcome| {
                    assert_eq!(outcome, number * 2);
                    taken.push(number);
                    ControlFlow::Continue(())
                },
            );
            assert!(taken.iter().copied().eq(0..2000), "{threads} threads");
        }
    }

    #[test]
    fn nothing_is_taken_after_a_stop() {
        let mut taken = 0;
        in_order(
            5000,
            3,
            || (),
            |(), number| number,
            |_| 0,
            |(), number, _| {
                taken += 1;
                if number == 700 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(taken, 701);
    }

    #[test]
    fn a_panic_ends_all_threads() {
        let work = |(): &mut (), number: usize| assert_ne!(number, 3, "as it should");
        let all = || in_order(5000, 3, || (), work, |()| 0, |(), _, ()| ControlFlow::Continue(()));
        assert!(catch_unwind(AssertUnwindSafe(all)).is_err());
    }

    #[test]
    fn heavy_outcomes_wait_one_by_one() {
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let slow = |(): &mut (), number: usize| {
            let seen = begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if number == 0 {
                thread::sleep(Duration::from_millis(50));
            }
            seen
        };
        let mut most = 0;
        in_order(
            500,
            3,
            || (),
            slow,
            |_| MAX_WAITING_BYTES / 4,
            |(), number, seen| {
                most = most.max(seen.saturating_sub(number));
                ControlFlow::Continue(())
            },
        );
        assert!(most < 12, "{most} before their turn");
    }

    #[test]
    fn no_work_is_no_work() {
        in_order(0, 2, || (), |(), _| (), |()| 0, |(), _, ()| unreachable!());
    }
}
