//! Opening, creating and closing files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::engine::OpenText;
use crate::engine::SourceFile;
use crate::engine::sync::Mutex;
use crate::fs::Attr;
use crate::fs::Caller;
use crate::fs::Entry;
use crate::fs::Fh;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::closing_thread::ClosingThread;
use crate::fs::dir;
use crate::fs::getattr;
use crate::fs::handle::FileHandle;
use crate::fs::handle::Handle;
use crate::fs::lookup;
use crate::fs::message_log;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::node::file::FileNode;
use crate::fs::seal_queue::SealJob;
use crate::fs::setattr;
use crate::fs::write_once;
use crate::store::stat_file;

/// The time for which the kernel may cache the attributes of a new file: it needs them right after
/// the file was created.
const NEW: Duration = Duration::from_millis(1);

/// The way to open a file.
#[derive(Debug, Clone, Copy)]
pub struct OpenMode {
    /// The flags of open(2).
    pub flags: i32,
}

impl OpenMode {
    /// Returns true if the file may be written.
    fn writes(self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY || self.flags & libc::O_TRUNC != 0
    }

    /// Returns true if each write goes to the end.
    pub(crate) fn appends(self) -> bool {
        self.flags & libc::O_APPEND != 0
    }

    fn can_map_for_writing(self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDWR
    }

    /// Returns the flags for opening the store's file. Writers can read, too, so that the last
    /// writer's descriptor can serve the analysis. `O_CREAT` and `O_TRUNC` are up to the caller,
    /// `O_DIRECT` is up to the kernel, and each write says whether it appends: a process can switch
    /// that, and mapped pages never append.
    fn on_disk(self) -> OFlags {
        let kept = libc::O_SYNC | libc::O_DSYNC;
        // The analysis reads through a writer's descriptor, which must not change the time of
        // access.
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
    /// The store's file, which the kernel may read directly. `None` for a computed file.
    pub file: Option<Arc<File>>,
    /// True if it can write.
    pub writes: bool,
    /// True if every read and write has to come here, because the file shows other bytes than the
    /// disk has.
    pub direct: bool,
}

pub(super) fn open(
    fs: &Arc<Shared>,
    ino: Ino,
    mode: OpenMode,
    done: impl FnOnce(Result<Opened>) + Send + 'static,
) {
    let node = match fs.nodes.get(ino) {
        Ok(node) => node,
        Err(error) => return done(Err(error)),
    };
    match &node.kind {
        NodeKind::Computed(_) if mode.writes() => done(Err(FsError::Computed)),
        NodeKind::Computed(of) => {
            let (shared, computed) = (Arc::clone(fs), Arc::clone(&of.computed));
            fs.engine.text(&of.computed, move |text| {
                let opened = text.map(|text| {
                    let open = Arc::new(OpenText::new(computed, text));
                    let fh = shared.handles.insert(Handle::Computed(open));
                    Opened { fh, file: None, writes: false, direct: false }
                });
                done(opened.map_err(FsError::from));
            });
        }
        NodeKind::File(file) => done(open_file(fs, &node, file, mode)),
        NodeKind::Dir(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
            done(Err(FsError::IsADirectory));
        }
    }
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
    let dir = dir::writable(&parent, name)?;
    let flags = mode.on_disk() | OFlags::EXCL;
    let file = match dir.dir.create_file(name, flags, permissions & 0o7777) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return open_existing(fs, &parent, name, mode);
        }
        created => Arc::new(created?),
    };
    give_to(&file, caller)?;
    let stat = stat_file(&file)?;
    let node = lookup::file_node(fs, &parent, name, &stat)?;
    let opened = opened(fs, &node, node.as_file()?, file, mode);
    if !opened.writes {
        node.as_file()?.life().created_complete();
        fs.sealer.submit(SealJob::Seal(Arc::clone(&node)));
    }
    let attr = Attr::of_disk(node.ino, &stat);
    let entry = Entry { attr, attr_ttl: NEW, entry_ttl: Duration::ZERO };
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

