//! The artifacts below a directory of a conversation.

use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::model::RelPath;
use crate::model::is_scratch;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::stat::Kind;
use crate::store::stat::Stat;

/// Directories that are held open. Files of others are opened by their path, which takes longer.
const HELD: usize = 64;

/// The artifacts below a directory of a conversation, newest first: found, and not opened.
///
/// The order is that of `Record::created`, and of the path where two have the same; without a
/// record, what the disk says counts.
#[derive(Debug)]
pub struct Artifacts {
    base: Dir,
    folders: Vec<Folder>,
    files: Vec<Found>,
}

/// What the artifacts of a conversation take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// How many there are.
    pub artifacts: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A directory that was walked.
#[derive(Debug)]
struct Folder {
    /// From the base on; none for the base itself.
    path: Option<RelPath>,
    held: Option<Dir>,
}

#[derive(Debug)]
struct Found {
    /// From the base on.
    path: RelPath,
    folder: usize,
    created: i64,
}

impl Artifacts {
    /// Finds the artifacts below the directory `base`; without one, all of the conversation.
    ///
    /// `entering` sees each directory before its names are read.
    pub fn below(
        conversation: &Conversation,
        base: Option<&RelPath>,
        entering: impl FnMut(&Dir),
    ) -> Result<Self, StoreError> {
        let dir = conversation.dir();
        let found = match base {
            None => dir.try_clone().and_then(|dir| walk(dir, artifacts(), entering)),
            Some(base) => dir.open_dir_at(base).and_then(|dir| walk(dir, None, entering)),
        };
        let mut found = found.map_err(|error| conversation.listing_fault(error))?;
        // As the manifest knows them.
        let prefix = base.map_or_else(String::new, |base| format!("{base}/"));
        let paths = found.files.iter().map(|file| format!("{prefix}{}", file.path));
        let created = conversation.created(paths)?;
        for (number, created) in created.into_iter().enumerate() {
            found.files[number].created = created.unwrap_or_else(|| found.created_on_disk(number));
        }
        found.files.sort_unstable_by(|a, b| (b.created, &b.path).cmp(&(a.created, &a.path)));
        Ok(found)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The path of one from the directory on.
    pub fn path(&self, number: usize) -> &RelPath {
        &self.files[number].path
    }

    /// Opens one for reading.
    pub fn open(&self, number: usize) -> io::Result<File> {
        let file = &self.files[number];
        match &self.folders[file.folder].held {
            Some(folder) => folder.open_file(file.path.file_name(), OFlags::RDONLY),
            None => self.base.open_file_at(&file.path, OFlags::RDONLY),
        }
    }

    /// All of a conversation, in no order.
    pub(super) fn all(conversation: &Conversation) -> io::Result<Vec<RelPath>> {
        let found = walk(conversation.dir().try_clone()?, artifacts(), |_| {})?;
        Ok(found.files.into_iter().map(|file| file.path).collect())
    }

    /// How many artifacts a conversation has, and their bytes.
    pub(super) fn used(conversation: &Conversation) -> io::Result<Used> {
        let found = walk(conversation.dir().try_clone()?, artifacts(), |_| {})?;
        let sizes = (0..found.len()).filter_map(|number| found.stat(number).ok());
        let bytes = sizes.map(|stat| stat.size).sum();
        Ok(Used { artifacts: found.len() as u64, bytes })
    }

    /// As `Conversation::fresh_record` has it. What is gone is the oldest.
    fn created_on_disk(&self, number: usize) -> i64 {
        self.stat(number).map_or(i64::MIN, |stat| stat.created().as_millis())
    }

    fn stat(&self, number: usize) -> io::Result<Stat> {
        let file = &self.files[number];
        match &self.folders[file.folder].held {
            Some(folder) => folder.stat(file.path.file_name()),
            None => self.base.stat_at(&file.path),
        }
    }
}

/// Where the artifacts of a conversation are.
fn artifacts() -> Option<RelPath> {
    RelPath::new("artifacts").ok()
}

/// Finds all artifacts below `start` in `base`, in no order.
fn walk(
    base: Dir,
    start: Option<RelPath>,
    mut entering: impl FnMut(&Dir),
) -> io::Result<Artifacts> {
    let start = Folder { path: start, held: None };
    let mut found = Artifacts { base, folders: vec![start], files: Vec::new() };
    let mut next = 0;
    while next < found.folders.len() {
        match found.open_folder(next) {
            Ok(folder) => {
                entering(&folder);
                found.list(next, folder)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        next += 1;
    }
    Ok(found)
}

impl Artifacts {
    fn open_folder(&self, number: usize) -> io::Result<Dir> {
        match &self.folders[number].path {
            Some(path) => self.base.open_dir_at(path),
            None => self.base.try_clone(),
        }
    }

    fn list(&mut self, number: usize, folder: Dir) -> io::Result<()> {
        for entry in folder.entries()? {
            let within = self.folders[number].path.as_ref();
            let Ok(path) = RelPath::below(within, &entry.name) else { continue };
            match entry.kind {
                Kind::Directory => self.folders.push(Folder { path: Some(path), held: None }),
                Kind::File if !is_scratch(&entry.name) => {
                    self.files.push(Found { path, folder: number, created: 0 });
                }
                Kind::File | Kind::Other => {}
            }
        }
        self.folders[number].held = Some(folder).filter(|_| number < HELD);
        Ok(())
    }
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
    fn more_directories_than_are_held() {
        let (temporary, conversation) = conversation();
        for number in 0..HELD + 5 {
            write(&temporary, &format!("artifacts/tool/d{number}/x"));
        }
        assert_eq!(below(&conversation, None).len(), HELD + 5);
        let used = Used { artifacts: (HELD + 5) as u64, bytes: (HELD + 5) as u64 * 4 };
        assert_eq!(conversation.used().unwrap(), used);
        let mut entered = 0;
        Artifacts::below(&conversation, None, |_| entered += 1).unwrap();
        assert_eq!(entered, HELD + 5 + 3);
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
