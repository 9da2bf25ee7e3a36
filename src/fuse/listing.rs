//! Listing directories.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;

use crate::asker::Asker;
use crate::attr::Rights;
use crate::dir_names::{COMPUTED, DirNames, EntryName, ListedViews, NewDirNames};
use crate::handle::{Claimed, Handle, Listing};
use crate::inode::FIRST_ON_DISK;
use crate::node::dir::DirNode;
use crate::node::{Node, NodeKind};
use crate::{Caller, Fh, FileKind, FsError, Ino, Result, Shared, control, lookup, message_log};
use ctxfs_core::model::{NAME_MAX, is_scratch};
use ctxfs_engine::sync::Mutex;
use ctxfs_engine::{DirPlace, SourceDir as _, Spool, names};
use ctxfs_store::{Dir, FarArtifact, FileType, MESSAGES};
use ctxfs_view::{Derived, PageNumber, Reading, View, ViewDir, listed, readings};

/// The positions of `.` and `..`.
const DOTS: u64 = 2;
/// The most names of real files that look like views, in a directory that lists views. Beside more
/// of them no views are listed.
const MOST_VIEW_LIKE: usize = 1 << 16;

/// A name in a directory, as the kernel is told of it.
#[derive(Debug)]
pub struct Listed<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// File or directory.
    pub kind: FileKind,
    /// Its inode number.
    pub ino: u64,
    /// The offset at which to continue after it.
    pub next: u64,
    /// True if it is that of a file or directory on disk.
    pub(super) is_on_disk: bool,
    /// The file that it is a view of, and the view.
    pub(super) view: Option<(&'a OsStr, &'static Derived)>,
}

pub(super) fn opendir(
    fs: &Arc<Shared>,
    ino: Ino,
    caller: Caller,
    done: impl FnOnce(Result<Fh>) + Send + 'static,
) {
    let asker = Asker::new(fs, caller);
    let claimed = fs.nodes.get(ino).and_then(|node| {
        check_open(&node, asker)?;
        if let NodeKind::Dir(dir) = &node.kind {
            fs.engine.others().ask_before_listing(&**dir)?;
        }
        Ok((fs.claim(&node, caller, 1)?, node))
    });
    let (share, node) = match claimed {
        Ok(claimed) => claimed,
        Err(error) => return done(Err(error)),
    };
    let shared = Arc::clone(fs);
    let opened = move |listing: Result<Listing>| {
        let handle = |listing| Handle::Listing(Claimed::new(listing, share));
        done(listing.map(|listing| shared.handles.insert(handle(listing))));
    };
    match &node.kind {
        NodeKind::ViewDir { of, base: Some(base), dir: ViewDir::Pages } => {
            list_pages_of_view(fs, of, base, asker, opened);
        }
        _ => opened(open(fs, &node)),
    }
}

/// Checks that `asker` may list a directory of pages, whose number tells the length of a text.
fn check_open(node: &Node, asker: Asker<'_>) -> Result<()> {
    let NodeKind::ViewDir { of, dir: ViewDir::Pages, .. } = &node.kind else { return Ok(()) };
    let rights = Rights::of(&of.as_file()?.stat()?);
    if asker.may_read(&rights) { Ok(()) } else { Err(FsError::Closed) }
}

/// Returns true for a conversation that only other hosts have. Looking it up would fetch it.
pub(super) fn is_of_others(fs: &Shared, dir: &Node, listed: &Listed<'_>) -> bool {
    let is_computed = !listed.is_on_disk && listed.kind == FileKind::Directory;
    is_computed && dir.is_root() && fs.engine.options.other_hosts.is_some()
}

