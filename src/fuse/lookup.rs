//! Look-ups: finding the node for a name in a directory. Each version of a computed file has its
//! own node, with an exact size once its text has been computed.
//!
//! On a mount with `allow_other`, the kernel checks owners and modes as it last saw them. That
//! suffices for files on disk. A computed file shows the content of other files, and a client may
//! open it through a descriptor, or request its size, long after the modes of those files have
//! changed. The server therefore checks the rights again at each open of a computed file and at
//! each request for its size.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::attr::{GROUP, Inherited, OTHERS, OWNER, Rights};
use crate::node::{ComputedKey, ComputedNode};
use crate::process::{self, groups};
use crate::record::PresentSource;
use crate::standard::path_in;
use crate::{
    Attr, Caller, ContextFs, DirNode, Entry, FileKind, FileNode, FsError, Ino, LinkCell, Node,
    NodeKey, NodeKind, NodeLink, PromiseMark, Result, SealJob, Shared, TimedAttr, attributes,
    message_log, record, remote,
};
use ctxfs_engine::{
    Base, Computed, DiskEntry, EngineError, FileId, FileLife as _, Reader, Recipe, Resolved,
    SourceDir as _, User, Version,
};
use ctxfs_store::{FileType, MESSAGES, Stat, Time, is_standard_name};
use ctxfs_view::{Derived, Reading, View, ViewDir};

/// Cache lifetime of the attributes of a computed file. The attributes never change, so any
/// lifetime is correct; one hour limits the damage of a bug.
const SETTLED: Duration = Duration::from_hours(1);

impl ContextFs {
    /// Finds `name` in the directory `parent`, and adds one to the look-up count of the node.
    /// Computes no text.
    pub fn lookup(&self, parent: Ino, name: &OsStr, caller: Caller) -> Result<Entry> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        // Listing a search or the manifest sends no request, because a reader of the text looks the
        // name up first.
        let access = CallerAccess { asks_hosts: true, ..CallerAccess::new(fs, caller) };
        if is_to_be_made(fs, &parent, name, caller) {
            return Err(FsError::NotFound);
        }
        lookup_in(fs, &parent, name, access)
    }

    /// Returns true if a file or directory on disk has `name` in the directory `parent`. Returns
    /// false if `parent` is a directory of views.
    pub fn has_on_disk(&self, parent: Ino, name: &OsStr) -> bool {
        let find = || self.0.nodes.get(parent)?.as_dir()?.open();
        find().is_ok_and(|dir| dir.stat(name).is_ok())
    }
}

/// Returns true if the client is about to make a standard directory of a new conversation. The
/// kernel sends the MKDIR only if it has not found the directory.
fn is_to_be_made(fs: &Shared, parent: &Node, name: &OsStr, caller: Caller) -> bool {
    let path = || path_in(&parent.as_dir().ok()?.place().ok()?, name);
    is_standard_name(name)
        && path().is_some_and(|(id, path)| fs.new_conversations.awaits((&id, &path)))
        && process::is_in_mkdir(caller.pid, name, &*fs.options.processes)
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
/// before the look-up. If `node` is a directory of views, promises `name` together with the name of
/// its file.
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
            let recipe = Recipe::search(*dir, name).ok_or(FsError::NotFound)?;
            computed_in(fs, of, (recipe, None), access)
        }
        NodeKind::ViewDir { of, base, dir } => {
            let reading = dir.child(name).and_then(|reading| reading.below(base.as_deref()));
            view_node(fs, of, reading.ok_or(FsError::NotFound)?, access)
        }
        NodeKind::Control => control_page(fs, name, access),
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
        Resolved::Computed(recipe) => computed_in(fs, parent, (recipe, None), access),
        Resolved::Searches(searches) => view_dir_node(fs, parent, None, searches),
        Resolved::View { of, reading } => {
            let of = file_node(fs, parent, &of.name, &of.stat)?;
            let found = view_node(fs, &of, reading, access);
            fs.nodes.forget(of.ino, 1);
            found
        }
        Resolved::Removed(removed) => {
            let recipe = Recipe::Removed(removed.path.file_name().to_owned());
            computed_in(fs, parent, (recipe, Some(removed.time())), access)
        }
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
    let stat = fs.engine.stat(&**dir, name)?;
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
            let present = record::present_source(&fs.engine, file)?;
            view_node_at(fs, (of, present), (base, view), access)
        }
        Derived::Dir(dir) => view_dir_node(fs, of, base, dir),
    }
}

