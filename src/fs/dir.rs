//! Directories: listing, making and removing.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::sync::Arc;

use crate::fs::Caller;
use crate::fs::ContextFs;
use crate::fs::Entry;
use crate::fs::Fh;
use crate::fs::FileKind;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::OpenMode;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::handle::COMPUTED;
use crate::fs::handle::Handle;
use crate::fs::handle::ListedName;
use crate::fs::handle::Listing;
use crate::fs::lookup::computed_name;
use crate::fs::lookup::is_absent;
use crate::fs::lookup::is_stores;
use crate::fs::messages::is_history;
use crate::fs::node::DirNode;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::search::is_search_dir;
use crate::model::Component;
use crate::model::is_scratch;
use crate::store::DirEntry;
use crate::store::Kind;
use crate::store::MESSAGES;
use crate::view::Derived;
use crate::view::PageNumber;
use crate::view::Reading;
use crate::view::View;
use crate::view::ViewDir;
use crate::view::listed;
use crate::view::readings;

/// One name of a listing, and where the next one begins.
#[derive(Debug)]
pub struct Listed<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// File or directory.
    pub kind: FileKind,
    /// A number for it.
    pub ino: u64,
    /// Where to go on after it.
    pub next: u64,
}

impl ContextFs {
    /// Takes down the names in a directory and hands it to `done`, which the pages of a view may
    /// reach on another thread: their number follows from its size.
    pub fn opendir(&self, ino: Ino, done: impl FnOnce(Result<Fh>) + Send + 'static) {
        let shared = Arc::clone(&self.0);
        let opened = move |listing: Result<Listing>| {
            let insert = |listing| shared.handles.insert(Handle::Listing(Arc::new(listing)));
            done(listing.map(insert));
        };
        match self.0.nodes.get(ino) {
            Ok(node) => match &node.kind {
                NodeKind::ViewDir { of, base: Some(base), dir: ViewDir::Pages } => {
                    self.0.pages_of_view(of, base, opened);
                }
                _ => opened(self.0.listing(&node)),
            },
            Err(error) => opened(Err(error)),
        }
    }

