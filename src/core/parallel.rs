//! A single pass over numbered items on several threads, with the results in order and bounded
//! memory.
//!
//! While the next result is missing, the thread that consumes the results works on items itself.
//! All processors therefore have work. No thread has to be woken for each item, which would be slow
//! for small items.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::thread;
use std::thread::Scope;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A task that may run on any thread, such as the analysis of some bytes.
pub type Task<'t> = Box<dyn FnOnce() + Send + 't>;

const THREAD_NAME: &str = "ctxfs-parts";
/// Maximum number of threads of one pass, including the thread that begins it.
pub const MAX_THREADS: usize = 4;
// Interval at which a waiting consumer calls `expired`.
const DEADLINE_CHECK: Duration = Duration::from_millis(10);
// The bounds of `in_order`. Each thread may exceed the limit on bytes by one result.
const BOUNDS: PassBounds = PassBounds { results: 16 << 10, bytes: 16 << 20, reserved: 0 };

/// Calls `work` for each number below `count` on up to `threads` threads, and passes the results to
/// `take` in order, on the calling thread. Stops when `take` returns `Break`.
///
/// Each thread has its own state, created by `start`. `weight` returns the memory of a result in
/// bytes. At most 16,384 results, with at most 16 MiB in total, wait for an earlier result. A panic
/// in any of the functions ends the pass and is passed on.
pub fn in_order<S, T: Send>(
    count: usize,
    threads: usize,
    start: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
    weight: impl Fn(&T) -> usize + Sync,
    mut take: impl FnMut(&mut S, usize, T) -> ControlFlow<()>,
) {
    let pass = OrderedPass::new(count, BOUNDS);
    let weighed = |own: &mut S, number| {
        let result = work(own, number);
        let weight = weight(&result);
        (result, weight)
    };
    thread::scope(|scope| {
        let _close = CloseOnDrop(&pass);
        spawn(scope, THREAD_NAME, threads.min(count), || {
            let mut own = start();
            pass.help(|number, _| weighed(&mut own, number));
        });
        let mut own = start();
        for number in 0..count {
            let next = pass.next(|number, _| weighed(&mut own, number), &|| false);
            if next.is_none_or(|result| take(&mut own, number, result).is_break()) {
                break;
            }
        }
    });
}

/// Runs all tasks on several threads and returns when all of them have ended. The tasks begin in
/// the given order, so the longest should come first.
pub fn run(tasks: Vec<Task<'_>>) {
    let tasks: Vec<_> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
    let pass = OrderedPass::new(tasks.len(), PassBounds { results: usize::MAX, ..BOUNDS });
    let run = |number: usize, _: &dyn Fn() -> bool| {
        let task = tasks[number].lock().take();
        (task.into_iter().for_each(|task| task()), 0)
    };
    thread::scope(|scope| {
        spawn(scope, THREAD_NAME, threads().min(tasks.len()), || pass.help(run));
        pass.help(run);
    });
}

/// Returns the number of threads for one pass: the number of processors, but at most
/// [`MAX_THREADS`].
pub fn threads() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let count = || thread::available_parallelism().map_or(1, NonZero::get);
    MAX_THREADS.min(*PROCESSORS.get_or_init(count))
}

/// Starts threads until there are `threads` in total, including the calling thread. If a thread
/// cannot be started, the pass continues without it.
pub fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    threads: usize,
    work: impl FnOnce() + Clone + Send + 'scope,
) {
    for _ in 1..threads {
        drop(thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work.clone()));
    }
}

/// The limits on the results that are being made or wait for an earlier result. `results` limits
/// their number, and `bytes` the sum of their weights. A result that is being made counts as
/// `reserved` bytes.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub struct PassBounds {
    pub results: usize,
    pub bytes: usize,
    pub reserved: usize,
}

