//! Opening, creating and closing files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::file_node::source;
use crate::handle::Closing;
use crate::{
    Attr, Caller, CallerAccess, Claimed, ContextFs, Entry, Fh, FileHandle, FileNode, FsError,
    Handle, Ino, Node, NodeKind, OpenMode, Opened, Pages, Result, SealJob, Shared, attributes,
    copies, dir, lookup, message_log, process, remote, write_once,
};
use ctxfs_engine::sync::{Mutex, now};
use ctxfs_engine::{Computed, DoorFile as _, Growth, Reservation, Share};
use ctxfs_store::{Dir, LEAST, stat_file};

/// Cache lifetime of the attributes of a new file. The kernel needs them right after it created the
/// file.
const NEW: Duration = Duration::from_millis(1);
const EXECUTE: u32 = libc::S_IXUSR | libc::S_IXGRP | libc::S_IXOTH;

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
            let checked = CallerAccess::new(fs, caller).check(of);
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
    let shared = Arc::clone(fs);
    of.open(&fs.engine, move |open| {
        let opened = open.map(|open| {
            let fh = shared.handles.insert(Handle::Computed(Claimed::new(open, share)));
            Opened::without_file(fh, Pages::Kept)
        });
        done(opened.map_err(FsError::from));
    });
}

impl ContextFs {
    /// Releases a handle after its last descriptor was closed.
    pub fn release(&self, fh: Fh) -> Result<()> {
        release(&self.0, fh)
    }

    pub fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        permissions: u32,
        mode: OpenMode,
        caller: Caller,
    ) -> Result<(Entry, Opened)> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        let dir = dir::writable(fs, &parent, name)?;
        fs.sealer.check_backlog(&parent.conversation())?;
        let is_log = dir.has_log(name);
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
        let opened = opened(fs, &node, (node.as_file()?, file), (mode, true), share);
        if !opened.writes {
            node.as_file()?.life().needs_record();
            fs.sealer.submit(SealJob::Seal(Arc::clone(&node)));
        }
        let attr = Attr::of_disk(node.ino, &stat);
        let entry = Entry { attr, attr_ttl: NEW, entry_ttl: Duration::ZERO, is_computed: false };
        Ok((entry, opened))
    }

    /// Creates a regular file without opening it. Refuses to create special files.
    pub fn mknod(&self, parent: Ino, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        let fs = &self.0;
        if mode & libc::S_IFMT != libc::S_IFREG {
            return Err(FsError::NoSpecialFiles);
        }
        let open = OpenMode { flags: libc::O_WRONLY | libc::O_EXCL };
        let (entry, opened) = self.create(parent, name, mode, open, caller)?;
        release(fs, opened.fh)?;
        Ok(entry)
    }

    /// Records that the thread `caller.pid` closes a descriptor of the file. Other descriptors may
    /// stay open. `owner` identifies the table of open files that contained the descriptor, if
    /// known.
    pub fn flush(&self, fh: Fh, caller: Caller, owner: Option<u64>) -> Result<()> {
        let fs = &self.0;
        if let Handle::File(handle) = fs.handles.get(fh)?
            && handle.writes
        {
            let killed_by = process::killed_by(caller.pid, &*fs.options.processes);
            *handle.last_close.lock() = Some(Closing { killed_by });
            handle.node.as_file()?.life().closing(now());
            message_log::flush(fs, &handle, owner)?;
            if handle.is_new {
                copies::remove_copied_views(self, &handle.node)?;
            }
        }
        Ok(())
    }
}

/// Reserves space for a new file. Reserves none if another process has created the file since the
/// kernel looked it up.
fn reserve_name(fs: &Shared, parent: &Node, name: &OsStr) -> Result<Reservation> {
    match fs.engine.reserve(Growth::Bytes(parent.conversation().as_ref(), LEAST)) {
        Err(_) if parent.as_dir()?.open()?.stat(name).is_ok() => Ok(Reservation::default()),
        reserved => Ok(reserved?),
    }
}

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
    Ok((attributes::entry(fs, &node)?, opened))
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
        return Err(FsError::MayBeRunning);
    }
    // Open handles keep the unlinked local copy alive. If the kernel reads it by passthrough, all
    // handles must use it.
    let is_remote = remote::is_remote(file);
    let kept = if is_remote && !mode.writes() { file.any_open() } else { None };
    if is_remote && !mode.writes() && kept.is_none() {
        return remote::open_to_read(fs, node, file, caller);
    }
    // Claim the descriptors before any change.
    let share = fs.claim(node, caller, descriptors(mode, node.is_message_log()))?;
    let on_disk = match kept {
        Some(kept) => kept,
        None => Arc::new(open_here(fs, node, file, mode)?),
    };
    let opened = opened(fs, node, (file, on_disk), (mode, false), share);
    if mode.empties()
        && let Err(error) = attributes::empty(fs, node, file, (opened.fh, caller))
    {
        release(fs, opened.fh)?;
        return Err(error);
    }
    Ok(opened)
}

fn open_here(fs: &Shared, node: &Arc<Node>, file: &FileNode, mode: OpenMode) -> Result<File> {
    if mode.empties() {
        return remote::replace_by_empty(fs, node, file, || open_on_disk(node, file, mode));
    }
    if mode.writes() {
        remote::fetch(fs, node, file)?;
    }
    open_on_disk(node, file, mode)
}

