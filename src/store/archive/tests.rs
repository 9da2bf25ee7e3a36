//! Checks that exporting and importing a conversation preserves it.

mod hostile;

use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::mere_owner::as_mere_owner;
use crate::{ArtifactWriter, Conversation, Store, attributes};
use ctxfs_core::model::{ArtifactState, Folder, Provenance, Record, RelPath};

/// A store in its own temporary directory.
struct Place {
    dir: TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Self { dir, store }
    }

    /// Creates a store with the conversation `c7`, which contains files of all kinds.
    fn filled() -> Self {
        let place = Self::new();
        let conversation = place.store.create_conversation(&id("c7")).unwrap();
        for call in ["9f3k", "second"] {
            let provenance = Provenance {
                tool: Some("exec".to_owned()),
                args: Some("{\n  \"command\": \"make\"\n}".to_owned()),
                exit_code: Some(-1),
                ..Provenance::default()
            };
            put(&conversation, call, provenance);
        }
        let root = place.path("c7");
        fs::write(root.join("history/messages.jsonl"), "{\"role\":\"user\"}\n").unwrap();
        fs::create_dir_all(root.join("notes/deep/er")).unwrap();
        fs::write(root.join("notes/deep/er/x.txt"), "note").unwrap();
        fs::write(root.join("artifacts/tool/.x.tmp"), "scratch").unwrap();
        let long = root.join(format!("artifacts/tool/{}.txt", "x".repeat(200)));
        fs::write(&long, "long name").unwrap();
        fs::set_permissions(&long, fs::Permissions::from_mode(0o640)).unwrap();
        place
    }

    fn path(&self, conversation: &str) -> PathBuf {
        self.dir.path().join("context").join(conversation)
    }

    fn export(&self, conversation: &str) -> Vec<u8> {
        let mut archive = Vec::new();
        let conversation = self.store.conversation(&id(conversation)).unwrap().unwrap();
        export(&conversation, &mut archive, &mut |_| {}).unwrap();
        archive
    }

    fn import(&self, archive: &[u8], options: &ImportOptions) -> Result<Imported, ArchiveError> {
        let imported = self.store.import(archive, options);
        assert!(!self.dir.path().join("staging").exists(), "{imported:?}");
        imported
    }

    /// Returns the reason why `archive` is refused. Checks that nothing of the archive remains in
    /// the store.
    fn refusal(&self, archive: &[u8]) -> String {
        let before = self.store.conversations().unwrap();
        let error = self.import(archive, &anything()).expect_err("it is refused");
        assert_eq!(self.store.conversations().unwrap(), before, "{error}");
        error.to_string()
    }
}

fn id(text: &str) -> Component {
    Component::new(text).unwrap()
}

fn anything() -> ImportOptions {
    let (most_bytes, most_files) = (u64::MAX, u64::MAX);
    ImportOptions { id: None, most_bytes, most_files, min_free: 0, quota: None }
}

fn put(conversation: &Arc<Conversation>, call: &str, provenance: Provenance) -> Record {
    use std::io::Write as _;
    let mut writer =
        ArtifactWriter::create_for_call(conversation, Folder::Tool, call, provenance).unwrap();
    writer.write_all(b"line of text\n").unwrap();
    writer.seal().unwrap().record
}

/// Path, mode, time, content and attributes.
type Seen = (PathBuf, u32, (i64, i64), Vec<u8>, String);

/// Returns all files and directories below `root`.
fn tree(root: &Path) -> Vec<Seen> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let stat = path.metadata().unwrap();
            if name.as_os_str() == "manifest.jsonl" {
                continue;
            }
            let content = if stat.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            let file = File::open(&path).unwrap();
            let provenance = format!("{:?}", attributes::provenance_of(&file).unwrap());
            found.push((name, stat.mode(), (stat.mtime(), stat.mtime_nsec()), content, provenance));
            if stat.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_exported_comes_back_as_it_was() {
    let (from, to) = (Place::filled(), Place::new());
    let archive = from.export("c7");
    let imported = to.import(&archive, &anything()).unwrap();
    assert_eq!((imported.id, imported.files), (id("c7"), 6));
    assert_eq!(tree(&from.path("c7")), tree(&to.path("c7")));
    let records = |place: &Place| {
        let conversation = place.store.conversation(&id("c7")).unwrap().unwrap();
        let mut records: Vec<_> = conversation.records().unwrap().map(Result::unwrap).collect();
        records.sort_by(|a, b| a.path.cmp(&b.path));
        records
    };
    let put = |records: Vec<Record>| -> Vec<Record> {
        let put = records.into_iter().filter(|record| record.provenance.tool.is_some());
        put.map(|record| Record { file: None, ..record }).collect()
    };
    assert_eq!(put(records(&from)), put(records(&to)));
    // In both stores, the records describe the files that exist there.
    for place in [&from, &to] {
        let conversation = place.store.conversation(&id("c7")).unwrap().unwrap();
        let put = records(place).into_iter().find(|record| record.provenance.tool.is_some());
        let path = RelPath::from_text(&put.as_ref().unwrap().path).unwrap();
        assert!(conversation.dir().stat_at(&path).unwrap().is_recorded(&put.unwrap()));
    }
    // The creation time of a file without a record comes from the disk.
    let record = records(&to).into_iter().find(|record| record.path.contains("xxx")).unwrap();
    let path = RelPath::from_text(&record.path).unwrap();
    let conversation = from.store.conversation(&id("c7")).unwrap().unwrap();
    let stat = conversation.dir().stat_at(&path).unwrap();
    assert_eq!(record.created, stat.created().as_millis());
}

