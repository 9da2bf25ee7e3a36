//! Snapshots of the files that views are computed from, and their versions.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, OFlags};

use crate::messages::OpenLog;
use crate::sync::Mutex;
use crate::{
    ByteHistory, DoorFile, Engine, EngineError, FileContent, FileId, FilePlace, OpenFile,
    QUICK_INPUT, RemoteFile, Result, SourceState, UnfinishedMessage, Version, facts_number,
    keyed_hash, messages, others_of,
};
use ctxfs_core::model::{Analysis, ArtifactState, Component, Content as _, Place, Record, RelPath};
use ctxfs_store::message::{Log, Published};
use ctxfs_store::{
    Artifact, Conversation, FarArtifact, HISTORY, MESSAGES, Stat, message, provenance_of, stat_file,
};

/// A file that views are computed from.
///
/// It is cheap to clone, and nothing is read until the engine takes a snapshot. The version of the
/// snapshot is compared with the version of the view: if the file has changed since the look-up,
/// computing the view again fails with [`EngineError::Stale`].
#[derive(Debug, Clone)]
pub enum Source {
    File(Arc<dyn DoorFile>),
    /// The message log of a conversation of several hosts, as it was at one moment.
    Log(Arc<SharedLog>),
}

/// The state of a file at one moment, never in the middle of a write.
///
/// - `file`: the file, open for reading. It may grow or be overwritten while it is read.
/// - `length`: the length that readers may see. A message log ends with its last whole line.
/// - `at`: the conversation of the file and its path there
/// - `record`: the record, without updates from extended attributes
pub(crate) struct Snapshot {
    pub(crate) source: Source,
    pub(crate) file: OpenFile,
    pub(crate) stat: Stat,
    pub(crate) length: u64,
    pub(crate) changes: u64,
    pub(crate) is_written: bool,
    pub(crate) at: FilePlace,
    pub(crate) record: Record,
    pub(crate) place: Place,
}

impl Source {
    /// Returns the source of the views of `file`, and its version. The file has the attributes
    /// `stat` after `changes` changes. For a message log, the source is the log with the messages
    /// that other hosts have published, if there are any.
    ///
    /// Opens the file only if its facts are not known yet, or if the bytes must be read because the
    /// attributes cannot distinguish the version.
    pub fn present(
        engine: &Engine,
        file: Arc<dyn DoorFile>,
        stat: &Stat,
        changes: u64,
    ) -> Result<(Self, Version)> {
        let source = Self::of(engine, file, stat)?;
        let version = match &source {
            Self::File(file) => file_version(engine, (&**file, &|| file.reader()), stat, changes)?,
            Self::Log(log) => log.version,
        };
        Ok((source, version))
    }

    pub(crate) fn of(engine: &Engine, file: Arc<dyn DoorFile>, stat: &Stat) -> Result<Self> {
        let log = SharedLog::of(engine, &file, stat)?;
        Ok(log.map_or(Self::File(file), |log| Self::Log(Arc::new(log))))
    }

    /// Returns the attributes of the file as readers see them. `stat` has the attributes on disk.
    /// Readers see a message log up to its last whole line, and any other file as it is.
    pub fn shown(&self, engine: &Engine, stat: Stat) -> Result<Stat> {
        let Self::File(file) = self else { return Ok(stat) };
        let at = file.place().ok_or(EngineError::Stale)?;
        messages::shown(engine, (&at, file.state()), stat, || file.reader())
    }

    /// Adds `bytes` to the unfinished message of a writer that has the message log open as `file`.
    /// Appends the messages that are now complete; either all of them are appended or none.
    pub fn write_messages(
        &self,
        engine: &Engine,
        file: &Arc<File>,
        unfinished: &mut UnfinishedMessage,
        bytes: &[u8],
    ) -> Result<()> {
        let conversation = &self.stored_in(engine)?;
        OpenLog { engine, conversation, file, state: self.state() }.write(unfinished, bytes)
    }

    /// Ends the unfinished message of a writer, if there is one. Appends a message that lacks only
    /// its newline. Fails for any other line, which stays unfinished. If the writer `is_gone`,
    /// moves such a line to a file beside the log, unless the call is to be retried.
    pub fn end_message(
        &self,
        engine: &Engine,
        file: &Arc<File>,
        unfinished: &mut UnfinishedMessage,
        is_gone: bool,
    ) -> Result<()> {
        if unfinished.line.is_empty() {
            return Ok(());
        }
        let conversation = &self.stored_in(engine)?;
        OpenLog { engine, conversation, file, state: self.state() }.end(unfinished, is_gone)
    }

    fn stored_in(&self, engine: &Engine) -> Result<Arc<Conversation>> {
        engine.conversation(&self.conversation().ok_or(EngineError::Stale)?)
    }

