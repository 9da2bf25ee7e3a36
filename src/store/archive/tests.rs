//! What goes in comes out, and what somebody else made is refused.

use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use tar::EntryType;
use tar::Header;
use tempfile::TempDir;

use super::*;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Said;
use crate::model::State;
use crate::store::ArtifactWriter;
use crate::store::Conversation;
use crate::store::Store;
use crate::store::attributes;

/// A store in a directory of its own.
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

    /// With the conversation `c7`, in which there is something of everything.
    fn filled() -> Self {
        let place = Self::new();
        let conversation = place.store.create_conversation(&id("c7")).unwrap();
        for call in ["9f3k", "second"] {
            let said = Said {
                tool: Some("exec".to_owned()),
                args: Some("{\n  \"command\": \"make\"\n}".to_owned()),
                exit_code: Some(-1),
                ..Said::default()
            };
            put(&conversation, call, said);
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
        conversation.export(&mut archive, &mut |_| {}).unwrap();
        archive
    }

    fn import(&self, archive: &[u8], options: &ImportOptions) -> Result<Imported, ArchiveError> {
        let imported = self.store.import(archive, options);
        assert!(!self.dir.path().join("staging").exists(), "{imported:?}");
        imported
    }

    /// What `archive` is refused for; nothing of it is left.
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
    ImportOptions { id: None, most_bytes: u64::MAX, min_free: 0 }
}

fn put(conversation: &Arc<Conversation>, call: &str, said: Said) -> Record {
    use std::io::Write as _;
    let mut writer =
        ArtifactWriter::create_for_call(conversation, Folder::Tool, call, said).unwrap();
    writer.write_all(b"line of text\n").unwrap();
    writer.seal().unwrap()
}

/// Every file and directory below `root`: path, mode, time, content and attributes.
fn tree(root: &Path) -> Vec<(PathBuf, u32, (i64, i64), Vec<u8>, Vec<String>)> {
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
            let said = format!("{:?}", attributes::said_of(&file).unwrap());
            found.push((name, stat.mode(), (stat.mtime(), stat.mtime_nsec()), content, vec![said]));
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
        let mut records = conversation.records().unwrap();
        records.sort_by(|a, b| a.path.cmp(&b.path));
        records
    };
    let put = |records: Vec<Record>| -> Vec<Record> {
        records.into_iter().filter(|record| record.said.tool.is_some()).collect()
    };
    assert_eq!(put(records(&from)), put(records(&to)));
    // One without a record was made when its file was.
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
    let lines: String = files
        .filter(|(name, _)| !name.ends_with(DIGESTS))
        .map(|(name, content)| format!("{}  {name}\n", blake3::hash(content).to_hex()))
        .collect();
    assert_eq!(digests, lines);
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
    let exported = conversation.export(&mut archive, &mut |_| {}).unwrap();
    assert_eq!((exported.files, exported.incomplete, exported.changed), (7, 1, 0));
    writer.write_all(b", and more").unwrap();
    to.import(&archive, &anything()).unwrap();
    let read = fs::read(to.path("c7").join("artifacts/tool/live.txt")).unwrap();
    assert_eq!(read, b"so far");
    let conversation = to.store.conversation(&id("c7")).unwrap().unwrap();
    let path = RelPath::new("artifacts/tool/live.txt").unwrap();
    let record = conversation.record(&path).unwrap().unwrap();
    assert!(matches!(record.state, State::Incomplete(_)), "{record:?}");
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
    let exported = conversation.export(&mut archive, &mut |_| {}).unwrap();
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
    // Not while somebody imports.
    let staging = staging::Staging::new(place.store.dir(), place.store.root()).unwrap();
    Store::open(place.dir.path()).unwrap();
    staging.conversation().unwrap();
    drop(staging);
    assert!(!place.dir.path().join("staging").exists());
}

// Hostile archives: a real one, changed.

type Members = Vec<(String, Vec<u8>)>;

/// The members of an archive, as they stand in it, without their extended headers.
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

fn header(name: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    header
}

/// An archive of these bytes of tar.
fn packed(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).unwrap()
}

