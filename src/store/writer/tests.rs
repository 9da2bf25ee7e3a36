//! Tests of artifacts written without a mount.

mod naming;

use std::path::PathBuf;
use std::{fs, thread};

use tempfile::TempDir;

use super::*;
use crate::Store;
use ctxfs_core::model::Removal;

struct Scene {
    _temporary: TempDir,
    store: Store,
    conversation: Arc<Conversation>,
}

impl Scene {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&name("c7")).unwrap();
        Self { _temporary: temporary, store, conversation }
    }

    fn records(&self) -> Vec<Record> {
        self.conversation.records().unwrap().map(Result::unwrap).collect()
    }

    fn writer(&self, call: &str) -> ArtifactWriter {
        self.try_writer(call).unwrap()
    }

    fn try_writer(&self, call: &str) -> Result<ArtifactWriter, StoreError> {
        let provenance = Provenance::default();
        ArtifactWriter::create_for_call(&self.conversation, Folder::Tool, call, provenance)
    }

    fn put(&self, call: &str, content: &str) -> Record {
        let mut writer = self.writer(call);
        writer.write_all(content.as_bytes()).unwrap();
        writer.seal().unwrap().record
    }

    fn folder(&self) -> PathBuf {
        self.store.root().join("context/c7/artifacts/tool")
    }

    /// Recovers the artifact. Retries because a process that another test is starting briefly has
    /// copies of all descriptors.
    fn recover_soon(&self, path: &RelPath) -> Record {
        loop {
            if let Some(record) = self.conversation.recover(path, None).unwrap() {
                return record;
            }
            thread::yield_now();
        }
    }

    /// Returns the record as another process finds it.
    fn elsewhere(&self, path: &RelPath) -> Option<Record> {
        let store = Store::open(self.store.root()).unwrap();
        store.conversation(&name("c7")).unwrap().unwrap().record(path).unwrap()
    }
}

fn name(name: &str) -> Component {
    Component::new(name).unwrap()
}

fn path_of(record: &Record) -> RelPath {
    RelPath::new(&record.path).unwrap()
}

#[test]
fn bytes_and_record_are_there_while_it_is_written() {
    let scene = Scene::new();
    let provenance = Provenance { tool: Some("exec".into()), ..Provenance::default() };
    let terminal = Folder::Terminal;
    let conversation = &scene.conversation;
    let mut writer =
        ArtifactWriter::create(conversation, terminal, &name("x.log"), provenance.clone()).unwrap();
    writer.write_all(b"one\n").unwrap();
    let file = scene.store.root().join("context/c7/artifacts/terminal/x.log");
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
    let live = scene.elsewhere(writer.path()).unwrap();
    assert_eq!(
        (live.state, live.provenance, live.generation),
        (ArtifactState::Live, provenance, 1)
    );
    assert_eq!(conversation.recover(writer.path(), None).unwrap(), None);

    writer.write_all(b"two\n").unwrap();
    writer.provenance().update(&Provenance { exit_code: Some(2), ..Provenance::default() });
    assert_eq!(writer.written(), 8);
    let path = writer.path().clone();
    let sealed = writer.seal().unwrap().record;
    assert_eq!(scene.elsewhere(&path), Some(sealed.clone()));
    assert_eq!((sealed.state, sealed.size), (ArtifactState::Sealed, 8));
    assert_eq!(sealed.provenance.exit_code, Some(2));
    assert_eq!(sealed.analysis.unwrap().bytes, 8);
    let file = fs::File::open(file).unwrap();
    assert_eq!(attributes::provenance_of(&file).unwrap(), sealed.provenance);
    assert_eq!(stat_file(&file).unwrap().mode & 0o777, 0o600);
}