    /// Records that the file, whose identity is `id`, has got its first writer or lost its last
    /// one. While a file has writers, a search reads the length only between two writes.
    pub fn note_writers(&self, engine: &Engine, id: FileId, has_writers: bool) {
        match self {
            Self::File(file) if has_writers => engine.live.0.insert(id, Arc::downgrade(file)),
            _ => engine.live.0.remove(&id).map(|(_, file)| file),
        };
    }

    /// Returns the length that is divided into pages. This is the length of the text of the file.
    pub fn text_length(&self, engine: &Engine) -> Result<u64> {
        let snapshot = self.snapshot(engine)?;
        if snapshot.reading()?.is_none_or(|reading| reading.is_plain()) {
            return Ok(snapshot.stat.size);
        }
        let expired = crate::deadline::deadline(engine.options.view_deadline);
        Ok(snapshot.analysis(engine, &expired)?.analysis.of_text().bytes)
    }

    pub(crate) fn conversation(&self) -> Option<Component> {
        match self {
            Self::File(file) => file.place().map(|(id, _)| id),
            Self::Log(log) => Some(log.conversation.id().clone()),
        }
    }

    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::File(file) if file.is_far())
    }

    pub(crate) fn state(&self) -> &SourceState {
        match self {
            Self::File(file) => file.state(),
            Self::Log(log) => &log.state,
        }
    }

    /// Counts one more change after a view ran out of time, so that the next look-up finds a new
    /// version.
    pub(crate) fn note_change(&self) {
        self.counted().note_change();
    }

    pub(crate) fn changes(&self) -> u64 {
        self.counted().life.lock().bytes().changes
    }

    /// Returns the state that counts changes. For a shared log this is the state of the local log,
    /// because a shared log is assembled again for each version.
    fn counted(&self) -> &SourceState {
        match self {
            Self::File(file) => file.state(),
            Self::Log(log) => log.own.state(),
        }
    }

    /// Opens the file for reading, with its length at a moment when no write is in progress. Does
    /// not need the manifest.
    pub(crate) fn content(&self, engine: &Engine) -> Result<FileContent> {
        let file = match self {
            Self::File(file) => file,
            Self::Log(log) => {
                let copy = log.copied()?;
                let length = stat_file(&copy)?.size;
                return Ok(OpenFile::Here(copy).content(length));
            }
        };
        let open = open(engine, &**file)?;
        let (stat, ..) = between_writes(&**file, &open)?;
        let length = match &open {
            OpenFile::Here(here) => match file.place() {
                Some(at) => {
                    let reader = || Ok(Arc::clone(here));
                    messages::shown(engine, (&at, file.state()), stat, reader)?.size
                }
                // The file has no name that a record may have.
                None => stat.size,
            },
            OpenFile::Far(_) => stat.size,
        };
        Ok(open.content(length))
    }

    pub(crate) fn snapshot(&self, engine: &Engine) -> Result<Snapshot> {
        match self {
            Self::File(file) => {
                let open = open(engine, &**file)?;
                Snapshot::of(engine, file, open)
            }
            Self::Log(log) => log.snapshot(engine),
        }
    }
}

impl Snapshot {
    /// Returns the version of the snapshot.
    pub(crate) fn version(&self, engine: &Engine) -> Result<Version> {
        match &self.source {
            Source::File(file) => {
                let reader = || self.file.reader();
                file_version(engine, (&**file, &reader), &self.stat, self.changes)
            }
            Source::Log(log) => Ok(log.version),
        }
    }

    pub(crate) fn of(engine: &Engine, file: &Arc<dyn DoorFile>, open: OpenFile) -> Result<Self> {
        let (stat, changes, is_written) = between_writes(&**file, &open)?;
        let at = file.place().ok_or(EngineError::Stale)?;
        let length = match &open {
            OpenFile::Here(open) => {
                messages::shown_length(engine, (&at, file.state()), stat, open)?
            }
            OpenFile::Far(_) => stat.size,
        };
        let conversation = engine.conversation(&at.0)?;
        let record = file.state().life.lock().present_record(&conversation, &at.1, &stat, None)?;
        let place = engine.options.place(&at.0, &at.1);
        let source = Source::File(Arc::clone(file));
        Ok(Self { source, file: open, stat, length, changes, is_written, at, record, place })
    }
}

/// Returns the attributes of `file`, which is open as `open`, at a moment when no write is in
/// progress. Also returns the number of its changes, and true if it has a writer.
fn between_writes(file: &dyn DoorFile, open: &OpenFile) -> Result<(Stat, u64, bool)> {
    let mut life = file.state().life.lock();
    Ok((open.as_ref().stat()?, life.bytes().changes, life.has_writers()))
}

