//! One conversation: its directory and the records of its artifacts.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::slice;

use rustix::fs::OFlags;

use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Provenance;
use crate::model::ArtifactState;
use crate::store::artifacts::Artifacts;
use crate::store::artifacts::Used;
use crate::store::attributes;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;
use crate::store::lease::Lease;
use crate::store::lease::lease_is_free;
use crate::store::manifest::Held;
use crate::store::manifest::Manifest;
use crate::store::manifest::Position;
use crate::store::owner;
use crate::store::stat;
use crate::store::stat::Kind;
use crate::store::stat::Stat;

/// What is said of an artifact whose writer was never heard of again.
const DIED: &str = "its writer or the daemon stopped before it was closed";

/// A conversation, open.
///
/// Records are those on disk at the moment of the call, whichever process wrote them.
#[derive(Debug)]
pub struct Conversation {
    id: Component,
    path: PathBuf,
    dir: Dir,
    stat: Stat,
    manifest: Manifest,
}

impl Conversation {
    /// `path` serves error messages only.
    pub(super) fn new(id: Component, path: PathBuf, dir: Dir) -> io::Result<Self> {
        let stat = dir.stat_self()?;
        Ok(Self { id, path, dir, stat, manifest: Manifest::default() })
    }

    /// Its id.
    pub fn id(&self) -> &Component {
        &self.id
    }

    /// Its directory.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The record of the file at `path`; none, where none was written or the file is gone.
    ///
    /// A record of removed content speaks of a file only where that is there as it was recorded:
    /// then the removal was cut off before it happened, and the record is as if it had not begun.
    pub fn record(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let record = self.last_record(path)?;
        Ok(record.and_then(|record| match record.removed {
            None => Some(record),
            Some(_) => self.is_there(path, &record).then_some(Record { removed: None, ..record }),
        }))
    }

    /// The record of content that was removed from `path`, where nothing is there since.
    pub fn removed(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let record = self.last_record(path)?.filter(|record| record.removed.is_some());
        Ok(record.filter(|_| self.dir.stat_at(path).is_err()))
    }

    /// Forgets what is recorded of `path`, whether its file was removed by a person now or by a
    /// rule before. Answers what was.
    pub fn forget(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let held = self.hold()?;
        let forgotten = self.forget_held(&held, path);
        drop(held);
        self.tidy();
        forgotten
    }

    /// As [`Self::forget`], for who holds the manifest.
    pub fn forget_held(&self, held: &Held, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let Some(record) = self.last_record(path)? else { return Ok(None) };
        let gone = Record { state: ArtifactState::Gone, analysis: None, removed: None, ..record.clone() };
        self.add(held, slice::from_ref(&gone))?;
        Ok(Some(record))
    }

    fn last_record(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        self.manifest.record(&self.dir, &path.to_text()).map_err(|error| self.fault("read", error))
    }

    fn is_there(&self, path: &RelPath, record: &Record) -> bool {
        let as_recorded =
            |stat: &Stat| (stat.size, stat.mtime.as_nanos()) == (record.size, record.modified);
        self.dir.stat_at(path).is_ok_and(|stat| as_recorded(&stat))
    }

    /// Where the record of the file at `path` stands, if there is one: the same place means the
    /// same record. Cheaper than the record.
    pub fn position(&self, path: &RelPath) -> Result<Option<Position>, StoreError> {
        let position = self.manifest.position(&self.dir, &path.to_text());
        position.map_err(|error| self.fault("read", error))
    }

    /// The record of the file at `path`, and, where there is none, one made from what the disk
    /// and the file's attributes say.
    pub fn record_for(&self, path: &RelPath, stat: &Stat) -> Result<Record, StoreError> {
        Ok(self
            .record(path)?
            .unwrap_or_else(|| Record { provenance: self.provenance(path), ..Self::fresh_record(path, stat) }))
    }

    /// A first record of the file at `path`: sealed, of the first generation, not analysed.
    pub fn fresh_record(path: &RelPath, stat: &Stat) -> Record {
        Record {
            path: path.to_text(),
            generation: 1,
            state: ArtifactState::Sealed,
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            created: stat.created().as_millis(),
            owner: None,
            provenance: Provenance::default(),
            analysis: None,
            removed: None,
        }
    }

