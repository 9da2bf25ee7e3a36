//! What stands in for bytes that are not text.

use crate::model::Subject;
use crate::view::number::counted;

/// The line that a view of lines shows: what the artifact is, and where.
pub(super) fn notice(subject: &Subject<'_>) -> String {
    format!(
        "# not text ({}, {}), so nothing follows. The bytes: {}\n",
        subject.analysis.mime,
        counted(subject.size(), "byte"),
        subject.place.file(),
    )
}
