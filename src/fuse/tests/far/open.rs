//! Artifacts that are open while their bytes are fetched, changed or evicted.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{ORIGIN, Scene, errno};
use crate::tests::fixture::Fixture;
use crate::{Caller, Fh, FilePosition, OpenMode, RenameMode, SetAttr};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::sync::{mpsc, thread};
use ctxfs_store::{BucketBytes, FileMark, RemovalOutcome, Store};

impl Scene {
    fn open(&self, name: &str) -> Fh {
        let ino = self.fixture.ino(name);
        self.fixture.open(ino, libc::O_RDONLY).unwrap().fh
    }

    /// Reads an open file with the calls that a kernel request makes.
    fn read_open(&self, fh: Fh) -> Vec<u8> {
        let fs = &self.fixture.fs;
        match fs.read(fh, 0, &mut [0; 100], <[u8]>::to_vec) {
            Err(error) if error.is_slow() => {
                let (send, receive) = mpsc::channel();
                fs.read_far(fh, (0, 100), move |read| send.send(read).unwrap());
                receive.recv().unwrap().unwrap()
            }
            read => read.unwrap(),
        }
    }

    /// Appends to a file, as another process would.
    fn append(&self, name: &str, bytes: &[u8]) {
        let fixture = &self.fixture;
        let ino = fixture.ino(name);
        let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
        let end = fixture.attr(ino).unwrap().size;
        fixture.write(fh, end, bytes).unwrap();
        fixture.close(fh);
    }

    /// Evicts the local file of an artifact.
    fn let_go(&self, name: &str) {
        let store = Store::open(self.fixture.dir.path()).unwrap();
        let conversation = store.conversation(&Component::new("c1").unwrap()).unwrap().unwrap();
        let path = RelPath::new(format!("artifacts/tool/{name}")).unwrap();
        let mark = FileMark::of(&conversation.dir().stat_at(&path).unwrap());
        let bytes = BucketBytes { origin: ORIGIN, shortcuts: None };
        // A process that another test starts has copies of all descriptors for a moment.
        let mut outcomes = (0..10_000).map(|_| {
            thread::sleep(Duration::from_millis(1));
            ctxfs_store::shared::evict(&conversation, &path, &mark, bytes).unwrap()
        });
        assert!(outcomes.any(|outcome| outcome == RemovalOutcome::Removed));
    }
}

#[test]
fn who_has_it_open_sees_what_is_written_to_it() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let reader = scene.open("x.txt");
    assert_eq!(scene.read_open(reader), b"one\n");
    scene.append("x.txt", b"two\n");
    assert_eq!(scene.read_open(reader), b"one\ntwo\n");
    let ino = fixture.ino("x.txt");
    assert_eq!(fixture.attr(ino).unwrap().size, 8);
    assert_eq!(fixture.fs.seek(reader, 0, libc::SEEK_HOLE).unwrap(), 8);
    fixture.set_len(ino, 2).unwrap();
    assert_eq!(scene.read_open(reader), b"on");
    fixture.fs.release(reader).unwrap();
    fixture.settle();
    assert_eq!(fixture.text("x.txt"), "on");
}

#[test]
fn who_has_it_open_reads_it_after_another_file_took_its_name() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let reader = scene.open("x.txt");
    scene.append("x.txt", b"two\n");
    fixture.settle();
    let ino = fixture.ino("x.txt");
    fixture.put("z.txt", b"another\n");
    fixture.rename("z.txt", "x.txt", RenameMode::Replace).unwrap();
    assert_eq!(scene.read_open(reader), b"one\ntwo\n");
    assert_eq!(fixture.attr(ino).unwrap().size, 8);
    assert_eq!(fixture.text("x.txt"), "another\n");
    fixture.fs.release(reader).unwrap();
}

#[test]
fn who_has_it_open_reads_it_after_it_was_removed() {
    for is_written in [false, true] {
        let scene = Scene::new("one\n");
        let fixture = &scene.fixture;
        let reader = scene.open("x.txt");
        let ino = fixture.ino("x.txt");
        if is_written {
            scene.append("x.txt", b"two\n");
            fixture.settle();
        }
        fixture.unlink("x.txt").unwrap();
        let expected: &[u8] = if is_written { b"one\ntwo\n" } else { b"one\n" };
        assert_eq!(scene.read_open(reader), expected);
        let attr = fixture.attr(ino).unwrap();
        assert_eq!((attr.size, attr.nlink), (expected.len() as u64, 0));
        fixture.fs.release(reader).unwrap();
        assert!(fixture.attr(ino).is_err(), "nobody has it any more");
    }
}

