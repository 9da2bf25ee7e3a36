//! Directories with everything in them, however deep: nothing here recurses, and nothing holds more
//! than three descriptors.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::Dir;
use crate::stat::FileType;

/// The most directories that [`Dir::height`] looks at, which takes some 100 ms.
const MEASURED: usize = 10_000;
/// The links of a directory without directories in it, on disks that count those. Others have 1.
const LINKS_OF_LEAF: u32 = 2;

impl Dir {
    /// Removes a file, or a directory with everything in it.
    ///
    /// A directory in it that is not empty is moved to its top first, so that neither a deep tree
    /// nor a wide one costs descriptors. If this is cut off, everything left is still in it.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        match self.unlink(name) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ISDIR) => {}
            removed => return removed,
        }
        let mut emptying = Emptying::of(self.open_dir(name)?);
        emptying.empty(None)?;
        while let Some(name) = emptying.left.pop() {
            emptying.empty(Some(&name))?;
            emptying.top.rmdir(&name)?;
        }
        self.rmdir(name)
    }

    /// Returns the number of directories that lie inside each other in the directory `name`: 0 if
    /// there is none in it, and `most` + 1 if there are more than `most`. Returns `None` if it has
    /// more than 10,000 directories. What cannot be read counts as empty.
    pub fn height(&self, name: &OsStr, most: usize) -> io::Result<Option<usize>> {
        let top = self.open_dir(name)?;
        let (mut height, mut seen) = (0, 0);
        let mut left = vec![(top.subdirectories()?, Vec::new())];
        while let Some((names, path)) = left.last_mut() {
            let Some(name) = names.pop() else {
                left.pop();
                continue;
            };
            let mut path = path.clone();
            path.push(name);
            height = height.max(path.len());
            seen += 1;
            if height > most {
                return Ok(Some(height));
            }
            if seen > MEASURED {
                return Ok(None);
            }
            let inner = top.open_dir_below(&path).and_then(|dir| dir.subdirectories());
            match inner {
                Ok(inner) => left.push((inner, path)),
                Err(error) if is_unreadable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(height))
    }

    /// Returns the names of the directories in this one.
    fn subdirectories(&self) -> io::Result<Vec<OsString>> {
        if self.stat_self()?.nlink == LINKS_OF_LEAF {
            return Ok(Vec::new());
        }
        let entries = self.entries()?.into_iter();
        let directories = entries.filter(|entry| entry.kind == FileType::Directory);
        Ok(directories.map(|entry| entry.name).collect())
    }
}

/// A directory that is being emptied.
struct Emptying {
    top: Dir,
    /// The directories at its top that are not empty.
    left: Vec<OsString>,
    /// The beginning of the names of those that were moved there.
    prefix: u64,
    moved: u64,
}

impl Emptying {
    fn of(top: Dir) -> Self {
        let prefix = RandomState::new().hash_one(std::process::id());
        Self { top, left: Vec::new(), prefix, moved: 0 }
    }

    /// Empties the top, or the directory `name` there. Directories that are not empty are then at
    /// the top.
    fn empty(&mut self, name: Option<&OsStr>) -> io::Result<()> {
        let inner = name.map(|name| self.top.open_dir(name)).transpose()?;
        for entry in inner.as_ref().unwrap_or(&self.top).entries()? {
            let dir = inner.as_ref().unwrap_or(&self.top);
            if entry.kind != FileType::Directory {
                dir.unlink(&entry.name)?;
                continue;
            }
            match dir.rmdir(&entry.name) {
                Err(error) if is_full(&error) => {}
                removed => {
                    removed?;
                    continue;
                }
            }
            let Some(inner) = &inner else {
                self.left.push(entry.name);
                continue;
            };
            self.moved += 1;
            let name = OsString::from(format!("{:016x}-{}", self.prefix, self.moved));
            inner.rename(&entry.name, &self.top, &name, RenameFlags::empty())?;
            self.left.push(name);
        }
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOTEMPTY | Errno::EXIST))
}

/// Returns true if a directory cannot be read, and others may be.
fn is_unreadable(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS)
    )
}