/// Returns the node of a view of the file `of`, which is at the version of `present`. With `base`,
/// the view is computed from the text of the view `base`.
pub(super) fn view_node_at(
    fs: &Shared,
    (of, present): (&Arc<Node>, PresentSource),
    (base, view): (Option<View>, View),
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let (source, version, stat) = present;
    let of_file = |view: View| {
        let (recipe, base) = (Recipe::View(view.shared()), Base::File(source));
        let version = version.with(&recipe.version(&fs.engine, &base, false)?);
        intern_computed(fs, recipe, version, Some(of), ComputedOrigin { base, stat }, access)
    };
    let Some(base) = base else { return of_file(view) };
    let base = of_file(base)?;
    let NodeKind::Computed(text) = &base.kind else { return Err(FsError::Stale) };
    let (recipe, of_text) = (Recipe::View(view.shared()), Base::Text(Arc::clone(&text.computed)));
    let version = recipe.version(&fs.engine, &of_text, false)?;
    let origin = ComputedOrigin { base: of_text, stat };
    let node = intern_computed(fs, recipe, version, Some(&base), origin, access);
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

/// Returns the node of the file that a recipe makes from the directory `of`. The file has the times
/// of the directory, or `time`.
fn computed_in(
    fs: &Shared,
    of: &Arc<Node>,
    (recipe, time): (Recipe, Option<Time>),
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let dir = of.as_dir()?;
    let recipe = recipe.asked_by(|| access.reader());
    let base = Base::Dir(Arc::clone(dir) as _);
    let (version, stat) = match recipe {
        Recipe::Messages => version_of_messages(fs, of, dir)?,
        _ => (recipe.version(&fs.engine, &base, access.asks_hosts)?, dir.stat()?),
    };
    let (mtime, ctime) = (time.unwrap_or(stat.mtime), time.unwrap_or(stat.ctime));
    let origin = ComputedOrigin { base, stat: Stat { mtime, ctime, ..stat } };
    intern_computed(fs, recipe, version, Some(of), origin, access)
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
    Ok((Version::of_messages(&stat, published.as_deref()), stat))
}

/// Records the place where a look-up found `node`, because another process may have moved it. If a
/// thread of this mount has renamed or removed the node in the meantime, keeps the place that this
/// thread recorded. Returns true if the place is new.
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

/// The origin of a computed file. The computed file takes its times and rights from `stat`.
struct ComputedOrigin {
    base: Base,
    stat: Stat,
}

/// Returns the node of a computed file for this caller, and adds one to its look-up count. A caller
/// without read permission gets a separate node, so that the kernel cannot reveal the size from its
/// cache.
fn intern_computed(
    fs: &Shared,
    recipe: Recipe,
    version: Version,
    of: Option<&Arc<Node>>,
    origin: ComputedOrigin,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let rights = match recipe {
        Recipe::Ignore => Rights::to_names(&origin.stat),
        _ => Rights::of(&origin.stat),
    };
    let inherited = Inherited::with(rights, &origin.stat);
    let closed = !recipe.is_public() && !access.may_read(&rights);
    let computed = Arc::new(Computed::new(recipe, origin.base, version));
    let of_ino = of.map(|of| of.ino);
    let key = ComputedKey { of: of_ino, computed: Arc::clone(&computed), rights, closed };
    fs.nodes.intern(NodeKey::Computed(key), |_| {
        let node = ComputedNode { of: of.cloned(), inherited, computed, closed };
        Ok(NodeKind::Computed(Box::new(node)))
    })
}

/// Returns the attributes of a computed file, which are exact and cacheable once its text has been
/// computed. Until then the size is 0 and the cache lifetime is zero, so that the kernel requests
/// the size when a caller needs it.
pub(super) fn attr_of_computed(node: &Node, of: &ComputedNode) -> TimedAttr {
    let size = of.computed.size().filter(|_| !of.closed);
    let attr = Attr::of_computed(node.ino, FileKind::File, size.unwrap_or(0), &of.inherited);
    let attr = if of.computed.recipe.is_public() { attr.for_all() } else { attr };
    TimedAttr { attr, ttl: if size.is_some() { SETTLED } else { Duration::ZERO } }
}

#[derive(Clone, Copy)]
pub(super) struct CallerAccess<'a> {
    fs: &'a Shared,
    caller: Caller,
    /// True if a look-up may request from other hosts the outputs that a search or the manifest
    /// shows.
    asks_hosts: bool,
}

impl<'a> CallerAccess<'a> {
    pub(super) fn new(fs: &'a Shared, caller: Caller) -> Self {
        Self { fs, caller, asks_hosts: false }
    }

