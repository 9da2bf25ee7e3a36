//! The state of the store after a program is stopped between any two system calls.
//!
//! Each case runs once to find the calls that it makes, and then once for each call, on a fresh
//! copy of its store, killed before that call. The store must be sound each time. By default only
//! calls that change something are tried, and only a sample if they are many; with `CTXFS_CRASH`
//! set to `all`, as `scripts/crash` does, all calls are tried but those that only read.

mod case;
mod commands;
mod gateway;
mod install;
mod remote;
mod sealing;
mod shell;
mod sound;
mod stops;

use crate::crash::stops::Call;

/// The most calls of one case that are tried, unless all are.
const SAMPLE: usize = 24;

/// Returns the calls to kill a program before, of those that it makes.
fn chosen(calls: Vec<Call>) -> Vec<Call> {
    chosen_of(calls, SAMPLE)
}

/// Does that, with at most so many unless all are tried.
fn chosen_of(calls: Vec<Call>, sample: usize) -> Vec<Call> {
    if std::env::var_os("CTXFS_CRASH").is_some_and(|value| value == "all") {
        return calls.into_iter().filter(|call| !call.only_reads()).collect();
    }
    let changing: Vec<Call> = calls.into_iter().filter(Call::changes_something).collect();
    let step = changing.len().div_ceil(sample).max(1);
    // The last ones name and remove: they are always tried.
    let late = changing.len().saturating_sub(sample / 4);
    let tried = |(at, call)| (at % step == 0 || at >= late).then_some(call);
    changing.into_iter().enumerate().filter_map(tried).collect()
}