fn open(engine: &Engine, file: &dyn DoorFile) -> Result<OpenFile> {
    let copy = |error| open_copy(engine, file).map(Arc::new).map_err(|_| error);
    let here = || file.reader().or_else(copy).map(OpenFile::Here);
    match here() {
        // A remote file may become local between the two attempts.
        Err(EngineError::Stale) => open_far(engine, file).or_else(|_| here()),
        opened => opened,
    }
}

/// Opens the copy that has replaced `file` on disk, for a view that is read without another
/// look-up. Fails with [`EngineError::Stale`] if there is no copy.
fn open_copy(engine: &Engine, file: &dyn DoorFile) -> Result<File> {
    let (id, path) = file.place().ok_or(EngineError::Stale)?;
    let conversation = engine.conversation(&id)?;
    let dir = conversation.dir();
    let stat = dir.stat_at(&path).map_err(|_| EngineError::Stale)?;
    if !file.was(&original(engine, file, &stat)?) {
        return Err(EngineError::Stale);
    }
    FileId::of(&stat).check(dir.open_file_at(&path, OFlags::RDONLY))
}

/// Opens `file` as a remote artifact. Fails with [`EngineError::Stale`] if it is not remote.
fn open_far(engine: &Engine, file: &dyn DoorFile) -> Result<OpenFile> {
    let (id, path) = file.place().ok_or(EngineError::Stale)?;
    let conversation = engine.conversation(&id)?;
    let far = conversation.far(&path)?;
    let is_it =
        |far: &FarArtifact| file.was(&far.stat) && conversation.dir().stat_at(&path).is_err();
    let far = far.filter(is_it).ok_or(EngineError::Stale)?;
    Ok(OpenFile::Far(RemoteFile::open(engine.options(), &id, &far)))
}

/// A file, and a function that returns a descriptor for reading it.
type Readable<'a> = (&'a dyn DoorFile, &'a dyn Fn() -> Result<Arc<File>>);

fn file_version(
    engine: &Engine,
    (file, reader): Readable<'_>,
    stat: &Stat,
    changes: u64,
) -> Result<Version> {
    let facts = facts_version(engine, (file, reader), stat)?;
    let stat = &original(engine, file, stat)?;
    let bytes = unsettled_number(engine, reader, stat)?;
    Ok(version(stat, changes, facts, bytes))
}

/// Returns the attributes that a sealed file had before a copy took its name. Returns `stat` for
/// any other file.
fn original(engine: &Engine, file: &dyn DoorFile, stat: &Stat) -> Result<Stat> {
    if !stat.may_be_copy() || !file.state().life.lock().is_at_rest() {
        return Ok(*stat);
    }
    let (id, path) = file.place().ok_or(EngineError::Stale)?;
    let record = engine.conversation(&id)?.record(&path)?;
    Ok(record.map_or(*stat, |record| stat.original(&record)))
}

fn version(stat: &Stat, changes: u64, facts: u64, bytes: u64) -> Version {
    let (modified, changed) = (stat.mtime.as_nanos(), stat.ctime.as_nanos());
    Version { changes, size: stat.size, modified, changed, facts, bytes }
}

/// Returns a number that changes exactly when one of the facts that views show changes. The bytes
/// are not among these facts. Sealing does not change the number.
///
/// The number is cached for a file at rest, so that later look-ups of its views neither open nor
/// parse the file.
fn facts_version(engine: &Engine, (file, reader): Readable<'_>, stat: &Stat) -> Result<u64> {
    let place = file.place().ok_or(EngineError::Stale)?;
    let conversation = engine.conversation(&place.0)?;
    let state = file.state();
    // Checked before the record is read. If sealing ends in between, the known facts belong to the
    // earlier record.
    let is_at_rest = state.life.lock().is_at_rest();
    let recorded = conversation.manifest().position(&place.1)?;
    let same_name = others_of(engine, &place.0, &place.1)?;
    // ctime changes with every change of the file, including its extended attributes.
    let basis = keyed_hash((&place, &same_name, recorded, stat.ctime));
    if let Some(version) = state.facts.version(basis).filter(|_| is_at_rest) {
        return Ok(version);
    }
    // Checked before the facts are read, because they may change right afterwards.
    let lasts = !engine.store.clock().is_recent(stat);
    let changes = state.life.lock().bytes().changes;
    let mut record = state.life.lock().present_record(&conversation, &place.1, stat, None)?;
    let is_sealed = record.state != ArtifactState::Live && state.life.lock().is_at_rest();
    // Sealing copies the provenance in the extended attributes to the record.
    let provenance = match reader().and_then(|file| Ok(provenance_of(&file)?)) {
        Err(error) if error.raw_os_error() == libc::EAGAIN => return Err(error),
        provenance => provenance.unwrap_or_default(),
    };
    record.provenance.update(&provenance);
    let facts = facts_number(&place, &record, &same_name);
    if lasts && is_sealed {
        // Sealing measures views without masks.
        let sizes = record.view_sizes.as_ref().filter(|_| engine.secrets.0.is_none());
        let sizes = sizes
            .filter(|sizes| sizes.basis == basis_of_sizes(engine, &place, (&record, facts), stat));
        state.facts.keep(basis, &version(stat, changes, facts, 0), sizes);
    }
    Ok(facts)
}

