use crate::number::counted;
use ctxfs_core::model::Subject;

pub(super) fn notice(subject: &Subject<'_>) -> String {
    format!(
        "# not text ({}, {}), so nothing follows. The bytes: {}\n",
        subject.analysis.mime,
        counted(subject.size(), "byte"),
        subject.place.file(),
    )
}
