use super::*;
use crate::bucket::{log_prefix, objects_prefix};
use crate::remote::tests::bucket::{TestBucket, soon};
use crate::remote::tests::host::{TestHost, path};
use crate::replica::WriterId;
use std::cell::Cell;

const HOUR: Duration = Duration::from_hours(1);

/// Returns a host with content of all kinds to publish.
fn filled() -> TestHost {
    let mut host = TestHost::new();
    host.write("small.txt", "some text\n");
    host.write("empty", "");
    host.write("large.log", vec![b'x'; 300 << 10]);
    host.source.messages = (0..5).map(|number| format!("{{\"m\":{number}}}")).collect();
    host
}

/// Returns a host that has read the bucket and has no files of its own.
fn reader(bucket: &TestBucket) -> TestHost {
    let reader = TestHost::new();
    reader.look(bucket);
    reader
}

#[track_caller]
fn assert_shared(bucket: &TestBucket, host: &TestHost) {
    let reader = reader(bucket);
    assert_eq!(reader.living(), host.own());
    assert_eq!(reader.told(), host.source.messages);
    assert!(host.changes().is_empty(), "{:?}", host.changes());
    assert_eq!(host.notes.intent().unwrap(), None);
}

fn objects(bucket: &TestBucket, host: &TestHost) -> Vec<String> {
    bucket.names(&objects_prefix(host.notes.conversation()))
}

/// Sending the bytes of an output can take longer than the time limit of a request.
#[test]
fn each_request_has_a_time_of_its_own() {
    let bucket = TestBucket::new();
    let mut host = filled();
    let changes = host.changes();
    let given = Cell::new(0);
    let deadline = || {
        given.set(given.get() + 1);
        soon()
    };
    host.pushing(&bucket, |push, session| {
        Push { deadline: &deadline, ..*push }.run(&changes, session).unwrap();
    });
    // One request each for the bytes of `large.log`, for the table of its blocks, and for the
    // segment.
    assert!(given.get() >= 3, "{}", given.get());
    assert_shared(&bucket, &host);
}

#[test]
fn everything_is_shared() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", directory.path().display());
    for bucket in [TestBucket::new(), TestBucket::at(&url)] {
        let mut host = filled();
        host.push_all(&bucket);
        assert_shared(&bucket, &host);
        assert_eq!(objects(&bucket, &host).len(), 2, "one object, and its blocks");
        bucket.made();
        host.push_all(&bucket);
        assert_eq!(bucket.made(), [""; 0], "there is nothing to do");
        host.write("one more", "text");
        host.push_all(&bucket);
        assert_eq!(bucket.made(), ["create"]);
        assert_shared(&bucket, &host);
    }
}

#[test]
fn what_is_moved_removed_and_replaced() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.push_all(&bucket);
    host.rename("small.txt", "moved.txt");
    host.remove("empty");
    host.write("large.log", "small now");
    host.write("small.txt", "another one");
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
}

#[test]
fn what_is_cut_off_at_any_request_goes_on() {
    for does_last in [false, true] {
        for requests in 0.. {
            let (bucket, mut host) = (TestBucket::new(), filled());
            bucket.fail_after(requests, does_last);
            let mut is_done = host.push(&bucket).is_ok();
            bucket.work();
            host.restart();
            host.write("later", "written after the crash");
            host.push_all(&bucket);
            assert_shared(&bucket, &host);
            host.remove("small.txt");
            host.rename("large.log", "moved.log");
            bucket.fail_after(requests, does_last);
            is_done &= host.push(&bucket).is_ok();
            bucket.work();
            host.restart();
            host.push_all(&bucket);
            assert_shared(&bucket, &host);
            if is_done {
                assert!(requests > 4, "it takes some requests");
                break;
            }
        }
    }
}

#[test]
fn a_crash_after_it_was_agreed_upon_does_no_harm() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    bucket.fail_after(3, false);
    host.push(&bucket).unwrap_err();
    let (intent, bytes) = host.notes.intent().unwrap().unwrap();
    bucket.work();
    host.push_all(&bucket);
    host.notes.keep_intent(&intent, &bytes).unwrap();
    host.restart();
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
}