    /// The paths of all artifacts on disk, whether or not they have a record.
    pub fn artifacts(&self) -> Result<Vec<RelPath>, StoreError> {
        Artifacts::all(self).map_err(|error| self.listing_fault(error))
    }

    /// How many artifacts are on disk, and their bytes: asks the disk for each of them.
    pub fn used(&self) -> Result<Used, StoreError> {
        Artifacts::used(self).map_err(|error| self.listing_fault(error))
    }

    /// `Record::created` of those paths, as text, that have a record.
    pub(super) fn created<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<Option<i64>>, StoreError> {
        self.manifest.created(&self.dir, paths).map_err(|error| self.fault("read", error))
    }

    /// Whether each of those paths, as text, has a record that says live, in their order.
    pub fn live<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<bool>, StoreError> {
        self.manifest.live(&self.dir, paths).map_err(|error| self.fault("read", error))
    }

    /// All records of artifacts that are not gone, and of content that was removed by a rule, in the
    /// order they were last recorded.
    pub fn records(&self) -> Result<Vec<Record>, StoreError> {
        let records = self.manifest.records(&self.dir);
        let mut records = records.map_err(|error| self.fault("read", error))?;
        records
            .retain(|record| RelPath::from_text(&record.path).is_ok_and(|path| path.is_artifact()));
        Ok(records)
    }

    /// Adds records, each in force from now on. They stand together in the file, and nothing that
    /// another thread or process adds comes between.
    pub fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        let appended = self.manifest.append(&self.dir, records);
        appended.map_err(|error| self.fault("append to", error))
    }

    /// Keeps every other thread and process from adding records until the answer is dropped. Whoever
    /// waits here may wait for a process that has been stopped: it must not hold what views need.
    pub fn hold(&self) -> Result<Held, StoreError> {
        Held::wait(&self.dir).map_err(|error| self.fault("lock", error))
    }

    /// As [`Self::hold`]; none, where somebody else holds it.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn hold_at_once(&self) -> Result<Option<Held>, StoreError> {
        Held::at_once(&self.dir).map_err(|error| self.fault("lock", error))
    }

    /// Adds records while they are held. Who adds many calls `tidy` afterwards.
    pub fn add(&self, held: &Held, records: &[Record]) -> Result<(), StoreError> {
        held.add(records).map_err(|error| self.fault("append to", error))
    }

    /// Brings the records that were added to the disk.
    pub(super) fn sync_records(&self, held: &Held) -> Result<(), StoreError> {
        held.sync().map_err(|error| self.fault("sync", error))
    }

    /// Rewrites the manifest where it pays; must not be called while it is held.
    pub fn tidy(&self) {
        self.manifest.tidy(&self.dir);
    }

    /// A number that is another one whenever the records may have changed.
    pub fn version(&self) -> Result<u64, StoreError> {
        Manifest::version(&self.dir).map_err(|error| self.fault("look at", error))
    }

    /// Rewrites the manifest without the records that no longer count. `append` does this by
    /// itself where it pays.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.manifest.compact(&self.dir).map_err(|error| self.fault("rewrite", error))
    }

    /// Marks an artifact incomplete whose record says live, whose owner has ended and whose file
    /// nobody writes: its writer or daemon died. Answers the new record; none, where the artifact is not of that kind, or the
    /// disk cannot tell.
    ///
    /// For whoever meets a live record and is not its writer. Analysis is left to the caller.
    pub fn recover(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        // Most live records have a writer; to find that out nobody has to wait.
        match self.incomplete(path)? {
            Some(_) => self.recover_held(&self.hold()?, path),
            None => Ok(None),
        }
    }

    /// As [`Self::recover`], for who holds the manifest.
    pub fn recover_held(&self, held: &Held, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let recovered = self.incomplete(path)?;
        if let Some(record) = &recovered {
            self.add(held, slice::from_ref(record))?;
        }
        Ok(recovered)
    }

    fn incomplete(&self, path: &RelPath) -> Result<Option<Record>, StoreError> {
        let Some(record) = self.record(path)?.filter(|record| record.state == ArtifactState::Live) else {
            return Ok(None);
        };
        let incomplete = self.incomplete_of(path, record);
        incomplete.map_err(|error| self.fault_at("look at", path, error))
    }

    /// What recovery makes of a live record. Its answer holds where no record can be added meanwhile: a
    /// writer opens its file before it adds one, so either the writer is seen here, or its record
    /// comes later.
    fn incomplete_of(&self, path: &RelPath, record: Record) -> io::Result<Option<Record>> {
        let file = match self.dir.open_file_at(path, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if record.owner.is_some_and(owner::lives) || lease_is_free(&file) != Lease::Free {
            return Ok(None);
        }
        let stat = stat::stat_file(&file)?;
        Ok(Some(Record {
            state: ArtifactState::Incomplete(DIED.to_owned()),
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            owner: None,
            analysis: None,
            ..record
        }))
    }

    /// Whether the file at `path` is the output of `call`, as its record or its attributes say.
    pub fn is_output_of(&self, path: &RelPath, call: &OsStr) -> Result<bool, StoreError> {
        let is = |provenance: Provenance| provenance.call.is_some_and(|said| call == &*said);
        let recorded = self.record(path)?.is_some_and(|record| is(record.provenance));
        Ok(recorded || is(self.provenance(path)))
    }

    /// What the attributes of a file say; nothing, where it cannot be read.
    fn provenance(&self, path: &RelPath) -> Provenance {
        let file = self.dir.open_file_at(path, OFlags::RDONLY);
        file.and_then(|file| attributes::provenance_of(&file)).unwrap_or_default()
    }

    /// What happened to the file at `path`.
    pub(super) fn fault_at(
        &self,
        action: &'static str,
        path: &RelPath,
        source: io::Error,
    ) -> StoreError {
        StoreError::io(action, &self.path_of(path), source)
    }

    /// Where the file at `path` is, for messages.
    pub(super) fn path_of(&self, path: &RelPath) -> PathBuf {
        self.path.join(path.as_os_str())
    }

    /// Where a file of its history is, for messages.
    pub(super) fn history_path(&self, name: &str) -> PathBuf {
        self.path.join(layout::HISTORY).join(name)
    }

    /// Whether this is the directory that `stat` is about.
    pub(super) fn is_at(&self, stat: &Stat) -> bool {
        self.stat.same_file(stat)
    }

    /// Makes the directories that every conversation has.
    pub(super) fn make_skeleton(&self) -> io::Result<()> {
        for (name, inner) in layout::SKELETON {
            self.dir.ensure_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
            let dir = self.dir.open_dir(name.as_ref())?;
            for name in *inner {
                dir.ensure_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
            }
        }
        Ok(())
    }

    /// What happened to a file of it that somebody else looked at.
    pub fn fault_of(&self, action: &'static str, path: &RelPath, source: io::Error) -> StoreError {
        self.fault_at(action, path, source)
    }

    /// What happened while artifacts were looked for.
    pub(super) fn listing_fault(&self, source: io::Error) -> StoreError {
        StoreError::io("list", &self.path, source)
    }

    /// What happened to what was counted.
    pub(super) fn counts_fault(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::io(action, &self.path.join(layout::COUNTS), source)
    }

    fn fault(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::io(action, &self.path.join(layout::MANIFEST), source)
    }
}

