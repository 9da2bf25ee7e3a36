//! Turns the answers of a filter into the text of a view.

use std::io;
use std::io::Write;

use crate::jq::protocol;
use crate::jq::protocol::Tag;
use crate::scan;
use ctxfs_core::model::Limits;

// If the size has no limit, this many bytes are collected before they are written.
const FLUSH_BYTES: usize = 64 << 10;

/// The results so far, and the counts for the notices about the run. If the usual limit is lifted,
/// results are written immediately. Otherwise they are held in memory so that they can be cut.
pub(super) struct Results<'a> {
    out: &'a mut dyn Write,
    text: Vec<u8>,
    // The end of each result in `text`, and the line of its value.
    ends: Vec<(usize, u64)>,
    // Maximum number of results. 0 permits any number, and lifts the usual limit on their size.
    max: Option<u64>,
    // Maximum size in bytes of the results.
    pub(super) limit: u64,
    written: u64,
    // The line of the current value, or the line from which on results were cut. 0 before the first
    // value.
    pub(super) line: u64,
    // Number of complete results.
    pub(super) count: u64,
    pub(super) failures: u64,
    // The line and the reason of the first failure.
    pub(super) first_failure: Option<(u64, String)>,
    // Number of values that were too large to be read, and the line of the first of them.
    pub(super) large: u64,
    pub(super) first_large: u64,
    // Number of lines that are not JSON, and the first of them.
    pub(super) bad: u64,
    pub(super) first_bad: u64,
    // The byte and line where valid JSON ended.
    pub(super) broken: Option<(u64, u64)>,
    // The reason why the filter does not compile.
    pub(super) no_filter: Option<String>,
    // True if the results exceeded their limit.
    pub(super) full: bool,
}

/// The part of the results that remains after a cut: a number of results, or a number of bytes of
/// the first result if that alone is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultsCut {
    Results(u64),
    Bytes(u64),
}

impl<'a> Results<'a> {
    // Creates an empty result. `limit` is the limit in bytes that applies if `max` lifts the usual
    // one.
    pub(super) fn new(out: &'a mut dyn Write, max: Option<u64>, limit: u64) -> Self {
        let limit = if max == Some(0) { limit } else { Limits::VIEW_BYTES as u64 };
        Self {
            out,
            text: Vec::new(),
            ends: Vec::new(),
            max,
            limit,
            written: 0,
            line: 0,
            count: 0,
            failures: 0,
            first_failure: None,
            large: 0,
            first_large: 0,
            bad: 0,
            first_bad: 0,
            broken: None,
            no_filter: None,
            full: false,
        }
    }

    // Processes one answer. Returns false if no more answers are needed.
    pub(super) fn take(&mut self, tag: Tag, text: &[u8]) -> io::Result<bool> {
        let words = || String::from_utf8_lossy(text).into_owned();
        match tag {
            Tag::Begin => self.line = words().parse().unwrap_or(0),
            Tag::Part => self.push(text)?,
            Tag::Last => {
                self.push(text)?;
                if !self.full {
                    self.count += 1;
                    self.ends.push((self.text.len(), self.line));
                }
            }
            Tag::Failed => {
                self.failures += 1;
                self.first_failure.get_or_insert_with(|| (self.line, words()));
            }
            Tag::NoFilter => self.no_filter = Some(words()),
            Tag::Large => {
                self.large += 1;
                if self.large == 1 {
                    self.first_large = words().parse().unwrap_or(0);
                }
            }
            Tag::Bad => {
                let numbers = protocol::numbers_of(&words()).unwrap_or_default();
                if self.bad == 0 {
                    self.first_bad = *numbers.first().unwrap_or(&0);
                }
                self.bad += numbers.last().unwrap_or(&0);
            }
            Tag::Broken => {
                let numbers = protocol::numbers_of(&words()).unwrap_or_default();
                self.broken = Some((*numbers.first().unwrap_or(&0), *numbers.last().unwrap_or(&0)));
            }
        }
        let enough = self.max.is_some_and(|max| max > 0 && self.count >= max);
        Ok(!self.full && !enough)
    }

