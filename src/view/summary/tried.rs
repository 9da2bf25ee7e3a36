//! The measure of a step that leads to an error: it is tried before it is named.

use bstr::ByteSlice as _;

use crate::model::Subject;

/// Most bytes that a step shows.
pub(super) const STEP_BYTES: usize = 8 << 10;
/// The longest outputs in which searches, and words, are tried: some 20 milliseconds of work each.
const SEARCHED: u64 = 16 << 20;
const FOUND: u64 = 512 << 10;

/// Returns true if an output is short enough for searches to be tried.
pub(super) fn can_be_searched(subject: &Subject<'_>) -> bool {
    subject.content.len() <= SEARCHED
}

/// Returns true if an output is short enough for words to be tried.
pub(super) fn can_be_found(subject: &Subject<'_>) -> bool {
    subject.content.len() <= FOUND
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
