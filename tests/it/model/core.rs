//! The model against the filesystem without a kernel.
//!
//! [`Core`] stands for the kernel: it walks paths by look-ups, counts them, refuses the calls that
//! the kernel refuses, and reports a close at any time. It still passes on the calls that it
//! refuses, as the filesystem must refuse them, too.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_fuse::{
    Attr, Caller, ContextFs, Entry, Fh, FileKind, FsError, FsOptions, Ino, NewTime, OpenMode,
    Opened, RenameMode, SetAttr,
};
use ctxfs_store::Store;
use tempfile::TempDir;

use super::harness::{Stat, Subject};
use super::operations::{How, Mode, Op};
use super::reference::{Answer, name_of, parent_of};
use super::{harness, operations};

#[test]
fn the_core_agrees_with_the_model() {
    let (config, ops) = super::size(256, 60);
    crate::support::holds(config, &operations::run(ops), |ops| check(&ops));
}

/// Runs `ops`, then forgets everything, and checks the state in memory and on disk.
pub(crate) fn check(ops: &[Op]) {
    let mut run = harness::run(Core::new(), ops);
    run.let_go();
    run.subject.let_go();
    run.subject.fs.shut_down();
    run.compare_store(run.subject.dir.path());
}

/// An open file.
pub(crate) struct Handle {
    fh: Fh,
    ino: Ino,
    how: How,
}

pub(crate) struct Core {
    fs: ContextFs,
    dir: TempDir,
    /// The look-ups of each number that are not forgotten.
    known: HashMap<Ino, u64>,
    /// The path to each open file and kept view, by its handle: the kernel forgets nothing on it.
    pinned: BTreeMap<u64, Vec<Ino>>,
    clock: u64,
    /// The files that are closed, and the time when the kernel reports it.
    closing: Vec<(u64, Fh)>,
}

/// A view that the kernel knows.
pub(crate) struct Kept {
    ino: Ino,
    fh: Fh,
}

const ME: Caller = Caller { uid: 0, gid: 0, pid: 0 };

