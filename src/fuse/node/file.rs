//! A regular file on disk, with the state that the filesystem keeps for it.

use std::fs::File;
use std::sync::{Arc, OnceLock, Weak};

use rustix::fs::OFlags;

use crate::known_facts::KnownFacts;
use crate::known_sizes::KnownSizes;
use crate::life::Life;
use crate::node::{Link, Linked};
use crate::{FsError, Result};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::sync::{Mutex, MutexGuard};
use ctxfs_engine::{FileId, RewriteCount, Tracker};
use ctxfs_store::{FileClock, Stat, stat_file};

/// The way to open a file for those who read it.
const READER: OFlags = OFlags::RDONLY;

/// The bytes of a block in `stat`.
const BLOCK: u64 = 512;

/// The local file of an artifact whose bytes were elsewhere, open, once they have come.
pub(crate) type Awaited = OnceLock<Arc<File>>;

/// Where the bytes of a file are that are not in the local file that it was found as first.
#[derive(Default)]
struct Bytes {
    /// The copy that took the place of that.
    copy: Option<FileId>,
    /// The attributes of the artifact, if they were not on this disk when it was last looked up.
    far: Option<Stat>,
    /// The local file to come, of those who read the bytes from elsewhere.
    awaited: Weak<Awaited>,
}

/// A regular file on disk.
pub(crate) struct FileNode {
    pub(crate) link: Linked,
    /// The local file that it was found as first.
    id: FileId,
    /// Where its bytes are, if not in that.
    bytes: Mutex<Option<Box<Bytes>>>,
    pub(crate) facts: KnownFacts,
    pub(crate) sizes: KnownSizes,
    pub(crate) tracker: Tracker,
    life: Mutex<Life>,
}

impl FileNode {
    pub(crate) fn new(link: Link, stat: &Stat) -> Self {
        Self {
            link: Linked::new(link),
            id: FileId::of(stat),
            bytes: Mutex::default(),
            facts: KnownFacts::default(),
            sizes: KnownSizes::default(),
            tracker: Tracker::default(),
            life: Mutex::new(Life::at_rest(stat)),
        }
    }

    /// Returns the local file that has its bytes.
    pub(crate) fn id(&self) -> FileId {
        self.bytes.lock().as_ref().and_then(|bytes| bytes.copy).unwrap_or(self.id)
    }

    /// Returns true if `stat` describes the local file that has its bytes, or the artifact that it
    /// is without them.
    pub(crate) fn is_at(&self, stat: &Stat) -> bool {
        let id = FileId::of(stat);
        id == self.id() || (stat.is_far() && id == self.id)
    }

    /// Notes that it was found with these attributes, and whether its bytes are on this disk.
    pub(crate) fn found_as(&self, stat: &Stat) {
        let mut bytes = self.bytes.lock();
        if stat.is_far() {
            bytes.get_or_insert_default().far = Some(*stat);
        } else if let Some(bytes) = bytes.as_mut() {
            bytes.far = None;
        }
    }

    /// Returns its attributes as an artifact whose bytes are not on this disk, if it was found so.
    pub(crate) fn far_stat(&self) -> Option<Stat> {
        self.bytes.lock().as_ref().and_then(|bytes| bytes.far)
    }

    /// Returns the local file to come, for somebody who reads the bytes from elsewhere. It is set
    /// when they come.
    pub(crate) fn awaited(&self) -> Arc<Awaited> {
        let mut bytes = self.bytes.lock();
        let bytes = bytes.get_or_insert_default();
        bytes.awaited.upgrade().unwrap_or_else(|| {
            let awaited = Arc::default();
            bytes.awaited = Arc::downgrade(&awaited);
            awaited
        })
    }

    /// Returns its attributes as an artifact whose bytes are not on this disk, if somebody has it
    /// open.
    fn open_far_stat(&self) -> Option<Stat> {
        let bytes = self.bytes.lock();
        let far = bytes.as_ref().filter(|bytes| bytes.awaited.strong_count() > 0)?.far?;
        // It has no name, other than one that was found by its record.
        Some(Stat { blocks: far.size.div_ceil(BLOCK), ..far })
    }

    /// Returns true if a file has its name.
    pub(crate) fn has_file(&self) -> bool {
        let link = self.link.get();
        link.is_some_and(|link| link.dir().is_ok_and(|dir| dir.stat(&link.name).is_ok()))
    }

