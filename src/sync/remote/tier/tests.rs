//! Several tiers that share one bucket, with a clock that the test advances.

mod eviction;
mod known;
mod same_name;

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::remote::Limits;
use crate::remote::files::tests::scene::{Scene, TOOL, soon};
use crate::remote::tests::bucket::{TestBucket, soon as soon_there};
use crate::remote::tier::pushing::PusherStep;
use ctxfs_core::model::EvictionResult;

const EVERY: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

/// A clock that only the test advances.
#[derive(Clone)]
struct TestClock(Arc<Mutex<Instant>>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn now(&self) -> Instant {
        *self.0.lock()
    }

    fn pass(&self, time: Duration) {
        *self.0.lock() += time;
    }
}

/// A host with the conversation `c7`.
pub(super) struct Host {
    pub(super) scene: Scene,
    pub(super) tier: Tier,
    clock: TestClock,
}

fn options() -> TierOptions {
    TierOptions {
        url: "memory:".to_owned(),
        pushes: true,
        write_once: false,
        every: EVERY,
        poll: POLL,
        cache_bytes: 1 << 30,
        limits: Limits::default(),
        evicts: true,
        sweeps: true,
    }
}

fn tier(store: &Store, bucket: &Arc<TestBucket>, clock: &TestClock, options: TierOptions) -> Tier {
    let (bucket, clock) = (Arc::clone(bucket) as Arc<dyn Objects + Send>, clock.clone());
    let access = BucketAccess::new(store.clone(), bucket, options);
    Tier(Arc::new(TierInner::new(access, Box::new(move || clock.now()))))
}

impl Host {
    pub(super) fn new(bucket: &Arc<TestBucket>) -> Self {
        Self::of(bucket, options())
    }

    fn of(bucket: &Arc<TestBucket>, options: TierOptions) -> Self {
        let (scene, clock) = (Scene::new(), TestClock::new());
        let tier = tier(&scene.store, bucket, &clock, options);
        Self { scene, tier, clock }
    }

    /// Returns the last error of the bucket.
    fn error(&self) -> String {
        self.tier.0.breaker.error().unwrap_or_default()
    }

    /// Tries to send once, after a pause longer than any backoff.
    fn try_to_send(&self) {
        self.clock.pass(Duration::from_mins(2));
        self.work();
    }

    pub(super) fn id(&self) -> &Component {
        self.scene.conversation.id()
    }

    /// Stores an output and reports it to the tier.
    pub(super) fn put(&self, call: &str, text: &str) {
        let record = self.scene.put(call, text);
        self.tier.changed(self.id(), Some(record.size));
    }

