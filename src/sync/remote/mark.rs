//! Files of this disk as the rules of `replica` name them.

use crate::replica::{FileKey, FileVersion};
use ctxfs_core::model::RelPath;
use ctxfs_store::{FileMark, is_shared};

/// Returns which file it is.
pub(super) fn key_of(mark: &FileMark) -> FileKey {
    FileKey::Here { inode: mark.ino, born: mark.born }
}

/// Returns the state of its bytes.
pub(super) fn version_of(mark: &FileMark) -> FileVersion {
    FileVersion { size: mark.size, modified: mark.modified }
}

/// Returns the mark of a file that is here.
pub(super) fn mark_of(key: FileKey, version: FileVersion) -> Option<FileMark> {
    let FileVersion { size, modified } = version;
    match key {
        FileKey::Here { inode, born } => Some(FileMark { ino: inode, born, size, modified }),
        FileKey::Elsewhere(_) => None,
    }
}

/// Returns the path whose text is `text`, if hosts share a file there as a file.
pub(super) fn shared_path(text: &str) -> Option<RelPath> {
    let path = RelPath::from_text(text).ok()?;
    (is_shared(&path) && path.to_text() == text).then_some(path)
}
