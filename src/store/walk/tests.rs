use std::fs;
use std::fs::{File, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::io::Errno;
use tempfile::TempDir;

use super::*;
use crate::mere_owner::as_mere_owner;

/// Returns the paths that a walk of `root` finds, and the places that it skipped.
fn walked(root: &Path) -> (Vec<String>, SkippedPlaces) {
    let mut walk = DirWalk::new(Dir::open(root).unwrap(), None, |_| Ok(true)).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = walk.next().unwrap() {
        let held = walk.levels.iter().filter(|level| level.dir.is_some()).count();
        assert!(held <= HELD, "{held}");
        if entry.kind == FileType::Directory {
            assert_eq!(walk.stat_dir().unwrap().kind(), FileType::Directory);
            found.push(format!("{}/", entry.path));
        } else if walk.stat(&entry).unwrap().is_some() {
            found.push(entry.path.to_text());
        }
    }
    (found, walk.finish())
}

fn unread(left_out: &SkippedPlaces) -> Vec<&str> {
    left_out.unread.named().iter().map(|place| &*place.path).collect()
}

fn made(paths: &[&str]) -> TempDir {
    let temporary = tempfile::tempdir().unwrap();
    for path in paths {
        let path = temporary.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    }
    temporary
}

/// Creates `levels` nested directories, each with a file. Returns the innermost directory.
fn chain(top: &Path, name: &str, levels: usize) -> Dir {
    let mut dir = Dir::open(top).unwrap();
    for _ in 0..levels {
        dir.mkdir(name.as_ref(), 0o700).unwrap();
        dir = dir.open_dir(name.as_ref()).unwrap();
        file(&dir, "x");
    }
    dir
}

fn file(dir: &Dir, name: &str) {
    dir.create_file(name.as_ref(), rustix::fs::OFlags::WRONLY, 0o600).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn it_is_sorted_and_directories_come_first() {
    let made = made(&["b/2", "b/1", "a.b", "a/c", "b/0/x"]);
    let (found, left_out) = walked(made.path());
    assert_eq!(found, ["a/", "a/c", "a.b", "b/", "b/0/", "b/0/x", "b/1", "b/2"]);
    assert_eq!((left_out.unread.count(), left_out.unseen, left_out.gone), (0, 0, 0));
}

#[test]
fn names_of_any_bytes_and_length_are_walked() {
    let temporary = tempfile::tempdir().unwrap();
    let longest = "n".repeat(255);
    fs::create_dir(temporary.path().join(&longest)).unwrap();
    fs::write(temporary.path().join(OsStr::from_bytes(b"\xff")), "").unwrap();
    // Readers of the tree see none of these.
    fs::write(temporary.path().join("a\nb"), "").unwrap();
    symlink("elsewhere", temporary.path().join("link")).unwrap();
    let _socket = UnixListener::bind(temporary.path().join("socket")).unwrap();
    fs::write(temporary.path().join(".ctxfs-own"), "").unwrap();
    let (found, left_out) = walked(temporary.path());
    assert_eq!(found, [format!("{longest}/"), "\\xff".to_owned()]);
    assert_eq!((left_out.unread.count(), left_out.unseen), (0, 3));
}

/// The path is longer than the 4,096 bytes that the kernel accepts in one call, and deeper than the
/// number of directories that are held open.
#[test]
fn long_paths_are_walked_to_their_end_and_back() {
    let temporary = tempfile::tempdir().unwrap();
    let inner = chain(temporary.path(), &"n".repeat(250), 40);
    for name in ["y", "z"] {
        inner.mkdir(name.as_ref(), 0o700).unwrap();
        file(&inner.open_dir(name.as_ref()).unwrap(), "x");
    }
    let (found, left_out) = walked(temporary.path());
    assert_eq!((left_out.unread.count(), left_out.gone), (0, 0));
    assert_eq!(found.len(), 40 * 2 + 4);
    // The files in the outer directories come last, long after those directories were closed.
    assert_eq!(found.last().unwrap().len(), 252);
}

#[test]
fn what_is_too_deep_is_named_and_the_rest_is_walked() {
    let temporary = tempfile::tempdir().unwrap();
    chain(temporary.path(), "d", MAX_LEVELS + 3);
    fs::write(temporary.path().join("z"), "").unwrap();
    let (found, left_out) = walked(temporary.path());
    assert_eq!(found.len(), MAX_LEVELS * 2 + 1);
    assert_eq!(found.last().unwrap(), "z");
    assert_eq!(unread(&left_out), [vec!["d"; MAX_LEVELS + 1].join("/")]);
    assert!(left_out.unread.named()[0].why.contains("256 directories deep"));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_walked() {
    let made = made(&["a/x", "closed/x", "listed/x", "named/x", "z"]);
    let at = |name: &str| made.path().join(name);
    for (name, mode) in [("closed", 0o000), ("listed", 0o400), ("named", 0o100)] {
        set_mode(&at(name), mode);
    }
    as_mere_owner(|| {
        let (found, left_out) = walked(made.path());
        assert_eq!(found, ["a/", "a/x", "z"]);
        assert_eq!(unread(&left_out), ["closed", "listed", "named"]);
        assert!(left_out.unread.named()[0].why.contains("Permission denied"));
    });
    set_mode(made.path(), 0o000);
    as_mere_owner(|| assert!(Dir::open(made.path()).is_err()));
    set_mode(made.path(), 0o700);
    for name in ["closed", "listed", "named"] {
        set_mode(&at(name), 0o700);
    }
}

#[test]
fn what_goes_or_becomes_something_else_meanwhile_is_passed_over() {
    let made = made(&["a/x", "b/x", "c/x", "d/x"]);
    let at = |name: &str| made.path().join(name);
    let mut walk = DirWalk::new(Dir::open(made.path()).unwrap(), None, |_| Ok(true)).unwrap();
    assert_eq!(walk.next().unwrap().unwrap().path.to_text(), "a");
    fs::remove_dir_all(at("b")).unwrap();
    fs::remove_dir_all(at("c")).unwrap();
    symlink("d", at("c")).unwrap();
    fs::remove_file(at("a/x")).unwrap();
    let x = walk.next().unwrap().unwrap();
    assert!(walk.stat(&x).unwrap().is_none());
    assert_eq!(walk.next().unwrap().unwrap().path.to_text(), "d");
    let left_out = walk.finish();
    assert_eq!((unread(&left_out), left_out.gone), (vec!["c"], 2));
}

/// The walk opens the outermost directories again after it has been deep below them.
#[test]
fn a_directory_that_is_moved_meanwhile_ends_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let top = temporary.path().join("top");
    fs::create_dir(&top).unwrap();
    chain(&top, "d", HELD + 4);
    File::create(temporary.path().join("z")).unwrap();
    let mut walk = DirWalk::new(Dir::open(temporary.path()).unwrap(), None, |_| Ok(true)).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = walk.next().unwrap() {
        if found.is_empty() {
            fs::rename(&top, temporary.path().join("moved")).unwrap();
        }
        if entry.kind == FileType::Directory || walk.stat(&entry).unwrap().is_some() {
            found.push(entry.path.to_text());
        }
    }
    assert_eq!(found.last().unwrap(), "z");
    assert!(walk.finish().gone > 0);
}

#[test]
fn an_error_of_the_process_ends_it() {
    let temporary = tempfile::tempdir().unwrap();
    let mut walk = DirWalk::new(Dir::open(temporary.path()).unwrap(), None, |_| Ok(true)).unwrap();
    let mut read = |errno: Errno| walk.read(None, Err::<(), _>(errno.into()));
    assert!(read(Errno::IO).unwrap().is_none());
    assert!(read(Errno::MFILE).is_err());
}

#[test]
fn what_is_refused_is_left_out() {
    let made = made(&["a/x", "b/c/x", "b/x", "d/x"]);
    let refused = fs::metadata(made.path().join("b")).unwrap().ino();
    let enters = |dir: &Dir| Ok(dir.stat_self()?.ino != refused);
    let mut walk = DirWalk::new(Dir::open(made.path()).unwrap(), None, enters).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = walk.next().unwrap() {
        found.push((entry.path.to_text(), entry.dir));
    }
    let want = [("a", 0), ("a/x", 1), ("d", 0), ("d/x", 2)];
    assert_eq!(found, want.map(|(path, dir)| (path.to_owned(), dir)));
}

#[test]
fn short_paths_are_taken_and_long_ones_as_far_as_they_fit() {
    let path = |length: usize| RelPath::new(vec!["n"; length / 2].join("/")).unwrap();
    let (short, long) = (path(1000), path(64 << 10));
    let mut budget = PathBudget::new();
    assert!((0..100_000).all(|_| budget.takes(&short)));
    assert_eq!((0..2000).filter(|_| budget.takes(&long)).count(), 1024);
    assert!(budget.takes(&short));
    let unread = budget.finish();
    assert_eq!((unread.count(), unread.named().len()), (2000 - 1024, 1));
}
