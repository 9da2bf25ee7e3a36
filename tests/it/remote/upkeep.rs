//! What an operator does: status, check, gc, purge.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use serde_json::Value;

use crate::remote::Pair;
use crate::remote::assert_told;
use crate::remote::ending;
use crate::remote::files;
use crate::remote::large;
use crate::remote::outputs;

fn status(pair: &Pair) -> Value {
    let text = pair.ctxfs(&pair.one, "remote", &["status", "--json"]).text();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn status_tells_what_is_still_to_be_sent() {
    let pair = Pair::new();
    pair.one.put("c7", "a", b"12345\n");
    pair.push(&pair.one);
    pair.one.put("c7", "b", b"123\n");
    let told = status(&pair);
    let conversation = &told["conversations"][0];
    assert_eq!(conversation["conversation"], "c7");
    for (name, count) in [("files", 1), ("bytes", 4), ("segments", 1)] {
        assert_eq!(conversation[name], count, "{name}: {told}");
    }
    assert_eq!(told["error"], Value::Null);
    let id = told["bucket"].clone();
    fs::rename(pair.bucket(), pair.bucket().with_extension("away")).unwrap();
    let told = status(&pair);
    assert!(told["error"].is_string() && told["conversations"][0]["files"] == 1, "{told}");
    assert_eq!(told["bucket"], id, "what is known here is told");
}

#[test]
fn a_message_that_is_too_long_is_told_once_by_push_and_by_each_status() {
    let pair = Pair::new();
    pair.one.put("c7", "a", b"text\n");
    let log = pair.one.path().join("context/c7/history/messages.jsonl");
    let long = format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "x".repeat(17 << 20));
    fs::write(log, &long).unwrap();
    let push = || pair.ctxfs(&pair.one, "push", &[]).run();
    let told = format!("c7/messages at byte 0: a message of {} bytes", long.len() - 1);
    assert_told(&push(), 1, &told);
    assert_told(&push(), 0, "everything already");
    let told = pair.ctxfs(&pair.one, "remote", &["status"]).text();
    assert!(told.contains("all is sent") && told.contains("too long to be shared"), "{told}");
    let told = status(&pair);
    let too_long = &told["conversations"][0]["messagesTooLong"][0];
    assert_eq!(too_long["offset"], 0, "{told}");
    assert_eq!(too_long["bytes"], long.len() - 1, "{told}");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

#[test]
fn check_finds_a_missing_and_a_damaged_object() {
    let pair = Pair::new();
    pair.one.put("c7", "a", &large("a"));
    pair.push(&pair.one);
    pair.ctxfs(&pair.one, "remote", &["check", "--read"]).stdout();
    let object = &ending(&pair.bucket().join("conversations/c7/objects"), ".zst")[0];
    let mut bytes = fs::read(object).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(object, bytes).unwrap();
    pair.ctxfs(&pair.one, "remote", &["check"]).stdout();
    let checked = pair.ctxfs(&pair.one, "remote", &["check", "--read"]).run();
    assert_told(&checked, 1, "c7/artifacts/tool/a.txt");
    let pulled = pair.ctxfs(&pair.other, "pull", &[]).run();
    assert_eq!(pulled.code, 1, "{pulled}");
    assert!(outputs(&pair.other).is_empty(), "damaged bytes are never shown");
    fs::remove_file(object).unwrap();
    let checked = pair.ctxfs(&pair.one, "remote", &["check"]).run();
    assert_told(&checked, 1, "is missing");
}

#[test]
fn a_purge_removes_the_bytes_now() {
    let pair = Pair::new();
    pair.one.put("c7", "secret", &large("secret"));
    pair.one.put("c7", "other", b"harmless\n");
    pair.push(&pair.one);
    pair.pull(&pair.other);
    let purge = |options: &[&str]| {
        let arguments = [&["purge", "c7/artifacts/tool/secret.txt"][..], options].concat();
        pair.ctxfs(&pair.one, "remote", &arguments).run()
    };
    let before = files(&pair.bucket()).len();
    assert_told(&purge(&["--dry-run"]), 0, "would be deleted");
    assert_eq!(files(&pair.bucket()).len(), before);
    assert_told(&purge(&[]), 0, "out of reach");
    assert!(ending(&pair.bucket(), ".blocks").is_empty());
    assert!(files(&pair.bucket().join("conversations/c7/objects")).is_empty());
    pair.pull(&pair.other);
    for store in [&pair.one, &pair.other] {
        assert_eq!(outputs(store).into_keys().collect::<Vec<_>>(), ["other.txt"]);
    }
    let never = pair.ctxfs(&pair.one, "remote", &["purge", "c7/artifacts/tool/never.txt"]).run();
    assert_told(&never, 1, "has nothing of");
}

#[test]
fn gc_merges_and_leaves_what_is_needed() {
    let pair = Pair::new();
    for number in 0..64 {
        pair.one.put("c7", &number.to_string(), b"few bytes\n");
        pair.ctxfs(&pair.one, "push", &["c7"]).env("CTXFS_REMOTE_SWEEP", "false").stdout();
    }
    let segments = || ending(&pair.bucket(), ".tar.zst").len();
    assert_eq!(segments(), 65, "the last push has merged them");
    let told = pair.ctxfs(&pair.one, "remote", &["gc"]).text();
    assert!(told.contains("c7: nothing to merge, nothing to delete"), "{told}");
    assert_eq!(segments(), 65, "what is covered stays for a day");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

#[test]
fn gc_deletes_what_a_killed_push_left_in_a_directory() {
    let pair = Pair::new();
    pair.one.put("c7", "a", &large("a"));
    pair.push(&pair.one);
    let objects = pair.bucket().join("conversations/c7/objects");
    let object = ending(&objects, ".zst")[0].display().to_string();
    let beside = |end: &str| PathBuf::from(format!("{object}{end}"));
    let old = [beside("#1"), pair.bucket().join("ctxfs.json#3")];
    let (young, notes) = (beside("#2"), objects.join("notes#1"));
    for path in old.iter().chain([&young, &notes]) {
        fs::write(path, "half").unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_hours(8 * 24);
    for path in old.iter().chain([&notes]) {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let gc =
        |options: &[&str]| pair.ctxfs(&pair.one, "remote", &[&["gc"][..], options].concat()).text();
    let told = gc(&["--dry-run"]);
    assert_eq!(told.matches("would be deleted: ").count(), 2, "{told}");
    assert!(old.iter().all(|path| path.exists()));
    let told = gc(&[]);
    assert!(told.contains("deleted: ctxfs.json#3") && told.contains("#1"), "{told}");
    assert!(!old.iter().any(|path| path.exists()), "{told}");
    assert!(young.exists() && notes.exists(), "one may go on, and one is not ours");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

#[test]
fn what_the_bucket_lost_is_sent_again() {
    let pair = Pair::new();
    pair.one.put("c7", "a", &large("a"));
    pair.push(&pair.one);
    fs::remove_dir_all(pair.bucket().join("conversations")).unwrap();
    let pushed = pair.ctxfs(&pair.one, "push", &["c7"]).run();
    assert_told(&pushed, 0, "1 sent again");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

#[test]
fn a_conversation_that_the_bucket_lost_is_found_without_its_name() {
    let pair = Pair::new();
    for id in ["c7", "c8"] {
        pair.one.put(id, "a", b"text\n");
    }
    pair.push(&pair.one);
    for lost in ["conversations/c8", "conversations"] {
        fs::remove_dir_all(pair.bucket().join(lost)).unwrap();
        let checked = pair.ctxfs(&pair.one, "remote", &["check"]).run();
        assert_told(&checked, 1, "gone from the bucket");
        let pulled = pair.ctxfs(&pair.one, "pull", &[]).run();
        assert_told(&pulled, 0, "c8: 1 segment sent again");
        assert_eq!(pair.ctxfs(&pair.one, "remote", &["check"]).run().code, 0);
    }
    pair.pull(&pair.other);
    for id in ["c7", "c8"] {
        let path = format!("{id}/artifacts/tool/a.txt");
        assert_eq!(pair.other.view(&path), b"text\n");
    }
}

#[test]
fn another_bucket_takes_nothing_away_from_the_first() {
    let pair = Pair::new();
    pair.one.put("c7", "a", b"text\n");
    pair.one.put("c7", "b", &large("b"));
    pair.push(&pair.one);
    let had = outputs(&pair.one);
    // The bytes of the other one stay in the bucket.
    pair.ctxfs(&pair.other, "view", &["c7/artifacts/tool/a.txt"]).stdout();
    let away = pair.bucket().with_extension("away");
    fs::rename(pair.bucket(), &away).unwrap();
    pair.other.put("c7", "c", b"more\n");
    pair.ctxfs(&pair.other, "push", &["--new-bucket"]).stdout();
    let pulled = pair.ctxfs(&pair.other, "pull", &[]).run();
    assert!(!pulled.to_string().contains("removed"), "{pulled}");
    fs::remove_dir_all(pair.bucket()).unwrap();
    fs::rename(&away, pair.bucket()).unwrap();
    pair.meet();
    let has = outputs(&pair.one);
    assert_eq!(has.len(), had.len() + 1);
    assert!(had.iter().all(|(name, bytes)| has.get(name) == Some(bytes)));
}

#[test]
fn bytes_that_came_are_sent_to_a_new_bucket() {
    let pair = Pair::new();
    pair.one.put("c7", "a", b"text\n");
    pair.push(&pair.one);
    // Its record comes first, and then its bytes.
    pair.ctxfs(&pair.other, "view", &["c7/artifacts/tool/a.txt"]).stdout();
    pair.pull(&pair.other);
    fs::remove_dir_all(pair.bucket()).unwrap();
    pair.ctxfs(&pair.other, "push", &["--new-bucket"]).stdout();
    let listed = pair.ctxfs(&pair.other, "ls", &["--remote", "c7"]).text();
    assert!(listed.contains("artifacts/tool/a.txt"), "{listed}");
}
