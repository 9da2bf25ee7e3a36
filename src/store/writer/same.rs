//! Finding an earlier artifact of a call that has the same bytes.

use crate::error::StoreError;
use crate::naming::CallNaming;
use crate::writer::ArtifactWriter;
use ctxfs_core::model::{ArtifactState, Folder, Record, RelPath};

/// The numbers without an output at rest after which no more are looked at. They are those of
/// writers that work at the same time, and of outputs that were removed.
const GAP: u32 = 16;

impl ArtifactWriter {
    /// Returns the record of another output of the same call with the same bytes as this one, whose
    /// record is `own`, and as complete. Reads records alone: the digests tell.
    ///
    /// A host with two hooks hands over each output twice. A command that runs twice has two logs.
    pub(super) fn same_output(&self, own: &Record) -> Result<Option<Record>, StoreError> {
        let Some(naming) = self.naming.as_ref().filter(|of| of.folder() == Folder::Tool) else {
            return Ok(None);
        };
        let (mut number, mut last) = (1, naming.number);
        while number <= last.saturating_add(GAP) {
            let found = self.recorded(&naming.at(number))?;
            if !found.is_empty() {
                last = last.max(number);
            }
            if number != naming.number
                && let Some(same) = found.into_iter().find(|record| is_same(own, record))
            {
                return Ok(Some(same));
            }
            number += 1;
        }
        Ok(None)
    }

    /// Returns the records under the names of an output of the call, where the file is as recorded.
    fn recorded(&self, names: &CallNaming) -> Result<Vec<Record>, StoreError> {
        let mut found = Vec::new();
        for name in names.all() {
            let path = RelPath::artifact(names.folder(), &name);
            found.extend(
                self.conversation.record(&path)?.filter(|record| self.is_there(&path, record)),
            );
        }
        Ok(found)
    }

    fn is_there(&self, path: &RelPath, record: &Record) -> bool {
        let stat = self.dir.stat(path.file_name());
        stat.is_ok_and(|stat| (stat.size, stat.mtime.as_nanos()) == (record.size, record.modified))
    }
}

/// Returns true if two outputs of one call have the same bytes, and both are complete, or both are
/// incomplete for the same reason.
fn is_same(one: &Record, other: &Record) -> bool {
    let digest = |record: &Record| record.analysis.as_ref().map(|analysis| analysis.digest.clone());
    let is_closed = matches!(one.state, ArtifactState::Sealed | ArtifactState::Incomplete(_));
    is_closed
        && one.state == other.state
        && one.size == other.size
        && one.provenance.call == other.provenance.call
        && digest(one).is_some()
        && digest(one) == digest(other)
}
