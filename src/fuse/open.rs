//! Opening, creating and closing files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::asker::Asker;
use crate::handle::{Claimed, FileHandle, Handle};
use crate::node::file::FileNode;
use crate::node::{Node, NodeKind};
use crate::seal_queue::SealJob;
use crate::{
    Attr, Caller, Entry, Fh, FsError, Ino, Pages, Result, Shared, dir, far, getattr, lookup,
    message_log, moved, setattr, write_once,
};
use ctxfs_engine::sync::{Mutex, now};
use ctxfs_engine::{Computed, OpenText, Reservation, Share, SourceFile, names};
use ctxfs_store::{Dir, LEAST, stat_file};

/// The time for which the kernel may cache the attributes of a new file: it needs them right after
/// the file was created.
const NEW: Duration = Duration::from_millis(1);
/// The bits of those who may run a file.
const EXECUTE: u32 = libc::S_IXUSR | libc::S_IXGRP | libc::S_IXOTH;

/// The way to open a file.
#[derive(Debug, Clone, Copy)]
pub struct OpenMode {
    /// The flags of open(2).
    pub flags: i32,
}

impl OpenMode {
    /// Returns true if the file may be written.
    pub(super) fn writes(self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY || self.empties()
    }

    /// Returns true if the file is to be empty.
    fn empties(self) -> bool {
        self.flags & libc::O_TRUNC != 0
    }

    /// Returns true if the file is to be empty, though it is opened for reading.
    fn only_empties(self) -> bool {
        self.empties() && self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }

    /// Returns true if each write goes to the end.
    pub(crate) fn appends(self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    /// Returns what each write has to flush to the disk before it returns.
    pub(super) fn flush(self) -> Option<Flush> {
        if self.flags & libc::O_SYNC == libc::O_SYNC {
            Some(Flush::All)
        } else {
            (self.flags & libc::O_DSYNC != 0).then_some(Flush::Data)
        }
    }

    fn can_map_for_writing(self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDWR
    }

    /// Returns the flags for opening the store's file. Writers can read, too, so that the last
    /// writer's descriptor can serve the analysis. `O_CREAT` and `O_TRUNC` are up to the caller,
    /// `O_DIRECT` is up to the kernel, `O_SYNC` and `O_DSYNC` are up to [`Self::flush`], and each
    /// write says whether it appends: a process can switch that, and mapped pages never append.
    fn on_disk(self) -> OFlags {
        // The analysis reads through a writer's descriptor, which must not change the time of
        // access.
        let writer = OFlags::RDWR | OFlags::NOATIME;
        if self.writes() { writer } else { OFlags::RDONLY }
    }
}

/// The part of a file that is flushed to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// The bytes, as by fdatasync(2).
    Data,
    /// The bytes and the attributes, as by fsync(2).
    All,
}

/// An open file.
#[derive(Debug)]
pub struct Opened {
    /// Its handle.
    pub fh: Fh,
    /// The store's file, which the kernel may read directly. `None` for a computed file, and for an
    /// artifact whose bytes are elsewhere.
    pub file: Option<Arc<File>>,
    /// True if it can write.
    pub writes: bool,
    /// True if every read and write has to come here, because the file shows other bytes than the
    /// disk has.
    pub direct: bool,
    /// The pages of a file that is opened for reading which the kernel may have.
    pub pages: Pages,
    /// True if pages that are mapped from it have to be written through here, because there is a
    /// quota.
    pub counts_mapped: bool,
}

pub(super) fn open(
    fs: &Arc<Shared>,
    ino: Ino,
    (mode, caller): (OpenMode, Caller),
    done: impl FnOnce(Result<Opened>) + Send + 'static,
) {
    let node = match fs.nodes.get(ino) {
        Ok(node) => node,
        Err(error) => return done(Err(error)),
    };
    fs.promises.settle();
    match &node.kind {
        NodeKind::Computed(_) if mode.writes() => done(Err(FsError::Computed)),
        NodeKind::Computed(of) => {
            let checked = Asker::new(fs, caller).check(of);
            match checked.and_then(|()| fs.claim(&node, caller, 1)) {
                Ok(share) => open_computed(fs, &of.computed, share, done),
                Err(error) => done(Err(error)),
            }
        }
        NodeKind::File(file) => done(open_file(fs, &node, file, mode, caller)),
        NodeKind::Dir(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
            done(Err(FsError::IsADirectory));
        }
    }
}