#[test]
fn the_same_conversation_makes_the_same_archive() {
    let (from, to) = (Place::filled(), Place::new());
    let archive = from.export("c7");
    assert_eq!(archive, from.export("c7"));
    let as_c8 = ImportOptions { id: Some(id("c8")), ..anything() };
    to.import(&archive, &as_c8).unwrap();
    to.import(&to.export("c8"), &anything()).expect_err("it is there");
    let back = Place::new();
    let as_c7 = ImportOptions { id: Some(id("c7")), ..anything() };
    back.import(&to.export("c8"), &as_c7).unwrap();
    assert_eq!(tree(&from.path("c7")), tree(&back.path("c7")));
    assert_eq!(back.export("c7"), {
        let other = Place::new();
        other.import(&archive, &anything()).unwrap();
        other.export("c7")
    });
}

#[test]
fn tar_and_b3sum_would_understand_it() {
    let archive = Place::filled().export("c7");
    let members = members(&archive);
    let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["c7/.ctxfs-archive", "c7/", "c7/artifacts/"]);
    assert_eq!(names[names.len() - 2..], ["c7/manifest.jsonl", "c7/.ctxfs-digests"]);
    let mut sorted = names[1..names.len() - 2].to_vec();
    sorted.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    assert_eq!(names[1..names.len() - 2], sorted);
    let digests = String::from_utf8(members.last().unwrap().1.clone()).unwrap();
    let files = members.iter().filter(|(name, _)| !name.ends_with('/'));
    let lines: Vec<String> = files
        .filter(|(name, _)| !name.ends_with(DIGESTS))
        .map(|(name, content)| format!("{}  {name}\n", blake3::hash(content).to_hex()))
        .collect();
    assert_eq!(digests, lines.concat());
}

#[test]
fn an_artifact_that_is_written_is_taken_as_far_as_it_is() {
    use std::io::Write as _;
    let (from, to) = (Place::filled(), Place::new());
    let path = from.path("c7").join("artifacts/tool/live.txt");
    let mut writer = File::create(&path).unwrap();
    writer.write_all(b"so far").unwrap();
    let mut archive = Vec::new();
    let conversation = from.store.conversation(&id("c7")).unwrap().unwrap();
    let exported = export(&conversation, &mut archive, &mut |_| {}).unwrap();
    assert_eq!((exported.files, exported.incomplete, exported.changed), (7, 1, 0));
    writer.write_all(b", and more").unwrap();
    to.import(&archive, &anything()).unwrap();
    let read = fs::read(to.path("c7").join("artifacts/tool/live.txt")).unwrap();
    assert_eq!(read, b"so far");
    let conversation = to.store.conversation(&id("c7")).unwrap().unwrap();
    let path = RelPath::new("artifacts/tool/live.txt").unwrap();
    let record = conversation.record(&path).unwrap().unwrap();
    assert!(matches!(record.state, ArtifactState::Incomplete(_)), "{record:?}");
}

#[test]
fn an_export_waits_for_who_is_about_to_close() {
    let place = Place::filled();
    let path = place.path("c7").join("artifacts/tool/closing.txt");
    fs::write(&path, "all of it").unwrap();
    let writer = File::options().append(true).open(path).unwrap();
    let closes = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(writer);
    });
    assert_eq!(exported(&place).1.incomplete, 0);
    closes.join().unwrap();
}

#[test]
fn content_that_is_not_what_its_record_says_is_told() {
    let from = Place::filled();
    let path = from.path("c7").join("artifacts/tool/9f3k.txt");
    let time = path.metadata().unwrap().modified().unwrap();
    fs::write(&path, "LINE OF TEXT\n").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    let conversation = from.store.conversation(&id("c7")).unwrap().unwrap();
    let mut archive = Vec::new();
    let exported = export(&conversation, &mut archive, &mut |_| {}).unwrap();
    assert_eq!(exported.changed, 1);
    Place::new().import(&archive, &anything()).unwrap();
}