    /// Returns true if the caller is root or the user of this server. Without `allow_other`,
    /// returns true for every caller.
    fn is_server(&self) -> bool {
        let uid = self.caller.uid;
        !self.fs.engine.options().allow_other
            || uid == 0
            || uid == rustix::process::geteuid().as_raw()
    }

    pub(super) fn reader(&self) -> Reader {
        if self.is_server() {
            return Reader::Server;
        }
        let Caller { uid, gid, .. } = self.caller;
        Reader::User(Arc::new(User { uid, gid, groups: groups(self.caller) }))
    }

    pub(super) fn may_read(&self, rights: &Rights) -> bool {
        let Caller { uid, gid, .. } = self.caller;
        if self.is_server() {
            true
        } else if uid == rights.uid {
            rights.are_open_to(OWNER)
        } else if rights.are_open_to(GROUP) == rights.are_open_to(OTHERS) {
            rights.are_open_to(OTHERS)
        } else if gid == rights.gid || groups(self.caller).contains(&rights.gid) {
            rights.are_open_to(GROUP)
        } else {
            rights.are_open_to(OTHERS)
        }
    }

    /// Fails unless the caller may open `of` and learn its size.
    ///
    /// Fails with [`FsError::Stale`] if the size is unknown and the rights of the origin have
    /// changed since the look-up. Otherwise a caller that looked the file up before the change
    /// would learn the size.
    pub(super) fn check(&self, of: &ComputedNode) -> Result<()> {
        if of.closed {
            return Err(FsError::NotReadable);
        }
        let recipe = &of.computed.recipe;
        if !self.fs.engine.options().allow_other || recipe.is_public() {
            return Ok(());
        }
        let rights = of.origin_rights().unwrap_or(of.inherited.rights);
        if rights != of.inherited.rights && of.computed.size().is_none() {
            return Err(FsError::Stale);
        }
        if self.is_server() {
            return Ok(());
        }
        let is_for_another = recipe.reader().is_some_and(|reader| *reader != self.reader());
        if is_for_another || !self.may_read(&rights) { Err(FsError::NotReadable) } else { Ok(()) }
    }
}

/// The files in `.ctxfs`.
pub(super) const PAGES: [&str; 3] = ["status.json", "metrics", "version"];

/// Returns the node of a file in `.ctxfs`. The status and the metrics are computed at each look-up.
fn control_page(fs: &Arc<Shared>, name: &OsStr, access: CallerAccess<'_>) -> Result<Arc<Node>> {
    let name = PAGES.into_iter().find(|page| name == *page).ok_or(FsError::NotFound)?;
    let (moment, base) = if name == "version" {
        (0, Base::Nothing)
    } else {
        let weak = Arc::downgrade(fs);
        let status = move || Ok(ContextFs(weak.upgrade().ok_or(EngineError::Stale)?).status());
        (fs.started.elapsed().as_millis() as u64, Base::Door(Arc::new(status)))
    };
    let version = Version { changes: moment, ..Version::default() };
    let origin = ComputedOrigin { base, stat: fs.top_stat()? };
    intern_computed(fs, Recipe::Door(name), version, None, origin, access)
}

/// Updates the place of `node` from its open descriptor. Returns true if the file is at a new place
/// in the store.
pub(super) fn find_moved(fs: &Shared, node: &Arc<Node>, open: &std::fs::File) -> Result<bool> {
    let before = node.place();
    if before.as_ref().is_some_and(|(id, path)| record::is_at(fs, node, (id, path))) {
        return Ok(false);
    }
    let Some(mut names) = fs.engine.store().context().names_of(open)? else { return Ok(false) };
    let Some(name) = names.pop() else { return Ok(false) };
    let mut names = names.iter();
    let top = fs.nodes.get(Ino::ROOT)?;
    let only = top.link().and_then(LinkCell::get);
    if only.is_some_and(|only| names.next() != Some(&only.name)) {
        return Ok(false);
    }
    // Looking up a directory records its place. The kernel may have forgotten the file already.
    let mut way = vec![top];
    let walked = names.try_for_each(|name| {
        let parent = &way[way.len() - 1];
        let next = find_real(fs, parent, parent.as_dir()?, name)?;
        way.push(next);
        Ok(())
    });
    if walked.is_ok() {
        relink(node, &way[way.len() - 1], &name);
    }
    way[1..].iter().for_each(|node| fs.nodes.forget(node.ino, 1));
    match walked {
        Err(FsError::NotFound | FsError::NotADirectory | FsError::Stale) => Ok(false),
        walked => walked.map(|()| node.place() != before),
    }
}
