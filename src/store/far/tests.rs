use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::{BucketBytes, FileMark, RemovalOutcome, Store, attribute, shared};
use ctxfs_core::materialize::Analyzer;

pub(crate) const MODIFIED: i64 = 1_700_000_000_123_456_000;
const ORIGIN: &str = "0000000000000007-000000000001:3";
const FAR: BucketBytes<'_> = BucketBytes { origin: ORIGIN, shortcuts: None };

struct Scene {
    temporary: TempDir,
    conversation: Arc<Conversation>,
}

impl Scene {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
        Self { temporary, conversation }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.temporary.path().join("context/c").join(path)
    }

    fn expected(&self, path: &RelPath, bytes: &[u8]) -> Option<Stat> {
        expected(&self.conversation, path, bytes)
    }

    fn expect(&self, path: &RelPath) -> FarArtifact {
        let stat = self.expected(path, b"one\n").unwrap();
        let far = self.conversation.far(path).unwrap().unwrap();
        assert_eq!(far.stat, stat);
        far
    }
}

/// Records an artifact of another host with the content `bytes`, if the path is free.
pub(crate) fn expected(conversation: &Conversation, path: &RelPath, bytes: &[u8]) -> Option<Stat> {
    let far = Some(Far { origin: ORIGIN.to_owned(), mode: 0o4640, here: false });
    let record = Record { path: path.to_text(), far, ..sealed(bytes) };
    record_far(conversation, &[record]).unwrap().remove(0).unwrap()
}

fn path() -> RelPath {
    RelPath::new("artifacts/tool/deep/x.txt").unwrap()
}

fn sealed(bytes: &[u8]) -> Record {
    let mut analyzer = Analyzer::new();
    analyzer.push(bytes);
    Record {
        generation: 3,
        state: ArtifactState::Sealed,
        size: bytes.len() as u64,
        modified: MODIFIED,
        created: 7,
        analysis: Some(analyzer.finish()),
        ..Record::default()
    }
}

fn file(bytes: &[u8]) -> FarFile {
    let attributes = vec![(OsString::from("user.other"), b"v".to_vec())];
    FarFile { content: Arc::new(bytes.to_vec()), attributes }
}

#[test]
fn what_is_expected_is_known_by_its_record_alone() {
    let scene = Scene::new();
    let far = scene.expect(&path());
    assert!(far.stat.is_far() && far.stat.is_recorded(&far.record));
    assert_eq!((far.stat.size, far.stat.mtime.as_nanos()), (4, MODIFIED));
    assert_eq!(far.stat.mode, libc::S_IFREG | 0o640);
    assert_eq!((far.record.generation, far.record.created), (3, 7));
    let all = scene.conversation.far_artifacts(None).unwrap();
    assert_eq!(all, std::slice::from_ref(&far));
    let below = |base: &str| scene.conversation.far_artifacts(Some(&RelPath::new(base).unwrap()));
    assert_eq!(below("artifacts/tool/deep").unwrap(), [far]);
    assert_eq!(below("artifacts/terminal").unwrap(), []);
    assert_eq!(scene.expected(&path(), b"two\n"), None, "the name is taken");
}

#[test]
fn a_file_hides_what_is_known_of_bytes_elsewhere() {
    let scene = Scene::new();
    scene.expect(&path());
    fs::write(scene.at("artifacts/tool/deep/x.txt"), "mine").unwrap();
    assert_eq!(scene.conversation.far_artifacts(None).unwrap(), []);
    let beside = RelPath::new("artifacts/tool/deep/x.txt/y").unwrap();
    assert_eq!(scene.expected(&beside, b"one\n"), None);
}

#[test]
fn what_comes_here_stays_the_artifact_that_it_is() {
    let scene = Scene::new();
    let far = scene.expect(&path());
    assert!(far.bring_here(&scene.conversation, &file(b"one\n")).unwrap());
    let at = scene.at("artifacts/tool/deep/x.txt");
    assert_eq!(fs::read_to_string(&at).unwrap(), "one\n");
    assert_eq!(fs::metadata(&at).unwrap().permissions().mode() & 0o7777, 0o640);
    let open = fs::File::open(&at).unwrap();
    assert_eq!(attribute(&open, "user.other".as_ref()).unwrap(), Some(b"v".to_vec()));
    let stat = scene.conversation.dir().stat_at(&path()).unwrap();
    let record = scene.conversation.record(&path()).unwrap().unwrap();
    assert!(stat.is_recorded(&record) && stat.may_be_copy());
    let original = stat.original(&record);
    assert_eq!((original.dev, original.ino), (far.stat.dev, far.stat.ino));
    assert_eq!((original.ctime, original.born), (far.stat.ctime, far.stat.born));
    assert_eq!(stat.far_origin(&record), Some(ORIGIN));
}

