//! Listing directories, with or without the attributes of the entries. If a listing has the
//! attributes, the kernel need not look up each name.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use crate::attr::Rights;
use crate::dir_names::{COMPUTED, DirNames, EntryName, ListedViews, NewDirNames};
use crate::handle::DirListing;
use crate::inode::FIRST_ON_DISK;
use crate::record::PresentSource;
use crate::{
    Attr, Caller, CallerAccess, Claimed, ContextFs, DirNode, Entry, Fh, FileKind, FsError, Handle,
    Ino, Node, NodeKind, PromiseMark, Result, Shared, attributes, lookup, record,
};
use ctxfs_core::model::{Content as _, NAME_MAX, is_scratch};
use ctxfs_engine::sync::Mutex;
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_store::FileType;
use ctxfs_view::{Derived, PageNumber, Reading, View, ViewDir, listed, readings};

const DOTS: u64 = 2;
/// Maximum number of real files with view-like names in a directory that lists views. A directory
/// with more of them lists no views.
const MOST_VIEW_LIKE: usize = 1 << 16;
/// Maximum length in bytes of an artifact beside which no views are listed: a character and a
/// newline. Its summary would only say that it is all there.
const LISTED_ALONE: u64 = 2;

#[derive(Debug)]
pub struct ListedName<'a> {
    pub name: &'a OsStr,
    pub kind: FileKind,
    pub ino: u64,
    pub next: u64,
    pub(super) is_on_disk: bool,
    pub(super) view: Option<(&'a OsStr, &'static Derived)>,
}

pub(super) fn opendir(
    fs: &Arc<Shared>,
    ino: Ino,
    caller: Caller,
    done: impl FnOnce(Result<Fh>) + Send + 'static,
) {
    let access = CallerAccess::new(fs, caller);
    let claimed = fs.nodes.get(ino).and_then(|node| {
        check_open(&node, access)?;
        if let NodeKind::Dir(dir) = &node.kind {
            fs.engine.ask_before_listing(&**dir)?;
        }
        Ok((fs.claim(&node, caller, 1)?, node))
    });
    let (share, node) = match claimed {
        Ok(claimed) => claimed,
        Err(error) => return done(Err(error)),
    };
    let shared = Arc::clone(fs);
    let opened = move |listing: Result<DirListing>| {
        let handle = |listing| Handle::Listing(Claimed::new(listing, share));
        done(listing.map(|listing| shared.handles.insert(handle(listing))));
    };
    match &node.kind {
        NodeKind::ViewDir { of, base: Some(base), dir: ViewDir::Pages } => {
            list_pages_of_view(fs, of, base, access, opened);
        }
        _ => opened(open(fs, &node)),
    }
}

/// Fails unless the caller may list a directory of pages. The number of pages reveals the length of
/// the text.
fn check_open(node: &Node, access: CallerAccess<'_>) -> Result<()> {
    let NodeKind::ViewDir { of, dir: ViewDir::Pages, .. } = &node.kind else { return Ok(()) };
    let rights = Rights::of(&of.as_file()?.stat()?);
    if access.may_read(&rights) { Ok(()) } else { Err(FsError::NotReadable) }
}

/// Returns true for a conversation that exists only on other hosts. A look-up would fetch it.
pub(super) fn is_of_other_hosts(fs: &Shared, dir: &Node, listed: &ListedName<'_>) -> bool {
    let is_computed = !listed.is_on_disk && listed.kind == FileKind::Directory;
    is_computed && dir.is_root() && fs.engine.options().other_hosts.is_some()
}

