//! Nodes: the things that the kernel knows by an inode number.

pub(crate) mod dir;
pub(crate) mod file;

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use crate::attr::{Inherited, Rights};
use crate::key::Key;
use crate::node::dir::DirNode;
use crate::node::file::FileNode;
use crate::open_dirs::OpenDirs;
use crate::{FsError, Ino, Result};
use ctxfs_core::model::{Component, MAX_DEPTH, RelPath};
use ctxfs_engine::sync::atomic::AtomicU64;
use ctxfs_engine::sync::{Mutex, MutexGuard};
use ctxfs_engine::{Computed, FileId, Recipe, SourceDir as _, SourceFile as _};
use ctxfs_store::{Dir, MESSAGES, Stat, Store};
use ctxfs_view::{View, ViewDir};

/// A file or directory, real or computed, that the kernel knows by a number. It lives until the
/// kernel forgets the number.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// The key that it is interned by.
    pub(crate) key: Key,
    /// The number of look-ups that the kernel has not forgotten.
    pub(crate) lookups: AtomicU64,
    pub(crate) kind: NodeKind,
}

pub(crate) enum NodeKind {
    /// A directory on disk: the root, a conversation, or below one.
    Dir(Arc<DirNode>),
    /// A regular file on disk.
    File(Arc<FileNode>),
    /// A computed file, at one version of what it is computed from.
    Computed(Box<ComputedNode>),
    /// A directory of views that are found by name: `X.grep`, or with a view as `base`,
    /// `X.pretty.grep`. If `of` is a directory, one of searches.
    ViewDir { of: Arc<Node>, base: Option<Box<View>>, dir: ViewDir },
    /// The root's `.ctxfs`.
    Control,
}

/// A computed file at one version.
pub(crate) struct ComputedNode {
    /// The file or directory that it is computed from, or the computed file that it is a view of.
    pub(crate) of: Option<Arc<Node>>,
    /// The attributes that it has from that file or directory.
    pub(crate) inherited: Inherited,
    /// The engine's side of it.
    pub(crate) computed: Arc<Computed>,
    /// True if it is the file as those find it who may not read it: without size, never to be
    /// opened.
    pub(crate) closed: bool,
}

/// The name of a node on disk. Empty for the root, and after removal.
#[derive(Default)]
pub(crate) struct Linked(Mutex<Option<Link>>);

/// A name in a directory.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: OsString,
}

impl ComputedNode {
    /// Returns the rights to it that its origin gives now. Fails if that is gone.
    pub(crate) fn origin_rights(&self) -> Result<Rights> {
        let Some(of) = &self.of else { return Ok(self.inherited.rights) };
        let stat = match (&of.kind, self.computed.recipe()) {
            (NodeKind::Dir(dir), Recipe::Messages) => dir.open()?.stat(MESSAGES.as_ref())?,
            (NodeKind::Dir(dir), _) => dir.stat()?,
            (NodeKind::File(file), _) => file.stat()?,
            (NodeKind::Computed(base), _) => return base.origin_rights(),
            (NodeKind::ViewDir { .. } | NodeKind::Control, _) => return Err(FsError::Stale),
        };
        Ok(Rights::of(&stat))
    }
}

impl Linked {
    pub(crate) fn new(link: Link) -> Self {
        Self(Mutex::new(Some(link)))
    }

    /// Locks the name, which keeps the node from being renamed or removed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        self.0.lock()
    }

    pub(crate) fn get(&self) -> Option<Link> {
        self.lock().clone()
    }
}

/// Drops the directories above that nothing else refers to, one after the other and not inside each
/// other.
impl Drop for Linked {
    fn drop(&mut self) {
        let mut next = self.0.get_mut().take();
        while let Some(link) = next {
            next = Arc::into_inner(link.parent).and_then(|mut above| match &mut above.kind {
                NodeKind::Dir(dir) => Arc::get_mut(dir)?.link.0.get_mut().take(),
                _ => None,
            });
        }
    }
}

impl Link {
    pub(crate) fn new(parent: &Arc<Node>, name: &OsStr) -> Self {
        Self { parent: Arc::clone(parent), name: name.to_owned() }
    }