/// Returns a hash of everything on which the views at `place` depend. Recorded sizes are valid as
/// long as the hash stays the same.
pub(crate) fn basis_of_sizes(
    engine: &Engine,
    (id, path): &FilePlace,
    (record, facts): (&Record, u64),
    stat: &Stat,
) -> String {
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), Analysis::VERSION).hash(&mut hasher);
    engine.options.place(id, path).file().hash(&mut hasher);
    let limits = engine.options.limits.limits(record.provenance.tool_name().as_deref());
    format!("{limits:?}").hash(&mut hasher);
    (facts, stat.size, stat.mtime.as_nanos()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Returns 0 if each later change of the file is certain to change its times, which are in `stat`.
/// Otherwise returns a hash of the file's bytes. The hash has a random key, so that a writer cannot
/// choose bytes with the same hash. For a large file, returns a number that no other state has.
fn unsettled_number(
    engine: &Engine,
    reader: &dyn Fn() -> Result<Arc<File>>,
    stat: &Stat,
) -> Result<u64> {
    // Remote bytes do not change.
    if stat.is_far() || !engine.store.clock().is_recent(stat) {
        return Ok(0);
    }
    if stat.size > QUICK_INPUT {
        return Ok(engine.watches.next_number());
    }
    let bytes = Artifact::new(reader()?, stat.size).bytes(0, stat.size as usize)?;
    Ok(keyed_hash(&*bytes).max(1))
}

/// Maximum number of bytes of a log that is assembled in memory, which happens only if this process
/// cannot create a file in the store.
const IN_MEMORY: u64 = 64 << 20;

/// The message log of a conversation of several hosts at one moment, as a source of views.
///
/// The bytes of this log never change. The log is assembled in an unnamed file when it is first
/// needed.
#[derive(Debug)]
pub struct SharedLog {
    own: Arc<dyn DoorFile>,
    conversation: Arc<Conversation>,
    log: Log,
    version: Version,
    copy: Mutex<Option<Arc<File>>>,
    state: SourceState<ByteHistory>,
}

impl SharedLog {
    /// Returns the log whose local file is `own`, with the attributes `stat`. Returns `None` if no
    /// other host has published messages, or if `own` is not a message log.
    fn of(engine: &Engine, own: &Arc<dyn DoorFile>, stat: &Stat) -> Result<Option<Self>> {
        if engine.options.other_messages.is_none() {
            return Ok(None);
        }
        let Some(at) = own.place() else { return Ok(None) };
        let Some(published) = messages::published(engine, &at, stat)? else { return Ok(None) };
        let changes = own.state().life.lock().bytes().changes;
        let file = own.reader()?;
        let stat = stat_file(&file)?;
        let end = message::whole(&file, stat.size)?;
        let log = Log::new(Artifact::new(file, end), Some(Arc::clone(&published)));
        Ok(Some(Self {
            conversation: engine.conversation(&at.0)?,
            version: version_of_log(&log, &stat, &published, changes),
            own: Arc::clone(own),
            log,
            copy: Mutex::default(),
            state: SourceState::new(ByteHistory::default()),
        }))
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

    /// Creates an unnamed file in the store. If this fails, for instance because the process may
    /// only read the store, creates the file in memory, unless the log exceeds `IN_MEMORY`.
    fn unnamed(&self) -> Result<File> {
        let made = self.conversation.nameless_file();
        if made.is_ok() || self.log.len() > IN_MEMORY {
            return Ok(made?);
        }
        Ok(rustix::fs::memfd_create(c"ctxfs-log", MemfdFlags::CLOEXEC).map(File::from)?)
    }

    fn snapshot(self: &Arc<Self>, engine: &Engine) -> Result<Snapshot> {
        let source = Source::Log(Arc::clone(self));
        let (changes, file) = (source.changes(), self.copied()?);
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
        let id = self.conversation.id().clone();
        let place = engine.options.place(&id, &path);
        let (file, length, at) = (OpenFile::Here(file), stat.size, (id, path));
        Ok(Snapshot { source, file, stat, length, changes, is_written: false, at, record, place })
    }
}

fn version_of_log(log: &Log, stat: &Stat, published: &Published, changes: u64) -> Version {
    let mut hasher = DefaultHasher::new();
    (stat.ino, published.edition(), log.len()).hash(&mut hasher);
    let shown = Stat { size: log.len(), ..*stat };
    Version {
        changes,
        changed: stat.ctime.as_nanos(),
        bytes: hasher.finish(),
        ..Version::of_messages(&shown, Some(published))
    }
}
