//! Artifacts whose bytes are not on the local disk.

mod open;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process};

use super::fixture::{Fixture, ME, errno};
use crate::{
    Caller, ContextFs, FsError, Ino, OpenMode, RenameMode, RequestOrigin, RequestSubject, Result,
};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{ArtifactState, Component, Content as _, Far, FarFile, FarStore, Record};
use ctxfs_engine::sync::mpsc;
use ctxfs_engine::{EngineError, EngineOptions, Tree};
use ctxfs_store::{Store, record_far};

const ORIGIN: &str = "0000000000000007-000000000001:3";

/// A far store with a single text. It can be unreachable, or lose the text from the bucket.
#[derive(Debug, Default)]
struct Elsewhere {
    text: String,
    is_remote: AtomicBool,
    is_gone: AtomicBool,
    hangs: AtomicBool,
    opened: AtomicUsize,
}

impl FarStore for Elsewhere {
    fn open(&self, _: &Component, record: &Record) -> io::Result<FarFile> {
        assert_eq!(record.far.as_ref().unwrap().origin, ORIGIN);
        while self.hangs.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        if self.is_remote.load(Relaxed) {
            return Err(io::Error::other("no network"));
        }
        if self.is_gone.load(Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        self.opened.fetch_add(1, Relaxed);
        let content = Arc::new(self.text.clone().into_bytes());
        Ok(FarFile { content, attributes: vec![("user.note".into(), b"of the writer".to_vec())] })
    }
}

struct Scene {
    fixture: Fixture,
    elsewhere: Arc<Elsewhere>,
}

impl Scene {
    /// Creates a scene with `x.txt`, whose bytes are only in the far store.
    fn new(text: &str) -> Self {
        let elsewhere = Arc::new(Elsewhere { text: text.to_owned(), ..Elsewhere::default() });
        let far = Some(Arc::clone(&elsewhere) as Arc<dyn FarStore>);
        let fixture = Fixture::with(EngineOptions { far, ..EngineOptions::default() });
        let mut analyzer = Analyzer::new();
        analyzer.push(text.as_bytes());
        let record = Record {
            generation: 1,
            state: ArtifactState::Sealed,
            size: text.len() as u64,
            modified: 1_700_000_000_123_456_000,
            created: 1_700_000_000_000,
            analysis: Some(analyzer.finish()),
            path: "artifacts/tool/x.txt".to_owned(),
            far: Some(Far { origin: ORIGIN.to_owned(), mode: 0o640, here: false }),
            ..Record::default()
        };
        let store = Store::open(fixture.dir.path()).unwrap();
        let conversation = store.conversation(&Component::new("c1").unwrap()).unwrap().unwrap();
        record_far(&conversation, &[record]).unwrap().remove(0).unwrap().unwrap();
        Self { fixture, elsewhere }
    }

    /// Reads a file with the calls that a kernel request makes.
    fn read(&self, ino: Ino) -> Result<Vec<u8>> {
        let fh = self.fixture.open(ino, libc::O_RDONLY)?.fh;
        let first = self.fixture.fs.read(fh, 0, &mut [0; 100], <[u8]>::to_vec);
        assert!(first.is_err_and(|error| error.is_slow()), "it may wait for the network");
        let (send, receive) = mpsc::channel();
        let done = move |read| send.send(read).unwrap();
        self.fixture.fs.read_far(fh, (0, 1 << 20), done);
        let read = receive.recv().unwrap();
        self.fixture.fs.release(fh)?;
        read
    }

