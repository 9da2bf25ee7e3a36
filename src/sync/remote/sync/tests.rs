//! Two hosts with real stores that share one bucket.

mod restored;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use super::{PullReport, Sent, Synchronizer};
use crate::bucket::{Bucket, BucketUrl, Deadline, LINE_BYTES, Objects as _};
use crate::remote::files::tests::scene::{Scene, TOOL, soon};
use crate::remote::{
    Downloads, Home, LeftOut, Moment, Notes, PublishedMessages, PushLock, standing,
};
use ctxfs_core::model::{Content as _, RelPath};
use ctxfs_store::RemovalOutcome;
use ctxfs_store::message::log_of;

pub(crate) struct Host {
    pub(crate) scene: Scene,
    pub(crate) bucket: Bucket,
    pub(crate) home: Home,
    pub(crate) lock: PushLock,
}

pub(crate) fn deadline() -> Deadline {
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

    /// Creates another host of the same bucket.
    pub(crate) fn beside(other: &Self) -> Self {
        Self::new(&other.bucket)
    }

    pub(crate) fn sync<T>(&self, with: impl FnOnce(&Synchronizer<'_>) -> T) -> T {
        with(&Synchronizer {
            store: &self.scene.store,
            bucket: &self.bucket,
            home: &self.home,
            lock: &self.lock,
            now: &Moment::now,
            deadline: &deadline,
        })
    }

    pub(crate) fn notes(&self) -> Notes {
        self.home.conversation(self.scene.conversation.id()).unwrap()
    }

    /// Pushes until nothing is left. A file that was just written counts as complete only a moment
    /// later.
    pub(crate) fn push(&self) -> Sent {
        soon(|| {
            let sent = self.sync(|sync| sync.push(&self.scene.conversation)).unwrap();
            assert_eq!(sent.left, BTreeMap::new());
            sent.live.is_empty().then_some(sent)
        })
    }

    pub(crate) fn pull(&self) -> PullReport {
        let came =
            self.sync(|sync| sync.pull(&self.scene.conversation, Downloads::Immediate)).unwrap();
        assert!(came.error.is_none() && came.left.is_empty(), "{came:?}");
        came
    }

    pub(crate) fn sight(&self) -> BTreeMap<String, Vec<u8>> {
        let names = self.scene.names().into_iter();
        names.map(|name| (name.clone(), fs::read(self.scene.at(&name)).unwrap())).collect()
    }
}

pub(crate) fn two_hosts() -> (Host, Host) {
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
fn where_nothing_changed_nothing_is_read() {
    let (one, other) = two_hosts();
    one.scene.put("x", "some bytes\n");
    let segment = one.push().segments[0];
    let spoil = || other.notes().keep_segment(segment, b"no segment").unwrap();
    let refused = || {
        other
            .sync(|sync| sync.pull(&other.scene.conversation, Downloads::OnRead))
            .unwrap()
            .refused
            .len()
    };
    // The second push has nothing to do after the first.
    assert_eq!((refused(), refused()), (0, 0));
    spoil();
    assert_eq!(refused(), 0);
    other.scene.put("y", "other bytes\n");
    assert_eq!(refused(), 1);
    assert_eq!(refused(), 1, "it may live, so nothing is settled");
}

#[test]
fn other_times_send_nothing_again() {
    let (one, other) = two_hosts();
    one.scene.put("x", "some bytes\n");
    one.scene.write("catalog/index.json", "{}");
    one.push();
    other.pull();
    for host in [&one, &other] {
        for path in [format!("{TOOL}/x.txt"), "catalog/index.json".to_owned()] {
            let file = fs::File::options().write(true).open(host.scene.at(&path)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        }
        assert!(host.push().segments.is_empty());
        assert_eq!(host.pull().steps, 0);
    }
    fs::write(one.scene.at("catalog/index.json"), "[]").unwrap();
    assert_eq!(one.push().segments.len(), 1, "other bytes of the same size");
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
fn what_is_elsewhere_gets_the_directory_of_its_new_name() {
    let (one, other) = two_hosts();
    let [moved, kept] = ["moved/a", "moved/b"].map(|name| format!("{TOOL}/{name}.txt"));
    let hear = || {
        drop(other.sync(|sync| sync.pull(&other.scene.conversation, Downloads::OnRead)).unwrap());
    };
    one.scene.put("a", "first\n");
    one.push();
    hear();
    fs::create_dir(one.scene.at(&format!("{TOOL}/moved"))).unwrap();
    fs::rename(one.scene.at(&format!("{TOOL}/a.txt")), one.scene.at(&moved)).unwrap();
    one.push();
    hear();
    let far = |path: &str| other.scene.conversation.far(&RelPath::new(path).unwrap()).unwrap();
    assert!(far(&moved).is_some() && other.scene.has(&format!("{TOOL}/moved")));
    // The directory stays even when the last file leaves it.
    one.scene.write(&kept, "second\n");
    one.push();
    other.pull();
    fs::remove_file(one.scene.at(&kept)).unwrap();
    one.push();
    hear();
    assert!(!other.scene.has(&kept) && other.scene.has(&format!("{TOOL}/moved")));
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

/// Methods to write messages, and to read them as readers of the host do.
impl Host {
    fn say(&self, text: &str) {
        let log = self.scene.at("history/messages.jsonl");
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n").as_bytes())
            .unwrap();
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        let others = PublishedMessages::of(&self.scene.store);
        let log = log_of(&self.scene.conversation, Some(&others)).unwrap().unwrap();
        let text = String::from_utf8(log.bytes(0, log.len() as usize).unwrap()).unwrap();
        let content = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["content"].as_str().unwrap().to_owned()
        };
        text.lines().map(content).collect()
    }
}

#[test]
fn all_hosts_see_the_messages_in_one_order() {
    let (one, other) = two_hosts();
    one.say("first");
    one.push();
    other.pull();
    assert_eq!(other.heard(), ["first"]);
    other.say("second");
    other.push();
    one.say("third");
    one.pull();
    assert_eq!(one.heard(), ["first", "second", "third"], "what is only here comes last");
    one.push();
    other.pull();
    one.pull();
    assert_eq!(one.heard(), other.heard());
    assert_eq!(one.heard(), ["first", "second", "third"]);
    assert_eq!(other.scene.read("history/messages.jsonl").lines().count(), 1);
}

#[test]
fn a_host_that_begins_with_the_words_of_another_is_heard() {
    let (one, other) = two_hosts();
    one.say("go on");
    one.push();
    other.pull();
    other.say("go on");
    other.push();
    one.pull();
    assert_eq!(one.heard(), ["go on", "go on"]);
}

#[test]
fn a_host_that_is_alone_reads_the_file_that_it_writes() {
    let (one, other) = two_hosts();
    for text in ["a", "b", "c"] {
        one.say(text);
        one.push();
        one.pull();
        assert_eq!(one.heard().last().unwrap(), text);
    }
    assert!(!one.scene.store.root().join("remote/messages/c7/published.jsonl").exists());
    other.pull();
    assert_eq!(other.heard(), ["a", "b", "c"]);
}

/// Returns two hosts. The first has read the messages `first` and `second`, but not `unseen`.
fn talking_hosts() -> (Host, Host) {
    let (one, other) = two_hosts();
    one.scene.put("a", "an output\n");
    one.say("first");
    one.push();
    other.pull();
    other.say("second");
    other.push();
    one.pull();
    other.say("unseen");
    other.push();
    (one, other)
}

#[test]
fn a_log_that_is_replaced_replaces_what_was_seen_with_it() {
    let (one, other) = talking_hosts();
    let log = one.scene.at("history/messages.jsonl");
    let new = one.scene.at("history/new");
    fs::write(&new, "{\"role\":\"user\",\"content\":\"edited\"}\n").unwrap();
    fs::rename(&new, &log).unwrap();
    assert_eq!(one.heard(), ["edited"]);
    one.pull();
    assert_eq!(one.heard(), ["edited"], "it is not published yet");
    one.push();
    for host in [&one, &other] {
        host.pull();
        assert_eq!(host.heard(), ["unseen", "edited"]);
    }
    fs::remove_file(&log).unwrap();
    one.push();
    other.pull();
    assert_eq!(other.heard(), [""; 0]);
}

#[test]
fn what_a_rule_of_keeping_removed_stays_elsewhere() {
    let (one, other) = two_hosts();
    one.scene.put("a", "an output\n");
    one.push();
    other.pull();
    assert_eq!(one.scene.sweep("a"), RemovalOutcome::Removed);
    assert!(one.push().segments.is_empty());
    other.pull();
    assert_eq!((one.sight().len(), other.sight().len()), (0, 1));
    // The name comes back. The bytes are fetched only on demand.
    let came = one.sync(|sync| sync.pull(&one.scene.conversation, Downloads::OnRead)).unwrap();
    assert!(came.added == 1 && !one.scene.at(&format!("{TOOL}/a.txt")).exists());
    assert_eq!(one.scene.conversation.far_artifacts(None).unwrap().len(), 1);
    assert!(one.push().segments.is_empty());
    fs::remove_file(other.scene.at(&format!("{TOOL}/a.txt"))).unwrap();
    other.push();
    one.pull();
    assert_eq!(one.scene.conversation.far_artifacts(None).unwrap().len(), 0);
}

#[test]
fn a_conversation_that_is_removed_takes_what_was_seen_with_it() {
    let (one, other) = talking_hosts();
    fs::remove_dir_all(one.scene.at("")).unwrap();
    let id = one.scene.conversation.id();
    assert_eq!(one.sync(|sync| sync.push_removal(id)).unwrap().segments.len(), 1);
    assert!(one.sync(|sync| sync.push_removal(id)).unwrap().segments.is_empty());
    other.pull();
    assert_eq!((other.sight().len(), other.heard()), (0, vec!["unseen".to_owned()]));
}

#[test]
fn what_a_host_removed_goes_with_its_messages_where_nothing_else_is_in_it() {
    for has_log in [true, false] {
        what_a_host_removed_goes(has_log);
    }
}

fn what_a_host_removed_goes(has_log: bool) {
    let (one, other) = two_hosts();
    one.scene.put("x", "an output\n");
    if has_log {
        one.say("first");
    }
    one.push();
    other.pull();
    let id = one.scene.conversation.id().clone();
    fs::remove_dir_all(other.scene.at("")).unwrap();
    other.sync(|sync| sync.push_removal(&id)).unwrap();
    one.scene.write("x.tmp", "half");
    one.pull();
    let log = "history/messages.jsonl";
    assert!(one.scene.has(log) == has_log && one.scene.has("") && one.sight().is_empty());
    fs::remove_file(one.scene.at("x.tmp")).unwrap();
    if has_log {
        let writer = fs::File::options().append(true).open(one.scene.at(log)).unwrap();
        one.pull();
        assert!(one.scene.has(log), "somebody writes it");
        drop(writer);
    }
    // For a moment, child processes of other tests hold copies of all descriptors.
    soon(|| {
        one.pull();
        (!one.scene.has("")).then_some(())
    });
    for host in [&one, &other] {
        assert!(host.home.is_gone(&host.scene.store, &id).unwrap());
    }
    // A new conversation with the same name contains nothing of the old one and is not removed.
    let again = one.scene.store.create_conversation(&id).unwrap();
    let came = one.sync(|sync| sync.pull(&again, Downloads::Immediate)).unwrap();
    assert!(came.steps == 0 && one.scene.has("artifacts/tool"));
    assert!(!one.home.is_gone(&one.scene.store, &id).unwrap());
}

#[test]
fn a_file_that_was_linked_in_the_store_stays_when_its_other_name_goes() {
    let (one, other) = two_hosts();
    one.scene.put("x", "an output\n");
    let [x, y] = ["x", "y"].map(|name| one.scene.at(&format!("{TOOL}/{name}.txt")));
    fs::hard_link(&x, &y).unwrap();
    one.push();
    one.pull();
    fs::remove_file(y).unwrap();
    one.pull();
    assert!(x.exists(), "nobody removed it");
    one.push();
    other.pull();
    assert_eq!(one.sight(), other.sight());
}

#[test]
fn a_conversation_whose_outputs_were_removed_one_by_one_stays() {
    let (one, other) = two_hosts();
    one.scene.put("x", "an output\n");
    one.push();
    other.pull();
    fs::remove_file(other.scene.at(&format!("{TOOL}/x.txt"))).unwrap();
    other.push();
    one.pull();
    assert!(one.sight().is_empty() && one.scene.has("artifacts/tool"));
}

#[test]
fn a_log_that_was_copied_is_the_same() {
    let (one, other) = two_hosts();
    one.scene.put("a", "an output\n");
    one.say("first");
    one.push();
    let log = one.scene.at("history/messages.jsonl");
    let copy = one.scene.at("history/copy");
    fs::copy(&log, &copy).unwrap();
    fs::rename(&copy, &log).unwrap();
    one.say("second");
    one.push();
    for host in [&one, &other] {
        host.pull();
        assert_eq!(host.heard(), ["first", "second"]);
    }
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

#[test]
fn a_message_that_is_too_long_is_told_once_and_all_else_is_shared() {
    let (one, other) = two_hosts();
    one.scene.put("a", "text\n");
    one.say("first");
    one.say(&"x".repeat(LINE_BYTES));
    // Escaping doubles the bytes of this text in a segment.
    one.say(&"\\\"".repeat(5 << 20));
    one.say("last");
    let mut left = BTreeMap::new();
    soon(|| {
        let sent = one.sync(|sync| sync.push(&one.scene.conversation)).unwrap();
        left.extend(sent.left);
        sent.live.is_empty().then_some(())
    });
    assert!(left.len() == 2 && left.values().all(LeftOut::is_told_once), "{left:?}");
    assert!(one.push().segments.is_empty(), "there is nothing more to do");
    let conversation = Some(&*one.scene.conversation);
    let standing = standing(conversation, &one.notes(), one.scene.store.clock()).unwrap();
    assert!(standing.is_sent() && standing.unshared.len() == 2, "{standing:?}");
    other.pull();
    assert!(other.scene.has(&format!("{TOOL}/a.txt")));
    assert_eq!(other.heard(), ["first", "last"]);
    one.pull();
    assert_eq!(one.heard().len(), 4, "here it is shown");
}