    pub(super) fn is_endless(&self) -> bool {
        self.max == Some(0)
    }

    fn push(&mut self, text: &[u8]) -> io::Result<()> {
        self.written += text.len() as u64;
        if self.is_endless() && self.written > self.limit {
            self.full = true;
            return Ok(());
        }
        self.text.extend_from_slice(text);
        self.full = self.written > self.limit;
        if self.is_endless() && self.text.len() >= FLUSH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.text.clear();
        self.ends.clear();
        Ok(())
    }

    // Returns true if the unwritten results and a notice of `notice` bytes exceed the limit of a
    // view.
    pub(super) fn overflows(&self, notice: usize) -> bool {
        !self.is_endless() && self.text.len() + notice > Limits::VIEW_BYTES
    }

    /// Cuts the results to `budget` bytes. Sets `line` to the line of the first omitted result.
    pub(super) fn shorten(&mut self, budget: usize) -> ResultsCut {
        let whole = self.ends.partition_point(|(end, _)| *end <= budget);
        self.line = self.ends.get(whole).map_or(self.line, |(_, line)| *line);
        if let Some(last) = whole.checked_sub(1) {
            self.text.truncate(self.ends[last].0);
            self.count = whole as u64;
            return ResultsCut::Results(self.count);
        }
        let most = scan::char_floor(&self.text, budget.min(self.text.len()));
        let end = memchr::memrchr(b'\n', &self.text[..most]).map_or(most, |at| at + 1);
        self.text.truncate(end);
        self.count = 0;
        ResultsCut::Bytes(end as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken<'a>(out: &'a mut Vec<u8>, max: Option<u64>, results: &[&str]) -> Results<'a> {
        let mut taken = Results::new(out, max, 100_000);
        for result in results {
            if !taken.take(Tag::Last, result.as_bytes()).unwrap() {
                break;
            }
        }
        taken
    }

    #[test]
    fn results_are_cut_between_them() {
        let mut out = Vec::new();
        let result = format!("{}\n", "x".repeat(9_999));
        let mut results = taken(&mut out, None, &[result.as_str(); 9]);
        assert!(results.full && results.overflows(0));
        assert_eq!((results.count, results.shorten(35_000)), (4, ResultsCut::Results(3)));
        results.flush().unwrap();
        assert_eq!(out.len(), 30_000);
    }

    #[test]
    fn a_result_that_is_too_large_alone_is_cut_at_a_line() {
        let result = format!("{}\n", "x".repeat(999)).repeat(60);
        let mut out = Vec::new();
        let mut results = taken(&mut out, None, &[&result]);
        assert_eq!(results.shorten(40_500), ResultsCut::Bytes(40_000));
        let line = "\u{20ac}".repeat(30_000);
        let mut results = taken(&mut out, None, &[&line]);
        assert_eq!(results.shorten(40_000), ResultsCut::Bytes(39_999));
    }

    #[test]
    fn without_a_limit_they_pass() {
        let mut out = Vec::new();
        let result = format!("{}\n", "x".repeat(9_999));
        let mut results = taken(&mut out, Some(0), &[result.as_str(); 12]);
        assert!(results.full && !results.overflows(1_000));
        assert_eq!(results.count, 10);
        results.flush().unwrap();
        assert_eq!(out.len(), 100_000);
    }

    #[test]
    fn as_many_as_were_asked_for() {
        let mut out = Vec::new();
        let mut results = taken(&mut out, Some(2), &["1\n", "2\n", "3\n"]);
        assert_eq!((results.count, results.full), (2, false));
        results.flush().unwrap();
        assert_eq!(out, b"1\n2\n");
    }

    #[test]
    fn failures_are_counted() {
        let mut out = Vec::new();
        let mut results = Results::new(&mut out, None, 0);
        for (tag, text) in [(Tag::Begin, "7"), (Tag::Failed, "first"), (Tag::Failed, "second")] {
            assert!(results.take(tag, text.as_bytes()).unwrap());
        }
        assert_eq!(results.failures, 2);
        assert_eq!(results.first_failure, Some((7, "first".to_owned())));
    }
}
