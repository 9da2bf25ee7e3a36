//! Nodes: files and directories to which the kernel refers by an inode number, and their identity.
//!
//! Only the most recently used directories on disk are held open.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use quick_cache::sync::Cache;
use rustix::io::Errno;

use crate::attr::{Inherited, Rights};
use crate::{FileNode, FsError, Ino, Result};
use ctxfs_core::model::{Component, MAX_DEPTH, RelPath};
use ctxfs_engine::sync::atomic::AtomicU64;
use ctxfs_engine::sync::{Mutex, MutexGuard};
use ctxfs_engine::{Computed, DirPlace, FileId, Recipe, SourceDir};
use ctxfs_store::message::Published;
use ctxfs_store::{Dir, MESSAGES, Stat, Store};
use ctxfs_view::{View, ViewDir};

/// A real or computed file or directory that has an inode number until the kernel forgets it.
/// `lookups` counts the look-ups that the kernel has not yet forgotten.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    pub(crate) key: NodeKey,
    pub(crate) lookups: AtomicU64,
    pub(crate) kind: NodeKind,
}

pub(crate) enum NodeKind {
    Dir(Arc<DirNode>),
    File(Arc<FileNode>),
    Computed(Box<ComputedNode>),
    /// A directory of views that are found by name: `X.grep`, or `X.pretty.grep` with a view as
    /// `base`. If `of` is a directory, this is a directory of searches.
    ViewDir {
        of: Arc<Node>,
        base: Option<Box<View>>,
        dir: ViewDir,
    },
    Control,
}

/// A computed file at one version. The origin `of` is a file or a directory. For a view of a
/// computed file, `of` is that computed file.
pub(crate) struct ComputedNode {
    pub(crate) of: Option<Arc<Node>>,
    pub(crate) inherited: Inherited,
    pub(crate) computed: Arc<Computed>,
    /// True if the caller that looked the file up may not read it. The file then shows no size and
    /// cannot be opened.
    pub(crate) closed: bool,
}

/// The current name of a node on disk, which a rename changes. `None` for the root, and for a
/// removed node.
#[derive(Default)]
pub(crate) struct LinkCell(Mutex<Option<NodeLink>>);

#[derive(Clone)]
pub(crate) struct NodeLink {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: OsString,
}

impl ComputedNode {
    pub(crate) fn origin_rights(&self) -> Result<Rights> {
        let Some(of) = &self.of else { return Ok(self.inherited.rights) };
        let stat = match (&of.kind, &self.computed.recipe) {
            (NodeKind::Dir(dir), Recipe::Messages) => dir.open()?.stat(MESSAGES.as_ref())?,
            (NodeKind::Dir(dir), Recipe::Ignore) => return Ok(Rights::to_names(&dir.stat()?)),
            (NodeKind::Dir(dir), _) => dir.stat()?,
            (NodeKind::File(file), _) => file.stat()?,
            (NodeKind::Computed(base), _) => return base.origin_rights(),
            (NodeKind::ViewDir { .. } | NodeKind::Control, _) => return Err(FsError::Stale),
        };
        Ok(Rights::of(&stat))
    }
}

impl LinkCell {
    pub(crate) fn new(link: NodeLink) -> Self {
        Self(Mutex::new(Some(link)))
    }

    /// Locks the name. Until the lock is released, this mount neither renames nor removes the node.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<NodeLink>> {
        self.0.lock()
    }

    pub(crate) fn get(&self) -> Option<NodeLink> {
        self.lock().clone()
    }
}

/// Drops the directories above if nothing else refers to them. Uses a loop, because a recursion
/// could overflow the stack.
impl Drop for LinkCell {
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

impl NodeLink {
    pub(crate) fn new(parent: &Arc<Node>, name: &OsStr) -> Self {
        Self { parent: Arc::clone(parent), name: name.to_owned() }
    }

    pub(crate) fn dir(&self) -> Result<Arc<Dir>> {
        self.parent.as_dir()?.open()
    }

    /// Returns the conversation and the path inside it. Returns `None` for a name in the directory
    /// of all conversations.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        let mut names = Vec::new();
        self.climb(|link| names.push(link.name.clone()))?;
        let conversation = Component::new(names.pop()?).ok()?;
        names.reverse();
        let path = names.join(OsStr::from_bytes(b"/"));
        Some((conversation, RelPath::new(path).ok()?))
    }