    /// Runs pusher steps until nothing is left to do now.
    fn work(&self) {
        for _ in 0..1000 {
            if self.tier.0.step() != PusherStep::Worked {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Runs pusher steps until everything is sent.
    pub(super) fn send(&self) {
        // A file that was just written counts as being written until the clock of its disk has
        // advanced.
        std::thread::sleep(Duration::from_millis(20));
        soon(|| {
            self.clock.pass(EVERY);
            self.work();
            self.tier.0.backlog.lock().is_empty().then_some(())
        });
    }

    fn waiting(&self) -> u64 {
        self.tier.0.backlog.lock().totals().outputs
    }

    fn look(&self) -> bool {
        self.tier.look(Some(self.id()), PATIENCE)
    }

    /// Looks into the bucket once more.
    pub(super) fn meet(&self) {
        self.clock.pass(POLL);
        self.look();
    }

    fn knows(&self, call: &str) -> bool {
        let path = RelPath::new(format!("{TOOL}/{call}.txt")).unwrap();
        self.scene.conversation.far(&path).unwrap().is_some()
    }

    pub(super) fn file(&self, call: &str) -> PathBuf {
        self.scene.at(&format!("{TOOL}/{call}.txt"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.tier.0.looks.close();
    }
}

pub(super) fn bucket() -> Arc<TestBucket> {
    Arc::new(TestBucket::new())
}

#[test]
fn what_is_sealed_here_is_seen_there() {
    let bucket = bucket();
    let (one, other) = (Host::new(&bucket), Host::new(&bucket));
    one.put("x", "some bytes\n");
    one.send();
    assert!(other.look());
    assert!(other.knows("x"), "its bytes are in the bucket");
    fs::remove_file(one.file("x")).unwrap();
    one.tier.changed(one.id(), None);
    one.send();
    other.clock.pass(POLL / 2);
    assert!(!other.look(), "the last look is young");
    other.clock.pass(POLL / 2);
    assert!(other.look());
    assert!(!other.knows("x"));
}

/// A conversation of which only some segments have arrived is not shown, and not denied.
#[test]
fn what_has_come_in_part_is_said_and_not_denied() {
    let bucket = bucket();
    let (one, other) = (Host::new(&bucket), Host::new(&bucket));
    for call in ["x", "y", "z"] {
        one.put(call, "some bytes\n");
        one.send();
    }
    fs::remove_dir_all(other.scene.at("")).unwrap();
    other.tier.0.identify().unwrap();
    assert!(!other.tier.is_arriving(other.id()), "nothing is known of it");
    // A list, and two of three segments.
    bucket.fail_after(3, false);
    other.look();
    assert!(other.tier.is_arriving(other.id()));
    assert!(other.scene.store.conversation(other.id()).unwrap().is_none());
    bucket.work();
    bucket.made();
    other.clock.pass(Duration::from_mins(2));
    other.meet();
    soon(|| {
        let conversation = other.scene.store.conversation(other.id()).unwrap()?;
        (conversation.far_artifacts(None).unwrap().len() == 3).then_some(())
    });
    assert!(!other.tier.is_arriving(other.id()));
    let gets = bucket.made().iter().filter(|made| *made == "get").count();
    assert!(gets <= 2, "the mark, and the segment that was left: {gets}");
}

#[test]
fn outputs_within_a_time_go_in_one_request() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.send();
    bucket.made();
    for number in 0..20 {
        one.put(&format!("x{number}"), "some bytes\n");
    }
    one.work();
    assert!(bucket.made().is_empty(), "it is not their time");
    one.send();
    let writes = bucket.made().into_iter().filter(|made| made == "create").count();
    assert_eq!(writes, 1);
    one.put("more", "bytes\n");
    one.send();
    assert_eq!(bucket.made(), ["create"], "it has looked once");
}

#[test]
fn what_is_left_from_before_is_sent_at_the_next_start() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.scene.put("x", "some bytes\n");
    one.send();
    let other = Host::new(&bucket);
    assert!(other.look() && other.knows("x"));
}

#[test]
fn without_the_bucket_all_waits_and_nobody_who_reads_does() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.send();
    bucket.fail_after(0, false);
    one.put("x", "some bytes\n");
    one.clock.pass(EVERY);
    one.work();
    assert_eq!(one.waiting(), 1);
    assert!(one.tier.0.breaker.error().is_some());
    assert!(!one.tier.is_look_due(Some(one.id())), "it failed a moment ago");
    bucket.made();
    for _ in 0..100 {
        assert!(!one.look());
        one.work();
    }
    assert!(bucket.made().is_empty(), "it backs off");
    bucket.work();
    soon(|| {
        one.clock.pass(Duration::from_mins(1));
        one.work();
        (one.waiting() == 0).then_some(())
    });
    assert!(one.tier.0.breaker.error().is_none());
}

#[test]
fn ten_thousand_misses_cost_one_request() {
    let bucket = bucket();
    let (one, other) = (Host::new(&bucket), Host::new(&bucket));
    one.put("x", "some bytes\n");
    one.send();
    assert!(other.look());
    other.clock.pass(POLL);
    bucket.made();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1250 {
                    if other.tier.is_look_due(Some(other.id())) {
                        other.look();
                    }
                }
            });
        }
    });
    assert_eq!(bucket.made(), ["list"]);
}

#[test]
fn a_conversation_that_only_others_have_opens_with_one_list() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.put("x", "some bytes\n");
    one.send();
    let (temporary, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let store = Store::open(temporary.path()).unwrap();
    let reader = tier(&store, &bucket, &clock, TierOptions { pushes: false, ..options() });
    assert!(reader.look(None, PATIENCE));
    assert_eq!(*reader.conversations(), [one.id().clone()]);
    bucket.made();
    let absent = Component::new("none").unwrap();
    assert!(reader.look(Some(&absent), PATIENCE));
    assert_eq!(bucket.made(), ["list"]);
    assert!(store.conversation(&absent).unwrap().is_none());
    assert!(reader.look(Some(one.id()), PATIENCE));
    assert_eq!(bucket.made(), ["list", "get"]);
    let found = store.conversation(one.id()).unwrap().unwrap();
    assert_eq!(found.far_artifacts(None).unwrap().len(), 1);
    reader.0.looks.close();
}

