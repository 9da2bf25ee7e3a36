//! Tests that run threads in the order of a schedule: the inode table, sealing, and views with many
//! readers.
//!
//! Each test runs under many schedules. Some are random. Others change the thread only a few times,
//! at chosen points (PCT), which finds bugs that need one unlikely order. `CTXFS_SCHEDULES` sets
//! the number of schedules. `CTXFS_SCHEDULE` repeats the schedule that a failed test has printed. A
//! call into the store or the disk is one step.

mod inodes;
mod sealing;
mod views;

use std::env;
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, MaxSteps, Runner};

use super::fixture::Fixture;
use ctxfs_engine::sync::thread;

/// The seed of the schedules. It is fixed, so that a run never fails by chance; `CTXFS_SEED`
/// overrides it.
const SEED: u64 = 20_260_113;
/// Number of schedules of each kind for a test.
const SCHEDULES: usize = 200;
/// Number of forced thread changes in a run.
const CHANGES: usize = 3;

/// Number of steps after which a run counts as stuck. Most runs take some hundreds of steps.
const MOST_STEPS: usize = 50_000;

/// The work of one thread of a test.
type Work = Box<dyn FnOnce(&Fixture) + Send>;

/// Runs `test` under many schedules, or under the single schedule to reproduce.
fn under_schedules(test: fn()) {
    let setting = |name| env::var(name).ok();
    let mut config = Config::new();
    // Views are computed on the thread that requests them, which needs a large stack.
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

/// Runs all `work` concurrently and waits until each has ended.
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
