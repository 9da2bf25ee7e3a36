//! A filesystem over a temporary store, with shortcuts for tests.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::node::NodeKind;
use crate::{
    Attr, Caller, ContextFs, Entry, Fh, FsOptions, Ino, OpenMode, Opened, RenameMode, Result,
    SetAttr,
};
use ctxfs_core::model::{Component, Record, RelPath};
use ctxfs_engine::sync::{mpsc, thread};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::Store;

pub(super) const ME: Caller = Caller { uid: 0, gid: 0, pid: 0 };

pub(super) struct Fixture {
    pub(super) fs: ContextFs,
    /// The directory `c1/artifacts/tool`.
    pub(super) tool: Ino,
    pub(super) dir: Arc<TempDir>,
}

/// Returns the errno of a result that must be an error.
pub(super) fn errno<T>(result: Result<T>) -> i32 {
    result.err().expect("it succeeded").errno().0
}

/// Retries while a lock is taken, as a mount does. A compaction may hold the lock, or a child
/// process of another test, which inherits all locks of this process until it executes its program.
fn until_unlocked<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Err(error) if error.must_wait() => thread::sleep(Duration::from_millis(1)),
            done => return done,
        }
    }
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    /// Creates a filesystem with the conversation `c1`.
    pub(super) fn with(options: EngineOptions) -> Self {
        Self::with_fs(options, FsOptions::default())
    }

    /// Like [`Self::with`], with these options of the mount.
    pub(super) fn with_fs(engine: EngineOptions, options: FsOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::new(Store::open(dir.path()).unwrap(), engine);
        let fs = ContextFs::new(engine, options).unwrap();
        fs.mkdir(Ino::ROOT, OsStr::new("c1"), 0o700, ME).unwrap();
        let tool = Self::find_in(&fs, "c1/artifacts/tool").unwrap().attr.ino;
        Self { fs, tool, dir: Arc::new(dir) }
    }

    /// Creates a filesystem over the store in `dir`.
    pub(super) fn serve(dir: &TempDir, options: EngineOptions) -> ContextFs {
        let engine = Engine::new(Store::open(dir.path()).unwrap(), options);
        ContextFs::new(engine, FsOptions::default()).unwrap()
    }

    /// Makes a fixture of `fs`, which stands for a second process on the store of `other`. Keeps
    /// the directory of `other` alive.
    pub(super) fn of(fs: ContextFs, other: &Self) -> Self {
        let tool = Self::find_in(&fs, "c1/artifacts/tool").unwrap().attr.ino;
        Self { fs, tool, dir: Arc::clone(&other.dir) }
    }

    fn find_in(fs: &ContextFs, path: &str) -> Result<Entry> {
        let mut found = None;
        let mut at = Ino::ROOT;
        for name in path.split('/') {
            let entry = fs.lookup(at, OsStr::new(name), ME)?;
            at = entry.attr.ino;
            found = Some(entry);
        }
        Ok(found.unwrap())
    }

    /// Looks up a path.
    pub(super) fn find(&self, path: &str) -> Result<Entry> {
        Self::find_in(&self.fs, path)
    }

    /// Looks up a name in `c1/artifacts/tool`. The name may contain `/`, as the name of a view in a
    /// directory of views does.
    pub(super) fn lookup(&self, name: &str) -> Result<Entry> {
        self.find(&format!("c1/artifacts/tool/{name}"))
    }

    pub(super) fn ino(&self, name: &str) -> Ino {
        self.lookup(name).unwrap().attr.ino
    }

    pub(super) fn attr(&self, ino: Ino) -> Result<Attr> {
        let (send, receive) = mpsc::channel();
        self.fs.getattr(ino, ME, move |got| send.send(got).unwrap());
        receive.recv().unwrap().map(|timed| timed.attr)
    }

    pub(super) fn open(&self, ino: Ino, flags: i32) -> Result<Opened> {
        let (send, receive) = mpsc::channel();
        self.fs.open(ino, OpenMode { flags }, ME, move |opened| send.send(opened).unwrap());
        receive.recv().unwrap()
    }

    /// Creates a file in `c1/artifacts/tool` and leaves it open.
    pub(super) fn create(&self, name: &str, flags: i32) -> Result<Fh> {
        let mode = OpenMode { flags };
        let created = self.fs.create(self.tool, OsStr::new(name), 0o600, mode, ME);
        created.map(|(_, opened)| opened.fh)
    }

    pub(super) fn write(&self, fh: Fh, offset: u64, bytes: &[u8]) -> Result<u32> {
        self.fs.write(fh, offset, bytes, OpenMode { flags: libc::O_WRONLY }, None)
    }

    /// Writes a whole artifact and closes it. The artifact may not be sealed yet when this returns.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> Ino {
        let fh = self.create(name, libc::O_WRONLY).unwrap();
        self.write(fh, 0, bytes).unwrap();
        self.close(fh);
        self.ino(name)
    }

    pub(super) fn close(&self, fh: Fh) {
        self.fs.flush(fh, ME, None).unwrap();
        self.fs.release(fh).unwrap();
    }

    pub(super) fn read_fh(&self, fh: Fh) -> Vec<u8> {
        self.fs.read(fh, 0, &mut vec![0; 1 << 20], <[u8]>::to_vec).unwrap()
    }

    /// Returns all bytes of a node.
    pub(super) fn read_ino(&self, ino: Ino) -> Result<Vec<u8>> {
        let fh = self.open(ino, libc::O_RDONLY)?.fh;
        let bytes = self.read_fh(fh);
        self.fs.release(fh)?;
        Ok(bytes)
    }

    /// Drops the cached text of a computed file.
    pub(super) fn drop_text(&self, ino: Ino) {
        let node = self.fs.0.nodes.get(ino).unwrap();
        let NodeKind::Computed(of) = &node.kind else { panic!("not a computed file") };
        of.computed.drop_text(self.fs.engine());
    }

    /// Returns all bytes of a file or view in `c1/artifacts/tool`. Like the kernel, looks the name
    /// up once more if the first node is stale.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        match self.read_ino(self.lookup(name)?.attr.ino) {
            Err(error) if error.errno().0 == libc::ESTALE => {
                self.read_ino(self.lookup(name)?.attr.ino)
            }
            read => read,
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name).unwrap()).unwrap()
    }

    pub(super) fn meta(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(&format!("{name}.meta.json")).unwrap()).unwrap()
    }

    pub(super) fn set_len(&self, ino: Ino, size: u64) -> Result<()> {
        let change = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.setattr(ino, &change, None).map(|_| ())
    }

    pub(super) fn rename(&self, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        let (from, to) = (OsStr::new(from), OsStr::new(to));
        until_unlocked(|| self.fs.rename(self.tool, from, self.tool, to, mode))
    }

    pub(super) fn unlink(&self, name: &str) -> Result<()> {
        until_unlocked(|| self.fs.unlink(self.tool, OsStr::new(name), 0))
    }

    pub(super) fn opendir(&self, ino: Ino) -> Result<Fh> {
        let (send, receive) = mpsc::channel();
        self.fs.opendir(ino, ME, move |opened| send.send(opened).unwrap());
        receive.recv().unwrap()
    }

    pub(super) fn list(&self, ino: Ino) -> Vec<String> {
        let fh = self.opendir(ino).unwrap();
        let mut names = Vec::new();
        let take = |listed: crate::ListedName<'_>| {
            names.push(listed.name.to_string_lossy().into_owned());
            false
        };
        self.fs.readdir(ino, fh, 2, take).unwrap();
        self.fs.releasedir(fh).unwrap();
        names
    }

    /// Waits until no file is left to be sealed.
    pub(super) fn settle(&self) {
        while self.fs.status().waiting_to_seal > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the record of an artifact of `c1` in the manifest on disk.
    pub(super) fn record(&self, name: &str) -> Option<Record> {
        let store = Store::open(self.dir.path()).unwrap();
        let conversation = store.conversation(&Component::new("c1").unwrap()).unwrap().unwrap();
        let path = RelPath::new(format!("artifacts/tool/{name}")).unwrap();
        conversation.record(&path).unwrap()
    }

    /// Returns the path of an artifact's file in the store.
    pub(super) fn plain(&self, name: &str) -> PathBuf {
        self.dir.path().join("context/c1/artifacts/tool").join(name)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.fs.shut_down();
    }
}
