//! Scans of this host's files, on a real disk.

pub(crate) mod scene;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use scene::{Scene, TOOL, digest, origin, soon};

use super::{SyncStatus, standing};
use crate::remote::sync::tests::{Host, two_hosts};
use crate::replica::{Changes, FileKey};
use ctxfs_core::model::{ArtifactState, Far, Record};
use ctxfs_store::RemovalOutcome;
use ctxfs_store::mere_owner::as_mere_owner;

/// Waits until the file at `path` counts as complete. Returns its digest.
fn digest_soon(scene: &Scene, path: &str) -> String {
    soon(|| scene.found(path).digest).to_string()
}

#[test]
fn what_an_export_has_is_shared_but_the_message_log_and_scratch() {
    let scene = Scene::new();
    scene.put("a", "one");
    for path in ["catalog/index.json", "history/permissions.jsonl", "deep/er/x.txt"] {
        scene.write(path, path);
    }
    for path in ["history/messages.jsonl", "history/messages.torn", "deep/.x", "x.tmp", ".ctxfs-x"]
    {
        scene.write(path, path);
    }
    symlink("x.txt", scene.at("deep/er/link")).unwrap();
    let names = [
        "artifacts/tool/a.txt",
        "catalog/index.json",
        "deep/er/x.txt",
        "history/permissions.jsonl",
    ];
    assert_eq!(scene.names(), names);
    assert_eq!(digest_soon(&scene, names[0]), digest(b"one"));
    for path in &names[1..] {
        assert_eq!(digest_soon(&scene, path), digest(path.as_bytes()));
    }
    let directories = scene.files().directories;
    assert!(["deep", "deep/er", "artifacts/tool"].iter().all(|dir| directories.contains(*dir)));
}

#[test]
fn what_the_base_has_is_not_read_again_until_it_changes() {
    let mut scene = Scene::new();
    scene.put("a", "one");
    scene.write("catalog/index.json", "1");
    scene.agree();
    assert!(scene.files().found.values().all(|found| found.digest.as_deref() == Some("")));
    assert!(Changes::since(&scene.base, &scene.files().found).is_empty());
    scene.write("catalog/index.json", "22");
    scene.write("artifacts/tool/a.txt", "edited");
    assert_eq!(digest_soon(&scene, "catalog/index.json"), digest(b"22"));
    assert_eq!(digest_soon(&scene, "artifacts/tool/a.txt"), digest(b"edited"));
    let changes = Changes::since(&scene.base, &scene.files().found);
    assert_eq!((changes.puts.len(), changes.removed.len()), (2, 0));
}

#[test]
fn a_renamed_file_is_the_same_and_a_removed_one_is_missing() {
    let mut scene = Scene::new();
    scene.put("a", "one");
    scene.put("b", "two");
    scene.agree();
    fs::rename(scene.at("artifacts/tool/a.txt"), scene.at("artifacts/tool/c.txt")).unwrap();
    fs::remove_file(scene.at("artifacts/tool/b.txt")).unwrap();
    let changes = Changes::since(&scene.base, &scene.files().found);
    assert_eq!(changes.moves.values().collect::<Vec<_>>(), ["artifacts/tool/c.txt"]);
    assert_eq!((changes.puts.len(), changes.removed.len()), (0, 1));
}

#[test]
fn another_name_of_a_file_that_the_base_has_is_new_and_has_a_digest() {
    let mut scene = Scene::new();
    scene.write("x", "one");
    scene.agree();
    fs::hard_link(scene.at("x"), scene.at("y")).unwrap();
    assert_eq!(scene.found("x").digest.as_deref(), Some(""));
    assert_eq!(digest_soon(&scene, "y"), digest(b"one"));
}

#[test]
fn nothing_is_published_while_somebody_writes_it() {
    let scene = Scene::new();
    let mut writer = scene.writer("a");
    writer.write_all(b"half").unwrap();
    assert_eq!(scene.found("artifacts/tool/a.txt").digest, None);
    writer.seal().unwrap();
    assert_eq!(digest_soon(&scene, "artifacts/tool/a.txt"), digest(b"half"));

    scene.write("x", "one");
    let open = fs::OpenOptions::new().append(true).open(scene.at("x")).unwrap();
    assert_eq!(scene.found("x").digest, None);
    drop(open);
    assert_eq!(digest_soon(&scene, "x"), digest(b"one"));
}

#[test]
fn an_artifact_whose_writer_died_is_complete() {
    let scene = Scene::new();
    scene.write("artifacts/tool/a.txt", "half");
    let live = Record {
        path: format!("{TOOL}/a.txt"),
        generation: 1,
        state: ArtifactState::Live,
        ..Record::default()
    };
    scene.conversation.manifest().append(&[live]).unwrap();
    assert_eq!(digest_soon(&scene, "artifacts/tool/a.txt"), digest(b"half"));
    assert!(scene.record("artifacts/tool/a.txt").unwrap().incomplete().is_some());
}

