//! Listing directories.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::sync::Arc;

use crate::engine::names;
use crate::fs::Fh;
use crate::fs::FileKind;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::control;
use crate::fs::handle::COMPUTED;
use crate::fs::handle::Handle;
use crate::fs::handle::ListedName;
use crate::fs::handle::Listing;
use crate::fs::lookup;
use crate::fs::node::DirNode;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::model::is_scratch;
use crate::store::DirEntry;
use crate::store::FileType;
use crate::store::MESSAGES;
use crate::view::Derived;
use crate::view::PageNumber;
use crate::view::Reading;
use crate::view::View;
use crate::view::ViewDir;
use crate::view::listed;
use crate::view::readings;

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
}

pub(super) fn opendir(fs: &Arc<Shared>, ino: Ino, done: impl FnOnce(Result<Fh>) + Send + 'static) {
    let shared = Arc::clone(fs);
    let opened = move |listing: Result<Listing>| {
        let insert = |listing| shared.handles.insert(Handle::Listing(Arc::new(listing)));
        done(listing.map(insert));
    };
    match fs.nodes.get(ino) {
        Ok(node) => match &node.kind {
            NodeKind::ViewDir { of, base: Some(base), dir: ViewDir::Pages } => {
                list_pages_of_view(fs, of, base, opened);
            }
            _ => opened(list(fs, &node)),
        },
        Err(error) => opened(Err(error)),
    }
}

pub(super) fn readdir(
    fs: &Shared,
    ino: Ino,
    fh: Fh,
    offset: u64,
    mut take: impl FnMut(Listed<'_>) -> bool,
) -> Result<()> {
    let listing = fs.handles.listing(fh)?;
    let dots = Listing::Names([".", ".."].map(|name| dot(name, ino)).into());
    for at in offset.. {
        let entry = at.checked_sub(2).map_or_else(|| dots.get(at), |at| listing.get(at));
        let Some(entry) = entry else { break };
        let listed = Listed { name: &entry.name, kind: entry.kind, ino: entry.ino, next: at + 1 };
        if take(listed) {
            break;
        }
    }
    Ok(())
}

/// Returns the names in a directory that can be listed without computing anything.
fn list(fs: &Shared, node: &Arc<Node>) -> Result<Listing> {
    Ok(match &node.kind {
        NodeKind::Dir(dir) => Listing::Names(list_dir(fs, node, dir)?),
        NodeKind::ViewDir { of, dir: ViewDir::Pages, .. } => {
            Listing::Pages(PageNumber::count(fs.engine.text_length(&**of.as_file()?)?))
        }
        NodeKind::ViewDir { dir: ViewDir::Grep | ViewDir::Lines | ViewDir::Jq, .. } => {
            Listing::Names(Vec::new())
        }
        NodeKind::Control => Listing::Names(
            control::PAGES.map(|name| ListedName::computed(name, FileKind::File)).into(),
        ),
        NodeKind::File(_) | NodeKind::Computed(_) => return Err(FsError::NotADirectory),
    })
}

/// Lists the pages of the text of `base`, a view of the file `of`.
fn list_pages_of_view(
    fs: &Arc<Shared>,
    of: &Arc<Node>,
    base: &View,
    done: impl FnOnce(Result<Listing>) + Send + 'static,
) {
    let reading = Reading { base: None, derived: Derived::File(base.clone()) };
    let node = match lookup::view_node(fs, of, reading) {
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

fn list_dir(fs: &Shared, node: &Arc<Node>, dir: &DirNode) -> Result<Vec<ListedName>> {
    let entries = dir.dir.entries()?;
    let mut names = Vec::with_capacity(entries.len());
    for name in [names::README, names::MANIFEST] {
        if names::computed_name(dir, node.is_top(), OsStr::new(name)).is_some() {
            names.push(ListedName::computed(name, FileKind::File));
        }
    }
    if entries.iter().any(|entry| entry.name == MESSAGES) && names::is_history(dir) {
        names.push(ListedName::computed(names::MESSAGE_ARRAY, FileKind::File));
    }
    let with_views = fs.options.list_views && node.holds_artifacts();
    let taken = if with_views { names_that_hide_views(&entries) } else { Vec::new() };
    for DirEntry { name, kind, ino } in entries {
        if kind == FileType::Other || names::is_stores(dir, &name) {
            continue;
        }
        if with_views && kind == FileType::File && !is_scratch(&name) {
            list_views(&name, &taken, &mut names);
        }
        names.push(ListedName { name, kind: FileKind::of(kind), ino });
    }
    Ok(names)
}

fn dot(name: &str, ino: Ino) -> ListedName {
    ListedName { name: name.into(), kind: FileKind::Directory, ino: ino.0 }
}

/// Returns the names of real files that look like views, sorted.
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