    fn view(&self, path: &str) -> ctxfs_engine::Result<Vec<u8>> {
        let tree = Tree::new(Arc::clone(self.fixture.fs.engine()));
        let opened = tree.open(Path::new(path))?;
        Ok(opened.bytes(0, 1 << 20)?)
    }
}

#[test]
fn it_is_seen_and_read_like_a_file() {
    let scene = Scene::new("one\ntwo\n");
    let Scene { fixture, elsewhere } = &scene;
    let names = fixture.list(fixture.tool);
    assert!(names.contains(&"x.txt".to_owned()) && names.contains(&"x.txt.tail".to_owned()));
    let attr = fixture.lookup("x.txt").unwrap().attr;
    assert_eq!((attr.size, attr.perm & 0o777, attr.nlink), (8, 0o640, 1));
    assert_eq!(attr.blocks, 1, "nobody is to take it for a hole");
    assert_eq!(elsewhere.opened.load(Relaxed), 0, "nothing was fetched for that");
    assert_eq!(scene.read(attr.ino).unwrap(), b"one\ntwo\n");
    assert_eq!(fixture.text("x.txt.tail"), "one\ntwo\n");
    assert_eq!(fixture.text("x.txt.lines/2-2"), "two\n");
    assert!(!fixture.text("x.txt.summary").contains("AWAY"));
    assert!(!fixture.plain("x.txt").exists());
    assert_eq!(scene.view("c1/artifacts/tool/x.txt").unwrap(), b"one\ntwo\n");
    assert_eq!(scene.view("c1/artifacts/tool/x.txt.grep/two").unwrap(), b"2:two\n");
    let found = String::from_utf8(scene.view("c1/.grep/two").unwrap()).unwrap();
    assert!(found.contains("x.txt"), "{found}");
    assert!(fixture.lookup("y.txt").is_err());
}

/// Returns a client that waits for bytes in vain and has a pending signal.
fn interrupted() -> (Child, Caller) {
    let client = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = Pid::from_child(&client);
    // A stopped process has not handled the signal yet, like a process that waits for the kernel.
    // SIGTERM is used because background children of a shell ignore SIGINT.
    for signal in [Signal::STOP, Signal::TERM] {
        kill_process(pid, signal).unwrap();
    }
    let caller = Caller { pid: client.id(), ..ME };
    (client, caller)
}

#[test]
fn who_waits_for_a_view_of_it_can_be_interrupted() {
    let scene = Scene::new("one\ntwo\n");
    let Scene { fixture, elsewhere } = &scene;
    let names = ["x.txt.grep/two", "x.txt.lines/2-2", "x.txt.summary", "x.txt"];
    let found = names.map(|name| fixture.ino(name));
    let handles = fixture.fs.status().open_handles;
    elsewhere.hangs.store(true, Relaxed);
    let (mut client, caller) = interrupted();
    let (send, receive) = mpsc::channel();
    for ino in found {
        let (opened, got) = (send.clone(), send.clone());
        let mode = OpenMode { flags: libc::O_RDONLY };
        fixture.fs.open(ino, mode, caller, move |done| opened.send(done.map(drop)).unwrap());
        if ino != found[3] {
            fixture.fs.getattr(ino, caller, move |done| got.send(done.map(drop)).unwrap());
        }
    }
    for _ in 0..7 {
        let answer = receive.recv().unwrap();
        assert!(matches!(answer, Err(FsError::Interrupted)), "{answer:?}");
    }
    elsewhere.hangs.store(false, Relaxed);
    client.kill().unwrap();
    client.wait().unwrap();
    // The next reader finds nothing changed, and files whose open finished too late are closed.
    assert_eq!(fixture.text("x.txt.grep/two"), "2:two\n");
    assert_eq!(scene.read(found[3]).unwrap(), b"one\ntwo\n");
    while fixture.fs.status().open_handles != handles {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn who_waits_for_work_that_panics_gets_an_answer() {
    let scene = Scene::new("one\n");
    let ino = scene.fixture.ino("x.txt");
    let (send, receive) = mpsc::channel::<Result<()>>();
    let origin = RequestOrigin::new(RequestSubject::Node(ino), ME.pid);
    let was_tried = AtomicBool::new(false);
    let attempt = move |_: &ContextFs| {
        assert!(!was_tried.swap(true, Relaxed), "a panic that this test wants");
        Err(EngineError::Slow.into())
    };
    scene.fixture.fs.retry_interruptibly(origin, attempt, move |got| send.send(got).unwrap());
    assert!(receive.recv().is_err(), "the function that answers is dropped, and so answers");
}

#[test]
fn its_summary_says_why_it_cannot_be_read() {
    let scene = Scene::new("one\ntwo\n");
    scene.elsewhere.is_remote.store(true, Relaxed);
    let ino = scene.fixture.ino("x.txt");
    assert_eq!(errno(scene.fixture.open(ino, libc::O_RDONLY)), libc::EIO);
    assert_eq!(errno(scene.fixture.read("x.txt.tail")), libc::EIO);
    let summary = scene.fixture.text("x.txt.summary");
    assert!(summary.contains("AWAY") && summary.contains("no network"), "{summary}");
    scene.elsewhere.is_remote.store(false, Relaxed);
    let summary = scene.fixture.text("x.txt.summary");
    assert!(!summary.contains("AWAY"), "{summary}");
}

#[test]
fn its_summary_says_that_it_has_left_the_bucket() {
    let scene = Scene::new("one\ntwo\n");
    scene.elsewhere.is_gone.store(true, Relaxed);
    let ino = scene.fixture.ino("x.txt");
    assert_eq!(errno(scene.fixture.open(ino, libc::O_RDONLY)), libc::ESTALE);
    assert_eq!(errno(scene.fixture.read("x.txt.tail")), libc::ESTALE);
    let summary = scene.fixture.text("x.txt.summary");
    assert!(summary.contains("AWAY") && summary.contains("has them no more"), "{summary}");
}

#[test]
fn who_writes_it_has_all_of_it_here() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let ino = fixture.ino("x.txt");
    let fh = fixture.open(ino, libc::O_RDWR).unwrap().fh;
    assert_eq!(fs::read_to_string(fixture.plain("x.txt")).unwrap(), "one\n");
    fixture.write(fh, 4, b"two\n").unwrap();
    fixture.close(fh);
    assert_eq!(fixture.ino("x.txt"), ino, "it is the same file");
    fixture.settle();
    assert_eq!(fixture.text("x.txt"), "one\ntwo\n");
    assert_eq!(fixture.text("x.txt.tail"), "one\ntwo\n");
}

#[test]
fn it_is_renamed_and_removed_by_its_record() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let ino = fixture.ino("x.txt");
    fixture.rename("x.txt", "y.txt", RenameMode::Replace).unwrap();
    assert!(fixture.lookup("x.txt").is_err());
    assert_eq!(fixture.ino("y.txt"), ino);
    assert_eq!(fixture.text("y.txt.tail"), "one\n");
    assert!(!fixture.plain("y.txt").exists());
    fixture.put("z.txt", b"mine\n");
    let onto = fixture.rename("z.txt", "y.txt", RenameMode::KeepExisting);
    assert!(matches!(onto, Err(FsError::Exists)));
    let parent = fixture.find("c1/artifacts").unwrap().attr.ino;
    fixture.unlink("z.txt").unwrap();
    assert_eq!(errno(fixture.fs.rmdir(parent, OsStr::new("tool"))), libc::ENOTEMPTY);
    fixture.unlink("y.txt").unwrap();
    assert!(
        fixture.lookup("y.txt").is_err()
            && !fixture.list(fixture.tool).contains(&"y.txt".to_owned())
    );
    let made = fixture.fs.lookup(fixture.tool, OsStr::new("y.txt.summary"), ME);
    assert!(made.is_err());
}

#[test]
fn its_attributes_are_read_without_its_bytes_and_changed_with_them() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let (ino, note) = (fixture.ino("x.txt"), OsStr::new("user.note"));
    assert_eq!(fixture.fs.getxattr(ino, note).unwrap(), b"of the writer");
    assert_eq!(fixture.fs.listxattr(ino).unwrap(), b"user.note\0");
    let other = fixture.fs.getxattr(ino, OsStr::new("user.other"));
    assert!(matches!(other, Err(FsError::NoAttribute)));
    assert!(!fixture.plain("x.txt").exists());
    fixture.fs.setxattr(ino, OsStr::new("user.other"), b"mine", 0).unwrap();
    assert!(fixture.plain("x.txt").exists());
    assert_eq!(fixture.fs.getxattr(ino, note).unwrap(), b"of the writer");
    assert_eq!(fixture.fs.getxattr(ino, OsStr::new("user.other")).unwrap(), b"mine");
}

