//! Two hosts with real stores, and one bucket.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::Came;
use super::Sent;
use super::Sync;
use crate::bucket::Bucket;
use crate::bucket::BucketUrl;
use crate::bucket::Deadline;
use crate::remote::Home;
use crate::remote::Moment;
use crate::remote::PushLock;
use crate::remote::files::tests::scene::Scene;
use crate::remote::files::tests::scene::TOOL;
use crate::remote::files::tests::scene::soon;

struct Host {
    scene: Scene,
    bucket: Bucket,
    home: Home,
    lock: PushLock,
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

impl Host {
    fn new(bucket: &Bucket) -> Self {
        let scene = Scene::new();
        let id = bucket.found(false, deadline()).unwrap().id;
        let home = Home::open(&scene.store, id).unwrap();
        let lock = home.lock().unwrap().unwrap();
        Self { scene, bucket: bucket.clone(), home, lock }
    }

    fn sync<T>(&self, with: impl FnOnce(&Sync<'_>) -> T) -> T {
        with(&Sync {
            store: &self.scene.store,
            bucket: &self.bucket,
            home: &self.home,
            lock: &self.lock,
            now: &Moment::now,
            deadline: &deadline,
        })
    }

    /// Publishes all: what was written a moment ago is complete a moment later.
    fn push(&self) -> Sent {
        soon(|| {
            let sent = self.sync(|sync| sync.push(&self.scene.conversation)).unwrap();
            assert_eq!(sent.left, BTreeMap::new());
            (sent.live == 0).then_some(sent)
        })
    }

    fn pull(&self) -> Came {
        let came = self.sync(|sync| sync.pull(&self.scene.conversation)).unwrap();
        assert!(came.error.is_none() && came.left.is_empty(), "{came:?}");
        came
    }

    fn sight(&self) -> BTreeMap<String, Vec<u8>> {
        let names = self.scene.names().into_iter();
        names.map(|name| (name.clone(), fs::read(self.scene.at(&name)).unwrap())).collect()
    }
}

fn two_hosts() -> (Host, Host) {
    let bucket = Bucket::open(&BucketUrl::parse("memory:").unwrap(), []).unwrap();
    (Host::new(&bucket), Host::new(&bucket))
}

#[test]
fn what_one_host_stores_another_one_has() {
    let (one, other) = two_hosts();
    let large = "a line of a log that is long\n".repeat(100_000);
    one.scene.put("small", "few bytes\n");
    one.scene.put("large", &large);
    one.scene.put("empty", "");
    one.push();
    other.pull();
    assert_eq!(other.sight(), one.sight());
    assert_eq!(other.sight().len(), 3);
    let at = format!("{TOOL}/large.txt");
    let (mine, theirs) = (one.scene.record(&at).unwrap(), other.scene.record(&at).unwrap());
    assert_eq!(theirs.analysis, mine.analysis);
    assert_eq!((theirs.created, theirs.provenance), (mine.created, mine.provenance));
    assert_eq!(other.pull().steps, 0, "there is nothing more to do");
    assert!(other.push().segments.is_empty(), "what came is nothing new");
}

#[test]
fn a_rename_and_a_removal_are_done_elsewhere_too() {
    let (one, other) = two_hosts();
    one.scene.put("a", "first\n");
    one.scene.put("b", "second\n");
    one.push();
    other.pull();
    let at = |host: &Host, name: &str| host.scene.at(&format!("{TOOL}/{name}"));
    fs::rename(at(&other, "a.txt"), at(&other, "c.txt")).unwrap();
    fs::remove_file(at(&other, "b.txt")).unwrap();
    other.push();
    one.pull();
    assert_eq!(one.sight(), other.sight());
    assert_eq!(one.sight().into_keys().collect::<Vec<_>>(), [format!("{TOOL}/c.txt")]);
}

#[test]
fn two_with_one_name_are_both_there() {
    let (one, other) = two_hosts();
    one.scene.put("x", "of one\n");
    other.scene.put("x", "of the other\n");
    one.push();
    other.push();
    for _ in 0..2 {
        one.pull();
        other.pull();
    }
    assert_eq!(one.sight(), other.sight());
    let texts: Vec<_> = one.sight().into_values().collect();
    assert!(texts.len() == 2 && texts.contains(&b"of one\n".to_vec()), "{:?}", one.sight());
}

#[test]
fn a_removal_does_not_take_what_its_host_had_not_seen() {
    let (one, other) = two_hosts();
    one.scene.put("x", "old\n");
    one.push();
    other.pull();
    one.scene.put("x", "new\n");
    one.push();
    fs::remove_file(other.scene.at(&format!("{TOOL}/x.txt"))).unwrap();
    other.push();
    for host in [&one, &other] {
        host.pull();
        let texts: Vec<_> = host.sight().into_values().collect();
        assert_eq!(texts, [b"new\n".to_vec()]);
    }
}

#[test]
fn a_copy_of_a_host_publishes_under_a_name_of_its_own() {
    let (one, other) = two_hosts();
    one.scene.put("a", "before\n");
    one.push();
    let notes = one.scene.store.root().join("remote");
    let copy = one.scene.store.root().join("copy");
    copy_all(&notes, &copy);
    one.scene.put("b", "after\n");
    one.push();
    fs::remove_dir_all(&notes).unwrap();
    fs::rename(&copy, &notes).unwrap();
    let id = one.bucket.found(false, deadline()).unwrap().id;
    let one = Host { home: Home::open(&one.scene.store, id).unwrap(), ..one };
    one.scene.put("c", "later\n");
    one.push();
    other.pull();
    one.pull();
    assert_eq!(one.sight(), other.sight());
    assert_eq!(one.sight().len(), 3);
}

fn copy_all(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy_all(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}