#[test]
fn what_another_name_took_while_it_was_elsewhere_can_be_read() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let reader = scene.open("x.txt");
    fixture.put("z.txt", b"another\n");
    fixture.settle();
    fixture.rename("z.txt", "x.txt", RenameMode::Replace).unwrap();
    assert_eq!(scene.read_open(reader), b"one\n");
    fixture.fs.release(reader).unwrap();
    assert_eq!(fixture.text("x.txt"), "another\n");
}

/// The kernel reads one local file for all handles of an artifact. Handles opened after a write
/// must not make the kernel continue with the old file.
#[test]
fn who_opens_what_was_let_go_reads_what_others_have_open() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    fixture.put("mine.txt", b"one\n");
    fixture.settle();
    let first = scene.open("mine.txt");
    scene.let_go("mine.txt");
    let opened = fixture.open(fixture.ino("mine.txt"), libc::O_RDONLY).unwrap();
    assert!(opened.file.is_some() && scene.elsewhere.opened.load(Relaxed) == 0);
    fixture.fs.release(first).unwrap();
    // Like the kernel, the writer looks the name up again.
    let ino = fixture.ino("mine.txt");
    assert!(fixture.open(ino, libc::O_WRONLY).is_err_and(|error| error.errno().0 == libc::ESTALE));
    scene.append("mine.txt", b"two\n");
    assert_ne!(fixture.ino("mine.txt"), ino);
    assert_eq!(scene.read_open(opened.fh), b"one\n");
    assert_eq!(fixture.text("mine.txt"), "one\ntwo\n");
    fixture.fs.release(opened.fh).unwrap();
}

#[test]
fn who_writes_it_anew_needs_no_byte_of_it() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let reader = scene.open("x.txt");
    let ino = fixture.ino("x.txt");
    scene.elsewhere.is_remote.store(true, Relaxed);
    assert_eq!(errno(fixture.open(ino, libc::O_WRONLY)), libc::EIO);
    let writer = fixture.open(ino, libc::O_WRONLY | libc::O_TRUNC).unwrap().fh;
    assert_eq!(fixture.attr(ino).unwrap().size, 0);
    assert_eq!(scene.read_open(reader), b"");
    fixture.write(writer, 0, b"another\n").unwrap();
    fixture.close(writer);
    fixture.settle();
    assert_eq!(scene.read_open(reader), b"another\n");
    fixture.fs.release(reader).unwrap();
    let attr = fixture.lookup("x.txt").unwrap().attr;
    assert_eq!((attr.ino, attr.perm & 0o777), (ino, 0o640), "it is the same file");
    assert_eq!(fixture.text("x.txt"), "another\n");
    assert_eq!(fixture.record("x.txt").unwrap().generation, 2);
}

#[test]
fn it_is_copied_to_another_file() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    let (reader, other) = (scene.open("x.txt"), fixture.put("y.txt", b""));
    let writer = fixture.open(other, libc::O_WRONLY).unwrap().fh;
    let [from, to] = [reader, writer].map(|fh| FilePosition { fh, offset: 0 });
    let (send, receive) = mpsc::channel();
    fixture.fs.copy_then((from, to), 100, 0, move |copied| send.send(copied).unwrap());
    assert_eq!(receive.recv().unwrap().unwrap(), 4);
    fixture.close(writer);
    fixture.fs.release(reader).unwrap();
    fixture.settle();
    assert_eq!(fixture.text("y.txt"), "one\n");
}

#[test]
fn what_is_cut_off_needs_no_byte_of_it() {
    let scene = Scene::new("one\n");
    let fixture = &scene.fixture;
    scene.elsewhere.is_remote.store(true, Relaxed);
    let ino = fixture.ino("x.txt");
    assert_eq!(errno(fixture.set_len(ino, 1)), libc::EIO);
    fixture.set_len(ino, 0).unwrap();
    fixture.settle();
    assert_eq!(fixture.text("x.txt"), "");
    assert!(fixture.plain("x.txt").exists());
}

#[test]
fn an_open_that_empties_a_file_takes_its_set_id_bits() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    let change = SetAttr { mode: Some(0o6755), ..SetAttr::default() };
    for (uid, left) in [(0, 0o6755), (1, 0o755)] {
        fixture.fs.setattr(ino, &change, None).unwrap();
        let (send, receive) = mpsc::channel();
        let mode = OpenMode { flags: libc::O_WRONLY | libc::O_TRUNC };
        let done = move |opened| send.send(opened).unwrap();
        fixture.fs.open(ino, mode, Caller { uid, gid: uid, pid: 0 }, done);
        let fh = receive.recv().unwrap().unwrap().fh;
        let attr = fixture.attr(ino).unwrap();
        assert_eq!((attr.size, attr.perm & 0o7777), (0, left));
        fixture.write(fh, 0, b"two\n").unwrap();
        fixture.close(fh);
        fixture.settle();
    }
}
