use std::collections::HashMap;
use std::fs;
use std::fs::{File, FileTimes, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::disk_clock;
use crate::mere_owner::as_mere_owner;
use ctxfs_core::model::{ArtifactState, Provenance, Record};

struct Fixture {
    dir: TempDir,
    store: Store,
}

fn id(text: &str) -> Component {
    Component::new(text).unwrap()
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

fn now() -> SystemTime {
    SystemTime::now() + Duration::from_hours(1)
}

fn bytes(conversation: u64) -> RetentionRules {
    RetentionRules { conversation: Some(conversation), ..RetentionRules::default() }
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Self { dir, store }
    }

    fn at(&self, conversation: &str, name: &str) -> PathBuf {
        self.dir.path().join("context").join(conversation).join(name)
    }

    /// Creates an artifact of `size` bytes that was last used `used` minutes from now. The time is
    /// in the future so that it is later than the creation of the file.
    fn artifact(&self, conversation: &str, name: &str, size: usize, used: u64) {
        self.store.create_conversation(&id(conversation)).unwrap();
        let path = self.at(conversation, &format!("artifacts/tool/{name}"));
        fs::write(&path, vec![b'x'; size]).unwrap();
        let used = SystemTime::now() + Duration::from_mins(used);
        let times = FileTimes::new().set_accessed(used).set_modified(SystemTime::now());
        File::open(&path).unwrap().set_times(times).unwrap();
    }

    fn record(&self, conversation: &str, record: Record) {
        let conversation = self.store.conversation(&id(conversation)).unwrap().unwrap();
        conversation.manifest().append(&[record]).unwrap();
    }

    fn plan(&self, rules: &RetentionRules, scope: &SweepScope, now: SystemTime) -> Vec<String> {
        let plan = plan(&self.store, rules, scope, now, &|| false).unwrap();
        let name = |removal: &PlannedRemoval| {
            let name = removal.candidate.path.file_name().to_str().unwrap();
            format!("{}/{name} {}", removal.conversation.to_text(), removal.candidate.removal.rule)
        };
        plan.removals.iter().map(name).collect()
    }

    fn sweep(&self, rules: &RetentionRules) -> SweepReport {
        sweep(&self.store, rules, &SweepScope::Store, now(), &|| false, &mut |_, _| {}).unwrap()
    }

    fn removed(&self, conversation: &str, name: &str) -> Option<Record> {
        let conversation = self.store.conversation(&id(conversation)).unwrap().unwrap();
        conversation.removed(&path(&format!("artifacts/tool/{name}"))).unwrap()
    }
}

#[test]
fn without_rules_nothing_goes() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 1000, 0);
    let forever = SystemTime::now() + Duration::from_hours(1_000_000);
    assert!(fixture.plan(&RetentionRules::default(), &SweepScope::Store, forever).is_empty());
    assert!(fixture.sweep(&RetentionRules::default()).removed.is_empty());
    assert!(fixture.at("c", "artifacts/tool/a").exists());
}

#[test]
fn the_old_go_by_age_and_the_oldest_first() {
    let fixture = Fixture::new();
    for (name, used) in [("young", 59), ("old", 10), ("older", 5)] {
        fixture.artifact("c", name, 10, used);
    }
    fixture.artifact("d", "old", 10, 20);
    let rules = RetentionRules { age: Some(Duration::from_mins(30)), ..RetentionRules::default() };
    let all = ["c/older keep_age", "c/old keep_age", "d/old keep_age"];
    assert_eq!(fixture.plan(&rules, &SweepScope::Store, now()), all);
    assert_eq!(fixture.plan(&rules, &SweepScope::Conversation(id("d")), now()), all[2..]);
}

