//! Nodes: what the kernel holds a number of.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::PoisonError;

use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::file::FileNode;
use crate::fs::inode::FileId;
use crate::fs::inode::Key;
use crate::fs::rendered::RenderedNode;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::atomic::AtomicU64;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::Dir;
use crate::store::Store;
use crate::view::View;
use crate::view::ViewDir;

/// What the kernel holds a number of. It lives until the kernel forgets the number.
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// What it is interned by.
    pub(crate) key: Key,
    /// How often the kernel was told of it and has not forgotten it.
    pub(crate) lookups: AtomicU64,
    pub(crate) kind: NodeKind,
}

pub(crate) enum NodeKind {
    /// A directory on disk: the root, a conversation, or below one.
    Dir(DirNode),
    /// A regular file on disk.
    File(Box<FileNode>),
    /// A computed file, at one generation of what it is computed from.
    Rendered(Box<RenderedNode>),
    /// A directory of views that are found by name: `X.grep`, and with a view as `base`,
    /// `X.pretty.grep`; of searches, where `of` is a directory.
    ViewDir { of: Arc<Node>, base: Option<Box<View>>, dir: ViewDir },
    /// The root's `.ctxfs`.
    Control,
}

/// A directory, held open.
pub(crate) struct DirNode {
    pub(crate) dir: Dir,
    pub(crate) link: Linked,
}

/// Where a node on disk stands. Empty for the root, and after removal.
#[derive(Default)]
pub(crate) struct Linked(Mutex<Option<Link>>);

/// A name in a directory.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: OsString,
}

impl Linked {
    pub(crate) fn new(link: Link) -> Self {
        Self(Mutex::new(Some(link)))
    }

    /// Holding this keeps the node from being renamed or removed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<Link> {
        self.lock().clone()
    }
}

impl Link {
    pub(crate) fn new(parent: &Arc<Node>, name: &OsStr) -> Self {
        Self { parent: Arc::clone(parent), name: name.to_owned() }
    }

    /// The directory that holds the name.
    pub(crate) fn dir(&self) -> Result<&Dir> {
        Ok(&self.parent.as_dir()?.dir)
    }

    /// The conversation and the path inside it; `None` in the root.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        let mut names = vec![self.name.clone()];
        let mut at = Arc::clone(&self.parent);
        while !at.is_root() {
            let link = at.as_dir().ok()?.link.get()?;
            names.push(link.name);
            at = link.parent;
        }
        let conversation = Component::new(names.pop()?).ok()?;
        names.reverse();
        let path = names.join(OsStr::from_bytes(b"/"));
        Some((conversation, RelPath::new(path).ok()?))
    }
}

impl Node {
    pub(crate) fn new(ino: Ino, key: Key, kind: NodeKind) -> Self {
        Self { ino, key, lookups: AtomicU64::new(1), kind }
    }

    pub(crate) fn as_dir(&self) -> Result<&DirNode> {
        match &self.kind {
            NodeKind::Dir(dir) => Ok(dir),
            NodeKind::ViewDir { .. } | NodeKind::Control => Err(FsError::Computed),
            NodeKind::File(_) | NodeKind::Rendered(_) => Err(FsError::NotADirectory),
        }
    }

    pub(crate) fn as_file(&self) -> Result<&FileNode> {
        match &self.kind {
            NodeKind::File(file) => Ok(file),
            NodeKind::Rendered(_) => Err(FsError::Computed),
            NodeKind::Dir(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
                Err(FsError::IsADirectory)
            }
        }
    }

    /// What it is computed from; that must be known when this is made.
    pub(crate) fn computed_from(&self) -> Option<&Arc<Self>> {
        match &self.kind {
            NodeKind::Rendered(rendered) => rendered.of.as_ref(),
            NodeKind::ViewDir { of, .. } => Some(of),
            NodeKind::Dir(_) | NodeKind::File(_) | NodeKind::Control => None,
        }
    }

    /// Where it stands; `None` for the root and for what is computed or removed.
    pub(crate) fn link(&self) -> Option<&Linked> {
        match &self.kind {
            NodeKind::Dir(dir) => Some(&dir.link),
            NodeKind::File(file) => Some(&file.link),
            NodeKind::Rendered(_) | NodeKind::ViewDir { .. } | NodeKind::Control => None,
        }
    }

    /// What it stands in, or is computed from.
    pub(crate) fn above(&self) -> Option<Arc<Self>> {
        match &self.kind {
            NodeKind::Dir(dir) => Some(dir.link.get()?.parent),
            NodeKind::File(file) => Some(file.link.get()?.parent),
            NodeKind::Rendered(rendered) => rendered.of.clone(),
            NodeKind::ViewDir { of, .. } => Some(Arc::clone(of)),
            NodeKind::Control => None,
        }
    }

    /// Whether it is the directory of all conversations.
    pub(crate) fn is_root(&self) -> bool {
        self.key == Key::Root
    }

    /// Whether it is the kernel's root, which is that directory or the only conversation.
    pub(crate) fn is_top(&self) -> bool {
        self.ino == Ino::ROOT
    }

    /// Whether it is a conversation: a directory right below that of all.
    pub(crate) fn is_conversation(&self) -> bool {
        matches!(&self.kind, NodeKind::Dir(dir)
            if dir.link.get().is_some_and(|link| link.parent.is_root()))
    }

    /// The conversation and the path inside it, of a directory or a file below a conversation.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        self.link()?.get()?.place()
    }

    /// The conversation that it is, or stands in.
    pub(crate) fn conversation(&self) -> Option<Component> {
        let link = self.link()?.get()?;
        if link.parent.is_root() {
            return Component::new(&link.name).ok();
        }
        link.parent.conversation()
    }

    /// Whether it is a directory in which artifacts stand.
    pub(crate) fn holds_artifacts(&self) -> bool {
        self.place().is_some_and(|(_, path)| {
            let path = path.as_os_str().as_bytes();
            path == b"artifacts" || path.starts_with(b"artifacts/")
        })
    }
}

/// The kernel's root: the directory of all conversations, or `only` one of them, which is made where
/// it is missing.
pub(crate) fn top(store: &Store, only: Option<&Component>) -> Result<Node> {
    let all = DirNode { dir: store.context().try_clone()?, link: Linked::default() };
    let Some(id) = only else { return Ok(Node::new(Ino::ROOT, Key::Root, NodeKind::Dir(all))) };
    let above = Arc::new(Node::new(Ino::ABOVE, Key::Root, NodeKind::Dir(all)));
    let dir = store.create_conversation(id)?.dir().try_clone()?;
    let key = Key::Disk(FileId::of(&dir.stat_self()?));
    let link = Linked::new(Link::new(&above, id.as_os_str()));
    Ok(Node::new(Ino::ROOT, key, NodeKind::Dir(DirNode { dir, link })))
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("ino", &self.ino).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ls -l` makes four nodes known for each artifact.
    #[test]
    fn nodes_are_small() {
        let of_file = size_of::<Node>() + size_of::<FileNode>();
        let of_view = size_of::<Node>() + size_of::<RenderedNode>() + size_of::<View>();
        assert!(size_of::<Node>() <= 144, "{}", size_of::<Node>());
        assert!(of_file <= 600 && of_view <= 600, "{of_file}, {of_view}");
    }
}
