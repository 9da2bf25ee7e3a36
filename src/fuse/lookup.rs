//! Look-ups: finding the node for a name in a directory.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::computed::ComputedOrigin;
use crate::{
    Caller, CallerAccess, ContextFs, DirNode, Entry, FileNode, FsError, Ino, Node, NodeKey,
    NodeKind, NodeLink, PromiseMark, Result, SealJob, Shared, attributes, computed, message_log,
    record, remote,
};
use ctxfs_engine::{
    Base, DiskEntry, FileId, Recipe, RemovedContent, Resolved, SourceFile, Version,
    messages_version, names, resolve,
};
use ctxfs_store::{FileType, MESSAGES, Stat};
use ctxfs_view::{Derived, Reading, View, ViewDir};

impl ContextFs {
    /// Finds `name` in the directory `parent`, and adds one to the look-up count of the node.
    /// Computes no text.
    pub fn lookup(&self, parent: Ino, name: &OsStr, caller: Caller) -> Result<Entry> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        ask_other_hosts(fs, &parent, name)?;
        lookup_in(fs, &parent, name, CallerAccess::new(fs, caller))
    }

    /// Returns true if a file or directory on disk has `name` in the directory `parent`. Returns
    /// false if `parent` is a directory of views.
    pub fn has_on_disk(&self, parent: Ino, name: &OsStr) -> bool {
        let find = || self.0.nodes.get(parent)?.as_dir()?.open();
        find().is_ok_and(|dir| dir.stat(name).is_ok())
    }
}

/// Requests from other hosts the outputs that a search or the manifest shows. Listing such a name
/// sends no request, because a reader of the text looks the name up first.
fn ask_other_hosts(fs: &Shared, parent: &Node, name: &OsStr) -> Result<()> {
    if fs.engine.options.other_hosts.is_none() {
        return Ok(());
    }
    let (dir, recipe) = match &parent.kind {
        NodeKind::Dir(dir) => (dir, names::computed_name(&**dir, parent.is_top(), name)),
        NodeKind::ViewDir { of, dir, .. } => match of.as_dir() {
            Ok(of) => (of, resolve::search_named(*dir, name).ok()),
            Err(_) => return Ok(()),
        },
        _ => return Ok(()),
    };
    match recipe {
        Some(recipe) if recipe.gathers() => Ok(fs.engine.others().ask_before_gathering(&**dir)?),
        _ => Ok(()),
    }
}

pub(super) fn lookup_in(
    fs: &Arc<Shared>,
    parent: &Arc<Node>,
    name: &OsStr,
    access: CallerAccess<'_>,
) -> Result<Entry> {
    let mark = PromiseMark::of(&fs.promises, parent);
    let node = find(fs, parent, name, access)?;
    entry_of(fs, mark.as_ref(), name, &node)
}

/// Returns the entry of `node`, which a look-up of `name` found and counted. `mark` was taken
/// before the look-up. If `node` is a directory of views, promises its name along with its file.
pub(super) fn entry_of(
    fs: &Shared,
    mark: Option<&PromiseMark>,
    name: &OsStr,
    node: &Arc<Node>,
) -> Result<Entry> {
    let mut entry = attributes::entry(fs, node).inspect_err(|_| fs.nodes.forget(node.ino, 1))?;
    let of = match &node.kind {
        NodeKind::File(file) => {
            // Another name of the file may lead to a different file later without any change of
            // this file.
            let is_its_name = file.link.lock().as_ref().is_some_and(|link| link.name == name);
            entry.entry_ttl = if is_its_name { entry.entry_ttl } else { Duration::ZERO };
            entry.attr_ttl = entry.attr_ttl.max(attributes::FILE_ATTR_TTL);
            return Ok(entry);
        }
        NodeKind::ViewDir { of, base: None, .. } => of,
        _ => return Ok(entry),
    };
    if let (Some(mark), NodeKind::File(file)) = (mark, &of.kind)
        && attributes::is_at_rest(file, entry.attr.ctime)
        && !file.is_message_log()
        && let Some(link) = file.link.get()
        && name.as_bytes().starts_with(link.name.as_bytes())
    {
        entry.entry_ttl = mark.give(&link.name, node.ino);
    }
    Ok(entry)
}