#[test]
fn what_was_used_longest_ago_goes_until_the_rest_fits() {
    let fixture = Fixture::new();
    for (name, used) in [("a", 3), ("b", 1), ("c", 4), ("d", 2)] {
        fixture.artifact("c", name, 1000, used);
    }
    fixture.artifact("other", "e", 2000, 0);
    let found = |rules: &RetentionRules| fixture.plan(rules, &SweepScope::Store, now());
    assert_eq!(found(&bytes(4000)), Vec::<String>::new());
    assert_eq!(found(&bytes(3999)), ["c/b keep_conversation"]);
    // A tenth of the limit is freed in addition.
    assert_eq!(found(&bytes(3000)), ["c/b keep_conversation", "c/d keep_conversation"]);
    let store = RetentionRules { store: Some(5000), ..RetentionRules::default() };
    assert_eq!(found(&store), ["other/e keep_store"]);
    let both = RetentionRules { store: Some(3000), ..bytes(3999) };
    assert_eq!(found(&both), ["c/b keep_conversation", "other/e keep_store", "c/d keep_store"]);
}

#[test]
fn a_disk_that_is_fuller_than_allowed_costs_outputs() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 100_000, 0);
    fixture.artifact("c", "empty", 0, 0);
    let free = |bytes| RetentionRules { free: Some(bytes), ..RetentionRules::default() };
    assert_eq!(fixture.plan(&free(1), &SweepScope::Store, now()), Vec::<String>::new());
    assert_eq!(fixture.plan(&free(u64::MAX), &SweepScope::Store, now()), ["c/a keep_free"]);
}

#[test]
fn what_messages_refer_to_goes_last() {
    let fixture = Fixture::new();
    for (name, used) in [("a.txt", 1), ("b.txt", 2), ("c.txt", 3), ("d.txt", 4)] {
        fixture.artifact("c", name, 1000, used);
    }
    let log = "{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"x\"}\n\
               {\"role\":\"tool\",\"fullOutputPath\":\"/ctx/c/artifacts/tool/c.txt\"}\n";
    fs::write(fixture.at("c", "history/messages.jsonl"), log).unwrap();
    let order =
        ["c/b.txt", "c/d.txt", "c/a.txt", "c/c.txt"].map(|n| format!("{n} keep_conversation"));
    assert_eq!(fixture.plan(&bytes(0), &SweepScope::Store, now()), order);
}

#[test]
fn what_messages_of_other_hosts_refer_to_goes_last() {
    let fixture = Fixture::new();
    for (name, used) in [("a.txt", 1), ("b.txt", 2)] {
        fixture.artifact("c", name, 1000, used);
    }
    let published = fixture.dir.path().join("remote/messages/c");
    fs::create_dir_all(&published).unwrap();
    let log = "{}\n{\"role\":\"tool\",\"fullOutputPath\":\"/mnt/ctx/c/artifacts/tool/a.txt\"}\n";
    fs::write(published.join("published.jsonl"), log).unwrap();
    let order = ["c/b.txt", "c/a.txt"].map(|name| format!("{name} keep_conversation"));
    assert_eq!(fixture.plan(&bytes(0), &SweepScope::Store, now()), order);
}

#[test]
fn live_scratch_and_other_files_stay() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 1000, 0);
    fixture.artifact("c", ".a.tmp", 1000, 0);
    fs::write(fixture.at("c", "history/messages.jsonl"), vec![b' '; 5000]).unwrap();
    fixture.artifact("c", "live", 1000, 0);
    let owner = crate::this_process();
    let live = "artifacts/tool/live".to_owned();
    fixture.record("c", Record { path: live, generation: 1, owner, ..Record::default() });
    assert_eq!(fixture.plan(&bytes(0), &SweepScope::Store, now()), ["c/a keep_conversation"]);
    let writer = OpenOptions::new().append(true).open(fixture.at("c", "artifacts/tool/a")).unwrap();
    let outcome = fixture.sweep(&bytes(0));
    assert_eq!(outcome.kept.len(), 1);
    assert_eq!(outcome.kept[0].1, "it is being written");
    assert_eq!(fixture.removed("c", "a"), None);
    drop(writer);
    assert_eq!(fixture.sweep(&bytes(0)).removed.len(), 1);
    for left in ["artifacts/tool/live", "artifacts/tool/.a.tmp", "history/messages.jsonl"] {
        assert!(fixture.at("c", left).exists(), "{left}");
    }
}

