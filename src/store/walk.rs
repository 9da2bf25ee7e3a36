//! Walks everything below a directory of the store, in bounded memory.

use std::ffi::OsStr;
use std::{io, vec};

use crate::{Dir, DirEntry, FileType, Stat, UnreadPlaces, error, layout};
use ctxfs_core::model::{MAX_DEPTH, RelPath};

/// Maximum depth of directories that a walk enters. A mount does not allow deeper directories to be
/// created.
pub(super) const MAX_LEVELS: usize = MAX_DEPTH;
/// Maximum number of directories that a walk holds open: the innermost ones. When the walk returns
/// to another directory, it opens that directory again by its path. This at most doubles the number
/// of calls.
const HELD: usize = 16;
/// Length in bytes from which a path counts as long. Paths in ordinary program trees are far
/// shorter.
const LONG: usize = 1024;
const MAX_BYTES: usize = 64 << 20;

/// A walk of all directories and files below a directory. It goes depth first. The entries of a
/// directory are sorted by the bytes of their names.
///
/// A place that cannot be read is added to `unread`, and the walk continues. Such a place may be a
/// directory that cannot be opened or listed, or that is more than 256 levels deep. The walk fails
/// only on an error that affects all places, for example if the process has no free descriptor.
///
/// The walk does not follow links. It holds at most 20 descriptors, and the names in all
/// directories on the path to the current one.
pub(super) struct DirWalk<F> {
    base: Dir,
    levels: Vec<WalkLevel>,
    enters: F,
    entered: usize,
    left_out: SkippedPlaces,
}

/// The places that a walk skipped.
///
/// `unread` has the places that could not be read, by path relative to the base. `unseen` is the
/// number of links, special files and invalid names, which readers of the tree do not see. `gone`
/// is the number of files and directories that were removed or renamed during the walk.
#[derive(Debug, Default)]
pub(super) struct SkippedPlaces {
    pub(super) unread: UnreadPlaces,
    pub(super) unseen: u64,
    pub(super) gone: u64,
}

struct WalkLevel {
    /// The path relative to the base. `None` stands for the base itself.
    path: Option<RelPath>,
    number: usize,
    /// `None` if the directory is not held open, because it is not one of the innermost ones.
    dir: Option<Dir>,
    entries: vec::IntoIter<DirEntry>,
}

#[derive(Debug)]
pub(super) struct WalkEntry {
    pub(super) path: RelPath,
    pub(super) kind: FileType,
    /// Number of the directory that contains the entry, in the order in which directories were
    /// entered. The directory in which the walk began has the number 0.
    pub(super) dir: usize,
}

impl<F: FnMut(&Dir) -> io::Result<bool>> DirWalk<F> {
    /// Begins in the directory `start` of `base`, or in `base` itself if `start` is `None`. Calls
    /// `enters` with each directory before its names are read. If `enters` returns false, the
    /// directory and everything below it are left out.
    pub(super) fn new(base: Dir, start: Option<RelPath>, enters: F) -> io::Result<Self> {
        let (levels, left_out) = (Vec::new(), SkippedPlaces::default());
        let mut walk = Self { base, levels, enters, entered: 0, left_out };
        let opened = match &start {
            Some(path) => walk.base.open_dir_at(path),
            None => walk.base.try_clone(),
        };
        walk.enter(start, opened)?;
        Ok(walk)
    }

    pub(super) fn without(mut self, is_out: impl Fn(&OsStr) -> bool) -> Self {
        if let Some(first) = self.levels.first_mut() {
            let entries: Vec<_> = std::mem::take(&mut first.entries).collect();
            let stays = |entry: &DirEntry| !is_out(&entry.name);
            first.entries = entries.into_iter().filter(stays).collect::<Vec<_>>().into_iter();
        }
        self
    }