#[test]
fn an_object_is_stored_once_while_the_process_lives() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    bucket.fail_after(1, false);
    host.push(&bucket).unwrap_err();
    bucket.work();
    host.write("larger.log", vec![b'y'; 400 << 10]);
    // The list, the first object and its blocks succeed.
    bucket.fail_after(2, false);
    host.push(&bucket).unwrap_err();
    bucket.work();
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
    assert_eq!(objects(&bucket, &host).len(), 4);
}

#[test]
fn what_is_a_day_old_is_made_anew() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    bucket.fail_after(3, false);
    host.push(&bucket).unwrap_err();
    assert!(host.notes.intent().unwrap().is_some());
    bucket.work();
    let before = objects(&bucket, &host);
    host.pass(25 * HOUR);
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
    let after = objects(&bucket, &host);
    assert!(after.len() == 4 && before.iter().all(|name| after.contains(name)), "{after:?}");
}

#[test]
fn what_is_a_day_old_and_was_sent_is_agreed_upon() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    bucket.fail_after(3, true);
    host.push(&bucket).unwrap_err();
    bucket.work();
    host.pass(25 * HOUR);
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
    assert_eq!(objects(&bucket, &host).len(), 2);
}

#[test]
fn a_clone_becomes_another_writer() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.push_all(&bucket);
    let mut clone = host.cloned();
    let writer = host.home.writer().unwrap();
    assert_eq!(clone.home.writer().unwrap(), writer);
    host.write("by the first", "1");
    host.push_all(&bucket);
    clone.session.looked = Some(clone.now.clone());
    clone.write("by the clone", "2");
    clone.push_all(&bucket);
    assert_ne!(clone.home.writer().unwrap(), writer);
    let reader = reader(&bucket);
    let paths: Vec<_> = reader.living().into_iter().map(|(path, _)| path).collect();
    assert!(paths.contains(&path("by the first")) && paths.contains(&path("by the clone")));
    assert_eq!(paths.len(), 5);
}

#[test]
fn a_restored_backup_becomes_another_writer() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.push_all(&bucket);
    let mut restored = host.cloned();
    host.write("after the backup", "1");
    host.push_all(&bucket);
    restored.write("after it was restored", "2");
    let writer = host.home.writer().unwrap();
    let pushed = restored.push(&bucket).unwrap();
    assert!(pushed.is_new_writer && restored.home.writer().unwrap() != writer);
    assert_eq!(reader(&bucket).living().len(), 5);
}

#[test]
fn two_clones_with_one_intent_send_it_once() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.source.messages.truncate(2);
    bucket.fail_after(3, false);
    host.push(&bucket).unwrap_err();
    let mut clone = host.cloned();
    bucket.work();
    host.push_all(&bucket);
    clone.push_all(&bucket);
    assert_shared(&bucket, &host);
    assert_shared(&bucket, &clone);
}

/// Merges all segments on another host, and deletes the covered ones.
fn merge_away(bucket: &TestBucket) {
    let mut other = reader(bucket);
    let pieces = other.pieces();
    let part: BTreeSet<_> = pieces.iter().map(|piece| piece.id).collect();
    let merged = other.pushing(bucket, |push, session| {
        push.merge_part(&pieces, &part, session, &mut Pushed::default())
    });
    assert!(merged.unwrap(), "it is stored");
    let conversation = other.notes.conversation();
    let keys = part.iter().map(|id| segment_key(conversation, *id)).collect();
    assert!(bucket.delete(keys, soon()).iter().all(|(_, outcome)| outcome.is_ok()));
}

/// Returns a copy of a host, including its memory, and then sends a segment from the original. The
/// copy has no state about that segment.
fn restored_with_memory(bucket: &TestBucket, host: &mut TestHost) -> TestHost {
    host.push_all(bucket);
    let mut restored = host.cloned();
    restored.session.looked = Some(restored.now.clone());
    host.write("after the backup", "1");
    host.push_all(bucket);
    restored.write("after it was restored", "2");
    restored
}

#[track_caller]
fn assert_both_are_there(bucket: &TestBucket, restored: &TestHost, host: &TestHost) {
    assert_ne!(restored.home.writer().unwrap(), host.home.writer().unwrap());
    let paths: Vec<_> = reader(bucket).living().into_iter().map(|(path, _)| path).collect();
    assert!(paths.contains(&path("after the backup")), "{paths:?}");
    assert!(paths.contains(&path("after it was restored")), "{paths:?}");
    assert_eq!(paths.len(), 5);
}