fn open_computed(
    fs: &Arc<Shared>,
    of: &Arc<Computed>,
    share: Share,
    done: impl FnOnce(Result<Opened>) + Send + 'static,
) {
    let (shared, computed) = (Arc::clone(fs), Arc::clone(of));
    fs.engine.text(of, move |text| {
        let opened = text.map(|text| {
            let open = Claimed::new(OpenText::new(computed, text), share);
            let fh = shared.handles.insert(Handle::Computed(open));
            Opened {
                fh,
                file: None,
                writes: false,
                direct: false,
                pages: Pages::Kept,
                counts_mapped: false,
            }
        });
        done(opened.map_err(FsError::from));
    });
}

pub(super) fn create(
    fs: &Arc<Shared>,
    parent: Ino,
    name: &OsStr,
    permissions: u32,
    mode: OpenMode,
    caller: Caller,
) -> Result<(Entry, Opened)> {
    let parent = fs.nodes.get(parent)?;
    let dir = dir::writable(fs, &parent, name)?;
    fs.sealer.check_backlog(&parent.conversation())?;
    let is_log = names::is_message_log(&**dir, name);
    let share = fs.claim(&parent, caller, descriptors(mode, is_log))?;
    let flags = mode.on_disk() | OFlags::EXCL;
    let room = reserve_name(fs, &parent, name)?;
    let dir = dir.open()?;
    let file = match dir.create_file(name, flags, permissions & 0o7777) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            drop(share);
            return open_existing(fs, &parent, name, mode, caller);
        }
        created => Arc::new(created?),
    };
    drop(room);
    give_to(&file, &dir, (permissions, caller))?;
    let stat = stat_file(&file)?;
    let node = lookup::file_node(fs, &parent, name, &stat)?;
    let opened = opened(fs, &node, (node.as_file()?, file), mode, share);
    if !opened.writes {
        node.as_file()?.life().created_complete();
        fs.sealer.submit(SealJob::Seal(Arc::clone(&node)));
    }
    let attr = Attr::of_disk(node.ino, &stat);
    let entry = Entry { attr, attr_ttl: NEW, entry_ttl: Duration::ZERO, is_computed: false };
    Ok((entry, opened))
}

pub(super) fn mknod(
    fs: &Arc<Shared>,
    parent: Ino,
    name: &OsStr,
    mode: u32,
    caller: Caller,
) -> Result<Entry> {
    if mode & libc::S_IFMT != libc::S_IFREG {
        return Err(FsError::NoSpecialFiles);
    }
    let open = OpenMode { flags: libc::O_WRONLY | libc::O_EXCL };
    let (entry, opened) = create(fs, parent, name, mode, open, caller)?;
    release(fs, opened.fh)?;
    Ok(entry)
}

/// Reserves the room of a new file. One that is there already, which another process has created
/// after the kernel looked it up, needs none.
fn reserve_name(fs: &Shared, parent: &Node, name: &OsStr) -> Result<Reservation> {
    let Some(conversation) = parent.conversation() else { return Ok(Reservation::default()) };
    match fs.engine.reserve_in(&conversation, LEAST) {
        Err(_) if parent.as_dir()?.open()?.stat(name).is_ok() => Ok(Reservation::default()),
        reserved => Ok(reserved?),
    }
}

/// Opens a file that another process created after the kernel had looked it up.
fn open_existing(
    fs: &Arc<Shared>,
    parent: &Arc<Node>,
    name: &OsStr,
    mode: OpenMode,
    caller: Caller,
) -> Result<(Entry, Opened)> {
    if mode.flags & libc::O_EXCL != 0 {
        return Err(FsError::Exists);
    }
    let node = lookup::find_real(fs, parent, parent.as_dir()?, name)?;
    let opened = node.as_file().and_then(|file| open_file(fs, &node, file, mode, caller));
    let opened = opened.inspect_err(|_| fs.nodes.forget(node.ino, 1))?;
    Ok((getattr::entry(fs, &node)?, opened))
}

