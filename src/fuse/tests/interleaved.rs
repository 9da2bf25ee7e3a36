//! Tests of threads in the order of a schedule: the inode table, sealing, and views with many
//! readers.
//!
//! Each test runs under many schedules: random ones, and ones with few changes of thread at chosen
//! places (PCT), which find bugs that need one unlikely order. `CTXFS_SCHEDULES` sets their number,
//! and `CTXFS_SCHEDULE` runs the one again that a failure has printed. A call into the store or the
//! disk is one step.

mod inodes;
mod sealing;
mod views;

use std::env;
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, MaxSteps, Runner};

use super::fixture::Fixture;
use ctxfs_engine::sync::thread;

/// The seed of the schedules, so that a run never fails by chance; `CTXFS_SEED` sets another one.
const SEED: u64 = 20_260_113;
/// Schedules of each kind that a test is run under.
const SCHEDULES: usize = 200;
/// The changes of thread that are forced upon a run.
const CHANGES: usize = 3;

/// The steps after which a run counts as stuck. Most take some hundreds.
const MOST_STEPS: usize = 50_000;

/// A thread of a test.
type Work = Box<dyn FnOnce(&Fixture) + Send>;

/// Runs `test` under many schedules, or under the one to reproduce.
fn under_schedules(test: fn()) {
    let setting = |name| env::var(name).ok();
    let mut config = Config::new();
    // Views are computed where they are asked.
    config.stack_size = 512 * 1024;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    if let Some(schedule) = setting("CTXFS_SCHEDULE") {
        Runner::new(ReplayScheduler::new_from_encoded(&schedule), config).run(test);
        return;
    }
    let count = setting("CTXFS_SCHEDULES").map_or(SCHEDULES, |count| count.parse().unwrap());
    let seed = setting("CTXFS_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    Runner::new(RandomScheduler::new_from_seed(seed, count), config.clone()).run(test);
    Runner::new(PctScheduler::new_from_seed(seed, CHANGES, count), config).run(test);
}

/// Runs all `work` at once, each to its end.
fn together(fixture: &Arc<Fixture>, work: Vec<Work>) {
    let start = |work: Work| {
        let fixture = Arc::clone(fixture);
        thread::spawn(move || work(&fixture))
    };
    let threads: Vec<_> = work.into_iter().map(start).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
