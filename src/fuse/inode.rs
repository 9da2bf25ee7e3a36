//! The inode table: nodes by number and by key, and the kernel's look-up counts for them.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{FsError, Ino, Node, NodeKey, NodeKind, Result};
use ctxfs_engine::FileId;
use ctxfs_engine::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ctxfs_engine::sync::{DashMap, Mutex};

/// All nodes that the kernel references.
///
/// `keys` stays locked while a node is interned or forgotten, so that no node is forgotten between
/// the time it is found and the time it is counted. The frequent look-ups by number use only
/// `nodes`.
pub(crate) struct InodeTable {
    nodes: DashMap<Ino, Arc<Node>>,
    keys: Mutex<NodeKeys>,
    next: AtomicU64,
    next_on_disk: AtomicU64,
}

/// The first inode number of files and directories on disk. Computed files have lower numbers.
/// Programs that remove files in the order of inode numbers then remove views before their
/// artifact.
pub(crate) const FIRST_ON_DISK: u64 = 1 << 40;

/// Number of references to a directory node without nodes below it: two in the table, and one in
/// [`InodeTable::forget_one`].
const HELD_HERE: usize = 3;

#[derive(Default)]
struct NodeKeys {
    own: HashSet<Interned>,
    copies: HashMap<FileId, Arc<Node>>,
}

struct Interned(Arc<Node>);

impl Borrow<NodeKey> for Interned {
    fn borrow(&self) -> &NodeKey {
        &self.0.key
    }
}

impl Hash for Interned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialEq for Interned {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Interned {}

impl NodeKeys {
    fn get(&self, key: &NodeKey) -> Option<&Arc<Node>> {
        match (self.own.get(key), key) {
            (Some(Interned(node)), _) => Some(node),
            (None, NodeKey::Disk(id)) => self.copies.get(id),
            (None, _) => None,
        }
    }
}

impl InodeTable {
    pub(crate) fn new(top: Node) -> Self {
        let nodes = DashMap::new();
        nodes.insert(Ino::ROOT, Arc::new(top));
        let (next, next_on_disk) = (Ino::ROOT.0 + 1, AtomicU64::new(FIRST_ON_DISK));
        Self { nodes, keys: Mutex::default(), next: AtomicU64::new(next), next_on_disk }
    }

    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Node>> {
        let node = self.nodes.get(&ino).ok_or(FsError::UnknownInode(ino.0))?;
        Ok(Arc::clone(&node))
    }

    /// Returns the node of `key` without counting a look-up.
    pub(crate) fn find(&self, key: &NodeKey) -> Option<Arc<Node>> {
        self.keys.lock().get(key).cloned()
    }

    /// Returns the node of `key` with one more look-up counted. Creates the node with `make` if
    /// there is none. A computed node keeps the node of its origin alive, so that a later look-up
    /// of the view finds the same node.
    pub(crate) fn intern(
        &self,
        key: NodeKey,
        make: impl FnOnce(Ino) -> Result<NodeKind>,
    ) -> Result<Arc<Node>> {
        let mut keys = self.keys.lock();
        if let Some(node) = keys.get(&key) {
            node.lookups.fetch_add(1, Relaxed);
            return Ok(Arc::clone(node));
        }
        let is_on_disk = matches!(key, NodeKey::Disk(_) | NodeKey::SharedLog(_));
        let next = if is_on_disk { &self.next_on_disk } else { &self.next };
        let ino = Ino(next.fetch_add(1, Relaxed));
        let node = Arc::new(Node::new(ino, key, make(ino)?));
        if let Some(of) = node.computed_from() {
            of.lookups.fetch_add(1, Relaxed);
        }
        keys.own.insert(Interned(Arc::clone(&node)));
        self.nodes.insert(ino, Arc::clone(&node));
        Ok(node)
    }

    pub(crate) fn found_by_copy(&self, node: &Arc<Node>, before: FileId) {
        let Ok(file) = node.as_file() else { return };
        let mut keys = self.keys.lock();
        keys.copies.remove(&before);
        // The node may have been forgotten in the meantime.
        if keys.own.get(&node.key).is_some_and(|Interned(known)| Arc::ptr_eq(known, node)) {
            keys.copies.insert(file.id(), Arc::clone(node));
        }
    }

    pub(crate) fn unused(&self) -> Ino {
        Ino(self.next_on_disk.fetch_add(1, Relaxed))
    }

    /// Subtracts `count` from the look-up count of `ino`.
    ///
    /// A directory that the kernel forgets stays in the table while nodes below it refer to it.
    /// Otherwise a later look-up would create a second node for the directory, and a rename of that
    /// node would not reach the nodes below.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        let mut next = Some((ino, count));
        while let Some((ino, count)) = next {
            next = self.forget_one(ino, count);
        }
    }

    /// Subtracts `count` from the look-up count of one node. If the count drops to zero, removes
    /// the node and returns the node above it. Also returns the number to subtract from the count
    /// of that node: 1 if the removed node was computed, else 0.
    fn forget_one(&self, ino: Ino, count: u64) -> Option<(Ino, u64)> {
        let mut keys = self.keys.lock();
        let node = self.get(ino).ok().filter(|node| !node.is_top())?;
        if node.lookups.fetch_sub(count, Relaxed) > count {
            return None;
        }
        node.lookups.store(0, Relaxed);
        if node.as_dir().is_ok() && Arc::strong_count(&node) > HELD_HERE {
            return None;
        }
        keys.own.remove(&node.key);
        if let Ok(file) = node.as_file() {
            keys.copies.remove(&file.id());
        }
        self.nodes.remove(&ino);
        drop(keys);
        // The node may own open files, which close here, where no lock is held.
        Some((node.above()?.ino, u64::from(node.computed_from().is_some())))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
