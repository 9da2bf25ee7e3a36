//! Artifacts whose bytes stay in the bucket, read through a store.

mod evict;
use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::remote::files::tests::scene::{Scene, TOOL, soon};
use crate::remote::tests::bucket::{TestBucket, soon as in_time};
use crate::remote::tests::host::BUCKET;
use crate::remote::{Downloads, Moment, PushLock, Synchronizer};
use ctxfs_core::model::place_before_line;

pub(crate) struct Host {
    pub(crate) scene: Scene,
    pub(crate) bucket: Arc<TestBucket>,
    pub(crate) home: Home,
    lock: PushLock,
}

impl Host {
    fn new(bucket: &Arc<TestBucket>) -> Self {
        let scene = Scene::new();
        let id = BUCKET.parse().unwrap();
        let home = Home::open(&scene.store, id).unwrap();
        let lock = home.lock().unwrap().unwrap();
        Self { scene, bucket: Arc::clone(bucket), home, lock }
    }

    pub(crate) fn sync<T>(&self, with: impl FnOnce(&Synchronizer<'_>) -> T) -> T {
        let (store, home, lock) = (&self.scene.store, &self.home, &self.lock);
        let (now, deadline) = (&Moment::now, &in_time);
        with(&Synchronizer { store, bucket: &*self.bucket, home, lock, now, deadline })
    }

    pub(crate) fn push(&self) {
        soon(|| {
            let sent = self.sync(|sync| sync.push(&self.scene.conversation)).unwrap();
            assert_eq!(sent.left, BTreeMap::new());
            (sent.live.is_empty()).then_some(())
        });
    }

    pub(crate) fn hear(&self) {
        let came =
            self.sync(|sync| sync.pull(&self.scene.conversation, Downloads::OnRead)).unwrap();
        assert!(came.error.is_none() && came.left.is_empty(), "{came:?}");
    }

    pub(crate) fn far(&self) -> RemoteArtifacts {
        let id = BUCKET.parse().unwrap();
        let home = Home::open(&self.scene.store, id).unwrap();
        let bucket = Arc::clone(&self.bucket) as Arc<dyn Objects + Send>;
        RemoteArtifacts::new(bucket, home, 1 << 30, PATIENCE).unwrap()
    }

    pub(crate) fn open(&self, far: &RemoteArtifacts, name: &str) -> io::Result<FarFile> {
        let path = RelPath::new(format!("{TOOL}/{name}.txt")).unwrap();
        let artifact = self.scene.conversation.far(&path).unwrap().unwrap();
        far.open(self.scene.conversation.id(), &artifact.record)
    }
}

pub(crate) fn large() -> String {
    (0..200_000)
        .map(|line| format!("line {line} of a log that is long\n"))
        .collect::<Vec<_>>()
        .concat()
}

pub(crate) fn two_hosts() -> (Host, Host) {
    let bucket = Arc::new(TestBucket::new());
    (Host::new(&bucket), Host::new(&bucket))
}

/// Returns two hosts and the text of the large output. The second host has pulled the records of a
/// small output and of a large one.
fn heard() -> (Host, Host, String) {
    let (one, other) = two_hosts();
    let large = large();
    one.scene.put("small", "few bytes\n");
    one.scene.put("large", &large);
    one.push();
    other.hear();
    (one, other, large)
}

#[test]
fn of_many_artifacts_each_is_heard_of() {
    let (one, other) = two_hosts();
    // This number of records exceeds one batch.
    let names: BTreeSet<String> = (0..1200).map(|number| format!("{TOOL}/{number}.txt")).collect();
    for name in &names {
        one.scene.write(name, "few bytes\n");
    }
    one.push();
    other.hear();
    let far = other.scene.conversation.far_artifacts(None).unwrap();
    let known: BTreeSet<String> = far.into_iter().map(|far| far.record.path).collect();
    assert_eq!(known, names);
    let again = other.sync(|sync| sync.pull(&other.scene.conversation, Downloads::OnRead)).unwrap();
    assert_eq!(again.steps, 0, "all of them are agreed upon");
}

#[test]
fn bytes_stay_in_the_bucket_until_somebody_reads_them() {
    let (_one, other, large) = heard();
    assert!(!other.scene.has(&format!("{TOOL}/large.txt")));
    assert_eq!(other.scene.conversation.far_artifacts(None).unwrap().len(), 2);
    other.bucket.made();
    let far = other.far();
    let small = other.open(&far, "small").unwrap().content;
    assert_eq!(small.bytes(0, 100).unwrap(), b"few bytes\n");
    let content = other.open(&far, "large").unwrap().content;
    assert_eq!(other.bucket.made(), Vec::<String>::new(), "it came with its record");
    let middle = large.len() / 2;
    let read = content.bytes(middle as u64, 50).unwrap();
    assert_eq!(read, large.as_bytes()[middle..middle + 50]);
    assert_eq!(other.bucket.made(), ["get", "get"], "the table and a block");
    assert_eq!(content.bytes(middle as u64 + 9, 9).unwrap(), read[9..18]);
    let again = other.open(&other.far(), "large").unwrap().content;
    assert_eq!(again.bytes(middle as u64, 50).unwrap(), read);
    assert!(other.bucket.made().is_empty(), "both are kept");
    assert_eq!(again.bytes(0, large.len()).unwrap(), large.as_bytes());
    let fetches = other.bucket.made().len();
    assert!(fetches <= 4, "{fetches}: a sequential reader has more and more fetched at once");
    other.hear();
    assert!(other.sync(|sync| sync.push(&other.scene.conversation)).unwrap().segments.is_empty());
}

#[test]
fn the_place_of_a_line_is_known_without_the_bytes_before() {
    let (one, other) = two_hosts();
    let large = large();
    one.scene.put("large", &large);
    one.push();
    other.hear();
    let far = other.far();
    let content = other.open(&far, "large").unwrap().content;
    let place = place_before_line(&*content, 150_000).unwrap();
    let before = &large.as_bytes()[..place.offset as usize];
    assert_eq!(memchr::memchr_iter(b'\n', before).count() as u64, place.newlines);
    assert!(place.newlines < 150_000 && place.newlines > 100_000, "{place:?}");
    let end = content.lines_before(content.len()).unwrap();
    assert!(end.offset >= content.len() - (1 << 20));
}

#[test]
fn without_the_bucket_reads_fail_and_then_go_on() {
    let (one, other) = two_hosts();
    one.scene.put("large", &large());
    one.push();
    other.hear();
    let far = other.far();
    other.bucket.fail_after(0, false);
    let content = other.open(&far, "large").unwrap().content;
    let middle = content.len() / 2;
    assert!(content.bytes(middle, 10).unwrap_err().to_string().contains("Nothing is lost"));
    assert_eq!(content.bytes(0, 6).unwrap(), b"line 0", "its beginning came with its record");
    other.bucket.work();
    assert_eq!(content.bytes(middle, 10).unwrap().len(), 10);
}

#[test]
fn what_has_left_the_bucket_is_stale() {
    let (_one, other, _large) = heard();
    let content = other.open(&other.far(), "large").unwrap().content;
    let objects = format!("conversations/{}/objects/", other.scene.conversation.id().to_text());
    let keys = other.bucket.names(&objects).into_iter().map(|name| objects.clone() + &name);
    let gone = other.bucket.delete(keys.collect(), in_time());
    assert!(gone.len() == 2 && gone.iter().all(|(_, outcome)| outcome.is_ok()), "{gone:?}");
    let read = || content.bytes(content.len() / 2, 1).unwrap_err();
    assert!(read().to_string().contains("is its disk mounted?"), "there is no bucket");
    let mark = format!(r#"{{"format":1,"id":"{BUCKET}","write_once":false}}"#);
    other.bucket.create("ctxfs.json", &Bytes::from(mark), in_time()).unwrap();
    let error = read();
    assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
    assert_eq!(content.bytes(0, 6).unwrap(), b"line 0", "its beginning came with its record");
}

#[test]
fn a_wrong_block_is_never_shown() {
    let (one, other) = two_hosts();
    one.scene.put("large", &large());
    one.push();
    other.hear();
    let far = other.far();
    let content = other.open(&far, "large").unwrap().content;
    let middle = content.len() / 2;
    let read = content.bytes(middle, 10).unwrap();
    let blocks = other.scene.store.root().join("remote/000102030405060708090a0b0c0d0e0f/blocks");
    for entry in std::fs::read_dir(&blocks).unwrap() {
        std::fs::write(entry.unwrap().path(), "spoilt").unwrap();
    }
    let again = other.open(&other.far(), "large").unwrap().content;
    assert_eq!(again.bytes(middle, 10).unwrap(), read, "the cache is not trusted");
    let id = other.scene.conversation.id();
    let objects = format!("conversations/{}/objects/", id.to_text());
    for name in other.bucket.names(&objects).iter().filter(|name| !name.ends_with(".blocks")) {
        other.bucket.replace(&format!("{objects}{name}"), &vec![0; 1 << 20]);
    }
    let rest = other.open(&other.far(), "large").unwrap().content;
    assert!(rest.bytes(2 << 20, 10).is_err());
}

#[test]
fn many_readers_of_one_block_have_it_fetched_once() {
    let (one, other) = two_hosts();
    one.scene.put("large", &large());
    one.push();
    other.hear();
    other.bucket.made();
    let (far, seen) = (other.far(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let content = other.open(&far, "large").unwrap().content;
                seen.lock().push(content.bytes(2 << 20, 20).unwrap());
            });
        }
    });
    assert_eq!(other.bucket.made().len(), 2);
    let seen = seen.into_inner();
    assert!(seen.len() == 8 && seen.iter().all(|bytes| *bytes == seen[0]));
}