    /// Opens the directory that holds the name.
    pub(crate) fn dir(&self) -> Result<Arc<Dir>> {
        self.parent.as_dir()?.open()
    }

    /// Returns the conversation and the path inside it. `None` for a name in the root.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        let mut names = Vec::new();
        self.climb(|link| names.push(link.name.clone()))?;
        let conversation = Component::new(names.pop()?).ok()?;
        names.reverse();
        let path = names.join(OsStr::from_bytes(b"/"));
        Some((conversation, RelPath::new(path).ok()?))
    }

    /// Returns the conversation that has this name, or that it lies in.
    pub(crate) fn conversation(&self) -> Option<Component> {
        let mut top = None;
        self.climb(|link| {
            if link.parent.is_root() {
                top = Component::new(&link.name).ok();
            }
        })?;
        top
    }

    /// Returns true if it is the name of something in the directory `node`, or further below.
    pub(crate) fn leads_through(&self, node: &Arc<Node>) -> bool {
        let mut through = false;
        let climbed = self.climb(|link| through |= Arc::ptr_eq(&link.parent, node));
        climbed.is_none() || through
    }

    /// Returns the number of directories between the name and its conversation.
    pub(crate) fn depth(&self) -> Option<usize> {
        let mut links = 0_usize;
        self.climb(|_| links += 1)?;
        Some(links - 1)
    }

    /// Calls `each` with this link and those of all directories above, up to the conversation's.
    ///
    /// Returns `None` if one of them was removed, or if there are more than there can be: links
    /// that are out of date, as another process has moved directories, may lead in a circle.
    fn climb(&self, mut each: impl FnMut(&Self)) -> Option<()> {
        each(self);
        let mut at = Arc::clone(&self.parent);
        for _ in 0..=MAX_DEPTH + 1 {
            if at.is_root() {
                return Some(());
            }
            let above = {
                let link = at.as_dir().ok()?.link.lock();
                let link = link.as_ref()?;
                each(link);
                Arc::clone(&link.parent)
            };
            at = above;
        }
        None
    }
}

impl Node {
    pub(crate) fn new(ino: Ino, key: Key, kind: NodeKind) -> Self {
        Self { ino, key, lookups: AtomicU64::new(1), kind }
    }

    pub(crate) fn as_dir(&self) -> Result<&Arc<DirNode>> {
        match &self.kind {
            NodeKind::Dir(dir) => Ok(dir),
            NodeKind::ViewDir { .. } | NodeKind::Control => Err(FsError::Computed),
            NodeKind::File(_) | NodeKind::Computed(_) => Err(FsError::NotADirectory),
        }
    }

    pub(crate) fn as_file(&self) -> Result<&Arc<FileNode>> {
        match &self.kind {
            NodeKind::File(file) => Ok(file),
            NodeKind::Computed(_) => Err(FsError::Computed),
            NodeKind::Dir(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
                Err(FsError::IsADirectory)
            }
        }
    }

    /// Returns true if `stat` describes the file or directory on disk that it is.
    pub(crate) fn is_at(&self, stat: &Stat) -> bool {
        match &self.kind {
            NodeKind::File(file) => file.is_at(stat),
            _ => self.key == Key::Disk(FileId::of(stat)),
        }
    }

    /// Returns the node that it is computed from.
    pub(crate) fn computed_from(&self) -> Option<&Arc<Self>> {
        match &self.kind {
            NodeKind::Computed(computed) => computed.of.as_ref(),
            NodeKind::ViewDir { of, .. } => Some(of),
            NodeKind::Dir(_) | NodeKind::File(_) | NodeKind::Control => None,
        }
    }

