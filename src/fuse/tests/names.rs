//! Names: computed files, views beside real files, and invalid names.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::Value;

use super::fixture::{Fixture, ME, errno};
use crate::{FileKind, FsOptions, Ino, OpenMode, RenameMode, SetAttr};
use ctxfs_core::model::{Component, Folder, Provenance, Root};
use ctxfs_engine::EngineOptions;
use ctxfs_store::{ArtifactWriter, Store, disk_clock, set_provenance};

fn read(fixture: &Fixture, path: &str) -> String {
    let ino = fixture.find(path).unwrap().attr.ino;
    String::from_utf8(fixture.read_ino(ino).unwrap()).unwrap()
}

fn json(fixture: &Fixture, path: &str) -> Value {
    serde_json::from_str(&read(fixture, path)).unwrap()
}

#[test]
fn the_root_explains_itself() {
    let fixture = Fixture::with(EngineOptions {
        root: Root::All("/here".to_owned()),
        ..EngineOptions::default()
    });
    let readme = read(&fixture, "README.md");
    assert!(readme.contains("/here/<conversation>") && readme.len() < 4096);
    assert!(read(&fixture, ".ignore").contains("\n/*/artifacts/**/*.summary\n"));
    assert!(read(&fixture, "c1/artifacts/tool/.ignore").contains("\n*.summary\n"));
    assert!(fixture.find("c1/history/.ignore").is_err());
    assert_eq!(fixture.list(Ino::ROOT), ["README.md", "c1"]);
    assert_eq!(read(&fixture, ".ctxfs/version").trim(), env!("CARGO_PKG_VERSION"));
    let status = json(&fixture, ".ctxfs/status.json");
    assert_eq!(status["prefix"], "/here");
    assert_eq!(status["writeOnce"], false);
}

#[test]
fn the_manifest_has_every_artifact_of_now() {
    let fixture = Fixture::new();
    assert_eq!(json(&fixture, "c1/manifest.json"), serde_json::json!([]));
    fixture.put("a.txt", b"one\n");
    fixture.put("x.tmp", b"two\n");
    std::fs::write(fixture.plain("planted.txt"), "three\n").unwrap();
    let listed = json(&fixture, "c1/manifest.json");
    let mut ids: Vec<_> = listed.as_array().unwrap().iter().map(|of| &of["id"]).collect();
    ids.sort_by_key(std::string::ToString::to_string);
    assert_eq!(ids, ["ctx://c1/artifacts/tool/a.txt", "ctx://c1/artifacts/tool/planted.txt"]);
    fixture.unlink("a.txt").unwrap();
    assert_eq!(json(&fixture, "c1/manifest.json").as_array().unwrap().len(), 1);
}

#[test]
fn computed_names_cannot_be_taken_and_cannot_be_removed() {
    let fixture = Fixture::new();
    let conversation = fixture.find("c1").unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY };
    let create = |at, name| fixture.fs.create(at, OsStr::new(name), 0o600, mode, ME);
    assert_eq!(errno(create(conversation, "manifest.json")), libc::EPERM);
    assert_eq!(errno(create(conversation, "manifest.jsonl")), libc::EPERM);
    assert_eq!(errno(create(fixture.tool, ".ignore")), libc::EPERM);
    fixture.fs.unlink(conversation, OsStr::new("manifest.json"), 0).unwrap();
    fixture.fs.unlink(Ino::ROOT, OsStr::new("README.md"), 0).unwrap();
    assert!(fixture.find("c1/manifest.json").is_ok() && fixture.find("README.md").is_ok());
    assert_eq!(
        errno(fixture.fs.unlink(conversation, OsStr::new("manifest.jsonl"), 0)),
        libc::ENOENT
    );
}

/// Only the top directory of a conversation contains files of the store.
#[test]
fn the_stores_names_are_ordinary_ones_elsewhere() {
    let fixture = Fixture::new();
    fixture.put("manifest.jsonl", b"{}\n");
    assert_eq!(fixture.text("manifest.jsonl.tail"), "{}\n");
    assert!(fixture.list(fixture.tool).contains(&"manifest.jsonl".to_owned()));
    fixture.fs.mkdir(Ino::ROOT, OsStr::new("manifest.jsonl"), 0o700, ME).unwrap();
    fixture.find("manifest.jsonl/artifacts/tool").unwrap();
    fixture.fs.rmdir(Ino::ROOT, OsStr::new("manifest.jsonl")).unwrap();
    assert_eq!(fixture.list(fixture.find("c1").unwrap().attr.ino).len(), 4);
}

