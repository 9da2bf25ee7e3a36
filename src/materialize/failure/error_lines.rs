//! Every error line, one after the other.

use crate::materialize::failure::FailureDetector;
use crate::model::ErrorLine;

/// An error line as it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorMatch {
    /// Where it stands.
    pub at: ErrorLine,
    /// The byte of it, from 0, where that shows what makes it one.
    pub place: usize,
    /// Equal for lines that differ in numbers alone.
    pub likeness: u64,
}

/// Finds the error lines of a stream in its order, in memory that does not grow with the stream.
#[derive(Debug)]
pub struct ErrorLines(FailureDetector);

impl ErrorLines {
    /// Has seen nothing yet.
    pub fn new() -> Self {
        let mut failures = FailureDetector::default();
        failures.found.each = Some(Vec::new());
        Self(failures)
    }

    /// Goes on with the next bytes; returns the error lines that ended in them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<ErrorMatch> {
        self.0.push(bytes);
        self.take()
    }

    /// The stream has ended; returns its last line, if that has no newline and is an error.
    pub fn end(&mut self) -> Vec<ErrorMatch> {
        if !self.0.open.is_empty() {
            self.0.end_open();
        }
        self.take()
    }

    /// Lines that ended so far.
    pub fn lines(&self) -> u64 {
        self.0.open.lines
    }

    /// The words to search for that occurred, as `model::Errors` has them.
    pub fn words(&self) -> Vec<String> {
        self.0.found.search_terms.best()
    }

    fn take(&mut self) -> Vec<ErrorMatch> {
        self.0.found.each.replace(Vec::new()).unwrap_or_default()
    }
}

impl Default for ErrorLines {
    fn default() -> Self {
        Self::new()
    }
}
