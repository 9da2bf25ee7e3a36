//! All error lines of a few lines, in order.

use crate::materialize::block::Block;
use crate::materialize::failure::FailureDetector;
use crate::model::ErrorRank;

/// An error line among a few lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorMatch {
    /// The index of the line, from 0.
    pub index: usize,
    /// The most telling ranks come first.
    pub rank: ErrorRank,
    /// The offset in the line, from 0, of the fragment that marks it as an error.
    pub place: usize,
}

/// Returns the error lines among lines without their newlines.
pub fn error_lines<'l>(lines: impl IntoIterator<Item = &'l [u8]>) -> Vec<ErrorMatch> {
    let mut failures = FailureDetector::default();
    failures.found.each = Some(Vec::new());
    for line in lines {
        failures.push(Block { bytes: line, newlines: &[] });
        failures.push(Block { bytes: b"\n", newlines: &[0] });
    }
    failures.found.each.unwrap_or_default()
}
