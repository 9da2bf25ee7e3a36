//! Independent parts of some work on several threads.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;

/// A part of some work, such as the analysis of some bytes. It may run at the same time as the
/// others, on another thread.
pub type Part<'p> = Box<dyn FnOnce() + Send + 'p>;

// As `top` shows the threads.
const NAME: &str = "ctxfs-parts";

const THREADS: usize = 4;

/// Runs all parts, as many at a time as there are processors, and 4 at most. This thread begins
/// with the first part, others with the last, which should be the longest. Returns when all have
/// ended. Works, one part after the other, if no thread can be started.
pub fn run(parts: Vec<Part<'_>>) {
    let threads = processors().min(THREADS).min(parts.len());
    let waiting = Mutex::new(VecDeque::from(parts));
    let waiting = &waiting;
    thread::scope(|scope| {
        for _ in 1..threads {
            let work = move || run_each(|| waiting.lock().pop_back());
            // Without another thread this one runs all parts.
            drop(thread::Builder::new().name(NAME.to_owned()).spawn_scoped(scope, work));
        }
        run_each(|| waiting.lock().pop_front());
    });
}

fn run_each<'p>(next: impl Fn() -> Option<Part<'p>>) {
    while let Some(part) = next() {
        part();
    }
}

fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once() {
        let mut counts = [0; 3];
        let [one, two, three] = &mut counts;
        run(vec![Box::new(|| *one += 1), Box::new(|| *two += 1), Box::new(|| *three += 1)]);
        assert_eq!(counts, [1; 3]);
    }
}
