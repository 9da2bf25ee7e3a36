//! Runs independent parts of a task on several threads.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;

/// A part of a task, such as the analysis of some bytes. It may run in parallel with the other
/// parts on another thread.
pub type Part<'p> = Box<dyn FnOnce() + Send + 'p>;

// The name of the threads, as shown by `top`.
const NAME: &str = "ctxfs-parts";

const THREADS: usize = 4;

/// Runs all parts and returns when all of them have ended. The number of parallel threads is the
/// number of processors, but at most 4. The calling thread starts with the first part. Other
/// threads start with the last part, which should be the longest. If no thread can be started, the
/// calling thread runs all parts one after the other.
pub fn run(parts: Vec<Part<'_>>) {
    let threads = processors().min(THREADS).min(parts.len());
    let waiting = Mutex::new(VecDeque::from(parts));
    let waiting = &waiting;
    thread::scope(|scope| {
        for _ in 1..threads {
            let work = move || run_each(|| waiting.lock().pop_back());
            // If this fails, the calling thread runs all parts.
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