#[test]
fn what_cannot_be_read_counts_neither_as_removed_nor_as_changed() {
    let mut scene = Scene::new();
    scene.write("shut/x", "one");
    scene.write("open/y", "two");
    scene.agree();
    let before = scene.files().found;
    fs::set_permissions(scene.at("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    as_mere_owner(|| {
        let files = scene.files();
        assert_eq!(files.found, before);
        assert_eq!(files.unread.named()[0].path, "shut");
        assert!(files.is_unread("shut/x") && !files.is_unread("shutter"));
        assert!(Changes::since(&scene.base, &files.found).is_empty());
    });
    fs::set_permissions(scene.at("shut"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_waits() {
    let scene = Scene::new();
    scene.write("x", "one");
    fs::set_permissions(scene.at("x"), fs::Permissions::from_mode(0o000)).unwrap();
    as_mere_owner(|| {
        let files = scene.files();
        assert_eq!((files.found["x"].digest.as_ref(), files.unread.count()), (None, 1));
    });
}

#[test]
fn artifacts_whose_bytes_are_elsewhere_are_there() {
    let scene = Scene::new();
    let far = |path: &str, origin: String| Record {
        path: path.to_owned(),
        generation: 1,
        state: ArtifactState::Sealed,
        size: 5,
        far: Some(Far { origin, mode: 0o600, here: false }),
        ..Record::default()
    };
    let records = [
        far("artifacts/tool/a.txt", origin(3).to_string()),
        far("artifacts/tool/b.txt", "nonsense".to_owned()),
        far("manifest.jsonl", origin(4).to_string()),
        far("artifacts/tool/c.txt", origin(5).to_string()),
    ];
    scene.conversation.manifest().append(&records).unwrap();
    scene.write("artifacts/tool/c.txt", "here");
    assert_eq!(scene.names(), ["artifacts/tool/a.txt", "artifacts/tool/c.txt"]);
    let found = scene.found("artifacts/tool/a.txt");
    assert_eq!((found.key, found.version.size), (FileKey::Remote(origin(3)), 5));
    assert!(matches!(scene.found("artifacts/tool/c.txt").key, FileKey::Local { .. }));
}

#[test]
fn without_the_manifest_nothing_counts_as_removed() {
    let mut scene = Scene::new();
    scene.write("x", "one");
    scene.agree();
    let manifest = scene.at("manifest.jsonl");
    // The manifest is either missing or unreadable.
    let _missing = fs::remove_file(&manifest);
    fs::create_dir(&manifest).unwrap();
    fs::remove_file(scene.at("x")).unwrap();
    let files = scene.files();
    assert!(files.is_unread("x") && files.found.contains_key("x"));
}

#[test]
fn what_a_rule_of_keeping_removed_is_no_removal() {
    let mut scene = Scene::new();
    for call in ["kept", "moved", "removed"] {
        scene.put(call, "text");
    }
    scene.agree();
    let at = |name: &str| scene.at(&format!("{TOOL}/{name}.txt"));
    fs::rename(at("moved"), at("elsewhere")).unwrap();
    assert_eq!([scene.sweep("kept"), scene.sweep("elsewhere")], [RemovalOutcome::Removed; 2]);
    fs::remove_file(at("removed")).unwrap();
    let files = scene.files();
    let swept = |name: &str| files.swept.contains(&format!("{TOOL}/{name}.txt"));
    assert_eq!(["kept", "moved", "removed"].map(swept), [true, true, false]);
    let mut base = scene.base.clone();
    base.entries.retain(|entry| !files.swept.contains(&entry.path));
    let changes = Changes::since(&base, &files.found);
    assert_eq!((changes.removed.len(), changes.moves.len()), (1, 0), "{changes:?}");
}

fn standing_of(host: &Host) -> SyncStatus {
    let conversation = Some(&*host.scene.conversation);
    standing(conversation, &host.notes(), host.scene.store.clock()).unwrap()
}

#[test]
fn what_is_not_sent_is_counted() {
    let (one, other) = two_hosts();
    assert!(standing_of(&one).is_sent() && standing_of(&one).looked.is_none());
    one.scene.put("a", "12345\n");
    one.scene.put("b", "1\n");
    let before = soon(|| Some(standing_of(&one)).filter(|standing| standing.live == 0));
    assert_eq!((before.files, before.bytes, before.live), (2, 8, 0));
    assert!(before.oldest.is_some() && !before.is_sent());
    one.push();
    let after = standing_of(&one);
    assert!(after.is_sent() && after.segments == 1 && after.looked.is_some(), "{after:?}");
    other.pull();
    assert!(standing_of(&other).is_sent(), "what came is nothing new");
    let gone = standing(None, &one.notes(), one.scene.store.clock()).unwrap();
    assert_eq!((gone.others, gone.files), (2, 0), "a conversation that is gone was removed");
}