#[test]
fn while_a_file_exists_its_views_names_are_taken() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    for name in ["a.txt.summary", "a.txt.tail", "a.txt.grep", "a.txt.meta.json"] {
        assert_eq!(errno(fixture.create(name, libc::O_WRONLY)), libc::EPERM, "{name}");
        let made = fixture.fs.mkdir(fixture.tool, OsStr::new(name), 0o700, ME);
        assert_eq!(errno(made), libc::EPERM, "{name}");
    }
    fixture.put("b.txt", b"two\n");
    let onto = fixture.rename("b.txt", "a.txt.tail", RenameMode::Replace);
    assert_eq!(errno(onto), libc::EPERM);
    let away = fixture.rename("a.txt.tail", "c.txt", RenameMode::Replace);
    assert_eq!(errno(away), libc::EPERM);
    fixture.unlink("a.txt.tail").unwrap();
    assert_eq!(fixture.text("a.txt.tail"), "one\n");
    assert_eq!(errno(fixture.unlink("a.txt.grep")), libc::EISDIR);
    fixture.fs.rmdir(fixture.tool, OsStr::new("a.txt.grep")).unwrap();
    assert_eq!(errno(fixture.fs.rmdir(fixture.tool, OsStr::new("a.txt.tail"))), libc::ENOTDIR);
}

#[test]
fn a_real_file_hides_the_view_of_its_name() {
    let fixture = Fixture::new();
    fixture.put("a.txt.tail", b"mine\n");
    fixture.put("a.txt", b"one\n");
    assert_eq!(fixture.text("a.txt.tail"), "mine\n");
    assert_eq!(fixture.text("a.txt.tail.tail"), "mine\n");
    let fh = fixture.open(fixture.ino("a.txt.tail"), libc::O_WRONLY).unwrap().fh;
    fixture.close(fh);
    let names = fixture.list(fixture.tool);
    assert_eq!(names.iter().filter(|name| *name == "a.txt.tail").count(), 1);
    fixture.unlink("a.txt.tail").unwrap();
    assert_eq!(fixture.text("a.txt.tail"), "one\n");
}

#[test]
fn views_are_listed_before_their_artifact_and_only_there() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    let names = fixture.list(fixture.tool);
    assert_eq!(names, ["a.txt.summary", "a.txt.tail", "a.txt.grep", "a.txt"]);
    let grep = fixture.lookup("a.txt.grep").unwrap().attr;
    assert_eq!((grep.kind, grep.perm), (FileKind::Directory, 0o500));
    assert_eq!(fixture.list(grep.ino), Vec::<String>::new());
    assert_eq!(errno(fixture.lookup("a.txt.grep/.gitignore")), libc::ENOENT);
    let unlisted = FsOptions { list_views: false, ..FsOptions::default() };
    let unlisted = Fixture::with_fs(EngineOptions::default(), unlisted);
    unlisted.put("a.txt", b"one\n");
    assert_eq!(unlisted.list(unlisted.tool), ["a.txt"]);
    assert_eq!(unlisted.text("a.txt.tail"), "one\n");
}

#[test]
fn the_shortest_outputs_are_listed_alone() {
    let fixture = Fixture::new();
    for (length, count) in [(0, 1), (2, 1), (3, 4)] {
        fixture.put("a.txt", &vec![b'x'; length]);
        assert_eq!(fixture.list(fixture.tool).len(), count, "{length}");
        assert_eq!(fixture.text("a.txt.tail").len(), length);
        fixture.unlink("a.txt").unwrap();
    }
}

/// A program keeps its own files in a hidden directory. They are no outputs.
#[test]
fn hidden_directories_hold_no_artifacts() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one line\n");
    let git = fixture.fs.mkdir(fixture.tool, OsStr::new(".git"), 0o700, ME).unwrap().attr.ino;
    let objects = fixture.fs.mkdir(git, OsStr::new("objects"), 0o700, ME).unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY };
    for dir in [git, objects] {
        let (_, opened) = fixture.fs.create(dir, OsStr::new("x"), 0o600, mode, ME).unwrap();
        fixture.write(opened.fh, 0, b"one line\n").unwrap();
        fixture.close(opened.fh);
    }
    fixture.settle();
    assert_eq!(fixture.list(git), ["objects", "x"]);
    assert_eq!(fixture.list(objects), ["x"]);
    assert_eq!(json(&fixture, "c1/manifest.json").as_array().unwrap().len(), 1);
    assert_eq!(read(&fixture, "c1/.grep/-l one"), "artifacts/tool/a.txt\n");
    let (from, to) = (OsStr::new(".git"), OsStr::new("shown"));
    fixture.fs.rename(fixture.tool, from, fixture.tool, to, RenameMode::Replace).unwrap();
    assert_eq!(json(&fixture, "c1/manifest.json").as_array().unwrap().len(), 3);
    assert_eq!(fixture.list(objects).len(), 4);
}

