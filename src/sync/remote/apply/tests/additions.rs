//! Files of other hosts, added to the local store.

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::bucket::FormatError;
use ctxfs_core::materialize::Analyzer;
use ctxfs_store::{attribute, user_attributes};

const X: &str = "artifacts/tool/deep/x.txt";
const MODIFIED: i64 = 1_700_000_000_123_456_000;

/// Returns the same text for all artifacts, with `record` as their record.
struct Bag {
    text: &'static str,
    record: Record,
    /// Number of fetches that still fail at their end.
    faults: Cell<usize>,
}

impl Bag {
    fn of(text: &'static str) -> Self {
        let mut analyzer = Analyzer::new();
        analyzer.push(text.as_bytes());
        let record = Record {
            generation: 3,
            state: ArtifactState::Sealed,
            size: text.len() as u64,
            modified: MODIFIED,
            created: 7,
            analysis: Some(analyzer.finish()),
            ..Record::default()
        };
        Self { text, record, faults: Cell::new(0) }
    }
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the line was cut"))
    }
}

impl Fetch for Bag {
    fn fetch(&self, _: &Entry) -> Result<Option<FetchedFile<'_>>, RemoteError> {
        let value = r"\xff".to_owned();
        let attributes = [("user.other", value.clone()), ("trusted.x", value)];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value));
        let content: Box<dyn Read + '_> = match self.faults.get() {
            0 => Box::new(self.text.as_bytes()),
            left => {
                self.faults.set(left - 1);
                Box::new(self.text.as_bytes().chain(Broken))
            }
        };
        let (record, attributes) = (self.record.clone(), BTreeMap::from(attributes));
        Ok(Some(FetchedFile { record, mode: 0o4640, attributes, content }))
    }
}

fn addition(path: &str) -> Step {
    let (key, version) = (FileKey::Remote(origin(0)), FileVersion::default());
    let found = FoundFile { key, version, digest: None };
    Step::Add { entry: Entry::new(path, &[origin(0)], &found) }
}

fn add(scene: &Scene, bag: &dyn Fetch, paths: &[&str]) -> Applied {
    let steps: Vec<_> = paths.iter().map(|path| addition(path)).collect();
    apply(&scene.conversation, steps, bag, (NOW, Limits::default()))
}

/// Checks that no file was added and that nothing is left behind.
fn check_nothing(scene: &Scene, applied: &Applied) {
    assert_eq!(applied.done, []);
    assert!(scene.names().is_empty() && scene.scratch().is_empty(), "{:?}", scene.names());
    assert_eq!(scene.record(X), None);
}

#[test]
fn a_file_comes_with_all_that_is_known_of_it() {
    let mut scene = Scene::new();
    let applied = add(&scene, &Bag::of("one\n"), &[X]);
    let [Step::Add { entry }] = applied.done.as_slice() else { panic!("{applied:?}") };
    assert_eq!(scene.read(X), "one\n");
    let file = fs::File::open(scene.at(X)).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o640);
    assert_eq!(attribute(&file, "user.other".as_ref()).unwrap(), Some(vec![0xff]));
    assert_eq!(user_attributes(&file).unwrap().len(), 1);
    assert_eq!(entry.version, FileVersion { size: 4, modified: MODIFIED });
    let record = scene.record(X).unwrap();
    assert_eq!((record.generation, record.created, &record.state), (3, 7, &ArtifactState::Sealed));
    let stat = scene.conversation.dir().stat_at(&path(X)).unwrap();
    assert!(stat.is_recorded(&record));
    scene.base.follow(applied.done);
    assert_eq!(scene.found(X).digest.as_deref(), Some(""), "the base has it");
    run_all(&scene, &[removal(&scene, X)]);
    assert!(!scene.has("artifacts/tool/deep") && scene.has("artifacts/tool"));
}

#[test]
fn a_file_beside_the_artifacts_comes_without_a_record() {
    let scene = Scene::new();
    assert_eq!(add(&scene, &Bag::of("{}"), &["catalog/index.json"]).done.len(), 1);
    assert_eq!(scene.read("catalog/index.json"), "{}");
    assert_eq!(scene.record("catalog/index.json"), None);
}

#[test]
fn what_its_writer_had_not_closed_is_incomplete() {
    let scene = Scene::new();
    let mut bag = Bag::of("one");
    bag.record.state = ArtifactState::Live;
    assert_eq!(add(&scene, &bag, &[X]).done.len(), 1);
    assert!(scene.record(X).unwrap().incomplete().is_some());
}