#[test]
fn a_conversation_that_is_there_stays() {
    let (from, to) = (Place::filled(), Place::new());
    to.store.create_conversation(&id("c7")).unwrap();
    let archive = from.export("c7");
    assert_eq!(to.refusal(&archive), "there is a conversation `c7` already");
    assert_eq!(fs::read_dir(to.path("c7").join("artifacts/tool")).unwrap().count(), 0);
}

#[test]
fn what_was_left_in_the_middle_is_removed() {
    let place = Place::new();
    let left = place.dir.path().join("staging/0123456789abcdef/conversation/artifacts");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("x.txt"), "left").unwrap();
    assert!(place.store.conversations().unwrap().is_empty());
    Store::open(place.dir.path()).unwrap();
    assert!(!place.dir.path().join("staging").exists());
    // Opening the store does not remove the staging area while an import runs.
    let staging = import::Staging::new(place.store.dir(), place.store.root()).unwrap();
    Store::open(place.dir.path()).unwrap();
    staging.conversation().unwrap();
    drop(staging);
    assert!(!place.dir.path().join("staging").exists());
}

type Members = Vec<(String, Vec<u8>)>;

/// Returns the members of an archive in order, without their extended headers.
fn members(archive: &[u8]) -> Members {
    let mut tar = tar::Archive::new(zstd::Decoder::new(archive).unwrap());
    let entries = tar.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        })
        .collect()
}

/// Exports `c7` with the rights of a user other than root.
fn exported(place: &Place) -> (Vec<u8>, Exported) {
    as_mere_owner(|| {
        let mut archive = Vec::new();
        let conversation = place.store.conversation(&id("c7")).unwrap().unwrap();
        bytes_to_export(&conversation).unwrap();
        let exported = export(&conversation, &mut archive, &mut |_| {}).unwrap();
        (archive, exported)
    })
}

fn places(exported: &Exported) -> Vec<&str> {
    exported.unread.named().iter().map(|place| &*place.path).collect()
}

#[test]
fn what_cannot_be_read_is_left_out_and_said() {
    let place = Place::filled();
    let root = place.path("c7");
    fs::create_dir(root.join("artifacts/tool/shut")).unwrap();
    fs::write(root.join("artifacts/tool/shut/x"), "lost").unwrap();
    fs::write(root.join("notes/secret"), "lost").unwrap();
    std::os::unix::fs::symlink("secret", root.join("notes/link")).unwrap();
    let set_mode = |path: &str, mode| {
        fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("artifacts/tool/shut", 0);
    set_mode("notes/secret", 0);
    let (archive, exported) = exported(&place);
    set_mode("artifacts/tool/shut", 0o700);
    assert_eq!(places(&exported), ["artifacts/tool/shut", "notes/secret"]);
    assert_eq!((exported.unseen, exported.gone), (1, 0));
    let other = Place::new();
    let imported = other.import(&archive, &anything()).unwrap();
    assert_eq!(imported.files, exported.files);
    assert!(other.path("c7").join("notes/deep/er/x.txt").exists());
}

#[test]
fn without_its_manifest_a_conversation_is_exported_and_that_is_said() {
    let place = Place::filled();
    let manifest = place.path("c7").join("manifest.jsonl");
    fs::remove_file(&manifest).unwrap();
    fs::create_dir(&manifest).unwrap();
    let (archive, exported) = exported(&place);
    assert_eq!(places(&exported), ["manifest.jsonl"]);
    let other = Place::new();
    assert_eq!(other.import(&archive, &anything()).unwrap().files, exported.files);
}

#[test]
fn long_paths_are_exported_and_come_back() {
    let place = Place::filled();
    let conversation = place.store.conversation(&id("c7")).unwrap().unwrap();
    let artifacts = conversation.dir().open_dir("artifacts".as_ref()).unwrap();
    let name = "n".repeat(250);
    let dir = artifacts.nest(&name, 20);
    let flags = rustix::fs::OFlags::WRONLY;
    dir.create_file("x".as_ref(), flags, 0o600).unwrap().set_len(1000).unwrap();
    let (archive, exported) = exported(&place);
    assert_eq!(exported.unread.count(), 0);
    let other = Place::new();
    assert_eq!(other.import(&archive, &anything()).unwrap().files, exported.files);
    let path = RelPath::new(format!("artifacts/{}/x", vec![name; 20].join("/"))).unwrap();
    let restored = other.store.conversation(&id("c7")).unwrap().unwrap();
    assert_eq!(restored.dir().stat_at(&path).unwrap().size, 1000);
}
