use std::fs;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::Store;
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::Component;

const ORIGIN: &str = "0000000000000007-000000000001:3";
const FAR: BucketBytes<'_> = BucketBytes { origin: ORIGIN, shortcuts: None };

fn sealed() -> (TempDir, Arc<Conversation>, RelPath, Stat) {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::open(temporary.path()).unwrap();
    let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
    let path = RelPath::new("artifacts/tool/x.txt").unwrap();
    fs::write(temporary.path().join("context/c/artifacts/tool/x.txt"), "one\n").unwrap();
    let stat = conversation.dir().stat_at(&path).unwrap();
    let mut analyzer = Analyzer::new();
    analyzer.push(b"one\n");
    let record = Record {
        state: ArtifactState::Sealed,
        file: Some(stat.local_file()),
        analysis: Some(analyzer.finish()),
        ..Conversation::fresh_record(&path, &stat)
    };
    conversation.manifest().append(&[record]).unwrap();
    (temporary, conversation, path, stat)
}

/// Evicts the file. Tries again while a process that another test is starting has copies of all
/// descriptors.
fn evicted_now(conversation: &Conversation, path: &RelPath, stat: &Stat) -> RemovalOutcome {
    let mark = FileMark::of(stat);
    for _ in 0..10_000 {
        match evict(conversation, path, &mark, FAR).unwrap() {
            RemovalOutcome::Kept("it is being written") => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
    panic!("somebody has it open for ever");
}

#[test]
fn what_was_let_go_of_is_the_same_artifact_without_a_file() {
    let (_temporary, conversation, path, stat) = sealed();
    let open = conversation.dir().open_file_at(&path, OFlags::RDONLY).unwrap();
    assert_eq!(evicted_now(&conversation, &path, &stat), RemovalOutcome::Removed);
    assert_eq!(std::io::read_to_string(open).unwrap(), "one\n", "whoever reads it goes on");
    assert!(conversation.dir().stat_at(&path).is_err());
    let far = conversation.far(&path).unwrap().unwrap();
    assert_eq!((far.stat.dev, far.stat.ino, far.stat.born), (stat.dev, stat.ino, stat.born));
    assert_eq!((far.stat.ctime, far.stat.mode), (stat.ctime, stat.mode));
    assert_eq!(far.record.far.unwrap().origin, ORIGIN);
    assert!(
        conversation
            .dir()
            .entries()
            .unwrap()
            .iter()
            .all(|entry| { !entry.name.to_string_lossy().starts_with(".ctxfs-gone") })
    );
}

#[test]
fn what_is_written_or_was_changed_stays() {
    let (temporary, conversation, path, stat) = sealed();
    let at = temporary.path().join("context/c/artifacts/tool/x.txt");
    let writer = fs::OpenOptions::new().append(true).open(&at).unwrap();
    let mark = FileMark::of(&stat);
    let kept = evict(&conversation, &path, &mark, FAR).unwrap();
    assert_eq!(kept, RemovalOutcome::Kept("it is being written"));
    drop(writer);
    fs::write(&at, "other\n").unwrap();
    let kept = evict(&conversation, &path, &mark, FAR).unwrap();
    assert_eq!(kept, RemovalOutcome::Kept("it was changed meanwhile"));
    let changed = conversation.dir().stat_at(&path).unwrap();
    let kept = evicted_now(&conversation, &path, &changed);
    assert_eq!(kept, RemovalOutcome::Kept("its bytes may not be those of its record"));
    assert_eq!(fs::read_to_string(&at).unwrap(), "other\n");
}
