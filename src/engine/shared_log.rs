//! The message log of a conversation of several hosts, at one moment, as a source of views.

use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, OFlags};

use crate::sync::Mutex;
use crate::{
    Engine, EngineError, Identity, OpenFile, Result, RewriteCount, Snapshot, SourceFile, Tracker,
    Version, messages, messages_version,
};
use ctxfs_core::model::{Component, Content as _, Record, RelPath};
use ctxfs_store::message::{Log, Published};
use ctxfs_store::{Artifact, Conversation, HISTORY, MESSAGES, Stat, message, stat_file};

/// The most bytes of a log that is put together in memory.
const IN_MEMORY: u64 = 64 << 20;

/// The log as it was shown at one moment. Its bytes never change: they are put together in a file
/// without a name when they are first asked for.
pub struct SharedLog {
    /// This host's file.
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
    /// Returns the log whose file on this host is `own`, of which the disk says `stat`. `None` if
    /// that file is all that is shown, and for any other file.
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

    /// Returns the version at which views of it are.
    pub fn present_version(&self) -> Version {
        self.version
    }

    fn copied(&self) -> Result<Arc<File>> {
        let mut copy = self.copy.lock();
        if let Some(file) = &*copy {
            return Ok(Arc::clone(file));
        }
        let file = self.nameless()?;
        self.log.copy_to(&file)?;
        Ok(Arc::clone(copy.insert(Arc::new(file))))
    }

    /// Makes a file without a name: in the store or, for a process that may only read, in memory.
    fn nameless(&self) -> Result<File> {
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

    /// It has whole lines already, and nobody mends it.
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

    fn own_rewrites(&self) -> u64 {
        0
    }

    fn tracker(&self) -> &Tracker {
        &self.tracker
    }
}
