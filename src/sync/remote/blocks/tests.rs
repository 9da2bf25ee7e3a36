use std::time::Duration;

use tempfile::TempDir;

use super::*;

fn cache(most: u64) -> (TempDir, BlockCache) {
    let temporary = tempfile::tempdir().unwrap();
    let cache =
        BlockCache::new(Dir::open(temporary.path()).unwrap(), (most, Limits::default())).unwrap();
    (temporary, cache)
}

#[test]
fn what_was_put_is_there_and_what_was_forgotten_is_not() {
    let (temporary, cache) = cache(1000);
    assert_eq!(cache.get("a"), None);
    assert!(cache.put("a", b"one") && cache.put("a", b"two"));
    assert_eq!(cache.get("a").as_deref(), Some(&b"two"[..]));
    cache.forget("a");
    assert_eq!(cache.get("a"), None);
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
}

#[test]
fn those_used_longest_ago_go() {
    let (temporary, cache) = cache(1000);
    for number in 0..10_u64 {
        let name = number.to_string();
        cache.put(&name, &[0; 100]);
        let used = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        let file = std::fs::File::options().write(true).open(temporary.path().join(name)).unwrap();
        file.set_modified(used).unwrap();
    }
    assert!(cache.get("0").is_some(), "and so it was used now");
    cache.put("new", &[0; 100]);
    assert_eq!(cache.get("1"), None);
    assert!(cache.get("0").is_some() && cache.get("9").is_some() && cache.get("new").is_some());
    let again =
        BlockCache::new(Dir::open(temporary.path()).unwrap(), (1000, Limits::default())).unwrap();
    assert!(again.kept.load(Relaxed) <= 900);
}

#[test]
fn where_writers_need_the_room_nothing_is_kept() {
    let (temporary, mut cache) = cache(1000);
    assert!(cache.put("a", b"one"));
    cache.limits.min_free = u64::MAX;
    assert!(!cache.put("b", b"two"));
    assert_eq!((cache.get("a"), cache.get("b")), (None, None), "what was kept makes room");
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
}

#[test]
fn what_finds_no_room_is_not_kept() {
    let (temporary, cache) = cache(1000);
    std::fs::remove_dir(temporary.path()).unwrap();
    assert!(!cache.put("a", b"one"));
    assert_eq!(cache.get("a"), None);
    std::fs::create_dir(temporary.path()).unwrap();
}