fn open_file(
    fs: &Shared,
    node: &Arc<Node>,
    file: &Arc<FileNode>,
    mode: OpenMode,
    caller: Caller,
) -> Result<Opened> {
    if mode.writes() {
        fs.sealer.check_backlog(&node.conversation())?;
        write_once::check(fs, file)?;
    }
    if mode.only_empties() && file.stat()?.mode & EXECUTE != 0 {
        return Err(FsError::MayBeRun);
    }
    // Who has the local file open that has gone keeps its bytes. The kernel may read it for him,
    // and then does so for all.
    let is_away = far::is_away(file);
    let kept = if is_away && !mode.writes() { file.any_open() } else { None };
    if is_away && !mode.writes() && kept.is_none() {
        return far::open_to_read(fs, node, file, caller);
    }
    // Before anything is changed.
    let share = fs.claim(node, caller, descriptors(mode, node.is_message_log()))?;
    let on_disk = match kept {
        Some(kept) => kept,
        None => Arc::new(open_here(fs, node, file, mode)?),
    };
    let opened = opened(fs, node, (file, on_disk), mode, share);
    if mode.empties()
        && let Err(error) = setattr::empty(fs, node, file, (opened.fh, caller))
    {
        release(fs, opened.fh)?;
        return Err(error);
    }
    Ok(opened)
}

/// Opens the store's file, which comes from elsewhere first if it must.
fn open_here(fs: &Shared, node: &Arc<Node>, file: &FileNode, mode: OpenMode) -> Result<File> {
    if mode.empties() {
        return far::begin_anew(fs, node, file, || open_on_disk(node, file, mode));
    }
    if mode.writes() {
        far::bring_here(fs, node, file)?;
    }
    open_on_disk(node, file, mode)
}

/// Opens the store's file. A server that is held by modes may write a file that it may not read: it
/// is sealed when it can be read.
fn open_on_disk(node: &Node, file: &FileNode, mode: OpenMode) -> Result<File> {
    let flags = mode.on_disk();
    match file.open(flags) {
        Err(error)
            if error.errno().0 == libc::EACCES
                && mode.flags & libc::O_ACCMODE == libc::O_WRONLY
                && !node.is_message_log() =>
        {
            file.open(flags.difference(OFlags::RDWR) | OFlags::WRONLY)
        }
        opened => opened,
    }
}

/// Returns the number of descriptors that an open file may hold: a writer of the message log has a
/// file for the line that it has not ended.
fn descriptors(mode: OpenMode, is_message_log: bool) -> u64 {
    1 + u64::from(mode.writes() && is_message_log)
}

fn opened(
    fs: &Shared,
    node: &Arc<Node>,
    (file, on_disk): (&Arc<FileNode>, Arc<File>),
    mode: OpenMode,
    share: Share,
) -> Opened {
    let writes = mode.writes();
    let home = file.place().filter(|(_, path)| writes && path.is_artifact());
    let mut life = file.life();
    life.remember(&on_disk);
    // Whatever happened up to now shows in the pages that are read from now on.
    let stat = if writes { None } else { stat_file(&on_disk).ok() };
    let clock = fs.engine.store.clock();
    let pages = stat.map_or(Pages::None, |stat| life.opened_to_read(&stat, clock));
    let first = writes && life.opened(mode.can_map_for_writing(), home);
    if first {
        fs.engine.live.insert(file.id(), &(Arc::clone(file) as Arc<dyn SourceFile>));
    }
    drop(life);
    if first {
        fs.promises.end_about(&file.link);
        fs.sealer.submit(SealJob::NoteLive(Arc::clone(node)));
    }
    let handle = FileHandle {
        node: Arc::clone(node),
        file: Arc::clone(&on_disk),
        mode,
        writes,
        line: Mutex::default(),
        closed_by: Mutex::default(),
        share,
    };
    let fh = fs.handles.insert(Handle::File(Arc::new(handle)));
    let counts_mapped = mode.can_map_for_writing() && fs.engine.options.quota.is_some();
    let direct = node.is_message_log();
    Opened { fh, file: Some(on_disk), writes, direct, pages, counts_mapped }
}

