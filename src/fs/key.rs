//! The identity of nodes.

use crate::engine::FileId;
use crate::engine::Recipe;
use crate::engine::Version;
use crate::fs::Ino;
use crate::view::View;
use crate::view::ViewDir;

/// The identity of a node: two look-ups with equal keys give one inode number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// Something on disk: device, inode and birth, so that a number that the disk uses again is
    /// not taken for the old file.
    Disk(FileId),
    /// A computed file: of this node, at this version.
    Computed(Option<Ino>, Recipe, Version),
    /// A directory of views: of a file, or of what the view beside it says of that file.
    ViewDir(Ino, Option<Box<View>>, ViewDir),
    /// `.ctxfs`.
    Control,
    /// The directory of all conversations.
    Root,
}
