//! A bucket that is not where it was, and one in which others put what is not of ctxfs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use crate::remote::{Pair, assert_told, ending, outputs};
use crate::support::{Mode, TestMount, TestStore};

/// What is told of a bucket that is not there.
const LOST: &str = "has no ctxfs.json";

/// Two stores that know a bucket, which has an output of the first.
fn met() -> Pair {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.meet();
    pair
}

/// Moves the bucket away, as when its disk is unmounted. Returns where it is.
fn unmount(pair: &Pair) -> PathBuf {
    let away = pair.shared.path().join("away");
    fs::rename(pair.bucket(), &away).unwrap();
    away
}

#[test]
fn an_unmounted_disk_is_told_and_no_bucket_is_begun() {
    let pair = met();
    let away = unmount(&pair);
    pair.one.put("c7", "y", b"more\n");
    for is_mountpoint in [false, true] {
        if is_mountpoint {
            fs::create_dir(pair.bucket()).unwrap();
        }
        let commands: [(&str, &[&str]); 5] = [
            ("push", &[]),
            ("push", &["c7"]),
            ("pull", &[]),
            ("ls", &["--remote"]),
            ("remote", &["gc"]),
        ];
        for (command, arguments) in commands {
            assert_told(&pair.ctxfs(&pair.one, command, arguments).run(), 1, LOST);
        }
        let call = format!("z-{is_mountpoint}");
        let put = pair.ctxfs(&pair.one, "put", &["-c", "c7", "--call", &call, "--durable"]);
        let told = put.stdin("more\n").run();
        assert_told(&told, 1, LOST);
        assert_told(&told, 1, "safe here only");
        let status = pair.ctxfs(&pair.one, "remote", &["status"]).run().to_string();
        assert!(status.contains(LOST) && status.contains("to send"), "{status}");
        assert_eq!(pair.bucket().exists(), is_mountpoint, "nobody makes it");
    }
    assert_eq!(fs::read_dir(pair.bucket()).unwrap().count(), 0);
    fs::remove_dir(pair.bucket()).unwrap();
    fs::rename(away, pair.bucket()).unwrap();
    pair.meet();
    assert!(outputs(&pair.other).contains_key("y.txt"));
}

/// What is sent would become a conversation that is sent, and so on.
#[test]
fn a_bucket_inside_its_store_or_a_mount_is_refused() {
    let (store, other) = (Arc::new(TestStore::new()), Arc::new(TestStore::new()));
    store.put("c7", "x", b"text\n");
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    let inside =
        [store.path().join("context/c7"), store.path().join("new"), mount.path().join("c7")];
    for place in inside {
        let url = format!("file://{}", place.display());
        let places =
            [&store].into_iter().chain((place.starts_with(mount.path())).then_some(&other));
        for store in places {
            let pushed = store.ctxfs("push", &[]).env("CTXFS_REMOTE_URL", &url).run();
            assert_told(&pushed, 2, "lies inside the");
        }
    }
    drop(mount);
    let target = store.path().with_extension("target");
    let url = format!("file://{}/bucket", target.display());
    let mounted = store.ctxfs("mount", &["--foreground", target.to_str().unwrap()]);
    assert_told(&mounted.env("CTXFS_REMOTE_URL", &url).run(), 2, "lies inside the mountpoint");
}

#[test]
fn a_bucket_that_is_gone_for_good_is_begun_anew_by_who_says_so() {
    let pair = met();
    unmount(&pair);
    assert_told(&pair.ctxfs(&pair.other, "push", &[]).run(), 1, "push --new-bucket");
    pair.ctxfs(&pair.one, "push", &["--new-bucket"]).stdout();
    assert!(pair.bucket().join("ctxfs.json").exists());
    pair.one.put("c7", "y", b"more\n");
    // The other store meets the new one.
    pair.meet();
    assert_eq!(outputs(&pair.other).len(), 2);
    pair.ctxfs(&pair.one, "push", &["--new-bucket"]).stdout();
    pair.meet();
}

#[test]
fn a_bucket_that_was_emptied_but_for_its_mark_is_filled_again() {
    let pair = met();
    fs::remove_dir_all(pair.bucket().join("conversations")).unwrap();
    assert_told(&pair.ctxfs(&pair.one, "push", &["c7"]).run(), 0, "sent again");
    pair.meet();
}

#[test]
fn what_is_odd_in_a_bucket_holds_up_no_conversation() {
    let pair = met();
    let conversations = pair.bucket().join("conversations");
    let outside = pair.shared.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(conversations.join(OsStr::from_bytes(b"a\xffb"))).unwrap();
    fs::create_dir(conversations.join("a\nb")).unwrap();
    symlink(".", conversations.join("loop")).unwrap();
    symlink(&outside, conversations.join("c8")).unwrap();
    symlink(".", conversations.join("c7/log/loop")).unwrap();
    pair.one.put("c7", "y", b"more\n");
    pair.meet();
    pair.ctxfs(&pair.one, "remote", &["gc"]).stdout();
    let told = pair.ctxfs(&pair.one, "remote", &["check"]).run();
    for name in ["conversations/loop: ", "conversations/c8: ", "c7/log/loop: ", "5 flaws"] {
        assert_told(&told, 1, name);
    }
}

#[test]
fn a_link_in_a_bucket_leads_no_host_out_of_it() {
    let pair = met();
    let conversations = pair.bucket().join("conversations");
    let outside = pair.shared.path().join("outside");
    fs::create_dir_all(outside.join("log")).unwrap();
    symlink(&outside, conversations.join("c8")).unwrap();
    pair.one.put("c8", "x", b"a secret\n");
    pair.one.put("c9", "x", b"text\n");
    let told = pair.ctxfs(&pair.one, "push", &[]).run();
    assert_told(&told, 1, "c8: ");
    assert_told(&told, 1, "c9: sent");
    assert!(ending(&outside, "").is_empty(), "nothing is written there");
    let segment = ending(&conversations.join("c9/log"), ".tar.zst").remove(0);
    let elsewhere = outside.join("segment");
    fs::rename(&segment, &elsewhere).unwrap();
    symlink(&elsewhere, &segment).unwrap();
    let told = pair.ctxfs(&pair.other, "pull", &["c9"]).run();
    assert_told(&told, 1, "there is no conversation `c9`");
}
