//! Random runs that say which seed leads to the case that fails.

use std::cell::Cell;
use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};

thread_local! {
    /// True while failures are tried and made smaller.
    static TRYING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if this thread is looking for the smallest value that fails. What belongs to a
/// failure is not printed meanwhile: there may be thousands.
pub(crate) fn is_trying() -> bool {
    TRYING.get()
}

/// Runs `check` with values of `strategy`. Panics with the smallest value that fails, why it fails,
/// and the seed that leads to it.
pub(crate) fn holds<S: Strategy>(config: Config, strategy: &S, check: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed.to_string(),
        RngSeed::Random => "a random seed: set PROPTEST_RNG_SEED".to_owned(),
    };
    TRYING.set(true);
    let ran = TestRunner::new(config).run(strategy, |value| {
        check(value);
        Ok(())
    });
    TRYING.set(false);
    ran.unwrap_or_else(|error| panic!("{error}\nPROPTEST_RNG_SEED={seed}"));
}