#[test]
fn a_store_that_lost_everything_removes_nothing_elsewhere() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.put("x", "some bytes\n");
    one.send();
    fs::remove_dir_all(one.scene.at("")).unwrap();
    let again = tier(&one.scene.store, &bucket, &one.clock, options());
    for _ in 0..10 {
        one.clock.pass(EVERY);
        again.0.step();
    }
    let other = Host::new(&bucket);
    assert!(other.look() && other.knows("x"));
}

#[test]
fn a_conversation_that_was_removed_is_listed_by_nobody_who_has_looked() {
    let bucket = bucket();
    let (one, other) = (Host::new(&bucket), Host::new(&bucket));
    one.put("x", "some bytes\n");
    one.send();
    other.meet();
    let (temporary, clock) = (tempfile::tempdir().unwrap(), TestClock::new());
    let store = Store::open(temporary.path()).unwrap();
    let stranger = tier(&store, &bucket, &clock, TierOptions { pushes: false, ..options() });
    let listed = |tier: &Tier, clock: &TestClock| {
        clock.pass(Duration::from_mins(1));
        tier.look(None, PATIENCE);
        tier.conversations().to_vec()
    };
    let id = one.id().clone();
    assert!(listed(&one.tier, &one.clock).contains(&id));
    fs::remove_dir_all(one.scene.at("")).unwrap();
    one.tier.changed(&id, None);
    assert!(one.tier.conversations().is_empty(), "it is gone at once");
    assert!(listed(&one.tier, &one.clock).is_empty(), "others do not know it yet");
    one.send();
    other.meet();
    assert!(!other.scene.at("").exists());
    for host in [&one, &other] {
        assert!(listed(&host.tier, &host.clock).is_empty());
    }
    assert!(listed(&stranger, &clock).contains(&id), "it has not looked");
    stranger.look(Some(&id), PATIENCE);
    assert!(stranger.conversations().is_empty() && store.conversation(&id).unwrap().is_none());
    bucket.made();
    assert!(listed(&stranger, &clock).is_empty());
    assert_eq!(bucket.made(), ["list", "list"], "one that is gone is looked at again");
    let third = Host::new(&bucket);
    third.put("y", "other bytes\n");
    third.send();
    listed(&one.tier, &one.clock);
    assert!(one.scene.store.conversation(&id).unwrap().is_some(), "it was made anew");
    stranger.0.looks.close();
}

#[test]
fn two_processes_of_a_store_take_turns() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.put("x", "some bytes\n");
    one.work();
    let known = one.tier.0.identify().unwrap().unwrap();
    let held = known.home.lock().unwrap().unwrap();
    one.clock.pass(EVERY);
    one.work();
    assert_eq!(one.waiting(), 1, "another process has the right");
    drop(held);
    one.send();
    assert_eq!(one.waiting(), 0);
}

#[test]
fn what_a_process_of_a_store_sent_another_one_does_not_send() {
    let bucket = bucket();
    let (one, reader) = (Host::new(&bucket), Host::new(&bucket));
    let again = tier(&one.scene.store, &bucket, &one.clock, options());
    let work = || {
        soon(|| {
            one.clock.pass(EVERY);
            while again.0.step() == PusherStep::Worked {}
            again.0.backlog.lock().is_empty().then_some(())
        });
    };
    let writer = again.0.identify().unwrap().unwrap().home.writer().unwrap();
    one.put("x", "some bytes\n");
    again.changed(one.id(), None);
    one.send();
    bucket.made();
    work();
    assert!(!bucket.made().contains(&"create".to_owned()), "all was sent");
    let record = one.scene.put("y", "other bytes\n");
    again.changed(one.id(), Some(record.size));
    std::thread::sleep(Duration::from_millis(20));
    work();
    one.put("z", "more bytes\n");
    one.send();
    assert!(reader.look());
    assert!(["x", "y", "z"].iter().all(|call| reader.knows(call)));
    assert_eq!(one.tier.0.identify().unwrap().unwrap().home.writer().unwrap(), writer);
}

