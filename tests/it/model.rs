//! Random runs against a model of the tree: on the filesystem without a kernel, where the late
//! actions of a kernel are simulated, then through real mounts.
//!
//! `CTXFS_MODEL_CASES` and `CTXFS_MODEL_OPS` set the number and length of the runs. Proptest
//! shrinks a run that fails; it then gets a name in `regressions`.

mod core;
mod disk;
pub(crate) mod expected;
mod harness;
mod looks;
mod mount;
pub(crate) mod operations;
mod reference;
mod regressions;

use proptest::test_runner::Config;

/// Returns the number of runs and the most operations of each.
pub(crate) fn size(cases: u32, ops: usize) -> (Config, usize) {
    let set = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let cases = set("CTXFS_MODEL_CASES").map_or(cases, |cases: usize| cases as u32);
    let ops = set("CTXFS_MODEL_OPS").unwrap_or(ops);
    // Each run names itself when it fails; there is no file of seeds to keep beside the names.
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    (Config { max_shrink_iters: 4096, ..config }, ops)
}
