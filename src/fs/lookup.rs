//! Looking names up: the node that a name in a directory leads to.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;

use crate::engine::Base;
use crate::engine::DiskEntry;
use crate::engine::FileId;
use crate::engine::Recipe;
use crate::engine::RemovedContent;
use crate::engine::Resolved;
use crate::engine::Version;
use crate::engine::messages_version;
use crate::engine::resolve;
use crate::fs::Entry;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::computed_node;
use crate::fs::control;
use crate::fs::facts;
use crate::fs::getattr;
use crate::fs::key::Key;
use crate::fs::message_log;
use crate::fs::node::DirNode;
use crate::fs::node::Link;
use crate::fs::node::Linked;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::node::file::FileNode;
use crate::store::FileType;
use crate::store::MESSAGES;
use crate::store::Stat;
use crate::view::Derived;
use crate::view::Reading;
use crate::view::View;
use crate::view::ViewDir;

pub(super) fn lookup(fs: &Arc<Shared>, parent: Ino, name: &OsStr) -> Result<Entry> {
    let parent = fs.nodes.get(parent)?;
    let node = find(fs, &parent, name)?;
    getattr::entry(fs, &node).inspect_err(|_| fs.nodes.forget(node.ino, 1))
}

/// Returns the node that `name` leads to, counted as looked up.
fn find(fs: &Arc<Shared>, parent: &Arc<Node>, name: &OsStr) -> Result<Arc<Node>> {
    match &parent.kind {
        NodeKind::Dir(dir) => {
            let found = fs.engine.resolve(&**dir, parent.is_top(), name)?;
            node_of(fs, parent, dir, found)
        }
        NodeKind::ViewDir { of, .. } if of.as_dir().is_ok() => {
            computed_in(fs, of, of.as_dir()?, resolve::search_named(name)?)
        }
        NodeKind::ViewDir { of, base, dir } => {
            view_node(fs, of, resolve::view_named(*dir, base.as_deref(), name)?)
        }
        NodeKind::Control => control::find(fs, name),
        NodeKind::File(_) | NodeKind::Computed(_) => Err(FsError::NotADirectory),
    }
}

/// Returns the node of what was found in the directory `parent`.
fn node_of(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    found: Resolved<'_>,
) -> Result<Arc<Node>> {
    match found {
        Resolved::Control => fs.nodes.intern(Key::Control, |_| Ok(NodeKind::Control)),
        Resolved::Disk(entry) => disk_node(fs, parent, dir, &entry),
        Resolved::Computed(recipe) => computed_in(fs, parent, dir, recipe),
        Resolved::Searches => view_dir_node(fs, parent, None, ViewDir::Grep),
        Resolved::View { of, reading } => {
            let of = file_node(fs, parent, &of.name, &of.stat)?;
            let found = view_node(fs, &of, reading);
            fs.nodes.forget(of.ino, 1);
            found
        }
        Resolved::Removed(removed) => removed_node(fs, parent, dir, &removed),
    }
}

/// Finds a file or directory on disk. Links and special files that somebody planted are not there.
pub(super) fn find_real(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    let stat = resolve::on_disk(&**dir, name)?;
    disk_node(fs, parent, dir, &DiskEntry { name: Cow::Borrowed(name), stat })
}

fn disk_node(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &DirNode,
    DiskEntry { name, stat }: &DiskEntry<'_>,
) -> Result<Arc<Node>> {
    match stat.kind() {
        FileType::Directory => dir_node(fs, parent, dir, name, stat),
        FileType::File | FileType::Other => file_node(fs, parent, name, stat),
    }
}

fn dir_node(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &DirNode,
    name: &OsStr,
    stat: &Stat,
) -> Result<Arc<Node>> {
    let node = fs.nodes.intern(Key::Disk(FileId::of(stat)), |_| {
        let dir = dir.dir.open_dir(name)?;
        let link = Linked::new(Link::new(parent, name));
        Ok(NodeKind::Dir(Arc::new(DirNode { dir, link, is_root: false })))
    })?;
    relink(&node, parent, name);
    Ok(node)
}

pub(super) fn file_node(
    fs: &Shared,
    parent: &Arc<Node>,
    name: &OsStr,
    stat: &Stat,
) -> Result<Arc<Node>> {
    let node = fs.nodes.intern(Key::Disk(FileId::of(stat)), |_| {
        Ok(NodeKind::File(Arc::new(FileNode::new(Link::new(parent, name), stat))))
    })?;
    relink(&node, parent, name);
    Ok(node)
}

