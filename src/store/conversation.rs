//! A conversation: its directory and the records of its artifacts.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, slice};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{
    Artifact, Dir, FileType, Lease, Manifest, ManifestLock, Stat, StoreError, StoredRecords,
    attributes, if_there, layout, lease_of, owner_lives, stat_file,
};
use ctxfs_core::model::{ArtifactState, Component, Folder, Provenance, Record, RelPath};

const DIED: &str = "its writer or the daemon stopped before it was closed";

/// An open conversation.
///
/// Records are read from the disk at each call, and include the records of all processes. The
/// modules `artifacts`, `counts`, `far`, `gateway`, `history` and `removal` add methods for one
/// subject each. Operations that combine several subjects are functions in `shared` and `archive`.
#[derive(Debug)]
pub struct Conversation {
    id: Component,
    path: PathBuf,
    dir: Arc<Dir>,
    stat: Stat,
    manifest: Manifest,
}

impl Conversation {
    pub(super) fn new(id: Component, path: PathBuf, dir: Dir) -> io::Result<Self> {
        let stat = dir.stat_self()?;
        let dir = Arc::new(dir);
        let manifest = Manifest::new(Arc::clone(&dir), path.join(layout::MANIFEST));
        Ok(Self { id, path, dir, stat, manifest })
    }

    /// Returns the id, which is also the name of the directory.
    pub fn id(&self) -> &Component {
        &self.id
    }

    /// Returns the directory. It is held open, so it is the same directory even after a rename.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the manifest, which is the file of records.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns true if the conversation has a manifest. A conversation without a manifest is new or
    /// has lost its records.
    pub fn has_manifest(&self) -> Result<bool, StoreError> {
        let found = if_there(self.dir.stat(layout::MANIFEST.as_ref()));
        let fault = |error| StoreError::io("look at", &self.path.join(layout::MANIFEST), error);
        Ok(found.map_err(fault)?.is_some())
    }

    /// Returns the path of the directory, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the attributes that the directory had when it was opened.
    pub(super) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Returns the record of the file at `path`, or `None` if no record was written or the file is
    /// gone.
    ///
    /// A record of removed content is returned only if the file still exists as recorded. The
    /// removal was then interrupted before it took effect, and `removed` is `None` in the returned
    /// record.
    pub fn record(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let record = self.manifest.record(&path.to_text())?;
        Ok(record.and_then(|record| {
            let is_there = record.removed.is_none()
                || self.dir.stat_at(path).is_ok_and(|stat| stat.matches(&record));
            is_there.then_some(Record { removed: None, ..record })
        }))
    }

    /// Returns the record of content that was removed from `path`, or `None` if a file exists there
    /// now.
    pub fn removed(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let record = self.manifest.record(&path.to_text())?;
        let removed = record.filter(|record| record.removed.is_some());
        Ok(removed.filter(|_| self.dir.stat_at(path).is_err()))
    }

    /// Returns the record of the file at `path`. If the file has no record, makes one from `stat`
    /// and the extended attributes of the file.
    pub fn record_for(&self, path: &RelPath, stat: &Stat) -> Result<Record, StoreError> {
        Ok(self.record(path)?.unwrap_or_else(|| Record {
            provenance: provenance_at(&self.dir, path),
            ..Self::fresh_record(path, stat)
        }))
    }

    /// Returns an initial record of the file at `path`: sealed, generation 1, not analysed.
    pub fn fresh_record(path: &RelPath, stat: &Stat) -> Record {
        Record {
            path: path.to_text(),
            generation: 1,
            state: ArtifactState::Sealed,
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            file: None,
            created: stat.created().as_millis(),
            owner: None,
            provenance: Provenance::default(),
            analysis: None,
            view_sizes: None,
            once: false,
            removed: None,
            far: None,
            since: None,
        }
    }

    /// Opens the artifact at `path`; see [`Artifact::open`].
    pub fn open_artifact(&self, path: &RelPath) -> Result<Artifact, StoreError> {
        Artifact::open(&self.dir, path).map_err(|error| self.error_at("read", path, error))
    }

    /// Returns the records of all artifacts that are not gone, in the order in which they were last
    /// written. Includes records of content that a rule removed.
    pub fn records(&self) -> Result<StoredRecords, StoreError> {
        self.manifest.records()?.with_paths(is_artifact)
    }

