//! Tests of the store on a real disk.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::{fs, io, thread};

use rustix::fs::{OFlags, RenameFlags};
use tempfile::TempDir;

use super::*;
use ctxfs_core::model::{
    ArtifactState, Component, Content as _, Folder, Provenance, Record, RelPath,
};

fn store() -> (TempDir, Store) {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::open(&temporary.path().join("deep/store")).unwrap();
    (temporary, store)
}

fn id(name: &str) -> Component {
    Component::new(name).unwrap()
}

fn path(path: &str) -> RelPath {
    RelPath::new(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn opening_makes_a_private_store() {
    let (_temporary, store) = store();
    assert_eq!(fs::read_to_string(store.root().join("VERSION")).unwrap(), "1\n");
    assert_eq!(mode(store.root()), 0o700);
    assert_eq!(mode(&store.root().join("context")), 0o700);
    assert_eq!(fs::read_dir(store.root()).unwrap().count(), 2);
    assert_eq!(store.conversations().unwrap(), []);
    assert!(store.space().unwrap().f_blocks > 0);
    Store::open(store.root()).unwrap();
}

#[test]
fn a_newer_store_is_refused() {
    let (_temporary, store) = store();
    fs::write(store.root().join("VERSION"), "2\n").unwrap();
    let error = Store::open(store.root()).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "the store `{}` has format 2, and this ctxfs knows formats up to 1: \
             use the ctxfs that made it, or another store",
            store.root().display()
        )
    );
    assert_eq!(fs::read_to_string(store.root().join("VERSION")).unwrap(), "2\n");
}

#[test]
fn a_version_that_is_no_number_is_refused() {
    let (_temporary, store) = store();
    for text in ["", "0\n", "-1", "one", "1.5\n", "99999999999999999999\n"] {
        fs::write(store.root().join("VERSION"), text).unwrap();
        let error = Store::open(store.root()).unwrap_err();
        assert!(matches!(error, StoreError::NotAStore { .. }), "{text:?}: {error}");
    }
}

#[test]
fn many_may_open_one_store_for_the_first_time_at_once() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("store");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| Store::open(&root).unwrap().create_conversation(&id("c")).unwrap());
        }
    });
    assert_eq!(fs::read_dir(&root).unwrap().count(), 2);
}

#[test]
fn a_conversation_has_its_directories() {
    let (_temporary, store) = store();
    assert!(store.conversation(&id("c7")).unwrap().is_none());
    let conversation = store.create_conversation(&id("c7")).unwrap();
    let root = store.root().join("context/c7");
    for name in ["artifacts/tool", "artifacts/terminal", "history/archive", "catalog/tools"] {
        assert_eq!(mode(&root.join(name)), 0o700, "{name}");
    }
    fs::write(store.root().join("context/stray file"), "").unwrap();
    assert_eq!(store.conversations().unwrap(), [id("c7")]);
    let again = store.create_conversation(&id("c7")).unwrap();
    assert!(Arc::ptr_eq(&conversation, &again));
}

#[test]
fn a_conversation_made_anew_is_another_one() {
    let (_temporary, store) = store();
    let old = store.create_conversation(&id("c7")).unwrap();
    fs::remove_dir_all(store.root().join("context/c7")).unwrap();
    assert!(store.conversation(&id("c7")).unwrap().is_none());
    let new = store.create_conversation(&id("c7")).unwrap();
    assert!(!Arc::ptr_eq(&old, &new));
    let error = old.manifest().append(&[Record::default()]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    assert!(error.path().ends_with("context/c7/manifest.jsonl"));
}

#[test]
fn a_conversation_goes_when_it_is_empty() {
    let (_temporary, store) = store();
    let conversation = store.create_conversation(&id("c7")).unwrap();
    conversation.manifest().append(&[Record::default()]).unwrap();
    let file = store.root().join("context/c7/artifacts/tool/x.txt");
    fs::write(&file, "x").unwrap();
    let error = store.remove_conversation(&id("c7")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTEMPTY));
    assert!(store.root().join("context/c7/manifest.jsonl").exists());
    assert!(store.root().join("context/c7/catalog/tools").exists());
    fs::remove_file(file).unwrap();
    store.remove_conversation(&id("c7")).unwrap();
    assert_eq!(store.conversations().unwrap(), []);
}