impl ContextFs {
    /// Calls `take` with each name from position `offset` on. Stops when `take` returns true, which
    /// means that the reply is full.
    pub fn readdir(
        &self,
        ino: Ino,
        fh: Fh,
        offset: u64,
        mut take: impl FnMut(ListedName<'_>) -> bool,
    ) -> Result<()> {
        let fs = &self.0;
        let listing = fs.handles.listing(fh)?;
        // `.` and `..` come before any other name.
        for (at, name) in [".", ".."].into_iter().enumerate().skip(offset.min(DOTS) as usize) {
            let name = OsStr::new(name);
            let (kind, next) = (FileKind::Directory, at as u64 + 1);
            if take(ListedName { name, kind, ino: ino.0, next, is_on_disk: true, view: None }) {
                return Ok(());
            }
        }
        let mut take = |at, EntryName { name, kind, ino, view }: EntryName<'_>| {
            let is_on_disk = ino != COMPUTED;
            // The numbers of files on disk begin at the same number as those of their nodes.
            // Computed entries then come first in both.
            let ino = if is_on_disk { ino.saturating_add(FIRST_ON_DISK) } else { ino };
            take(ListedName { name, kind, ino, next: DOTS + at + 1, is_on_disk, view })
        };
        let from = offset.saturating_sub(DOTS);
        match &**listing {
            DirListing::Dir(names) => Ok(present_names(fs, ino, names, offset)?.read(from, take)?),
            DirListing::Names(names) => {
                let mut rest = (0..).zip(names).skip_while(|(at, _)| *at < from);
                rest.any(|(at, name)| take(at, *name));
                Ok(())
            }
            DirListing::Pages(count) => {
                (from..*count).any(|at| {
                    let name = PageNumber::after(at).to_string();
                    take(at, EntryName::computed(&name))
                });
                Ok(())
            }
        }
    }

    /// Calls `take` with each name from position `offset` on, and with the entry that a look-up by
    /// `caller` finds. Stops when `take` returns true, which means that the reply is full.
    pub fn readdirplus(
        &self,
        ino: Ino,
        fh: Fh,
        offset: u64,
        caller: Caller,
        mut take: impl FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<()> {
        let fs = &self.0;
        let dir = fs.nodes.get(ino)?;
        let own = attributes::entry(fs, &dir)?;
        let mut lookups =
            ListingLookups { fs, dir: &dir, access: CallerAccess::new(fs, caller), last: None };
        self.readdir(ino, fh, offset, |listed| {
            let (name, next) = (listed.name, listed.next);
            if name == "." || name == ".." {
                return take(ListedEntry { name, next, entry: own });
            }
            if is_of_other_hosts(fs, &dir, &listed) {
                let entry = unknown(fs.nodes.unused(), listed.kind, &own.attr);
                return take(ListedEntry { name, next, entry });
            }
            let entry = match lookups.entry(&listed) {
                Ok(entry) => entry,
                // The file has been removed since the directory was listed.
                Err(FsError::NotFound | FsError::Stale) => return false,
                // Inode number 0 would hide the name from programs.
                Err(_) => unknown(fs.nodes.unused(), listed.kind, &own.attr),
            };
            let full = take(ListedEntry { name, next, entry });
            if full {
                fs.nodes.forget(entry.attr.ino, 1);
            }
            full
        })
    }
}

/// Returns the names of a directory for a reader at `offset`. A reader at the beginning gets the
/// current names, as rewinddir(3) requires.
fn present_names(
    fs: &Shared,
    ino: Ino,
    names: &Mutex<Option<Arc<DirNames>>>,
    offset: u64,
) -> Result<Arc<DirNames>> {
    let mut names = names.lock();
    if let Some(known) = names.as_ref().filter(|_| offset > 0) {
        return Ok(Arc::clone(known));
    }
    // Drop the old names first, so that only one listing takes memory.
    *names = None;
    let node = fs.nodes.get(ino)?;
    Ok(Arc::clone(names.insert(Arc::new(list_dir(fs, &node, node.as_dir()?)?))))
}

fn open(fs: &Shared, node: &Node) -> Result<DirListing> {
    Ok(match &node.kind {
        NodeKind::Dir(_) => DirListing::Dir(Mutex::default()),
        NodeKind::ViewDir { of, dir: ViewDir::Pages, .. } => {
            // On ESTALE, the kernel looks up the file that has the name now.
            let stale = |error: FsError| if error.is_absent() { FsError::Stale } else { error };
            let source = record::present_source(&fs.engine, of.as_file()?);
            let (source, ..) = source.map_err(stale)?;
            DirListing::Pages(PageNumber::count(source.text_length(&fs.engine)?))
        }
        NodeKind::ViewDir {
            dir:
                ViewDir::Grep
                | ViewDir::Find
                | ViewDir::Lines
                | ViewDir::Record
                | ViewDir::Jq
                | ViewDir::Extract
                | ViewDir::SinceRun,
            ..
        } => DirListing::Names(Vec::new()),
        NodeKind::Control => DirListing::Names(lookup::PAGES.map(EntryName::computed).into()),
        NodeKind::File(_) | NodeKind::Computed(_) => return Err(FsError::NotADirectory),
    })
}

fn list_pages_of_view(
    fs: &Arc<Shared>,
    of: &Arc<Node>,
    base: &View,
    access: CallerAccess<'_>,
    done: impl FnOnce(Result<DirListing>) + Send + 'static,
) {
    let reading = Reading { base: None, derived: Derived::File(base.clone()) };
    let node = match lookup::view_node(fs, of, reading, access) {
        Ok(node) => node,
        Err(error) => return done(Err(error)),
    };
    let NodeKind::Computed(view) = &node.kind else { return done(Err(FsError::Stale)) };
    let (shared, ino) = (Arc::clone(fs), node.ino);
    view.computed.text(&fs.engine, move |text| {
        shared.nodes.forget(ino, 1);
        let pages = text.map(|text| DirListing::Pages(PageNumber::count(text.len())));
        done(pages.map_err(FsError::from));
    });
}

/// Lists a directory. A real file with a view-like name hides the view of that name. A second pass
/// is needed only if the first pass finds such files.
fn list_dir(fs: &Shared, node: &Node, dir: &DirNode) -> Result<DirNames> {
    let with_views = fs.options.list_views && node.holds_artifacts();
    let pass = ListingPass { fs, node, dir, with_views };
    let (names, taken) = pass.list(None)?;
    if taken.hashes.is_empty() {
        return Ok(names);
    }
    drop(names);
    Ok(pass.list(Some(&taken))?.0)
}

struct ListingPass<'a> {
    fs: &'a Shared,
    node: &'a Node,
    dir: &'a DirNode,
    with_views: bool,
}