#[test]
fn a_record_is_left() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 1000, 0);
    let provenance = Provenance { tool: Some("exec".to_owned()), ..Provenance::default() };
    let state = ArtifactState::Incomplete("no room".to_owned());
    let record = Record {
        path: "artifacts/tool/a".to_owned(),
        generation: 3,
        state,
        provenance,
        ..Record::default()
    };
    fixture.record("c", record.clone());
    let mut reader = File::open(fixture.at("c", "artifacts/tool/a")).unwrap();
    let outcome = fixture.sweep(&bytes(500));
    assert_eq!((outcome.removed.len(), outcome.kept.len()), (1, 0));
    assert!(!fixture.at("c", "artifacts/tool/a").exists());
    let left = fixture.removed("c", "a").unwrap();
    let removal = left.removed.clone().unwrap();
    assert_eq!(removal.rule, "keep_conversation");
    assert!(removal.why.contains("passed `keep_conversation`"), "{}", removal.why);
    assert_eq!(left.provenance, record.provenance);
    assert_eq!((left.generation, left.state, left.size), (3, record.state, 1000));
    let mut text = String::new();
    assert_eq!(reader.read_to_string(&mut text).unwrap(), 1000, "who reads it reads it whole");
    assert_eq!(outcome.plan.room, HashMap::from([(id("c"), 500)]));
    assert!(fixture.sweep(&bytes(500)).removed.is_empty());
}

#[test]
fn what_is_written_anew_is_an_artifact_as_any() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 1000, 0);
    fixture.sweep(&bytes(0));
    fixture.artifact("c", "a", 10, 0);
    let conversation = fixture.store.conversation(&id("c")).unwrap().unwrap();
    assert_eq!(conversation.record(&path("artifacts/tool/a")).unwrap(), None);
    assert_eq!(fixture.removed("c", "a"), None);
    let lock = conversation.manifest().lock().unwrap();
    let forget = || conversation.forget_locked(&lock, &path("artifacts/tool/a")).unwrap();
    assert!(forget().is_some());
    assert!(forget().is_none());
    drop(lock);
    fs::remove_file(fixture.at("c", "artifacts/tool/a")).unwrap();
    assert_eq!(fixture.removed("c", "a"), None);
}

#[test]
fn what_was_used_after_it_was_chosen_stays() {
    let fixture = Fixture::new();
    for name in ["read", "changed", "gone", "other"] {
        fixture.artifact("c", name, 1000, 0);
    }
    let plan = plan(&fixture.store, &bytes(0), &SweepScope::Store, now(), &|| false).unwrap();
    let at = |name: &str| fixture.at("c", &format!("artifacts/tool/{name}"));
    let later = FileTimes::new().set_accessed(now());
    File::open(at("read")).unwrap().set_times(later).unwrap();
    fs::write(at("changed"), "y").unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::rename(at("other"), at("away")).unwrap();
    fixture.artifact("c", "other", 1000, 0);
    let conversation = fixture.store.conversation(&id("c")).unwrap().unwrap();
    let candidates: Vec<_> = plan.removals.into_iter().map(|removal| removal.candidate).collect();
    let lock = fixture.store.lock_sweeps().unwrap();
    let outcomes = lock.remove(&conversation, &candidates).unwrap();
    let mut provenance: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            RemovalOutcome::Kept(why) => *why,
            RemovalOutcome::Removed => "removed",
        })
        .collect();
    provenance.sort_unstable();
    let used = "it was used meanwhile";
    assert_eq!(provenance, ["it is gone", used, used, used]);
}

