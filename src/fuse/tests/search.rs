//! Searches of a directory: `.grep/` and `.find/`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::fixture::{Fixture, ME, errno};
use crate::{Ino, OpenMode, RenameMode};
use ctxfs_core::model::ContextRef;
use ctxfs_engine::EngineOptions;
use ctxfs_store::disk_clock;
use ctxfs_store::mere_owner::as_mere_owner;

/// Returns the inode number of a search of the conversation after reading its text once.
fn searched(fixture: &Fixture, query: &str) -> Ino {
    let ino = fixture.find(&format!("c1/.grep/{query}")).unwrap().attr.ino;
    fixture.read_ino(ino).unwrap();
    ino
}

/// Returns the text of a search of the conversation, with `artifacts/tool/` removed from its paths.
fn found(fixture: &Fixture, query: &str) -> String {
    let ino = fixture.find(&format!("c1/.grep/{query}")).unwrap().attr.ino;
    String::from_utf8(fixture.read_ino(ino).unwrap()).unwrap().replace("artifacts/tool/", "")
}

#[test]
fn every_artifact_is_searched_newest_first() {
    let fixture = Fixture::new();
    fixture.put("b.txt", b"one\ntwo\n");
    disk_clock::moves_on();
    fixture.put("c.txt", b"zero\none\n");
    disk_clock::moves_on();
    let live = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.write(live, 0, b"one more\n").unwrap();
    for scratch in [".x", "x.tmp", "x~"] {
        fixture.put(scratch, b"one\n");
    }
    let want = "a.txt:1:one more\nc.txt:2:one\nb.txt:1:one\n";
    assert_eq!(found(&fixture, "one"), want);
    assert_eq!(fixture.text(".grep/one"), want);
    assert_eq!(found(&fixture, "-c one"), "a.txt:1\nc.txt:1\nb.txt:1\n");
    assert_eq!(found(&fixture, "nowhere"), "");
    fixture.write(live, 9, b"one last\n").unwrap();
    assert_eq!(found(&fixture, "-m9 one l|zero"), "a.txt:2:one last\nc.txt:1:zero\n");
    fixture.close(live);
    fixture.settle();
    assert_eq!(fixture.text(".grep/-l one"), "a.txt\nc.txt\nb.txt\n");
    let below = fixture.find("c1/artifacts/.grep/two").unwrap().attr.ino;
    assert_eq!(fixture.read_ino(below).unwrap(), b"tool/b.txt:2:two\n");
}

#[test]
fn what_the_manifest_knows_decides_what_is_newest() {
    let fixture = Fixture::new();
    fixture.put("first.txt", b"one\n");
    disk_clock::moves_on();
    fixture.put("second.txt", b"one\n");
    disk_clock::moves_on();
    // Only a recorded artifact is known to be older.
    fixture.settle();
    // The same artifact in a different file.
    fixture.put(".first.txt.new", b"one again\n");
    fixture.rename(".first.txt.new", "first.txt", RenameMode::Replace).unwrap();
    disk_clock::moves_on();
    fs::write(fixture.plain("third.txt"), "one\n").unwrap();
    let want = "third.txt:1:one\nsecond.txt:1:one\nfirst.txt:1:one again\n";
    assert_eq!(found(&fixture, "one"), want);
    fixture.settle();
    assert_eq!(found(&fixture, "one"), want);
}

