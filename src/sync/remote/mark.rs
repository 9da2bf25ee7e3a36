
use crate::replica::{FileKey, FileVersion};
use ctxfs_core::model::RelPath;
use ctxfs_store::{FileMark, is_shared};

pub(super) fn key_of(mark: &FileMark) -> FileKey {
    FileKey::Here { inode: mark.ino, born: mark.born }
}

pub(super) fn version_of(mark: &FileMark) -> FileVersion {
    FileVersion { size: mark.size, modified: mark.modified }
}

pub(super) fn mark_of(key: FileKey, version: FileVersion) -> Option<FileMark> {
    let FileVersion { size, modified } = version;
    match key {
        FileKey::Here { inode, born } => Some(FileMark { ino: inode, born, size, modified }),
        FileKey::Elsewhere(_) => None,
    }
}

///+ Parses the path of a shared file. Returns `None` unless the text is spelled as ctxfs spells it.
pub(super) fn shared_path(text: &str) -> Option<RelPath> {
    let path = RelPath::from_text(text).ok()?;
    (is_shared(&path) && path.to_text() == text).then_some(path)
}