#[test]
fn links_out_of_the_store_are_not_followed() {
    let (temporary, store) = store();
    let outside = temporary.path().join("outside");
    fs::create_dir_all(outside.join("tool")).unwrap();
    fs::write(outside.join("tool/secret.txt"), "secret").unwrap();
    symlink(&outside, store.root().join("context/linked")).unwrap();
    assert!(store.conversation(&id("linked")).is_err());
    assert!(store.create_conversation(&id("linked")).is_err());
    assert_eq!(store.conversations().unwrap(), []);

    let conversation = store.create_conversation(&id("c")).unwrap();
    let (dir, root) = (conversation.dir(), store.root().join("context/c"));
    symlink(outside.join("tool/secret.txt"), root.join("link")).unwrap();
    fs::remove_dir_all(root.join("artifacts")).unwrap();
    symlink(&outside, root.join("artifacts")).unwrap();
    let link = std::ffi::OsStr::new("link");
    assert!(dir.open_file(link, OFlags::RDONLY).is_err());
    assert!(dir.set_len(link, 0).is_err());
    assert!(dir.chmod(link, 0o777).is_err());
    assert_eq!(dir.stat(link).unwrap().kind(), FileType::Other);
    assert!(dir.open_file_at(&path("artifacts/tool/secret.txt"), OFlags::RDONLY).is_err());
    assert!(Artifact::open(dir, &path("link")).is_err());
    assert!(
        ArtifactWriter::create(&conversation, Folder::Tool, &id("x.txt"), Provenance::default())
            .is_err()
    );
    assert_eq!(fs::read_dir(outside.join("tool")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("tool/secret.txt")).unwrap(), "secret");
}

#[test]
fn a_manifest_that_is_a_link_is_neither_read_nor_written() {
    let (temporary, store) = store();
    let outside = temporary.path().join("outside.jsonl");
    fs::write(&outside, "").unwrap();
    let conversation = store.create_conversation(&id("c")).unwrap();
    symlink(&outside, store.root().join("context/c/manifest.jsonl")).unwrap();
    assert!(conversation.manifest().append(&[Record::default()]).is_err());
    assert!(conversation.record(&path("a")).is_err());
    assert_eq!(fs::read(&outside).unwrap(), b"");
}