    /// Returns true if `original`, the file that a copy took the place of, is this one.
    pub(crate) fn was(&self, original: &Stat) -> bool {
        FileId::of(original) == self.id || self.is_at(original)
    }

    /// Makes the file that `stat` describes the one that has its bytes, unless a local file is in
    /// use: whoever has that open goes on with the bytes that he has. Whoever reads the bytes from
    /// elsewhere reads that file from now on.
    pub(crate) fn take_copy(&self, stat: &Stat) -> bool {
        let place = self.link.get().and_then(|link| Some((link.dir().ok()?, link.name)));
        let mut life = self.life();
        if !life.is_at_rest() || life.any_open().is_some() {
            return false;
        }
        let awaited = {
            let mut bytes = self.bytes.lock();
            let bytes = bytes.get_or_insert_default();
            (bytes.copy, bytes.far) = (Some(FileId::of(stat)), None);
            std::mem::take(&mut bytes.awaited).upgrade()
        };
        if let (Some(awaited), Some((dir, name))) = (awaited, place) {
            match FileId::of(stat).open(&dir, &name, READER).map(Arc::new) {
                Ok(file) => {
                    life.remember(&file);
                    let _first = awaited.set(file);
                }
                Err(error) => tracing::warn!(%error, "who has it open reads what it was"),
            }
        }
        true
    }

    /// Locks its life, so that nothing is written meanwhile.
    pub(crate) fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock()
    }

    /// Returns its present attributes: by its name, or by an open descriptor if it has lost its
    /// name. What was found elsewhere has those of then, until its name is looked up again: a file
    /// that has the name by now may be it, or another one.
    pub(crate) fn stat(&self) -> Result<Stat> {
        if let Some(link) = self.link.get() {
            match link.dir()?.stat(&link.name) {
                Ok(stat) if self.is_at(&stat) => return Ok(stat),
                _ => {
                    if let Some(far) = self.far_stat() {
                        return Ok(far);
                    }
                }
            }
        }
        match self.any_open() {
            Some(file) => Ok(stat_file(&file)?),
            None => self.open_far_stat().ok_or(FsError::Stale),
        }
    }

    /// Opens it anew. Fails with [`FsError::Stale`] if its name leads to another file by now, or to
    /// none: the kernel then looks the name up again, and creates a file if it was told to.
    pub(crate) fn open(&self, flags: OFlags) -> Result<File> {
        let link = self.link.get().ok_or(FsError::Stale)?;
        let dir = link.dir()?;
        Ok(self.id().open(&dir, &link.name, flags)?)
    }

    /// Returns a descriptor that can read it.
    pub(crate) fn reader(&self) -> Result<Arc<File>> {
        match self.open(READER) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => self.any_open().ok_or(error),
        }
    }

    /// Returns some open descriptor of it.
    pub(crate) fn any_open(&self) -> Option<Arc<File>> {
        self.life().any_open()
    }

    /// Records changes by other processes, which show by the `clock` of the disk. Returns how often
    /// it was rewritten, and its attributes.
    pub(crate) fn notice(&self, file: &File, clock: FileClock) -> Result<(RewriteCount, Stat)> {
        let mut life = self.life();
        let stat = stat_file(file)?;
        life.noticed(&stat, clock);
        Ok((life.rewrites(), stat))
    }

    /// Returns its conversation and the path inside it. `None` if it has lost its name.
    pub(crate) fn place(&self) -> Option<(Component, RelPath)> {
        self.link.get()?.place()
    }

    /// Returns the conversation whose quota it counts against: that which it is in, or was in when
    /// it lost its name.
    pub(crate) fn charged_to(&self) -> Option<Component> {
        let here = self.link.get().and_then(|link| link.conversation());
        here.or_else(|| self.life().charged_to())
    }

    /// Returns true if it has an artifact's name.
    pub(crate) fn is_artifact(&self) -> bool {
        self.place().is_some_and(|(_, path)| path.is_artifact())
    }

    /// Returns true if it has the name of a terminal's log.
    pub(crate) fn is_terminal_log(&self) -> bool {
        self.place().is_some_and(|(_, path)| path.is_terminal())
    }
}