#[test]
fn a_removal_that_was_cut_off_is_finished_or_forgotten() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 1000, 0);
    fixture.artifact("c", "b", 1000, 1);
    fixture.sweep(&bytes(1500));
    let left = fixture.removed("c", "a").unwrap();
    // As if the sweep had died before the rename: the record of the removal has no effect.
    let conversation = fixture.store.conversation(&id("c")).unwrap().unwrap();
    let file = fs::metadata(fixture.at("c", "artifacts/tool/b")).unwrap();
    let modified = file.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let path_of_b = "artifacts/tool/b".to_owned();
    let intent = Record { path: path_of_b, modified: modified.as_nanos() as i64, ..left.clone() };
    conversation.manifest().append(std::slice::from_ref(&intent)).unwrap();
    let as_before = Record { removed: None, ..intent };
    assert_eq!(conversation.record(&path("artifacts/tool/b")).unwrap(), Some(as_before));
    assert_eq!(fixture.removed("c", "b"), None);
    // As if the sweep had died after the rename: the next sweep completes the removal, even without
    // rules.
    fs::rename(fixture.at("c", "artifacts/tool/b"), fixture.at("c", ".ctxfs-gone-1")).unwrap();
    assert!(fixture.removed("c", "b").is_some());
    fixture.sweep(&RetentionRules::default());
    assert!(!fixture.at("c", ".ctxfs-gone-1").exists());
}

/// A client can set the times of its own files to any value.
#[test]
fn times_that_writers_set_to_the_future_keep_nothing() {
    let fixture = Fixture::new();
    fixture.artifact("c", "b", 1000, 1);
    fixture.artifact("c", "a", 1000, 0);
    let far = now() + Duration::from_hours(24 * 365 * 70);
    let times = FileTimes::new().set_accessed(far).set_modified(far);
    File::open(fixture.at("c", "artifacts/tool/a")).unwrap().set_times(times).unwrap();
    assert_eq!(
        fixture.plan(&bytes(1500), &SweepScope::Store, now()),
        ["c/a keep_conversation"],
        "it was used when it was touched, before the other was read"
    );
    let age = RetentionRules { age: Some(Duration::from_mins(59)), ..RetentionRules::default() };
    let all = ["c/a keep_age", "c/b keep_age"];
    assert_eq!(fixture.plan(&age, &SweepScope::Store, now() + Duration::from_hours(1)), all);
    let outcome = fixture.sweep(&bytes(1500));
    assert_eq!((outcome.removed.len(), outcome.kept.len()), (1, 0));
}

/// Equal bytes and times do not make it the same file.
#[test]
fn a_change_that_was_covered_up_after_it_was_chosen_counts() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 1000, 0);
    let plan = plan(&fixture.store, &bytes(0), &SweepScope::Store, now(), &|| false).unwrap();
    let path = fixture.at("c", "artifacts/tool/a");
    let before = fs::metadata(&path).unwrap();
    disk_clock::moves_on();
    fs::write(&path, vec![b'y'; 1000]).unwrap();
    let times = FileTimes::new()
        .set_accessed(before.accessed().unwrap())
        .set_modified(before.modified().unwrap());
    File::open(&path).unwrap().set_times(times).unwrap();
    let conversation = fixture.store.conversation(&id("c")).unwrap().unwrap();
    let candidates: Vec<_> = plan.removals.into_iter().map(|removal| removal.candidate).collect();
    let lock = fixture.store.lock_sweeps().unwrap();
    let outcomes = lock.remove(&conversation, &candidates).unwrap();
    assert_eq!(outcomes, [RemovalOutcome::Kept("it was used meanwhile")]);
}

