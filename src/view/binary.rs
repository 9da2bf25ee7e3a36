//! The replacement for bytes that are not text.

use crate::number::counted;
use ctxfs_core::model::Subject;

/// Returns the line that views of lines show instead: the type, the size and the path of the
/// artifact.
pub(super) fn notice(subject: &Subject<'_>) -> String {
    format!(
        "# not text ({}, {}), so nothing follows. The bytes: {}\n",
        subject.analysis.mime,
        counted(subject.size(), "byte"),
        subject.place.file(),
    )
}