#[test]
fn its_views_cannot_be_replaced() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    fixture.put("z.txt", b"mine\n");
    for name in ["x.txt.summary", "x.txt.grep", "x.txt.pretty.tail"] {
        for from in ["x.txt", "z.txt"] {
            let onto = fixture.rename(from, name, RenameMode::Replace);
            assert!(matches!(onto, Err(FsError::Computed)), "{from} to {name}");
        }
        let made = fixture.create(name, libc::O_WRONLY);
        assert!(matches!(made, Err(FsError::Computed)), "{name}");
        let made = fixture.fs.mkdir(fixture.tool, OsStr::new(name), 0o700, ME);
        assert!(matches!(made, Err(FsError::Computed)), "{name}");
    }
    fixture.rename("z.txt", "z.summary", RenameMode::Replace).unwrap();
}

#[test]
fn nothing_moves_to_another_conversation() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    fixture.put("here.txt", b"here\n");
    fixture.fs.mkdir(Ino::ROOT, OsStr::new("c2"), 0o700, ME).unwrap();
    let other = fixture.find("c2/artifacts/tool").unwrap().attr.ino;
    for name in ["x.txt", "here.txt"] {
        let name = OsStr::new(name);
        let moved = fixture.fs.rename(fixture.tool, name, other, name, RenameMode::Replace);
        assert_eq!(errno(moved), libc::EXDEV);
    }
    fixture.rename("here.txt", "there.txt", RenameMode::Replace).unwrap();
    assert!(!fixture.plain("x.txt").exists(), "nothing was fetched for that");
    let rename = |from: &str, to: &str| {
        let (from, to) = (OsStr::new(from), OsStr::new(to));
        fixture.fs.rename(Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace)
    };
    assert_eq!(errno(rename("c1", "c3")), libc::EPERM, "its bytes would be lost");
    assert_eq!(errno(rename("c2", "c1")), libc::ENOTEMPTY);
    rename("c2", "c3").unwrap();
}