fn places(unread: &crate::UnreadPlaces) -> Vec<&str> {
    unread.named().iter().map(|place| &*place.path).collect()
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_cannot_be_read_ends_no_sweep() {
    let fixture = Fixture::new();
    for conversation in ["a", "closed", "torn", "z"] {
        fixture.artifact(conversation, "x", 1000, 0);
    }
    fixture.artifact("z", "y", 1000, 0);
    let shut = fixture.at("z", "artifacts/tool/shut");
    fs::create_dir(&shut).unwrap();
    fs::create_dir(fixture.at("torn", "manifest.jsonl")).unwrap();
    set_mode(&shut, 0);
    set_mode(&fixture.at("closed", ""), 0);
    let unread = ["closed", "torn/manifest.jsonl", "z/artifacts/tool/shut"];
    as_mere_owner(|| {
        let plan = plan(&fixture.store, &bytes(0), &SweepScope::Store, now(), &|| false).unwrap();
        assert_eq!((plan.removals.len(), places(&plan.unread)), (3, unread.to_vec()));
        let outcome = fixture.sweep(&bytes(0));
        assert_eq!((outcome.removed.len(), places(&outcome.plan.unread)), (3, unread.to_vec()));
    });
    set_mode(&shut, 0o700);
    set_mode(&fixture.at("closed", ""), 0o700);
    assert!(fixture.at("closed", "artifacts/tool/x").exists());
    assert!(fixture.at("torn", "artifacts/tool/x").exists());
}

#[test]
fn an_output_that_cannot_be_removed_does_not_keep_others() {
    let fixture = Fixture::new();
    fixture.artifact("c", "b", 1000, 0);
    let fixed = fixture.at("c", "artifacts/tool/fixed");
    fs::create_dir(&fixed).unwrap();
    fs::rename(fixture.at("c", "artifacts/tool/b"), fixed.join("b")).unwrap();
    fixture.artifact("c", "a", 1000, 0);
    let record = Record {
        path: "artifacts/tool/fixed/b".to_owned(),
        generation: 7,
        state: ArtifactState::Sealed,
        ..Record::default()
    };
    fixture.record("c", record);
    set_mode(&fixed, 0o500);
    as_mere_owner(|| {
        let outcome = fixture.sweep(&bytes(0));
        assert_eq!((outcome.removed.len(), outcome.kept.len()), (1, 1));
        assert_eq!(outcome.kept[0].1, "it cannot be removed from its directory");
    });
    set_mode(&fixed, 0o700);
    let conversation = fixture.store.conversation(&id("c")).unwrap().unwrap();
    let record = conversation.record(&path("artifacts/tool/fixed/b")).unwrap().unwrap();
    assert_eq!((record.generation, record.removed), (7, None));
    fs::remove_file(fixed.join("b")).unwrap();
    assert_eq!(conversation.removed(&path("artifacts/tool/fixed/b")).unwrap(), None);
}

#[test]
fn without_the_messages_every_output_may_be_one_of_theirs() {
    let fixture = Fixture::new();
    for (conversation, used) in [("c", 0), ("d", 5)] {
        fixture.artifact(conversation, "a", 1000, used);
    }
    fs::create_dir(fixture.at("c", "history/messages.jsonl")).unwrap();
    let rules = RetentionRules { store: Some(0), ..RetentionRules::default() };
    let plan = plan(&fixture.store, &rules, &SweepScope::Store, now(), &|| false).unwrap();
    let order: Vec<_> =
        plan.removals.iter().map(|removal| removal.conversation.to_text()).collect();
    assert_eq!(order, ["d", "c"]);
    assert_eq!(places(&plan.unread), ["c/history/messages.jsonl"]);
}

#[test]
fn outputs_at_the_end_of_long_paths_go_like_any() {
    let fixture = Fixture::new();
    fixture.artifact("c", "a", 10, 0);
    let conversation = fixture.store.conversation(&id("c")).unwrap().unwrap();
    let artifacts = conversation.dir().open_dir("artifacts".as_ref()).unwrap();
    let dir = artifacts.nest(&"n".repeat(250), 20);
    let flags = rustix::fs::OFlags::WRONLY;
    dir.create_file("x".as_ref(), flags, 0o600).unwrap().set_len(1000).unwrap();
    let outcome = fixture.sweep(&bytes(0));
    assert_eq!((outcome.removed.len(), outcome.plan.unread.count()), (2, 0));
    assert!(dir.entries().unwrap().is_empty());
}