    /// Hands the names from `offset` on to `take`, until it says that it is full.
    pub fn readdir(
        &self,
        ino: Ino,
        fh: Fh,
        offset: u64,
        mut take: impl FnMut(Listed<'_>) -> bool,
    ) -> Result<()> {
        let listing = self.0.handles.listing(fh)?;
        let dots = Listing::Names([".", ".."].map(|name| dot(name, ino)).into());
        for at in offset.. {
            let entry = at.checked_sub(2).map_or_else(|| dots.get(at), |at| listing.get(at));
            let Some(entry) = entry else { break };
            let listed =
                Listed { name: &entry.name, kind: entry.kind, ino: entry.ino, next: at + 1 };
            if take(listed) {
                break;
            }
        }
        Ok(())
    }

    /// Closes a directory.
    pub fn releasedir(&self, fh: Fh) -> Result<()> {
        self.0.handles.remove(fh).map(|_| ()).ok_or(FsError::UnknownHandle(fh.0))
    }

    /// Brings the names in a directory to the disk.
    pub fn fsyncdir(&self, ino: Ino) -> Result<()> {
        match &self.0.nodes.get(ino)?.kind {
            NodeKind::Dir(dir) => Ok(dir.dir.sync()?),
            _ => Ok(()),
        }
    }

    /// Makes a directory; in the root, a conversation with all that belongs to one.
    pub fn mkdir(&self, parent: Ino, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        let parent = self.0.nodes.get(parent)?;
        let dir = parent.as_dir()?;
        let id = Component::new(name)?;
        Shared::check_not_computed(&parent, dir, name)?;
        let mode = if parent.is_root() { mode & 0o700 } else { mode };
        dir.dir.mkdir(name, mode)?;
        if parent.is_root() {
            self.0.store.create_conversation(&id)?;
        }
        Shared::give_dir_to(dir, name, caller)?;
        let node = self.0.find_real(&parent, dir, name)?;
        self.0.entry(&node)
    }

    /// Makes a file without opening it. Nothing but a regular file can be made so.
    pub fn mknod(&self, parent: Ino, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        if mode & libc::S_IFMT != libc::S_IFREG {
            return Err(FsError::NoSpecialFiles);
        }
        let open = OpenMode { flags: libc::O_WRONLY | libc::O_EXCL };
        let (entry, opened) = self.create(parent, name, mode, open, caller)?;
        self.release(opened.fh)?;
        Ok(entry)
    }

    /// The room on the store's disk.
    pub fn statfs(&self) -> Result<rustix::fs::StatVfs> {
        Ok(self.0.store.space()?)
    }

    /// Removes an empty directory. One that holds nothing but what every conversation has is
    /// empty; removing a directory of views does nothing.
    pub fn rmdir(&self, parent: Ino, name: &OsStr) -> Result<()> {
        let parent = self.0.nodes.get(parent)?;
        let dir = match &parent.kind {
            NodeKind::ViewDir { .. } => return Ok(()),
            _ => parent.as_dir()?,
        };
        let removed = if parent.is_root() {
            let id = Component::new(name)?;
            self.0.conversations.remove(&id);
            self.0.forget_counts(&id);
            self.0.store.remove_conversation(&id).map_err(FsError::from)
        } else if is_stores(&parent, name) {
            Err(FsError::NotFound)
        } else {
            dir.dir.rmdir(name).map_err(FsError::from)
        };
        match removed {
            Err(FsError::Io(error)) if is_absent(&error) => {
                self.0.remove_computed(&parent, dir, name, FileKind::Directory)
            }
            removed => removed,
        }
    }

    /// Removes a file. Removing a computed one does nothing.
    pub fn unlink(&self, parent: Ino, name: &OsStr) -> Result<()> {
        let parent = self.0.nodes.get(parent)?;
        let dir = match &parent.kind {
            NodeKind::ViewDir { .. } => return Ok(()),
            NodeKind::Control => return Err(FsError::Computed),
            _ => parent.as_dir()?,
        };
        let node = match self.0.find_real(&parent, dir, name) {
            Ok(node) => node,
            Err(FsError::NotFound) => {
                return self.0.remove_computed(&parent, dir, name, FileKind::File);
            }
            Err(error) => return Err(error),
        };
        let removed = self.0.unlink_node(&node, dir, name);
        self.0.nodes.forget(node.ino, 1);
        removed
    }
}

impl Shared {
    /// The names in a directory of which nothing needs to be computed.
    fn listing(&self, node: &Arc<Node>) -> Result<Listing> {
        Ok(match &node.kind {
            NodeKind::Dir(dir) => Listing::Names(self.names(node, dir)?),
            NodeKind::ViewDir { of, dir: ViewDir::Pages, .. } => {
                Listing::Pages(PageNumber::count(self.text_length(of)?))
            }
            NodeKind::ViewDir { dir: ViewDir::Grep | ViewDir::Lines | ViewDir::Jq, .. } => {
                Listing::Names(Vec::new())
            }
            NodeKind::Control => {
                let names = ["status.json", "metrics", "version"];
                Listing::Names(names.map(|name| ListedName::computed(name, FileKind::File)).into())
            }
            NodeKind::File(_) | NodeKind::Rendered(_) => return Err(FsError::NotADirectory),
        })
    }

    /// The pages of what the view `base` says of the file `of`.
    fn pages_of_view(
        self: &Arc<Self>,
        of: &Arc<Node>,
        base: &View,
        done: impl FnOnce(Result<Listing>) + Send + 'static,
    ) {
        let reading = Reading { base: None, derived: Derived::File(base.clone()) };
        let text = match self.view_node(of, reading) {
            Ok(text) => text,
            Err(error) => return done(Err(error)),
        };
        let shared = Arc::clone(self);
        let ino = text.ino;
        self.body(&text, move |body| {
            shared.nodes.forget(ino, 1);
            done(body.map(|body| Listing::Pages(PageNumber::count(body.len()))));
        });
    }

    fn names(&self, node: &Arc<Node>, dir: &DirNode) -> Result<Vec<ListedName>> {
        let entries = dir.dir.entries()?;
        let mut names = Vec::with_capacity(entries.len());
        for name in ["README.md", "manifest.json"] {
            if computed_name(node, OsStr::new(name)).is_some() {
                names.push(ListedName::computed(name, FileKind::File));
            }
        }
        if entries.iter().any(|entry| entry.name == MESSAGES) && is_history(node) {
            names.push(ListedName::computed("messages.json", FileKind::File));
        }
        let with_views = self.options.list_views && node.holds_artifacts();
        let taken = if with_views { names_that_hide_views(&entries) } else { Vec::new() };
        for DirEntry { name, kind, ino } in entries {
            if kind == Kind::Other || is_stores(node, &name) {
                continue;
            }
            if with_views && kind == Kind::File && !is_scratch(&name) {
                list_views(&name, &taken, &mut names);
            }
            names.push(ListedName { name, kind: FileKind::of(kind), ino });
        }
        Ok(names)
    }

