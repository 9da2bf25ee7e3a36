//! Artifacts written without a mount.

use std::fs;
use std::path::PathBuf;
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::model::is_scratch;
use crate::store::Store;

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
        writer.seal().unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.store.root().join("context/c7/artifacts/tool")
    }

    /// Recovers the artifact. Retries, as another test may be starting a process, which has copies
    /// of all descriptors for a moment.
    fn recover_soon(&self, path: &RelPath) -> Record {
        loop {
            if let Some(record) = self.conversation.recover(path).unwrap() {
                return record;
            }
            thread::yield_now();
        }
    }

    /// Returns the record that another process finds.
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
    assert_eq!(conversation.recover(writer.path()).unwrap(), None);

    writer.write_all(b"two\n").unwrap();
    writer.say(&Provenance { exit_code: Some(2), ..Provenance::default() });
    assert_eq!(writer.written(), 8);
    let path = writer.path().clone();
    let sealed = writer.seal().unwrap();
    assert_eq!(scene.elsewhere(&path), Some(sealed.clone()));
    assert_eq!((sealed.state, sealed.size), (ArtifactState::Sealed, 8));
    assert_eq!(sealed.provenance.exit_code, Some(2));
    assert_eq!(sealed.analysis.unwrap().bytes, 8);
    let file = fs::File::open(file).unwrap();
    assert_eq!(attributes::provenance_of(&file).unwrap(), sealed.provenance);
    assert_eq!(stat::stat_file(&file).unwrap().mode & 0o777, 0o600);
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
    let record = scene.writer("y").seal_incomplete("no room").unwrap();
    assert_eq!(record.incomplete(), Some("no room"));
}

#[test]
fn a_killed_writer_is_met_later() {
    let scene = Scene::new();
    let mut writer = scene.writer("x");
    writer.write_all(b"half").unwrap();
    let path = writer.path().clone();
    // A process that is killed closes its files and records nothing.
    writer.closed = true;
    drop(writer);
    let live = scene.elsewhere(&path).unwrap();
    assert_eq!(live.state, ArtifactState::Live);
    // The artifact may still be sealed while its process lives.
    assert_eq!(scene.conversation.recover(&path).unwrap(), None);
    scene.conversation.manifest().append(&[Record { owner: None, ..live }]).unwrap();
    let recovered = scene.recover_soon(&path);
    assert!(recovered.incomplete().unwrap().contains("the daemon stopped"));
    assert_eq!((recovered.size, recovered.generation), (4, 1));
    assert_eq!(scene.elsewhere(&path), Some(recovered));
    assert_eq!(scene.conversation.recover(&path).unwrap(), None);
}

#[test]
fn a_live_record_without_a_file_is_left_alone() {
    let scene = Scene::new();
    let writer = scene.writer("x");
    fs::remove_file(scene.folder().join("x.txt")).unwrap();
    assert_eq!(scene.conversation.recover(writer.path()).unwrap(), None);
}

#[test]
fn the_same_call_again_is_the_next_generation() {
    let scene = Scene::new();
    scene.put("x", "first");
    let reader = fs::read(scene.folder().join("x.txt")).unwrap();
    let open = fs::File::open(scene.folder().join("x.txt")).unwrap();
    let second = scene.put("x", "second");
    assert_eq!((second.generation, reader), (2, b"first".to_vec()));
    assert_eq!(stat::stat_file(&open).unwrap().size, 5);
    assert_eq!(fs::read(scene.folder().join("x.txt")).unwrap(), b"second");
    scene.put("j", "[1]");
    assert_eq!(scene.put("j", "[2]").generation, 2);
    fs::write(scene.folder().join("plain.txt"), "not of ours").unwrap();
    assert_eq!(scene.put("plain", "ours").generation, 2);
}

#[test]
fn one_artifact_has_one_writer() {
    let scene = Scene::new();
    let first = scene.writer("x");
    let error = scene.try_writer("x").unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }));
    assert!(error.path().ends_with("c7/artifacts/tool/x.txt"));
    first.seal().unwrap();
    scene.writer("x").seal().unwrap();
}

#[test]
fn what_is_in_the_way_stays() {
    let scene = Scene::new();
    fs::create_dir(scene.folder().join("d.txt")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.folder().join("f.txt"), 0o600.into()).unwrap();
    for call in ["d", "f"] {
        assert_eq!(scene.try_writer(call).unwrap_err().raw_os_error(), Some(libc::EEXIST));
    }
    assert_eq!(fs::read_dir(scene.folder()).unwrap().count(), 2);
    assert_eq!(scene.records(), []);
}

#[test]
fn an_analysis_that_does_not_speak_of_the_whole_is_left_out() {
    let scene = Scene::new();
    let mut writer = scene.writer("x");
    writer.write_all(b"mine").unwrap();
    let file = scene.folder().join("x.txt");
    fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b" and theirs").unwrap();
    let record = writer.seal().unwrap();
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

#[test]
fn the_same_call_with_another_kind_of_content_replaces_the_first() {
    let scene = Scene::new();
    for (call, [first, second, third]) in
        [("a", ["[1]", "text", "[3]"]), ("b", ["text", "[2]", "more text"])]
    {
        scene.put(call, first);
        let second = scene.put(call, second);
        assert_eq!(second.generation, 2);
        let third = scene.put(call, third);
        assert_eq!(third.generation, 3);
        assert_eq!(scene.elsewhere(&path_of(&third)), Some(third));
        assert_eq!(scene.elsewhere(&path_of(&second)), None);
    }
    assert_eq!(names(&scene), ["a.json", "b.txt"]);
    assert_eq!(fs::read(scene.folder().join("b.txt")).unwrap(), b"more text");
    assert_eq!(scene.records().len(), 2);
}

