//! The state of the store after a program is stopped between any two system calls.
//!
//! Each case is run once to see which calls it makes, and then again and again on a fresh copy of
//! the same store, killed before another one of them each time. Whatever then is in the store must
//! be sound. By default the calls that change something are tried, of many a sample; with
//! `CTXFS_CRASH` set to `all`, as `scripts/crash` does, all calls are.

mod case;
mod commands;
mod sealing;
mod sound;
mod stops;

use crate::crash::stops::Call;

/// Calls of one case that are tried unless all are.
const SAMPLE: usize = 24;

/// The calls before which a program is to be killed, of those that it makes.
fn chosen(calls: Vec<Call>) -> Vec<Call> {
    if std::env::var_os("CTXFS_CRASH").is_some_and(|value| value == "all") {
        return calls;
    }
    let changing: Vec<Call> = calls.into_iter().filter(Call::changes_something).collect();
    let step = changing.len().div_ceil(SAMPLE).max(1);
    // The last ones name and remove: they are always tried.
    let late = changing.len().saturating_sub(SAMPLE / 4);
    let tried = |(at, call)| (at % step == 0 || at >= late).then_some(call);
    changing.into_iter().enumerate().filter_map(tried).collect()
}
