//! A regular file on disk, and the state that the filesystem keeps for it.

use std::fs::File;
use std::sync::{Arc, OnceLock, Weak};

use rustix::fs::OFlags;

use crate::attr::STAT_BLOCK;
use crate::{FsError, Life, LinkCell, NodeLink, Result};
use ctxfs_core::model::Component;
use ctxfs_engine::sync::{Mutex, MutexGuard};
use ctxfs_engine::{DoorFile, FileId, FileLife as _, FilePlace, Source, SourceState};
use ctxfs_store::{MESSAGES, Stat, stat_file};

const READER: OFlags = OFlags::RDONLY;

/// A cell for the local file of a remote artifact. Empty until the bytes have been fetched.
pub(crate) type PendingFile = OnceLock<Arc<File>>;

/// The location of a file's bytes if it differs from the original local file: a copy that replaced
/// the original, or the bucket. All readers of remote bytes share `pending`.
#[derive(Default)]
struct Bytes {
    copy: Option<FileId>,
    far: Option<Stat>,
    pending: Weak<PendingFile>,
}

/// A regular file on disk, or a remote artifact. `id` identifies the local file that the first
/// look-up found, even after a copy has replaced that file.
pub(crate) struct FileNode {
    pub(crate) link: LinkCell,
    id: FileId,
    bytes: Mutex<Option<Box<Bytes>>>,
    pub(crate) state: SourceState<Life>,
}

impl FileNode {
    pub(crate) fn new(link: NodeLink, stat: &Stat) -> Self {
        Self {
            link: LinkCell::new(link),
            id: FileId::of(stat),
            bytes: Mutex::default(),
            state: SourceState::new(Life::at_rest(stat)),
        }
    }

    pub(crate) fn id(&self) -> FileId {
        self.bytes.lock().as_ref().and_then(|bytes| bytes.copy).unwrap_or(self.id)
    }

    /// Returns true if `stat` describes this node's local file, or this node's remote artifact.
    pub(crate) fn is_at(&self, stat: &Stat) -> bool {
        let id = FileId::of(stat);
        id == self.id() || (stat.is_far() && id == self.id)
    }

    /// Records whether the bytes are remote, according to the attributes from a look-up.
    pub(crate) fn found_as(&self, stat: &Stat) {
        let mut bytes = self.bytes.lock();
        if stat.is_far() {
            bytes.get_or_insert_default().far = Some(*stat);
        } else if let Some(bytes) = bytes.as_mut() {
            bytes.far = None;
        }
    }

    pub(crate) fn remote_stat(&self) -> Option<Stat> {
        self.bytes.lock().as_ref().and_then(|bytes| bytes.far)
    }

    pub(crate) fn pending(&self) -> Arc<PendingFile> {
        let mut bytes = self.bytes.lock();
        let bytes = bytes.get_or_insert_default();
        bytes.pending.upgrade().unwrap_or_else(|| {
            let pending = Arc::default();
            bytes.pending = Arc::downgrade(&pending);
            pending
        })
    }

    fn open_remote_stat(&self) -> Option<Stat> {
        let bytes = self.bytes.lock();
        let far = bytes.as_ref().filter(|bytes| bytes.pending.strong_count() > 0)?.far?;
        // A remote artifact has no blocks on this disk. Without blocks, programs would assume
        // holes.
        Some(Stat { blocks: far.size.div_ceil(STAT_BLOCK), ..far })
    }

    pub(crate) fn has_file(&self) -> bool {
        let link = self.link.get();
        link.is_some_and(|link| link.dir().is_ok_and(|dir| dir.stat(&link.name).is_ok()))
    }

    /// Adopts the copy with the attributes `stat` as this node's local file. Returns false and does
    /// nothing if the file is in use, because open handles keep the bytes that they have. Handles
    /// that were opened for the remote bytes read the copy from then on.
    pub(crate) fn take_copy(&self, stat: &Stat) -> bool {
        let place = self.link.get().and_then(|link| Some((link.dir().ok()?, link.name)));
        let mut life = self.life();
        if !life.is_at_rest() || life.any_open().is_some() {
            return false;
        }
        let pending = {
            let mut bytes = self.bytes.lock();
            let bytes = bytes.get_or_insert_default();
            (bytes.copy, bytes.far) = (Some(FileId::of(stat)), None);
            std::mem::take(&mut bytes.pending).upgrade()
        };
        if let (Some(pending), Some((dir, name))) = (pending, place) {
            match FileId::of(stat).check(dir.open_file(&name, READER)).map(Arc::new) {
                Ok(file) => {
                    life.remember(&file);
                    let _first = pending.set(file);
                }
                Err(error) => {
                    tracing::warn!(%error, "open handles keep the bytes from before the fetch");
                }
            }
        }
        true
    }

    pub(crate) fn life(&self) -> MutexGuard<'_, Life> {
        self.state.life.lock()
    }

    /// Returns the current attributes of the file. Reads them by the file's name, or through an
    /// open descriptor if the file has lost its name. A remote artifact keeps the attributes from
    /// its last look-up: a file that has its name now may be a different file.
    pub(crate) fn stat(&self) -> Result<Stat> {
        if let Some(link) = self.link.get() {
            match link.dir()?.stat(&link.name) {
                Ok(stat) if self.is_at(&stat) => return Ok(stat),
                _ => {
                    if let Some(far) = self.remote_stat() {
                        return Ok(far);
                    }
                }
            }
        }
        match self.any_open() {
            Some(file) => Ok(stat_file(&file)?),
            None => self.open_remote_stat().ok_or(FsError::Stale),
        }
    }

    /// Opens the file by its name. Fails with [`FsError::Stale`] if the name is gone or leads to a
    /// different file. The kernel then looks the name up again, and creates a file if the client
    /// requested `O_CREAT`.
    pub(crate) fn open(&self, flags: OFlags) -> Result<File> {
        let link = self.link.get().ok_or(FsError::Stale)?;
        let dir = link.dir()?;
        Ok(self.id().check(dir.open_file(&link.name, flags))?)
    }

    pub(crate) fn any_open(&self) -> Option<Arc<File>> {
        self.life().any_open()
    }

    pub(crate) fn is_artifact(&self) -> bool {
        self.place().is_some_and(|(_, path)| path.is_artifact())
    }

    pub(crate) fn is_message_log(&self) -> bool {
        let parent = {
            let link = self.link.lock();
            link.as_ref().filter(|link| link.name == MESSAGES).map(|link| Arc::clone(&link.parent))
        };
        parent.is_some_and(|parent| parent.as_dir().is_ok_and(|dir| dir.has_log(MESSAGES.as_ref())))
    }
}

pub(crate) fn source(file: &Arc<FileNode>) -> Source {
    Source::File(Arc::clone(file) as _)
}

impl DoorFile for FileNode {
    fn place(&self) -> Option<FilePlace> {
        self.link.get()?.place()
    }

    fn reader(&self) -> ctxfs_engine::Result<Arc<File>> {
        match self.open(READER) {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => self.any_open().ok_or_else(|| error.into()),
        }
    }

    fn was(&self, original: &Stat) -> bool {
        FileId::of(original) == self.id || self.is_at(original)
    }

    fn state(&self) -> &SourceState {
        &self.state
    }

    fn charged_to(&self) -> Option<Component> {
        let here = self.link.get().and_then(|link| link.conversation());
        here.or_else(|| self.life().charged_to())
    }

    fn is_far(&self) -> bool {
        self.remote_stat().is_some()
    }
}