#[test]
fn the_first_stays_until_the_second_is_complete() {
    let scene = Scene::new();
    for (first, name) in [("[1]", "x.json"), ("text", "x.txt")] {
        let record = scene.put("x", first);
        let kept = fs::read(scene.folder().join(name)).unwrap();
        let is_kept = || {
            assert_eq!(fs::read(scene.folder().join(name)).unwrap(), kept);
            assert_eq!(scene.elsewhere(&path_of(&record)), Some(record.clone()));
            assert_eq!(scene.records(), slice::from_ref(&record));
        };
        let begin = || {
            let mut writer = scene.writer("x");
            writer.write_all(b"half of the second").unwrap();
            is_kept();
            writer
        };
        drop(begin());
        is_kept();
        let ended = begin().seal_incomplete("no room").unwrap();
        assert_eq!(ended.incomplete(), Some("no room"));
        is_kept();
        // As if the process were killed.
        begin().closed = true;
        is_kept();

        let aside: Vec<String> = names(&scene).into_iter().filter(|other| other != name).collect();
        assert_eq!(aside.len(), 3);
        for left in &aside {
            assert!(left.starts_with(".x.txt.") && is_scratch(left.as_ref()), "{left}");
            let left = scene.folder().join(left);
            assert_eq!(fs::read(&left).unwrap(), b"half of the second");
            fs::remove_file(left).unwrap();
        }
    }
}

#[test]
fn what_a_crash_left_under_the_other_name_gives_way_to_the_next() {
    let scene = Scene::new();
    let first = scene.put("x", "[1]");
    let provenance = Provenance { call: Some("x".into()), ..Provenance::default() };
    // Renamed, and neither recorded nor the other removed.
    let file = fs::File::create(scene.folder().join("x.txt")).unwrap();
    attributes::set_provenance(&file, &provenance).unwrap();
    drop(file);
    assert_eq!(scene.put("x", "third").generation, 2);
    assert_eq!(names(&scene), ["x.txt"]);
    // Recorded, and the other not removed.
    let file = fs::File::create(scene.folder().join("x.json")).unwrap();
    attributes::set_provenance(&file, &provenance).unwrap();
    drop(file);
    assert_eq!(scene.put("x", "fourth").generation, 3);
    assert_eq!(names(&scene), ["x.txt"]);
    assert_eq!(scene.elsewhere(&path_of(&first)), None);
}

#[test]
fn a_file_that_is_no_output_of_the_call_stays() {
    let scene = Scene::new();
    fs::write(scene.folder().join("x.json"), "somebody's").unwrap();
    assert_eq!(scene.put("x", "text").generation, 1);
    assert_eq!(names(&scene), ["x.json", "x.txt"]);
    assert_eq!(fs::read(scene.folder().join("x.json")).unwrap(), b"somebody's");
    assert_eq!(scene.put("x", "[1]").generation, 2);
    assert_eq!(names(&scene), ["x.json"]);
}

/// Begins an output of `call` with half of its content.
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
    let record = writer.seal().unwrap();
    // It keeps the name that it had.
    assert_eq!(record.path, "artifacts/tool/x.txt");
    assert_eq!(scene.elsewhere(&path_of(&record)), Some(record));
    assert_eq!(fs::read(scene.folder().join("x.txt")).unwrap(), b"[1,2]");
    assert_eq!(fs::read(&other).unwrap(), b"somebody's");
    assert_eq!(names(&scene), ["x.json", "x.txt"]);
}

#[test]
fn what_is_written_meanwhile_stays() {
    let scene = Scene::new();
    scene.put("x", "[0]");
    let path = scene.folder().join("x.json");
    for replaced in [false, true] {
        let mut writer = half(&scene, "x");
        // Somebody opens the earlier one, or puts another file in its place.
        let open = if replaced {
            let other = scene.folder().join(".other.tmp");
            fs::write(&other, "somebody's").unwrap();
            fs::rename(&other, &path).unwrap();
            None
        } else {
            Some(fs::OpenOptions::new().append(true).open(&path).unwrap())
        };
        let before = fs::read(&path).unwrap();
        writer.write_all(b"2]").unwrap();
        let Err(StoreError::Taken { path: taken, kept }) = writer.seal() else {
            panic!("it was replaced: {replaced}");
        };
        drop(open);
        assert_eq!((taken, fs::read(&path).unwrap()), (path.clone(), before));
        assert_eq!(fs::read(&kept).unwrap(), b"[1,2]");
        fs::remove_file(kept).unwrap();
    }
}

#[test]
fn of_two_outputs_of_a_call_at_once_the_last_to_be_complete_stays() {
    let scene = Scene::new();
    scene.put("x", "[0]");
    let (mut first, mut second) = (half(&scene, "x"), half(&scene, "x"));
    first.write_all(b"1]").unwrap();
    second.write_all(b"2]").unwrap();
    assert_eq!(first.seal().unwrap().generation, 2);
    assert_eq!(second.seal().unwrap().generation, 3);
    assert_eq!(fs::read(scene.folder().join("x.json")).unwrap(), b"[1,2]");
    assert_eq!(names(&scene), ["x.json"]);
}

#[test]
fn what_is_written_under_the_other_name_meanwhile_stays() {
    let scene = Scene::new();
    scene.put("x", "text");
    let mut writer = half(&scene, "x");
    let path = scene.folder().join("x.txt");
    let mut open = fs::OpenOptions::new().append(true).open(&path).unwrap();
    writer.write_all(b"2]").unwrap();
    assert_eq!(writer.seal().unwrap().path, "artifacts/tool/x.json");
    open.write_all(b" and more").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"text and more");
}
