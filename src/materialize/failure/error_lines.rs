//! All error lines of a stream, in order.

use crate::materialize::failure::FailureDetector;
use crate::model::ErrorLine;

/// An error line in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorMatch {
    /// The line's position.
    pub at: ErrorLine,
    /// The offset in the line, from 0, of the fragment that marks it as an error.
    pub place: usize,
    /// A hash that is equal for lines that differ only in numbers.
    pub likeness: u64,
}

/// Finds all error lines of a stream, in memory that does not grow with the stream.
#[derive(Debug)]
pub struct ErrorLines(FailureDetector);

impl ErrorLines {
    /// Begins at the first line.
    pub fn new() -> Self {
        let mut failures = FailureDetector::default();
        failures.found.each = Some(Vec::new());
        Self(failures)
    }

    /// Takes the next bytes; returns the error lines that end in them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<ErrorMatch> {
        self.0.push(bytes);
        self.take()
    }

    /// Ends the stream; returns its last line, if that has no newline and is an error.
    pub fn end(&mut self) -> Vec<ErrorMatch> {
        if !self.0.open.is_empty() {
            self.0.end_open();
        }
        self.take()
    }

    /// Returns the number of lines that have ended.
    pub fn lines(&self) -> u64 {
        self.0.open.lines
    }

    /// Returns the search terms that occurred, as in `model::Errors`.
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
