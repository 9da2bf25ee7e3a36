//! The names in a directory on disk at one moment, in little memory.
//!
//! The names are one text, a record each, which the engine keeps in memory or in a file without a
//! name. The names of views follow from the others, so they are not in it.

use std::ffi::OsStr;
use std::io;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use crate::{FileKind, Result};
use ctxfs_core::model::Content as _;
use ctxfs_engine::{Spool, ViewText};
use ctxfs_view::{Derived, Rendered, listed};

/// The inode number of computed entries in listings; they have none before they are looked up. It
/// is below all others, so that programs which remove files in the order of these numbers (GNU rm
/// in large directories) meet views before their artifact.
pub(crate) const COMPUTED: u64 = 2;

/// Names from one known position in the text to the next.
const STRIDE: u64 = 1024;
/// The bytes of a record before its name: kind, views, length, inode number.
const HEAD: usize = 1 + 1 + 2 + 8;
/// The bytes that are written or read at a time.
const BLOCK: usize = 16 * 1024;

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryName<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) kind: FileKind,
    pub(crate) ino: u64,
    /// The file that it is a view of, and the view.
    pub(crate) view: Option<(&'a OsStr, &'static Derived)>,
}

impl<'a> EntryName<'a> {
    /// Creates the name of something computed.
    pub(crate) fn computed(name: &'a str, kind: FileKind) -> Self {
        Self { name: OsStr::new(name), kind, ino: COMPUTED, view: None }
    }
}

/// The names in a directory. They stay the same while entries come and go.
///
/// Each name on disk has as many positions as there may be names beside it: those of its views, and
/// its own after them. So the position of a name is known without counting the views before it.
pub(crate) struct DirNames {
    text: ViewText,
    /// The offsets in the text of the names whose numbers are multiples of [`STRIDE`].
    starts: Vec<u64>,
}

/// Names that are being collected.
pub(crate) struct NewDirNames<'a> {
    spool: Spool<'a>,
    /// The end of the text, which is not in the spool yet.
    block: Vec<u8>,
    starts: Vec<u64>,
    count: u64,
}

/// The views that a directory lists beside a name: a bit for each of [`listed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListedViews(pub(crate) u8);

impl<'a> NewDirNames<'a> {
    pub(crate) fn new(spool: Spool<'a>) -> Self {
        Self { spool: spool.in_memory(), block: Vec::new(), starts: Vec::new(), count: 0 }
    }

    /// Adds a name of at most 64 KiB, after its views.
    pub(crate) fn add(&mut self, name: &EntryName<'_>, views: ListedViews) -> io::Result<()> {
        let length = u16::try_from(name.name.len()).map_err(io::Error::other)?;
        if self.count.is_multiple_of(STRIDE) {
            self.starts.push(self.spool.length() + self.block.len() as u64);
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
        self.spool.write_all(&self.block)?;
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
    /// Hands the names from the position `from` on to `take`, each with its position, until that
    /// returns true.
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

/// Hands the `views` of a name, and the name itself, to `take` until that returns true. Returns
/// true then.
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

/// The records of a text from one of them on.
struct Records<'a> {
    text: &'a ViewText,
    /// The position of what follows the block.
    at: u64,
    block: Vec<u8>,
    /// The bytes of the block that are behind.
    used: usize,
}

impl Records<'_> {
    /// Returns the next record. `None` at the end.
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

    /// Reads on until the block has `length` bytes. Returns false at the end.
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
