//! Buckets that differ from the one in the local state.

use super::*;

#[test]
fn a_directory_whose_disk_is_not_mounted_is_no_bucket() {
    let shared = tempfile::tempdir().unwrap();
    let (path, away) = (shared.path().join("bucket"), shared.path().join("away"));
    let url = format!("file://{}", path.display());
    let bucket = Arc::new(TestBucket::at(&url));
    let one = Host::of(&bucket, TierOptions { url, ..options() });
    one.put("x", "some bytes\n");
    one.send();
    fs::rename(&path, &away).unwrap();
    one.put("y", "more bytes\n");
    for is_there in [false, true] {
        if is_there {
            fs::create_dir(&path).unwrap();
        }
        let x = RelPath::new(format!("{TOOL}/x.txt")).unwrap();
        assert!(matches!(one.tier.evictor(one.id())(&x), EvictionResult::Kept(_)));
        one.try_to_send();
        assert!(one.error().contains("is its disk mounted?"), "{}", one.error());
        assert_eq!(one.waiting(), 1);
        one.meet();
        assert_eq!(path.exists(), is_there);
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "nothing is begun there");
    assert!(one.file("x").exists());
    fs::remove_dir(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    soon(|| {
        one.try_to_send();
        (one.waiting() == 0).then_some(())
    });
    assert_eq!(one.error(), "");
}

#[test]
fn after_a_failure_the_bucket_says_again_who_it_is() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.put("x", "some bytes\n");
    one.send();
    let mark = bucket.get("ctxfs.json", None, soon_there()).unwrap();
    bucket.fail_after(0, false);
    one.put("y", "more bytes\n");
    one.try_to_send();
    bucket.work();
    let before = bucket.names("conversations/");
    let other = br#"{"format":1,"id":"000000000000000000000000000000ff","write_once":false}"#;
    bucket.replace("ctxfs.json", other);
    for _ in 0..3 {
        one.try_to_send();
        assert!(one.error().contains("is the right disk mounted?"), "{}", one.error());
    }
    bucket.delete(vec!["ctxfs.json".to_owned()], soon_there());
    one.try_to_send();
    assert!(one.error().contains("has no ctxfs.json"), "{}", one.error());
    assert_eq!((one.waiting(), bucket.names("conversations/")), (1, before));
    bucket.create("ctxfs.json", &mark, soon_there()).unwrap();
    soon(|| {
        one.try_to_send();
        (one.waiting() == 0).then_some(())
    });
}