    /// Returns the records of [`Self::records`] whose artifacts lie below the directory at `path`.
    pub fn records_below(&self, path: &RelPath) -> Result<StoredRecords, StoreError> {
        let below = format!("{path}/");
        self.manifest.records()?.with_paths(|path| path.starts_with(&below) && is_artifact(path))
    }

    /// Returns the record of the file at `path`, or `None` if the file has no record. First
    /// recovers an artifact that is recorded as live; see [`Self::recover`]. The caller must not be
    /// the writer of the file. `lock` is the lock of the manifest, if the caller holds it.
    pub fn current_record(
        &self,
        path: &RelPath,
        lock: Option<&ManifestLock>,
    ) -> Result<Option<Record>, StoreError> {
        let record = self.record(path)?;
        if record.as_ref().is_none_or(|record| record.state != ArtifactState::Live) {
            return Ok(record);
        }
        Ok(self.recover(path, lock)?.or(record))
    }

    /// Marks the artifact at `path` as incomplete if its writer or daemon died. This is the case if
    /// the artifact is recorded as live, its owner has ended, and no process has the file open for
    /// writing.
    ///
    /// Returns the new record, which has no analysis. Returns `None` if the artifact is not live,
    /// if its writer is alive, or if the disk cannot tell whether the file has a writer. The caller
    /// must not be the writer.
    ///
    /// Without `lock`, this does not wait for the lock of the manifest. If another process holds
    /// that lock, or if this process has no write access, the new record is returned but not
    /// written.
    pub fn recover(
        &self,
        path: &RelPath,
        lock: Option<&ManifestLock>,
    ) -> Result<Option<Record>, StoreError> {
        // Most live records have a writer, and this check does not need the lock.
        let Some(record) = incomplete(self, path)? else { return Ok(None) };
        if let Some(lock) = lock {
            lock.append(slice::from_ref(&record))?;
            return Ok(Some(record));
        }
        match self.manifest.lock_at_once() {
            Ok(Some(lock)) => self.recover(path, Some(&lock)),
            Ok(None) => Ok(Some(record)),
            Err(error) if is_read_only(&error) => Ok(Some(record)),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the file at `path` is the output of `call`, according to its record or its
    /// attributes.
    pub fn is_output_of(&self, path: &RelPath, call: &OsStr) -> Result<bool, StoreError> {
        let is = |provenance: Provenance| provenance.call.is_some_and(|known| call == &*known);
        let recorded = self.record(path)?.is_some_and(|record| is(record.provenance));
        Ok(recorded || is(provenance_at(&self.dir, path)))
    }

    /// Opens the directory of `folder`. Creates the directory if it has been removed.
    pub fn folder(&self, folder: Folder) -> Result<Dir, StoreError> {
        open_folder(&self.dir, folder).map_err(|error| self.listing_error(error))
    }

    /// Returns a number that changes with every record, count and message, and whenever an output
    /// appears in or disappears from the folders of outputs.
    ///
    /// The cost does not depend on the number of outputs. The number does not change when a live
    /// output grows, or when files change in subdirectories of the folders.
    pub fn state_number(&self) -> io::Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.dir.stat_self()?.mtime.hash(&mut hasher);
        let messages = format!("{}/{}", layout::HISTORY, layout::MESSAGES);
        for path in [Folder::Tool.path(), Folder::Terminal.path(), &messages] {
            let Ok(path) = RelPath::new(path) else { continue };
            let stat = self.dir.stat_at(&path).ok();
            stat.map(|stat| (stat.ino, stat.size, stat.mtime)).hash(&mut hasher);
        }
        for name in [layout::MANIFEST, layout::COUNTS] {
            let stat = self.dir.stat(name.as_ref()).ok();
            stat.map(|stat| (stat.ino, stat.size, stat.mtime)).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// Returns `source` as a [`StoreError`] about the file at `path`.
    pub fn error_at(&self, action: &'static str, path: &RelPath, source: io::Error) -> StoreError {
        StoreError::io(action, &self.path.join(path.as_os_str()), source)
    }

    pub(super) fn listing_error(&self, source: io::Error) -> StoreError {
        StoreError::io("list", &self.path, source)
    }
}

/// Returns the record that recovery writes for a live artifact, or `None` if the artifact may have
/// a writer.
///
/// The result stays valid while the lock of the manifest is held. A writer opens its file before it
/// appends a record, and appending needs the lock. If this function misses a writer, the record of
/// that writer therefore follows the record that recovery writes.
fn incomplete(conversation: &Conversation, path: &RelPath) -> Result<Option<Record>, StoreError> {
    let Some(record) =
        conversation.record(path)?.filter(|record| record.state == ArtifactState::Live)
    else {
        return Ok(None);
    };
    let fault = |error| conversation.error_at("look at", path, error);
    let opened = if_there(conversation.dir.open_file_at(path, OFlags::RDONLY));
    let Some(file) = opened.map_err(fault)? else { return Ok(None) };
    if record.owner.is_some_and(owner_lives) || lease_of(&file) != Lease::Free {
        return Ok(None);
    }
    let stat = stat_file(&file).map_err(fault)?;
    Ok(Some(Record {
        state: ArtifactState::Incomplete(DIED.to_owned()),
        size: stat.size,
        modified: stat.mtime.as_nanos(),
        owner: None,
        analysis: None,
        ..record
    }))
}

fn is_artifact(path: &str) -> bool {
    RelPath::from_text(path).is_ok_and(|path| path.is_artifact())
}

fn provenance_at(dir: &Dir, path: &RelPath) -> Provenance {
    let file = dir.open_file_at(path, OFlags::RDONLY);
    file.and_then(|file| attributes::provenance_of(&file)).unwrap_or_default()
}

pub(super) fn open_folder(conversation: &Dir, folder: Folder) -> io::Result<Dir> {
    let mut dir = None;
    for name in folder.path().split('/') {
        let at = dir.as_ref().unwrap_or(conversation);
        at.ensure_synced_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        dir = Some(at.open_dir(name.as_ref())?);
    }
    dir.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Creates the directories that every conversation has, and then syncs the directories that got a
/// new entry. All syncs come last, because a disk usually writes the changes of all directories
/// with the first sync.
pub(super) fn make_directories(conversation: &Dir) -> io::Result<()> {
    let (mut changed, mut is_new) = (Vec::new(), false);
    for (name, inner) in layout::DIRECTORIES {
        is_new |= conversation.ensure_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        let dir = conversation.open_dir(name.as_ref())?;
        let mut holds_new = false;
        for name in *inner {
            holds_new |= dir.ensure_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
        }
        changed.extend(holds_new.then_some(dir));
    }
    changed.iter().try_for_each(Dir::sync)?;
    if is_new { conversation.sync() } else { Ok(()) }
}

/// Removes the store's own files and the empty standard directories from a conversation that
/// contains nothing else. If it contains anything else, fails with ENOTEMPTY and removes nothing.
pub(super) fn remove_bookkeeping(dir: &Dir) -> io::Result<()> {
    let entries = dir.entries()?;
    for entry in &entries {
        let name = OsStr::new(&entry.name);
        let inner = layout::DIRECTORIES.iter().find(|(standard, _)| name == *standard);
        match inner {
            Some((_, inner)) if entry.kind == FileType::Directory => {
                require_bare(&dir.open_dir(name)?, inner)?;
            }
            _ if layout::is_bookkeeping(name) => {}
            _ => return Err(Errno::NOTEMPTY.into()),
        }
    }
    for entry in &entries {
        match entry.kind {
            FileType::Directory => remove_bare(dir, &entry.name)?,
            FileType::File | FileType::Other => dir.unlink(&entry.name)?,
        }
    }
    Ok(())
}

/// Fails with ENOTEMPTY unless `dir` contains only empty directories with names in `inner`.
fn require_bare(dir: &Dir, inner: &[&str]) -> io::Result<()> {
    for entry in dir.entries()? {
        let known = inner.iter().any(|name| entry.name == *name);
        let bare = known
            && entry.kind == FileType::Directory
            && dir.open_dir(&entry.name)?.entries()?.is_empty();
        if !bare {
            return Err(Errno::NOTEMPTY.into());
        }
    }
    Ok(())
}

fn remove_bare(dir: &Dir, name: &OsStr) -> io::Result<()> {
    let inside = dir.open_dir(name)?;
    for entry in inside.entries()? {
        inside.rmdir(&entry.name)?;
    }
    dir.rmdir(name)
}

fn is_read_only(error: &StoreError) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS))
}