#[test]
fn a_segment_of_whose_name_another_one_is_covered_is_sent_anew() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    let mut restored = restored_with_memory(&bucket, &mut host);
    bucket.fail_after(0, false);
    restored.push(&bucket).unwrap_err();
    assert!(restored.notes.intent().unwrap().is_some());
    bucket.work();
    merge_away(&bucket);
    restored.look(&bucket);
    restored.push_all(&bucket);
    assert_both_are_there(&bucket, &restored, &host);
}

#[test]
fn a_segment_that_is_covered_was_sent() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.source.messages.truncate(2);
    bucket.fail_after(3, false);
    host.push(&bucket).unwrap_err();
    let mut clone = host.cloned();
    bucket.work();
    host.push_all(&bucket);
    merge_away(&bucket);
    clone.look(&bucket);
    clone.push_all(&bucket);
    assert_shared(&bucket, &clone);
    assert_eq!(clone.home.writer().unwrap(), host.home.writer().unwrap());
}

/// A restored host, and one that has lost its state about the bucket, do not know what they have
/// published. Their messages are not published twice.
#[test]
fn messages_are_published_once() {
    let bucket = TestBucket::new();
    let mut host = TestHost::new();
    let message = |number: usize| format!("{{\"m\":{number}}}");
    host.source.messages = (0..3).map(message).collect();
    host.push_all(&bucket);
    let mut restored = host.cloned();
    host.source.messages.extend((3..8).map(message));
    host.push_all(&bucket);
    // It has some of the messages that were published after the backup, and one of its own.
    restored.source.messages.extend((3..6).map(message));
    restored.source.messages.push("{\"restored\":1}".to_owned());
    restored.push_all(&bucket);
    assert_ne!(restored.home.writer().unwrap(), host.home.writer().unwrap());
    let all: Vec<_> = (0..8).map(message).chain(["{\"restored\":1}".to_owned()]).collect();
    assert_eq!(reader(&bucket).told(), all);
    // Another host with the messages of `host`, and no state.
    let mut lost = TestHost::new();
    lost.source.messages = host.source.messages.clone();
    lost.source.messages.push("{\"lost\":1}".to_owned());
    lost.push_all(&bucket);
    let all: Vec<_> = all.into_iter().chain(["{\"lost\":1}".to_owned()]).collect();
    assert_eq!(reader(&bucket).told(), all);
    // One that says something else.
    let mut other = TestHost::new();
    other.source.messages = vec!["{\"other\":1}".to_owned(), message(1)];
    other.push_all(&bucket);
    assert_eq!(reader(&bucket).told().len(), all.len() + 2);
}

#[test]
fn a_process_that_goes_on_after_a_day_looks_again() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    let mut restored = restored_with_memory(&bucket, &mut host);
    merge_away(&bucket);
    restored.pass(25 * HOUR);
    restored.push_all(&bucket);
    assert_both_are_there(&bucket, &restored, &host);
}

#[test]
fn what_has_changed_is_left_for_the_next_time() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.spoil("small.txt");
    host.spoil("large.log");
    let pushed = host.push(&bucket).unwrap();
    let left: Vec<_> = pushed.left.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(left, [path("large.log"), path("small.txt")]);
    assert!(pushed.left.iter().all(|(_, why)| *why == LeftOut::Changed));
    assert_eq!(reader(&bucket).living().len(), 1);
    host.spoil("small.txt");
    host.spoil("large.log");
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
}

#[test]
fn many_bytes_take_several_segments() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    for number in 0..40 {
        host.write(&number.to_string(), vec![b'a' + number % 26; 200 << 10]);
    }
    host.source.messages = vec!["{}".to_owned(), "{\"last\":1}".to_owned()];
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
    assert_eq!(bucket.names(&log_prefix(host.notes.conversation())).len(), 2);
}

