//! The identity of nodes.

use crate::engine::FileId;
use crate::engine::Recipe;
use crate::engine::Version;
use crate::fs::Ino;
use crate::view::View;
use crate::view::ViewDir;

/// The identity of a node. Look-ups with equal keys give the same inode number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A file or directory on disk, identified by device, inode and time of birth, so that an inode
    /// number that the disk uses again is not taken for the old file.
    Disk(FileId),
    /// A computed file: the node it is computed from, the recipe and the version.
    Computed(Option<Ino>, Recipe, Version),
    /// A directory of views, of a file or of one of its views.
    ViewDir(Ino, Option<Box<View>>, ViewDir),
    /// `.ctxfs`.
    Control,
    /// The directory of all conversations.
    Root,
}
