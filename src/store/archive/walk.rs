//! Walking the files of a conversation in the order of an archive.

use std::io;
use std::vec;

use crate::model::RelPath;
use crate::store::dir::Dir;
use crate::store::dir::DirEntry;
use crate::store::layout;
use crate::store::stat::FileType;

/// An iterator over all directories and files below that of a conversation, depth first, sorted by
/// the bytes of their names. Leaves out the store's own files, and links and other special files.
///
/// Holds only the names in the directories that contain the current file.
pub(super) struct Walk<'a> {
    base: &'a Dir,
    levels: Vec<PendingDir>,
}

/// A directory and its entries that have not been visited.
struct PendingDir {
    path: Option<RelPath>,
    entries: vec::IntoIter<DirEntry>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(base: &'a Dir) -> io::Result<Self> {
        let mut entries = base.entries()?;
        entries.retain(|entry| !layout::is_bookkeeping(&entry.name));
        Ok(Self { base, levels: vec![level(None, entries)] })
    }

    /// Returns the next directory or file. A directory comes before its entries.
    fn step(&mut self) -> io::Result<Option<(RelPath, FileType)>> {
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let Ok(path) = RelPath::below(level.path.as_ref(), &entry.name) else { continue };
            match entry.kind {
                FileType::File => return Ok(Some((path, FileType::File))),
                FileType::Directory if self.enter(&path)? => {
                    return Ok(Some((path, FileType::Directory)));
                }
                FileType::Directory | FileType::Other => {}
            }
        }
        Ok(None)
    }

    /// Lists the directory at `path`. Returns false if it has been removed.
    fn enter(&mut self, path: &RelPath) -> io::Result<bool> {
        match self.base.open_dir_at(path).and_then(|dir| dir.entries()) {
            Ok(entries) => self.levels.push(level(Some(path.clone()), entries)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }
}

fn level(path: Option<RelPath>, mut entries: Vec<DirEntry>) -> PendingDir {
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    PendingDir { path, entries: entries.into_iter() }
}

impl Iterator for Walk<'_> {
    type Item = io::Result<(RelPath, FileType)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