/// Opens a file that another process created after the kernel had looked it up.
fn open_existing(
    fs: &Arc<Shared>,
    parent: &Arc<Node>,
    name: &OsStr,
    mode: OpenMode,
) -> Result<(Entry, Opened)> {
    if mode.flags & libc::O_EXCL != 0 {
        return Err(FsError::Exists);
    }
    let node = lookup::find_real(fs, parent, parent.as_dir()?, name)?;
    let opened = node.as_file().and_then(|file| {
        let opened = open_file(fs, &node, file, mode)?;
        if mode.flags & libc::O_TRUNC != 0 {
            // The kernel believes that the file is new, and so empty.
            setattr::resize(fs, &node, file, 0, Some(opened.fh))?;
        }
        Ok(opened)
    });
    let opened = opened.inspect_err(|_| fs.nodes.forget(node.ino, 1))?;
    Ok((getattr::entry(fs, &node)?, opened))
}

fn open_file(
    fs: &Shared,
    node: &Arc<Node>,
    file: &Arc<FileNode>,
    mode: OpenMode,
) -> Result<Opened> {
    if mode.writes() {
        write_once::check(fs, file)?;
    }
    let on_disk = Arc::new(file.open(mode.on_disk())?);
    Ok(opened(fs, node, file, on_disk, mode))
}

fn opened(
    fs: &Shared,
    node: &Arc<Node>,
    file: &Arc<FileNode>,
    on_disk: Arc<File>,
    mode: OpenMode,
) -> Opened {
    let writes = mode.writes();
    let mut life = file.life();
    life.remember(&on_disk);
    let first = writes && life.opened(mode.can_map_for_writing());
    if first {
        fs.engine.live.insert(file.id, &(Arc::clone(file) as Arc<dyn SourceFile>));
    }
    drop(life);
    if first {
        fs.sealer.submit(SealJob::NoteLive(Arc::clone(node)));
    }
    let handle = FileHandle {
        node: Arc::clone(node),
        file: Arc::clone(&on_disk),
        writes,
        line: Mutex::default(),
        closed_by: Mutex::default(),
    };
    let fh = fs.handles.insert(Handle::File(Arc::new(handle)));
    Opened { fh, file: Some(on_disk), writes, direct: node.is_message_log() }
}

pub(super) fn flush(fs: &Shared, fh: Fh, caller: Caller, owner: Option<u64>) -> Result<()> {
    if let Handle::File(handle) = fs.handles.get(fh)?
        && handle.writes
    {
        handle.note_closed_by(ClosingThread::of(caller.pid));
        message_log::flush(fs, &handle, owner)?;
    }
    Ok(())
}

pub(super) fn release(fs: &Shared, fh: Fh) -> Result<()> {
    let handle = fs.handles.remove(fh).ok_or(FsError::UnknownHandle(fh.0))?;
    match handle {
        Handle::File(handle) if handle.writes => writer_gone(fs, handle)?,
        Handle::Computed(open) => fs.engine.counting.read(&open),
        Handle::File(_) | Handle::Listing(_) => {}
    }
    Ok(())
}

/// Releases handles that are left when the mount ends: those of writers whose descriptors are all
/// closed, and those of computed files.
pub(super) fn release_closed(fs: &Shared) {
    for handle in fs.handles.drain() {
        match handle {
            Handle::File(file) if file.writes && file.is_closed() => {
                if let Err(error) = writer_gone(fs, file) {
                    tracing::warn!(%error, "an open file was not released");
                }
            }
            Handle::Computed(open) => fs.engine.counting.read(&open),
            Handle::File(_) | Handle::Listing(_) => {}
        }
    }
}

fn writer_gone(fs: &Shared, handle: Arc<FileHandle>) -> Result<()> {
    let left = message_log::leave(fs, &handle);
    let node = Arc::clone(&handle.node);
    let file = node.as_file()?;
    let mut life = file.life();
    let last = life.closed(|| handle.take_closed_by());
    if last {
        fs.engine.live.remove(file.id);
    }
    drop(life);
    // Closes the descriptor before the job is submitted: a probe for writers must not find it.
    drop(handle);
    if last {
        fs.sealer.submit(SealJob::Seal(Arc::clone(&node)));
    }
    left
}

/// Gives a new file to the user who created it, if the mount serves several users.
fn give_to(file: &File, caller: Caller) -> Result<()> {
    let me = rustix::process::geteuid();
    if me.is_root() && (caller.uid, caller.gid) != (0, 0) {
        let uid = rustix::fs::Uid::from_raw(caller.uid);
        let gid = rustix::fs::Gid::from_raw(caller.gid);
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    Ok(())
}
