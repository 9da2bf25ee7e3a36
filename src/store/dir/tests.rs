use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;
use std::{fs, thread};

use rustix::fs::{CWD, FileType};
use tempfile::TempDir;

use super::*;

#[test]
fn the_walk_finds_what_openat2_finds() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/file"), "").unwrap();
    symlink(root.join("a"), root.join("link")).unwrap();
    symlink("file", root.join("a/b/link")).unwrap();
    let dir = Dir::open(root).unwrap();
    for (path, is_there) in [
        ("a", true),
        ("a/b", true),
        ("a/b/file", true),
        ("a/b/file/c", false),
        ("a/c", false),
        ("link", false),
        ("link/b/file", false),
        ("a/b/link", false),
    ] {
        let path = OsStr::new(path);
        let (flags, mode) = (OFlags::RDONLY, Mode::empty());
        assert_eq!(dir.open_beneath(path, flags, mode).is_ok(), is_there, "{path:?}");
        assert_eq!(dir.open_each(path, flags, mode).is_ok(), is_there, "{path:?}");
    }
}

/// The path is longer than the 4,096 bytes that the kernel accepts in one call.
#[test]
fn a_path_of_any_length_is_walked() {
    let temporary = tempfile::tempdir().unwrap();
    let top = Dir::open(temporary.path()).unwrap();
    let name = "n".repeat(250);
    let dir = top.nest(&name, 20);
    dir.create_file("x".as_ref(), OFlags::WRONLY | OFlags::EXCL, 0o600).unwrap();
    let directory = RelPath::new(vec![name; 20].join("/")).unwrap();
    let file = RelPath::below(Some(&directory), "x".as_ref()).unwrap();
    assert_eq!(top.open_dir_at(&directory).unwrap().entries().unwrap().len(), 1);
    assert_eq!(top.stat_at(&file).unwrap().size, 0);
    assert!(top.open_file_at(&file, OFlags::RDONLY).is_ok());
}

/// Opening a fifo would block, and opening a socket or a device could have any side effect.
#[test]
fn what_opens_as_a_file_is_one() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    rustix::fs::mkfifoat(CWD, path("fifo"), Mode::RWXU).unwrap();
    fs::create_dir(path("dir")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    symlink("/dev/zero", path("link")).unwrap();
    if rustix::process::geteuid().is_root() {
        rustix::fs::mknodat(CWD, path("zero"), FileType::CharacterDevice, Mode::RWXU, 0x105)
            .unwrap();
    }
    let dir = Dir::open(temporary.path()).unwrap();
    for name in ["fifo", "dir", "socket", "link", "zero"] {
        for flags in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
            assert!(dir.open_file(name.as_ref(), flags).is_err(), "{name} {flags:?}");
            assert!(dir.create_file(name.as_ref(), flags, 0o600).is_err(), "{name} {flags:?}");
        }
        assert!(dir.set_len(name.as_ref(), 0).is_err(), "{name}");
    }
}

#[test]
fn a_tree_is_removed_and_links_lead_nowhere() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    fs::create_dir_all(path("store/a/b/c")).unwrap();
    fs::create_dir(path("outside")).unwrap();
    fs::write(path("outside/file"), "kept").unwrap();
    symlink(path("outside"), path("store/a/b/link")).unwrap();
    symlink(path("outside"), path("store/link")).unwrap();
    let dir = Dir::open(&path("store")).unwrap();
    dir.remove_all("a".as_ref()).unwrap();
    dir.remove_all("link".as_ref()).unwrap();
    assert_eq!(dir.entries().unwrap(), []);
    assert_eq!(fs::read(path("outside/file")).unwrap(), b"kept");
    assert_eq!(dir.remove_all("a".as_ref()).unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// A directory with a store and an outside directory. In the store, a directory and a link to the
/// outside directory are exchanged continuously under one name. The outside directory must not
/// change.
struct Turning {
    temporary: TempDir,
    over: AtomicBool,
}

const SECRET: &[u8] = b"secret";
const OWN: &[u8] = b"own";

impl Turning {
    fn new() -> Self {
        let turning =
            Self { temporary: tempfile::tempdir().unwrap(), over: AtomicBool::new(false) };
        for (dir, text) in [("store/d/e", OWN), ("outside/e", SECRET)] {
            fs::create_dir_all(turning.path(dir)).unwrap();
            fs::write(turning.path(dir).join("file"), text).unwrap();
        }
        fs::write(turning.path("store/d/file"), OWN).unwrap();
        fs::write(turning.path("outside/file"), SECRET).unwrap();
        symlink(turning.path("outside"), turning.path("store/link")).unwrap();
        symlink(turning.path("outside/file"), turning.path("store/d/file-link")).unwrap();
        turning
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// Runs `test` on the store while the two are exchanged.
    fn while_turning(&self, test: impl FnOnce(&Dir)) {
        let dir = Dir::open(&self.path("store")).unwrap();
        let turn = |dir: &Dir, one: &str, other: &str| {
            dir.rename(one.as_ref(), dir, other.as_ref(), RenameFlags::EXCHANGE).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let within = Dir::open(&self.path("store/d")).unwrap();
                let dir = Dir::open(&self.path("store")).unwrap();
                while !self.over.load(Relaxed) {
                    turn(&dir, "d", "link");
                    turn(&within, "file", "file-link");
                }
            });
            // The exchange must also end if the test fails.
            let _over = Over(&self.over);
            test(&dir);
        });
    }

    /// Returns everything that is visible in the outside directory.
    fn outside(&self) -> Vec<(PathBuf, u32, SystemTime, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path("outside")];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            for path in entries.chain([folder.clone()]) {
                let of = fs::metadata(&path).unwrap();
                let (mode, changed) = (of.permissions().mode(), of.modified().unwrap());
                if of.is_dir() && path != folder {
                    folders.push(path);
                } else {
                    found.push((path.clone(), mode, changed, fs::read(&path).ok()));
                }
            }
        }
        found
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