#[test]
fn the_content_decides_the_extension() {
    let scene = Scene::new();
    assert_eq!(scene.put("a", "{\"k\": 1}").path, "artifacts/tool/a.json");
    assert_eq!(scene.put("b", "plain").path, "artifacts/tool/b.txt");
    assert_eq!(scene.put("c", "").path, "artifacts/tool/c.txt");
    let mut names: Vec<_> =
        fs::read_dir(scene.folder()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.json", "b.txt", "c.txt"]);
    let paths: Vec<_> = scene.records().into_iter().map(|record| record.path).collect();
    assert_eq!(paths, ["artifacts/tool/a.json", "artifacts/tool/b.txt", "artifacts/tool/c.txt"]);
}

#[test]
fn a_call_that_cannot_be_a_name_is_kept_in_the_record() {
    let scene = Scene::new();
    for call in ["..", ".ctxfs", "a/b", &"x".repeat(1536)] {
        let record = scene.put(call, "text");
        assert!(record.path.starts_with("artifacts/tool/call-"), "{}", record.path);
        assert_eq!(record.call(), call);
        assert_eq!(scene.elsewhere(&path_of(&record)), Some(record));
    }
    assert_eq!(fs::read_dir(scene.folder()).unwrap().count(), 4);
}

#[test]
fn a_dropped_writer_leaves_an_incomplete_artifact() {
    let scene = Scene::new();
    let mut writer = scene.writer("x");
    writer.write_all(b"half").unwrap();
    let path = writer.path().clone();
    drop(writer);
    let record = scene.elsewhere(&path).unwrap();
    assert_eq!(record.incomplete(), Some(DROPPED));
    assert_eq!(record.analysis.unwrap().bytes, 4);
    let record = scene.writer("y").seal_incomplete("no room").unwrap().record;
    assert_eq!(record.incomplete(), Some("no room"));
}

#[test]
fn a_killed_writer_is_met_later() {
    let scene = Scene::new();
    let mut writer = scene.writer("x");
    writer.write_all(b"half").unwrap();
    let path = writer.path().clone();
    // The kill of a process is simulated: its files are closed, and nothing is recorded.
    writer.closed = true;
    drop(writer);
    let live = scene.elsewhere(&path).unwrap();
    assert_eq!(live.state, ArtifactState::Live);
    // The artifact may still be sealed while its owner is running.
    assert_eq!(scene.conversation.recover(&path, None).unwrap(), None);
    scene.conversation.manifest().append(&[Record { owner: None, ..live }]).unwrap();
    let recovered = scene.recover_soon(&path);
    assert!(recovered.incomplete().unwrap().contains("the daemon stopped"));
    assert_eq!((recovered.size, recovered.generation), (4, 1));
    assert_eq!(scene.elsewhere(&path), Some(recovered));
    assert_eq!(scene.conversation.recover(&path, None).unwrap(), None);
}

#[test]
fn a_live_record_without_a_file_is_left_alone() {
    let scene = Scene::new();
    let writer = scene.writer("x");
    fs::remove_file(scene.folder().join("x.txt")).unwrap();
    assert_eq!(scene.conversation.recover(writer.path(), None).unwrap(), None);
}

#[test]
fn an_analysis_that_does_not_speak_of_the_whole_is_left_out() {
    let scene = Scene::new();
    let mut writer = scene.writer("x");
    writer.write_all(b"mine").unwrap();
    let file = scene.folder().join("x.txt");
    fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b" and theirs").unwrap();
    let record = writer.seal().unwrap().record;
    assert_eq!((record.size, record.analysis), (15, None));
}

#[test]
fn forty_writers_at_once() {
    let scene = Scene::new();
    let root = scene.store.root();
    thread::scope(|scope| {
        for i in 0..40 {
            scope.spawn(move || {
                let store = Store::open(root).unwrap();
                let conversation = store.create_conversation(&name("c7")).unwrap();
                let provenance = Provenance { exit_code: Some(i), ..Provenance::default() };
                let call = format!("call {i}");
                let folder = Folder::Tool;
                let mut writer =
                    ArtifactWriter::create_for_call(&conversation, folder, &call, provenance)
                        .unwrap();
                for line in 0..100 {
                    writeln!(writer, "{i}: {line}").unwrap();
                }
                writer.seal().unwrap();
            });
        }
    });
    let records = scene.records();
    assert_eq!(records.len(), 40);
    for record in records {
        let i = record.provenance.exit_code.unwrap();
        assert_eq!((record.call(), &record.state), (&*format!("call {i}"), &ArtifactState::Sealed));
        let text = fs::read_to_string(scene.folder().join(path_of(&record).file_name())).unwrap();
        assert_eq!(text.lines().count(), 100);
        assert!(text.lines().all(|line| line.starts_with(&format!("{i}: "))));
        assert_eq!(record.analysis.unwrap().bytes, text.len() as u64);
    }
}

