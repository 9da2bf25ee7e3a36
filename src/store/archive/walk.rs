//! What a conversation holds, in the order of an archive.

use std::io;
use std::vec;

use crate::model::RelPath;
use crate::store::dir::Dir;
use crate::store::dir::DirEntry;
use crate::store::layout;
use crate::store::stat::FileType;

/// All directories and files below a conversation's, depth first, the names in each directory in the
/// order of their bytes. Neither the store's own files nor links and the like.
///
/// Holds the names of the directories that it stands in, and no more.
pub(super) struct Walk<'a> {
    base: &'a Dir,
    levels: Vec<PendingDir>,
}

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

    /// What is next: a directory comes before what it holds.
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

    /// Whether it is still there.
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
