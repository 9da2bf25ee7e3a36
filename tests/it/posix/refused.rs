//! The answers to bad input, row by row of the design.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType};
use rustix::io::Errno;

use crate::support::{Mode, TestMount, errno, listing};

#[test]
fn links_and_devices() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let other = path.with_file_name("other");
    assert_eq!(errno(std::os::unix::fs::symlink(&path, &other)), Errno::PERM);
    assert_eq!(errno(fs::hard_link(&path, &other)), Errno::PERM);
    for kind in [FileType::Fifo, FileType::CharacterDevice, FileType::BlockDevice, FileType::Socket]
    {
        let made = rustix::fs::mknodat(CWD, &other, kind, 0o600.into(), rustix::fs::makedev(1, 3));
        assert_eq!(made, Err(Errno::PERM), "{kind:?}");
    }
    // A short way to it: the address of a socket has room for 108 bytes only.
    let dir = File::open(path.parent().unwrap()).unwrap();
    let short = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&dir));
    assert_eq!(errno(UnixListener::bind(short)), Errno::PERM);
    assert_eq!(listing(path.parent().unwrap()).len(), 4);
}

#[test]
fn names() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    let long = [b'a'; 256];
    let cases: [(&[u8], Errno); 6] = [
        (b"a\nb", Errno::INVAL),
        (b"\x01", Errno::INVAL),
        (b"a\x7f", Errno::INVAL),
        (b".ctxfs-x", Errno::INVAL),
        (b".ctxfsx", Errno::INVAL),
        (&long, Errno::NAMETOOLONG),
    ];
    let scratch = dir.join("plain");
    for (name, expected) in cases {
        let name = OsStr::from_bytes(name);
        assert_eq!(errno(File::create(dir.join(name))), expected, "{name:?}");
        assert_eq!(errno(fs::create_dir(dir.join(name))), expected, "{name:?}");
        assert_eq!(errno(fs::create_dir(mount.path().join(name))), expected, "{name:?}");
        fs::write(&scratch, b"x").unwrap();
        assert_eq!(errno(fs::rename(&scratch, dir.join(name))), expected, "{name:?}");
        fs::remove_file(&scratch).unwrap();
    }
    assert!(listing(&dir).is_empty());
    let longest = "a".repeat(255);
    fs::write(dir.join(&longest), b"x").unwrap();
    assert_eq!(fs::read(dir.join(&longest)).unwrap(), b"x");
    assert_eq!(fs::read(dir.join(format!("{longest}.tail"))).unwrap(), b"x");
}

#[test]
fn names_that_look_odd_are_kept() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    for name in
        [&b"a b"[..], b"-n", b"\xff\xfe.txt", "gr\u{fc}n.txt".as_bytes(), b"%2F", b"a'\"$(x)"]
    {
        let name = OsStr::from_bytes(name);
        fs::write(dir.join(name), b"text\n").unwrap();
        assert_eq!(fs::read(dir.join(name)).unwrap(), b"text\n", "{name:?}");
        let mut view = name.to_owned();
        view.push(".tail");
        assert_eq!(fs::read(dir.join(view)).unwrap(), b"text\n", "{name:?}");
    }
}

#[test]
fn unknown_views_and_ranges() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"1\n2\n3\n");
    let views = [
        "x.txt.nosuch",
        "x.txt.lines/4-9",
        "x.txt.lines/0-1",
        "x.txt.lines/x",
        "x.txt.lines/4+1",
        "x.txt.summary.nosuch",
        "nosuch.txt.summary",
        "nosuch.txt.grep/x",
    ];
    for view in views {
        assert_eq!(errno(File::open(path.with_file_name(view))), Errno::NOENT, "{view}");
    }
    assert_eq!(fs::read(path.with_file_name("x.txt.lines/2-9")).unwrap(), b"2\n3\n");
}

#[test]
fn the_computed_files_of_the_tree() {
    let mount = TestMount::new(Mode::Passthrough);
    mount.artifact("c7", "x.txt", b"x\n");
    let scratch = mount.tool("c7").join(".scratch");
    fs::write(&scratch, b"x").unwrap();
    for name in ["README.md", "c7/manifest.json"] {
        let path = mount.path().join(name);
        assert_eq!(errno(File::options().write(true).open(&path)), Errno::PERM, "{name}");
        assert_eq!(errno(File::create(&path)), Errno::PERM, "{name}");
        assert_eq!(errno(fs::rename(&scratch, &path)), Errno::PERM, "{name}");
        assert!(!fs::read(&path).unwrap().is_empty(), "{name}");
    }
}

#[test]
fn files_where_conversations_stand() {
    let mount = TestMount::new(Mode::Passthrough);
    assert_eq!(errno(File::create(mount.path().join("stray.txt"))), Errno::PERM);
    assert_eq!(errno(File::create(mount.path().join("missing/artifacts/tool/x"))), Errno::NOENT);
}