#[test]
fn all_can_be_had_here() {
    let (one, other, large) = heard();
    let far = other.far();
    let fetched = other.sync(|sync| sync.fetch_all(&other.scene.conversation, &far)).unwrap();
    assert!(fetched.0 == 2 && fetched.1.is_empty(), "{fetched:?}");
    assert_eq!(other.scene.read(&format!("{TOOL}/large.txt")), large);
    other.hear();
    let sent = soon(|| {
        let sent = other.sync(|sync| sync.push(&other.scene.conversation)).unwrap();
        (sent.live.is_empty()).then_some(sent)
    });
    assert!(sent.segments.is_empty(), "what came is nothing new");
    std::fs::remove_file(other.scene.at(&format!("{TOOL}/large.txt"))).unwrap();
    soon(|| {
        let sent = other.sync(|sync| sync.push(&other.scene.conversation)).unwrap();
        (!sent.segments.is_empty()).then_some(())
    });
    one.hear();
    assert!(!one.scene.has(&format!("{TOOL}/large.txt")), "its removal is one everywhere");
}

#[test]
fn the_ends_of_a_large_one_come_with_its_record() {
    let (one, other) = two_hosts();
    let large = large();
    one.scene.put("large", &large);
    one.push();
    other.hear();
    other.bucket.fail_after(0, false);
    let content = other.open(&other.far(), "large").unwrap().content;
    let end = large.len() - 50_000;
    assert_eq!(content.bytes(0, 64 << 10).unwrap(), large.as_bytes()[..64 << 10]);
    assert_eq!(content.bytes(end as u64, 50_000).unwrap(), large.as_bytes()[end..]);
    let all = content.lines_before(content.len()).unwrap();
    assert_eq!((all.offset, all.newlines), (large.len() as u64, 200_000));
    assert!(content.bytes(2 << 20, 1).is_err());
    other.bucket.work();
    assert_eq!(content.bytes(0, large.len()).unwrap(), large.as_bytes());
}

