//! Lists of the artifacts of a conversation, and the search for artifacts with similar names.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::OFlags;

use crate::layout::{HISTORY, MESSAGES};
use crate::walk::{DirWalk, PathBudget, WalkEntry};
use crate::{Conversation, Dir, FarArtifact, FileType, Stat, StoreError, UnreadPlaces, error};
use ctxfs_core::model::{RelPath, is_scratch, without_digits};

/// Maximum number of directories that are kept open. A file in any other directory is opened by its
/// path, which takes longer.
const OPEN_DIRS: usize = 64;

/// The artifacts below a directory of a conversation, newest first. Listing them does not open the
/// files.
///
/// Artifacts are ordered by `Record::created` and then by path. The creation time of a file without
/// a record comes from the disk. The methods identify an artifact by its position in this order,
/// its `number`.
#[derive(Debug)]
pub struct Artifacts {
    base: Dir,
    dirs: Vec<Dir>,
    files: Vec<ArtifactFile>,
    unread: UnreadPlaces,
}

/// The artifacts of a conversation on disk, with their attributes, sorted by the components of the
/// path. `unread` are the places that could not be read, by path in the conversation.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct StoredArtifacts {
    pub files: Vec<(RelPath, Stat)>,
    pub unread: UnreadPlaces,
}

#[derive(Debug)]
struct ArtifactFile {
    path: RelPath,
    dir: usize,
    created: i64,
    far: Option<Box<FarArtifact>>,
}

impl Conversation {
    /// Returns the artifacts on disk, with or without a record, and their attributes. Skips places
    /// that cannot be read.
    pub fn artifacts(&self) -> Result<StoredArtifacts, StoreError> {
        let (mut files, mut budget) = (Vec::new(), PathBudget::new());
        let mut unread = each_artifact(self, |path, stat| {
            if budget.takes(&path) {
                files.push((path, stat));
            }
        })?;
        unread.extend(budget.finish());
        Ok(StoredArtifacts { files, unread })
    }

    /// Returns the artifacts on disk and the artifacts whose bytes are only in the bucket.
    pub fn all_artifacts(&self) -> Result<StoredArtifacts, StoreError> {
        let mut found = self.artifacts()?;
        match self.far_artifacts(None) {
            Ok(far) => found.files.extend(far.into_iter().map(|far| (far.path, far.stat))),
            Err(error) => found.unread.pass_over(self.path(), error)?,
        }
        Ok(found)
    }
}

fn each_artifact(
    conversation: &Conversation,
    mut meet: impl FnMut(RelPath, Stat),
) -> Result<UnreadPlaces, StoreError> {
    let mut walk = || {
        let mut walk =
            DirWalk::new(conversation.dir().try_clone()?, artifacts_dir(), |_| Ok(true))?;
        while let Some(file) = next_artifact(&mut walk)? {
            if let Some(stat) = walk.stat(&file)? {
                meet(file.path, stat);
            }
        }
        Ok(walk.finish().unread)
    };
    walk().map_err(|error| conversation.listing_error(error))
}

impl Artifacts {
    /// Finds the artifacts below the directory `base`, or in the whole conversation if `base` is
    /// `None`. Calls `enters` with each directory before its names are read. If `enters` returns
    /// false, the directory and everything below it are left out.
    ///
    /// Skips places that cannot be read. If the manifest cannot be read, the artifacts are ordered
    /// by the creation times of the disk.
    pub fn below(
        conversation: &Conversation,
        base: Option<&RelPath>,
        enters: impl FnMut(&Dir) -> io::Result<bool>,
    ) -> Result<Self, StoreError> {
        let dir = conversation.dir();
        let found = match base {
            None => dir.try_clone().and_then(|dir| Self::walk(dir, artifacts_dir(), enters)),
            Some(base) => dir.open_dir_at(base).and_then(|dir| Self::walk(dir, None, enters)),
        };
        let (mut found, entered) = found.map_err(|error| conversation.listing_error(error))?;
        found.add_far(conversation, base, &entered)?;
        found.set_created(conversation, base)?;
        found.files.sort_unstable_by(|a, b| (b.created, &b.path).cmp(&(a.created, &a.path)));
        Ok(found)
    }

