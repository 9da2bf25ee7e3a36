//! Open files and directories.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;

use crate::engine::OpenText;
use crate::engine::sync::DashMap;
use crate::engine::sync::Mutex;
use crate::engine::sync::atomic::AtomicU64;
use crate::engine::sync::atomic::Ordering::Relaxed;
use crate::fs::Fh;
use crate::fs::FileKind;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::closing_thread::ClosingThread;
use crate::fs::node::Node;
use crate::message::UnfinishedLine;
use crate::view::PageNumber;

/// The inode number of computed entries in listings; they have none before they are looked up. It
/// is below all others, so that programs which remove files in the order of these numbers (GNU rm
/// in large directories) meet views before their artifact.
pub(crate) const COMPUTED: u64 = 2;

/// An open file or directory.
#[derive(Clone)]
pub(crate) enum Handle {
    /// A file on disk.
    File(Arc<FileHandle>),
    /// A computed file, with its text.
    Computed(Arc<OpenText>),
    /// A directory, with its names at the time of opening.
    Listing(Arc<Listing>),
}

/// The line of the message log that was written through one handle and is not in the log yet.
#[derive(Debug, Default)]
pub(super) struct PendingLine {
    pub(super) unfinished: UnfinishedLine,
    /// The offset that the handle's next byte would have in an ordinary file.
    pub(super) next: Option<u64>,
    /// The table of open files through which it was last written.
    pub(super) owner: Option<u64>,
}

/// A file on disk that is open.
pub(crate) struct FileHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) file: Arc<File>,
    pub(crate) writes: bool,
    /// The unfinished line, if this is a message log.
    pub(super) line: Mutex<PendingLine>,
    /// The thread that last closed a descriptor of it.
    pub(super) closed_by: Mutex<Option<ClosingThread>>,
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

/// The names in a directory at one moment. They stay the same while entries come and go.
pub(crate) enum Listing {
    /// A list of names.
    Names(Vec<ListedName>),
    /// The number of pages. Their names are made on demand, as there may be millions.
    Pages(u64),
}

impl Listing {
    /// Returns the name at a position, counted from 0. `None` after the last one.
    pub(crate) fn get(&self, at: u64) -> Option<Cow<'_, ListedName>> {
        match self {
            Self::Names(names) => names.get(usize::try_from(at).ok()?).map(Cow::Borrowed),
            Self::Pages(count) => (at < *count).then(|| {
                let name = PageNumber::after(at).to_string();
                Cow::Owned(ListedName::computed(&name, FileKind::File))
            }),
        }
    }
}

/// A name in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedName {
    pub(crate) name: OsString,
    pub(crate) kind: FileKind,
    pub(crate) ino: u64,
}

impl ListedName {
    /// Creates the name of something computed.
    pub(crate) fn computed(name: &str, kind: FileKind) -> Self {
        Self { name: name.into(), kind, ino: COMPUTED }
    }
}

/// All open files and directories.
#[derive(Default)]
pub(crate) struct HandleTable {
    open: DashMap<u64, Handle>,
    next: AtomicU64,
}

impl HandleTable {
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
            Handle::Listing(_) => Err(FsError::IsADirectory),
        }
    }

    pub(crate) fn listing(&self, fh: Fh) -> Result<Arc<Listing>> {
        match self.get(fh)? {
            Handle::Listing(listing) => Ok(listing),
            Handle::File(_) | Handle::Computed(_) => Err(FsError::NotADirectory),
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
