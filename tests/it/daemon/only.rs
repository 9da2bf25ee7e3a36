//! A mount of a single conversation.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use crate::support::{Mode, TestMount, TestStore, eventually, listing, log};

/// A store with the conversations `c7` and `c8`, and a mount of the former alone.
fn alone(mode: Mode) -> TestMount {
    let store = Arc::new(TestStore::new());
    store.put("c7", "mine", &log(5000));
    store.put("c8", "secret", b"secret of another\n");
    TestMount::of(&store, mode, &["--only", "c7"])
}

#[test]
fn the_conversation_is_the_root() {
    for mode in Mode::ALL {
        let mount = alone(mode);
        let mut names = listing(mount.path());
        names.sort();
        let expected = ["README.md", "artifacts", "catalog", "history", "manifest.json"];
        assert_eq!(names, expected, "{mode:?}");
        let dir = mount.path().join("artifacts/tool");
        assert_eq!(fs::read(dir.join("mine.txt")).unwrap(), log(5000));
        assert_eq!(fs::read(dir.join("mine")).unwrap(), log(5000));
        let root = mount.path().metadata().unwrap();
        assert_eq!((root.mode() & 0o7777, root.ino()), (0o700, 1));
        assert!(mount.path().join(".ignore").is_file());
        let manifest = fs::read_to_string(mount.path().join("manifest.json")).unwrap();
        assert!(manifest.contains("ctx://c7/artifacts/tool/mine.txt"), "{manifest}");
        let found = fs::read_to_string(mount.path().join(".grep/-m1 INFO")).unwrap();
        assert!(found.starts_with("artifacts/tool/mine.txt:"), "{found}");
        fs::write(mount.path().join("note.txt"), "a file of the conversation").unwrap();
        fs::create_dir(mount.path().join("c8")).unwrap();
        assert_eq!(listing(&mount.path().join("c8")), [""; 0], "a directory like any other");
    }
}

#[test]
fn what_views_print_leads_there() {
    let mount = alone(Mode::Passthrough);
    let at = mount.path().display().to_string();
    let dir = mount.path().join("artifacts/tool");
    let summary = fs::read_to_string(dir.join("mine.txt.summary")).unwrap();
    assert!(summary.contains("ref: ctx://c7/artifacts/tool/mine.txt"), "{summary}");
    let file = summary.lines().find_map(|line| line.strip_prefix("file:   ")).unwrap();
    let file = file.split("    ").next().unwrap();
    assert_eq!(file, format!("{at}/artifacts/tool/mine.txt"));
    assert_eq!(
        fs::read(format!("{file}.tail")).unwrap(),
        fs::read(dir.join("mine.txt.tail")).unwrap()
    );
    let readme = fs::read_to_string(mount.path().join("README.md")).unwrap();
    assert!(readme.contains(&format!("{at}/artifacts/tool/")), "{readme}");
    assert!(!readme.contains("<conversation>") && !readme.contains("/c7/"), "{readme}");
    let cut = fs::read_to_string(mount.path().join(".grep/-C20 INFO")).unwrap();
    let first = cut.lines().next().unwrap();
    assert!(first.starts_with("# ") && first.contains(&format!("{at}/.grep/")), "{first}");
    // The same without the mount, by its path; and what is put names paths that lead there.
    let view = |path: &str| mount.store().ctxfs("view", &[path]).run();
    for name in ["artifacts/tool/mine.txt.summary", "manifest.json", "README.md"] {
        let printed = view(&format!("{at}/{name}"));
        assert_eq!(printed.stdout, fs::read(mount.path().join(name)).unwrap(), "{printed}");
    }
    assert_eq!(view("c7/artifacts/tool/mine.txt.summary").stdout, summary.as_bytes());
    let put = ["--conversation", "c7", "--call", "more", "--always"];
    let said = mount.store().ctxfs("put", &put).stdin(log(10)).text();
    assert!(said.contains(&format!("file:   {at}/artifacts/tool/more.txt")), "{said}");
    let advertised = ["--only", "c7", "--advertise", "/outputs"];
    let other = TestMount::of(mount.store(), Mode::Cached, &advertised);
    let summary = other.path().join("artifacts/tool/mine.txt.summary");
    let summary = fs::read_to_string(summary).unwrap();
    assert!(summary.contains("file:   /outputs/artifacts/tool/mine.txt  "), "{summary}");
}