impl ListingPass<'_> {
    /// Lists the names, and also returns the real names that look like views. `taken` has the names
    /// that an earlier pass returned. To list no name twice, leaves out views whose names are in
    /// `taken`, and real files that look like views but have appeared since that pass.
    fn list(&self, taken: Option<&ViewLikeNames>) -> Result<(DirNames, ViewLikeNames)> {
        let Self { fs, node, dir, with_views } = *self;
        let mut names = NewDirNames::new(fs.engine.spool(node.conversation()));
        let mut found = ViewLikeNames::default();
        let mut meet = |name: &OsStr, kind: FileType, ino: Option<u64>| {
            let with_views = with_views && ino.is_some();
            if with_views && readings(name).next().is_some() {
                found.add(name);
                if taken.is_some_and(|taken| !taken.has(name)) {
                    return Ok(());
                }
            }
            if kind == FileType::Other {
                return Ok(());
            }
            let is_short = || fs.engine.stat(dir, name).is_ok_and(|stat| stat.size <= LISTED_ALONE);
            let may_have_views = with_views && kind == FileType::File && !is_scratch(name);
            let has_views = may_have_views && !is_short();
            let views = if has_views { listed_views(name, taken) } else { ListedViews::default() };
            let (kind, ino) = (FileKind::of(kind), ino.unwrap_or(COMPUTED));
            names.add(&EntryName { name, kind, ino, view: None }, views)
        };
        fs.engine.each_name(dir, node.is_top(), &mut meet)?;
        Ok((names.finish()?, found))
    }
}

#[derive(Default)]
struct ViewLikeNames {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl ViewLikeNames {
    fn add(&mut self, name: &OsStr) {
        if self.hashes.len() <= MOST_VIEW_LIKE {
            self.hashes.insert(self.hasher.hash_one(name));
        }
    }

