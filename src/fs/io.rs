//! Opening, reading, writing and closing files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::fs::OFlags;
use rustix::fs::SeekFrom;

use crate::fs::Attr;
use crate::fs::Caller;
use crate::fs::ContextFs;
use crate::fs::Counters;
use crate::fs::Entry;
use crate::fs::Fh;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::TimedAttr;
use crate::fs::closer::Closer;
use crate::fs::file::FileNode;
use crate::fs::handle::FileHandle;
use crate::fs::handle::Handle;
use crate::fs::messages::Writer;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::seal::Job;
use crate::fs::sync::Mutex;
use crate::fs::sync::thread;
use crate::fs::tally::OpenView;
use crate::message;
use crate::model::Component;
use crate::store::Conversation;
use crate::store::append_all;
use crate::store::read_full_at;
use crate::store::stat_file;

/// Bytes that a live artifact may be ahead of its analysis before that is carried on: enough that
/// small writers are left alone, little enough that the end of a large one is soon analysed.
const AHEAD: u64 = 1024 * 1024;
/// How long the attributes of a new file are believed, and with them its name: the kernel asks for
/// them at once after it was made.
const NEW: Duration = Duration::from_millis(1);
/// How long an open for writing waits, on a write-once mount, for a close that is under way.
const CLOSING: Duration = Duration::from_millis(50);

/// How a file is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct OpenMode {
    /// The flags of open(2).
    pub flags: i32,
}

impl OpenMode {
    fn writes(self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY || self.flags & libc::O_TRUNC != 0
    }

    fn can_map_for_writing(self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDWR
    }

    /// As the store's file is opened: writers can read too, so that the last one's descriptor can
    /// serve the analysis. Creation is the caller's, alignment the kernel's business, and each write
    /// says whether it appends: that can be switched on and off, and mapped pages never do.
    fn on_disk(self) -> OFlags {
        let kept = libc::O_SYNC | libc::O_DSYNC;
        // What the analysis reads by a writer's descriptor is no use of it.
        let writer = OFlags::RDWR | OFlags::NOATIME;
        let access = if self.writes() { writer } else { OFlags::RDONLY };
        access | OFlags::from_bits_retain((self.flags & kept) as u32)
    }
}

/// An open file.
#[derive(Debug)]
pub struct Opened {
    /// Its handle.
    pub fh: Fh,
    /// The store's file, where the kernel may read it directly; none for computed files.
    pub file: Option<Arc<File>>,
    /// Whether it can write.
    pub writes: bool,
    /// Whether every read and write has to come here: what the file shows is not what the disk has.
    pub direct: bool,
}

impl ContextFs {
    /// Opens a file and hands it to `done`, which a computed file may reach on another thread.
    pub fn open(
        &self,
        ino: Ino,
        mode: OpenMode,
        done: impl FnOnce(Result<Opened>) + Send + 'static,
    ) {
        let node = match self.0.nodes.get(ino) {
            Ok(node) => node,
            Err(error) => return done(Err(error)),
        };
        match &node.kind {
            NodeKind::Rendered(_) if mode.writes() => done(Err(FsError::Computed)),
            NodeKind::Rendered(_) => {
                let (shared, of) = (Arc::clone(&self.0), Arc::clone(&node));
                self.0.body(&node, move |body| {
                    done(body.map(|body| {
                        let view = Arc::new(OpenView::new(of, body));
                        let fh = shared.handles.insert(Handle::Rendered(view));
                        Opened { fh, file: None, writes: false, direct: false }
                    }));
                });
            }
            NodeKind::File(file) => done(self.0.open_file(&node, file, mode)),
            NodeKind::Dir(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
                done(Err(FsError::IsADirectory));
            }
        }
    }

