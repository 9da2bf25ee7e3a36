//! Long lines of a stand-in.

use crate::clean::clean;
use crate::number::grouped;
use ctxfs_core::model::Limits;

/// Characters kept free for the words that mark a cut.
const MARK_CHARS: usize = 48;

/// Returns `line`, cut if it has too many characters. A cut names its column.
pub(super) fn line(line: &str) -> String {
    let whole = clean(line.as_bytes(), Limits::LINE_CHARS, usize::MAX);
    if whole.used == line.len() {
        return whole.text;
    }
    let kept = clean(line.as_bytes(), Limits::LINE_CHARS - MARK_CHARS, usize::MAX);
    format!("{} [cut at byte column {}]", kept.text, grouped(kept.used as u64 + 1))
}
