//! Listing a directory with the attributes of what is in it: the kernel then need not look up each
//! name by itself.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use crate::asker::Asker;
use crate::listing::Listed;
use crate::node::Node;
use crate::promises::Mark;
use crate::{
    Attr, Caller, Entry, Fh, FileKind, FsError, Ino, Result, Shared, facts, getattr, listing,
    lookup,
};
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::{SourceFile, Version};
use ctxfs_store::Stat;
use ctxfs_view::Derived;

/// A name in a directory, with what a look-up of it finds.
#[derive(Debug)]
pub struct ListedEntry<'a> {
    /// The name.
    pub name: &'a OsStr,
    /// The offset at which to continue after it.
    pub next: u64,
    /// The entry that it leads to, with a look-up counted, except for `.` and `..`. An entry that
    /// could not be looked up has a number that no node has, so the kernel asks again.
    pub entry: Entry,
}

pub(super) fn readdirplus(
    fs: &Arc<Shared>,
    ino: Ino,
    fh: Fh,
    offset: u64,
    caller: Caller,
    mut take: impl FnMut(ListedEntry<'_>) -> bool,
) -> Result<()> {
    let dir = fs.nodes.get(ino)?;
    let own = getattr::entry(fs, &dir)?;
    let mut looks = Looks { fs, dir: &dir, asker: Asker::new(fs, caller), last: None };
    listing::readdir(fs, ino, fh, offset, |listed| {
        let (name, next) = (listed.name, listed.next);
        if name == "." || name == ".." {
            return take(ListedEntry { name, next, entry: own });
        }
        if listing::is_of_others(fs, &dir, &listed) {
            let entry = unknown(fs.nodes.unused(), listed.kind, &own.attr);
            return take(ListedEntry { name, next, entry });
        }
        let entry = match looks.entry(&listed) {
            Ok(entry) => entry,
            // It has been removed since the directory was listed.
            Err(FsError::NotFound | FsError::Stale) => return false,
            // The number 0 would hide the name from programs.
            Err(_) => unknown(fs.nodes.unused(), listed.kind, &own.attr),
        };
        let full = take(ListedEntry { name, next, entry });
        if full {
            fs.nodes.forget(entry.attr.ino, 1);
        }
        full
    })
}

/// Returns the entry of a name that could not be looked up.
fn unknown(ino: Ino, kind: FileKind, like: &Attr) -> Entry {
    let attr = Attr { ino, kind, size: 0, ..*like };
    Entry { attr, attr_ttl: Duration::ZERO, entry_ttl: Duration::ZERO, is_computed: true }
}

/// The look-ups of one reading of a directory.
struct Looks<'a> {
    fs: &'a Arc<Shared>,
    dir: &'a Arc<Node>,
    asker: Asker<'a>,
    last: Option<LastFile>,
}

/// The file that was looked at last. Its views come before it, one after the other.
struct LastFile {
    name: OsString,
    /// Counted as looked up.
    node: Arc<Node>,
    /// From before it was looked at.
    mark: Option<Mark>,
    /// The version at which it is, and its attributes.
    version: Option<(Version, Stat)>,
}

impl Looks<'_> {
    fn entry(&mut self, listed: &Listed<'_>) -> Result<Entry> {
        let Self { fs, dir, asker, .. } = *self;
        match listed.view {
            Some((of, derived)) => self.view(listed.name, of, derived),
            None if listed.is_on_disk => self.on_disk(listed.name),
            None => lookup::lookup_in(fs, dir, listed.name, asker),
        }
    }

    fn view(&mut self, name: &OsStr, of: &OsStr, derived: &Derived) -> Result<Entry> {
        let (fs, asker) = (self.fs, self.asker);
        let last = self.file(of)?;
        let node = match derived {
            Derived::File(view) => {
                let (version, stat) = match last.version {
                    Some(known) => known,
                    None => facts::present_version(&fs.engine, last.node.as_file()?)?,
                };
                last.version = Some((version, stat));
                let source = Arc::clone(last.node.as_file()?) as Arc<dyn SourceFile>;
                let of = (&last.node, source, version, stat);
                lookup::view_node_at(fs, of, (None, view.clone()), asker)
            }
            Derived::Dir(dir) => lookup::view_dir_node(fs, &last.node, None, *dir),
        }?;
        lookup::entry_of(fs, last.mark.as_ref(), name, &node)
    }

    /// Returns the entry of a file or directory.
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
            let mark = Mark::of(self.fs, self.dir);
            let node = lookup::find_real(self.fs, self.dir, self.dir.as_dir()?, name)?;
            self.last = Some(LastFile { name: name.to_owned(), node, mark, version: None });
        }
        self.last.as_mut().ok_or(FsError::NotFound)
    }

    fn forget_last(&mut self) {
        if let Some(last) = self.last.take() {
            self.fs.nodes.forget(last.node.ino, 1);
        }
    }
}

impl Drop for Looks<'_> {
    fn drop(&mut self) {
        self.forget_last();
    }
}