    pub(crate) fn conversation(&self) -> Option<Component> {
        let mut top = None;
        self.climb(|link| {
            if link.parent.is_root() {
                top = Component::new(&link.name).ok();
            }
        })?;
        top
    }

    /// Returns true if this is a name in the directory `node`, or in a directory below it. Returns
    /// true also if the directories above cannot be followed.
    pub(crate) fn leads_through(&self, node: &Arc<Node>) -> bool {
        let mut through = false;
        let climbed = self.climb(|link| through |= Arc::ptr_eq(&link.parent, node));
        climbed.is_none() || through
    }

    /// Returns the number of directories from the conversation down to this name. It is 0 for the
    /// name of a conversation.
    pub(crate) fn depth(&self) -> Option<usize> {
        let mut links = 0_usize;
        self.climb(|_| links += 1)?;
        Some(links - 1)
    }

    /// Calls `each` with this link and with the links of all directories above, up to the link of
    /// the conversation.
    ///
    /// Returns `None` if one of the directories was removed, or if there are too many of them.
    /// After another process has moved directories, outdated links may form a circle.
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
    pub(crate) fn new(ino: Ino, key: NodeKey, kind: NodeKind) -> Self {
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

    pub(crate) fn is_at(&self, stat: &Stat) -> bool {
        match &self.kind {
            NodeKind::File(file) => file.is_at(stat),
            _ => self.key == NodeKey::Disk(FileId::of(stat)),
        }
    }

    pub(crate) fn computed_from(&self) -> Option<&Arc<Self>> {
        match &self.kind {
            NodeKind::Computed(computed) => computed.of.as_ref(),
            NodeKind::ViewDir { of, .. } => Some(of),
            NodeKind::Dir(_) | NodeKind::File(_) | NodeKind::Control => None,
        }
    }

    /// Returns a hash of the node's name on disk and its directory. If two calls return the same
    /// number, the node has not been renamed between them.
    pub(crate) fn number_of_name(&self) -> u64 {
        let Some(linked) = self.link() else { return 0 };
        let mut hasher = DefaultHasher::new();
        if let Some(link) = linked.lock().as_ref() {
            (link.parent.ino, &link.name).hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(crate) fn link(&self) -> Option<&LinkCell> {
        match &self.kind {
            NodeKind::Dir(dir) => Some(&dir.link),
            NodeKind::File(file) => Some(&file.link),
            NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => None,
        }
    }

    pub(crate) fn above(&self) -> Option<Arc<Self>> {
        match &self.kind {
            NodeKind::Dir(dir) => Some(dir.link.get()?.parent),
            NodeKind::File(file) => Some(file.link.get()?.parent),
            NodeKind::Computed(computed) => computed.of.clone(),
            NodeKind::ViewDir { of, .. } => Some(Arc::clone(of)),
            NodeKind::Control => None,
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.key == NodeKey::Root
    }

    /// Returns true for the root of the mount: the directory of all conversations, or a single
    /// conversation.
    pub(crate) fn is_top(&self) -> bool {
        self.ino == Ino::ROOT
    }

    /// Returns the conversation and the path inside it. Returns `None` for a node that is not below
    /// a conversation.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        self.link()?.get()?.place()
    }

    pub(crate) fn is_message_log(&self) -> bool {
        self.as_file().is_ok_and(|file| file.is_message_log())
    }

    pub(crate) fn conversation(&self) -> Option<Component> {
        let mut at = self;
        while let Some(of) = at.computed_from() {
            at = of;
        }
        at.link()?.get()?.conversation()
    }

    pub(crate) fn holds_artifacts(&self) -> bool {
        self.as_dir().is_ok_and(|dir| dir.place().is_ok_and(|place| place.holds_artifacts()))
    }
}

/// Returns the root of the mount: the directory of all conversations, or the conversation `only`,
/// which is created if it is missing. The mount keeps at most `open_dirs` directories open.
pub(crate) fn top(store: &Store, only: Option<&Component>, open_dirs: usize) -> Result<Node> {
    let open_dirs = Arc::new(OpenDirs {
        root: Arc::new(store.context().try_clone()?),
        recent: Cache::new(open_dirs),
    });
    let stat = store.context().stat_self()?;
    let all = Arc::new(DirNode::root(open_dirs, &stat));
    let Some(id) = only else { return Ok(Node::new(Ino::ROOT, NodeKey::Root, NodeKind::Dir(all))) };
    let above = Arc::new(Node::new(Ino::ABOVE, NodeKey::Root, NodeKind::Dir(Arc::clone(&all))));
    let stat = store.create_conversation(id)?.dir().stat_self()?;
    let only = all.child(NodeLink::new(&above, id.as_os_str()), &stat);
    Ok(Node::new(Ino::ROOT, NodeKey::Disk(FileId::of(&stat)), NodeKind::Dir(Arc::new(only))))
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("ino", &self.ino).finish_non_exhaustive()
    }
}

pub(crate) struct DirNode {
    pub(crate) link: LinkCell,
    pub(crate) id: FileId,
    pub(crate) is_root: bool,
    pub(crate) open_dirs: Arc<OpenDirs>,
}

struct Way {
    from: Arc<Dir>,
    names: Vec<OsString>,
}

impl DirNode {
    fn root(open_dirs: Arc<OpenDirs>, stat: &Stat) -> Self {
        Self { link: LinkCell::default(), id: FileId::of(stat), is_root: true, open_dirs }
    }

    pub(crate) fn child(&self, link: NodeLink, stat: &Stat) -> Self {
        let open_dirs = Arc::clone(&self.open_dirs);
        Self { link: LinkCell::new(link), id: FileId::of(stat), is_root: false, open_dirs }
    }

    /// Returns true if a file with this name is the message log of a conversation.
    pub(crate) fn has_log(&self, name: &OsStr) -> bool {
        name == MESSAGES && self.place().is_ok_and(|place| place.is_history())
    }

    /// Opens the directory. This takes no system call if the directory is held open, and two if
    /// not. Fails with [`FsError::Stale`] if its path is gone or now leads to a different
    /// directory.
    ///
    /// Locks the links of the directories above, so the caller must hold no lock that comes after
    /// the link locks.
    pub(crate) fn open(&self) -> Result<Arc<Dir>> {
        self.held().map_or_else(|| self.open_again(), Ok)
    }

    pub(crate) fn stat(&self) -> Result<Stat> {
        if let Some(dir) = self.held() {
            return Ok(dir.stat_self()?);
        }
        let link = self.link.get().ok_or(FsError::Stale)?;
        match link.dir()?.stat(&link.name) {
            Ok(stat) if FileId::of(&stat) == self.id => Ok(stat),
            // The directory may have been renamed in the meantime.
            Ok(_) | Err(_) => Ok(self.open()?.stat_self()?),
        }
    }

    fn held(&self) -> Option<Arc<Dir>> {
        if self.is_root {
            return Some(Arc::clone(&self.open_dirs.root));
        }
        self.open_dirs.recent.get(&self.id)
    }

    /// Opens the directory by its path. Starts again if a part of the path was renamed in the
    /// meantime.
    fn open_again(&self) -> Result<Arc<Dir>> {
        let mut tried = None;
        loop {
            let Way { from, names } = self.way()?;
            if tried.as_ref() == Some(&names) {
                return Err(FsError::Stale);
            }
            match from.open_dir_below(&names) {
                Ok(dir) if FileId::of(&dir.stat_self()?) == self.id => {
                    let dir = Arc::new(dir);
                    self.open_dirs.recent.insert(self.id, Arc::clone(&dir));
                    return Ok(dir);
                }
                Err(error) if !leads_elsewhere(&error) => return Err(error.into()),
                Ok(_) | Err(_) => tried = Some(names),
            }
        }
    }

    fn way(&self) -> Result<Way> {
        let mut names = Vec::new();
        let mut link = self.link.get().ok_or(FsError::Stale)?;
        while names.len() <= MAX_DEPTH {
            names.push(link.name);
            let above = link.parent.as_dir()?;
            if let Some(from) = above.held() {
                names.reverse();
                return Ok(Way { from, names });
            }
            link = above.link.get().ok_or(FsError::Stale)?;
        }
        Err(FsError::Stale)
    }
}

impl Drop for DirNode {
    fn drop(&mut self) {
        self.open_dirs.recent.remove(&self.id);
    }
}

impl SourceDir for DirNode {
    fn place(&self) -> ctxfs_engine::Result<DirPlace> {
        if self.is_root {
            return Ok(DirPlace::Root);
        }
        let link = self.link.get().ok_or(FsError::Stale)?;
        if link.parent.is_root() {
            return Ok(DirPlace::Conversation(Component::new(&link.name)?));
        }
        let (id, path) = link.place().ok_or(FsError::Stale)?;
        Ok(DirPlace::Below(id, path))
    }

    fn is_root(&self) -> bool {
        self.is_root
    }

    fn depth(&self) -> ctxfs_engine::Result<usize> {
        if self.is_root {
            return Ok(0);
        }
        let depth = self.link.get().and_then(|link| link.depth());
        Ok(depth.ok_or(FsError::Stale)?)
    }

    fn dir(&self) -> ctxfs_engine::Result<Arc<Dir>> {
        Ok(self.open()?)
    }
}

fn leads_elsewhere(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// The directories that this mount holds open. The kernel may refer to any number of directories; a
/// directory that is not held open is reopened when it is used.
pub(crate) struct OpenDirs {
    root: Arc<Dir>,
    pub(crate) recent: Cache<FileId, Arc<Dir>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum NodeKey {
    /// A file or directory on disk, identified by device, inode and birth time. The birth time
    /// distinguishes a new file from an old one whose inode number the disk has reused.
    Disk(FileId),
    SharedLog(Arc<SharedLogKey>),
    Computed(ComputedKey),
    /// A directory of views of a file, or of one of its views. The last number is a hash of the
    /// file's name, so a renamed file gets a new key.
    ViewDir(Ino, Option<Box<View>>, ViewDir, u64),
    Control,
    Root,
}

/// The identity of a computed file: its origin, its recipe, its version and the rights to it.
///
/// The recipe and the version are read from `computed`, to keep the key small: every node contains
/// room for a key.
#[derive(Clone)]
pub(crate) struct ComputedKey {
    pub(crate) of: Option<Ino>,
    pub(crate) computed: Arc<Computed>,
    pub(crate) rights: Rights,
    pub(crate) closed: bool,
}

impl PartialEq for ComputedKey {
    fn eq(&self, other: &Self) -> bool {
        let (this, other_file) = (&self.computed, &other.computed);
        (self.of, self.rights, self.closed) == (other.of, other.rights, other.closed)
            && this.version == other_file.version
            && this.recipe == other_file.recipe
    }
}

impl Eq for ComputedKey {}

impl Hash for ComputedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.of, self.rights, self.closed).hash(state);
        (&self.computed.version, &self.computed.recipe).hash(state);
    }
}

/// The identity of a message log that also shows messages of other hosts: this host's file, and the
/// edition of the other hosts' messages. Within an edition, messages are only appended. A message
/// that belongs before older ones begins a new edition.
pub(crate) struct SharedLogKey {
    own: FileId,
    edition: u64,
    published: Mutex<Arc<Published>>,
}

impl SharedLogKey {
    pub(crate) fn new(own: FileId, published: Arc<Published>) -> Self {
        Self { own, edition: published.edition(), published: Mutex::new(published) }
    }

    /// Stores the current messages of other hosts if they belong to this edition. Returns the last
    /// stored messages.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Other processes can create arbitrarily deep chains of outdated links.
    #[test]
    fn a_long_chain_of_nodes_is_dropped_without_recursion() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let stat = store.context().stat_self().unwrap();
        let mut at = Arc::new(top(&store, None, 1).unwrap());
        for _ in 0..200_000 {
            let inner = at.as_dir().unwrap().child(NodeLink::new(&at, OsStr::new("d")), &stat);
            let kind = NodeKind::Dir(Arc::new(inner));
            at = Arc::new(Node::new(Ino::ABOVE, NodeKey::Disk(FileId::of(&stat)), kind));
        }
        assert!(at.place().is_none() && at.conversation().is_none());
        drop(at);
    }

    /// `ls -l` creates four nodes for each artifact.
    #[test]
    fn nodes_are_small() {
        let of_file = size_of::<Node>() + size_of::<FileNode>();
        let of_view = size_of::<Node>() + size_of::<ComputedNode>() + size_of::<Computed>();
        assert!(size_of::<Node>() <= 88, "{}", size_of::<Node>());
        assert!(of_file <= 386 && of_view <= 350, "{of_file}, {of_view}");
    }
}
