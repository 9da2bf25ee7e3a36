//! Stores whose files were restored from a copy by `cp -a`, `rsync -a` or `tar`.

use std::fs;
use std::fs::File;
use std::time::{Duration, SystemTime};

use super::{Host, two_hosts};
use crate::remote;
use crate::remote::files::tests::scene::TOOL;
use crate::replica::FoundFile;

fn at(call: &str) -> String {
    format!("{TOOL}/{call}.txt")
}

/// Replaces each file by a copy. `kept` maps the time of the original to the time of the copy.
fn copy_all(host: &Host, kept: impl Fn(SystemTime) -> SystemTime) {
    for name in host.scene.names() {
        let (old, new) = (host.scene.at(&name), host.scene.at(&format!("{TOOL}/.ctxfs-new")));
        fs::copy(&old, &new).unwrap();
        let modified = fs::metadata(&old).unwrap().modified().unwrap();
        File::open(&new).unwrap().set_modified(kept(modified)).unwrap();
        fs::rename(new, old).unwrap();
    }
}

/// Truncates a time to whole seconds, as archives do.
fn seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// Returns two hosts. The first has published a file that the second then changed. The first has
/// not looked since.
fn parted() -> (Host, Host) {
    let (one, other) = two_hosts();
    for call in ["kept", "removed", "renamed"] {
        one.scene.put(call, &format!("{call}\n"));
    }
    other.scene.put("theirs", "of the other\n");
    other.push();
    one.pull();
    one.push();
    other.pull();
    fs::remove_file(other.scene.at(&at("removed"))).unwrap();
    fs::rename(other.scene.at(&at("renamed")), other.scene.at(&at("moved"))).unwrap();
    other.push();
    (one, other)
}

#[test]
fn they_are_what_they_were() {
    let keeps: [fn(SystemTime) -> SystemTime; 2] = [|time| time, seconds];
    for kept in keeps {
        let (one, other) = parted();
        copy_all(&one, kept);
        assert!(one.push().segments.is_empty(), "nothing is new");
        one.pull();
        other.pull();
        assert_eq!(one.sight(), other.sight());
        let names = ["kept", "moved", "theirs"].map(at);
        assert_eq!(one.scene.names(), names);
        assert!(one.push().segments.is_empty() && other.push().segments.is_empty());
    }
}

#[test]
fn each_is_read_once() {
    let (one, _other) = parted();
    copy_all(&one, |time| time);
    one.push();
    let after = one.notes().agreement().unwrap();
    assert_eq!(after.base.entries.len(), one.scene.names().len());
    let clock = one.scene.store.clock();
    let again =
        remote::files::files(&one.scene.conversation, &after.base, clock, &|_| true).unwrap();
    let is_known = |found: &FoundFile| found.digest.as_deref() == Some("");
    assert!(again.found.values().all(is_known), "none is read again");
}

#[test]
fn what_was_written_again_is_new() {
    let (one, other) = parted();
    copy_all(&one, |time| time);
    // The file has the same bytes, but is newly written.
    let file = one.scene.at(&at("removed"));
    fs::remove_file(&file).unwrap();
    fs::write(&file, "removed\n").unwrap();
    assert_eq!(one.push().segments.len(), 1);
    one.pull();
    other.pull();
    assert_eq!(one.sight(), other.sight());
    assert!(one.scene.has(&at("removed")));
}

#[test]
fn what_is_restored_after_its_removal_was_seen_is_new() {
    let (one, other) = parted();
    let backup = one.scene.at(&format!("{TOOL}/.ctxfs-backup"));
    fs::copy(one.scene.at(&at("removed")), &backup).unwrap();
    let modified = fs::metadata(one.scene.at(&at("removed"))).unwrap().modified().unwrap();
    File::open(&backup).unwrap().set_modified(modified).unwrap();
    one.pull();
    assert!(!one.scene.has(&at("removed")));
    fs::rename(backup, one.scene.at(&at("removed"))).unwrap();
    assert_eq!(one.push().segments.len(), 1);
    other.pull();
    assert!(other.scene.has(&at("removed")));
}

#[test]
fn other_bytes_of_the_same_size_and_time_are_new() {
    let (one, other) = parted();
    let file = one.scene.at(&at("kept"));
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, "KEPT\n").unwrap();
    File::open(&file).unwrap().set_modified(modified).unwrap();
    one.push();
    one.pull();
    other.pull();
    assert_eq!(other.sight()[&at("kept")], b"KEPT\n");
}

/// Returns the messages that another host reads after `change` in a conversation that has only
/// messages.
fn heard_after(change: impl FnOnce(&Host)) -> Vec<String> {
    let (one, other) = two_hosts();
    one.say("first");
    one.push();
    other.pull();
    // Two files that are created at nearly the same time may have the same birth time.
    std::thread::sleep(Duration::from_millis(20));
    change(&one);
    let conversation = one.scene.store.create_conversation(one.scene.conversation.id()).unwrap();
    one.sync(|sync| sync.push(&conversation)).unwrap();
    other.pull();
    other.heard()
}

#[test]
fn a_log_that_is_replaced_in_a_conversation_of_messages_replaces_them() {
    let log = |host: &Host| host.scene.at("history/messages.jsonl");
    let heard = heard_after(|host| {
        fs::rename(log(host), host.scene.at("before")).unwrap();
        host.say("second");
    });
    assert_eq!(heard, ["second"]);
    assert_eq!(heard_after(|host| fs::remove_file(log(host)).unwrap()), [""; 0]);
}

#[test]
fn messages_of_a_conversation_that_was_lost_stay() {
    let lose = |host: &Host| {
        fs::remove_dir_all(host.scene.at("")).unwrap();
        host.scene.store.create_conversation(host.scene.conversation.id()).unwrap();
    };
    assert_eq!(heard_after(lose), ["first"]);
    let heard = heard_after(|host| {
        lose(host);
        host.say("second");
    });
    assert_eq!(heard, ["first", "second"]);
}