fn find(
    fs: &Arc<Shared>,
    parent: &Arc<Node>,
    name: &OsStr,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    if let NodeKind::ViewDir { of, .. } = &parent.kind {
        attributes::check_name(fs, parent, of)?;
    }
    match &parent.kind {
        NodeKind::Dir(dir) => {
            let found = fs.engine.resolve(&**dir, parent.is_top(), name)?;
            node_of(fs, (parent, dir), found, access)
        }
        NodeKind::ViewDir { of, dir, .. } if of.as_dir().is_ok() => {
            computed_in(fs, of, resolve::search_named(*dir, name)?, access)
        }
        NodeKind::ViewDir { of, base, dir } => {
            view_node(fs, of, resolve::view_named(*dir, base.as_deref(), name)?, access)
        }
        NodeKind::Control => computed::control_page(fs, name, access),
        NodeKind::File(_) | NodeKind::Computed(_) => Err(FsError::NotADirectory),
    }
}

fn node_of(
    fs: &Shared,
    (parent, dir): (&Arc<Node>, &Arc<DirNode>),
    found: Resolved<'_>,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    match found {
        Resolved::Control => fs.nodes.intern(NodeKey::Control, |_| Ok(NodeKind::Control)),
        Resolved::Disk(entry) => disk_node(fs, parent, dir, &entry),
        Resolved::Computed(recipe) => computed_in(fs, parent, recipe, access),
        Resolved::Searches(searches) => view_dir_node(fs, parent, None, searches),
        Resolved::View { of, reading } => {
            let of = file_node(fs, parent, &of.name, &of.stat)?;
            let found = view_node(fs, &of, reading, access);
            fs.nodes.forget(of.ino, 1);
            found
        }
        Resolved::Removed(removed) => removed_node(fs, (parent, dir), &removed, access),
    }
}

/// Finds a file or directory on disk. Does not find links and special files, which other processes
/// may have created.
pub(super) fn find_real(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
) -> Result<Arc<Node>> {
    let stat = resolve::on_disk(&fs.engine, &**dir, name)?;
    disk_node(fs, parent, dir, &DiskEntry { name: Cow::Borrowed(name), stat })
}