#[test]
fn nothing_of_another_is_reachable() {
    let mount = alone(Mode::Passthrough);
    let at = mount.path().display().to_string();
    for name in ["c8", "c7", "../c8", "c8/artifacts/tool/secret.txt", "ctx:", "secret"] {
        if name != "../c8" {
            assert!(!mount.path().join(name).exists(), "{name}");
        }
        for name in [name.to_owned(), format!("{name}/artifacts/tool/secret.txt")] {
            let told = mount.store().ctxfs("view", &[&format!("{at}/{name}")]).run();
            assert_eq!((told.code, &*told.stdout), (1, &b""[..]), "{name}");
        }
    }
    let status = fs::read_to_string(mount.path().join(".ctxfs/status.json")).unwrap();
    assert!(!status.contains("c8"), "{status}");
    serde_json::from_str::<serde_json::Value>(&status).unwrap();
    let found = fs::read_to_string(mount.path().join(".grep/secret")).unwrap();
    assert_eq!(found, "");
    let search = fs::read_to_string(mount.path().join("artifacts/.grep/another")).unwrap();
    assert_eq!(search, "");
    // What others do shows nowhere, not even as a time.
    let seen = || {
        let of = |name: &str| {
            let stat = mount.path().join(name).metadata().unwrap();
            (stat.mtime(), stat.mtime_nsec(), stat.ctime_nsec(), stat.nlink())
        };
        ["", ".ctxfs", ".ctxfs/version", "README.md"].map(of)
    };
    let before = seen();
    mount.store().put("c9", "new", b"new\n");
    assert_eq!(seen(), before);
}

#[test]
fn it_is_made_where_it_is_missing_and_several_are_mounted_at_once() {
    let store = Arc::new(TestStore::new());
    let all = TestMount::of(&store, Mode::Passthrough, &[]);
    let alone = ["ann", "bob"].map(|id| TestMount::of(&store, Mode::Cached, &["--only", id]));
    let mut names = listing(all.path());
    names.sort();
    assert_eq!(names, ["README.md", "ann", "bob"]);
    for (mount, id) in alone.iter().zip(["ann", "bob"]) {
        fs::write(mount.path().join("artifacts/tool/x.txt"), id).unwrap();
        let there = all.tool(id).join("x.txt");
        assert_eq!(fs::read_to_string(&there).unwrap(), id);
        fs::rename(&there, there.with_file_name("y.txt")).unwrap();
        assert_eq!(fs::read_to_string(mount.path().join("artifacts/tool/y.txt")).unwrap(), id);
        let meta = || fs::read_to_string(mount.path().join("artifacts/tool/y.txt.meta.json"));
        eventually("it is sealed", || meta().unwrap().contains("digest"));
    }
    let error = fs::remove_dir(alone[0].path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    // Removed by somebody else, it is gone here, and nothing hangs.
    fs::remove_dir_all(all.path().join("ann")).unwrap();
    assert!(fs::read(alone[0].path().join("artifacts/tool/y.txt")).is_err());
    assert!(fs::write(alone[0].path().join("z.txt"), "z").is_err());
    assert_eq!(fs::read_to_string(alone[1].path().join("artifacts/tool/y.txt")).unwrap(), "bob");
}

#[test]
fn a_name_that_cannot_be_is_refused() {
    let store = TestStore::new();
    let dir = store.scratch("mnt");
    for name in ["", "..", "a/b", ".ctxfs"] {
        let told = store.ctxfs("mount", &["--only", name]).arg(&dir).run();
        assert_eq!(told.code, 2, "{name}: {told}");
    }
}