/// Programs copy the files that they find, and no disk accepts a longer name.
#[test]
fn names_that_are_too_long_for_a_file_are_not_listed() {
    let fixture = Fixture::new();
    for length in [247, 248, 250, 251, 255] {
        let name = "x".repeat(length);
        fixture.put(&name, b"text\n");
        let fits = [".summary", ".tail", ".grep", ""].map(|suffix| format!("{name}{suffix}"));
        let want: Vec<_> = fits.into_iter().filter(|name| name.len() <= 255).collect();
        assert_eq!(fixture.list(fixture.tool), want);
        assert_eq!(fixture.text(&format!("{name}.tail")), "text\n");
        assert_eq!(fixture.text(&format!("{name}.grep/text")), "1:text\n");
        assert!(fixture.text(&format!("{name}.summary")).contains("text"));
        fixture.unlink(&name).unwrap();
    }
}

#[test]
fn any_file_of_a_conversation_has_views_by_name() {
    let fixture = Fixture::new();
    let history = fixture.find("c1/history").unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY };
    let name = OsStr::new("messages.jsonl");
    let (_, opened) = fixture.fs.create(history, name, 0o600, mode, ME).unwrap();
    fixture.write(opened.fh, 0, b"{\"role\":\"user\"}\n").unwrap();
    fixture.close(opened.fh);
    assert_eq!(read(&fixture, "c1/history/messages.jsonl.tail"), "{\"role\":\"user\"}\n");
    assert!(!fixture.list(history).contains(&"messages.jsonl.tail".to_owned()));
    fixture.settle();
    assert_eq!(json(&fixture, "c1/manifest.json"), serde_json::json!([]));
}

#[test]
fn names_that_cannot_be() {
    let fixture = Fixture::new();
    let long = "x".repeat(256);
    let names = [("", libc::EINVAL), (".", libc::EINVAL), ("..", libc::EINVAL)];
    let more = [("a\nb", libc::EINVAL), (".ctxfs-x", libc::EINVAL), (&*long, libc::ENAMETOOLONG)];
    for (name, error) in names.into_iter().chain(more) {
        assert_eq!(errno(fixture.create(name, libc::O_WRONLY)), error, "{name:?}");
        let made = fixture.fs.mkdir(Ino::ROOT, OsStr::new(name), 0o700, ME);
        assert_eq!(errno(made), error, "{name:?}");
        fixture.put("a", b"");
        assert_eq!(errno(fixture.rename("a", name, RenameMode::Replace)), error, "{name:?}");
        fixture.unlink("a").unwrap();
    }
    assert_eq!(errno(fixture.fs.lookup(fixture.tool, OsStr::new(&long), ME)), libc::ENAMETOOLONG);
    let longest = format!("{}.txt", "x".repeat(251));
    fixture.put(&longest, b"text\n");
    assert_eq!(fixture.text(&format!("{longest}.tail")), "text\n");
    let odd = OsStr::from_bytes(b"\xff\xfe.txt");
    let mode = OpenMode { flags: libc::O_WRONLY };
    let (entry, opened) = fixture.fs.create(fixture.tool, odd, 0o600, mode, ME).unwrap();
    fixture.close(opened.fh);
    assert_eq!(fixture.fs.lookup(fixture.tool, odd, ME).unwrap().attr.ino, entry.attr.ino);
}

#[test]
fn the_root_holds_conversations_only() {
    let fixture = Fixture::new();
    let mode = OpenMode { flags: libc::O_WRONLY };
    let file = fixture.fs.create(Ino::ROOT, OsStr::new("a.txt"), 0o600, mode, ME);
    assert_eq!(errno(file), libc::EPERM);
    fixture.put("a.txt", b"");
    let name = OsStr::new("a.txt");
    let out = fixture.fs.rename(fixture.tool, name, Ino::ROOT, name, RenameMode::Replace);
    assert_eq!(errno(out), libc::EPERM);
    assert_eq!(errno(fixture.fs.rmdir(Ino::ROOT, OsStr::new("c1"))), libc::ENOTEMPTY);
    fixture.unlink("a.txt").unwrap();
    fixture.settle();
    fixture.fs.rmdir(Ino::ROOT, OsStr::new("c1")).unwrap();
    assert_eq!(fixture.list(Ino::ROOT), ["README.md"]);
}