#[test]
fn a_folder_that_was_removed_is_made_again() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.store.root().join("context/c7/artifacts")).unwrap();
    scene.put("x", "text");
    fs::remove_dir_all(scene.store.root().join("context/c7")).unwrap();
    let error = scene.try_writer("x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
}

/// Returns the names in the directory of tool outputs, sorted.
fn names(scene: &Scene) -> Vec<String> {
    let entries = fs::read_dir(scene.folder()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Begins an output of `call` and writes half of its content.
fn half(scene: &Scene, call: &str) -> ArtifactWriter {
    let mut writer = scene.writer(call);
    writer.write_all(b"[1,").unwrap();
    writer
}

#[test]
fn what_came_to_exist_meanwhile_stays() {
    let scene = Scene::new();
    let other = scene.folder().join("x.json");
    let mut writer = half(&scene, "x");
    fs::write(&other, "somebody's").unwrap();
    writer.write_all(b"2]").unwrap();
    let record = writer.seal().unwrap().record;
    // The artifact keeps its previous name.
    assert_eq!(record.path, "artifacts/tool/x.txt");
    assert_eq!(scene.elsewhere(&path_of(&record)), Some(record));
    assert_eq!(fs::read(scene.folder().join("x.txt")).unwrap(), b"[1,2]");
    assert_eq!(fs::read(&other).unwrap(), b"somebody's");
    assert_eq!(names(&scene), ["x.json", "x.txt"]);
}

#[test]
fn other_bytes_of_a_call_are_another_artifact_and_the_same_bytes_are_the_same() {
    for (call, [first, second, third]) in
        [("a", ["one", "two", "three"]), ("b", ["[1]", "two", "[3]"]), ("../c", ["1", "{}", ""])]
    {
        let scene = Scene::new();
        let records = [first, second, third].map(|content| scene.put(call, content));
        let before = names(&scene);
        for (content, record) in [first, second, third].iter().zip(&records) {
            let mut writer = scene.writer(call);
            writer.write_all(content.as_bytes()).unwrap();
            let completed = writer.seal().unwrap();
            assert_eq!(completed, Completed { record: record.clone(), is_new: false });
            assert_eq!((record.generation, record.call()), (1, call));
            let bytes = fs::read(scene.folder().join(path_of(record).file_name())).unwrap();
            assert_eq!(bytes, content.as_bytes());
        }
        assert_eq!(names(&scene), before);
        assert_eq!(scene.records(), records);
    }
}

#[test]
fn outputs_of_a_call_are_numbered() {
    let scene = Scene::new();
    let paths = ["one", "[2]", "[3]"].map(|content| scene.put("x", content).path);
    let expected = ["x.txt", "x-2.json", "x-3.json"].map(|name| format!("artifacts/tool/{name}"));
    assert_eq!(paths, expected);
    let log = |content: &[u8]| {
        let conversation = &scene.conversation;
        let provenance = Provenance::default();
        let writer =
            ArtifactWriter::create_for_call(conversation, Folder::Terminal, "x", provenance);
        let mut writer = writer.unwrap();
        writer.write_all(content).unwrap();
        writer.seal().unwrap().record.path
    };
    assert_eq!(log(b"{}"), "artifacts/terminal/x.log");
    assert_eq!(log(b"{}"), "artifacts/terminal/x-2.log");
}

#[test]
fn only_outputs_of_the_same_call_that_are_as_complete_are_the_same() {
    let scene = Scene::new();
    let first = scene.writer("x").seal_incomplete("no room").unwrap();
    let second = scene.writer("x").seal_incomplete("no room").unwrap();
    assert_eq!(second, Completed { is_new: false, ..first });
    let other = scene.writer("y").seal_incomplete("no room").unwrap().record.path;
    let why = scene.writer("y").seal_incomplete("the disk failed").unwrap().record.path;
    assert_eq!([&*other, &*why], ["y.txt", "y-2.txt"].map(|name| format!("artifacts/tool/{name}")));
    assert_eq!(scene.put("x", "").path, "artifacts/tool/x-2.txt");
    // There is an output of the call x-3, and a file without a record.
    scene.put("x-3", "bytes");
    fs::write(scene.folder().join("x-4.txt"), "bytes").unwrap();
    assert_eq!(scene.put("x", "bytes").path, "artifacts/tool/x-5.txt");
    // The file was written after it was recorded, so its bytes are not the recorded ones.
    let path = scene.folder().join("x-5.txt");
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap();
    assert_eq!(scene.put("x", "bytes").path, "artifacts/tool/x-6.txt");
}

#[test]
fn two_outputs_of_a_call_at_once() {
    let scene = Scene::new();
    let [mut first, mut second, mut third] = [(); 3].map(|()| scene.writer("x"));
    for (writer, bytes) in [(&mut first, "same"), (&mut second, "same"), (&mut third, "[3]")] {
        writer.write_all(bytes.as_bytes()).unwrap();
    }
    let second = second.seal().unwrap();
    assert_eq!((&*second.record.path, second.is_new), ("artifacts/tool/x-2.txt", true));
    assert_eq!(first.seal().unwrap(), Completed { is_new: false, ..second });
    assert_eq!(third.seal().unwrap().record.path, "artifacts/tool/x-3.json");
    assert_eq!(names(&scene), ["x-2.txt", "x-3.json"]);
}

#[test]
fn equal_outputs_of_a_call_at_once_are_one_in_whatever_order_they_end() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let scene = Scene::new();
        let mut writers: Vec<_> = (0..3).map(|_| Some(scene.writer("x"))).collect();
        for writer in writers.iter_mut().flatten() {
            writer.write_all(b"same").unwrap();
        }
        let mut paths: Vec<String> =
            order.map(|index| writers[index].take().unwrap().seal().unwrap().record.path).to_vec();
        paths.dedup();
        assert_eq!((paths.len(), names(&scene).len()), (1, 1), "{order:?}: {paths:?}");
    }
}