/// A pass over the numbers from 0 to a count. A single thread consumes the results in order with
/// [`Self::next`]. Other threads make results with [`Self::help`].
///
/// No result is lost or returned twice. A panic in [`Self::help`] closes the pass, because the
/// missing result would never arrive.
#[derive(Debug)]
pub struct OrderedPass<T> {
    count: usize,
    bounds: PassBounds,
    schedule: Mutex<Schedule<T>>,
    // Signalled in three cases: the first result is ready, there is room for another one, or the
    // pass ends.
    changed: Condvar,
}

#[derive(Debug)]
struct Schedule<T> {
    // The number of the first result that was not consumed.
    first: usize,
    // The results from `first` on that were begun, with their weights. `None` marks a result that
    // is being made.
    begun: VecDeque<Option<(T, usize)>>,
    // Sum of the weights of all results in `begun`.
    bytes: usize,
    // True when time has run out. The results that were begun are completed, and no further one
    // begins.
    late: bool,
    closed: bool,
}

/// Closes a pass when it is dropped, so that [`OrderedPass::help`] returns in the other threads.
#[derive(Debug)]
pub struct CloseOnDrop<'p, T>(pub &'p OrderedPass<T>);

impl<T> Drop for CloseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> OrderedPass<T> {
    /// Begins a pass over the numbers below `count`.
    pub fn new(count: usize, bounds: PassBounds) -> Self {
        let begun = VecDeque::new();
        let schedule = Schedule { first: 0, begun, bytes: 0, late: false, closed: false };
        Self { count, bounds, schedule: Mutex::new(schedule), changed: Condvar::new() }
    }

    /// Makes results until all are made, time runs out, or the pass is closed. `work` gets a number
    /// and returns the result and its weight in bytes. It should return early once its last
    /// argument returns true.
    pub fn help(&self, mut work: impl FnMut(usize, &dyn Fn() -> bool) -> (T, usize)) {
        let close = CloseOnDrop(self);
        let mut schedule = self.schedule.lock();
        let stop = || {
            let schedule = self.schedule.lock();
            schedule.closed || schedule.late
        };
        while !schedule.closed && !schedule.late && Self::next_number(&schedule) < self.count {
            match self.claim(&mut schedule) {
                Some(number) => self.make(&mut schedule, number, &mut work, &stop),
                None => self.changed.wait(&mut schedule),
            }
        }
        // Only a panic closes the pass here: other threads may still make results.
        std::mem::forget(close);
    }

    /// Returns the next result in order. While it is missing, makes results on this thread. Returns
    /// `None` at the end, or once `expired` returns true. Afterwards, [`Self::next_begun`] returns
    /// the results that were begun.
    pub fn next(
        &self,
        mut work: impl FnMut(usize, &dyn Fn() -> bool) -> (T, usize),
        expired: &dyn Fn() -> bool,
    ) -> Option<T> {
        let mut schedule = self.schedule.lock();
        // Also asked where other threads are always ahead.
        if MutexGuard::unlocked(&mut schedule, expired) {
            schedule.late = true;
            self.changed.notify_all();
        }
        loop {
            if let Some(result) = self.take_first(&mut schedule) {
                return Some(result);
            }
            if schedule.closed || schedule.late || schedule.first >= self.count {
                return None;
            }
            if MutexGuard::unlocked(&mut schedule, expired) {
                schedule.late = true;
                self.changed.notify_all();
            } else if let Some(number) = self.claim(&mut schedule) {
                self.make(&mut schedule, number, &mut work, expired);
            } else {
                self.changed.wait_for(&mut schedule, DEADLINE_CHECK);
            }
        }
    }

    /// Waits for the next result in order, if it was begun before time ran out, and returns it.
    /// Returns `None` if no such result is left.
    pub fn next_begun(&self) -> Option<T> {
        let mut schedule = self.schedule.lock();
        loop {
            let first = self.take_first(&mut schedule);
            if first.is_some() || schedule.closed || schedule.begun.is_empty() {
                return first;
            }
            self.changed.wait(&mut schedule);
        }
    }

