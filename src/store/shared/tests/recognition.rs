use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use tempfile::TempDir;

use super::*;
use crate::{Store, disk_clock};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Component, Provenance};

/// An output with its record.
struct Scene {
    temporary: TempDir,
    store: Store,
    conversation: Arc<Conversation>,
    record: Record,
}

fn path(name: &str) -> RelPath {
    RelPath::new(format!("artifacts/tool/{name}")).unwrap()
}

impl Scene {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
        let record = Record::default();
        let mut scene = Self { temporary, store, conversation, record };
        fs::write(scene.at("x.txt"), "one\n").unwrap();
        let mut analyzer = Analyzer::new();
        analyzer.push(b"one\n");
        let (path, stat) = (path("x.txt"), scene.stat("x.txt"));
        scene.record = Record {
            state: ArtifactState::Sealed,
            file: Some(stat.local_file()),
            analysis: Some(analyzer.finish()),
            generation: 3,
            ..Conversation::fresh_record(&path, &stat)
        };
        scene.conversation.manifest().append(slice::from_ref(&scene.record)).unwrap();
        // The disk clock moves on, so that later changes are visible in the times.
        disk_clock::moves_on();
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.temporary.path().join("context/c/artifacts/tool").join(name)
    }

    fn stat(&self, name: &str) -> Stat {
        self.conversation.dir().stat_at(&path(name)).unwrap()
    }

    fn is_recorded(&self, name: &str) -> bool {
        let record = self.conversation.record(&path(name)).unwrap();
        record.is_some_and(|record| self.stat(name).is_recorded(&record))
    }

    /// Calls `ensure_recorded` with the record as the bucket has it. Waits until the disk clock has
    /// moved, and until no process that another test is starting has copies of all descriptors.
    fn recorded(&self, name: &str, mark: &FileMark) -> Result<(), &'static str> {
        let known = Record {
            file: None,
            provenance: Provenance::default(),
            generation: 2,
            ..self.record.clone()
        };
        let (path, clock) = (path(name), self.store.clock());
        for _ in 0..1000 {
            match ensure_recorded(&self.conversation, &path, (mark, &known), clock).unwrap() {
                Err("it is being written" | "it was changed a moment ago") => {
                    thread::sleep(Duration::from_millis(5));
                }
                done => return done,
            }
        }
        Err("it is being written")
    }
}

#[test]
fn what_others_renamed_or_gave_attributes_is_recorded_anew() {
    let scene = Scene::new();
    let mark = FileMark::of(&scene.stat("x.txt"));
    assert_eq!(scene.recorded("x.txt", &mark), Ok(()));
    assert_eq!(scene.conversation.record(&path("x.txt")).unwrap(), Some(scene.record.clone()));
    fs::set_permissions(scene.at("x.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(!scene.is_recorded("x.txt"));
    assert_eq!(scene.recorded("x.txt", &mark), Ok(()));
    assert!(scene.is_recorded("x.txt"));
    assert_eq!(scene.conversation.record(&path("x.txt")).unwrap().unwrap().generation, 3);
    fs::rename(scene.at("x.txt"), scene.at("y.txt")).unwrap();
    assert_eq!(scene.recorded("x.txt", &mark), Err("it is gone"));
    assert_eq!(scene.recorded("y.txt", &mark), Ok(()));
    assert!(scene.is_recorded("y.txt"));
    let record = scene.conversation.record(&path("y.txt")).unwrap().unwrap();
    assert_eq!((record.generation, record.analysis), (2, scene.record.analysis.clone()));
}

#[test]
fn other_bytes_are_not_taken_for_those_of_the_record() {
    let scene = Scene::new();
    let stat = scene.stat("x.txt");
    fs::write(scene.at("x.txt"), "two\n").unwrap();
    let file = File::options().write(true).open(scene.at("x.txt")).unwrap();
    let modified = std::time::UNIX_EPOCH + Duration::from_nanos(stat.mtime.as_nanos() as u64);
    file.set_modified(modified).unwrap();
    drop(file);
    let mark = FileMark::of(&stat);
    assert_eq!(scene.recorded("x.txt", &mark), Err(OTHER_BYTES));
    fs::write(scene.at("x.txt"), "three\n").unwrap();
    assert_eq!(scene.recorded("x.txt", &mark), Err(CHANGED));
    assert!(!scene.is_recorded("x.txt"));
}

#[test]
fn what_is_being_written_is_not_recorded() {
    let scene = Scene::new();
    let mark = FileMark::of(&scene.stat("x.txt"));
    let _writer = File::options().append(true).open(scene.at("x.txt")).unwrap();
    fs::set_permissions(scene.at("x.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    thread::sleep(scene.store.clock().settles_in(&scene.stat("x.txt")).unwrap_or_default());
    let known = scene.record.clone();
    let clock = scene.store.clock();
    let asked =
        ensure_recorded(&scene.conversation, &path("x.txt"), (&mark, &known), clock).unwrap();
    assert_eq!(asked, Err("it is being written"));
    assert!(!scene.is_recorded("x.txt"));
}