const TRIES: usize = 8000;

#[test]
fn a_race_of_links_reads_nothing_outside() {
    let turning = Turning::new();
    let paths =
        ["d/file", "d/e/file", "link/file", "link/e/file"].map(|path| RelPath::new(path).unwrap());
    let mut opened = 0;
    let outside = turning.outside();
    turning.while_turning(|dir| {
        for _ in 0..TRIES {
            for path in &paths {
                let (flags, mode) = (OFlags::RDONLY, Mode::empty());
                let found = [
                    dir.open_file_at(path, flags).ok(),
                    dir.open_each(path.as_os_str(), flags, mode).ok().map(File::from),
                ];
                for file in found.into_iter().flatten() {
                    opened += 1;
                    assert_eq!(io::read_to_string(file).unwrap().as_bytes(), OWN, "{path}");
                }
                if let Ok(stat) = dir.stat_at(path) {
                    assert_ne!(stat.size, SECRET.len() as u64, "{path}");
                }
            }
        }
    });
    assert!(opened > TRIES / 100, "opened {opened} times");
    assert_eq!(turning.outside(), outside);
    assert_eq!(outside.len(), 4);
}

#[test]
fn a_race_of_links_changes_nothing_outside() {
    let turning = Turning::new();
    let outside = turning.outside();
    let mut done = 0_usize;
    let now = Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
        last_modification: rustix::fs::Timespec { tv_sec: 1, tv_nsec: 0 },
    };
    turning.while_turning(|dir| {
        for number in 0..TRIES / 4 {
            for name in ["d", "link"].map(OsStr::new) {
                done += usize::from(dir.chmod(name, 0o700).is_ok());
                done += usize::from(dir.utimens(name, &now).is_ok());
                done += usize::from(dir.set_len(name, 0).is_ok());
                let Ok(within) = dir.open_dir(name) else { continue };
                let new = OsString::from(format!("new-{number}"));
                let flags = OFlags::WRONLY;
                for file in ["file", "file-link"].map(OsStr::new) {
                    if let Ok(mut file) = within.open_file(file, flags) {
                        done += usize::from(io::Write::write(&mut file, OWN).is_ok());
                    }
                    done += usize::from(within.create_file(file, flags, 0o600).is_ok());
                    done += usize::from(within.chmod(file, 0o600).is_ok());
                    done += usize::from(within.utimens(file, &now).is_ok());
                    done += usize::from(within.chown(file, None, None).is_ok());
                }
                done += usize::from(within.create_file(&new, flags | OFlags::EXCL, 0o600).is_ok());
                done += usize::from(within.remove_all(&new).is_ok());
                done += usize::from(within.mkdir(&new, 0o700).is_ok());
                done += usize::from(within.rmdir(&new).is_ok());
            }
        }
    });
    assert!(done > TRIES, "done {done} times");
    assert_eq!(turning.outside(), outside);
    assert_eq!(outside.len(), 4);
}

/// Creates `levels` nested directories in `dir`, each with a file.
fn chain(dir: &Dir, levels: usize) {
    let mut at = dir.try_clone().unwrap();
    for _ in 0..levels {
        at.create_file("file".as_ref(), OFlags::WRONLY, 0o600).unwrap();
        at.mkdir("d".as_ref(), 0o700).unwrap();
        at = at.open_dir("d".as_ref()).unwrap();
    }
}

#[test]
fn the_deepest_and_widest_trees_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = Dir::open(temporary.path()).unwrap();
    dir.mkdir("deep".as_ref(), 0o700).unwrap();
    // The depth exceeds the length of a path, the descriptors of a process, and the frames of a
    // stack.
    chain(&dir.open_dir("deep".as_ref()).unwrap(), 6000);
    dir.remove_all("deep".as_ref()).unwrap();
    for number in 0..300 {
        let inner = temporary.path().join(format!("wide/{number}/a/b"));
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("file"), "").unwrap();
    }
    dir.remove_all("wide".as_ref()).unwrap();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn the_height_of_a_tree_is_that_of_its_deepest_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = Dir::open(temporary.path()).unwrap();
    for path in ["flat", "a/b", "a/c/d/e", "a/f"] {
        fs::create_dir_all(temporary.path().join(path)).unwrap();
    }
    fs::write(temporary.path().join("flat/file"), "").unwrap();
    symlink("../a", temporary.path().join("flat/link")).unwrap();
    let height = |name: &str, most| dir.height(name.as_ref(), most).unwrap();
    assert_eq!((height("flat", 9), height("a", 9), height("a", 3)), (Some(0), Some(3), Some(3)));
    assert_eq!((height("a", 2), height("a", 0)), (Some(3), Some(1)));
    dir.mkdir("deep".as_ref(), 0o700).unwrap();
    chain(&dir.open_dir("deep".as_ref()).unwrap(), 3000);
    assert_eq!(height("deep", 256), Some(257));
    dir.remove_all("deep".as_ref()).unwrap();
    assert!(dir.height("none".as_ref(), 9).is_err());
}
