use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use tempfile::TempDir;

use super::*;

struct Fixture {
    dir: TempDir,
    cache: Cache,
}

impl Fixture {
    fn new(bound: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = Store::open(dir.path()).unwrap().cache(bound);
        Self { dir, cache }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn keep(&self, what: &str, bytes: &[u8]) -> Arc<File> {
        let draft = self.cache.draft().unwrap();
        let file = Arc::clone(draft.file());
        draft.file().as_ref().write_all(bytes).unwrap();
        self.cache.keep(draft, &key(what)).unwrap();
        file
    }

    fn get(&self, what: &str) -> Option<Vec<u8>> {
        self.cache.open(&key(what)).map(|file| all(&file))
    }

    fn names(&self) -> Vec<OsString> {
        std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }
}

fn key(what: &str) -> CacheKey {
    CacheKey::of(&[b"view", what.as_bytes()]).unwrap()
}

fn all(mut file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Sets the time at which a result was last used, in seconds since the epoch.
fn used(fixture: &Fixture, what: &str, when: i64) {
    let time = Timespec { tv_sec: when, tv_nsec: 0 };
    let file = File::open(fixture.path().join(key(what).0)).unwrap();
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::futimens(&file, &times).unwrap();
}

#[test]
fn keys_tell_all_parts_apart() {
    let of = |parts: &[&[u8]]| CacheKey::of(parts).unwrap();
    assert_eq!(of(&[b"a", b"b"]), of(&[b"a", b"b"]));
    assert_ne!(of(&[b"a", b"b"]), of(&[b"ab"]));
    assert_ne!(of(&[b"ab", b""]), of(&[b"a", b"b"]));
    assert_eq!(of(&[b"a"]).0.len(), 64);
}

#[test]
fn a_result_is_found_once_it_is_kept() {
    let fixture = Fixture::new(1000);
    assert_eq!(fixture.get("a"), None);
    let draft = fixture.cache.draft().unwrap();
    draft.file().as_ref().write_all(b"half").unwrap();
    assert_eq!(fixture.get("a"), None);
    draft.file().as_ref().write_all(b" and half").unwrap();
    assert!(fixture.cache.keep(draft, &key("a")).unwrap());
    assert_eq!(fixture.get("a").unwrap(), b"half and half");
    let other = Store::open(fixture.dir.path()).unwrap().cache(0);
    assert_eq!(all(&other.open(&key("a")).unwrap()), b"half and half");
}

#[test]
fn only_its_owner_can_look_into_it() {
    let fixture = Fixture::new(1000);
    fixture.keep("a", b"secret");
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(fixture.path()), 0o700);
    assert_eq!(mode(fixture.path().join(key("a").0)), 0o600);
}

#[test]
fn what_is_not_kept_is_gone() {
    let fixture = Fixture::new(1000);
    drop(fixture.cache.draft().unwrap());
    assert!(fixture.names().is_empty());
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let fixture = Fixture::new(100);
    for (what, when) in [("a", 10), ("b", 20), ("c", 30)] {
        fixture.keep(what, &[0; 30]);
        used(&fixture, what, when);
    }
    fixture.get("a").unwrap();
    fixture.keep("d", &[0; 40]);
    let there: Vec<bool> = ["a", "b", "c", "d"].map(|what| fixture.get(what).is_some()).into();
    assert_eq!(there, [true, false, true, true]);
}

#[test]
fn what_is_larger_than_all_may_be_is_used_and_not_kept() {
    let fixture = Fixture::new(100);
    fixture.keep("a", &[1; 60]);
    let file = fixture.keep("b", &[2; 101]);
    assert_eq!(all(&file), [2; 101]);
    assert_eq!(fixture.get("b"), None);
    assert_eq!(fixture.get("a").unwrap(), [1; 60]);
    assert_eq!(fixture.names().len(), 1);
}

#[test]
fn it_can_be_removed_at_any_time() {
    let fixture = Fixture::new(1000);
    let kept = fixture.keep("a", b"kept");
    let draft = fixture.cache.draft().unwrap();
    draft.file().as_ref().write_all(b"late").unwrap();
    std::fs::remove_dir_all(fixture.path()).unwrap();
    assert_eq!(all(&kept), b"kept");
    assert_eq!(fixture.get("a"), None);
    assert!(!fixture.cache.keep(draft, &key("b")).unwrap());
    assert_eq!(all(&fixture.keep("a", b"again")), b"again");
    fixture.cache.clear().unwrap();
    assert!(fixture.names().is_empty());
    std::fs::remove_dir(fixture.path()).unwrap();
    fixture.cache.clear().unwrap();
}

/// Checks that keeping a result removes the drafts of dead processes but not a draft that is being
/// written.
#[test]
fn drafts_of_the_dead_are_removed() {
    let fixture = Fixture::new(1000);
    let alive = fixture.cache.draft().unwrap();
    let dead = fixture.path().join(layout::temporary());
    std::fs::write(&dead, b"half").unwrap();
    fixture.keep("a", b"new");
    assert!(!dead.exists());
    alive.file().as_ref().write_all(b"whole").unwrap();
    assert!(fixture.cache.keep(alive, &key("b")).unwrap());
    assert_eq!(fixture.get("b").unwrap(), b"whole");
}

#[test]
fn many_keep_and_remove_at_once() {
    let fixture = Arc::new(Fixture::new(10_000));
    let barrier = Arc::new(Barrier::new(4));
    let work = |thread: usize| {
        let (fixture, barrier) = (Arc::clone(&fixture), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            for round in 0..200 {
                let what = format!("{}", (thread + round) % 7);
                let bytes = what.repeat(3000);
                match round % 50 {
                    49 => fixture.cache.clear().unwrap(),
                    _ => assert_eq!(all(&fixture.keep(&what, bytes.as_bytes())), bytes.as_bytes()),
                }
                let found = fixture.get(&what);
                assert!(found.is_none_or(|found| found == bytes.as_bytes()));
            }
        })
    };
    let threads: Vec<_> = (0..4).map(work).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    fixture.keep("last", b"x");
    let sizes = fixture
        .names()
        .into_iter()
        .map(|name| std::fs::metadata(fixture.path().join(name)).unwrap().len());
    assert!(sizes.sum::<u64>() <= 10_000);
}