/// Returns the node of a view of the file `of`, as it is now.
pub(super) fn view_node(fs: &Shared, of: &Arc<Node>, reading: Reading) -> Result<Arc<Node>> {
    let NodeKind::File(file) = &of.kind else { return Err(FsError::NotFound) };
    let Reading { base, derived } = reading;
    let view = match derived {
        Derived::File(view) => view,
        Derived::Dir(dir) => return view_dir_node(fs, of, base, dir),
    };
    let (version, stat) = version(fs, file)?;
    let of_file = |view| {
        let base = Base::File(Arc::clone(file) as _);
        computed_node::intern(fs, Recipe::View(Arc::new(view)), version, Some(of), (base, stat))
    };
    let Some(base) = base else { return of_file(view) };
    let base = of_file(base)?;
    let NodeKind::Computed(text) = &base.kind else { return Err(FsError::Stale) };
    let version = text.computed.version_of_view();
    let origin = (Base::Text(Arc::clone(&text.computed)), stat);
    let recipe = Recipe::View(Arc::new(view));
    let node = computed_node::intern(fs, recipe, version, Some(&base), origin);
    fs.nodes.forget(base.ino, 1);
    node
}

fn view_dir_node(
    fs: &Shared,
    of: &Arc<Node>,
    base: Option<View>,
    dir: ViewDir,
) -> Result<Arc<Node>> {
    let base = base.map(Box::new);
    let key = Key::ViewDir(of.ino, base.clone(), dir);
    fs.nodes.intern(key, |_| Ok(NodeKind::ViewDir { of: Arc::clone(of), base, dir }))
}

/// Returns the version at which `file` is now: between two writes.
fn version(fs: &Shared, file: &FileNode) -> Result<(Version, Stat)> {
    let (changes, stat) = {
        let link = file.link.get();
        let life = file.life();
        let stat =
            link.ok_or(FsError::NotFound).and_then(|link| Ok(link.dir()?.stat(&link.name)?))?;
        (life.changes(), stat)
    };
    Ok((facts::version(&fs.engine, file, &stat, changes)?, stat))
}

/// Returns the node of the computed file that `recipe` makes of the directory `of`.
fn computed_in(
    fs: &Shared,
    of: &Arc<Node>,
    dir: &Arc<DirNode>,
    recipe: Recipe,
) -> Result<Arc<Node>> {
    let stat = dir.dir.stat_self()?;
    let version = match recipe {
        Recipe::Messages => version_of_messages(fs, of, dir)?,
        _ => fs.engine.version(&recipe, &**dir)?,
    };
    let origin = (Base::Dir(Arc::clone(dir) as _), stat);
    computed_node::intern(fs, recipe, version, Some(of), origin)
}

fn version_of_messages(fs: &Shared, history: &Arc<Node>, dir: &Arc<DirNode>) -> Result<Version> {
    let node = find_real(fs, history, dir, MESSAGES.as_ref())?;
    let stat = node
        .as_file()
        .and_then(|file| file.stat().and_then(|stat| message_log::shown(&fs.engine, file, stat)));
    fs.nodes.forget(node.ino, 1);
    Ok(messages_version(&stat?))
}

/// Returns the node of the summary of removed content.
fn removed_node(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    removed: &RemovedContent,
) -> Result<Arc<Node>> {
    let version = removed.version(&fs.engine)?;
    let time = removed.time();
    let stat = Stat { mtime: time, ctime: time, ..dir.dir.stat_self()? };
    let recipe = Recipe::Removed(removed.name().to_owned());
    let origin = (Base::Dir(Arc::clone(dir) as _), stat);
    computed_node::intern(fs, recipe, version, Some(parent), origin)
}

/// Notes where `node` was found: another process may have moved it. Not where it has left that name
/// since: then the thread that renamed or removed it notes where it is.
fn relink(node: &Arc<Node>, parent: &Arc<Node>, name: &OsStr) {
    let Some(linked) = node.link() else { return };
    let mut link = linked.lock();
    let same = link.as_ref().is_some_and(|l| Arc::ptr_eq(&l.parent, parent) && l.name == name);
    let new = Link::new(parent, name);
    let is_it = |stat: &Stat| node.key == Key::Disk(FileId::of(stat));
    if !same && new.dir().is_ok_and(|dir| dir.stat(name).is_ok_and(|stat| is_it(&stat))) {
        *link = Some(new);
    }
}