impl Core {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        // The model knows nothing of a full disk.
        let options = EngineOptions { min_free: 0, ..EngineOptions::default() };
        let fs = ContextFs::new(Engine::new(store, options), FsOptions::default()).unwrap();
        let (known, pinned) = (HashMap::new(), BTreeMap::new());
        Self { fs, dir, known, pinned, clock: 0, closing: Vec::new() }
    }

    fn counted(&mut self, entry: Entry) -> Entry {
        *self.known.entry(entry.attr.ino).or_default() += 1;
        entry
    }

    fn child(&mut self, parent: Ino, name: &str) -> Answer<Entry> {
        let entry = answer(self.fs.lookup(parent, OsStr::new(name), ME))?;
        Ok(self.counted(entry))
    }

    /// Returns the numbers on the way to `path`, with its own at the end.
    fn walk(&mut self, path: &str) -> Answer<Vec<Ino>> {
        let mut way = vec![Ino::ROOT];
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let parent = way[way.len() - 1];
            if way.len() > 1 && self.attr(parent)?.kind != FileKind::Directory {
                return Err(libc::ENOTDIR);
            }
            way.push(self.child(parent, name)?.attr.ino);
        }
        Ok(way)
    }

    fn find(&mut self, path: &str) -> Answer<Ino> {
        Ok(*self.walk(path)?.last().unwrap())
    }

    /// Returns the directory of `path`, and the node of its name, if there is one.
    fn name(&mut self, path: &str) -> Answer<(Ino, Option<Attr>)> {
        let parent = self.find(parent_of(path))?;
        if parent != Ino::ROOT && self.attr(parent)?.kind != FileKind::Directory {
            return Err(libc::ENOTDIR);
        }
        match self.child(parent, name_of(path)) {
            Ok(entry) => Ok((parent, Some(entry.attr))),
            Err(libc::ENOENT) => Ok((parent, None)),
            Err(error) => Err(error),
        }
    }

    fn attr(&self, ino: Ino) -> Answer<Attr> {
        let (send, receive) = mpsc::channel();
        self.fs.getattr(ino, ME, move |got| send.send(got).unwrap());
        answer(receive.recv().unwrap()).map(|timed| timed.attr)
    }

    fn open_ino(&self, ino: Ino, flags: i32) -> Answer<Opened> {
        let (send, receive) = mpsc::channel();
        self.fs.open(ino, OpenMode { flags }, ME, move |opened| send.send(opened).unwrap());
        answer(receive.recv().unwrap())
    }

    fn read_fh(&self, fh: Fh, at: u64, length: usize) -> Answer<Vec<u8>> {
        answer(self.fs.read(fh, at, &mut vec![0; length], <[u8]>::to_vec))
    }

    /// Reads all of a file or view, whose size must be exact.
    fn whole(&self, ino: Ino, fh: Fh) -> Answer<Vec<u8>> {
        let size = self.attr(ino)?.size;
        let bytes = self.read_fh(fh, 0, size as usize + 1)?;
        assert_eq!(bytes.len() as u64, size, "a size that is not exact");
        Ok(bytes)
    }

    fn opened(&mut self, way: Vec<Ino>, opened: &Opened, how: How) -> Handle {
        let ino = *way.last().unwrap();
        self.pinned.insert(opened.fh.0, way);
        Handle { fh: opened.fh, ino, how }
    }

    fn create(&mut self, path: &str, how: How) -> Answer<Handle> {
        let mut way = self.walk(parent_of(path))?;
        let parent = *way.last().unwrap();
        let mode = OpenMode { flags: flags(how) };
        let made = self.fs.create(parent, OsStr::new(name_of(path)), 0o600, mode, ME);
        let (entry, opened) = answer(made)?;
        way.push(self.counted(entry).attr.ino);
        Ok(self.opened(way, &opened, how))
    }

    fn set(&mut self, path: &str, change: SetAttr) -> Answer<()> {
        let ino = self.find(path)?;
        answer(self.fs.setattr(ino, &change, None)).map(|_| ())
    }

    fn release_due(&mut self, all: bool) {
        let now = if all { u64::MAX } else { self.clock };
        let (due, later) = self.closing.drain(..).partition(|(when, _)| *when <= now);
        self.closing = later;
        for (_, fh) in due {
            self.fs.release(fh).unwrap();
            self.pinned.remove(&fh.0);
        }
    }

    /// Closes and forgets everything, so that only the root is known.
    fn let_go(&mut self) {
        self.release_due(true);
        // Of what is open, only kept views are left.
        for fh in std::mem::take(&mut self.pinned).into_keys() {
            self.fs.release(Fh(fh)).unwrap();
        }
        self.settle();
        self.forget();
        let left = self.fs.status();
        assert_eq!((left.nodes, left.open_handles), (1, 0), "something is left");
    }

    /// Asserts that the filesystem refuses what the kernel would have refused by itself.
    fn refused<T>(what: &str, answer: &Result<T, FsError>) {
        assert!(answer.is_err(), "{what} was not refused");
    }

    fn refused_rename(&mut self, from: &str, to: &str, mode: Mode, parents: (Ino, Ino)) {
        let (name, new_name) = (OsStr::new(name_of(from)), OsStr::new(name_of(to)));
        let renamed = self.fs.rename(parents.0, name, parents.1, new_name, rename_mode(mode));
        Self::refused("a rename", &renamed);
    }
}

impl Subject for Core {
    type Handle = Handle;
    type Held = Kept;

    fn open(&mut self, path: &str, how: How) -> Answer<Handle> {
        let (parent, found) = self.name(path)?;
        let Some(attr) = found else {
            return if how.create { self.create(path, how) } else { Err(libc::ENOENT) };
        };
        if how.excl {
            let mode = OpenMode { flags: flags(how) };
            let name = OsStr::new(name_of(path));
            Self::refused("creating it anew", &self.fs.create(parent, name, 0o600, mode, ME));
            return Err(libc::EEXIST);
        }
        let opened = self.open_ino(attr.ino, flags(How { truncate: false, ..how }))?;
        let way = self.walk(path)?;
        let handle = self.opened(way, &opened, how);
        if how.truncate {
            // As the kernel does it: afterwards, and without the handle.
            let change = SetAttr { size: Some(0), ..SetAttr::default() };
            answer(self.fs.setattr(attr.ino, &change, None))?;
        }
        Ok(handle)
    }

