//! Lines of a stand-in that would be too long.

use crate::model::Limits;
use crate::view::clean::clean;
use crate::view::number::grouped;

/// Characters kept for the words that name a cut.
const MARK_CHARS: usize = 48;

/// `line`, cut where it has too many characters; then it says at which column.
pub(super) fn line(line: &str) -> String {
    let whole = clean(line.as_bytes(), Limits::LINE_CHARS, usize::MAX);
    if whole.used == line.len() {
        return whole.text;
    }
    let kept = clean(line.as_bytes(), Limits::LINE_CHARS - MARK_CHARS, usize::MAX);
    format!("{} [cut at byte column {}]", kept.text, grouped(kept.used as u64 + 1))
}
