//! The artifacts below a directory of a conversation.

use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::model::RelPath;
use crate::model::is_scratch;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::stat::FileType;
use crate::store::stat::Stat;

/// The most directories that are kept open. Files in others are opened by their path, which takes
/// longer.
const OPEN_DIRS: usize = 64;

/// The artifacts below a directory of a conversation, newest first. None of them is opened yet.
///
/// They are ordered by `Record::created` and then by path. A file without a record counts as
/// created when the disk says.
#[derive(Debug)]
pub struct Artifacts {
    base: Dir,
    dirs: Vec<WalkedDir>,
    files: Vec<ArtifactFile>,
}

/// The number and size of the artifacts of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The number of artifacts.
    pub artifacts: u64,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
}

/// A directory of the walk.
#[derive(Debug)]
struct WalkedDir {
    /// The path relative to the base; `None` for the base itself.
    path: Option<RelPath>,
    open: Option<Dir>,
}

/// An artifact of the list.
#[derive(Debug)]
struct ArtifactFile {
    /// The path relative to the base.
    path: RelPath,
    /// The index of its directory in [`Artifacts::dirs`].
    dir: usize,
    /// In milliseconds since the epoch, as `Record::created`.
    created: i64,
}

impl Conversation {
    /// Returns the paths of all artifacts on disk, with or without a record, in no order.
    pub fn artifacts(&self) -> Result<Vec<RelPath>, StoreError> {
        let found = Artifacts::of(self).map_err(|error| self.listing_error(error))?;
        Ok(found.files.into_iter().map(|file| file.path).collect())
    }

    /// Counts the artifacts on disk and their bytes. Asks the disk for each of them.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        let found = Artifacts::of(self).map_err(|error| self.listing_error(error))?;
        let sizes = (0..found.len()).filter_map(|number| found.stat(number).ok());
        let bytes = sizes.map(|stat| stat.size).sum();
        Ok(Usage { artifacts: found.len() as u64, bytes })
    }
}

impl Artifacts {
    /// Finds the artifacts below the directory `base`, or all of the conversation if there is no
    /// `base`. Calls `entering` with each directory before its names are read.
    pub fn below(
        conversation: &Conversation,
        base: Option<&RelPath>,
        entering: impl FnMut(&Dir),
    ) -> Result<Self, StoreError> {
        let dir = conversation.dir();
        let found = match base {
            None => dir.try_clone().and_then(|dir| Self::walk(dir, artifacts(), entering)),
            Some(base) => dir.open_dir_at(base).and_then(|dir| Self::walk(dir, None, entering)),
        };
        let mut found = found.map_err(|error| conversation.listing_error(error))?;
        // The manifest knows files by their paths in the conversation.
        let prefix = base.map_or_else(String::new, |base| format!("{base}/"));
        let paths = found.files.iter().map(|file| format!("{prefix}{}", file.path));
        let created = conversation.manifest().created(paths)?;
        for (number, created) in created.into_iter().enumerate() {
            found.files[number].created = created.unwrap_or_else(|| found.created_on_disk(number));
        }
        found.files.sort_unstable_by(|a, b| (b.created, &b.path).cmp(&(a.created, &a.path)));
        Ok(found)
    }

    /// Returns the number of artifacts.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns true if there are no artifacts.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the path of the artifact `number`, relative to the directory.
    pub fn path(&self, number: usize) -> &RelPath {
        &self.files[number].path
    }

    /// Opens the artifact `number` for reading.
    pub fn open(&self, number: usize) -> io::Result<File> {
        let file = &self.files[number];
        match &self.dirs[file.dir].open {
            Some(dir) => dir.open_file(file.path.file_name(), OFlags::RDONLY),
            None => self.base.open_file_at(&file.path, OFlags::RDONLY),
        }
    }

    /// Finds all artifacts of a conversation, in no order.
    fn of(conversation: &Conversation) -> io::Result<Self> {
        Self::walk(conversation.dir().try_clone()?, artifacts(), |_| {})
    }