#[test]
fn names_are_single_components() {
    let (_temporary, store) = store();
    store.create_conversation(&id("c")).unwrap();
    let context = store.context();
    for name in ["", ".", "..", "c/..", "../VERSION", "c/manifest.jsonl", "/etc/passwd", "a\0b"] {
        let name = std::ffi::OsStr::new(name);
        assert_eq!(context.stat(name).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{name:?}");
        assert!(context.open_file(name, OFlags::RDONLY).is_err());
        assert!(context.open_dir(name).is_err());
        assert!(context.create_file(name, OFlags::WRONLY, 0o600).is_err());
        assert!(context.mkdir(name, 0o700).is_err());
        assert!(context.unlink(name).is_err());
        assert!(context.rmdir(name).is_err());
        assert!(context.rename(name, context, "x".as_ref(), RenameFlags::empty()).is_err());
        assert!(context.rename("c".as_ref(), context, name, RenameFlags::empty()).is_err());
    }
    let long = "x".repeat(256);
    assert_eq!(
        context.mkdir(long.as_ref(), 0o700).unwrap_err().raw_os_error(),
        Some(libc::ENAMETOOLONG)
    );
}

#[test]
fn a_directory_does_what_directories_do() {
    let (_temporary, store) = store();
    let dir = store.context();
    let (a, b) = (std::ffi::OsStr::new("a"), std::ffi::OsStr::new("b"));
    assert!(dir.open_file(a, OFlags::RDWR | OFlags::CREATE).is_err());
    drop(dir.create_file(a, OFlags::WRONLY | OFlags::EXCL, 0o640).unwrap());
    dir.set_len(a, 5000).unwrap();
    dir.chmod(a, 0o000).unwrap();
    dir.chmod(a, 0o444).unwrap();
    let time = rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 7 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    dir.utimens(a, &times).unwrap();
    let stat = dir.stat(a).unwrap();
    assert_eq!((stat.size, stat.mode & 0o7777, stat.kind()), (5000, 0o444, FileType::File));
    assert_eq!(stat.mtime.as_nanos(), 1_000_000_000_000_007);
    let metadata = fs::metadata(store.root().join("context/a")).unwrap();
    assert_eq!((stat.ino, stat.dev), (metadata.ino(), metadata.dev()));
    dir.chown(a, Some(metadata.uid()), None).unwrap();
    dir.mkdir(b, 0o700).unwrap();
    let error = dir.rename(a, dir, b, RenameFlags::NOREPLACE).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    dir.rename(a, &dir.open_dir(b).unwrap(), a, RenameFlags::empty()).unwrap();
    let entry =
        DirEntry { name: b.into(), kind: FileType::Directory, ino: dir.stat(b).unwrap().ino };
    assert_eq!(dir.entries().unwrap(), [entry]);
    assert_eq!(
        dir.open_dir_at(&path("b")).unwrap().stat_self().unwrap().kind(),
        FileType::Directory
    );
    dir.open_dir(b).unwrap().unlink(a).unwrap();
    dir.rmdir(b).unwrap();
    dir.sync().unwrap();
}

#[test]
fn a_file_without_a_record_gets_one_from_the_disk() {
    let (_temporary, store) = store();
    let conversation = store.create_conversation(&id("c")).unwrap();
    let file = store.root().join("context/c/artifacts/tool/x.txt");
    fs::write(&file, "hello").unwrap();
    let provenance =
        Provenance { tool: Some("exec".into()), exit_code: Some(-3), ..Provenance::default() };
    set_provenance(&fs::File::open(&file).unwrap(), &provenance).unwrap();
    let path = path("artifacts/tool/x.txt");
    let stat = stat_file(fs::File::open(&file).unwrap()).unwrap();
    let record = conversation.record_for(&path, &stat).unwrap();
    assert_eq!((record.generation, record.size, &record.state), (1, 5, &ArtifactState::Sealed));
    assert_eq!(record.provenance, provenance);
    assert_eq!(record.modified, stat.mtime.as_nanos());
    let known = Record { generation: 7, ..record };
    conversation.manifest().append(std::slice::from_ref(&known)).unwrap();
    assert_eq!(conversation.record_for(&path, &stat).unwrap(), known);
}

#[test]
fn an_artifact_is_as_long_as_when_it_was_opened() {
    let (_temporary, store) = store();
    let conversation = store.create_conversation(&id("c")).unwrap();
    let file = store.root().join("context/c/artifacts/tool/x.txt");
    fs::write(&file, "0123456789").unwrap();
    let artifact = Artifact::open(conversation.dir(), &path("artifacts/tool/x.txt")).unwrap();
    fs::write(&file, "0123456789 and more").unwrap();
    assert_eq!(artifact.len(), 10);
    assert_eq!(artifact.bytes(4, 100).unwrap(), b"456789");
    assert_eq!(artifact.bytes(11, 100).unwrap(), b"");
    let mut buffer = [0; 32];
    assert_eq!(artifact.read_at(8, &mut buffer).unwrap(), 2);
    fs::write(&file, "01").unwrap();
    assert_eq!(artifact.read_at(0, &mut buffer).unwrap(), 2);
}