    /// Ends the pass: no further result begins.
    pub fn close(&self) {
        self.schedule.lock().closed = true;
        self.changed.notify_all();
    }

    fn next_number(schedule: &Schedule<T>) -> usize {
        schedule.first + schedule.begun.len()
    }

    // Returns the number of the next result to make, or `None` if too many results wait or all have
    // begun.
    fn claim(&self, schedule: &mut Schedule<T>) -> Option<usize> {
        let PassBounds { results, bytes, reserved } = self.bounds;
        let number = Self::next_number(schedule);
        if number >= self.count || schedule.begun.len() >= results || schedule.bytes >= bytes {
            return None;
        }
        schedule.begun.push_back(None);
        schedule.bytes += reserved;
        Some(number)
    }

    // Makes a result with the lock released.
    fn make(
        &self,
        schedule: &mut MutexGuard<'_, Schedule<T>>,
        number: usize,
        work: &mut impl FnMut(usize, &dyn Fn() -> bool) -> (T, usize),
        stop: &dyn Fn() -> bool,
    ) {
        let made = MutexGuard::unlocked(schedule, || work(number, stop));
        let place = number - schedule.first;
        schedule.bytes = schedule.bytes - self.bounds.reserved + made.1;
        schedule.begun[place] = Some(made);
        if place == 0 {
            self.changed.notify_all();
        }
    }

    fn take_first(&self, schedule: &mut Schedule<T>) -> Option<T> {
        let (result, weight) = schedule.begun.front_mut()?.take()?;
        schedule.begun.pop_front();
        schedule.first += 1;
        schedule.bytes -= weight;
        // The threads are woken only when at least an eighth of the places is free. If results are
        // small, waking a thread for a single free place would cost too much.
        if schedule.begun.len() <= self.bounds.results - self.bounds.results / 8 {
            self.changed.notify_all();
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_part_runs_once() {
        let mut counts = [0; 3];
        let [one, two, three] = &mut counts;
        run(vec![Box::new(|| *one += 1), Box::new(|| *two += 1), Box::new(|| *three += 1)]);
        assert_eq!(counts, [1; 3]);
    }

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
        let begun = AtomicUsize::new(0);
        let slow = |(): &mut (), number: usize| {
            let seen = begun.fetch_add(1, Ordering::Relaxed);
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
            |_| BOUNDS.bytes / 4,
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

    /// A result that is being made counts as `reserved` bytes, and a finished result as its own
    /// weight.
    #[test]
    fn only_so_much_is_made_ahead() {
        let bounds = PassBounds { results: 128, bytes: 4000, reserved: 1000 };
        let pass = OrderedPass::<()>::new(1000, bounds);
        let mut claimed = 0;
        while pass.claim(&mut pass.schedule.lock()).is_some() {
            claimed += 1;
        }
        assert_eq!(claimed, 4);
        let pass = OrderedPass::new(1000, bounds);
        let mut schedule = pass.schedule.lock();
        let mut made = 0;
        while let Some(number) = pass.claim(&mut schedule) {
            pass.make(&mut schedule, number, &mut |number, _| (number, 0), &|| false);
            made += 1;
        }
        assert_eq!(made, 128);
    }

    #[test]
    fn what_was_begun_in_time_still_comes() {
        let pass = OrderedPass::new(10, BOUNDS);
        let mut schedule = pass.schedule.lock();
        for _ in 0..3 {
            let number = pass.claim(&mut schedule).unwrap();
            pass.make(&mut schedule, number, &mut |number, _| (number, 0), &|| false);
        }
        drop(schedule);
        let rest: Vec<usize> =
            std::iter::from_fn(|| pass.next(|_, _| unreachable!(), &|| true)).collect();
        assert_eq!((rest, pass.next_begun()), (vec![0, 1, 2], None));
    }
}
