//! The names under `X.lines/`, and positions in a text.

use std::fmt;

use crate::range;

/// A position in a text: a line, and a byte column in it, both from 1. Printed as `line`, or as
/// `line@column` unless that is the first column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TextPosition {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl TextPosition {
    /// Reads `line` or `line@column`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (line, column) = text.split_once('@').unwrap_or((text, "1"));
        Some(Self { line: range::number(line)?, column: range::number(column)? })
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        if self.column > 1 { write!(f, "@{}", self.column) } else { Ok(()) }
    }
}
