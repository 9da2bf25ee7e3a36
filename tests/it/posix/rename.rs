//! Renaming, with which careful programs write files.

use std::fs;
use std::fs::File;
use std::io::{Read as _, Write as _};

use rustix::fs::{CWD, RenameFlags};

use crate::support::{Mode, TestMount, listing};

#[test]
fn a_scratch_file_becomes_an_artifact() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let scratch =
            [".x.txt.Xy12Ab", "x.txt.0123456789abcdef0123456789abcdef.tmp", "x.txt~", "x.part"];
        for (number, scratch) in scratch.iter().enumerate() {
            let text = format!("text {number}\n");
            fs::write(dir.join(scratch), &text).unwrap();
            assert!(!listing(&dir).contains(&format!("{scratch}.summary")), "{scratch}");
            fs::rename(dir.join(scratch), dir.join("x.txt")).unwrap();
            assert!(!dir.join(scratch).exists());
            assert_eq!(fs::read_to_string(dir.join("x.txt")).unwrap(), text);
            assert_eq!(fs::read_to_string(dir.join("x.txt.tail")).unwrap(), text, "{mode:?}");
            let manifest = fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
            assert!(manifest.contains("ctx://c7/artifacts/tool/x.txt"), "{manifest}");
            assert!(!manifest.contains(scratch), "{manifest}");
        }
    }
}

#[test]
fn views_move_with_their_artifact() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let old = mount.artifact("c7", "old.txt", b"text\n");
        let new = old.with_file_name("new.txt");
        fs::read(old.with_file_name("old.txt.tail")).unwrap();
        fs::rename(&old, &new).unwrap();
        assert_eq!(fs::read(old.with_file_name("new.txt.tail")).unwrap(), b"text\n");
        assert!(!old.with_file_name("old.txt.tail").exists(), "{mode:?}");
        let names = listing(old.parent().unwrap());
        assert!(!names.iter().any(|name| name.starts_with("old")), "{names:?}");
    }
}

#[test]
fn over_an_artifact_that_is_open() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"first\n");
        let mut reader = File::open(&path).unwrap();
        let other = mount.artifact("c7", "y.txt", b"second\n");
        fs::rename(&other, &path).unwrap();
        let mut old = String::new();
        reader.read_to_string(&mut old).unwrap();
        assert_eq!(old, "first\n", "{mode:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "second\n", "{mode:?}");
        assert_eq!(fs::read(path.with_file_name("x.txt.tail")).unwrap(), b"second\n");
    }
}

#[test]
fn while_being_written() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = File::create(&path).unwrap();
        writer.write_all(b"one\n").unwrap();
        let moved = path.with_file_name("y.txt");
        fs::rename(&path, &moved).unwrap();
        writer.write_all(b"two\n").unwrap();
        assert_eq!(fs::read(&moved).unwrap(), b"one\ntwo\n", "{mode:?}");
        drop(writer);
        assert_eq!(fs::read(path.with_file_name("y.txt.tail")).unwrap(), b"one\ntwo\n");
        assert!(!path.exists());
    }
}

#[test]
fn without_replacing_and_in_exchange() {
    let mount = TestMount::new(Mode::Passthrough);
    let one = mount.artifact("c7", "one.txt", b"1");
    let two = mount.artifact("c7", "two.txt", b"2");
    let kept = rustix::fs::renameat_with(CWD, &one, CWD, &two, RenameFlags::NOREPLACE);
    assert_eq!(kept, Err(rustix::io::Errno::EXIST));
    // Exchanging is Linux's own: it is done, or refused as unknown.
    match rustix::fs::renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE) {
        Ok(()) => {
            assert_eq!(fs::read(one).unwrap(), b"2");
            assert_eq!(fs::read(two).unwrap(), b"1");
        }
        Err(error) => assert_eq!(error, rustix::io::Errno::INVAL),
    }
}

#[test]
fn between_folders_and_conversations() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let here = mount.artifact("c7", "x.txt", b"text\n");
        let terminal = mount.path().join("c7/artifacts/terminal/x.log");
        fs::rename(&here, &terminal).unwrap();
        assert_eq!(fs::read(terminal.with_file_name("x.log.tail")).unwrap(), b"text\n");
        let there = mount.tool("c8").join("x.txt");
        fs::rename(&terminal, &there).unwrap();
        assert_eq!(fs::read(there.with_file_name("x.txt.tail")).unwrap(), b"text\n", "{mode:?}");
        let summary = fs::read_to_string(there.with_file_name("x.txt.summary")).unwrap();
        assert!(summary.contains("ctx://c8/artifacts/tool/x.txt"), "{summary}");
    }
}

#[test]
fn folders() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    fs::create_dir(dir.join("a")).unwrap();
    fs::write(dir.join("a/x.txt"), b"deep\n").unwrap();
    fs::rename(dir.join("a"), dir.join("b")).unwrap();
    assert_eq!(fs::read(dir.join("b/x.txt")).unwrap(), b"deep\n");
    assert_eq!(fs::read(dir.join("b/x.txt.tail")).unwrap(), b"deep\n");
    assert!(!dir.join("a").exists());
}