pub(super) fn readdir(
    fs: &Shared,
    ino: Ino,
    fh: Fh,
    offset: u64,
    mut take: impl FnMut(Listed<'_>) -> bool,
) -> Result<()> {
    let listing = fs.handles.listing(fh)?;
    // Before any other name.
    for (at, name) in [".", ".."].into_iter().enumerate().skip(offset.min(DOTS) as usize) {
        let name = OsStr::new(name);
        let (kind, next) = (FileKind::Directory, at as u64 + 1);
        if take(Listed { name, kind, ino: ino.0, next, is_on_disk: true, view: None }) {
            return Ok(());
        }
    }
    let take = |at, EntryName { name, kind, ino, view }: EntryName<'_>| {
        let is_on_disk = ino != COMPUTED;
        // As the numbers of nodes are, so that any part of a listing has the same order.
        let ino = if is_on_disk { ino.saturating_add(FIRST_ON_DISK) } else { ino };
        take(Listed { name, kind, ino, next: DOTS + at + 1, is_on_disk, view })
    };
    let from = offset.saturating_sub(DOTS);
    match &**listing {
        Listing::Dir(names) => Ok(present_names(fs, ino, names, offset)?.read(from, take)?),
        Listing::Names(names) => {
            read_names(names, from, take);
            Ok(())
        }
        Listing::Pages(count) => {
            read_pages(*count, from, take);
            Ok(())
        }
    }
}

/// Returns the names of a directory for a reader at `offset`. A reader that begins gets the present
/// ones, as rewinddir(3) says.
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
    // First, as both would count as held.
    *names = None;
    let node = fs.nodes.get(ino)?;
    Ok(Arc::clone(names.insert(Arc::new(list_dir(fs, &node, node.as_dir()?)?))))
}

