//! Directories to which the kernel refers but which the mount does not hold open.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use super::fixture::{Fixture, ME, errno};
use crate::{Ino, OpenMode, RenameMode, Result};
use ctxfs_core::model::MAX_DEPTH;
use ctxfs_engine::EngineOptions;
use ctxfs_engine::patience::{promptly, slowly};
use ctxfs_engine::sync::now;

/// Number of directories in these tests: more than a mount with [`few`] descriptors holds open.
const MANY: usize = 40;

/// Returns a mount that holds at most 8 directories open.
fn few() -> Fixture {
    Fixture::with(EngineOptions { descriptors: Some(64), ..EngineOptions::default() })
}

fn mkdir(fixture: &Fixture, parent: Ino, name: &str) -> Ino {
    fixture.fs.mkdir(parent, OsStr::new(name), 0o700, ME).unwrap().attr.ino
}

/// Creates a file in a directory and closes it.
fn create(fixture: &Fixture, parent: Ino, name: &str) -> Result<()> {
    let mode = OpenMode { flags: libc::O_WRONLY };
    let (_, opened) = fixture.fs.create(parent, OsStr::new(name), 0o600, mode, ME)?;
    fixture.write(opened.fh, 0, name.as_bytes()).unwrap();
    fixture.close(opened.fh);
    Ok(())
}

/// Uses many other directories, so that the mount no longer holds the earlier ones open. The cache
/// may still keep some of them, depending on how often they were used, so all held directories are
/// closed at the end.
fn use_others(fixture: &Fixture) {
    let others: Vec<_> = (0..MANY)
        .map(|number| {
            let name = format!("other-{number}");
            fixture.fs.mkdir(fixture.tool, OsStr::new(&name), 0o700, ME).ok();
            fixture.ino(&name)
        })
        .collect();
    for other in others {
        // The cache keeps a directory longer after several uses.
        (0..4).for_each(|_| drop(fixture.list(other)));
    }
    fixture.fs.0.nodes.get(fixture.tool).unwrap().as_dir().unwrap().open_dirs.recent.clear();
}

/// Returns the path of `name` in the store, which bypasses the mount.
fn stored(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.plain(name)
}

#[test]
fn all_that_are_remembered_work() {
    let fixture = few();
    let dirs: Vec<_> =
        (0..MANY).map(|number| mkdir(&fixture, fixture.tool, &format!("d{number}"))).collect();
    let inner: Vec<_> = dirs.iter().map(|dir| mkdir(&fixture, *dir, "inner")).collect();
    for dir in dirs.iter().chain(&inner) {
        create(&fixture, *dir, "x.txt").unwrap();
    }
    for dir in &inner {
        assert_eq!(fixture.list(*dir)[..2], ["x.txt.summary", "x.txt.tail"]);
        assert_eq!(fixture.attr(*dir).unwrap().ino, *dir);
        let (from, to) = (OsStr::new("x.txt"), OsStr::new("y.txt"));
        fixture.fs.rename(*dir, from, *dir, to, RenameMode::Replace).unwrap();
        let tail = fixture.fs.lookup(*dir, OsStr::new("y.txt.tail"), ME).unwrap();
        assert_eq!(fixture.read_ino(tail.attr.ino).unwrap(), b"x.txt");
        fixture.fs.unlink(*dir, to, 0).unwrap();
        assert!(fixture.list(*dir).is_empty());
    }
    for dir in &dirs {
        fixture.fs.rmdir(*dir, OsStr::new("inner")).unwrap();
    }
}

#[test]
fn one_is_found_where_it_was_moved() {
    let fixture = few();
    let (above, other) = (mkdir(&fixture, fixture.tool, "a"), mkdir(&fixture, fixture.tool, "b"));
    let (one, two) = (mkdir(&fixture, above, "one"), mkdir(&fixture, other, "two"));
    let rename = |from, name, to, new, mode| {
        fixture.fs.rename(from, OsStr::new(name), to, OsStr::new(new), mode).unwrap();
    };
    // First the directory above is renamed, then the directory itself, then two directories
    // exchange their names.
    rename(fixture.tool, "a", fixture.tool, "c", RenameMode::Replace);
    use_others(&fixture);
    create(&fixture, one, "1").unwrap();
    rename(above, "one", other, "uno", RenameMode::KeepExisting);
    use_others(&fixture);
    create(&fixture, one, "2").unwrap();
    rename(other, "uno", other, "two", RenameMode::Exchange);
    use_others(&fixture);
    create(&fixture, one, "3").unwrap();
    create(&fixture, two, "4").unwrap();
    let in_store = |name| fs::read_dir(stored(&fixture, name)).unwrap().count();
    assert_eq!((in_store("b/two"), in_store("b/uno"), in_store("c")), (3, 1, 0));
}