#[test]
fn a_file_has_the_mode_that_was_asked_for_and_the_store_is_closed() {
    let fixture = Fixture::new();
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(path).unwrap()) & 0o7777
    };
    let open = OpenMode { flags: libc::O_WRONLY };
    let name = OsStr::new("a.txt");
    let (entry, opened) = fixture.fs.create(fixture.tool, name, 0o640, open, ME).unwrap();
    fixture.close(opened.fh);
    assert_eq!(mode(&fixture.plain("a.txt")), 0o640);
    let change = SetAttr { mode: Some(0o444), ..SetAttr::default() };
    fixture.fs.setattr(entry.attr.ino, &change, None).unwrap();
    fixture.settle();
    assert_eq!(mode(&fixture.plain("a.txt")), 0o444);
    let store = fixture.dir.path();
    Store::open(&store.join("made")).unwrap();
    for closed in ["made", "context", "context/c1"] {
        assert_eq!(mode(&store.join(closed)), 0o700, "{closed}");
    }
    for own in ["VERSION", "context/c1/manifest.jsonl"] {
        assert_eq!(mode(&store.join(own)), 0o600, "{own}");
    }
}

#[test]
fn links_and_special_files_are_refused() {
    let fixture = Fixture::new();
    for kind in [libc::S_IFIFO, libc::S_IFCHR, libc::S_IFBLK, libc::S_IFSOCK] {
        let made = fixture.fs.mknod(fixture.tool, OsStr::new("x"), kind | 0o600, ME);
        assert_eq!(errno(made), libc::EPERM);
    }
    fixture.fs.mknod(fixture.tool, OsStr::new("x"), libc::S_IFREG | 0o600, ME).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", fixture.plain("planted")).unwrap();
    assert_eq!(errno(fixture.lookup("planted")), libc::ENOENT);
    assert!(!fixture.list(fixture.tool).contains(&"planted".to_owned()));
}

#[test]
fn views_that_are_not_there() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    for name in ["a.txt.nothing", "b.txt.summary", "a.txt.lines/0", "a.txt.lines/x"] {
        assert_eq!(errno(fixture.lookup(name)), libc::ENOENT, "{name}");
    }
    // Whether these lines exist is known only when the view is read.
    let beyond = fixture.ino("a.txt.lines/2");
    assert_eq!(errno(fixture.attr(beyond)), libc::ENOENT);
}

/// Leaves the store as if a `put` of a different file type had stopped right after its rename: a
/// call has two complete outputs, and the newer one has no record.
#[test]
fn the_bare_id_of_a_call_opens_its_newest_output() {
    let fixture = Fixture::new();
    let call = |name: &str, bytes: &str| {
        std::fs::write(fixture.plain(name), bytes).unwrap();
        let file = std::fs::File::open(fixture.plain(name)).unwrap();
        let provenance = Provenance { call: Some("x".into()), ..Provenance::default() };
        set_provenance(&file, &provenance).unwrap();
        disk_clock::moves_on();
    };
    let store = Store::open(fixture.dir.path()).unwrap();
    let conversation = store.conversation(&Component::new("c1").unwrap()).unwrap().unwrap();
    let provenance = Provenance { tool: Some("exec".into()), ..Provenance::default() };
    for (old, new) in [("x.json", "x.txt"), ("x.txt", "x.json")] {
        std::fs::remove_file(fixture.plain(new)).ok();
        let writer =
            ArtifactWriter::create_for_call(&conversation, Folder::Tool, "x", provenance.clone());
        let mut writer = writer.unwrap();
        writer.write_all(if old == "x.json" { b"[1]" } else { b"old" }).unwrap();
        assert!(writer.seal().unwrap().record.path.ends_with(old));
        assert_eq!(fixture.read("x").unwrap(), fixture.read(old).unwrap());
        disk_clock::moves_on();
        call(new, "new");
        assert_eq!(fixture.text("x"), "new");
        assert_eq!(fixture.text("x.tail"), "new");
        std::fs::remove_file(fixture.plain(new)).unwrap();
        assert_eq!(fixture.read("x").unwrap(), fixture.read(old).unwrap());
    }
    call("y.txt", "of another call");
    assert_eq!(errno(fixture.lookup("y")), libc::ENOENT);
}

