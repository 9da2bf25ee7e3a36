//! Open files and directories.

use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;

use crate::closing_thread::ClosingThread;
use crate::dir_names::{DirNames, EntryName};
use crate::node::Node;
use crate::node::file::Awaited;
use crate::{Fh, FsError, OpenMode, Result};
use ctxfs_engine::sync::atomic::AtomicU64;
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::sync::{DashMap, Mutex};
use ctxfs_engine::{Client, OpenFar, OpenText, Share, Shares, UnfinishedMessage};

/// An open file or directory.
#[derive(Clone)]
pub(crate) enum Handle {
    /// A file on disk.
    File(Arc<FileHandle>),
    /// A computed file, with its text.
    Computed(Arc<Claimed<OpenText>>),
    /// An artifact whose bytes were not on this disk, for reading.
    Far(Arc<Claimed<FarHandle>>),
    /// A directory.
    Listing(Arc<Claimed<Listing>>),
}

/// An artifact that is open for reading and whose bytes were not on this disk when it was opened.
pub(crate) struct FarHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) far: Arc<OpenFar>,
    /// The local file, once the bytes have come: it may be changed.
    pub(super) here: Arc<Awaited>,
}

impl FarHandle {
    /// Returns the local file, if the bytes have come.
    pub(super) fn here(&self) -> Option<&Arc<File>> {
        self.here.get()
    }
}

/// Something that is open, with the descriptor that it may hold.
pub(crate) struct Claimed<T>(T, #[expect(dead_code, reason = "it is held")] Share);

impl<T> Claimed<T> {
    pub(super) fn new(open: T, share: Share) -> Arc<Self> {
        Arc::new(Self(open, share))
    }
}

impl<T> Deref for Claimed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The line of the message log that was written through one handle and is not in the log yet.
#[derive(Debug, Default)]
pub(super) struct PendingLine {
    pub(super) unfinished: UnfinishedMessage,
    /// The offset that the handle's next byte would have in an ordinary file.
    pub(super) next: Option<u64>,
    /// The table of open files through which it was last written.
    pub(super) owner: Option<u64>,
}

/// A file on disk that is open.
pub(crate) struct FileHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) file: Arc<File>,
    /// The mode in which it was opened.
    pub(crate) mode: OpenMode,
    pub(crate) writes: bool,
    /// The unfinished line, if this is a message log.
    pub(super) line: Mutex<PendingLine>,
    /// The thread that last closed a descriptor of it.
    pub(super) closed_by: Mutex<Option<ClosingThread>>,
    /// The descriptors that it holds.
    pub(super) share: Share,
}

impl FileHandle {
    /// Records the thread that closes a descriptor of it.
    pub(crate) fn note_closed_by(&self, thread: ClosingThread) {
        *self.closed_by.lock() = Some(thread);
    }

    /// Returns true if a descriptor of it was closed. Once the mount is gone, all of them are then.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed_by.lock().is_some()
    }

    /// Takes the thread that closed it.
    pub(crate) fn take_closed_by(&self) -> Option<ClosingThread> {
        self.closed_by.lock().take()
    }
}

/// An open directory.
pub(crate) enum Listing {
    /// A directory on disk, with its names at the time when it was last read from its beginning.
    Dir(Mutex<Option<Arc<DirNames>>>),
    /// A list of names.
    Names(Vec<EntryName<'static>>),
    /// The number of pages. Their names are made on demand, as there may be millions.
    Pages(u64),
}

/// All open files and directories.
pub(crate) struct HandleTable {
    open: DashMap<u64, Handle>,
    next: AtomicU64,
    shares: Arc<Shares>,
}

impl HandleTable {
    /// Creates a table whose handles hold at most so many descriptors.
    pub(crate) fn new(most: u64) -> Self {
        Self { open: DashMap::new(), next: AtomicU64::new(0), shares: Shares::new(most) }
    }

    /// Claims the descriptors of a handle. Fails with [`FsError::TooManyOpen`] if `client` has too
    /// much open.
    pub(crate) fn claim(&self, client: Client, count: u64) -> Result<Share> {
        self.shares.claim(client, count).ok_or(FsError::TooManyOpen)
    }

    pub(crate) fn insert(&self, handle: Handle) -> Fh {
        let fh = self.next.fetch_add(1, Relaxed) + 1;
        self.open.insert(fh, handle);
        Fh(fh)
    }

    pub(crate) fn get(&self, fh: Fh) -> Result<Handle> {
        let handle = self.open.get(&fh.0).ok_or(FsError::UnknownHandle(fh.0))?;
        Ok(handle.clone())
    }

    pub(crate) fn file(&self, fh: Fh) -> Result<Arc<FileHandle>> {
        match self.get(fh)? {
            Handle::File(file) => Ok(file),
            Handle::Computed(_) => Err(FsError::Computed),
            Handle::Far(_) => Err(FsError::WrongMode),
            Handle::Listing(_) => Err(FsError::IsADirectory),
        }
    }

    pub(crate) fn listing(&self, fh: Fh) -> Result<Arc<Claimed<Listing>>> {
        match self.get(fh)? {
            Handle::Listing(listing) => Ok(listing),
            Handle::File(_) | Handle::Far(_) | Handle::Computed(_) => Err(FsError::NotADirectory),
        }
    }

    pub(crate) fn remove(&self, fh: Fh) -> Option<Handle> {
        self.open.remove(&fh.0).map(|(_, handle)| handle)
    }

    /// Removes and returns all handles.
    pub(crate) fn drain(&self) -> Vec<Handle> {
        let open: Vec<u64> = self.open.iter().map(|entry| *entry.key()).collect();
        open.into_iter().filter_map(|fh| self.remove(Fh(fh))).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}
