//! What an operator does: status, check, gc, purge.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::remote::{Pair, assert_told, ending, files, large, noise, outputs};
use crate::support::Command;

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
    let elsewhere = "artifacts/tool/b.txt: its bytes are only in ";
    let status = pair.ctxfs(&pair.other, "remote", &["status"]).text();
    assert!(status.contains(elsewhere), "{status}");
    assert_told(&pair.ctxfs(&pair.other, "remote", &["check"]).run(), 1, elsewhere);
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

/// Makes all that is in the bucket as old as if so many days had passed.
fn age(pair: &Pair, days: u64) {
    let then = SystemTime::now() - Duration::from_hours(days * 24);
    for path in files(&pair.bucket()) {
        fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }
}

/// Returns true if a file has the text, also in frames of zstd.
fn has_text(path: &Path, text: &[u8]) -> bool {
    const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
    let bytes = fs::read(path).unwrap();
    let unpacked = |at: usize| {
        let mut frame = Vec::new();
        let decoder = zstd::stream::read::Decoder::new(&bytes[at..])
            .map(zstd::stream::read::Decoder::single_frame);
        // What only looks like a frame has what came before it broke off.
        drop(decoder.and_then(|mut decoder| decoder.read_to_end(&mut frame)));
        memchr::memmem::find(&frame, text).is_some()
    };
    memchr::memmem::find(&bytes, text).is_some()
        || memchr::memmem::find_iter(&bytes, MAGIC).any(unpacked)
}

/// Returns the files below a directory that have the text.
fn having(top: &Path, text: &str) -> Vec<PathBuf> {
    files(top).into_iter().filter(|path| has_text(path, text.as_bytes())).collect()
}

/// Merges all segments of the first store, which pushes as often as that takes.
fn merge(pair: &Pair) {
    for number in 0..64 {
        pair.one.put("c7", &format!("more-{number}"), b"few bytes\n");
        pair.ctxfs(&pair.one, "push", &["c7"]).env("CTXFS_REMOTE_SWEEP", "false").stdout();
    }
}

#[test]
fn gc_deletes_nothing_while_the_bucket_lacks_a_segment() {
    let pair = Pair::new();
    pair.one.put("c7", "large", &large("large"));
    pair.push(&pair.one);
    let sent = ending(&pair.bucket(), ".tar.zst");
    let first = &sent[0];
    for call in ["b", "c"] {
        pair.one.put("c7", call, b"few bytes\n");
        pair.push(&pair.one);
    }
    age(&pair, 8);
    let away = first.with_extension("away");
    fs::rename(first, &away).unwrap();
    let told = pair.ctxfs(&pair.other, "remote", &["gc"]).run();
    assert_told(&told, 1, "nothing is deleted in `c7`");
    let name = first.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.zst");
    assert_told(&told, 1, &format!("segment `{name}` is missing"));
    let checked = pair.ctxfs(&pair.other, "remote", &["check"]).run();
    assert_told(&checked, 1, name);
    // A push that would tidy goes on, and says it.
    for number in 0..64 {
        pair.other.put("c7", &format!("other-{number}"), b"few bytes\n");
        let pushed = pair.ctxfs(&pair.other, "push", &["c7"]).run();
        assert_eq!(pushed.code, 0, "{pushed}");
        if number == 63 {
            assert!(
                having(&pair.bucket().join("conversations/c7/objects"), "line 7 of").len() == 1
            );
        }
    }
    fs::rename(&away, first).unwrap();
    pair.meet();
    assert_eq!(pair.ctxfs(&pair.other, "remote", &["check", "--read"]).run().code, 0);
    let view = pair.other.view("c7/artifacts/tool/large.txt");
    assert!(view == large("large"));
}

#[test]
fn a_purge_finds_what_was_merged_away() {
    let secret = "the key is 6f1d3a";
    for (call, bytes) in [("small", format!("{secret}\n")), ("large", secret.repeat(30_000))] {
        let pair = Pair::new();
        pair.one.put("c7", call, bytes.as_bytes());
        pair.push(&pair.one);
        fs::remove_file(pair.one.plain("c7", &format!("{call}.txt"))).unwrap();
        merge(&pair);
        let path = format!("c7/artifacts/tool/{call}.txt");
        let purge = |store| pair.ctxfs(store, "remote", &["purge", &path]).run();
        assert!(!having(&pair.bucket(), secret).is_empty());
        // Another store has never read the segments that were merged.
        assert_told(&purge(&pair.other), 0, "out of reach");
        assert_eq!(having(&pair.bucket(), secret), Vec::<PathBuf>::new());
        assert_told(&purge(&pair.one), 1, "has nothing of");
    }
}

