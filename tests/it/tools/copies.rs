//! Copies of directories and conversations, and what comes of the views in them.

use std::fs;
use std::path::Path;

use crate::support::{Command, Mode, Output, TestMount, TestStore, log, need};

/// `(program, package, script)`: copies the content of `$FROM` to the directory `$TO`.
const COPIERS: &[(&str, &str, &str)] = &[
    ("cp", "coreutils", r#"cp -a "$FROM/." "$TO""#),
    ("cp", "coreutils", r#"cp -r "$FROM/." "$TO""#),
    ("tar", "tar", r#"tar -cf - -C "$FROM" . | tar -xf - -C "$TO""#),
    ("rsync", "rsync", r#"rsync -a "$FROM/" "$TO/""#),
    (
        "python3",
        "python3",
        r#"python3 -c 'import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2], dirs_exist_ok=True)' "$FROM" "$TO""#,
    ),
];

fn run(script: &str, from: &Path, to: &Path) -> Output {
    Command::shell(script, &[]).env("FROM", from).env("TO", to).run()
}

fn names_in_store(store: &TestStore, conversation: &str) -> Vec<String> {
    let dir = store.plain(conversation, "");
    let found = Command::shell("cd \"$1\" && find . -type f -o -type d -empty | sort", &[&dir]);
    found.text().lines().map(str::to_owned).collect()
}

#[test]
fn a_copy_that_is_brought_back_has_live_views() {
    for (number, (program, package, script)) in COPIERS.iter().enumerate() {
        need(program, package);
        let mount = TestMount::new(Mode::Passthrough);
        let dir = mount.tool("c7");
        mount.artifact("c7", "a.txt", &log(3000));
        mount.artifact("c7", "long.txt", &"x".repeat(60_000).into_bytes());
        mount.artifact("c7", "binary.bin", &[0; 10_000]);
        mount.artifact("c7", "coverage.summary", &log(200));
        fs::create_dir(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/b.txt"), log(1000)).unwrap();
        mount.settle();
        let copy = mount.store().scratch(&format!("copy{number}"));
        let copied = run(script, &dir, &copy);
        assert_eq!(copied.code, 0, "{script}: {copied}");
        assert!(copy.join("a.txt.summary").exists(), "{script}");
        let back = mount.tool("back");
        let brought = run(script, &copy, &back);
        // A program that writes an output before its views may not write these, and says so.
        assert!(brought.code >= 0, "{script}: {brought}");
        let names = ["./a.txt", "./binary.bin", "./coverage.summary", "./long.txt", "./sub/b.txt"];
        assert_eq!(names_in_store(mount.store(), "back"), names, "{script}");
        fs::write(back.join("a.txt"), "error: boom\n").unwrap();
        assert_eq!(fs::read(back.join("a.txt.tail")).unwrap(), b"error: boom\n", "{script}");
        let summary = fs::read_to_string(back.join("a.txt.summary")).unwrap();
        assert!(summary.contains("boom") && summary.contains("ref: ctx://back/"), "{summary}");
        assert!(fs::read(back.join("a.txt.grep/boom")).unwrap().starts_with(b"1:error"));
    }
}

#[test]
fn what_only_has_the_name_of_a_view_is_kept() {
    let mount = TestMount::new(Mode::Passthrough);
    let real = [("x.txt.summary", &b"real\n"[..]), ("x.txt.tail", b"real\n"), ("x.txt.tail", b"")];
    for (name, bytes) in real {
        let path = mount.artifact("c7", name, bytes);
        fs::create_dir(path.with_file_name("x.txt.grep")).unwrap();
        mount.artifact("c7", "x.txt", &log(1000));
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
        assert!(path.with_file_name("x.txt.grep/INFO").metadata().is_err());
        fs::remove_dir_all(mount.path().join("c7")).unwrap();
    }
}

#[test]
fn a_conversation_is_copied_as_a_whole() {
    let mount = TestMount::new(Mode::Passthrough);
    let plain = mount.store().scratch("plain");
    for name in ["artifacts/tool/a.txt", "history/archive/b.txt", "catalog/c.txt"] {
        fs::create_dir_all(plain.join(name).parent().unwrap()).unwrap();
        fs::write(plain.join(name), log(200)).unwrap();
    }
    let copies = [
        ("one", r#"cp -a "$FROM" "$TO""#),
        ("two", r#"cp -r "$FROM" "$TO""#),
        (
            "three",
            r#"python3 -c 'import shutil, sys; shutil.copytree(*sys.argv[1:])' "$FROM" "$TO""#,
        ),
        ("four", r#"mv "$FROM" "$TO""#),
    ];
    for (name, script) in copies {
        let to = mount.path().join(name);
        let copied = run(script, &plain, &to);
        assert!(copied.code == 0 && copied.stderr.is_empty(), "{script}: {copied}");
        for name in ["artifacts/tool/a.txt", "history/archive/b.txt", "catalog/c.txt"] {
            assert_eq!(fs::read(to.join(name)).unwrap(), log(200), "{script}: {name}");
        }
        assert!(to.join("artifacts/terminal").is_dir());
    }
    // One of the mount has computed files, too, which cannot be written.
    let copied =
        run(r#"cp -r "$FROM" "$TO""#, &mount.path().join("one"), &mount.path().join("five"));
    let told = String::from_utf8(copied.stderr.clone()).unwrap();
    assert!(told.lines().count() == 1 && told.contains("manifest.json"), "{copied}");
    assert_eq!(fs::read(mount.path().join("five/artifacts/tool/a.txt")).unwrap(), log(200));
    let again = Command::shell("mkdir \"$1\"", &[&mount.path().join("five/artifacts")]).run();
    assert_eq!(again.code, 1, "it was made: {again}");
}

/// A conversation can be used at once, also by the thread that made it.
#[test]
fn a_new_conversation_has_its_directories() {
    let mount = TestMount::new(Mode::Passthrough);
    for number in 0..50 {
        let dir = mount.path().join(format!("d{number}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("artifacts/tool/x.txt"), "text\n").unwrap();
        assert!(dir.join("history/archive").is_dir());
    }
}
