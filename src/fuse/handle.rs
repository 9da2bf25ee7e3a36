//! Open files and directories.

use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::dir_names::{DirNames, EntryName};
use crate::file_node::PendingFile;
use crate::{Fh, FsError, Node, Pages, Result};
use ctxfs_engine::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ctxfs_engine::sync::{DashMap, Mutex};
use ctxfs_engine::{OpenText, RemoteFile, Share, Shares, UnfinishedMessage};

#[derive(Debug, Clone, Copy)]
pub struct OpenMode {
    pub flags: i32,
}

impl OpenMode {
    pub(super) fn writes(self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY || self.empties()
    }

    pub(crate) fn empties(self) -> bool {
        self.flags & libc::O_TRUNC != 0
    }

    pub(crate) fn only_empties(self) -> bool {
        self.empties() && self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }

    pub(crate) fn appends(self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    /// Returns the data that each write must flush to the disk before it returns.
    pub(super) fn flush(self) -> Option<Flush> {
        if self.flags & libc::O_SYNC == libc::O_SYNC {
            Some(Flush::All)
        } else {
            (self.flags & libc::O_DSYNC != 0).then_some(Flush::Data)
        }
    }

    pub(crate) fn can_map_for_writing(self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDWR
    }

    /// Returns the flags with which to open the store's file. Handles for writing can also read, so
    /// that the analysis can use the descriptor of the last writer. Some flags are left out:
    ///
    /// - `O_CREAT` and `O_TRUNC` are handled by the caller.
    /// - `O_DIRECT` is handled by the kernel.
    /// - `O_SYNC` and `O_DSYNC` are handled through [`Self::flush`].
    /// - `O_APPEND` comes with each write, because a process can switch it and mapped pages never
    ///   append.
    pub(crate) fn on_disk(self) -> OFlags {
        // The analysis reads through the descriptor of a writer, and must not change the access
        // time.
        let writer = OFlags::RDWR | OFlags::NOATIME;
        if self.writes() { writer } else { OFlags::RDONLY }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    Data,
    All,
}

/// An open file, with instructions for the kernel. `pages` is the set of cached pages that the
/// kernel may use if the file is opened for reading.
#[derive(Debug)]
pub struct Opened {
    pub fh: Fh,
    /// The store's file, which the kernel may read directly. `None` for a computed file and for a
    /// remote artifact.
    pub file: Option<Arc<File>>,
    pub writes: bool,
    /// True if every read and write must go to the server, because readers see other bytes than the
    /// disk has.
    pub direct: bool,
    pub pages: Pages,
    /// True if changes of mapped pages must be written through the server, because there is a
    /// quota.
    pub counts_mapped: bool,
}

impl Opened {
    pub(crate) fn without_file(fh: Fh, pages: Pages) -> Self {
        Self { fh, file: None, writes: false, direct: false, pages, counts_mapped: false }
    }
}

/// An open file or directory, which all clones share. Closes when the table and all requests have
/// dropped their clones.
#[derive(Clone)]
pub(crate) enum Handle {
    File(Arc<FileHandle>),
    Computed(Arc<Claimed<OpenText>>),
    Remote(Arc<Claimed<RemoteHandle>>),
    Listing(Arc<Claimed<DirListing>>),
}

/// An open remote artifact, whose bytes were not on the local disk when it was opened.
pub(crate) struct RemoteHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) far: Arc<RemoteFile>,
    /// The local file, once the bytes have been fetched. The file may have changed since the fetch.
    pub(super) local: Arc<PendingFile>,
}

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

/// The unfinished line of the message log: bytes written through one handle, without a newline yet.
/// `next` is the offset that the next byte would have in an ordinary file. `owner` identifies the
/// table of open files through which the line was last written.
#[derive(Debug, Default)]
pub(super) struct PendingLine {
    pub(super) unfinished: UnfinishedMessage,
    pub(super) next: Option<u64>,
    pub(super) owner: Option<u64>,
}

/// An open local file. If `writes` is true, the handle counts as a writer of the file until it is
/// released.
pub(crate) struct FileHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) file: Arc<File>,
    pub(crate) mode: OpenMode,
    pub(crate) writes: bool,
    /// True if the handle created the file.
    pub(super) is_new: bool,
    /// True if the file was a message log when it was opened.
    pub(super) is_log: bool,
    pub(super) line: Mutex<PendingLine>,
    pub(super) last_close: Mutex<Option<Closing>>,
    pub(super) _share: Share,
}

/// The last close of a descriptor of a writing handle. `killed_by` is the signal that killed the
/// closing thread, if any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    pub(super) killed_by: Option<i32>,
}

/// The names of an open directory. A directory on disk is listed again when a reader starts at the
/// beginning. For pages, only their number is stored, because there may be millions of names.
pub(crate) enum DirListing {
    Dir(Mutex<Option<Arc<DirNames>>>),
    Names(Vec<EntryName<'static>>),
    Pages(u64),
}

/// All open files and directories by handle number, and the number of descriptors that each client
/// holds. Handle numbers are never reused.
pub(crate) struct HandleTable {
    open: DashMap<u64, Handle>,
    next: AtomicU64,
    pub(crate) shares: Arc<Shares>,
}

impl HandleTable {
    pub(crate) fn new(most: u64) -> Self {
        Self { open: DashMap::new(), next: AtomicU64::new(0), shares: Shares::new(most) }
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
            Handle::Remote(_) => Err(FsError::WrongMode),
            Handle::Listing(_) => Err(FsError::IsADirectory),
        }
    }

    pub(crate) fn listing(&self, fh: Fh) -> Result<Arc<Claimed<DirListing>>> {
        match self.get(fh)? {
            Handle::Listing(listing) => Ok(listing),
            Handle::File(_) | Handle::Remote(_) | Handle::Computed(_) => {
                Err(FsError::NotADirectory)
            }
        }
    }

    pub(crate) fn remove(&self, fh: Fh) -> Option<Handle> {
        self.open.remove(&fh.0).map(|(_, handle)| handle)
    }

    pub(crate) fn drain(&self) -> Vec<Handle> {
        let open: Vec<u64> = self.open.iter().map(|entry| *entry.key()).collect();
        open.into_iter().filter_map(|fh| self.remove(Fh(fh))).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}
