//! A compact snapshot of the names in a directory on disk.
//!
//! The snapshot is one text with a record for each name. The engine keeps the text in memory or in
//! an unnamed file. The names of views are not stored: they follow from the names on disk.

use std::ffi::OsStr;
use std::io;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use crate::{FileKind, Result};
use ctxfs_core::model::Content as _;
use ctxfs_engine::{Spool, ViewText};
use ctxfs_view::{Derived, Rendered, listed};

/// The inode number that listings show for computed entries before they are looked up. It is lower
/// than the numbers of files on disk. Programs that remove files in the order of inode numbers (GNU
/// rm in large directories) then remove views before their artifact.
pub(crate) const COMPUTED: u64 = 2;

/// The index holds the text position of every name whose number is a multiple of this.
const STRIDE: u64 = 1024;
/// Length in bytes of a record's header: kind, views, length of the name, inode number.
const HEAD: usize = 1 + 1 + 2 + 8;
const BLOCK: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryName<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) kind: FileKind,
    pub(crate) ino: u64,
    pub(crate) view: Option<(&'a OsStr, &'static Derived)>,
}

impl<'a> EntryName<'a> {
    pub(crate) fn computed(name: &'a str) -> Self {
        Self { name: OsStr::new(name), kind: FileKind::File, ino: COMPUTED, view: None }
    }
}

/// The names of a directory at one moment. Later changes of the directory do not affect them.
///
/// Each name on disk takes a fixed number of positions: one for each kind of view that can be
/// listed beside it, then one for the name itself. The position of a name is therefore the same for
/// any set of views.
pub(crate) struct DirNames {
    text: ViewText,
    starts: Vec<u64>,
}

pub(crate) struct NewDirNames<'a> {
    spool: Spool<'a>,
    block: Vec<u8>,
    starts: Vec<u64>,
    count: u64,
    spooled: u64,
}

/// The views that a directory lists beside a name, as a bit mask over [`listed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListedViews(pub(crate) u8);

impl<'a> NewDirNames<'a> {
    pub(crate) fn new(spool: Spool<'a>) -> Self {
        Self {
            spool: spool.in_memory(),
            block: Vec::new(),
            starts: Vec::new(),
            count: 0,
            spooled: 0,
        }
    }

    pub(crate) fn add(&mut self, name: &EntryName<'_>, views: ListedViews) -> io::Result<()> {
        let length = u16::try_from(name.name.len()).map_err(io::Error::other)?;
        if self.count.is_multiple_of(STRIDE) {
            self.starts.push(self.spooled + self.block.len() as u64);
        }
        let mut head = [0; HEAD];
        head[0] = u8::from(name.kind == FileKind::Directory);
        head[1] = views.0;
        head[2..4].copy_from_slice(&length.to_le_bytes());
        head[4..].copy_from_slice(&name.ino.to_le_bytes());
        self.block.extend_from_slice(&head);
        self.block.extend_from_slice(name.name.as_bytes());
        self.count += 1;
        if self.block.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.spool).write_all(&self.block)?;
        self.spooled += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<DirNames> {
        self.flush()?;
        let text = self.spool.finish(Rendered { notice: None, whole: true }, None)?;
        Ok(DirNames { text, starts: self.starts })
    }
}

impl DirNames {
    /// Calls `take` with each name from position `from` on and with the position of the name. Stops
    /// when `take` returns true.
    pub(crate) fn read(
        &self,
        from: u64,
        mut take: impl FnMut(u64, EntryName<'_>) -> bool,
    ) -> io::Result<()> {
        let slots = listed().count() as u64 + 1;
        let (number, stride) = (from / slots, usize::try_from(from / slots / STRIDE));
        let Some(start) = stride.ok().and_then(|stride| self.starts.get(stride)) else {
            return Ok(());
        };
        let mut records = Records { text: &self.text, at: *start, block: Vec::new(), used: 0 };
        for at in number / STRIDE * STRIDE.. {
            let Some((name, views)) = records.next()? else { break };
            if at < number {
                continue;
            }
            let mut wanted = |slot: u64, name: EntryName<'_>| {
                at * slots + slot >= from && take(at * slots + slot, name)
            };
            if with_views(&name, views, &mut wanted) {
                break;
            }
        }
        Ok(())
    }
}

/// Calls `take` with each of the `views` of a name, and then with the name itself. Stops and
/// returns true as soon as `take` returns true.
fn with_views(
    name: &EntryName<'_>,
    views: ListedViews,
    take: &mut impl FnMut(u64, EntryName<'_>) -> bool,
) -> bool {
    for (slot, (suffix, derived)) in
        (0..).zip(listed()).filter(|(slot, _)| views.0 >> slot & 1 == 1)
    {
        let kind = match derived {
            Derived::File(_) => FileKind::File,
            Derived::Dir(_) => FileKind::Directory,
        };
        let mut view = name.name.to_owned();
        view.push(suffix);
        let of = Some((name.name, derived));
        if take(slot, EntryName { name: &view, kind, ino: COMPUTED, view: of }) {
            return true;
        }
    }
    take(listed().count() as u64, *name)
}

struct Records<'a> {
    text: &'a ViewText,
    at: u64,
    block: Vec<u8>,
    used: usize,
}

impl Records<'_> {
    fn next(&mut self) -> io::Result<Option<(EntryName<'_>, ListedViews)>> {
        if !self.has(HEAD)? {
            return Ok(None);
        }
        let head = &self.block[self.used..][..HEAD];
        let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
        if !self.has(HEAD + length)? {
            return Ok(None);
        }
        let (head, rest) = self.block[self.used..].split_at(HEAD);
        self.used += HEAD + length;
        let kind = if head[0] == 1 { FileKind::Directory } else { FileKind::File };
        let ino = u64::from_le_bytes(head[4..].try_into().map_err(io::Error::other)?);
        let name = OsStr::from_bytes(&rest[..length]);
        Ok(Some((EntryName { name, kind, ino, view: None }, ListedViews(head[1]))))
    }

    /// Reads more of the text unless the block has `length` unread bytes. Returns false if the text
    /// ends before that.
    fn has(&mut self, length: usize) -> io::Result<bool> {
        if self.block.len() - self.used >= length {
            return Ok(true);
        }
        self.block.drain(..self.used);
        self.used = 0;
        let kept = self.block.len();
        self.block.resize(kept + length.max(BLOCK), 0);
        let read = self.text.read_at(self.at, &mut self.block[kept..])?;
        self.block.truncate(kept + read);
        self.at += read as u64;
        Ok(self.block.len() >= length)
    }
}

#[cfg(test)]
mod tests;
