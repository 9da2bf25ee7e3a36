//! Changes of other hosts, applied on a real disk.

mod additions;

use std::fs;

use super::*;
use crate::remote::Limits;
use crate::remote::files::tests::scene::{Scene, origin, path, soon};
use crate::replica::{Entry, FileVersion};
use ctxfs_core::model::{ArtifactState, Far, MAX_DEPTH, Record};

const A: &str = "artifacts/tool/a.txt";
const B: &str = "artifacts/tool/b.txt";
const C: &str = "artifacts/tool/c.txt";
const NOW: i64 = 1_763_755_200_000;

/// Contains no artifact.
struct Nowhere;

impl Fetch for Nowhere {
    fn fetch(&self, _: &Entry) -> Result<Option<FetchedFile<'_>>, RemoteError> {
        Ok(None)
    }
}

fn removal(scene: &Scene, path: &str) -> Step {
    let found = scene.found(path);
    Step::Remove { path: path.to_owned(), was: found.key, found }
}

fn renaming(scene: &Scene, from: &str, to: &str) -> Step {
    let found = scene.found(from);
    let entry = Entry::new(to, &[origin(0)], &found);
    Step::Rename { from: from.to_owned(), was: found.key, found, entry: Box::new(entry) }
}

fn run(scene: &Scene, steps: &[Step]) -> Applied {
    let applied = apply(&scene.conversation, steps.to_vec(), &Nowhere, (NOW, Limits::default()));
    assert!(applied.error.is_none(), "{:?}", applied.error);
    applied
}

/// Runs the steps, and retries while a file seems to be open for writing in another test. All steps
/// must succeed.
fn run_all(scene: &Scene, steps: &[Step]) {
    let mut left = steps.to_vec();
    soon(|| {
        let done = run(scene, &left).done;
        left.retain(|step| !done.contains(step));
        left.is_empty().then_some(())
    });
}

fn why(applied: &Applied) -> Vec<&str> {
    applied.left.iter().map(|left| left.why.as_str()).collect()
}

#[test]
fn what_was_removed_goes_with_its_record() {
    let scene = Scene::new();
    scene.put("a", "one");
    scene.put("b", "two");
    scene.write("deep/x", "three");
    run_all(&scene, &[removal(&scene, A), removal(&scene, "deep/x")]);
    assert_eq!(scene.names(), [B]);
    assert_eq!((scene.record(A), scene.record(B).is_some()), (None, true));
    assert!(scene.has("deep"), "nobody made it for a file from elsewhere");
    assert!(scene.scratch().is_empty());
}

#[test]
fn what_changed_or_is_written_stays() {
    let scene = Scene::new();
    scene.put("a", "one");
    scene.put("b", "two");
    scene.put("c", "three");
    let steps =
        [removal(&scene, A), removal(&scene, B), renaming(&scene, C, "artifacts/tool/d.txt")];
    scene.write(A, "another");
    let _writers = [B, C].map(|path| fs::OpenOptions::new().append(true).open(scene.at(path)));
    let applied = run(&scene, &steps);
    assert_eq!(applied.done, []);
    let written = "it is being written";
    assert_eq!(why(&applied), ["it was changed meanwhile", written, written]);
    assert_eq!(scene.names(), [A, B, C]);
    assert!([A, B, C].iter().all(|path| scene.record(path).is_some()));
}

#[test]
fn what_is_gone_already_is_left() {
    let scene = Scene::new();
    scene.put("a", "one");
    let steps = [removal(&scene, A)];
    fs::remove_file(scene.at(A)).unwrap();
    assert_eq!(why(&run(&scene, &steps)), ["it is gone"]);
}

#[test]
fn a_live_artifact_stays() {
    let scene = Scene::new();
    let writer = scene.writer("a");
    let applied = run(&scene, &[removal(&scene, A), renaming(&scene, A, B)]);
    assert_eq!((applied.done.len(), applied.left.len()), (0, 2));
    drop(writer);
}

#[test]
fn a_trace_of_content_that_was_never_to_change_stays() {
    let scene = Scene::new();
    let record = scene.put("a", "one");
    scene.conversation.manifest().append(&[Record { once: true, ..record }]).unwrap();
    run_all(&scene, &[removal(&scene, A)]);
    assert_eq!(scene.record(A), None);
    let traces: Vec<_> =
        scene.conversation.manifest().traces().unwrap().map(Result::unwrap).collect();
    assert_eq!(traces[0].removed.as_ref().map(|removal| removal.at), Some(NOW));
}

#[test]
fn a_rename_takes_the_record_along_and_the_digest_still_counts() {
    let scene = Scene::new();
    let before = scene.put("a", "one");
    let to = "artifacts/tool/deep/er/b.txt";
    run_all(&scene, &[renaming(&scene, A, to)]);
    assert_eq!((scene.names(), scene.read(to)), (vec![to.to_owned()], "one".to_owned()));
    let after = scene.record(to).unwrap();
    assert_eq!((scene.record(A), &after.provenance), (None, &before.provenance));
    let stat = scene.conversation.dir().stat_at(&path(to)).unwrap();
    assert!(stat.is_recorded(&after), "its bytes are those that were analysed");
    run_all(&scene, &[renaming(&scene, to, C)]);
    assert!(!scene.has("artifacts/tool/deep"), "the directories were made for the file");
}

