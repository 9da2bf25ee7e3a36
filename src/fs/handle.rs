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

/// The number that listings give for computed entries: they have none before they are looked up.
/// It is below all others, so that programs which remove in the order of these numbers (GNU rm in
/// large directories) meet views before their artifact.
pub(crate) const COMPUTED: u64 = 2;

/// What an open file or directory is.
#[derive(Clone)]
pub(crate) enum Handle {
    /// A file on disk.
    File(Arc<FileHandle>),
    /// A computed file: its text is held for as long as it is open.
    Computed(Arc<OpenText>),
    /// A directory: its names at the moment of opening.
    Listing(Arc<Listing>),
}

/// A line of the message log that was written through one handle and is not in the log yet.
#[derive(Debug, Default)]
pub(super) struct PendingLine {
    pub(super) unfinished: UnfinishedLine,
    /// The offset of the handle's next byte in a file that keeps what it is given.
    pub(super) next: Option<u64>,
    /// The table of open files by which it was written last.
    pub(super) owner: Option<u64>,
}

/// A file on disk that is open.
pub(crate) struct FileHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) file: Arc<File>,
    pub(crate) writes: bool,
    /// The line that waits for its end, where this is the message log.
    pub(super) line: Mutex<PendingLine>,
    /// The thread that closed a descriptor of it last.
    pub(super) closed_by: Mutex<Option<ClosingThread>>,
}

impl FileHandle {
    /// Notes the thread that closes a descriptor of it.
    pub(crate) fn note_closed_by(&self, thread: ClosingThread) {
        *self.closed_by.lock() = Some(thread);
    }

    /// Returns true if a descriptor of it was closed: then, once the mount is gone, all are.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed_by.lock().is_some()
    }

    /// Takes the thread that closed it.
    pub(crate) fn take_closed_by(&self) -> Option<ClosingThread> {
        self.closed_by.lock().take()
    }
}

/// The names of a directory at one moment: stable while entries come and go.
pub(crate) enum Listing {
    /// These.
    Names(Vec<ListedName>),
    /// So many pages: their names are made when they are asked, as there may be millions.
    Pages(u64),
}

impl Listing {
    /// The name at a place in the order, from 0; none behind the last one.
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

/// One name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedName {
    pub(crate) name: OsString,
    pub(crate) kind: FileKind,
    pub(crate) ino: u64,
}

impl ListedName {
    /// The name of something computed.
    pub(crate) fn computed(name: &str, kind: FileKind) -> Self {
        Self { name: name.into(), kind, ino: COMPUTED }
    }
}

/// All that is open.
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

    /// Takes out all that is open.
    pub(crate) fn drain(&self) -> Vec<Handle> {
        let open: Vec<u64> = self.open.iter().map(|entry| *entry.key()).collect();
        open.into_iter().filter_map(|fh| self.remove(Fh(fh))).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}
