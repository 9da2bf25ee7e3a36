//! Where jq filters run.

use std::io;
use std::io::Write;

/// Writes what a filter is to read, until all is written, writing fails because nobody reads on, or
/// its second argument says to stop.
pub type Feed<'a> = dyn Fn(&mut dyn Write, &dyn Fn() -> bool) -> io::Result<()> + Sync + 'a;

/// Runs filters where they harm nobody.
///
/// jq is a language in which a line can run for ever, want all memory, or recurse until the stack
/// ends, and the last of these ends the process that it happens in. So whoever implements this runs
/// the filter in a process of its own, with limits.
pub trait Filters: Send + Sync {
    /// Starts one: gives it what `feed` writes, hands what it answers on to `take`, and ends it when
    /// `take` has enough or `expired` says so. Errors are those of `feed` and `take`, and of
    /// starting it.
    fn run(
        &self,
        feed: &Feed<'_>,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome>;
}

/// How a filter ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterOutcome {
    /// By itself, at the end of its input or before.
    Done,
    /// Its answers were enough.
    Enough,
    /// Its time was up.
    OutOfTime,
    /// It wanted more memory than it may have.
    OutOfMemory,
    /// It recursed deeper than the stack has room for.
    TooDeep,
    /// In another way, which the text describes.
    Failed(String),
    /// It never began: there is nowhere to run it.
    Unavailable,
}

/// For texts that run no filter.
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