/// The records that named it are gone: nobody knows any more what the object has.
#[test]
fn a_purge_deletes_objects_that_nothing_names_any_more() {
    let pair = Pair::new();
    pair.one.put("c7", "large", &large("large"));
    pair.push(&pair.one);
    fs::remove_file(pair.one.plain("c7", "large.txt")).unwrap();
    pair.push(&pair.one);
    let [objects, log] =
        ["objects", "log"].map(|name| pair.bucket().join("conversations/c7").join(name));
    merge(&pair);
    let head = |path: &PathBuf| {
        Command::new("tar").arg("--zstd").arg("-xOf").arg(path).arg("segment.json").text()
    };
    let heads = files(&log).iter().map(head).collect::<Vec<_>>().concat();
    for path in files(&log) {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.zst");
        if heads.contains(name) {
            fs::remove_file(&path).unwrap();
        }
    }
    let purge = || pair.ctxfs(&pair.one, "remote", &["purge", "c7/artifacts/tool/large.txt"]).run();
    let told = purge();
    assert_told(&told, 1, "no record names");
    assert!(!told.to_string().contains("has nothing"), "{told}");
    age(&pair, 2);
    assert_told(&purge(), 0, "deleted");
    assert!(files(&objects).is_empty());
}

#[test]
fn a_purge_of_the_message_log_takes_out_what_was_removed() {
    let pair = Pair::new();
    let secret = "the password is 81c2";
    pair.one.put("c7", "a", b"text\n");
    let log = pair.one.path().join("context/c7/history/messages.jsonl");
    let said = |text: &str| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}");
    fs::write(&log, format!("{}\n{}\n", said(secret), said("hello"))).unwrap();
    pair.push(&pair.one);
    pair.pull(&pair.other);
    let purge = || pair.ctxfs(&pair.one, "remote", &["purge", "c7/history/messages.jsonl"]).run();
    assert_told(&purge(), 1, "take the lines out of the log first");
    let text = fs::read_to_string(&log).unwrap().replace(secret, "[gone]");
    fs::write(log.with_extension("new"), text).unwrap();
    fs::rename(log.with_extension("new"), &log).unwrap();
    assert_told(&purge(), 0, "out of reach");
    pair.pull(&pair.other);
    for top in [pair.bucket(), pair.one.path(), pair.other.path()] {
        assert_eq!(having(&top, secret), Vec::<PathBuf>::new());
    }
    let log = pair.ctxfs(&pair.other, "log", &["--json", "c7"]).text();
    assert!(log.contains("[gone]") && log.contains("hello"), "{log}");
}

#[test]
fn a_purge_takes_names_arguments_and_other_files_out() {
    let pair = Pair::new();
    let secret = "token-5d07";
    let arguments = format!("{{\"key\":\"{secret}\"}}");
    let put = ["-c", "c7", "--call", "a", "--args", &arguments];
    pair.one.ctxfs("put", &put).stdin("harmless\n").stdout();
    let other = ["catalog/index.json", "history/archive/old.txt"];
    for path in other {
        let at = pair.one.path().join("context/c7").join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, format!("\"{secret}\"\n")).unwrap();
    }
    pair.one.put("c7", "plain", b"text\n");
    pair.push(&pair.one);
    let plain = |name: &str| pair.one.plain("c7", &format!("{name}.txt"));
    fs::rename(plain("plain"), plain(secret)).unwrap();
    pair.push(&pair.one);
    assert!(!having(&pair.bucket(), secret).is_empty());
    let outputs = ["a", secret].map(|call| format!("artifacts/tool/{call}.txt"));
    for path in outputs.iter().map(String::as_str).chain(other) {
        let path = format!("c7/{path}");
        assert_told(&pair.ctxfs(&pair.one, "remote", &["purge", &path]).run(), 0, "out of reach");
    }
    assert_eq!(having(&pair.bucket(), secret), Vec::<PathBuf>::new());
}

/// A small disk that is unmounted with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: &Path) -> Self {
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"]).arg(path).stdout();
        Self(path.to_owned())
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(&self.0).unwrap();
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

#[test]
fn what_comes_leaves_room_for_those_who_write_here() {
    const MIB: u64 = 1 << 20;
    let pair = Pair::new();
    for number in 0..8 {
        let call = format!("large-{number}");
        pair.one.put("c7", &call, &noise(&call, 4 << 20));
    }
    pair.push(&pair.one);
    let put = |call: &str| {
        let put = pair.ctxfs(&pair.other, "put", &["-c", "c8", "--call", call]);
        put.env("CTXFS_MIN_FREE", "12MiB").stdin("of this host\n").stdout();
    };
    let limited = |command: &str, arguments: &[&str]| {
        pair.ctxfs(&pair.other, command, arguments).env("CTXFS_MIN_FREE", "12MiB")
    };
    let disk = SmallDisk::at(&pair.other.path());
    let pulled = limited("pull", &[]).run();
    assert_told(&pulled, 1, "`min_free`");
    let came = outputs(&pair.other).len();
    assert!((1..8).contains(&came) && disk.free() > 12 * MIB, "{came}, {} free", disk.free());
    put("a");
    // What has no room is read all the same, and no block of it is kept.
    for number in 0..8 {
        let call = format!("large-{number}");
        let path = format!("c7/artifacts/tool/{call}.txt");
        assert!(limited("view", &[&path]).stdout() == noise(&call, 4 << 20));
    }
    assert!(disk.free() > 12 * MIB, "{} free", disk.free());
    put("b");
    drop(disk);
    let pulled = pair.ctxfs(&pair.other, "pull", &[]).env("CTXFS_QUOTA", "10MiB").run();
    assert_told(&pulled, 1, "`quota`");
    let came = outputs(&pair.other).len();
    assert!((1..3).contains(&came), "{came}");
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one), "it goes on");
}