    /// Creates a file that is not there and opens it.
    pub fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        permissions: u32,
        mode: OpenMode,
        caller: Caller,
    ) -> Result<(Entry, Opened)> {
        let parent = self.0.nodes.get(parent)?;
        let dir = Shared::writable_dir(&parent, name)?;
        let flags = mode.on_disk() | OFlags::EXCL;
        let file = match dir.dir.create_file(name, flags, permissions & 0o7777) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return self.open_existing(&parent, name, mode);
            }
            created => Arc::new(created?),
        };
        Shared::give_to(&file, caller)?;
        let stat = stat_file(&file)?;
        let node = self.0.file_node(&parent, name, &stat)?;
        let opened = self.0.opened(&node, node.as_file()?, file, mode);
        if !opened.writes {
            // Nobody will write it: it is complete as it is.
            node.as_file()?.writing().unsealed = true;
            self.0.sealer.submit(Job::Seal(Arc::clone(&node)));
        }
        let attr = Attr::of_disk(node.ino, &stat);
        let entry = Entry { attr, attr_ttl: NEW, entry_ttl: Duration::ZERO };
        Ok((entry, opened))
    }

    /// Another process created it after the kernel had looked: then it is opened.
    fn open_existing(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
        mode: OpenMode,
    ) -> Result<(Entry, Opened)> {
        if mode.flags & libc::O_EXCL != 0 {
            return Err(FsError::Exists);
        }
        let node = self.0.find_real(parent, parent.as_dir()?, name)?;
        let opened = node.as_file().and_then(|file| {
            let opened = self.0.open_file(&node, file, mode)?;
            if mode.flags & libc::O_TRUNC != 0 {
                // The kernel takes it for new.
                self.0.resize(&node, file, 0, Some(opened.fh))?;
            }
            Ok(opened)
        });
        let opened = opened.inspect_err(|_| self.0.nodes.forget(node.ino, 1))?;
        Ok((self.0.entry(&node)?, opened))
    }

    /// Hands up to `size` bytes from `offset` on to `take`; fewer only at the end.
    pub fn read<T>(
        &self,
        fh: Fh,
        offset: u64,
        buffer: &mut [u8],
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        match self.0.handles.get(fh)? {
            Handle::Rendered(view) => {
                view.note_read(offset.saturating_add(buffer.len() as u64));
                Ok(view.body.read(offset, buffer.len(), take)?)
            }
            Handle::Listing(_) => Err(FsError::IsADirectory),
            Handle::File(handle) => {
                let mut wanted = buffer.len();
                if handle.node.is_message_log() {
                    let end = message::whole(&handle.file, stat_file(&handle.file)?.size)?;
                    wanted = wanted.min(end.saturating_sub(offset) as usize);
                }
                let count = read_full_at(&handle.file, offset, &mut buffer[..wanted])?;
                Ok(take(&buffer[..count]))
            }
        }
    }

    /// As [`ContextFs::write_by`], of whoever it may be.
    pub fn write(&self, fh: Fh, offset: u64, bytes: &[u8], mode: OpenMode) -> Result<u32> {
        self.write_by(fh, offset, bytes, mode, None)
    }

    /// Writes `bytes` at `offset`, or at the end where `mode`, which is how the file is open by now,
    /// appends; all of them, or an error. `owner` stands for the table of open files by which it is
    /// written: that of a process.
    ///
    /// What stands in the way of an artifact's end (no room, a cap) is remembered: it is sealed as
    /// incomplete.
    pub fn write_by(
        &self,
        fh: Fh,
        offset: u64,
        bytes: &[u8],
        mode: OpenMode,
        owner: Option<u64>,
    ) -> Result<u32> {
        let handle = self.0.handles.file(fh)?;
        if !handle.writes {
            return Err(FsError::WrongMode);
        }
        if handle.node.is_message_log() {
            self.0.write_log(&handle, offset, bytes, mode, owner)?;
            Counters::add(&self.0.counters.bytes_written, bytes.len() as u64);
            return Ok(bytes.len() as u32);
        }
        let file = handle.node.as_file()?;
        let written = self.0.room_for(&handle.node, offset, bytes.len() as u64).and_then(|()| {
            let mut writing = file.writing();
            writing.meet(&stat_file(&handle.file)?);
            let appends = mode.flags & libc::O_APPEND != 0;
            let done = if appends {
                append_all(&handle.file, bytes)
            } else {
                handle.file.write_all_at(bytes, offset)
            };
            // Of what fails a part may have been written.
            done.inspect_err(|_| writing.rewritten())?;
            // Where others append too, the kernel does not know where the end is.
            let offset = if appends { writing.end } else { offset };
            writing.wrote(offset, &stat_file(&handle.file)?);
            Ok(writing.end)
        });
        let end = written.inspect_err(|error| note_trouble(file, error))?;
        Counters::add(&self.0.counters.bytes_written, bytes.len() as u64);
        if end % AHEAD < bytes.len() as u64 {
            self.0.sealer.submit(Job::Follow(Arc::clone(&handle.node)));
        }
        Ok(bytes.len() as u32)
    }

    /// As [`ContextFs::flush_by`], of whoever it may be.
    pub fn flush(&self, fh: Fh, caller: Caller) -> Result<()> {
        self.flush_by(fh, caller, None)
    }

    /// A descriptor of the file is being closed by the thread `caller.pid`. There may be others.
    /// `owner` stands for the table of open files that had it.
    pub fn flush_by(&self, fh: Fh, caller: Caller, owner: Option<u64>) -> Result<()> {
        if let Handle::File(handle) = self.0.handles.get(fh)?
            && handle.writes
        {
            handle.note_closer(Closer::of(caller.pid));
            self.0.flush_log(&handle, owner)?;
        }
        Ok(())
    }

    /// The last descriptor of the handle is gone.
    pub fn release(&self, fh: Fh) -> Result<()> {
        let handle = self.0.handles.remove(fh).ok_or(FsError::UnknownHandle(fh.0))?;
        match handle {
            Handle::File(handle) if handle.writes => self.0.writer_gone(handle)?,
            Handle::Rendered(view) => self.0.count_read(&view),
            Handle::File(_) | Handle::Listing(_) => {}
        }
        Ok(())
    }

    /// Brings a file's bytes to the disk.
    pub fn fsync(&self, fh: Fh, data_only: bool) -> Result<()> {
        match self.0.handles.get(fh)? {
            Handle::File(handle) if data_only => Ok(handle.file.sync_data()?),
            Handle::File(handle) => Ok(handle.file.sync_all()?),
            Handle::Rendered(_) | Handle::Listing(_) => Ok(()),
        }
    }

    /// Reserves room, or makes holes, as fallocate(2).
    pub fn fallocate(&self, fh: Fh, offset: u64, length: u64, mode: i32) -> Result<()> {
        let handle = self.0.handles.file(fh)?;
        if handle.node.is_message_log() {
            return Err(FsError::Unsupported);
        }
        let file = handle.node.as_file()?;
        self.0.room_for(&handle.node, offset, length)?;
        let mut writing = file.writing();
        writing.meet(&stat_file(&handle.file)?);
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        rustix::fs::fallocate(&*handle.file, flags, offset, length)?;
        writing.rewritten();
        writing.leave(&stat_file(&handle.file)?);
        Ok(())
    }

    /// The next data or hole from `offset` on, as lseek(2).
    pub fn seek(&self, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        let from = u64::try_from(offset).map_err(|_| FsError::Invalid("a negative offset"))?;
        match (self.0.handles.get(fh)?, whence) {
            (Handle::File(handle), libc::SEEK_DATA) => {
                Ok(rustix::fs::seek(&*handle.file, SeekFrom::Data(from))? as i64)
            }
            (Handle::File(handle), libc::SEEK_HOLE) => {
                Ok(rustix::fs::seek(&*handle.file, SeekFrom::Hole(from))? as i64)
            }
            (Handle::Rendered(view), libc::SEEK_DATA) if from < view.body.len() => Ok(offset),
            (Handle::Rendered(view), libc::SEEK_HOLE) if from < view.body.len() => {
                Ok(view.body.len() as i64)
            }
            (Handle::Rendered(_), _) => Err(io::Error::from_raw_os_error(libc::ENXIO).into()),
            _ => Err(FsError::Invalid("a whence that the kernel keeps to itself")),
        }
    }

    /// The attributes of `ino`, handed to `done`: computing a view's size may take it to another
    /// thread.
    pub fn getattr(&self, ino: Ino, done: impl FnOnce(Result<TimedAttr>) + Send + 'static) {
        let node = match self.0.nodes.get(ino) {
            Ok(node) => node,
            Err(error) => return done(Err(error)),
        };
        let NodeKind::Rendered(rendered) = &node.kind else {
            let entry = self.0.entry(&node);
            return done(entry.map(|entry| TimedAttr { attr: entry.attr, ttl: entry.attr_ttl }));
        };
        let known = node.rendered_attr(rendered);
        if !known.ttl.is_zero() {
            return done(Ok(known));
        }
        let again = Arc::clone(&node);
        self.0.body(&node, move |body| {
            done(body.and_then(|_| match &again.kind {
                NodeKind::Rendered(rendered) => Ok(again.rendered_attr(rendered)),
                _ => Err(FsError::Stale),
            }));
        });
    }
}