    pub(super) fn next(&mut self) -> io::Result<Option<WalkEntry>> {
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = RelPath::below(level.path.as_ref(), &entry.name);
            let Some(path) = path.ok().filter(|_| entry.kind != FileType::Other) else {
                self.left_out.unseen += u64::from(!layout::is_bookkeeping(&entry.name));
                continue;
            };
            let found = WalkEntry { path, kind: entry.kind, dir: level.number };
            if found.kind == FileType::File || self.descend(&found.path)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the attributes of the file that [`Self::next`] has just returned, or `None` if the
    /// file is gone or cannot be read.
    pub(super) fn stat(&mut self, file: &WalkEntry) -> io::Result<Option<Stat>> {
        let stat = self.with(file, Dir::stat)?;
        Ok(stat.filter(|stat| stat.kind() == FileType::File))
    }

    pub(super) fn stat_dir(&self) -> io::Result<Stat> {
        let dir = self.levels.last().and_then(|level| level.dir.as_ref());
        dir.map_or_else(|| Err(io::ErrorKind::NotFound.into()), Dir::stat_self)
    }

    /// Calls `ask` with the directory and name of the file that [`Self::next`] has just returned.
    /// Returns the result of `ask`, or `None` if the file is gone or cannot be read.
    pub(super) fn with<T>(
        &mut self,
        file: &WalkEntry,
        ask: impl FnOnce(&Dir, &OsStr) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let Some(dir) = self.innermost()? else { return Ok(None) };
        let answer = ask(dir, file.path.file_name());
        self.read(Some(&file.path), answer)
    }

    pub(super) fn finish(self) -> SkippedPlaces {
        self.left_out
    }

    /// Enters the directory at `path`, which must be in the innermost directory. Returns false if
    /// it is too deep or cannot be read.
    fn descend(&mut self, path: &RelPath) -> io::Result<bool> {
        if self.levels.len() > MAX_LEVELS {
            let why = format_args!("it is more than {MAX_LEVELS} directories deep");
            self.left_out.unread.add(path.to_text(), why);
            return Ok(false);
        }
        let Some(within) = self.innermost()? else { return Ok(false) };
        let opened = within.open_dir(path.file_name());
        self.enter(Some(path.clone()), opened)
    }

    fn enter(&mut self, path: Option<RelPath>, opened: io::Result<Dir>) -> io::Result<bool> {
        let Some(dir) = self.read(path.as_ref(), opened)? else { return Ok(false) };
        let enters = (self.enters)(&dir);
        if self.read(path.as_ref(), enters)? != Some(true) {
            return Ok(false);
        }
        let number = self.entered;
        self.entered += 1;
        let entries = dir.entries();
        let Some(mut entries) = self.read(path.as_ref(), entries)? else { return Ok(false) };
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(outer) = self.levels.len().checked_sub(HELD) {
            self.levels[outer].dir = None;
        }
        self.levels.push(WalkLevel { path, number, dir: Some(dir), entries: entries.into_iter() });
        Ok(true)
    }

    /// Returns the innermost directory, and opens it again if it is not held open. If that fails,
    /// skips the rest of its entries and returns `None`.
    fn innermost(&mut self) -> io::Result<Option<&Dir>> {
        let Some(level) = self.levels.last() else { return Ok(None) };
        if level.dir.is_none() {
            let path = level.path.clone();
            let opened = match &path {
                Some(path) => self.base.open_dir_at(path),
                None => self.base.try_clone(),
            };
            let dir = self.read(path.as_ref(), opened)?;
            if dir.is_none() {
                self.levels.pop();
                return Ok(None);
            }
            self.levels.last_mut().expect("it was there").dir = dir;
        }
        Ok(self.levels.last().and_then(|level| level.dir.as_ref()))
    }

    fn read<T>(&mut self, path: Option<&RelPath>, read: io::Result<T>) -> io::Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.left_out.gone += 1;
                Ok(None)
            }
            Err(error) if error::is_of_place(&error) => {
                let path = path.map_or_else(|| ".".to_owned(), RelPath::to_text);
                self.left_out.unread.add(path, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// A limit on the memory for the long paths in a list.
///
/// A path may have 64 KiB, and a directory with such a path may contain any number of files. A list
/// therefore accepts long paths only up to a total of 64 MiB. Further long paths are reported as
/// unread. Other paths are always accepted.
#[derive(Debug)]
pub(super) struct PathBudget {
    left: usize,
    unread: UnreadPlaces,
}

impl PathBudget {
    pub(super) fn new() -> Self {
        Self { left: MAX_BYTES, unread: UnreadPlaces::default() }
    }

    pub(super) fn takes(&mut self, path: &RelPath) -> bool {
        let bytes = path.as_os_str().len();
        if bytes < LONG {
            return true;
        }
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None if self.unread.is_empty() => {
                let why = "there are too many paths of more than a KiB: move it further up";
                self.unread.add(path.to_text(), why);
            }
            None => self.unread.add_unnamed(1),
        }
        self.unread.is_empty()
    }

    pub(super) fn finish(self) -> UnreadPlaces {
        self.unread
    }
}

#[cfg(test)]
mod tests;
