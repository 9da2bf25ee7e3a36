//! What one host does, and the other one sees.

use std::fs;
use std::fs::File;

use ctxfs_store::RemovalOutcome;

use crate::remote::host::Sharing;
use crate::remote::{Pair, assert_told, ending, large, outputs};
use crate::support::{TestStore, comes_true, eventually, while_none_starts};

#[test]
fn outputs_go_from_one_store_to_another() {
    let pair = Pair::new();
    pair.one.put("c7", "small", b"few bytes\n");
    pair.one.put("c7", "empty", b"");
    pair.one.put("c7", "large", &large("a"));
    pair.push(&pair.one);
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
    assert_eq!(outputs(&pair.other).len(), 3);
    assert_eq!(
        pair.other.view("c7/artifacts/tool/large.txt.tail"),
        pair.one.view("c7/artifacts/tool/large.txt.tail")
    );
    let again = pair.ctxfs(&pair.one, "push", &[]).run();
    assert_told(&again, 0, "everything already");
    let pulled = pair.ctxfs(&pair.other, "pull", &["c7"]).run();
    assert_told(&pulled, 0, "c7: nothing new");
}

#[test]
fn a_pull_brings_what_a_view_left_elsewhere() {
    let pair = Pair::new();
    pair.one.put("c7", "large", &large("a"));
    pair.push(&pair.one);
    let tail = "c7/artifacts/tool/large.txt.tail";
    let seen = pair.ctxfs(&pair.other, "view", &[tail]).stdout();
    assert_eq!(seen, pair.one.view(tail));
    assert!(outputs(&pair.other).is_empty(), "its bytes are elsewhere");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

#[test]
fn a_rename_and_a_removal_go_to_the_other_store() {
    let pair = Pair::new();
    for (call, bytes) in [("a", "first\n"), ("b", "second\n")] {
        pair.one.put("c7", call, bytes.as_bytes());
    }
    pair.push(&pair.one);
    pair.pull(&pair.other);
    let at = |name: &str| pair.other.plain("c7", name);
    fs::rename(at("a.txt"), at("c.txt")).unwrap();
    fs::remove_file(at("b.txt")).unwrap();
    pair.push(&pair.other);
    let pulled = pair.ctxfs(&pair.one, "pull", &["--json"]).text();
    let told: serde_json::Value = serde_json::from_str(&pulled).unwrap();
    assert_eq!(told[0]["renamed"], 1, "{told}");
    assert_eq!(told[0]["removed"], 1, "{told}");
    assert_eq!(outputs(&pair.one).into_keys().collect::<Vec<_>>(), ["c.txt"]);
}

#[test]
fn what_another_host_renamed_goes_from_this_disk_and_can_be_read() {
    let pair = Pair::new();
    pair.one.put("c7", "a", b"some text\n");
    pair.push(&pair.one);
    pair.pull(&pair.other);
    fs::rename(pair.other.plain("c7", "a.txt"), pair.other.plain("c7", "b.txt")).unwrap();
    pair.push(&pair.other);
    pair.pull(&pair.one);
    assert_eq!(outputs(&pair.one).into_keys().collect::<Vec<_>>(), ["b.txt"]);
    let host = Sharing::new(&pair.one.path(), &pair.url(), 0);
    eventually("it goes", || {
        while_none_starts(|| host.evict("tool/b.txt")) == RemovalOutcome::Removed
    });
    assert!(outputs(&pair.one).is_empty() && host.is_far("tool/b.txt"));
    pair.pull(&pair.one);
    assert_eq!(outputs(&pair.one)["b.txt"], b"some text\n");
}

#[test]
fn two_outputs_with_one_name_are_both_kept() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"of one\n");
    pair.other.put("c7", "x", b"of the other\n");
    pair.meet();
    let texts: Vec<_> = outputs(&pair.one).into_values().collect();
    assert!(texts.len() == 2 && texts.contains(&b"of one\n".to_vec()), "{texts:?}");
}

#[test]
fn a_conversation_that_was_removed_goes_everywhere() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    pair.pull(&pair.other);
    fs::remove_dir_all(pair.one.path().join("context/c7")).unwrap();
    let pulled = pair.ctxfs(&pair.one, "pull", &[]).run();
    assert_told(&pulled, 1, "it was removed here");
    pair.push(&pair.one);
    pair.pull(&pair.other);
    assert!(!pair.other.path().join("context/c7").exists());
    for store in [&pair.one, &pair.other] {
        assert_eq!(pair.ctxfs(store, "ls", &["--remote"]).text(), "");
    }
    pair.pull(&pair.one);
    assert!(!pair.one.path().join("context/c7").exists(), "it does not come back");
}

#[test]
fn a_conversation_that_nobody_has_is_told() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    let told = "there is no conversation `c8`, here or in the bucket";
    let pulled = pair.ctxfs(&pair.other, "pull", &["c8"]).run();
    assert_told(&pulled, 1, told);
    assert!(!pulled.to_string().contains("was not done"), "{pulled}");
    assert_told(&pair.ctxfs(&pair.other, "pull", &["c8", "c7"]).run(), 1, told);
    assert_eq!(outputs(&pair.other), outputs(&pair.one), "the other one came");
    // One that was never sent is here.
    pair.one.put("c9", "x", b"text\n");
    assert_told(&pair.ctxfs(&pair.one, "pull", &["c9"]).run(), 0, "c9: nothing new");
}

