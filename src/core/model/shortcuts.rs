//! Facts that spare reading all of some bytes again.

use serde::{Deserialize, Serialize};

/// Facts about some bytes that their views find again by reading more than they show. Who has only
/// a part of the bytes makes the same stand-ins with them.
///
/// All of it can be derived from the bytes again. What is not among it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shortcuts {
    /// The views that a summary tried before it named one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<TriedView>,
    /// The beginning of the last line of the text, if that line is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_line: Option<u64>,
    /// Places at which lines begin in a log with escape sequences, in order: the bytes before in
    /// the log, and those in its text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<(u64, u64)>,
}

/// A view that was tried: whether it leads to a line in few bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedView {
    /// Its name: `.grep/timeout`.
    pub view: String,
    /// The line to which it was to lead.
    pub line: u64,
    /// The lines of its text, if that is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// True if it shows the line.
    #[serde(default)]
    pub shows: bool,
}

impl Shortcuts {
    /// Returns what is known of a view that was to lead to `line`.
    pub fn tried(&self, view: &str, line: u64) -> Option<&TriedView> {
        self.tried.iter().find(|tried| tried.line == line && tried.view == view)
    }
}
