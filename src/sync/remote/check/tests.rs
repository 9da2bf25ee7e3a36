use super::*;
use crate::bucket::object_key;
use crate::remote::pieces;
use crate::remote::sync::tests::{Host, deadline, two_hosts};

fn check(host: &Host, reads: bool) -> CheckReport {
    let notes = host.notes();
    let check = Check {
        bucket: &host.bucket,
        notes: &notes,
        reads,
        deadline: &deadline,
        progress: &|_| (),
    };
    check.run().unwrap()
}

fn object_of(host: &Host) -> ObjectName {
    let found = pieces(&host.notes()).unwrap().pieces;
    let mut artifacts = found.iter().flat_map(|piece| piece.artifacts.values());
    artifacts.find_map(|claim| claim.artifact.object).unwrap()
}

fn filled() -> Host {
    let (host, _) = two_hosts();
    host.scene.put("small", "few bytes\n");
    host.scene.put("large", &"a line of a log that is long\n".repeat(100_000));
    host.push();
    host
}

/// Replaces an object, which no correct host does.
fn replace(host: &Host, key: &str, bytes: &[u8]) {
    let deleted = host.bucket.delete(vec![key.to_owned()], deadline());
    deleted[0].1.as_ref().unwrap();
    host.bucket.create(key, &Bytes::copy_from_slice(bytes), deadline()).unwrap();
}

#[test]
fn what_is_whole_has_no_flaw() {
    let host = filled();
    for reads in [false, true] {
        let checked = check(&host, reads);
        assert_eq!((checked.artifacts, checked.segments), (2, 1));
        assert!(checked.problems.is_empty() && checked.unnamed.is_empty(), "{checked:?}");
    }
}

#[test]
fn a_missing_object_and_one_that_nobody_names_are_found() {
    let host = filled();
    let id = host.scene.conversation.id().clone();
    let key = object_key(&id, object_of(&host));
    host.bucket.delete(vec![key], deadline());
    let other = object_key(&id, ObjectName::random());
    host.bucket.create(&other, &Bytes::from_static(b"x"), deadline()).unwrap();
    let checked = check(&host, false);
    assert_eq!(checked.problems.len(), 1, "{:?}", checked.problems);
    assert!(checked.problems[0].what.ends_with("large.txt"));
    assert!(checked.problems[0].why.contains("missing"));
    assert_eq!(checked.unnamed.len(), 1);
}

#[test]
fn damaged_bytes_are_found_by_reading() {
    let host = filled();
    let id = host.scene.conversation.id().clone();
    let key = object_key(&id, object_of(&host));
    let mut bytes = host.bucket.get(&key, None, deadline()).unwrap().to_vec();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    replace(&host, &key, &bytes);
    assert!(check(&host, false).problems.is_empty(), "its size is right");
    let problems = check(&host, true).problems;
    assert!(problems.len() == 1 && problems[0].what.ends_with("large.txt"), "{problems:?}");
}

#[test]
fn a_segment_that_was_replaced_or_is_gone_is_found() {
    let host = filled();
    let id = host.notes().segments().unwrap()[0];
    let key = segment_key(host.scene.conversation.id(), id);
    let mut bytes = host.bucket.get(&key, None, deadline()).unwrap().to_vec();
    bytes[40] ^= 1;
    replace(&host, &key, &bytes);
    assert_eq!(check(&host, true).problems.len(), 1);
    host.bucket.delete(vec![key], deadline());
    let problems = check(&host, false).problems;
    assert!(problems.len() == 1 && problems[0].why.contains("gone"), "{problems:?}");
}