#[test]
fn names_that_are_no_text_have_records_of_their_own_and_open_as_they_are_printed() {
    let fixture = Fixture::new();
    let names = [&b"a\xfe.txt"[..], b"a\xff.txt", br"b\xff.txt"];
    let printed = [r"a\xfe.txt", r"a\xff.txt", r"b\x5cxff.txt"];
    for (number, name) in names.iter().enumerate() {
        let mode = OpenMode { flags: libc::O_WRONLY };
        let made = fixture.fs.create(fixture.tool, OsStr::from_bytes(name), 0o600, mode, ME);
        let (entry, opened) = made.unwrap();
        let tool = format!("tool{number}");
        let attribute = OsStr::new("user.ctx.tool");
        fixture.fs.setxattr(entry.attr.ino, attribute, tool.as_bytes(), 0).unwrap();
        fixture.close(opened.fh);
    }
    fixture.settle();
    let manifest: Value = serde_json::from_str(&read(&fixture, "c1/manifest.json")).unwrap();
    for (number, name) in printed.iter().enumerate() {
        let tool = format!("tool{number}");
        let path = format!("artifacts/tool/{name}");
        assert_eq!(fixture.meta(name)["path"], path);
        assert_eq!(fixture.meta(name)["tool"], tool);
        let ids = manifest.as_array().unwrap().iter().map(|reference| &reference["id"]);
        assert_eq!(ids.filter(|id| **id == format!("ctx://c1/{path}")).count(), 1);
    }
    assert_eq!(errno(fixture.lookup(r"a\xfd.txt")), libc::ENOENT);
    assert_eq!(errno(fixture.lookup(r"a\x41.txt")), libc::ENOENT);
}

#[test]
fn a_name_that_another_process_took_meanwhile_is_opened_as_it_was_asked() {
    let fixture = Fixture::new();
    std::fs::write(fixture.plain("a.txt"), "of another process\n").unwrap();
    assert_eq!(errno(fixture.create("a.txt", libc::O_WRONLY | libc::O_EXCL)), libc::EEXIST);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.close(fh);
    assert_eq!(fixture.text("a.txt"), "of another process\n");
    let fh = fixture.create("a.txt", libc::O_WRONLY | libc::O_TRUNC).unwrap();
    fixture.write(fh, 0, b"ours\n").unwrap();
    fixture.close(fh);
    assert_eq!(fixture.text("a.txt"), "ours\n");
}

/// A reader that rewinds gets the current names, as rewinddir(3) requires. A reader that continues
/// gets the names from its beginning.
#[test]
fn a_listing_is_of_the_moment_at_which_it_begins() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    let fh = fixture.opendir(fixture.tool).unwrap();
    fixture.put("b.txt", b"two\n");
    let from = |offset| {
        let mut names = Vec::new();
        let take = |listed: crate::ListedName<'_>| {
            names.push((listed.next, listed.name.to_string_lossy().into_owned()));
            false
        };
        fixture.fs.readdir(fixture.tool, fh, offset, take).unwrap();
        names
    };
    let all = from(0);
    assert_eq!(all.len(), 10, "{all:?}");
    fixture.unlink("a.txt").unwrap();
    for (index, (next, _)) in all.iter().enumerate() {
        assert_eq!(from(*next), all[index + 1..]);
    }
    assert_eq!(from(0).len(), 6);
    fixture.fs.releasedir(fh).unwrap();
}

#[test]
fn a_name_that_looks_like_a_view_is_listed_once() {
    let fixture = Fixture::new();
    let real = ["a.txt.tail", "b.txt.grep", "c.summary", "d.txt.lines"];
    for name in real {
        std::fs::write(fixture.plain(name), "mine\n").unwrap();
    }
    std::fs::create_dir(fixture.plain("e.txt.grep")).unwrap();
    std::fs::write(fixture.plain("e.txt.grep/mine"), "mine\n").unwrap();
    for name in ["a.txt", "b.txt", "c", "d.txt", "e.txt"] {
        fixture.put(name, b"one\n");
    }
    let mut names = fixture.list(fixture.tool);
    for name in real {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    let count = names.len();
    names.sort();
    names.dedup();
    // There are ten names on disk. Nine of them are files with three views each, and four of these
    // views are hidden.
    assert_eq!((names.len(), count), (33, 33), "{names:?}");
}
