//! Directories: complete, stable, ordered.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::support::{Mode, TestMount, listing};

#[test]
fn views_stand_before_their_artifact() {
    let mount = TestMount::new(Mode::Passthrough);
    for name in ["b.txt", "a.json"] {
        mount.artifact("c7", name, b"{}\n");
    }
    mount.artifact("c7", ".scratch", b"");
    let names = listing(&mount.tool("c7"));
    for name in ["b.txt", "a.json"] {
        let at = |name: &str| names.iter().position(|found| found == name);
        let artifact = at(name).unwrap();
        for view in ["summary", "tail", "grep"] {
            let view = format!("{name}.{view}");
            assert!(at(&view).is_some_and(|view| view < artifact), "{view}: {names:?}");
        }
    }
    assert_eq!(names.len(), 9, "{names:?}");
}

#[test]
fn every_entry_is_listed_once_and_found() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        for number in 0..3000 {
            fs::write(dir.join(format!("{number}.txt")), b"text").unwrap();
        }
        let names = listing(&dir);
        assert_eq!(names.len(), 12_000);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 12_000);
        for name in names.iter().step_by(97) {
            assert!(dir.join(name).exists(), "{name}");
        }
    }
}

/// Entries are removed while the directory is being listed, as `rm -rf` does.
#[test]
fn a_listing_is_stable_while_entries_go() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    for number in 0..3000 {
        fs::write(dir.join(format!("{number}.txt")), b"text").unwrap();
    }
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name();
        let name = name.to_str().unwrap();
        assert!(seen.insert(name.to_owned()), "{name} twice");
        if Path::new(name).extension().is_some_and(|end| end == "txt") {
            fs::remove_file(dir.join(name)).unwrap();
        }
    }
    assert_eq!(seen.len(), 12_000);
    assert!(listing(&dir).is_empty());
}

#[test]
fn the_kinds_in_a_listing_are_true() {
    let mount = TestMount::new(Mode::Passthrough);
    mount.artifact("c7", "x.txt", b"text");
    for dir in [mount.path().to_owned(), mount.path().join("c7"), mount.tool("c7")] {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let found = fs::symlink_metadata(entry.path()).unwrap();
            assert_eq!(entry.file_type().unwrap(), found.file_type(), "{:?}", entry.path());
        }
    }
}

#[test]
fn what_the_root_shows() {
    let mount = TestMount::new(Mode::Passthrough);
    mount.tool("c7");
    let names: BTreeSet<String> = listing(mount.path()).into_iter().collect();
    assert_eq!(names, ["README.md", "c7"].map(str::to_owned).into());
    for hidden in [".ignore", ".ctxfs", "c7/artifacts/tool/.ignore"] {
        assert!(mount.path().join(hidden).exists(), "{hidden}");
    }
    let readme = fs::metadata(mount.path().join("README.md")).unwrap();
    assert!((1..4096).contains(&readme.len()), "{}", readme.len());
    assert_eq!(readme.mode() & 0o7777, 0o444);
    let names: BTreeSet<String> = listing(&mount.path().join("c7")).into_iter().collect();
    assert_eq!(
        names,
        ["artifacts", "catalog", "history", "manifest.json"].map(str::to_owned).into()
    );
}

#[test]
fn new_names_show_at_once() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        for number in 0..50 {
            let path = dir.join(format!("{number}.txt"));
            assert!(!path.exists());
            fs::write(&path, b"text").unwrap();
            assert!(path.exists());
            assert_eq!(listing(&dir).len(), 4, "{mode:?}");
            fs::remove_file(&path).unwrap();
            assert!(!path.exists());
            assert!(listing(&dir).is_empty(), "{mode:?}");
        }
    }
}