pub(super) fn flush(fs: &Shared, fh: Fh, caller: Caller, owner: Option<u64>) -> Result<()> {
    if let Handle::File(handle) = fs.handles.get(fh)?
        && handle.writes
    {
        handle.note_closed_by(fs.closing.of(caller.pid, || handle.share.one_more()));
        handle.node.as_file()?.life().closing(now());
        message_log::flush(fs, &handle, owner)?;
    }
    Ok(())
}

pub(super) fn release(fs: &Shared, fh: Fh) -> Result<()> {
    let left = match fs.handles.get(fh)? {
        Handle::File(handle) if handle.writes => message_log::leave(fs, &handle),
        _ => Ok(()),
    };
    // It stays among the open ones until it can be left.
    if left.as_ref().is_err_and(FsError::comes_back) {
        return left;
    }
    match fs.handles.remove(fh) {
        Some(Handle::File(handle)) if handle.writes => writer_gone(fs, handle)?,
        Some(Handle::File(handle)) => reader_gone(handle)?,
        Some(Handle::Computed(open)) => fs.engine.counting.read(&open),
        Some(Handle::Far(open)) => far::reader_gone(open)?,
        Some(Handle::Listing(_)) | None => {}
    }
    left
}

/// Lets go of what was opened for somebody who has given up. The kernel has not heard of it, so it
/// has not dropped the pages that it was to drop.
pub(super) fn give_back(fs: &Shared, opened: &Opened) -> Result<()> {
    if let Handle::File(handle) = fs.handles.get(opened.fh)? {
        handle.node.as_file()?.life().forget_pages();
    }
    release(fs, opened.fh)
}

/// Releases handles that are left when the mount ends: those of writers whose descriptors are all
/// closed, and those of computed files.
pub(super) fn release_closed(fs: &Shared) {
    for handle in fs.handles.drain() {
        match handle {
            Handle::File(file) if file.writes && file.is_closed() => {
                let left = message_log::leave(fs, &file);
                if let Err(error) = left.and(writer_gone(fs, file)) {
                    tracing::warn!(%error, "an open file was not released");
                }
            }
            Handle::Computed(open) => fs.engine.counting.read(&open),
            Handle::File(_) | Handle::Far(_) | Handle::Listing(_) => {}
        }
    }
}

fn writer_gone(fs: &Shared, handle: Arc<FileHandle>) -> Result<()> {
    let node = Arc::clone(&handle.node);
    let file = node.as_file()?;
    let mut life = file.life();
    let last = life.closed(|| handle.take_closed_by());
    if last {
        fs.engine.live.remove(file.id());
    }
    drop(life);
    if last {
        // Its last descriptor may know where it is.
        moved::find(fs, &node, &handle.file).ok();
    }
    // Closes the descriptor before the job is submitted: a probe for writers must not find it.
    drop(handle);
    if last {
        fs.sealer.submit(SealJob::Seal(Arc::clone(&node)));
        if let Some(id) = node.conversation() {
            fs.engine.changed(&id, None);
        }
    }
    Ok(())
}

fn reader_gone(handle: Arc<FileHandle>) -> Result<()> {
    let node = Arc::clone(&handle.node);
    // Closes the descriptor first.
    drop(handle);
    node.as_file()?.life().rest();
    Ok(())
}

/// Gives a new file to the user who created it, if the mount serves several users.
///
/// A change of owner clears the set-id bits, so these are set again.
fn give_to(file: &File, dir: &Dir, (permissions, caller): (u32, Caller)) -> Result<()> {
    let me = rustix::process::geteuid();
    if me.is_root() && (caller.uid, caller.gid) != (0, 0) {
        let uid = rustix::fs::Uid::from_raw(caller.uid);
        let gid = rustix::fs::Gid::from_raw(dir::group_in(dir, caller)?);
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
        if permissions & (libc::S_ISUID | libc::S_ISGID) != 0 {
            rustix::fs::fchmod(file, Mode::from_raw_mode(permissions & 0o7777))?;
        }
    }
    Ok(())
}