    fn unlink_node(&self, node: &Arc<Node>, dir: &DirNode, name: &OsStr) -> Result<()> {
        let file = node.as_file()?;
        let Some(held) = self.hold_record(node)? else {
            let mut link = file.link.lock();
            dir.dir.unlink(name)?;
            *link = None;
            return Ok(());
        };
        let mut link = file.link.lock();
        let bytes = dir.dir.stat(name)?.size;
        dir.dir.unlink(name)?;
        *link = None;
        drop(link);
        self.room.freed(held.conversation.id());
        let record = held.conversation.forget_held(&held.manifest, &held.path)?;
        self.count_deleted(held.conversation.id(), bytes, record);
        held.release();
        Ok(())
    }

    /// What removing a computed name means: nothing, for a file of the right kind.
    fn remove_computed(
        &self,
        parent: &Arc<Node>,
        dir: &DirNode,
        name: &OsStr,
        kind: FileKind,
    ) -> Result<()> {
        if computed_name(parent, name).is_some() && kind == FileKind::File {
            return Ok(());
        }
        if is_search_dir(parent, name) {
            return match kind {
                FileKind::File => Err(FsError::IsADirectory),
                FileKind::Directory => Ok(()),
            };
        }
        let found = readings(name).find_map(|(stem, reading)| {
            let of = self.find_real(parent, dir, stem);
            let missing = matches!(of, Err(FsError::NotFound));
            (!missing).then_some((of, reading.derived))
        });
        let Some((of, derived)) = found else {
            return match kind {
                FileKind::File => self.forget_removed(parent, name),
                FileKind::Directory => Err(FsError::NotFound),
            };
        };
        let of = of?;
        let is_file = of.as_file().is_ok();
        self.nodes.forget(of.ino, 1);
        match (derived, kind) {
            _ if !is_file => Err(FsError::NotFound),
            (Derived::File(_), FileKind::File) | (Derived::Dir(_), FileKind::Directory) => Ok(()),
            (Derived::File(_), FileKind::Directory) => Err(FsError::NotADirectory),
            (Derived::Dir(_), FileKind::File) => Err(FsError::IsADirectory),
        }
    }

    /// EPERM where `name` is that of a computed file, and no real one hides it.
    pub(crate) fn check_not_computed(
        parent: &Arc<Node>,
        dir: &DirNode,
        name: &OsStr,
    ) -> Result<()> {
        if is_stores(parent, name)
            || computed_name(parent, name).is_some()
            || is_search_dir(parent, name)
        {
            return Err(FsError::Computed);
        }
        match readings(name).find_map(|(stem, _)| dir.dir.stat(stem).ok()) {
            Some(stat) if stat.kind() == Kind::File && !parent.is_root() => {}
            _ => return Ok(()),
        }
        // A real file of this name hides the view and is an ordinary file.
        if dir.dir.stat(name).is_ok() { Ok(()) } else { Err(FsError::Computed) }
    }

    fn give_dir_to(dir: &DirNode, name: &OsStr, caller: Caller) -> Result<()> {
        if rustix::process::geteuid().is_root() && (caller.uid, caller.gid) != (0, 0) {
            let made = dir.dir.open_dir(name)?;
            dir.dir.chown(name, Some(caller.uid), Some(caller.gid))?;
            give_tree(&made, caller)?;
        }
        Ok(())
    }
}

/// A conversation's directories belong to who made it.
fn give_tree(dir: &crate::store::Dir, caller: Caller) -> Result<()> {
    for entry in dir.entries()? {
        dir.chown(&entry.name, Some(caller.uid), Some(caller.gid))?;
        if entry.kind == Kind::Directory {
            give_tree(&dir.open_dir(&entry.name)?, caller)?;
        }
    }
    Ok(())
}

fn dot(name: &str, ino: Ino) -> ListedName {
    ListedName { name: name.into(), kind: FileKind::Directory, ino: ino.0 }
}

/// The names of real files that look like views, sorted.
fn names_that_hide_views(entries: &[DirEntry]) -> Vec<OsString> {
    let like_views = entries.iter().filter(|entry| readings(&entry.name).next().is_some());
    let mut names: Vec<_> = like_views.map(|entry| entry.name.clone()).collect();
    names.sort_unstable();
    names
}

/// Lists the views of `name` that no real file hides.
fn list_views(name: &OsStr, taken: &[OsString], names: &mut Vec<ListedName>) {
    for (suffix, derived) in listed() {
        let mut view = name.to_owned();
        view.push(suffix);
        if taken.binary_search(&view).is_err() {
            let kind = match derived {
                Derived::File(_) => FileKind::File,
                Derived::Dir(_) => FileKind::Directory,
            };
            names.push(ListedName { name: view, kind, ino: COMPUTED });
        }
    }
}