    /// Adds the message log after the artifacts of the whole conversation, if it has messages.
    pub fn add_messages(&mut self) {
        let Ok(path) = RelPath::new(format!("{HISTORY}/{MESSAGES}")) else { return };
        let stat = self.base.stat_at(&path);
        if stat.is_ok_and(|stat| stat.kind() == FileType::File && stat.size > 0) {
            self.files.push(ArtifactFile { path, dir: usize::MAX, created: i64::MIN, far: None });
        }
    }

    /// Returns the number of artifacts.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Returns the path of artifact `number`, relative to the base.
    pub fn path(&self, number: usize) -> &RelPath {
        &self.files[number].path
    }

    /// Returns the places that could not be read, by path relative to the base.
    pub fn unread(&self) -> &UnreadPlaces {
        &self.unread
    }

    /// Returns artifact `number` if its bytes are not on this disk, and `None` otherwise.
    pub fn far(&self, number: usize) -> Option<&FarArtifact> {
        self.files[number].far.as_deref()
    }

    /// Opens artifact `number` for reading. Fails if its bytes are not on this disk.
    pub fn open(&self, number: usize) -> io::Result<File> {
        let file = &self.files[number];
        match self.dirs.get(file.dir) {
            Some(dir) => dir.open_file(file.path.file_name(), OFlags::RDONLY),
            None => self.base.open_file_at(&file.path, OFlags::RDONLY),
        }
    }