#[test]
fn names_that_others_leave_are_free() {
    let scene = Scene::new();
    for call in ["a", "b", "c"] {
        scene.put(call, call);
    }
    let last = "artifacts/tool/d.txt";
    run_all(&scene, &[renaming(&scene, A, B), renaming(&scene, B, C), renaming(&scene, C, last)]);
    assert_eq!([B, C, last].map(|path| scene.read(path)), ["a", "b", "c"]);
    assert_eq!(scene.names(), [B, C, last]);
}

#[test]
fn files_that_change_places() {
    let scene = Scene::new();
    for call in ["a", "b", "c", "d", "e"] {
        scene.put(call, call);
    }
    let [d, e] = ["artifacts/tool/d.txt", "artifacts/tool/e.txt"];
    let circle = [renaming(&scene, A, B), renaming(&scene, B, C), renaming(&scene, C, A)];
    let swap = [renaming(&scene, d, e), renaming(&scene, e, d)];
    run_all(&scene, &[circle.as_slice(), swap.as_slice()].concat());
    assert_eq!([A, B, C, d, e].map(|path| scene.read(path)), ["c", "a", "b", "e", "d"]);
    assert_eq!(scene.names(), [A, B, C, d, e]);
    let digest = |path: &str| scene.record(path).unwrap().analysis.unwrap().digest;
    assert_eq!(digest(A), blake3::hash(b"c").to_hex().to_string());
}

#[test]
fn a_circle_with_a_file_that_is_written_stays_as_it_is() {
    let scene = Scene::new();
    scene.put("a", "one");
    scene.put("b", "two");
    for written in [A, B] {
        let steps = [renaming(&scene, A, B), renaming(&scene, B, A)];
        let _writer = fs::OpenOptions::new().append(true).open(scene.at(written)).unwrap();
        assert_eq!(run(&scene, &steps).done, []);
        assert_eq!(scene.names(), [A, B]);
        assert_eq!([A, B].map(|path| scene.read(path)), ["one", "two"]);
    }
}

#[test]
fn a_file_becomes_a_directory_and_a_directory_a_file() {
    let scene = Scene::new();
    scene.write("z", "one");
    run_all(&scene, &[renaming(&scene, "z", "z/below")]);
    assert_eq!(scene.names(), ["z/below"]);
    run_all(&scene, &[renaming(&scene, "z/below", "z")]);
    assert_eq!((scene.names(), scene.read("z")), (vec!["z".to_owned()], "one".to_owned()));
}

#[test]
fn a_name_that_somebody_took_stays_theirs() {
    let scene = Scene::new();
    scene.put("a", "one");
    scene.write(B, "theirs");
    let applied = run(&scene, &[renaming(&scene, A, B)]);
    assert_eq!((applied.done.len(), applied.left.len()), (0, 1));
    assert_eq!([A, B].map(|path| scene.read(path)), ["one", "theirs"]);
}

#[test]
fn artifacts_whose_bytes_are_elsewhere_are_renamed_and_removed_by_their_records() {
    let scene = Scene::new();
    let far = |path: &str, place| Record {
        path: path.to_owned(),
        generation: 1,
        state: ArtifactState::Sealed,
        far: Some(Far { origin: origin(place).to_string(), mode: 0o600, here: false }),
        ..Record::default()
    };
    scene.conversation.manifest().append(&[far(A, 1), far(B, 2)]).unwrap();
    let steps = [renaming(&scene, A, B), renaming(&scene, B, A)];
    run_all(&scene, &steps);
    let keys = [A, B].map(|path| scene.found(path).key);
    assert_eq!(keys, [2, 1].map(|place| FileKey::Remote(origin(place))));
    run_all(&scene, &[removal(&scene, A)]);
    assert_eq!(scene.names(), [B]);
    let stale = removal(&scene, B);
    scene.write(B, "here");
    assert_eq!(run(&scene, &[stale]).done, [], "it is a file now");
}

#[test]
fn paths_that_no_shared_file_has_are_refused() {
    let scene = Scene::new();
    scene.put("a", "one");
    scene.write("history/messages.jsonl", "{}\n");
    let deep = vec!["d"; MAX_DEPTH + 2].join("/");
    let hostile = [
        "../out",
        "/etc/x",
        "a//b",
        "a/../b",
        "",
        "manifest.jsonl",
        "manifest.jsonl/x",
        ".ctxfs-counts.jsonl",
        "a/.ctxfs-x",
        "artifacts",
        "artifacts/tool",
        "artifacts/tool/.x",
        "artifacts/tool/x.tmp",
        "history/messages.jsonl",
        "history/messages.torn",
        "history/messages.jsonl/x",
        "x\\x5c",
        &deep,
        &"x".repeat(256),
    ];
    for path in hostile {
        let found =
            FoundFile { key: scene.found(A).key, version: FileVersion::default(), digest: None };
        let remove = Step::Remove { path: path.to_owned(), was: found.key, found: found.clone() };
        let add = Step::Add { entry: Entry::new(path, &[origin(0)], &found) };
        let applied = run(&scene, &[remove, renaming(&scene, A, path), add]);
        assert_eq!((applied.done.len(), why(&applied)), (0, vec![REFUSED; 3]), "{path}");
    }
    assert_eq!(scene.names(), [A]);
    assert_eq!(scene.read("history/messages.jsonl"), "{}\n");
}
