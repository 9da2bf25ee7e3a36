//! The inode table: nodes by number and by key, and the kernel's references to them.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{FsError, Ino, Node, NodeKey, NodeKind, Result};
use ctxfs_engine::FileId;
use ctxfs_engine::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ctxfs_engine::sync::{DashMap, Mutex};

/// All nodes that the kernel knows.
///
/// `keys` is locked for interning and for forgetting, so that a node cannot be forgotten between
/// being found and being counted. `nodes` alone serves the hot path from number to node.
pub(crate) struct InodeTable {
    nodes: DashMap<Ino, Arc<Node>>,
    keys: Mutex<NodeKeys>,
    next: AtomicU64,
    next_on_disk: AtomicU64,
}

/// The first inode number of files and directories on disk. Computed files have lower ones:
/// programs that remove files in the order of these numbers then remove views before their
/// artifact.
pub(crate) const FIRST_ON_DISK: u64 = 1 << 40;

/// References to a node by the table, and by the function that examines it.
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

    /// Returns the node of `key`. Counts no look-up.
    pub(crate) fn find(&self, key: &NodeKey) -> Option<Arc<Node>> {
        self.keys.lock().get(key).cloned()
    }

    /// Returns the node of `key`, with one more look-up counted, or the node that `make` creates. A
    /// computed node keeps its origin alive, so that a view found again is the same view.
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
        // It may have been forgotten meanwhile.
        if keys.own.get(&node.key).is_some_and(|Interned(known)| Arc::ptr_eq(known, node)) {
            keys.copies.insert(file.id(), Arc::clone(node));
        }
    }

    pub(crate) fn unused(&self) -> Ino {
        Ino(self.next_on_disk.fetch_add(1, Relaxed))
    }

    /// Subtracts `count` from the look-ups of `ino`.
    ///
    /// A directory that is forgotten before the nodes below it stays: they would not learn of a
    /// rename through another node of it.
    pub(crate) fn forget(&self, ino: Ino, count: u64) {
        let mut next = Some((ino, count));
        while let Some((ino, count)) = next {
            next = self.forget_one(ino, count);
        }
    }

    /// Subtracts `count` from the look-ups of one node. If none is left, removes the node and
    /// returns the node above with the number to subtract there: one if the removed node was
    /// computed.
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
        // The node may own open files. They close here, with nothing locked.
        Some((node.above()?.ino, u64::from(node.computed_from().is_some())))
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