    /// Finds all artifacts below `start` in `base`, in no order.
    fn walk(base: Dir, start: Option<RelPath>, mut entering: impl FnMut(&Dir)) -> io::Result<Self> {
        let start = WalkedDir { path: start, open: None };
        let mut found = Self { base, dirs: vec![start], files: Vec::new() };
        let mut next = 0;
        while next < found.dirs.len() {
            match found.open_dir(next) {
                Ok(dir) => {
                    entering(&dir);
                    found.list(next, dir)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            next += 1;
        }
        Ok(found)
    }

    fn open_dir(&self, number: usize) -> io::Result<Dir> {
        match &self.dirs[number].path {
            Some(path) => self.base.open_dir_at(path),
            None => self.base.try_clone(),
        }
    }

    /// Adds the files and directories in `dir`, which is the one with this `number`.
    fn list(&mut self, number: usize, dir: Dir) -> io::Result<()> {
        for entry in dir.entries()? {
            let within = self.dirs[number].path.as_ref();
            let Ok(path) = RelPath::below(within, &entry.name) else { continue };
            match entry.kind {
                FileType::Directory => self.dirs.push(WalkedDir { path: Some(path), open: None }),
                FileType::File if !is_scratch(&entry.name) => {
                    self.files.push(ArtifactFile { path, dir: number, created: 0 });
                }
                FileType::File | FileType::Other => {}
            }
        }
        self.dirs[number].open = Some(dir).filter(|_| number < OPEN_DIRS);
        Ok(())
    }

    /// Returns when the file was created according to the disk, as `Conversation::fresh_record`
    /// does. A file that is gone sorts as the oldest.
    fn created_on_disk(&self, number: usize) -> i64 {
        self.stat(number).map_or(i64::MIN, |stat| stat.created().as_millis())
    }

    fn stat(&self, number: usize) -> io::Result<Stat> {
        let file = &self.files[number];
        match &self.dirs[file.dir].open {
            Some(dir) => dir.stat(file.path.file_name()),
            None => self.base.stat_at(&file.path),
        }
    }
}

/// Returns the directory of a conversation's artifacts.
fn artifacts() -> Option<RelPath> {
    RelPath::new("artifacts").ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::model::Component;
    use crate::model::Record;
    use crate::store::Store;

    fn conversation() -> (TempDir, Arc<Conversation>) {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let made = store.create_conversation(&Component::new("c").unwrap()).unwrap();
        (temporary, made)
    }

    fn write(temporary: &TempDir, path: &str) {
        let path = temporary.path().join("context/c").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    }

    fn record(path: &str, created: i64) -> Record {
        Record { path: path.to_owned(), created, generation: 1, ..Record::default() }
    }

    fn below(conversation: &Conversation, base: Option<&str>) -> Vec<String> {
        let base = base.map(|base| RelPath::new(base).unwrap());
        let found = Artifacts::below(conversation, base.as_ref(), |_| {}).unwrap();
        for number in 0..found.len() {
            assert_eq!(std::io::read_to_string(found.open(number).unwrap()).unwrap(), "text");
        }
        (0..found.len()).map(|at| found.path(at).to_text()).collect()
    }

    #[test]
    fn newest_first_by_record_and_disk() {
        let (temporary, conversation) = conversation();
        for name in ["tool/a", "tool/b", "tool/deep/er/c", "terminal/d", "tool/x.tmp", "tool/.y"] {
            write(&temporary, &format!("artifacts/{name}"));
        }
        write(&temporary, "history/z");
        symlink("a", temporary.path().join("context/c/artifacts/tool/link")).unwrap();
        conversation
            .manifest()
            .append(&[
                record("artifacts/tool/a", 30),
                record("artifacts/tool/b", 30),
                record("artifacts/tool/deep/er/c", 20),
            ])
            .unwrap();
        let all = ["terminal/d", "tool/b", "tool/a", "tool/deep/er/c"];
        assert_eq!(below(&conversation, Some("artifacts")), all);
        assert_eq!(below(&conversation, None), all.map(|path| format!("artifacts/{path}")));
        assert_eq!(below(&conversation, Some("artifacts/tool")), ["b", "a", "deep/er/c"]);
        assert_eq!(below(&conversation, Some("artifacts/tool/deep")), ["er/c"]);
    }

    #[test]
    fn more_directories_than_are_kept_open() {
        let (temporary, conversation) = conversation();
        for number in 0..OPEN_DIRS + 5 {
            write(&temporary, &format!("artifacts/tool/d{number}/x"));
        }
        assert_eq!(below(&conversation, None).len(), OPEN_DIRS + 5);
        let usage = Usage { artifacts: (OPEN_DIRS + 5) as u64, bytes: (OPEN_DIRS + 5) as u64 * 4 };
        assert_eq!(conversation.usage().unwrap(), usage);
        let mut entered = 0;
        Artifacts::below(&conversation, None, |_| entered += 1).unwrap();
        assert_eq!(entered, OPEN_DIRS + 5 + 3);
    }

    #[test]
    fn what_is_gone_is_not_found() {
        let (temporary, conversation) = conversation();
        write(&temporary, "artifacts/tool/a");
        let found = Artifacts::below(&conversation, None, |_| {}).unwrap();
        let dir = temporary.path().join("context/c/artifacts");
        fs::remove_dir_all(Path::new(&dir)).unwrap();
        assert_eq!(found.open(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(Artifacts::below(&conversation, None, |_| {}).unwrap().is_empty());
    }
}