#[test]
fn one_that_others_moved_is_stale_until_it_is_found_again() {
    let fixture = few();
    let (above, file) = (mkdir(&fixture, fixture.tool, "a"), OsStr::new("x.txt"));
    let dir = mkdir(&fixture, above, "d");
    create(&fixture, dir, "x.txt").unwrap();
    use_others(&fixture);
    fs::rename(stored(&fixture, "a/d"), stored(&fixture, "moved")).unwrap();
    assert_eq!(errno(fixture.fs.lookup(dir, file, ME)), libc::ESTALE);
    assert_eq!(errno(fixture.attr(dir)), libc::ESTALE);
    assert_eq!(errno(create(&fixture, dir, "y.txt")), libc::ESTALE);
    assert_eq!(errno(fixture.fs.lookup(above, OsStr::new("d"), ME)), libc::ENOENT);
    assert_eq!(fixture.ino("moved"), dir);
    assert_eq!(fixture.fs.lookup(dir, file, ME).unwrap().attr.size, 5);
    create(&fixture, dir, "y.txt").unwrap();
    assert!(stored(&fixture, "moved/y.txt").exists());
}

#[test]
fn another_of_its_name_is_not_taken_for_it() {
    let fixture = few();
    let dir = mkdir(&fixture, fixture.tool, "d");
    create(&fixture, dir, "x.txt").unwrap();
    use_others(&fixture);
    fs::rename(stored(&fixture, "d"), stored(&fixture, "aside")).unwrap();
    fs::create_dir(stored(&fixture, "d")).unwrap();
    assert_eq!(errno(create(&fixture, dir, "y.txt")), libc::ESTALE);
    assert_eq!(errno(fixture.attr(dir)), libc::ESTALE);
    let new = fixture.ino("d");
    assert_ne!(new, dir);
    create(&fixture, new, "y.txt").unwrap();
    assert_eq!(fs::read_dir(stored(&fixture, "aside")).unwrap().count(), 1);
    // A symbolic link does not count as the directory either.
    fs::remove_dir_all(stored(&fixture, "d")).unwrap();
    std::os::unix::fs::symlink("aside", stored(&fixture, "d")).unwrap();
    use_others(&fixture);
    assert_eq!(errno(create(&fixture, new, "z.txt")), libc::ESTALE);
}

#[test]
fn one_that_was_removed_is_gone() {
    let fixture = few();
    let dir = mkdir(&fixture, fixture.tool, "d");
    use_others(&fixture);
    fixture.fs.rmdir(fixture.tool, OsStr::new("d")).unwrap();
    assert_eq!(errno(create(&fixture, dir, "x.txt")), libc::ESTALE);
    let again = mkdir(&fixture, fixture.tool, "d");
    assert_ne!(again, dir);
    create(&fixture, again, "x.txt").unwrap();
    assert_eq!(errno(create(&fixture, dir, "y.txt")), libc::ESTALE);
}

/// Another process exchanges the positions of two directories. For a moment, each seems to be
/// inside the other.
#[test]
fn links_that_are_out_of_date_lead_in_no_circle() {
    let fixture = few();
    let outer = mkdir(&fixture, fixture.tool, "outer");
    let inner = mkdir(&fixture, outer, "inner");
    assert!(fixture.list(inner).is_empty());
    fs::rename(stored(&fixture, "outer/inner"), stored(&fixture, "inner")).unwrap();
    fs::rename(stored(&fixture, "outer"), stored(&fixture, "inner/outer")).unwrap();
    // A process whose working directory is `inner` looks up `outer`.
    assert_eq!(fixture.fs.lookup(inner, OsStr::new("outer"), ME).unwrap().attr.ino, outer);
    create(&fixture, outer, "x.txt").ok();
    use_others(&fixture);
    create(&fixture, outer, "x.txt").ok();
    assert_eq!(fixture.ino("inner"), inner);
    assert_eq!(fixture.ino("inner/outer"), outer);
    create(&fixture, outer, "y.txt").unwrap();
    assert!(stored(&fixture, "inner/outer/y.txt").exists());
}

/// Creates nested directories in `parent`, up to the maximum depth. Returns all of them, the
/// innermost last.
fn chain(fixture: &Fixture, parent: Ino) -> Vec<Ino> {
    let mut dirs = vec![parent];
    loop {
        match fixture.fs.mkdir(*dirs.last().unwrap(), OsStr::new("d"), 0o700, ME) {
            Ok(made) => dirs.push(made.attr.ino),
            Err(error) => {
                assert_eq!(error.errno().0, libc::ENAMETOOLONG);
                return dirs;
            }
        }
    }
}

