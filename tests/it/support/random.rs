//! Random runs that fail with their smallest case and its seed, and print nothing else.

use std::cell::Cell;
use std::fmt::Debug;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Once;

use proptest::strategy::Strategy;
use proptest::test_runner::Config;
use proptest::test_runner::RngSeed;
use proptest::test_runner::TestCaseError;
use proptest::test_runner::TestRunner;

thread_local! {
    /// True while a panic on this thread is a case that failed, and may become a smaller one.
    static RUNS_CASES: Cell<bool> = const { Cell::new(false) };
}

/// Runs `check` with values of `strategy`. Panics with the smallest value that fails, why it fails,
/// and the seed that leads to it.
pub(crate) fn holds<S: Strategy>(config: Config, strategy: &S, check: impl Fn(S::Value))
where
    S::Value: Debug,
{
    hide_failed_cases();
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed.to_string(),
        RngSeed::Random => "a random seed: set PROPTEST_RNG_SEED".to_owned(),
    };
    RUNS_CASES.set(true);
    let ran = TestRunner::new(config).run(strategy, |value| {
        catch_unwind(AssertUnwindSafe(|| check(value)))
            .map_err(|panicked| TestCaseError::fail(message(&*panicked)))
    });
    RUNS_CASES.set(false);
    ran.unwrap_or_else(|error| panic!("{error}\nPROPTEST_RNG_SEED={seed}"));
}

/// Returns the text of a panic.
fn message(panicked: &(dyn std::any::Any + Send)) -> String {
    let text = panicked.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Keeps panics of failed cases from being printed one by one while they are made smaller.
fn hide_failed_cases() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !RUNS_CASES.get() {
                print(info);
            }
        }));
    });
}