#[test]
fn the_end_waits_for_nothing_where_nothing_is_left() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.send();
    // The clock does not advance, so only the end of the thread ends the wait.
    one.tier.start().unwrap();
    one.tier.finish(Duration::from_hours(1));
    let end = one.tier.0.backlog.lock().end.unwrap();
    assert_eq!(end, one.clock.now() + IDLE);
}

#[test]
fn a_log_that_is_opened_again_and_again_goes_once_it_has_rested() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    let log = "a line of a log\n".repeat(1 << 20);
    let path = format!("{TOOL}/log.txt");
    one.scene.write(&path, &log);
    one.tier.changed(one.id(), None);
    one.send();
    let prefix = format!("conversations/{}/log/", one.id().to_text());
    let before = bucket.names(&prefix).len();
    one.scene.write(&path, &(log + "more\n"));
    one.tier.changed(one.id(), None);
    one.clock.pass(EVERY);
    one.work();
    assert_eq!(bucket.names(&prefix).len(), before, "it has 16 MiB, and was written just now");
    assert!(!one.tier.0.backlog.lock().is_empty());
}

#[test]
fn at_the_end_what_is_left_is_sent() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.tier.start().unwrap();
    one.put("x", "some bytes\n");
    std::thread::sleep(Duration::from_millis(50));
    let clock = one.clock.clone();
    let ticking = std::thread::spawn(move || {
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(5));
            clock.pass(Duration::from_millis(5));
        }
    });
    one.tier.finish(Duration::from_millis(900));
    ticking.join().unwrap();
    let other = Host::new(&bucket);
    assert!(other.look() && other.knows("x"));
}

#[test]
fn a_report_says_what_waits_and_since_when() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    one.send();
    one.put("x", "some bytes\n");
    one.clock.pass(Duration::from_secs(1));
    let report = one.tier.report();
    assert_eq!((report.waiting, report.waiting_bytes), (1, 11));
    assert_eq!((report.oldest_seconds, report.lag_millis), (Some(1), None));
    assert!(report.bucket.is_some() && report.writer.is_some() && report.error.is_none());
    one.send();
    let report = one.tier.report();
    assert_eq!((report.waiting, report.oldest_seconds), (0, None));
    assert!(report.lag_millis.is_some_and(|lag| lag >= 2000));
    let puts = report.requests.iter().find(|count| count.kind == "put").unwrap();
    assert!(puts.requests > 0 && puts.bytes > 0);
}

#[test]
fn only_what_others_have_is_let_go() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    let path = |call: &str| RelPath::new(format!("{TOOL}/{call}.txt")).unwrap();
    let let_go = |call: &str| {
        // For a moment, child processes of other tests hold copies of all descriptors.
        soon(|| {
            let gone = one.tier.evictor(one.id())(&path(call));
            (gone != EvictionResult::Kept("it is being written")).then_some(gone)
        })
    };
    one.put("sent", "some bytes\n");
    one.send();
    one.scene.put("new", "others\n");
    assert_eq!(let_go("new"), EvictionResult::NotShared);
    assert_eq!(let_go("sent"), EvictionResult::Gone);
    assert!(one.knows("sent") && !one.file("sent").exists());
    let record = one.scene.record(&format!("{TOOL}/sent.txt")).unwrap();
    let file = FarStore::open(&one.tier, one.id(), &record).unwrap();
    assert_eq!(file.content.bytes(0, 100).unwrap(), b"some bytes\n");
}

#[test]
fn what_cannot_be_read_back_stays() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    let path = RelPath::new(format!("{TOOL}/x.txt")).unwrap();
    let lines = (0..40_000).map(|line| format!("line {line} of a log\n"));
    one.put("x", &lines.collect::<Vec<_>>().concat());
    one.send();
    bucket.fail_after(0, false);
    assert!(matches!(one.tier.evictor(one.id())(&path), EvictionResult::Kept(_)));
    assert!(one.file("x").exists());
}
