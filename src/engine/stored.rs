//! The files and directories of the store as a door without inodes finds them: by their names.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, OFlags};

use crate::identity::LastSeen;
use crate::others::others_of;
use crate::source::unsettled_number;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{
    DirPlace, Engine, EngineError, FileId, Identity, OpenFile, Result, RewriteCount, Snapshot,
    SourceDir, SourceFile, Tracker, Version, facts_number, messages, messages_version, names,
};
use ctxfs_core::model::{Component, Content as _, Record, RelPath};
use ctxfs_store::message::{Log, Published};
use ctxfs_store::{
    Artifact, Conversation, Dir, FarArtifact, FileClock, HISTORY, MESSAGES, Stat, message,
    stat_file,
};

pub(crate) struct StoredDir {
    dir: Arc<Dir>,
    /// The conversation and the names below it. Empty for the directory of all conversations.
    names: Vec<OsString>,
    /// True for the root of the tree.
    pub(crate) is_top: bool,
}

impl StoredDir {
    /// Returns the root of a tree. `dir` holds all conversations, or is the directory of the
    /// conversation `only`.
    pub(crate) fn top(dir: Dir, only: Option<&Component>) -> Self {
        let names = only.map(|id| id.as_os_str().to_owned()).into_iter().collect();
        Self { dir: Arc::new(dir), names, is_top: true }
    }

    pub(crate) fn open(&self, name: &OsStr) -> Result<Self> {
        let dir = Arc::new(self.dir.open_dir(name)?);
        let mut names = self.names.clone();
        names.push(name.to_owned());
        Ok(Self { dir, names, is_top: false })
    }

    fn conversation(&self) -> Option<Component> {
        Component::new(self.names.first()?).ok()
    }

    /// Returns the conversation of the file `name` and the path of the file in it.
    fn place_of(&self, name: &OsStr) -> Option<(Component, RelPath)> {
        let (_, above) = self.names.split_first()?;
        let names: Vec<_> = above.iter().map(|above| &**above).chain([name]).collect();
        Some((self.conversation()?, joined(&names)?))
    }
}

fn joined(names: &[&OsStr]) -> Option<RelPath> {
    RelPath::new(names.join(OsStr::from_bytes(b"/"))).ok()
}

impl SourceDir for StoredDir {
    fn place(&self) -> Result<DirPlace> {
        match self.names.split_last() {
            None => Ok(DirPlace::Root),
            Some((id, [])) => Ok(DirPlace::Conversation(Component::new(id)?)),
            Some((_, [_, ..])) => {
                let below: Vec<_> = self.names[1..].iter().map(|name| &**name).collect();
                let place = self.conversation().zip(joined(&below));
                place.map(|(id, path)| DirPlace::Below(id, path)).ok_or(EngineError::Stale)
            }
        }
    }

    fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    fn depth(&self) -> Result<usize> {
        Ok(self.names.len().saturating_sub(1))
    }

    fn dir(&self) -> Result<Arc<Dir>> {
        Ok(Arc::clone(&self.dir))
    }
}

/// A file that no door has open for writing. It is found by its name in a directory.
pub(crate) struct StoredFile {
    dir: Arc<StoredDir>,
    name: OsString,
    id: FileId,
    tracker: Tracker,
    /// The number of views that ran out of time, plus the number of repairs of a message log.
    changes: AtomicU64,
    last_seen: Mutex<LastSeen>,
}

impl StoredFile {
    /// Creates the file `name` in `dir`, with the attributes `stat`. Opens nothing.
    pub(crate) fn new(dir: &Arc<StoredDir>, name: &OsStr, stat: &Stat) -> Self {
        Self {
            dir: Arc::clone(dir),
            name: name.to_owned(),
            id: FileId::of(stat),
            tracker: Tracker::default(),
            changes: AtomicU64::new(0),
            last_seen: Mutex::new(LastSeen::new(stat)),
        }
    }

    fn place(&self) -> Result<(Component, RelPath)> {
        self.dir.place_of(&self.name).ok_or(EngineError::Stale)
    }

    fn open_far(&self, engine: &Engine) -> Result<OpenFile> {
        let (id, path) = self.place()?;
        if self.dir.dir.stat(&self.name).is_ok() {
            return Err(EngineError::Stale);
        }
        let far = engine.conversation(&id)?.far(&path)?;
        let is_it = |far: &FarArtifact| FileId::of(&far.stat) == self.id;
        let far = far.filter(is_it).ok_or(EngineError::Stale)?;
        Ok(engine.open_far(&id, &far))
    }

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
        let (id, path) = self.place()?;
        let conversation = engine.conversation(&id)?;
        let record = conversation.current_record(&path, None)?;
        let record = record.unwrap_or_else(|| Conversation::fresh_record(&path, &stat));
        let identity = Identity::of(&record, &stat);
        let place = engine.options.place(&id, &path);
        Ok(Snapshot { file, stat, length, identity, changes, is_written: false, record, place })
    }

    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> Result<Version> {
        let place = self.place()?;
        let mut record = snapshot.record.clone();
        record.provenance.update(&snapshot.file.provenance().unwrap_or_default());
        let same_name = others_of(engine, &place.0, &place.1)?;
        let facts = facts_number(&place, &record, &same_name);
        let Snapshot { file, stat, changes, .. } = snapshot;
        let stat = &stat.original(&record);
        let bytes = match file {
            OpenFile::Here(file) => unsettled_number(engine, stat, || Ok(Arc::clone(file)))?,
            OpenFile::Far(_) => 0,
        };
        Ok(Version::of_file(stat, *changes, (facts, bytes)))
    }

    fn conversation(&self) -> Option<Component> {
        self.dir.conversation()
    }

    fn is_log(&self) -> bool {
        self.place().is_ok_and(|(_, path)| path.is_terminal())
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
            // A remote file may become local between the two attempts, so the local file is tried
            // once more.
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

    fn tracker(&self) -> &Tracker {
        &self.tracker
    }
}