fn read_names(
    names: &[EntryName<'_>],
    from: u64,
    mut take: impl FnMut(u64, EntryName<'_>) -> bool,
) {
    let from_on = (0..).zip(names).skip_while(|(at, _)| *at < from);
    for (at, name) in from_on {
        if take(at, *name) {
            break;
        }
    }
}

fn read_pages(count: u64, from: u64, mut take: impl FnMut(u64, EntryName<'_>) -> bool) {
    for at in from..count {
        let name = PageNumber::after(at).to_string();
        if take(at, EntryName::computed(&name, FileKind::File)) {
            break;
        }
    }
}

/// Opens a directory whose names cost nothing to compute.
fn open(fs: &Shared, node: &Node) -> Result<Listing> {
    Ok(match &node.kind {
        NodeKind::Dir(_) => Listing::Dir(Mutex::default()),
        NodeKind::ViewDir { of, dir: ViewDir::Pages, .. } => {
            let length = message_log::text_length(&fs.engine, of.as_file()?)?;
            Listing::Pages(PageNumber::count(length))
        }
        NodeKind::ViewDir {
            dir: ViewDir::Grep | ViewDir::Find | ViewDir::Lines | ViewDir::Jq | ViewDir::Extract,
            ..
        } => Listing::Names(Vec::new()),
        NodeKind::Control => Listing::Names(
            control::PAGES.map(|name| EntryName::computed(name, FileKind::File)).into(),
        ),
        NodeKind::File(_) | NodeKind::Computed(_) => return Err(FsError::NotADirectory),
    })
}

/// Lists the pages of the text of `base`, a view of the file `of`.
fn list_pages_of_view(
    fs: &Arc<Shared>,
    of: &Arc<Node>,
    base: &View,
    asker: Asker<'_>,
    done: impl FnOnce(Result<Listing>) + Send + 'static,
) {
    let reading = Reading { base: None, derived: Derived::File(base.clone()) };
    let node = match lookup::view_node(fs, of, reading, asker) {
        Ok(node) => node,
        Err(error) => return done(Err(error)),
    };
    let NodeKind::Computed(view) = &node.kind else { return done(Err(FsError::Stale)) };
    let (shared, ino) = (Arc::clone(fs), node.ino);
    fs.engine.text(&view.computed, move |text| {
        shared.nodes.forget(ino, 1);
        let pages = text.map(|text| Listing::Pages(PageNumber::count(text.len())));
        done(pages.map_err(FsError::from));
    });
}

/// Lists a directory. Few have files that look like views, so what these hide is known after a
/// first pass, and only then is there a second one.
fn list_dir(fs: &Shared, node: &Node, dir: &DirNode) -> Result<DirNames> {
    let with_views = fs.options.list_views && node.holds_artifacts();
    let pass = Pass { fs, node, dir, with_views };
    let (names, taken) = pass.list(None)?;
    if taken.is_empty() {
        return Ok(names);
    }
    drop(names);
    Ok(pass.list(Some(&taken))?.0)
}

/// A pass over the entries of a directory.
struct Pass<'a> {
    fs: &'a Shared,
    node: &'a Node,
    dir: &'a DirNode,
    with_views: bool,
}

impl Pass<'_> {
    /// Lists the names. Lists no view that has a name in `taken`, and of the files that look like
    /// views only those in `taken`, so that no name is there twice. Returns the present ones, too.
    fn list(&self, taken: Option<&ViewLikeNames>) -> Result<(DirNames, ViewLikeNames)> {
        let Self { fs, node, dir, with_views } = *self;
        let mut names = NewDirNames::new(Spool::begin(&fs.engine, node.conversation()));
        let open = dir.open()?;
        self.list_computed(&open, &mut names)?;
        let mut found = ViewLikeNames::default();
        let mut meet = |name: &OsStr, kind: FileType, ino: u64| {
            if with_views && readings(name).next().is_some() {
                found.add(name);
                if taken.is_some_and(|taken| !taken.has(name)) {
                    return Ok(());
                }
            }
            if kind == FileType::Other || names::is_stores(dir, name) {
                return Ok(());
            }
            let has_views = with_views && kind == FileType::File && !is_scratch(name);
            let views = if has_views { listed_views(name, taken) } else { ListedViews::default() };
            names.add(&EntryName { name, kind: FileKind::of(kind), ino, view: None }, views)
        };
        open.each_entry(&mut meet)?;
        self.each_far(&mut |far| meet(far.path.file_name(), FileType::File, far.stat.ino))?;
        self.list_conversations(&open, &mut names)?;
        Ok((names.finish()?, found))
    }

    /// Lists the conversations that only other hosts have, in the root.
    fn list_conversations(&self, open: &Dir, names: &mut NewDirNames<'_>) -> Result<()> {
        let Some(others) = &self.fs.engine.options.other_hosts else { return Ok(()) };
        if !matches!(self.dir.place(), Ok(DirPlace::Root)) {
            return Ok(());
        }
        for id in others.conversations().iter() {
            let name = id.as_os_str();
            if open.stat(name).is_err() {
                let (kind, ino) = (FileKind::Directory, COMPUTED);
                names.add(&EntryName { name, kind, ino, view: None }, ListedViews::default())?;
            }
        }
        Ok(())
    }

    /// Meets the artifacts in it whose bytes are not on this disk, as far as the manifest can be
    /// read.
    fn each_far(&self, meet: &mut dyn FnMut(&FarArtifact) -> io::Result<()>) -> io::Result<()> {
        let place = self.dir.place().ok().filter(DirPlace::holds_artifacts);
        let Some(DirPlace::Below(id, path)) = place else { return Ok(()) };
        let Ok(conversation) = self.fs.engine.conversation(&id) else { return Ok(()) };
        let Ok(all) = conversation.each_far(Some(&path)) else { return Ok(()) };
        // What cannot be read ends them.
        for far in all.map_while(std::result::Result::ok) {
            meet(&far)?;
        }
        Ok(())
    }

    /// Lists the computed files that the directory itself has.
    fn list_computed(&self, open: &Dir, names: &mut NewDirNames<'_>) -> Result<()> {
        let Self { node, dir, .. } = *self;
        for name in [names::README, names::MANIFEST, names::MESSAGE_ARRAY] {
            // The array is there as soon as the log is.
            let has_source =
                || name != names::MESSAGE_ARRAY || open.stat(MESSAGES.as_ref()).is_ok();
            if names::computed_name(dir, node.is_top(), OsStr::new(name)).is_some() && has_source()
            {
                let name = EntryName::computed(name, FileKind::File);
                names.add(&name, ListedViews::default())?;
            }
        }
        Ok(())
    }
}

/// The names of real files that look like views, as hashes.
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

    fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns true if `name` is one of them. Once there are too many, every name counts as one.
    fn has(&self, name: &OsStr) -> bool {
        self.hashes.len() > MOST_VIEW_LIKE || self.hashes.contains(&self.hasher.hash_one(name))
    }
}

/// Returns the views to list beside `name`: those that are not hidden by `taken`, and whose names
/// are no longer than statvfs(3) says. Longer ones open, but no disk can have a copy of that name.
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