#[test]
fn what_is_in_the_way_stays() {
    let scene = Scene::new();
    fs::create_dir(scene.folder().join("d.txt")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.folder().join("d-2.json"), 0o600.into()).unwrap();
    fs::write(scene.folder().join("d-3.json"), "somebody's").unwrap();
    assert_eq!(scene.put("d", "{}").path, "artifacts/tool/d-4.json");
    assert_eq!(names(&scene), ["d-2.json", "d-3.json", "d-4.json", "d.txt"]);
    let (conversation, provenance) = (&scene.conversation, Provenance::default());
    let name = name("d-4.json");
    let made = ArtifactWriter::create(conversation, Folder::Tool, &name, provenance);
    let error = made.unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert!(error.path().ends_with("c7/artifacts/tool/d-4.json"));
}

#[test]
fn an_output_that_was_removed_keeps_its_name() {
    let scene = Scene::new();
    let record = scene.put("x", "old");
    let removal = Removal { at: 1, rule: "keep_age".into(), why: "old".into(), stays: false };
    let removed = Record { removed: Some(removal), ..record };
    scene.conversation.manifest().append(&[removed]).unwrap();
    fs::remove_file(scene.folder().join("x.txt")).unwrap();
    assert_eq!(scene.put("x", "old").path, "artifacts/tool/x-2.txt");
}
