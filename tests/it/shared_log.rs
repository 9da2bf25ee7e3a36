//! The message log of a conversation that hosts share through a bucket, as a mount of one of them
//! shows it.

use std::fs;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ctxfs_core::model::Component;
use ctxfs_store::{Conversation, Store};
use ctxfs_sync::bucket::{Bucket, BucketUrl, Deadline, Objects as _};
use ctxfs_sync::remote::{Downloads, Home, Moment, PushLock, Synchronizer};

use crate::support::{Mode, TestMount, TestStore};

/// A store that shares the conversation `c7`.
struct Host {
    store: Store,
    conversation: Arc<Conversation>,
    bucket: Bucket,
    home: Home,
    lock: PushLock,
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

fn line(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")
}

fn lines(texts: &[&str]) -> String {
    texts.iter().map(|text| line(text)).collect()
}

fn append(log: &Path, text: &str) {
    let mut log = File::options().append(true).create(true).open(log).unwrap();
    log.write_all(line(text).as_bytes()).unwrap();
}

impl Host {
    fn of(store: &TestStore, bucket: &Bucket) -> Self {
        let store = Store::open(&store.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let id = bucket.found(false, deadline()).unwrap().id;
        let home = Home::open(&store, id).unwrap();
        let lock = home.lock().unwrap().unwrap();
        Self { store, conversation, bucket: bucket.clone(), home, lock }
    }

    fn sync(&self) -> Synchronizer<'_> {
        let (store, bucket, home, lock) = (&self.store, &self.bucket, &self.home, &self.lock);
        Synchronizer { store, bucket, home, lock, now: &Moment::now, deadline: &deadline }
    }

    fn push(&self) {
        self.sync().push(&self.conversation).unwrap();
    }

    fn pull(&self) {
        let came = self.sync().pull(&self.conversation, Downloads::Immediate).unwrap();
        assert!(came.error.is_none(), "{came:?}");
    }

    /// Says something without a mount, and publishes it.
    fn say(&self, text: &str) {
        let log = self.store.root().join("context/c7/history/messages.jsonl");
        append(&log, text);
        self.push();
    }
}

/// A mounted host, the other one, and the log in the mount.
struct Scene {
    mount: TestMount,
    here: Host,
    there: Host,
    other: TestStore,
    log: PathBuf,
}

fn scene(mode: Mode) -> Scene {
    let mount = TestMount::new(mode);
    mount.tool("c7");
    let url = format!("file://{}", mount.store().scratch("bucket").display());
    let bucket = Bucket::open(&BucketUrl::parse(&url).unwrap(), []).unwrap();
    let other = TestStore::new();
    let (here, there) = (Host::of(mount.store(), &bucket), Host::of(&other, &bucket));
    let log = mount.path().join("c7/history/messages.jsonl");
    Scene { mount, here, there, other, log }
}

#[test]
fn a_mount_shows_what_all_hosts_said() {
    for mode in Mode::ALL {
        let Scene { mount, here, there, other, log } = &scene(mode);
        append(log, "first");
        here.push();
        there.pull();
        there.say("second");
        here.pull();
        let all = lines(&["first", "second"]);
        assert_eq!(fs::metadata(log).unwrap().len(), all.len() as u64);
        assert_eq!(fs::read_to_string(log).unwrap(), all);
        append(log, "third");
        let all = lines(&["first", "second", "third"]);
        assert_eq!(fs::read_to_string(log).unwrap(), all);
        let tail = log.with_file_name("messages.jsonl.tail");
        assert_eq!(fs::metadata(&tail).unwrap().len(), all.len() as u64);
        assert_eq!(fs::read_to_string(&tail).unwrap(), all);
        let array = fs::read(log.with_file_name("messages.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Vec<serde_json::Value>>(&array).unwrap().len(), 3);
        let plain = mount.store().path().join("context/c7/history/messages.jsonl");
        assert_eq!(fs::read_to_string(plain).unwrap(), lines(&["first", "third"]));
        here.push();
        there.pull();
        let told = other.ctxfs("log", &["c7", "--json"]).stdout();
        assert_eq!(String::from_utf8(told).unwrap(), all);
        let archive = other.scratch("archive").join("c7.tar.zst");
        other.ctxfs("export", &["c7", "-o"]).arg(&archive).stdout();
        let elsewhere = TestStore::new();
        elsewhere.ctxfs("import", &[]).arg(&archive).stdout();
        let imported = elsewhere.path().join("context/c7/history/messages.jsonl");
        assert_eq!(fs::read_to_string(imported).unwrap(), all);
    }
}

#[test]
fn who_has_the_log_open_keeps_it_when_a_message_comes_late() {
    for mode in Mode::ALL {
        let Scene { mount: _mount, here, there, log, .. } = &scene(mode);
        append(log, "mine");
        let mut old = File::open(log).unwrap();
        let before = old.metadata().unwrap();
        there.say("earlier");
        here.pull();
        let now = fs::metadata(log).unwrap();
        assert_ne!(now.ino(), before.ino());
        assert_eq!(fs::read_to_string(log).unwrap(), lines(&["earlier", "mine"]));
        assert_eq!(now.len(), lines(&["earlier", "mine"]).len() as u64);
        let mut text = String::new();
        old.read_to_string(&mut text).unwrap();
        assert_eq!(text, line("mine"));
        let mut again = File::options().append(true).open(log).unwrap();
        again.write_all(line("more").as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(log).unwrap(), lines(&["earlier", "mine", "more"]));
    }
}

#[test]
fn one_host_alone_shows_its_file_byte_for_byte() {
    let Scene { mount, here, log, .. } = &scene(Mode::Passthrough);
    for text in ["a", "b", "c"] {
        append(log, text);
        here.push();
        here.pull();
    }
    let plain = mount.store().path().join("context/c7/history/messages.jsonl");
    assert_eq!(fs::read(log).unwrap(), fs::read(plain).unwrap());
    assert!(!mount.store().path().join("remote/messages/c7/published.jsonl").exists());
}