fn disk_node(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &DirNode,
    DiskEntry { name, stat }: &DiskEntry<'_>,
) -> Result<Arc<Node>> {
    if stat.kind() != FileType::Directory {
        return file_node(fs, parent, name, stat);
    }
    let node = fs.nodes.intern(NodeKey::Disk(FileId::of(stat)), |_| {
        Ok(NodeKind::Dir(Arc::new(dir.child(NodeLink::new(parent, name), stat))))
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
    let link = NodeLink::new(parent, name);
    remote::follow_copy(fs, &link, stat);
    let key = message_log::key(&fs.engine, &link, stat)?;
    let node = fs.nodes.intern(key, |_| Ok(NodeKind::File(Arc::new(FileNode::new(link, stat)))))?;
    if !node.is_at(stat) {
        // A copy has replaced the file, but the old file still exists under another name.
        fs.nodes.forget(node.ino, 1);
        return Err(FsError::Stale);
    }
    if let Ok(file) = node.as_file() {
        file.found_as(stat);
    }
    if relink(&node, parent, name) {
        record_moved(fs, &node);
    }
    Ok(node)
}

pub(super) fn view_node(
    fs: &Shared,
    of: &Arc<Node>,
    reading: Reading,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let NodeKind::File(file) = &of.kind else { return Err(FsError::NotFound) };
    let Reading { base, derived } = reading;
    match derived {
        Derived::File(view) => {
            let (version, stat) = record::present_version(&fs.engine, file)?;
            let source = message_log::source(&fs.engine, file, &stat)?;
            let version = source.as_ref().map_or(version, |log| log.present_version());
            let source: Arc<dyn SourceFile> =
                source.map_or_else(|| Arc::clone(file) as _, |log| log as _);
            view_node_at(fs, (of, source, version, stat), (base, view), access)
        }
        Derived::Dir(dir) => view_dir_node(fs, of, base, dir),
    }
}

/// Returns the node of a view of the file `of` at `version`. `source` has the bytes of the file.
/// With `base`, the view is computed from the text of the view `base`.
pub(super) fn view_node_at(
    fs: &Shared,
    (of, source, version, stat): (&Arc<Node>, Arc<dyn SourceFile>, Version, Stat),
    (base, view): (Option<View>, View),
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let NodeKind::File(file) = &of.kind else { return Err(FsError::NotFound) };
    let of_file = |view: View| {
        let size = file.facts.size(&view, &version);
        let origin = ComputedOrigin { base: Base::File(Arc::clone(&source)), stat };
        let recipe = Recipe::View(view.shared());
        let node = computed::intern(fs, recipe, version, Some(of), origin, access)?;
        if let (Some(size), NodeKind::Computed(of)) = (size, &node.kind)
            && !of.closed
        {
            of.computed.know_size(size);
        }
        Ok(node)
    };
    let Some(base) = base else { return of_file(view) };
    let base = of_file(base)?;
    let NodeKind::Computed(text) = &base.kind else { return Err(FsError::Stale) };
    let version = text.computed.version_of_view();
    let origin = ComputedOrigin { base: Base::Text(Arc::clone(&text.computed)), stat };
    let recipe = Recipe::View(view.shared());
    let node = computed::intern(fs, recipe, version, Some(&base), origin, access);
    fs.nodes.forget(base.ino, 1);
    node
}

pub(super) fn view_dir_node(
    fs: &Shared,
    of: &Arc<Node>,
    base: Option<View>,
    dir: ViewDir,
) -> Result<Arc<Node>> {
    let base = base.map(Box::new);
    let key = NodeKey::ViewDir(of.ino, base.clone(), dir, of.number_of_name());
    fs.nodes.intern(key, |_| Ok(NodeKind::ViewDir { of: Arc::clone(of), base, dir }))
}

fn computed_in(
    fs: &Shared,
    of: &Arc<Node>,
    recipe: Recipe,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let dir = of.as_dir()?;
    let recipe = recipe.asked_by(|| access.reader());
    let (version, stat) = match recipe {
        Recipe::Messages => version_of_messages(fs, of, dir)?,
        _ => (fs.engine.version(&recipe, &**dir)?, dir.stat()?),
    };
    let origin = ComputedOrigin { base: Base::Dir(Arc::clone(dir) as _), stat };
    computed::intern(fs, recipe, version, Some(of), origin, access)
}

fn version_of_messages(
    fs: &Shared,
    history: &Arc<Node>,
    dir: &Arc<DirNode>,
) -> Result<(Version, Stat)> {
    let node = find_real(fs, history, dir, MESSAGES.as_ref())?;
    let stat = node.as_file().and_then(|file| file.stat());
    let shown = stat.and_then(|stat| message_log::shown_with(&fs.engine, &node, stat));
    fs.nodes.forget(node.ino, 1);
    let (stat, published) = shown?;
    Ok((messages_version(&stat, published.as_deref()), stat))
}

fn removed_node(
    fs: &Shared,
    (parent, dir): (&Arc<Node>, &Arc<DirNode>),
    removed: &RemovedContent,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let version = removed.version(&fs.engine)?;
    let time = removed.time();
    let stat = Stat { mtime: time, ctime: time, ..dir.stat()? };
    let recipe = Recipe::Removed(removed.name().to_owned());
    let origin = ComputedOrigin { base: Base::Dir(Arc::clone(dir) as _), stat };
    computed::intern(fs, recipe, version, Some(parent), origin, access)
}

/// Records the place where a look-up found `node`, because another process may have moved it. If a
/// thread of this mount has renamed or removed the node in the meantime, the place that this thread
/// recorded stays. Returns true if the place is new.
pub(super) fn relink(node: &Arc<Node>, parent: &Arc<Node>, name: &OsStr) -> bool {
    let Some(linked) = node.link() else { return false };
    let is_new = |link: &NodeLink| Arc::ptr_eq(&link.parent, parent) && link.name == name;
    if linked.lock().as_ref().is_some_and(is_new) {
        return false;
    }
    let new = NodeLink::new(parent, name);
    let Ok(dir) = new.dir() else { return false };
    if new.leads_through(node) {
        return false;
    }
    let mut link = linked.lock();
    let is_there = match dir.stat(name) {
        Ok(stat) => node.is_at(&stat),
        // A remote artifact has the name through its record.
        Err(_) => node.as_file().is_ok_and(|file| file.remote_stat().is_some()),
    };
    if is_there {
        *link = Some(new);
    }
    is_there
}

fn record_moved(fs: &Shared, node: &Arc<Node>) {
    let Ok(file) = node.as_file() else { return };
    let (is_unsealed, has_writers) = {
        let life = file.life();
        (life.is_unsealed(), life.has_writers())
    };
    if is_unsealed {
        let job = if has_writers { SealJob::NoteLive } else { SealJob::Seal };
        fs.sealer.submit(job(Arc::clone(node)));
    }
}