#[test]
fn wrong_bytes_do_not_come() {
    let scene = Scene::new();
    let far = scene.expect(&path());
    assert!(far.bring_here(&scene.conversation, &file(b"two\n")).is_err());
    assert!(!scene.at("artifacts/tool/deep/x.txt").exists());
    shared::remove_far(&scene.conversation, &path(), ORIGIN, 1).unwrap();
    assert!(!far.bring_here(&scene.conversation, &file(b"one\n")).unwrap(), "it was removed");
    assert!(!scene.at("artifacts/tool/deep/x.txt").exists());
}

#[test]
fn what_came_goes_again_and_is_removed_by_its_origin() {
    let scene = Scene::new();
    let far = scene.expect(&path());
    let bring = |far: &FarArtifact| far.bring_here(&scene.conversation, &file(b"one\n")).unwrap();
    assert!(bring(&far));
    let stat = scene.conversation.dir().stat_at(&path()).unwrap();
    // A process that another test is starting briefly has copies of all descriptors.
    let let_go = || shared::evict(&scene.conversation, &path(), &FileMark::of(&stat), FAR).unwrap();
    while let_go() != RemovalOutcome::Removed {
        std::thread::yield_now();
    }
    let again = scene.conversation.far(&path()).unwrap().unwrap();
    assert_eq!(again.stat, far.stat);
    assert!(bring(&again));
    let remove = || shared::remove_far(&scene.conversation, &path(), ORIGIN, 1).unwrap();
    while remove() != RemovalOutcome::Removed {
        std::thread::yield_now();
    }
    assert!(!scene.at("artifacts/tool/deep").exists() && scene.at("artifacts/tool").exists());
    assert_eq!(scene.conversation.far(&path()).unwrap(), None);
}

#[test]
fn many_are_recorded_at_once_and_those_without_a_place_left_out() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("artifacts/tool/deep")).unwrap();
    fs::write(scene.at("artifacts/tool/deep/x.txt"), "mine").unwrap();
    let paths =
        ["tool/a.txt", "tool/deep/x.txt", "tool/deep/x.txt/y", "terminal/b.log", "tool/c.txt"]
            .map(|path| RelPath::new(format!("artifacts/{path}")).unwrap());
    let record = |(number, path): (usize, &RelPath)| {
        let origin = format!("0000000000000007-000000000001:{number}");
        let far = Some(Far { origin, mode: 0o4640, here: false });
        Record { path: path.to_text(), far, ..sealed(b"one\n") }
    };
    let all: Vec<_> = paths.iter().enumerate().map(record).collect();
    let stats = record_far(&scene.conversation, &all).unwrap();
    let found: Vec<bool> = stats.into_iter().map(|stat| stat.unwrap().is_some()).collect();
    assert_eq!(found, [true, false, false, true, true]);
    let mut far = scene.conversation.far_artifacts(None).unwrap();
    far.sort_by(|one, other| one.path.cmp(&other.path));
    let far: Vec<_> = far.into_iter().map(|far| far.path).collect();
    assert_eq!(far, [paths[3].clone(), paths[0].clone(), paths[4].clone()]);
}

#[test]
fn a_directory_has_its_own() {
    let scene = Scene::new();
    let at = |path: &str| RelPath::new(path).unwrap();
    let below = at("artifacts/tool/deep/deeper/y.txt");
    for path in [&path(), &below] {
        scene.expect(path);
    }
    let found = |dir: &str| {
        let dir = at(dir);
        let found = scene.conversation.far_artifacts(Some(&dir)).unwrap();
        assert_eq!(scene.conversation.has_far(Some(&dir)).unwrap(), !found.is_empty());
        found.into_iter().map(|far| far.path).collect::<Vec<_>>()
    };
    assert_eq!(found("artifacts/tool/deep"), [path()]);
    assert_eq!(found("artifacts/tool/deep/deeper"), std::slice::from_ref(&below));
    assert_eq!(found("artifacts/tool"), []);
    fs::write(scene.at("artifacts/tool/deep/x.txt"), "mine").unwrap();
    assert_eq!(found("artifacts/tool/deep"), [], "a file hides it");
    assert!(scene.conversation.has_far(None).unwrap());
    shared::remove_far(&scene.conversation, &below, ORIGIN, 1).unwrap();
    assert!(!scene.conversation.has_far(None).unwrap());
}
