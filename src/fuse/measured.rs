//! The sizes of views, measured when an artifact is sealed.

use std::fs::File;
use std::sync::Arc;

use crate::facts::record_at;
use crate::node::file::FileNode;
use crate::source::QuietFile;
use ctxfs_core::model::ViewSizes;
use ctxfs_engine::{Engine, SourceFile, facts_number, view_sizes};
use ctxfs_store::{provenance_of, stat_file};

/// Returns the sizes of the views of a file that is open as `open` and about to be sealed, if they
/// are to be recorded.
pub(super) fn measured(
    engine: &Engine,
    file: &Arc<FileNode>,
    open: &Arc<File>,
) -> Option<ViewSizes> {
    let (place, stat) = (file.place()?, stat_file(open).ok()?);
    let conversation = engine.conversation(&place.0).ok()?;
    let mut record = record_at(&file.life(), &conversation, &place.1, &stat, None).ok()?;
    record.provenance.update(&provenance_of(open).ok()?);
    let facts = facts_number(&place, &record, &[]);
    let quiet = QuietFile { node: Arc::clone(file), open: Arc::clone(open) };
    let source = Arc::new(quiet) as Arc<dyn SourceFile>;
    view_sizes::measure(engine, &source, &place, (&record, facts), &stat)
}