#[test]
fn what_is_being_written_is_named_and_sent_later() {
    let pair = Pair::new();
    pair.one.put("c7", "done", b"text\n");
    let live = pair.one.plain("c7", "live.txt");
    let writer = File::create(&live).unwrap();
    let pushed = pair.ctxfs(&pair.one, "push", &[]).run();
    assert_told(&pushed, 1, "c7/artifacts/tool/live.txt: it is live");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other).into_keys().collect::<Vec<_>>(), ["done.txt"]);
    drop(writer);
    assert!(comes_true(|| pair.ctxfs(&pair.one, "push", &[]).run().code == 0));
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other).len(), 2);
}

#[test]
fn the_bucket_is_listed() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    assert_eq!(pair.ctxfs(&pair.other, "ls", &["--remote"]).text(), "c7\n");
    let listed = pair.ctxfs(&pair.other, "ls", &["--remote", "c7"]).text();
    assert!(listed.trim_end().ends_with("artifacts/tool/x.txt"), "{listed}");
    assert!(outputs(&pair.other).is_empty(), "nothing came");
}

#[test]
fn a_conversation_that_the_bucket_does_not_have_is_an_error() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    let commands: [(&str, &[&str]); 4] = [
        ("ls", &["--remote", "c8"]),
        ("remote", &["check", "c8"]),
        ("remote", &["gc", "c8"]),
        ("remote", &["gc", "--dry-run", "c8"]),
    ];
    for (command, arguments) in commands {
        let told = pair.ctxfs(&pair.one, command, arguments).run();
        assert_told(&told, 1, "the bucket has no conversation `c8`");
    }
    pair.ctxfs(&pair.one, "remote", &["check", "c7"]).stdout();
    pair.ctxfs(&pair.one, "remote", &["gc", "c7"]).stdout();
}

#[test]
fn a_durable_output_is_in_the_bucket_when_put_ends() {
    let pair = Pair::new();
    let arguments = ["-c", "c7", "--call", "x", "--durable"];
    let told = pair.ctxfs(&pair.one, "put", &arguments).stdin("text\n").text();
    assert_eq!(told, "text\n");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other)["x.txt"], b"text\n");
    let unset = pair.one.ctxfs("put", &["-c", "c7", "--durable"]).stdin("y").run();
    assert_told(&unset, 2, "no bucket is set");
    assert_eq!(outputs(&pair.one).len(), 1, "nothing was stored");
}

#[test]
fn a_write_once_bucket_is_so_for_all_hosts() {
    let pair = Pair::new();
    let once = |store, command, arguments: &[&str]| {
        pair.ctxfs(store, command, arguments).env("CTXFS_WRITE_ONCE", "true")
    };
    pair.one.put("c7", "x", b"text\n");
    once(&pair.one, "push", &[]).stdout();
    let refused = pair.ctxfs(&pair.other, "pull", &[]).run();
    assert_told(&refused, 1, "set `write_once = true` in ctxfs.toml");
    once(&pair.other, "pull", &[]).stdout();
    fs::remove_file(pair.other.plain("c7", "x.txt")).unwrap();
    assert_told(&once(&pair.other, "push", &[]).run(), 1, "the bucket is write-once");
    once(&pair.one, "pull", &[]).stdout();
    assert_eq!(outputs(&pair.one).into_keys().collect::<Vec<_>>(), ["x.txt"]);
    let purged = once(&pair.one, "remote", &["purge", "c7/artifacts/tool/x.txt"]).run();
    assert_told(&purged, 1, "no host removes anything from it");
}

#[test]
fn an_export_is_whole_wherever_it_is_made() {
    let pair = Pair::new();
    pair.one.put("c7", "large", &large("a"));
    pair.one.put("c7", "small", b"few bytes\n");
    pair.push(&pair.one);
    let archive = pair.other.scratch("archive").join("c7");
    let export = || pair.ctxfs(&pair.other, "export", &["c7", "-o"]).arg(&archive);
    // It asks for the conversation, too.
    export().stdout();
    assert!(outputs(&pair.other).is_empty(), "its bytes are elsewhere");
    let fresh = TestStore::new();
    fresh.ctxfs("import", &[]).arg(&archive).stdout();
    assert_eq!(outputs(&fresh), outputs(&pair.one));
    pair.one.put("c7", "later", b"more bytes\n");
    pair.push(&pair.one);
    let told = export().arg("--json").text();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["elsewhere"], &told["unread"]), (&0.into(), &serde_json::json!([])));
    let fresh = TestStore::new();
    fresh.ctxfs("import", &[]).arg(&archive).stdout();
    assert_eq!(outputs(&fresh), outputs(&pair.one), "it asks again");
}

#[test]
fn an_export_names_what_the_bucket_has_lost() {
    let pair = Pair::new();
    pair.one.put("c7", "large", &large("a"));
    pair.one.put("c7", "small", b"few bytes\n");
    pair.push(&pair.one);
    pair.ctxfs(&pair.other, "ls", &["c7"]).stdout();
    for object in ending(&pair.bucket().join("conversations/c7/objects"), ".zst") {
        fs::remove_file(object).unwrap();
    }
    let archive = pair.other.scratch("archive").join("c7");
    let told = pair.ctxfs(&pair.other, "export", &["c7", "-o"]).arg(&archive).run();
    assert_told(&told, 1, "cannot read artifacts/tool/large.txt");
    let fresh = TestStore::new();
    fresh.ctxfs("import", &[]).arg(&archive).stdout();
    assert_eq!(outputs(&fresh).into_keys().collect::<Vec<_>>(), ["small.txt"]);
}
