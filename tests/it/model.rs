//! Random runs against a model of the tree: first on the filesystem without a kernel, where what
//! the kernel does late is done late, then through real mounts.
//!
//! `CTXFS_MODEL_CASES` and `CTXFS_MODEL_OPS` make the runs more and longer. A run that fails is
//! shrunk by proptest, and goes to `regressions` under a name.

mod core;
mod disk;
mod expected;
mod harness;
mod looks;
mod mount;
mod operations;
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