#[test]
fn it_is_the_same_until_something_changes() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.put("b.txt", b"one\n");
    fixture.settle();
    let folder = fixture.fs.mkdir(fixture.tool, OsStr::new("folder"), 0o700, ME).unwrap().attr.ino;
    let inside = |name: &str, bytes: &[u8]| {
        let mode = OpenMode { flags: libc::O_WRONLY };
        let (_, opened) = fixture.fs.create(folder, OsStr::new(name), 0o600, mode, ME).unwrap();
        fixture.write(opened.fh, 0, bytes).unwrap();
        fixture.close(opened.fh);
    };
    let append = || {
        let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
        fixture.write(fh, 4, b"one\n").unwrap();
        fixture.close(fh);
    };
    let overwrite = || {
        let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
        fixture.write(fh, 0, b"two").unwrap();
        fixture.close(fh);
    };
    let outside = |name: &str, text: &str| fs::write(fixture.plain(name), text).unwrap();
    let changes: [(&dyn Fn(), &str); 10] = [
        (&append, "a.txt:2\nb.txt:1\n"),
        (&overwrite, "a.txt:1\nb.txt:1\n"),
        (&|| fixture.set_len(ino, 4).unwrap(), "b.txt:1\n"),
        (&|| fixture.rename("b.txt", "c.txt", RenameMode::KeepExisting).unwrap(), "c.txt:1\n"),
        (&|| inside("x.txt", b"one\n"), "c.txt:1\nfolder/x.txt:1\n"),
        (&|| outside("folder/x.txt", "one\none\n"), "c.txt:1\nfolder/x.txt:2\n"),
        (&|| outside("c.txt", "one\none\n"), "c.txt:2\nfolder/x.txt:2\n"),
        (&|| outside("d.txt", "one\n"), "c.txt:2\nd.txt:1\nfolder/x.txt:2\n"),
        (&|| fs::remove_file(fixture.plain("folder/x.txt")).unwrap(), "c.txt:2\nd.txt:1\n"),
        (&|| fixture.unlink("c.txt").unwrap(), "d.txt:1\n"),
    ];
    for (number, (change, want)) in changes.into_iter().enumerate() {
        fixture.settle();
        let before = searched(&fixture, "-c one");
        let computed = fixture.fs.engine().counters().views_computed.load(Relaxed);
        assert_eq!(searched(&fixture, "-c one"), before, "change {number}");
        assert_eq!(fixture.fs.engine().counters().views_computed.load(Relaxed), computed);
        change();
        let mut lines: Vec<String> =
            found(&fixture, "-c one").split_inclusive('\n').map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines.concat(), want, "change {number}");
        assert_ne!(searched(&fixture, "-c one"), before, "change {number}");
    }
}

#[test]
fn a_search_that_is_known_keeps_its_bytes() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    fixture.settle();
    let ino = searched(&fixture, "-o [a-z]+");
    let fh = fixture.open(ino, libc::O_RDONLY).unwrap().fh;
    fixture.drop_text(ino);
    assert_eq!(fixture.read_ino(ino).unwrap(), b"artifacts/tool/a.txt:1:one\n");
    // A different text of the same length.
    fs::write(fixture.plain("a.txt"), "two\n").unwrap();
    fixture.drop_text(ino);
    assert_eq!(errno(fixture.open(ino, libc::O_RDONLY)), libc::ESTALE);
    assert_eq!(fixture.read_fh(fh), b"artifacts/tool/a.txt:1:one\n");
    fixture.fs.release(fh).unwrap();
    assert_eq!(found(&fixture, "-o [a-z]+"), "a.txt:1:two\n");
}

#[test]
fn too_many_directories_to_be_watched() {
    let fixture = Fixture::new();
    for number in 0..70 {
        fs::create_dir(fixture.plain(&format!("d{number}"))).unwrap();
        fs::write(fixture.plain(&format!("d{number}/a.txt")), "one\n").unwrap();
    }
    assert_eq!(found(&fixture, "-c one").lines().count(), 70);
    fs::write(fixture.plain("d69/a.txt"), "two\n").unwrap();
    assert_eq!(found(&fixture, "-c one").lines().count(), 69);
    assert_eq!(found(&fixture, "two"), "d69/a.txt:1:two\n");
}

#[test]
fn a_search_that_ran_out_of_time_is_tried_again() {
    let fixture =
        Fixture::with(EngineOptions { view_deadline: Duration::ZERO, ..EngineOptions::default() });
    fixture.put("a.txt", b"one\n");
    fixture.settle();
    let find = || fixture.find("c1/.grep/one").unwrap().attr.ino;
    let first = find();
    let text = String::from_utf8(fixture.read_ino(first).unwrap()).unwrap();
    let want = "# out of time after 0 of 1 artifact; what was found follows. \
                Go on: /ctx/c1/.grep/--from=artifacts%2Ftool%2Fa.txt:1 one\n";
    assert_eq!(text, want);
    assert_ne!(find(), first);
}

#[test]
fn a_renamed_conversation_is_another_place() {
    let fixture = Fixture::new();
    fixture.put("a.txt", &b"one\n".repeat(9000));
    fixture.settle();
    searched(&fixture, "one");
    let (from, to) = (OsStr::new("c1"), OsStr::new("c2"));
    fixture.fs.rename(Ino::ROOT, from, Ino::ROOT, to, RenameMode::Replace).unwrap();
    let ino = fixture.find("c2/.grep/one").unwrap().attr.ino;
    let text = String::from_utf8(fixture.read_ino(ino).unwrap()).unwrap();
    assert!(text.lines().next().unwrap().contains(" Go on: /ctx/c2/.grep/--from="), "{text}");
}