/// Removes the store's own files from a conversation that has nothing else but empty directories
/// that every conversation has; ENOTEMPTY otherwise, and then all of them are still there.
pub(super) fn remove_bookkeeping(dir: &Dir) -> io::Result<()> {
    let entries = dir.entries()?;
    for entry in &entries {
        let name = OsStr::new(&entry.name);
        let inner = layout::SKELETON.iter().find(|(skeleton, _)| name == *skeleton);
        match inner {
            Some((_, inner)) if entry.kind == Kind::Directory => {
                require_bare(&dir.open_dir(name)?, inner)?;
            }
            _ if layout::is_bookkeeping(name) => {}
            _ => return Err(rustix::io::Errno::NOTEMPTY.into()),
        }
    }
    for entry in &entries {
        match entry.kind {
            Kind::Directory => remove_bare(dir, &entry.name)?,
            Kind::File | Kind::Other => dir.unlink(&entry.name)?,
        }
    }
    Ok(())
}

/// ENOTEMPTY unless `dir` holds nothing but empty directories of the names `inner`.
fn require_bare(dir: &Dir, inner: &[&str]) -> io::Result<()> {
    for entry in dir.entries()? {
        let known = inner.iter().any(|name| entry.name == *name);
        let bare = known
            && entry.kind == Kind::Directory
            && dir.open_dir(&entry.name)?.entries()?.is_empty();
        if !bare {
            return Err(rustix::io::Errno::NOTEMPTY.into());
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
