//! The interface to the processes that run jq filters.

use std::io;
use std::io::Write;

/// Writes the input of a filter. Ends when all is written, when writing fails because the filter
/// has stopped reading, or when its second argument returns true.
pub type Feed<'a> = dyn Fn(&mut dyn Write, &dyn Fn() -> bool) -> io::Result<()> + Sync + 'a;

/// A runner of filters that contains their faults.
///
/// One line of jq can run for ever, use up all memory, or recurse until the stack overflows, and
/// the last of these ends its process. So an implementation runs a filter in a process of its own,
/// with limits.
pub trait Filters: Send + Sync {
    /// Runs one filter: passes it what `feed` writes, and its output to `take`. Ends it when `take`
    /// returns false or `expired` returns true. Returns the errors of `feed` and `take`, and of
    /// starting the process.
    fn run(
        &self,
        feed: &Feed<'_>,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome>;
}

/// The end of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterOutcome {
    /// It ended by itself, at the end of its input or before.
    Done,
    /// It was ended because its output so far was enough.
    Enough,
    /// Its time was up.
    OutOfTime,
    /// It exceeded its memory limit.
    OutOfMemory,
    /// It recursed until its stack overflowed.
    TooDeep,
    /// It failed otherwise; the text says how.
    Failed(String),
    /// It was not started: no runner is available.
    Unavailable,
}

/// A runner for subjects that run no filter.
#[derive(Debug, Clone, Copy)]
pub struct NoFilters;

impl Filters for NoFilters {
    fn run(
        &self,
        _: &Feed<'_>,
        _: &dyn Fn() -> bool,
        _: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome> {
        Ok(FilterOutcome::Unavailable)
    }
}