    /// Returns the attributes of artifact `number`. Returns `None` if the artifact is gone or its
    /// attributes cannot be read. In the second case, adds its path to `unread`.
    pub fn stat(&self, number: usize, unread: &mut UnreadPlaces) -> io::Result<Option<Stat>> {
        if let Some(far) = self.far(number) {
            return Ok(Some(far.stat));
        }
        match error::if_there(self.stat_now(number)) {
            Ok(stat) => Ok(stat.filter(|stat| stat.kind() == FileType::File)),
            Err(error) if error::is_of_place(&error) => {
                unread.add(self.path(number).to_text(), error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn stat_now(&self, number: usize) -> io::Result<Stat> {
        let file = &self.files[number];
        match self.dirs.get(file.dir) {
            Some(dir) => dir.stat(file.path.file_name()),
            None => self.base.stat_at(&file.path),
        }
    }

    fn walk(
        base: Dir,
        start: Option<RelPath>,
        mut enters: impl FnMut(&Dir) -> io::Result<bool>,
    ) -> io::Result<(Self, HashSet<RelPath>)> {
        let (mut dirs, mut files, mut budget) = (Vec::new(), Vec::new(), PathBudget::new());
        let mut entered: HashSet<RelPath> = start.iter().cloned().collect();
        let mut walk = DirWalk::new(base.try_clone()?, start, |dir| {
            let entered = enters(dir)?;
            if entered && dirs.len() < OPEN_DIRS {
                dirs.push(dir.try_clone()?);
            }
            Ok(entered)
        })?;
        while let Some(WalkEntry { path, dir, kind }) = walk.next()? {
            if kind == FileType::Directory {
                entered.insert(path);
            } else if !path.is_hidden() && !is_scratch(path.file_name()) && budget.takes(&path) {
                files.push(ArtifactFile { path, dir, created: 0, far: None });
            }
        }
        let mut unread = walk.finish().unread;
        unread.extend(budget.finish());
        Ok((Self { base, dirs, files, unread }, entered))
    }

    fn add_far(
        &mut self,
        conversation: &Conversation,
        base: Option<&RelPath>,
        entered: &HashSet<RelPath>,
    ) -> Result<(), StoreError> {
        let above = base.map_or(0, |base| base.as_os_str().len() + 1);
        let prefix = base.map_or_else(String::new, |base| format!("{base}/"));
        let dirs =
            entered.iter().filter_map(|dir| RelPath::from_text(&format!("{prefix}{dir}")).ok());
        for dir in base.cloned().into_iter().chain(dirs) {
            let far = match conversation.far_artifacts(Some(&dir)) {
                Ok(far) => far,
                Err(error) => return self.unread.pass_over(conversation.path(), error),
            };
            for artifact in far {
                let below =
                    std::ffi::OsStr::from_bytes(&artifact.path.as_os_str().as_bytes()[above..]);
                let Ok(path) = RelPath::new(below) else { continue };
                let (dir, created) = (usize::MAX, artifact.record.created);
                self.files.push(ArtifactFile { path, dir, created, far: Some(Box::new(artifact)) });
            }
        }
        Ok(())
    }

    fn set_created(
        &mut self,
        conversation: &Conversation,
        base: Option<&RelPath>,
    ) -> Result<(), StoreError> {
        // The paths in the manifest are relative to the conversation.
        let prefix = base.map_or_else(String::new, |base| format!("{base}/"));
        let paths = self.files.iter().map(|file| format!("{prefix}{}", file.path));
        let recorded = match conversation.manifest().created(paths) {
            Ok(recorded) => recorded,
            Err(error) => {
                self.unread.pass_over(conversation.path(), error)?;
                vec![None; self.files.len()]
            }
        };
        for (number, recorded) in recorded.into_iter().enumerate() {
            self.files[number].created = recorded.unwrap_or_else(|| self.created_on_disk(number));
        }
        Ok(())
    }

    /// Returns the time of creation according to the disk, in milliseconds since the epoch.
    /// `Conversation::fresh_record` uses the same time. A file that no longer exists counts as the
    /// oldest.
    fn created_on_disk(&self, number: usize) -> i64 {
        if let Some(far) = self.far(number) {
            return far.record.created;
        }
        self.stat_now(number).map_or(i64::MIN, |stat| stat.created().as_millis())
    }
}

fn next_artifact<F: FnMut(&Dir) -> io::Result<bool>>(
    walk: &mut DirWalk<F>,
) -> io::Result<Option<WalkEntry>> {
    while let Some(found) = walk.next()? {
        if found.kind == FileType::File && found.path.is_artifact() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn artifacts_dir() -> Option<RelPath> {
    RelPath::new("artifacts").ok()
}

impl Conversation {
    /// Returns the outputs that may have been written under the same name as the output at `path`,
    /// sorted by path. The names of such outputs differ only by the digits of an origin, for
    /// example `x~3f09ab.txt` and `x.txt`. Only the hosts that wrote the outputs know whether the
    /// original names were equal.
    ///
    /// If there is no such output, this costs one `stat`.
    pub fn alike(&self, path: &RelPath) -> Result<Vec<RelPath>, StoreError> {
        let mut alike = Vec::new();
        if !path.is_artifact() {
            return Ok(alike);
        }
        let text = path.to_text();
        for record in self.manifest().with_digits(&text)? {
            alike.extend(RelPath::from_text(&record?.path).ok());
        }
        alike.extend(without_digits(&text).and_then(|plain| RelPath::from_text(&plain).ok()));
        let mut there = Vec::new();
        for path in alike {
            if has_output(self, &path)? {
                there.push(path);
            }
        }
        there.sort_unstable();
        Ok(there)
    }
}

fn has_output(conversation: &Conversation, path: &RelPath) -> Result<bool, StoreError> {
    let is_here = path.is_artifact() && conversation.dir().stat_at(path).is_ok();
    Ok(is_here || conversation.far(path)?.is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::mere_owner::as_mere_owner;
    use crate::{ArtifactWriter, Store, Usage};
    use ctxfs_core::model::{Component, Folder, Provenance, Record};

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
        let found = Artifacts::below(conversation, base.as_ref(), |_| Ok(true)).unwrap();
        for number in 0..found.count() {
            assert_eq!(std::io::read_to_string(found.open(number).unwrap()).unwrap(), "text");
        }
        (0..found.count()).map(|at| found.path(at).to_text()).collect()
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
        let usage = Usage::of(&conversation).unwrap();
        assert_eq!(usage.artifacts, (OPEN_DIRS + 5) as u64 * 4);
        let mut entered = 0;
        let count = |_: &Dir| {
            entered += 1;
            Ok(true)
        };
        Artifacts::below(&conversation, None, count).unwrap();
        assert_eq!(entered, OPEN_DIRS + 5 + 3);
    }

    #[test]
    fn what_is_gone_is_not_found() {
        let (temporary, conversation) = conversation();
        write(&temporary, "artifacts/tool/a");
        let found = Artifacts::below(&conversation, None, |_| Ok(true)).unwrap();
        let dir = temporary.path().join("context/c/artifacts");
        fs::remove_dir_all(Path::new(&dir)).unwrap();
        assert_eq!(found.open(0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Artifacts::below(&conversation, None, |_| Ok(true)).unwrap().count(), 0);
    }

    #[test]
    fn without_its_manifest_a_conversation_is_listed_all_the_same() {
        let (temporary, conversation) = conversation();
        write(&temporary, "artifacts/tool/a");
        fs::create_dir(temporary.path().join("context/c/manifest.jsonl")).unwrap();
        let found = Artifacts::below(&conversation, None, |_| Ok(true)).unwrap();
        assert_eq!((found.count(), found.unread().count()), (1, 1));
        assert_eq!(found.unread().named()[0].path, "manifest.jsonl");
        assert_eq!(Usage::of(&conversation).unwrap().artifacts, 4);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_path() {
        let (temporary, conversation) = conversation();
        for path in ["artifacts/tool/a", "artifacts/tool/shut/b"] {
            write(&temporary, path);
        }
        let shut = temporary.path().join("context/c/artifacts/tool/shut");
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
        as_mere_owner(|| {
            let named = |base: Option<&str>| {
                let base = base.map(|base| RelPath::new(base).unwrap());
                let found = Artifacts::below(&conversation, base.as_ref(), |_| Ok(true)).unwrap();
                assert_eq!(found.count(), 1);
                found.unread().named().iter().map(|place| place.path.clone()).collect::<Vec<_>>()
            };
            assert_eq!(named(None), ["artifacts/tool/shut"]);
            assert_eq!(named(Some("artifacts/tool")), ["shut"]);
            assert_eq!(conversation.artifacts().unwrap().unread.count(), 1);
            assert_eq!(Usage::of(&conversation).unwrap().artifacts, 4);
        });
        fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn files_at_the_end_of_long_paths_take_bounded_memory() {
        let (temporary, conversation) = conversation();
        write(&temporary, "artifacts/tool/a");
        let artifacts = conversation.dir().open_dir("artifacts".as_ref()).unwrap();
        let dir = artifacts.nest(&"n".repeat(255), 240);
        for number in 0..1200 {
            let name = format!("x{number:04}");
            dir.create_file(name.as_ref(), OFlags::WRONLY, 0o600).unwrap();
        }
        let found = conversation.artifacts().unwrap();
        let bytes: usize = found.files.iter().map(|(path, _)| path.as_os_str().len()).sum();
        assert!(bytes <= 65 << 20 && found.files.len() > 1000, "{bytes}");
        assert_eq!(found.files.len() as u64 + found.unread.count(), 1201);
        let searched = Artifacts::below(&conversation, None, |_| Ok(true)).unwrap();
        assert_eq!(searched.count() as u64 + searched.unread().count(), 1201);
    }

    #[test]
    fn names_that_differ_by_digits_are_alike_while_their_outputs_are_there() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        for call in ["x", "x~3f09ab", "x~77aa01", "x~none", "y~3f09ab"] {
            let provenance = Provenance::default();
            let writer =
                ArtifactWriter::create_for_call(&conversation, Folder::Tool, call, provenance);
            writer.and_then(ArtifactWriter::seal).unwrap();
        }
        let at = |name: &str| RelPath::new(format!("artifacts/tool/{name}")).unwrap();
        let alike = |name: &str| {
            let found = conversation.alike(&at(name)).unwrap().into_iter();
            found.map(|path| path.file_name().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(alike("x.txt"), ["x~3f09ab.txt", "x~77aa01.txt"]);
        assert_eq!(alike("x~77aa01.txt"), ["x.txt"]);
        for name in ["x~none.txt", "y~3f09ab.txt", "z.txt", "x~3f09ab.log"] {
            assert_eq!(alike(name), [""; 0], "{name}");
        }
        let tool = temporary.path().join("context/c7/artifacts/tool");
        fs::remove_file(tool.join("x~3f09ab.txt")).unwrap();
        assert_eq!(alike("x.txt"), ["x~77aa01.txt"]);
        fs::remove_file(tool.join("x.txt")).unwrap();
        assert_eq!(alike("x~77aa01.txt"), [""; 0]);
    }
}
