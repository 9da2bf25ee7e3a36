//! Scratch files, and files outside `artifacts/`.

use std::fs;

use crate::support::{Mode, TestMount, listing};

#[test]
fn scratch_files_have_no_views() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    for name in [".x", "x~", "x.tmp", "x.part", "x.swp", "x.0123abcd.tmp", ".x.txt.Xy12"] {
        fs::write(dir.join(name), b"scratch\n").unwrap();
        assert_eq!(fs::read(dir.join(name)).unwrap(), b"scratch\n");
        for view in ["summary", "tail", "grep/x", "meta.json", "lines/1-1"] {
            assert!(!dir.join(format!("{name}.{view}")).exists(), "{name}.{view}");
        }
        assert_eq!(listing(&dir), [name]);
        let manifest = fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
        assert!(!manifest.contains("artifacts/tool"), "{manifest}");
        fs::remove_file(dir.join(name)).unwrap();
    }
}

#[test]
fn other_files_have_views_that_are_not_listed() {
    let mount = TestMount::new(Mode::Passthrough);
    fs::create_dir(mount.path().join("c7")).unwrap();
    let dir = mount.path().join("c7/history");
    let log = dir.join("messages.jsonl");
    fs::write(&log, b"{\"role\":\"user\"}\n").unwrap();
    assert_eq!(fs::read(dir.join("messages.jsonl.tail")).unwrap(), b"{\"role\":\"user\"}\n");
    assert!(!listing(&dir).contains(&"messages.jsonl.tail".to_owned()));
}

#[test]
fn an_artifact_becomes_scratch() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    fs::rename(&path, path.with_file_name("x.txt~")).unwrap();
    assert_eq!(listing(path.parent().unwrap()), ["x.txt~"]);
    let manifest = fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
    assert!(!manifest.contains("artifacts/tool"), "{manifest}");
}
