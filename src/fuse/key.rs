//! The identity of nodes.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::Ino;
use crate::attr::Rights;
use ctxfs_engine::sync::Mutex;
use ctxfs_engine::{Computed, FileId};
use ctxfs_store::message::Published;
use ctxfs_view::{View, ViewDir};

/// The identity of a node. Look-ups with equal keys give the same inode number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A file or directory on disk, identified by device, inode and time of birth, so that an inode
    /// number that the disk uses again is not taken for the old file.
    Disk(FileId),
    /// A message log with what other hosts said, in one order of the messages.
    SharedLog(Arc<SharedLogKey>),
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

/// The identity of a message log with what other hosts said: this host's file, and the edition of
/// what stands in front. It only grows: a message that comes late makes another one.
pub(crate) struct SharedLogKey {
    own: FileId,
    edition: u64,
    /// What stands in front, as it was last seen in this edition.
    published: Mutex<Arc<Published>>,
}

impl SharedLogKey {
    pub(crate) fn new(own: FileId, published: Arc<Published>) -> Self {
        Self { own, edition: published.edition(), published: Mutex::new(published) }
    }

    /// Takes what stands in front now, if it is of the same edition. Returns the last of this one.
    pub(crate) fn follow(&self, now: Option<Arc<Published>>) -> Arc<Published> {
        let mut published = self.published.lock();
        if let Some(now) = now.filter(|now| now.edition() == self.edition) {
            *published = now;
        }
        Arc::clone(&published)
    }
}

impl PartialEq for SharedLogKey {
    fn eq(&self, other: &Self) -> bool {
        (self.own, self.edition) == (other.own, other.edition)
    }
}

impl Eq for SharedLogKey {}

impl Hash for SharedLogKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.own, self.edition).hash(state);
    }
}

impl std::fmt::Debug for SharedLogKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SharedLogKey").field(&self.own).field(&self.edition).finish()
    }
}