    fn write(&mut self, handle: &Handle, at: u64, bytes: &[u8]) -> Answer<()> {
        let at = if handle.how.append { self.attr(handle.ino)?.size } else { at };
        let mode = OpenMode { flags: flags(handle.how) };
        answer(self.fs.write(handle.fh, at, bytes, mode, None)).map(|_| ())
    }

    fn read(&mut self, handle: &Handle, at: u64, length: usize) -> Answer<Vec<u8>> {
        if !handle.how.read {
            return Err(libc::EBADF);
        }
        self.read_fh(handle.fh, at, length)
    }

    fn truncate(&mut self, handle: &Handle, length: u64) -> Answer<()> {
        if !handle.how.write {
            return Err(libc::EINVAL);
        }
        let change = SetAttr { size: Some(length), ..SetAttr::default() };
        answer(self.fs.setattr(handle.ino, &change, Some(handle.fh))).map(|_| ())
    }

    fn truncate_path(&mut self, path: &str, length: u64) -> Answer<()> {
        let ino = self.find(path)?;
        if self.attr(ino)?.kind == FileKind::Directory {
            return Err(libc::EISDIR);
        }
        self.set(path, SetAttr { size: Some(length), ..SetAttr::default() })
    }

    fn close(&mut self, handle: Handle, late: u8) {
        self.fs.flush(handle.fh, ME, None).unwrap();
        self.closing.push((self.clock + u64::from(late), handle.fh));
    }

    fn rename(&mut self, from: &str, to: &str, mode: Mode) -> Answer<()> {
        let (parent, source) = self.name(from)?;
        let (new_parent, target) = self.name(to)?;
        let source = source.ok_or(libc::ENOENT)?;
        let by_kernel = match (mode, target) {
            (Mode::KeepExisting, Some(_)) => Some(libc::EEXIST),
            (Mode::Exchange, None) => Some(libc::ENOENT),
            _ if to.starts_with(&format!("{from}/")) => Some(libc::EINVAL),
            _ if from.starts_with(&format!("{to}/")) => {
                Some(if mode == Mode::Exchange { libc::EINVAL } else { libc::ENOTEMPTY })
            }
            _ if from == to => return Ok(()),
            (Mode::Replace, Some(target)) if target.kind != source.kind => {
                let is_dir = source.kind == FileKind::Directory;
                Some(if is_dir { libc::ENOTDIR } else { libc::EISDIR })
            }
            _ => None,
        };
        if let Some(error) = by_kernel {
            self.refused_rename(from, to, mode, (parent, new_parent));
            return Err(error);
        }
        let (name, new_name) = (OsStr::new(name_of(from)), OsStr::new(name_of(to)));
        let mode = rename_mode(mode);
        answer(patiently(|| self.fs.rename(parent, name, new_parent, new_name, mode)))
    }

    fn unlink(&mut self, path: &str) -> Answer<()> {
        let (parent, found) = self.name(path)?;
        found.ok_or(libc::ENOENT)?;
        answer(patiently(|| self.fs.unlink(parent, OsStr::new(name_of(path)), 0)))
    }

    fn mkdir(&mut self, path: &str) -> Answer<()> {
        let (parent, found) = self.name(path)?;
        let made = self.fs.mkdir(parent, OsStr::new(name_of(path)), 0o700, ME);
        if found.is_some() {
            Self::refused("making it anew", &made);
            return Err(libc::EEXIST);
        }
        let entry = answer(made)?;
        self.counted(entry);
        Ok(())
    }

    fn rmdir(&mut self, path: &str) -> Answer<()> {
        let (parent, found) = self.name(path)?;
        found.ok_or(libc::ENOENT)?;
        answer(patiently(|| self.fs.rmdir(parent, OsStr::new(name_of(path)))))
    }