impl Shared {
    fn open_file(&self, node: &Arc<Node>, file: &FileNode, mode: OpenMode) -> Result<Opened> {
        if mode.writes() {
            self.check_not_sealed(node, file)?;
        }
        let on_disk = Arc::new(file.open(mode.on_disk())?);
        Ok(self.opened(node, file, on_disk, mode))
    }

    fn opened(
        &self,
        node: &Arc<Node>,
        file: &FileNode,
        on_disk: Arc<File>,
        mode: OpenMode,
    ) -> Opened {
        file.opened(&on_disk);
        let writes = mode.writes();
        if writes {
            let mut writing = file.writing();
            writing.writers += 1;
            writing.mapped |= mode.can_map_for_writing();
            let first = writing.writers == 1;
            if first {
                writing.begin_life();
            }
            drop(writing);
            if first {
                self.sealer.submit(Job::Opened(Arc::clone(node)));
            }
        }
        let handle = FileHandle {
            node: Arc::clone(node),
            file: Arc::clone(&on_disk),
            writes,
            log: Writer::default(),
            closer: Mutex::default(),
        };
        let fh = self.handles.insert(Handle::File(Arc::new(handle)));
        Opened { fh, file: Some(on_disk), writes, direct: node.is_message_log() }
    }

    /// On a write-once mount, refuses to change what is sealed. A close that is under way is
    /// waited for: the writer is gone for its user, though not yet for us.
    pub(crate) fn check_not_sealed(&self, node: &Node, file: &FileNode) -> Result<()> {
        let is_artifact = node.place().is_some_and(|(_, path)| path.is_artifact());
        if !self.options.write_once || !is_artifact {
            return Ok(());
        }
        let step = Duration::from_millis(1);
        for _ in 0..CLOSING.as_millis() {
            if file.writing().writers == 0 {
                return Err(FsError::WriteOnce);
            }
            thread::sleep(step);
        }
        Ok(())
    }

