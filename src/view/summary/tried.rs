//! The measure of a step that leads to an error: it is tried before it is named.

use bstr::ByteSlice as _;

use crate::model::Subject;

/// Most bytes that a step shows.
pub(super) const STEP_BYTES: usize = 8 << 10;
/// The longest output in which steps are tried: some milliseconds of work.
const TRIED: u64 = 16 << 20;

/// Returns true if an output is short enough for searches to be tried.
pub(super) fn can_be_tried(subject: &Subject<'_>) -> bool {
    subject.content.len() <= TRIED
}

/// Returns true if `text` shows a line, as searches print it.
pub(super) fn shows(text: &[u8], line: u64) -> bool {
    let number = line.to_string();
    text.lines().any(|line| {
        line.strip_prefix(number.as_bytes())
            .and_then(<[u8]>::first)
            .is_some_and(|mark| b":-@".contains(mark))
    })
}