    fn chmod(&mut self, path: &str, mode: u32) -> Answer<()> {
        self.set(path, SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    fn utimes(&mut self, path: &str, seconds: u32) -> Answer<()> {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into());
        let time = Some(NewTime::At(time));
        self.set(path, SetAttr { atime: time, mtime: time, ..SetAttr::default() })
    }

    fn exit(&mut self, path: &str, code: u8) -> Answer<()> {
        let ino = self.find(path)?;
        let name = OsStr::new("user.ctx.exit_code");
        answer(self.fs.setxattr(ino, name, code.to_string().as_bytes(), 0))
    }

    fn list(&mut self, path: &str) -> Answer<Vec<String>> {
        let ino = self.find(path)?;
        let (send, receive) = mpsc::channel();
        self.fs.opendir(ino, ME, move |opened| send.send(opened).unwrap());
        let fh = answer(receive.recv().unwrap())?;
        let mut names = Vec::new();
        let mut offset = 0;
        loop {
            // A few at a time, as into a small buffer.
            let before = names.len();
            answer(self.fs.readdir(ino, fh, offset, |listed| {
                names.push(listed.name.to_str().unwrap().to_owned());
                offset = listed.next;
                names.len() == before + 3
            }))?;
            if names.len() == before {
                break;
            }
        }
        answer(self.fs.releasedir(fh))?;
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    fn stat(&mut self, path: &str) -> Answer<Stat> {
        let ino = self.find(path)?;
        let attr = self.attr(ino)?;
        let modified = attr.mtime.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Ok(Stat {
            number: ino.0,
            is_dir: attr.kind == FileKind::Directory,
            size: attr.size,
            mode: attr.perm.into(),
            modified: modified.as_secs().cast_signed(),
        })
    }

    fn bytes(&mut self, path: &str) -> Answer<Vec<u8>> {
        let ino = self.find(path)?;
        self.attr(ino)?;
        let fh = self.open_ino(ino, libc::O_RDONLY)?.fh;
        let bytes = self.whole(ino, fh);
        answer(self.fs.release(fh))?;
        bytes
    }

    fn hold(&mut self, path: &str) -> Answer<(Kept, Vec<u8>)> {
        let way = self.walk(path)?;
        let ino = *way.last().unwrap();
        self.attr(ino)?;
        let fh = self.open_ino(ino, libc::O_RDONLY)?.fh;
        self.pinned.insert(fh.0, way);
        let bytes = self.whole(ino, fh)?;
        Ok((Kept { ino, fh }, bytes))
    }

    fn number(&self, held: &Kept) -> u64 {
        held.ino.0
    }

    fn again(&mut self, held: &Kept) -> Vec<Vec<u8>> {
        let mut found = vec![self.whole(held.ino, held.fh).unwrap()];
        match self.open_ino(held.ino, libc::O_RDONLY) {
            Ok(opened) => {
                found.push(self.whole(held.ino, opened.fh).unwrap());
                answer(self.fs.release(opened.fh)).unwrap();
            }
            Err(error) => assert_eq!(error, libc::ESTALE),
        }
        found
    }

    /// Forgets all numbers but those of open files, of kept views, and of the directories on the
    /// way there.
    fn forget(&mut self) {
        let pinned: HashSet<Ino> = self.pinned.values().flatten().copied().collect();
        self.known.retain(|ino, count| {
            let keep = pinned.contains(ino);
            if !keep {
                self.fs.forget(*ino, *count);
            }
            keep
        });
    }

    fn settle(&mut self) {
        self.release_due(true);
        while self.fs.status().waiting_to_seal > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn tick(&mut self) {
        self.clock += 1;
        self.release_due(false);
    }
}

/// Tries again while a record is locked elsewhere, as the door does. A process that another test
/// starts has the locks of this one for a moment.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, FsError>) -> Result<T, FsError> {
    let mut last = attempt();
    crate::support::comes_true(|| {
        let is_locked = |error: &FsError| error.errno().0 == libc::EAGAIN;
        let again = last.as_ref().is_err_and(is_locked);
        if again {
            last = attempt();
        }
        !again
    });
    last
}

fn answer<T>(result: Result<T, FsError>) -> Answer<T> {
    result.map_err(|error| error.errno().0)
}

fn rename_mode(mode: Mode) -> RenameMode {
    match mode {
        Mode::Replace => RenameMode::Replace,
        Mode::KeepExisting => RenameMode::KeepExisting,
        Mode::Exchange => RenameMode::Exchange,
    }
}

/// The flags of open(2).
pub(crate) fn flags(how: How) -> i32 {
    let access = match (how.read, how.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        (_, false) => libc::O_RDONLY,
    };
    let flag = |on, flag| if on { flag } else { 0 };
    access
        | flag(how.append, libc::O_APPEND)
        | flag(how.create, libc::O_CREAT)
        | flag(how.excl, libc::O_EXCL)
        | flag(how.truncate, libc::O_TRUNC)
}