#[test]
fn wrong_bytes_are_never_seen() {
    let scene = Scene::new();
    let mut others = Bag::of("two");
    others.text = "one";
    let mut short = Bag::of("one two");
    short.text = "one";
    let mut long = Bag::of("one");
    long.text = "one two";
    let mut without = Bag::of("one");
    without.record.analysis = None;
    for bag in [others, short, long, without] {
        let applied = add(&scene, &bag, &[X]);
        check_nothing(&scene, &applied);
        assert_eq!((applied.left.len(), applied.error.is_none()), (1, true));
    }
}

#[test]
fn a_fetch_that_breaks_off_leaves_nothing_and_others_go_on() {
    let scene = Scene::new();
    let bag = Bag::of("one");
    bag.faults.set(1);
    let applied = add(&scene, &bag, &[X, A]);
    assert_eq!((why(&applied), applied.done.len()), (vec!["the line was cut"], 1));
    assert_eq!(scene.names(), [A]);
    assert!(scene.scratch().is_empty());
}

#[test]
fn a_name_that_is_taken_stays() {
    let scene = Scene::new();
    scene.write(X, "mine");
    scene.write("file", "mine");
    let applied = add(&scene, &Bag::of("one"), &[X, "file/x", "artifacts/tool/deep"]);
    assert_eq!((applied.done.len(), applied.left.len()), (0, 3));
    assert_eq!([X, "file"].map(|path| scene.read(path)), ["mine", "mine"]);
    assert!(scene.scratch().is_empty());
}

#[test]
fn a_full_disk_is_told_once_and_what_fits_comes() {
    struct Large(Bag);

    impl Fetch for Large {
        fn fetch(&self, entry: &Entry) -> Result<Option<FetchedFile<'_>>, RemoteError> {
            let parcel = self.0.fetch(entry)?;
            Ok(parcel.map(|mut parcel| {
                if entry.path != A {
                    parcel.record.size = u64::MAX;
                }
                parcel
            }))
        }
    }

    let scene = Scene::new();
    let applied = add(&scene, &Large(Bag::of("one")), &[X, "y", A]);
    assert_eq!((applied.done.len(), applied.left.len()), (1, 1));
    assert!(applied.left[0].why.contains("are free on the store's disk"), "{:?}", applied.left);
    assert_eq!(scene.names(), [A]);
}

#[test]
fn what_comes_stays_within_the_limits_of_writers() {
    let scene = Scene::new();
    let disk = scene.conversation.dir().space().unwrap();
    let min_free = disk.f_blocks * disk.f_frsize;
    let (full, quota) = (Limits { min_free, quota: None }, Some(1));
    for (limits, why) in [(full, "`min_free`"), (Limits { min_free: 0, quota }, "`quota`")] {
        let steps = [X, A].map(addition).to_vec();
        let applied = apply(&scene.conversation, steps, &Bag::of("one"), (NOW, limits));
        check_nothing(&scene, &applied);
        assert_eq!(applied.left.len(), 1, "it is told once: {:?}", applied.left);
        assert!(applied.left[0].why.contains(why) && applied.no_room.is_some(), "{applied:?}");
    }
    let quota = Some(1 << 20);
    let steps = [X, A].map(addition).to_vec();
    let limits = Limits { min_free: 0, quota };
    assert_eq!(apply(&scene.conversation, steps, &Bag::of("one"), (NOW, limits)).done.len(), 2);
}

#[test]
fn a_fault_of_one_file_leaves_the_others() {
    struct Damaged(Bag);

    impl Fetch for Damaged {
        fn fetch(&self, entry: &Entry) -> Result<Option<FetchedFile<'_>>, RemoteError> {
            if entry.path == A {
                return self.0.fetch(entry);
            }
            let source = FormatError::Damaged { what: "all of it".to_owned() };
            Err(RemoteError::Segment { segment: origin(0).segment, source })
        }
    }

    let scene = Scene::new();
    let applied = add(&scene, &Damaged(Bag::of("one")), &[X, A]);
    assert_eq!((applied.done.len(), applied.left.len()), (1, 1));
    assert!(applied.left[0].why.contains("all of it"));
}

#[test]
fn what_a_crash_cut_off_is_removed_with_the_next() {
    let scene = Scene::new();
    scene.write(".ctxfs-come-0000000000000001", "half");
    assert_eq!(add(&scene, &Bag::of("one"), &[X]).done.len(), 1);
    assert!(scene.scratch().is_empty());
}

#[test]
fn two_names_come_one_below_the_other() {
    let scene = Scene::new();
    let applied = add(&scene, &Bag::of("one"), &["z/below", "z"]);
    assert_eq!((applied.done.len(), applied.left.len()), (1, 1));
}