/// Opens the store's file. If file modes apply to the server, it may be able to write a file that
/// it cannot read. Such a file is sealed once the server can read it.
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

/// Returns the number of descriptors that an open file may use. A writer of the message log may
/// need a second one for its unfinished line.
fn descriptors(mode: OpenMode, is_message_log: bool) -> u64 {
    1 + u64::from(mode.writes() && is_message_log)
}

fn opened(
    fs: &Shared,
    node: &Arc<Node>,
    (file, on_disk): (&Arc<FileNode>, Arc<File>),
    (mode, is_new): (OpenMode, bool),
    share: Share,
) -> Opened {
    let writes = mode.writes();
    let home = file.place().filter(|(_, path)| writes && path.is_artifact());
    let mut life = file.life();
    life.remember(&on_disk);
    // Pages that the kernel reads after this point show every change made before it.
    let stat = if writes { None } else { stat_file(&on_disk).ok() };
    let clock = fs.engine.store().clock();
    let pages = stat.map_or(Pages::None, |stat| life.opened_to_read(&stat, clock));
    let first = writes && life.opened(mode.can_map_for_writing(), home);
    if first {
        source(file).note_writers(&fs.engine, file.id(), true);
    }
    drop(life);
    if first {
        fs.promises.end_about(node);
        fs.sealer.submit(SealJob::NoteLive(Arc::clone(node)));
    }
    let handle = FileHandle {
        node: Arc::clone(node),
        file: Arc::clone(&on_disk),
        mode,
        writes,
        is_new,
        is_log: node.is_message_log(),
        line: Mutex::default(),
        last_close: Mutex::default(),
        _share: share,
    };
    let direct = handle.is_log;
    let fh = fs.handles.insert(Handle::File(Arc::new(handle)));
    let counts_mapped = mode.can_map_for_writing() && fs.engine.options().quota.is_some();
    Opened { fh, file: Some(on_disk), writes, direct, pages, counts_mapped }
}

pub(super) fn release(fs: &Shared, fh: Fh) -> Result<()> {
    let left = match fs.handles.get(fh)? {
        Handle::File(handle) if handle.writes => message_log::end(fs, &handle, true),
        _ => Ok(()),
    };
    // The handle stays in the table until its last line is finished.
    if left.as_ref().is_err_and(FsError::is_retried) {
        return left;
    }
    match fs.handles.remove(fh) {
        Some(Handle::File(handle)) if handle.writes => writer_gone(fs, handle)?,
        Some(Handle::File(handle)) => reader_gone(&Arc::clone(&handle.node), handle)?,
        Some(Handle::Remote(open)) => reader_gone(&Arc::clone(&open.node), open)?,
        Some(Handle::Computed(_) | Handle::Listing(_)) | None => {}
    }
    left
}

/// Releases a handle whose client was interrupted. The kernel did not get the reply, so it has not
/// dropped the pages that the reply would have invalidated.
pub(super) fn give_back(fs: &Shared, opened: &Opened) -> Result<()> {
    if let Handle::File(handle) = fs.handles.get(opened.fh)? {
        handle.node.as_file()?.life().forget_pages();
    }
    release(fs, opened.fh)
}

/// Drops the handles that remain when the mount ends. If a client has closed a descriptor of a
/// writing handle, the handle is first released as by a RELEASE request.
pub(super) fn release_closed(fs: &Shared) {
    for handle in fs.handles.drain() {
        match handle {
            // After the mount has ended, every descriptor is closed.
            Handle::File(file) if file.writes && file.last_close.lock().is_some() => {
                let left = message_log::end(fs, &file, true);
                if let Err(error) = left.and(writer_gone(fs, file)) {
                    tracing::warn!(%error, "an open file was not released");
                }
            }
            Handle::Computed(_) | Handle::File(_) | Handle::Remote(_) | Handle::Listing(_) => {}
        }
    }
}

fn writer_gone(fs: &Shared, handle: Arc<FileHandle>) -> Result<()> {
    let node = Arc::clone(&handle.node);
    let file = node.as_file()?;
    let mut life = file.life();
    let last = life.closed(handle.last_close.lock().and_then(|closing| closing.killed_by));
    if last {
        source(file).note_writers(&fs.engine, file.id(), false);
    }
    drop(life);
    if last {
        // If the file was moved, the last descriptor still leads to its name.
        lookup::find_moved(fs, &node, &handle.file).ok();
    }
    // Close the descriptor before the job is submitted, so that a probe for writers does not find
    // it.
    drop(handle);
    if last {
        fs.sealer.submit(SealJob::Seal(node));
    }
    Ok(())
}

/// Drops the handle of a reader of `node`. The descriptor closes first, so that the file can be at
/// rest.
fn reader_gone<T>(node: &Node, handle: Arc<T>) -> Result<()> {
    drop(handle);
    node.as_file()?.life().rest();
    Ok(())
}

/// Sets the creating user as the owner of a new file, if the server runs as root and the creator is
/// a different user.
///
/// Sets the set-id bits again afterwards, because a change of owner clears them.
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