#[test]
fn the_name_is_taken() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    let conversation = fixture.find("c1").unwrap().attr.ino;
    let artifacts = fixture.find("c1/artifacts").unwrap().attr.ino;
    let dirs = [conversation, artifacts, fixture.tool];
    let names = [OsStr::new(".grep"), OsStr::new(".find")];
    for (dir, name) in dirs.into_iter().flat_map(|dir| names.map(|name| (dir, name))) {
        assert_eq!(errno(fixture.fs.mkdir(dir, name, 0o700, ME)), libc::EPERM);
        assert_eq!(errno(fixture.fs.mknod(dir, name, libc::S_IFREG | 0o600, ME)), libc::EPERM);
        let onto =
            fixture.fs.rename(fixture.tool, OsStr::new("a.txt"), dir, name, RenameMode::Replace);
        assert_eq!(errno(onto), libc::EPERM);
        assert_eq!(errno(fixture.fs.unlink(dir, name, 0)), libc::EISDIR);
        fixture.fs.rmdir(dir, name).unwrap();
        let searches = fixture.fs.lookup(dir, name, ME).unwrap().attr.ino;
        assert_eq!(fixture.list(searches), Vec::<String>::new());
        assert_eq!(errno(fixture.fs.lookup(searches, OsStr::new("HEAD"), ME)), libc::ENOENT);
    }
    let mut listed = fixture.list(conversation);
    listed.sort();
    assert_eq!(listed, ["artifacts", "catalog", "history", "manifest.json"]);
    let history = fixture.find("c1/history").unwrap().attr.ino;
    for name in names {
        assert_eq!(errno(fixture.fs.lookup(history, name, ME)), libc::ENOENT);
        fixture.fs.mkdir(history, name, 0o700, ME).unwrap();
    }
}

#[test]
fn words_are_found_in_every_artifact() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"a disk is full\n");
    disk_clock::moves_on();
    fixture.put("b.txt", b"nothing here\n");
    fixture.settle();
    let text = |path: &str| {
        let ino = fixture.find(path).unwrap().attr.ino;
        String::from_utf8(fixture.read_ino(ino).unwrap()).unwrap()
    };
    let want = "# full disks: 2 of 2 words; the only passage in 1 of 2 artifacts follows, lines as \
                in .grep/. All lines: /ctx/c1/.grep/-i full|disk\n\
                artifacts/tool/a.txt:1:a disk is full\n";
    assert_eq!(text("c1/.find/full disks"), want);
    fixture.put("c.txt", b"full disks again\n");
    let text = text("c1/artifacts/.find/full disks");
    assert!(
        text.contains("\ntool/c.txt:1:full disks again\n--\ntool/a.txt:1:a disk is full\n"),
        "{text}"
    );
}

/// The store contains a directory that cannot be entered, and a manifest that is a directory.
#[test]
fn what_cannot_be_read_is_said_and_the_rest_is_searched() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    let (shut, manifest) =
        (fixture.plain("shut"), fixture.dir.path().join("context/c1/manifest.jsonl"));
    let set_mode = |mode| fs::set_permissions(&shut, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(&shut).unwrap();
    fs::write(shut.join("b.txt"), "one\n").unwrap();
    set_mode(0);
    let unread = "Permission denied (os error 13)";
    let read = |path: &str| fixture.read_ino(fixture.find(path).unwrap().attr.ino).unwrap();
    as_mere_owner(|| {
        let (first, rest) = (
            format!("# 1 place could not be read, and not searched: shut ({unread})\n"),
            "a.txt:1:one\n",
        );
        assert_eq!(found(&fixture, "one").replace("artifacts/tool/", ""), first + rest);
        let listed: Vec<ContextRef> = serde_json::from_slice(&read("c1/manifest.json")).unwrap();
        let kinds: Vec<_> = listed.iter().map(|one| (&*one.id, &*one.kind)).collect();
        assert_eq!(
            kinds,
            [
                ("ctx://c1/artifacts/tool/a.txt", "artifact"),
                ("ctx://c1/artifacts/tool/shut", "unread")
            ]
        );
        assert!(listed[1].hint.contains("Permission denied"), "{}", listed[1].hint);
    });
    set_mode(0o700);
    assert_eq!(found(&fixture, "-c one"), "shut/b.txt:1\na.txt:1\n");
    // The sealing thread may write the manifest once more.
    while fs::create_dir(&manifest).is_err() {
        fs::remove_file(&manifest).ok();
    }
    let told = found(&fixture, "one");
    assert!(
        told.starts_with("# 1 place could not be read, and not searched: manifest.jsonl ("),
        "{told}"
    );
    assert_eq!(told.lines().count(), 3, "{told}");
}
