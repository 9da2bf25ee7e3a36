//! The identity of nodes.

use std::hash::Hash;
use std::hash::Hasher;
use std::sync::Arc;

use crate::engine::Computed;
use crate::engine::FileId;
use crate::fs::Ino;
use crate::fs::attr::Rights;
use crate::view::View;
use crate::view::ViewDir;

/// The identity of a node. Look-ups with equal keys give the same inode number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A file or directory on disk, identified by device, inode and time of birth, so that an inode
    /// number that the disk uses again is not taken for the old file.
    Disk(FileId),
    /// A computed file.
    Computed(ComputedKey),
    /// A directory of views, of a file or of one of its views, beside the name that has this
    /// number: a file that is renamed gets another one.
    ViewDir(Ino, Option<Box<View>>, ViewDir, u64),
    /// `.ctxfs`.
    Control,
    /// The directory of all conversations.
    Root,
}

/// The identity of a computed file: the node that it is computed from, its recipe, its version and
/// the rights to it.
///
/// Recipe and version are those of the computed file itself, as every node has room for its key.
#[derive(Debug, Clone)]
pub(crate) struct ComputedKey {
    pub(crate) of: Option<Ino>,
    pub(crate) computed: Arc<Computed>,
    pub(crate) rights: Rights,
    /// True if it is the file as those find it who may not read it.
    pub(crate) closed: bool,
}

impl PartialEq for ComputedKey {
    fn eq(&self, other: &Self) -> bool {
        let (this, other_file) = (&self.computed, &other.computed);
        (self.of, self.rights, self.closed) == (other.of, other.rights, other.closed)
            && this.version() == other_file.version()
            && this.recipe() == other_file.recipe()
    }
}

impl Eq for ComputedKey {}

impl Hash for ComputedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.of, self.rights, self.closed).hash(state);
        (self.computed.version(), self.computed.recipe()).hash(state);
    }
}
