//! Looking names up: the node that a name in a directory leads to.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::engine::Base;
use crate::engine::FileId;
use crate::engine::Recipe;
use crate::engine::Version;
use crate::engine::messages_version;
use crate::engine::names;
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
use crate::view::Query;
use crate::view::Reading;
use crate::view::View;
use crate::view::ViewDir;
use crate::view::readings;

pub(super) fn lookup(fs: &Arc<Shared>, parent: Ino, name: &OsStr) -> Result<Entry> {
    let parent = fs.nodes.get(parent)?;
    let node = find(fs, &parent, name)?;
    getattr::entry(fs, &node).inspect_err(|_| fs.nodes.forget(node.ino, 1))
}

/// Returns the node that `name` leads to, counted as looked up.
fn find(fs: &Arc<Shared>, parent: &Arc<Node>, name: &OsStr) -> Result<Arc<Node>> {
    match &parent.kind {
        NodeKind::Dir(dir) => find_in_dir(fs, parent, dir, name),
        NodeKind::ViewDir { of, .. } if of.as_dir().is_ok() => find_search(fs, of, name),
        NodeKind::ViewDir { of, base, dir } => {
            let reading = dir.child(name).ok_or(FsError::NotFound)?;
            view_node(fs, of, reading.below(base.as_deref()).ok_or(FsError::NotFound)?)
        }
        NodeKind::Control => control::find(fs, name),
        NodeKind::File(_) | NodeKind::Computed(_) => Err(FsError::NotADirectory),
    }
}

/// Finds `name` as it stands, or else the name that is printed so.
fn find_in_dir(
    fs: &Arc<Shared>,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    match find_name(fs, parent, dir, name) {
        Err(FsError::NotFound) => {
            let meant = names::printed_as(name).ok_or_else(|| names::absent(name))?;
            find_name(fs, parent, dir, meant.as_os_str())
        }
        found => found,
    }
}

fn find_name(
    fs: &Arc<Shared>,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    if parent.is_top() && name == ".ctxfs" {
        return fs.nodes.intern(Key::Control, |_| Ok(NodeKind::Control));
    }
    match find_real(fs, parent, dir, name) {
        Err(FsError::NotFound) => {}
        found => return found,
    }
    if let Some(recipe) = names::computed_name(&**dir, parent.is_top(), name) {
        return find_computed(fs, parent, dir, recipe);
    }
    if names::is_search_dir(&**dir, name) {
        return view_dir_node(fs, parent, None, ViewDir::Grep);
    }
    if let Some(found) = find_view(fs, parent, dir, name)? {
        return Ok(found);
    }
    match find_call(fs, parent, dir, name) {
        Err(FsError::NotFound) => find_removed(fs, parent, dir, name),
        found => found,
    }
}

/// Finds the view that `name` means, of a real file or of the output of a call.
fn find_view(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Option<Arc<Node>>> {
    for (stem, reading) in readings(name) {
        let of = find_real(fs, parent, dir, stem).or_else(|_| find_call(fs, parent, dir, stem));
        match of {
            Ok(of) => {
                let found = view_node(fs, &of, reading);
                fs.nodes.forget(of.ino, 1);
                return found.map(Some);
            }
            Err(FsError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Finds a file or directory on disk. Links and special files that somebody planted are not there.
pub(super) fn find_real(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    if names::is_stores(&**dir, name) {
        return Err(FsError::NotFound);
    }
    let stat = match dir.dir.stat(name) {
        Ok(stat) => stat,
        Err(error) if names::is_absent(&error) => return Err(FsError::NotFound),
        Err(error) => return Err(error.into()),
    };
    match stat.kind() {
        FileType::Directory => dir_node(fs, parent, dir, name, &stat),
        FileType::File if !parent.is_root() => file_node(fs, parent, name, &stat),
        FileType::File | FileType::Other => Err(FsError::NotFound),
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

/// Finds the output of the call `name`.
fn find_call(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    let output = fs.engine.output_of_call(&**dir, name)?.ok_or(FsError::NotFound)?;
    find_real(fs, parent, dir, &output)
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

fn find_computed(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    recipe: Recipe,
) -> Result<Arc<Node>> {
    let stat = dir.dir.stat_self()?;
    let version = match recipe {
        Recipe::Messages => version_of_messages(fs, parent, dir)?,
        _ => fs.engine.version(&recipe, &**dir)?,
    };
    let origin = (Base::Dir(Arc::clone(dir) as _), stat);
    computed_node::intern(fs, recipe, version, Some(parent), origin)
}

fn version_of_messages(fs: &Shared, history: &Arc<Node>, dir: &Arc<DirNode>) -> Result<Version> {
    let node = find_real(fs, history, dir, MESSAGES.as_ref())?;
    let stat = node
        .as_file()
        .and_then(|file| file.stat().and_then(|stat| message_log::shown(&fs.engine, file, stat)));
    fs.nodes.forget(node.ino, 1);
    Ok(messages_version(&stat?))
}

/// Finds the search that `name` means, of the directory `of`.
fn find_search(fs: &Shared, of: &Arc<Node>, name: &OsStr) -> Result<Arc<Node>> {
    let query = Query::of_many(name).ok_or(FsError::NotFound)?;
    let dir = of.as_dir()?;
    let recipe = Recipe::Search(Arc::new(query));
    let version = fs.engine.version(&recipe, &**dir)?;
    let origin = (Base::Dir(Arc::clone(dir) as _), dir.dir.stat_self()?);
    computed_node::intern(fs, recipe, version, Some(of), origin)
}

/// Finds the summary of removed content that `name` asks for.
fn find_removed(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    let removed = fs.engine.removed(&**dir, name)?.ok_or(FsError::NotFound)?;
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
