use crate::clean::clean;
use crate::number::grouped;
use ctxfs_core::model::Limits;

const MARK_CHARS: usize = 48;

/// Returns `line`, cut if it is longer than [`Limits::LINE_CHARS`]. The mark of a cut names its
/// byte column.
pub(super) fn line(line: &str) -> String {
    let whole = clean(line.as_bytes(), Limits::LINE_CHARS, usize::MAX);
    if whole.used == line.len() {
        return whole.text;
    }
    let kept = clean(line.as_bytes(), Limits::LINE_CHARS - MARK_CHARS, usize::MAX);
    format!("{} [cut at byte column {}]", kept.text, grouped(kept.used as u64 + 1))
}
