//! A file of the store that no door has open for writing.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::facts::{KnownRecord, facts_number};
use crate::last_seen::LastSeen;
use crate::stored_dir::StoredDir;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{
    Engine, EngineError, FileId, Identity, OpenFile, Result, RewriteCount, Snapshot, SourceFile,
    Tracker, Version, messages, names, same_name, unsettled,
};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_store::{FarArtifact, FileClock, Stat, stat_file};

/// A file, found by its name in a directory.
pub(super) struct StoredFile {
    dir: Arc<StoredDir>,
    name: OsString,
    id: FileId,
    tracker: Tracker,
    /// The views that ran out of time, and the repairs of a message log.
    changes: AtomicU64,
    last_seen: Mutex<LastSeen>,
}

impl StoredFile {
    /// Makes the file `name` in `dir`, of which the disk says `stat`. Opens nothing.
    pub(super) fn new(dir: &Arc<StoredDir>, name: &OsStr, stat: &Stat) -> Self {
        Self {
            dir: Arc::clone(dir),
            name: name.to_owned(),
            id: FileId::of(stat),
            tracker: Tracker::default(),
            changes: AtomicU64::new(0),
            last_seen: Mutex::new(LastSeen::new(stat)),
        }
    }

    fn place(&self) -> Option<(Component, RelPath)> {
        self.dir.place_of(&self.name)
    }

    /// Opens it where its bytes are elsewhere.
    fn open_far(&self, engine: &Engine) -> Result<OpenFile> {
        let (id, path) = self.place().ok_or(EngineError::Stale)?;
        if self.dir.dir.stat(&self.name).is_ok() {
            return Err(EngineError::Stale);
        }
        let far = engine.conversation(&id)?.far(&path)?;
        let is_it = |far: &FarArtifact| FileId::of(&far.stat) == self.id;
        let far = far.filter(is_it).ok_or(EngineError::Stale)?;
        Ok(engine.open_far(&id, &far))
    }

    /// Returns how often others changed it, or may have, by the `clock` of the disk.
    fn notice(&self, stat: &Stat, clock: FileClock) -> u64 {
        let mut seen = self.last_seen.lock();
        seen.notice(stat, clock, false);
        seen.changes()
    }
}

impl SourceFile for StoredFile {
    fn snapshot(&self, engine: &Engine) -> Result<Snapshot> {
        let file = self.opened(engine)?;
        let (changes, stat) = (self.changes(), file.stat()?);
        let length = match &file {
            OpenFile::Here(file) => messages::shown_length(engine, self, stat, file)?,
            OpenFile::Far(_) => stat.size,
        };
        let (id, path) = self.place().ok_or(EngineError::Stale)?;
        let conversation = engine.conversation(&id)?;
        let record = KnownRecord::of(&conversation, &path, &stat, false, None)?.record;
        let identity = Identity::of(&record, &stat);
        let place = engine.options.place(&id, &path);
        Ok(Snapshot { file, stat, length, identity, changes, is_written: false, record, place })
    }

    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> Result<Version> {
        let place = self.place().ok_or(EngineError::Stale)?;
        let mut record = snapshot.record.clone();
        record.provenance.update(&snapshot.file.provenance().unwrap_or_default());
        let same_name = same_name::others_of(engine, &place.0, &place.1)?;
        let facts = facts_number(&place, &record, &same_name);
        let Snapshot { file, stat, changes, .. } = snapshot;
        let stat = &stat.original(&record);
        let bytes = match file {
            OpenFile::Here(file) => unsettled::number(engine, stat, || Ok(Arc::clone(file)))?,
            OpenFile::Far(_) => 0,
        };
        Ok(Version::of_file(stat, *changes, (facts, bytes)))
    }

    fn conversation(&self) -> Option<Component> {
        self.dir.conversation()
    }

    fn is_log(&self) -> bool {
        self.place().is_some_and(|(_, path)| path.is_terminal())
    }

    fn is_message_log(&self) -> bool {
        names::is_message_log(&*self.dir, &self.name)
    }

    fn open_by_name(&self, flags: OFlags) -> Result<File> {
        self.id.open(&self.dir.dir, &self.name, flags)
    }

    fn opened(&self, engine: &Engine) -> Result<OpenFile> {
        match self.open_by_name(OFlags::RDONLY) {
            Ok(file) => Ok(OpenFile::Here(Arc::new(file))),
            // Its bytes may come meanwhile.
            Err(EngineError::Stale) => self.open_far(engine).or_else(|_| {
                let file = self.open_by_name(OFlags::RDONLY)?;
                Ok(OpenFile::Here(Arc::new(file)))
            }),
            Err(error) => Err(error),
        }
    }

    fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    fn note_change(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    fn note_repair(&self, stat: &Stat) {
        self.note_change();
        self.notice(stat, FileClock::FINE);
        self.last_seen.lock().left_as(stat);
    }

    fn rewrites(&self, engine: &Engine, file: &File) -> Result<(RewriteCount, Stat)> {
        let stat = stat_file(file)?;
        let others = self.notice(&stat, engine.store.clock());
        Ok((RewriteCount { own: 0, others }, stat))
    }

    fn own_rewrites(&self) -> u64 {
        0
    }

    fn tracker(&self) -> &Tracker {
        &self.tracker
    }
}