    /// Returns a number of its name on disk, and of the directory that has it. Equal numbers mean
    /// that it has not been renamed.
    pub(crate) fn number_of_name(&self) -> u64 {
        let Some(linked) = self.link() else { return 0 };
        let mut hasher = DefaultHasher::new();
        if let Some(link) = linked.lock().as_ref() {
            (link.parent.ino, &link.name).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns its name on disk. `None` for something computed.
    pub(crate) fn link(&self) -> Option<&Linked> {
        match &self.kind {
            NodeKind::Dir(dir) => Some(&dir.link),
            NodeKind::File(file) => Some(&file.link),
            NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => None,
        }
    }

    /// Returns the node that it lies in, or is computed from.
    pub(crate) fn above(&self) -> Option<Arc<Self>> {
        match &self.kind {
            NodeKind::Dir(dir) => Some(dir.link.get()?.parent),
            NodeKind::File(file) => Some(file.link.get()?.parent),
            NodeKind::Computed(computed) => computed.of.clone(),
            NodeKind::ViewDir { of, .. } => Some(Arc::clone(of)),
            NodeKind::Control => None,
        }
    }

    /// Returns true if it is the directory of all conversations.
    pub(crate) fn is_root(&self) -> bool {
        self.key == Key::Root
    }

    /// Returns true if it is the kernel's root, which is that directory or the only conversation.
    pub(crate) fn is_top(&self) -> bool {
        self.ino == Ino::ROOT
    }

    /// Returns the conversation and the path inside it, of a directory or file below a
    /// conversation.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        self.link()?.get()?.place()
    }

    /// Returns true if it is the message log of a conversation.
    pub(crate) fn is_message_log(&self) -> bool {
        self.as_file().is_ok_and(|file| file.is_message_log())
    }

    /// Returns the conversation that it is, lies in, or is computed from.
    pub(crate) fn conversation(&self) -> Option<Component> {
        let mut at = self;
        while let Some(of) = at.computed_from() {
            at = of;
        }
        at.link()?.get()?.conversation()
    }

    /// Returns true if it may hold artifacts.
    pub(crate) fn holds_artifacts(&self) -> bool {
        self.as_dir().is_ok_and(|dir| dir.place().is_ok_and(|place| place.holds_artifacts()))
    }
}

/// Returns the kernel's root: the directory of all conversations, or `only` one of them, which is
/// created if it is missing. Holds at most `open_dirs` directories open.
pub(crate) fn top(store: &Store, only: Option<&Component>, open_dirs: usize) -> Result<Node> {
    let open_dirs = Arc::new(OpenDirs::new(store.context().try_clone()?, open_dirs));
    let stat = store.context().stat_self()?;
    let all = Arc::new(DirNode::root(open_dirs, &stat));
    let Some(id) = only else { return Ok(Node::new(Ino::ROOT, Key::Root, NodeKind::Dir(all))) };
    let above = Arc::new(Node::new(Ino::ABOVE, Key::Root, NodeKind::Dir(Arc::clone(&all))));
    let stat = store.create_conversation(id)?.dir().stat_self()?;
    let only = all.child(Link::new(&above, id.as_os_str()), &stat);
    Ok(Node::new(Ino::ROOT, Key::Disk(FileId::of(&stat)), NodeKind::Dir(Arc::new(only))))
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("ino", &self.ino).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other processes can make links that are out of date as deep as they like.
    #[test]
    fn a_long_chain_of_nodes_is_dropped_without_recursion() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let stat = store.context().stat_self().unwrap();
        let mut at = Arc::new(top(&store, None, 1).unwrap());
        for _ in 0..200_000 {
            let inner = at.as_dir().unwrap().child(Link::new(&at, OsStr::new("d")), &stat);
            let kind = NodeKind::Dir(Arc::new(inner));
            at = Arc::new(Node::new(Ino::ABOVE, Key::Disk(FileId::of(&stat)), kind));
        }
        assert!(at.place().is_none() && at.conversation().is_none());
        drop(at);
    }

    /// `ls -l` makes four nodes known for each artifact.
    #[test]
    fn nodes_are_small() {
        let of_file = size_of::<Node>() + size_of::<FileNode>();
        let of_view = size_of::<Node>() + size_of::<ComputedNode>() + size_of::<Computed>();
        assert!(size_of::<Node>() <= 88, "{}", size_of::<Node>());
        assert!(of_file <= 386 && of_view <= 350, "{of_file}, {of_view}");
    }
}