/// The archive of `members`, with digests that are right, and with what `plant` adds before the
/// records.
fn forged(members: &Members, plant: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut plant = Some(plant);
    let mut digests = String::new();
    for (name, content) in members {
        if name.ends_with("manifest.jsonl")
            && let Some(plant) = plant.take()
        {
            plant(&mut tar);
        }
        let is_dir = name.ends_with('/');
        let kind = if is_dir { EntryType::Directory } else { EntryType::Regular };
        let content = if name.ends_with(DIGESTS) { digests.as_bytes() } else { content };
        tar.append(&header(name.as_bytes(), kind, content.len() as u64), content).unwrap();
        if !is_dir {
            digests += &format!("{}  {name}\n", blake3::hash(content).to_hex());
        }
    }
    packed(&tar.into_inner().unwrap())
}

/// The members of a small conversation.
fn small() -> Members {
    let place = Place::new();
    let conversation = place.store.create_conversation(&id("c7")).unwrap();
    put(&conversation, "9f3k", Said::default());
    members(&place.export("c7"))
}

/// What an archive with something planted is refused for.
fn planted(plant: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> String {
    Place::new().refusal(&forged(&small(), plant))
}

#[test]
fn a_forged_archive_that_is_right_is_taken() {
    let place = Place::new();
    place.import(&forged(&small(), |_| {}), &anything()).unwrap();
    assert!(place.path("c7/artifacts/tool/9f3k.txt").exists());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for (name, told) in [
        (&b"/etc/cron.d/x"[..], "outside of the conversation"),
        (b"c7/../c8/x", "cannot be empty"),
        (b"../x", "outside of the conversation"),
        (b"c7//x", "cannot be empty"),
        (b"c7/./x", "cannot be empty"),
        (b"c8/x", "outside of the conversation"),
        (b"c77/x", "outside of the conversation"),
        (b"c7", "outside of the conversation"),
        (b"c7/", "cannot be empty"),
        (b"c7/zz\nx", "control character"),
        (b"c7/zz\x1b[2J", "control character"),
        (b"c7/zz/.ctxfs-x", "reserved"),
        (b"c7/.ctxfs-manifest", "reserved"),
        (b"c7/nowhere/x", "in no directory"),
        (b"c7/artifacts/tool/9f3k.txt", "twice, or too late"),
        (b"c7/artifacts/a", "twice, or too late"),
        (b"c7/artifacts", "twice, or too late"),
        (b"", "outside of the conversation"),
    ] {
        let add = |tar: &mut tar::Builder<Vec<u8>>| {
            tar.append(&header(name, EntryType::Regular, 1), &b"x"[..]).unwrap();
        };
        let refusal = planted(add);
        assert!(refusal.contains(told), "{}: {refusal}", name.escape_ascii());
        assert!(!refusal.contains(['\n', '\x1b']), "{refusal:?}");
    }
    let twice = |tar: &mut tar::Builder<Vec<u8>>| {
        for _ in 0..2 {
            tar.append(&header(b"c7/zz", EntryType::Regular, 0), std::io::empty()).unwrap();
        }
    };
    assert!(planted(twice).contains("twice"));
    let in_file = |tar: &mut tar::Builder<Vec<u8>>| {
        for name in [&b"c7/zz"[..], b"c7/zz/x"] {
            tar.append(&header(name, EntryType::Regular, 0), std::io::empty()).unwrap();
        }
    };
    assert!(planted(in_file).contains("in no directory"));
    let manifest = |tar: &mut tar::Builder<Vec<u8>>| {
        let dir = header(b"c7/manifest.jsonl/", EntryType::Directory, 0);
        tar.append(&dir, std::io::empty()).unwrap();
    };
    assert!(planted(manifest).contains("reserved"));
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [
        EntryType::Link,
        EntryType::Symlink,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Continuous,
        EntryType::GNUSparse,
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XGlobalHeader,
        EntryType::new(b'V'),
    ] {
        let add = |tar: &mut tar::Builder<Vec<u8>>| {
            let mut header = header(b"c7/zz", kind, 0);
            header.set_link_name("/etc/passwd").unwrap();
            header.set_cksum();
            tar.append(&header, std::io::empty()).unwrap();
        };
        let refusal = planted(add);
        assert!(refusal.contains("neither a file nor a directory"), "{kind:?}: {refusal}");
    }
}

#[test]
fn headers_that_ctxfs_does_not_write_are_refused() {
    let extended = |records: &[(&str, &[u8])]| {
        let records = records.to_vec();
        planted(move |tar| {
            tar.append_pax_extensions(records.iter().copied()).unwrap();
            tar.append(&header(b"c7/zz", EntryType::Regular, 0), std::io::empty()).unwrap();
        })
    };
    for (key, value) in [
        ("size", &b"100"[..]),
        ("linkpath", b"/etc/passwd"),
        ("GNU.sparse.major", b"1"),
        ("uid", b"0"),
        ("mtime", b"soon"),
        ("SCHILY.xattr.security.capability", b"x"),
        ("SCHILY.xattr.trusted.x", b"x"),
        ("SCHILY.acl.access", b"x"),
    ] {
        let refusal = extended(&[(key, value)]);
        assert!(refusal.contains("its header is"), "{key}: {refusal}");
    }
    let refusal = extended(&[("path", b"c7/../../x")]);
    assert!(refusal.contains("cannot be empty"), "{refusal}");
    let large = vec![b'x'; MOST_HEADER as usize];
    assert!(extended(&[("SCHILY.xattr.user.x", &large)]).contains("its header is"));
    let two = planted(|tar| {
        for _ in 0..2 {
            tar.append_pax_extensions([("mtime", &b"1"[..])]).unwrap();
        }
    });
    assert!(two.contains("its header is"), "{two}");
    let with_content = planted(|tar| {
        tar.append(&header(b"c7/zz/", EntryType::Directory, 1), &b"x"[..]).unwrap();
    });
    assert!(with_content.contains("its header is"), "{with_content}");
}

#[test]
fn wrong_digests_are_refused() {
    // Of an artifact, then of a file that only the list knows.
    let archive = Place::filled().export("c7");
    let mut tar = zstd::decode_all(&*archive).unwrap();
    let at = tar.windows(13).position(|bytes| bytes == b"line of text\n").unwrap();
    tar[at] = b'L';
    let refusal = Place::new().refusal(&packed(&tar));
    assert!(refusal.contains("the digest in its record"), "{refusal}");
    let mut tar = zstd::decode_all(&*archive).unwrap();
    let at = tar.windows(8).position(|bytes| bytes == b"note\0\0\0\0").unwrap();
    tar[at] = b'N';
    let refusal = Place::new().refusal(&packed(&tar));
    assert!(refusal.contains("x.txt`: its digest is not"), "{refusal}");
    // That in a record, where the list agrees.
    let mut members = small();
    let records =
        &mut members.iter_mut().find(|(name, _)| name.ends_with("manifest.jsonl")).unwrap().1;
    let text = String::from_utf8(std::mem::take(records)).unwrap();
    let digest = blake3::hash(b"line of text\n").to_hex();
    assert!(text.contains(digest.as_str()));
    *records = text.replace(digest.as_str(), &"0".repeat(64)).into_bytes();
    let refusal = Place::new().refusal(&forged(&members, |_| {}));
    assert!(refusal.contains("the digest in its record"), "{refusal}");
}

#[test]
fn records_that_cannot_be_are_refused() {
    let with = |change: &dyn Fn(&str) -> String| {
        let mut members = small();
        let records =
            &mut members.iter_mut().find(|(name, _)| name.ends_with("manifest.jsonl")).unwrap().1;
        *records = change(std::str::from_utf8(records).unwrap()).into_bytes();
        Place::new().refusal(&forged(&members, |_| {}))
    };
    let changes: [&dyn Fn(&str) -> String; 7] = [
        &|text| text.replace("\"path\":\"artifacts", "\"path\":\"../artifacts"),
        &|text| text.replace("\"path\":\"artifacts/tool/9f3k.txt", "\"path\":\"/etc/passwd"),
        &|text| text.replace("\"generation\":1", "\"generation\":18446744073709551615"),
        &|text| text.replace("\"generation\":1", "\"generation\":0"),
        &|text| text.replace("\"state\":\"sealed\"", "\"state\":\"gone\""),
        &|text| text.trim_end().to_owned(),
        &|text| format!("{text}no record\n"),
    ];
    for (number, change) in changes.iter().enumerate() {
        let refusal = with(change);
        assert!(refusal.contains("is no record of a file"), "{number}: {refusal}");
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    let archive = Place::filled().export("c7");
    for length in (0..archive.len()).step_by(97).chain([archive.len() - 1]) {
        Place::new().refusal(&archive[..length]);
    }
    let tar = zstd::decode_all(&*archive).unwrap();
    for length in (0..tar.len() - 1024).step_by(512) {
        Place::new().refusal(&packed(&tar[..length]));
    }
    // Nothing is lost with the zeros at the end.
    Place::new().import(&packed(&tar[..tar.len() - 1024]), &anything()).unwrap();
}

#[test]
fn what_follows_the_end_is_refused() {
    let archive = Place::filled().export("c7");
    let refusal = Place::new().refusal(&[&archive[..], b"x"].concat());
    assert!(refusal.contains("something follows"), "{refusal}");
    let refusal = Place::new().refusal(&[&archive[..], &archive[..]].concat());
    assert!(refusal.contains("something follows"), "{refusal}");
    let mut tar = zstd::decode_all(&*archive).unwrap();
    let end = tar.len();
    tar[end - 1] = 1;
    assert!(Place::new().refusal(&packed(&tar)).contains("something follows"));
    tar[end - 1] = 0;
    tar.extend_from_slice(&[0; 1 << 20]);
    assert!(Place::new().refusal(&packed(&tar)).contains("something follows"));
    let after = forged(&small(), |_| {});
    let mut tar = zstd::decode_all(&*after).unwrap();
    tar.truncate(tar.len() - 1024);
    let mut builder = tar::Builder::new(tar);
    builder.append(&header(b"c7/zz", EntryType::Regular, 0), std::io::empty()).unwrap();
    let refusal = Place::new().refusal(&packed(&builder.into_inner().unwrap()));
    assert!(refusal.contains("twice, or too late"), "{refusal}");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_written() {
    let place = Place::new();
    let claims = forged(&small(), |tar| {
        tar.append(&header(b"c7/zz", EntryType::Regular, 1 << 60), std::io::empty()).unwrap();
    });
    let error = place.import(&claims, &anything()).unwrap_err();
    assert!(matches!(error, ArchiveError::NoRoom { needed, .. } if needed == 1 << 60), "{error}");
    let zeros = 64 << 20;
    let bomb = forged(&small(), |tar| {
        let zeros = std::io::repeat(0).take(zeros);
        tar.append(&header(b"c7/zz", EntryType::Regular, 64 << 20), zeros).unwrap();
    });
    assert!(bomb.len() < 100_000);
    let bounded = ImportOptions { most_bytes: 1 << 20, ..anything() };
    let error = place.import(&bomb, &bounded).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge { most } if most == 1 << 20), "{error}");
    let full = ImportOptions { min_free: u64::MAX, ..anything() };
    let error = place.import(&bomb, &full).unwrap_err();
    assert!(matches!(error, ArchiveError::NoRoom { .. }), "{error}");
    assert!(place.store.conversations().unwrap().is_empty());
}

#[test]
fn what_is_no_archive_is_told() {
    for bytes in [&b""[..], b"text", b"\x28\xb5\x2f\xfd", &packed(b""), &packed(&[7; 4096])] {
        let refusal = Place::new().refusal(bytes);
        let damaged = refusal.contains("cut off or damaged");
        assert!(damaged || refusal.contains("no archive of a conversation"), "{refusal}");
    }
    let mut newer = small();
    newer[0].1 = br#"{"format":2,"conversation":"c7"}"#.to_vec();
    let refusal = Place::new().refusal(&forged(&newer, |_| {}));
    assert!(refusal.contains("has format 2"), "{refusal}");
    newer[0].1 = br#"{"format":1,"conversation":"../c7"}"#.to_vec();
    Place::new().refusal(&forged(&newer, |_| {}));
}