/// Pushes a large artifact in a segment so large that no bytes of the artifact arrive with its
/// record. Returns the text of the artifact.
fn push_large_segment(one: &Host) -> String {
    let large = large();
    one.scene.put("large", &large);
    for number in 0..8 {
        let mut random = vec![0; 240 << 10];
        blake3::Hasher::new().update(&[number]).finalize_xof().fill(&mut random);
        let text: String = random.iter().map(|byte| char::from(b'!' + byte % 90)).collect();
        one.scene.put(&number.to_string(), &text);
    }
    one.push();
    large
}

#[test]
fn without_the_bucket_nobody_waits_for_one_after_the_other() {
    let (one, other) = two_hosts();
    let large = push_large_segment(&one);
    other.hear();
    let far = other.far();
    let middle = other.open(&far, "large").unwrap().content;
    assert_eq!(middle.bytes(2 << 20, 10).unwrap(), large.as_bytes()[2 << 20..][..10]);
    other.bucket.fail_after(0, false);
    other.bucket.made();
    let content = other.open(&far, "large").unwrap().content;
    assert!(content.bytes(0, 6).unwrap_err().to_string().contains("Nothing is lost"));
    assert!(other.bucket.made().len() <= 1, "its object is not asked for, too");
    other.bucket.work();
    assert_eq!(content.bytes(0, 6).unwrap(), b"line 0");
    other.bucket.fail_after(0, false);
    let again = other.open(&far, "large").unwrap().content;
    assert_eq!(again.bytes(0, 6).unwrap(), b"line 0", "the block is here by now");
}

#[test]
fn of_a_large_segment_they_cost_a_request() {
    let (one, other) = two_hosts();
    let large = push_large_segment(&one);
    other.hear();
    other.bucket.made();
    let content = other.open(&other.far(), "large").unwrap().content;
    assert_eq!(content.bytes(0, 6).unwrap(), b"line 0");
    let end = large.len() - 7;
    assert_eq!(content.bytes(end as u64, 7).unwrap(), large.as_bytes()[end..]);
    assert_eq!(other.bucket.made(), ["get"], "one for both ends");
}

#[test]
fn spoilt_parts_are_not_shown() {
    let (one, other) = two_hosts();
    let large = large();
    one.scene.put("large", &large);
    one.push();
    other.hear();
    let far = other.far();
    let log = other
        .scene
        .store
        .root()
        .join("remote/000102030405060708090a0b0c0d0e0f")
        .join("conversations")
        .join(other.scene.conversation.id().to_text())
        .join("log");
    let segment = std::fs::read_dir(log).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&segment).unwrap();
    // The last frames contain the parts and the end of the archive.
    let middle = bytes.len() - 2000;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    other.bucket.made();
    let content = other.open(&far, "large").unwrap().content;
    assert_eq!(content.bytes(0, 6).unwrap(), b"line 0");
    assert_eq!(other.bucket.made(), ["get", "get"], "the object has them");
}