/// Maximum number of bytes of a log that is assembled in memory.
const IN_MEMORY: u64 = 64 << 20;

/// The message log of a conversation of several hosts at one moment, as a source of views.
///
/// The bytes of this log never change. They are assembled in an unnamed file when they are first
/// needed.
pub struct SharedLog {
    own: Arc<dyn SourceFile>,
    conversation: Arc<Conversation>,
    log: Log,
    version: Version,
    copy: Mutex<Option<Arc<File>>>,
    tracker: Tracker,
}

impl fmt::Debug for SharedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLog").finish_non_exhaustive()
    }
}

impl SharedLog {
    /// Returns the log whose local file is `own`, with the attributes `stat`. Returns `None` if no
    /// other host has published messages, or if `own` is not a message log.
    pub fn of(
        engine: &Engine,
        own: &Arc<dyn SourceFile>,
        stat: &Stat,
    ) -> Result<Option<Arc<Self>>> {
        let Some(published) = messages::published(engine, &**own, stat)? else { return Ok(None) };
        let id = own.conversation().ok_or(EngineError::Stale)?;
        let changes = own.changes();
        let file = Arc::new(own.open_by_name(OFlags::RDONLY)?);
        let stat = stat_file(&file)?;
        let end = message::whole(&file, stat.size)?;
        let log = Log::new(Artifact::new(file, end), Some(Arc::clone(&published)));
        Ok(Some(Arc::new(Self {
            conversation: engine.conversation(&id)?,
            version: version_of(&log, &stat, &published, changes),
            own: Arc::clone(own),
            log,
            copy: Mutex::default(),
            tracker: Tracker::default(),
        })))
    }

    /// Returns the version of the log, which is also the version of its views.
    pub fn present_version(&self) -> Version {
        self.version
    }

    fn copied(&self) -> Result<Arc<File>> {
        let mut copy = self.copy.lock();
        if let Some(file) = &*copy {
            return Ok(Arc::clone(file));
        }
        let file = self.unnamed()?;
        self.log.copy_to(&file)?;
        Ok(Arc::clone(copy.insert(Arc::new(file))))
    }

    /// Creates an unnamed file in the store. If this process may only read the store, creates the
    /// file in memory.
    fn unnamed(&self) -> Result<File> {
        let made = self.conversation.nameless_file();
        if made.is_ok() || self.log.len() > IN_MEMORY {
            return Ok(made?);
        }
        Ok(rustix::fs::memfd_create(c"ctxfs-log", MemfdFlags::CLOEXEC).map(File::from)?)
    }
}

fn version_of(log: &Log, stat: &Stat, published: &Published, changes: u64) -> Version {
    let mut hasher = DefaultHasher::new();
    (stat.ino, published.edition(), log.len()).hash(&mut hasher);
    let shown = Stat { size: log.len(), ..*stat };
    Version {
        changes,
        changed: stat.ctime.as_nanos(),
        bytes: hasher.finish(),
        ..messages_version(&shown, Some(published))
    }
}

impl SourceFile for SharedLog {
    fn snapshot(&self, engine: &Engine) -> Result<Snapshot> {
        let (changes, file) = (self.changes(), self.copied()?);
        let stat = stat_file(&file)?;
        let path = RelPath::new(format!("{HISTORY}/{MESSAGES}"))?;
        let known = self.conversation.record(&path)?;
        let record = Record {
            path: path.to_text(),
            size: stat.size,
            file: None,
            analysis: None,
            view_sizes: None,
            ..known.unwrap_or_else(|| Conversation::fresh_record(&path, &stat))
        };
        let (identity, length) = (Identity::of(&record, &stat), stat.size);
        let place = engine.options.place(self.conversation.id(), &path);
        let file = OpenFile::Here(file);
        Ok(Snapshot { file, stat, length, identity, changes, is_written: false, record, place })
    }

    fn version(&self, _: &Engine, _: &Snapshot) -> Result<Version> {
        Ok(self.version)
    }

    fn conversation(&self) -> Option<Component> {
        Some(self.conversation.id().clone())
    }

    fn is_log(&self) -> bool {
        false
    }

    // The copy has only whole lines and is never repaired.
    fn is_message_log(&self) -> bool {
        false
    }

    fn open_by_name(&self, _: OFlags) -> Result<File> {
        Ok(self.copied()?.try_clone()?)
    }

    fn changes(&self) -> u64 {
        self.own.changes()
    }

    fn note_change(&self) {
        self.own.note_change();
    }

    fn note_repair(&self, _: &Stat) {}

    fn rewrites(&self, _: &Engine, file: &File) -> Result<(RewriteCount, Stat)> {
        Ok((RewriteCount { own: 0, others: 0 }, stat_file(file)?))
    }

    fn tracker(&self) -> &Tracker {
        &self.tracker
    }
}
