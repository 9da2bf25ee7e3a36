//! Unlinking, even of open files.

use std::fs;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;

use crate::support::{Mode, TestMount, errno, listing};

#[test]
fn an_artifact_takes_its_views_with_it() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        for view in ["x.txt.tail", "x.txt.summary", "x.txt.grep/text", "x.txt.meta.json"] {
            fs::read(path.with_file_name(view)).unwrap();
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(errno(fs::remove_file(&path)), rustix::io::Errno::NOENT);
        for view in ["x.txt.tail", "x.txt.summary", "x.txt.grep", "x.txt.meta.json"] {
            assert!(!path.with_file_name(view).exists(), "{mode:?} {view}");
        }
        assert!(listing(path.parent().unwrap()).is_empty(), "{mode:?}");
        let manifest = fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
        assert!(!manifest.contains("x.txt"), "{manifest}");
    }
}

#[test]
fn a_file_with_the_longest_name_can_be_removed() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        mount.artifact("c7", &"a".repeat(255), b"text\n");
        assert_eq!(listing(&mount.tool("c7")).len(), 1, "{mode:?}: no disk could name its views");
        fs::remove_dir_all(mount.path().join("c7")).unwrap();
    }
}

#[test]
fn what_is_open_stays_readable_and_writable() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"one\n");
        let mut reader = File::open(&path).unwrap();
        let mut writer = File::options().append(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        writer.write_all(b"two\n").unwrap();
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "one\ntwo\n", "{mode:?}");
        let attributes = reader.metadata().unwrap();
        assert_eq!((attributes.nlink(), attributes.len()), (0, 8), "{mode:?}");
        assert!(listing(path.parent().unwrap()).is_empty(), "{mode:?}");
    }
}

#[test]
fn a_name_that_is_used_again_is_a_new_file() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"first\n");
        let mut old = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"second\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second\n");
        assert_eq!(fs::read(path.with_file_name("x.txt.tail")).unwrap(), b"second\n");
        let mut seen = String::new();
        old.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "first\n", "{mode:?}");
        assert_ne!(old.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino());
    }
}

#[test]
fn folders_and_files_are_not_confused() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"x");
    let folder = path.with_file_name("folder");
    fs::create_dir(&folder).unwrap();
    assert_eq!(errno(fs::remove_dir(&path)), rustix::io::Errno::NOTDIR);
    assert_eq!(errno(fs::remove_file(&folder)), rustix::io::Errno::ISDIR);
    assert_eq!(errno(fs::create_dir(&folder)), rustix::io::Errno::EXIST);
    fs::write(folder.join("y.txt"), b"y").unwrap();
    assert_eq!(errno(fs::remove_dir(&folder)), rustix::io::Errno::NOTEMPTY);
}