    pub(crate) fn writer_gone(&self, handle: Arc<FileHandle>) -> Result<()> {
        let left = self.leave_log(&handle);
        let file = handle.node.as_file()?;
        let node = Arc::clone(&handle.node);
        let mut writing = file.writing();
        writing.writers = writing.writers.saturating_sub(1);
        let last = writing.writers == 0;
        if last {
            writing.closer = handle.closer();
        }
        drop(writing);
        // The descriptor closes before the kernel hears of it: a probe for writers must not meet it.
        drop(handle);
        if last {
            self.sealer.submit(Job::Seal(node));
        }
        left
    }

    /// Whether `length` bytes at `offset` stay within cap and quota and leave room on the disk.
    fn room_for(&self, node: &Node, offset: u64, length: u64) -> Result<()> {
        let end = offset.saturating_add(length);
        self.in_cap(node, end)?;
        if let Some((quota, id)) = self.options.quota.zip(node.conversation()) {
            let growth = end.saturating_sub(node.as_file()?.writing().end);
            let make_room = || self.make_room_in(&id, quota, growth);
            self.room.in_quota(&*self.conversation(&id)?, quota, growth, make_room)?;
        }
        self.room_on_disk(length)
    }

    /// Whether `length` more bytes leave room on the disk.
    pub(crate) fn room_on_disk(&self, length: u64) -> Result<()> {
        let make_room = || self.make_room_on_disk(self.options.min_free, length);
        self.room.on_disk(&self.store, &self.cache, &self.options, length, make_room)
    }

    /// Whether an artifact of `length` bytes can be added to `conversation`.
    pub(crate) fn room_for_output(&self, conversation: &Conversation, length: u64) -> Result<()> {
        match (self.options.max_artifact, self.options.quota) {
            (Some(most), _) if length > most => return Err(FsError::TooLarge(most)),
            (_, Some(quota)) => {
                let make_room = || self.make_room_in(conversation.id(), quota, length);
                self.room.in_quota(conversation, quota, length, make_room)?;
            }
            _ => {}
        }
        self.room_on_disk(length)
    }

    /// The directory in which `name` may be made.
    pub(crate) fn writable_dir<'a>(
        parent: &'a Arc<Node>,
        name: &OsStr,
    ) -> Result<&'a crate::fs::node::DirNode> {
        let dir = parent.as_dir()?;
        Component::new(name)?;
        if parent.is_root() {
            return Err(FsError::RootHoldsConversations);
        }
        Self::check_not_computed(parent, dir, name)?;
        Ok(dir)
    }

    /// The new file's owner is who made it, where the mount serves several users.
    fn give_to(file: &File, caller: Caller) -> Result<()> {
        let me = rustix::process::geteuid();
        if me.is_root() && (caller.uid, caller.gid) != (0, 0) {
            let uid = rustix::fs::Uid::from_raw(caller.uid);
            let gid = rustix::fs::Gid::from_raw(caller.gid);
            rustix::fs::fchown(file, Some(uid), Some(gid))?;
        }
        Ok(())
    }
}

/// Why the artifact will lack its end, where `error` means that.
fn note_trouble(file: &FileNode, error: &FsError) {
    let why = match error.errno().0 {
        libc::EFBIG => error.to_string(),
        libc::ENOSPC | libc::EDQUOT => format!("there was no room: {error}"),
        libc::EIO => format!("the disk failed: {error}"),
        _ => return,
    };
    file.writing().trouble = Some(why);
}