    /// Returns true if the set contains `name`. Beyond the limit, returns true for every name.
    fn has(&self, name: &OsStr) -> bool {
        self.hashes.len() > MOST_VIEW_LIKE || self.hashes.contains(&self.hasher.hash_one(name))
    }
}

/// Returns the views to list beside `name`. Leaves out views that `taken` hides, and views whose
/// names exceed the limit that statvfs(3) reports. Such a view can be opened, but a program could
/// not copy it to a disk under its name.
fn listed_views(name: &OsStr, taken: Option<&ViewLikeNames>) -> ListedViews {
    let mut views = ListedViews::default();
    let fits = |suffix: &str| name.len() + suffix.len() <= NAME_MAX;
    for (bit, (suffix, _)) in (0..).zip(listed()).filter(|(_, (suffix, _))| fits(suffix)) {
        let is_hidden = taken.is_some_and(|taken| {
            let mut view = name.to_owned();
            view.push(suffix);
            taken.has(&view)
        });
        views.0 |= u8::from(!is_hidden) << bit;
    }
    views
}

#[derive(Debug)]
pub struct ListedEntry<'a> {
    pub name: &'a OsStr,
    pub next: u64,
    /// The entry. Except for `.` and `..`, it counts as a look-up. If the name could not be looked
    /// up, the entry has an inode number that no node has, so that the kernel looks the name up
    /// again.
    pub entry: Entry,
}

fn unknown(ino: Ino, kind: FileKind, like: &Attr) -> Entry {
    let attr = Attr { ino, kind, size: 0, ..*like };
    Entry { attr, attr_ttl: Duration::ZERO, entry_ttl: Duration::ZERO, is_computed: true }
}

struct ListingLookups<'a> {
    fs: &'a Arc<Shared>,
    dir: &'a Arc<Node>,
    access: CallerAccess<'a>,
    last: Option<LastFile>,
}

/// The artifact that was looked up last. In a listing, its views come directly before it.
struct LastFile {
    name: OsString,
    node: Arc<Node>,
    mark: Option<PromiseMark>,
    present: Option<PresentSource>,
}

impl ListingLookups<'_> {
    fn entry(&mut self, listed: &ListedName<'_>) -> Result<Entry> {
        let Self { fs, dir, access, .. } = *self;
        match listed.view {
            Some((of, derived)) => self.view(listed.name, of, derived),
            None if listed.is_on_disk => self.on_disk(listed.name),
            None => lookup::lookup_in(fs, dir, listed.name, access),
        }
    }

    fn view(&mut self, name: &OsStr, of: &OsStr, derived: &Derived) -> Result<Entry> {
        let (fs, access) = (self.fs, self.access);
        let last = self.file(of)?;
        let node = match derived {
            Derived::File(view) => {
                let (node, known) = (last.node.as_file()?, last.present.take());
                let known = known.map_or_else(|| record::present_source(&fs.engine, node), Ok)?;
                let of = (&last.node, last.present.insert(known).clone());
                lookup::view_node_at(fs, of, (None, view.clone()), access)
            }
            Derived::Dir(dir) => lookup::view_dir_node(fs, &last.node, None, *dir),
        }?;
        lookup::entry_of(fs, last.mark.as_ref(), name, &node)
    }

    fn on_disk(&self, name: &OsStr) -> Result<Entry> {
        let node = match &self.last {
            Some(last) if last.name == name => {
                last.node.lookups.fetch_add(1, Relaxed);
                Arc::clone(&last.node)
            }
            _ => lookup::find_real(self.fs, self.dir, self.dir.as_dir()?, name)?,
        };
        lookup::entry_of(self.fs, None, name, &node)
    }

    fn file(&mut self, name: &OsStr) -> Result<&mut LastFile> {
        if self.last.as_ref().is_none_or(|last| last.name != name) {
            self.forget_last();
            let mark = PromiseMark::of(&self.fs.promises, self.dir);
            let node = lookup::find_real(self.fs, self.dir, self.dir.as_dir()?, name)?;
            self.last = Some(LastFile { name: name.to_owned(), node, mark, present: None });
        }
        self.last.as_mut().ok_or(FsError::NotFound)
    }

    fn forget_last(&mut self) {
        if let Some(last) = self.last.take() {
            self.fs.nodes.forget(last.node.ino, 1);
        }
    }
}

impl Drop for ListingLookups<'_> {
    fn drop(&mut self) {
        self.forget_last();
    }
}