#[test]
fn a_message_that_no_segment_can_say_is_told() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.source.messages = ["two\nlines", "x\ny", "{}"].map(str::to_owned).into();
    let pushed = host.push(&bucket).unwrap();
    let left: Vec<_> = pushed.left.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(left, ["messages at byte 0", "messages at byte 1"]);
    assert!(pushed.left.iter().all(|(_, why)| matches!(why, LeftOut::Message { bytes: 3.., .. })));
    assert_eq!(reader(&bucket).told(), ["{}"]);
    let unshared = host.notes.agreement().unwrap().unshared;
    assert_eq!(unshared.into_iter().collect::<Vec<_>>(), [(0, 9), (1, 3)]);
    assert!(host.push(&bucket).unwrap().left.is_empty(), "it is told once");
}

#[test]
fn a_segment_that_is_another_one_is_left_alone() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    let id = SegmentId { writer: host.home.writer().unwrap(), number: 1 };
    let key = segment_key(host.notes.conversation(), id);
    host.session.looked = Some(host.now.clone());
    bucket.replace(&key, b"of somebody else");
    host.push_all(&bucket);
    assert_ne!(host.home.writer().unwrap(), id.writer);
    let segments = host.notes.segments().unwrap();
    assert!(!segments.is_empty() && !segments.contains(&id));
}

#[test]
fn a_write_once_bucket_takes_only_what_is_new() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.home.keep_bucket("memory:", true).unwrap();
    host.push_all(&bucket);
    let before = reader(&bucket).living();
    host.remove("empty");
    host.write("large.log", "replaced");
    host.write("new.txt", "new");
    host.rename("small.txt", "moved.txt");
    let pushed = host.push(&bucket).unwrap();
    let left: Vec<_> = pushed.left.iter().map(|(path, why)| (path.clone(), why.clone())).collect();
    let once = |name: &str| (path(name), LeftOut::WriteOnce);
    assert_eq!(left, [once("empty"), once("large.log")]);
    let after = reader(&bucket).living();
    assert_eq!(after.len(), before.len() + 1, "one is new, and one has another name");
    let digests = |living: &[(String, String)]| -> std::collections::BTreeSet<_> {
        living.iter().map(|(_, digest)| digest.clone()).collect()
    };
    assert!(digests(&before).is_subset(&digests(&after)), "nothing is gone");
    assert!(after.iter().any(|(name, _)| *name == path("moved.txt")));
    let again = host.push(&bucket).unwrap();
    assert!(again.segments.is_empty() && again.left.len() == 2, "it is told again: {again:?}");
}

#[test]
fn messages_in_a_write_once_bucket_stay() {
    let (bucket, mut host) = (TestBucket::new(), filled());
    host.home.keep_bucket("memory:", true).unwrap();
    host.push_all(&bucket);
    let state = crate::replica::State::of(&reader(&bucket).pieces());
    let removed = state.messages.into_keys().map(|(_, origin)| origin).collect();
    let changes = Changes { removed, ..Changes::default() };
    let pushed = host.pushing(&bucket, |push, session| push.run(&changes, session)).unwrap();
    assert_eq!(pushed.left, [("messages".to_owned(), LeftOut::WriteOnce)]);
    assert!(pushed.segments.is_empty());
    assert_eq!(reader(&bucket).told(), host.source.messages);
}

#[test]
fn what_is_moved_and_removed_is_said_in_parts() {
    let segment = SegmentId { writer: WriterId(7), number: 1 };
    let origin = |place| Origin { segment, place };
    let long = vec!["a".repeat(200); 20].join("/");
    let removed = (0..250_000).map(origin).collect();
    let moves = (300_000..301_000).map(|place| (origin(place), long.clone()));
    let mut left = Changes { moves: moves.collect(), removed, ..Changes::default() };
    let all = left.clone();
    let mut said = Changes::default();
    while !left.is_empty() {
        let (some, weight) = first_of(&mut left);
        assert!(!some.is_empty() && weight < 6 << 20, "{weight}");
        let made = Batch::new(some.clone(), weight, false).make(segment, &mut Clock::default(), 1);
        let head = SegmentHead::read(&made.unwrap().bytes).unwrap().unwrap();
        let stated = 64 * (some.moves.len() as u64 + 2);
        assert!(head.merged_bytes() <= weight as u64 + stated, "{weight}");
        said.moves.extend(some.moves);
        said.removed.extend(some.removed);
    }
    assert_eq!(said, all);
}