#[test]
fn directories_lie_inside_each_other_as_deep_as_they_may() {
    let fixture = few();
    let dirs = chain(&fixture, fixture.tool);
    // `artifacts` and `tool` count as the first two levels.
    assert_eq!(dirs.len() - 1, MAX_DEPTH - 2);
    let last = *dirs.last().unwrap();
    create(&fixture, last, "x.txt").unwrap();
    fixture.settle();
    let tail = fixture.fs.lookup(last, OsStr::new("x.txt.tail"), ME).unwrap();
    assert_eq!(fixture.read_ino(tail.attr.ino).unwrap(), b"x.txt");
    create(&fixture, fixture.tool, "y.txt").unwrap();
    let rename = |from, name, to, new, mode| {
        fixture.fs.rename(from, OsStr::new(name), to, OsStr::new(new), mode)
    };
    rename(fixture.tool, "y.txt", last, "y.txt", RenameMode::Replace).unwrap();
    assert_eq!(fixture.list(last).iter().filter(|name| name.len() == 5).count(), 2);
}

#[test]
fn a_directory_is_not_moved_to_where_it_would_be_too_deep() {
    let fixture = few();
    let dirs = chain(&fixture, fixture.tool);
    let tree = mkdir(&fixture, fixture.tool, "tree");
    mkdir(&fixture, mkdir(&fixture, tree, "a"), "b");
    let into = |depth: usize, name: &str, mode| {
        let to = dirs[depth - 2];
        fixture.fs.rename(fixture.tool, OsStr::new("tree"), to, OsStr::new(name), mode)
    };
    for depth in MAX_DEPTH - 2..=MAX_DEPTH {
        let moved = into(depth, "tree", RenameMode::Replace);
        assert_eq!(errno(moved), libc::ENAMETOOLONG, "{depth}");
    }
    let swapped = into(MAX_DEPTH - 2, "d", RenameMode::Exchange);
    assert_eq!(errno(swapped), libc::ENAMETOOLONG);
    // This exchange moves the other directory deeper.
    let (root, inner) = (OsStr::new("d"), OsStr::new("tree"));
    let swapped = fixture.fs.rename(dirs[9], root, fixture.tool, inner, RenameMode::Exchange);
    assert_eq!(swapped.map_err(|error| error.errno().0), Ok(()));
    let back = fixture.fs.rename(dirs[9], root, fixture.tool, inner, RenameMode::Exchange);
    assert_eq!(back.map_err(|error| error.errno().0), Ok(()));
    into(MAX_DEPTH - 3, "tree", RenameMode::Replace).unwrap();
    let to = (fixture.tool, OsStr::new("tree"));
    let from = dirs[MAX_DEPTH - 5];
    fixture.fs.rename(from, OsStr::new("tree"), to.0, to.1, RenameMode::Replace).unwrap();
    // There are too many directories to check each one, so the caller has to copy them.
    for number in 0..10_001 {
        fs::create_dir(stored(&fixture, &format!("tree/{number}"))).unwrap();
    }
    assert_eq!(errno(into(3, "tree", RenameMode::Replace)), libc::EXDEV);
    fixture.rename("tree", "elsewhere", RenameMode::Replace).unwrap();
}

#[test]
fn what_others_made_deeper_is_not_entered() {
    let fixture = few();
    let mut path = stored(&fixture, "d");
    (0..MAX_DEPTH + 5).for_each(|_| path.push("d"));
    fs::create_dir_all(&path).unwrap();
    let mut at = fixture.tool;
    for _ in 2..MAX_DEPTH {
        at = fixture.fs.lookup(at, OsStr::new("d"), ME).unwrap().attr.ino;
    }
    assert_eq!(errno(fixture.fs.lookup(at, OsStr::new("d"), ME)), libc::ENAMETOOLONG);
    assert_eq!(fixture.list(at), ["d"]);
    create(&fixture, at, "x.txt").unwrap();
    // After it is moved up, it can be entered.
    let up = (fixture.tool, OsStr::new("up"));
    let moved = fixture.fs.rename(at, OsStr::new("d"), up.0, up.1, RenameMode::Replace);
    assert_eq!(errno(moved), libc::ENAMETOOLONG);
    fs::rename(path.ancestors().nth(5).unwrap(), stored(&fixture, "up")).unwrap();
    fixture.lookup("up/d/d").unwrap();
}

/// Creating a conversation flushes it to the disk, which is slow.
#[test]
fn a_conversation_is_not_made_on_a_thread_that_others_need() {
    let fixture = Fixture::new();
    let mkdir = || fixture.fs.mkdir(Ino::ROOT, OsStr::new("c2"), 0o700, ME);
    assert!(promptly(now(), mkdir).unwrap_err().is_slow());
    assert!(fixture.find("c2").is_err());
    slowly(mkdir).unwrap();
    let c2 = fixture.find("c2").unwrap().attr.ino;
    promptly(now(), || fixture.fs.mkdir(c2, OsStr::new("d"), 0o700, ME)).unwrap();
}
