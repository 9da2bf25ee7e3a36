//! Outputs that meet a limit.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use rustix::process::Signal;

use crate::support::{Call, Command, Fault, FaultyDisk, Mode, Output, TestMount, TestStore};

fn put(store: &TestStore, call: &str, output: &[u8]) -> Command {
    store.ctxfs("put", &["-c", "c7", "--call", call]).stdin(output)
}

/// What is told on standard error, after nothing was printed.
fn refused(output: &Output) -> String {
    assert!(output.code == 1 && output.stdout.is_empty(), "{output}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Why the summary of an output calls it incomplete.
fn reason(store: &TestStore, name: &str) -> String {
    let summary = store.view(&format!("c7/artifacts/tool/{name}.summary"));
    let summary = String::from_utf8(summary).unwrap();
    let first = summary.lines().next().unwrap();
    let (_, reason) = first.split_once("INCOMPLETE: ").unwrap_or_else(|| panic!("{first}"));
    reason.to_owned()
}

#[test]
fn what_fits_under_the_quota_is_kept() {
    let store = TestStore::new();
    let full = || put(&store, "x", &vec![b'x'; 700_000]).env("CTXFS_QUOTA", "500000").run();
    let told = refused(&full());
    assert_eq!(
        told,
        "error: cannot store the whole output; the part received is in `artifacts/tool/x.txt`: the \
         files of the conversation have reached their quota of 500000 bytes\n"
    );
    let kept = fs::read(store.plain("c7", "x.txt")).unwrap();
    // Directories and records take room, too.
    assert!((400_000..500_000).contains(&kept.len()), "{} bytes", kept.len());
    let text = String::from_utf8(kept).unwrap();
    let (head, rest) = text.split_once("\n[ctxfs] ").unwrap();
    let (mark, tail) = rest.split_once('\n').unwrap();
    assert!(head.bytes().chain(tail.bytes()).all(|byte| byte == b'x'));
    let lost = 700_000 - head.len() - tail.len();
    assert!(mark.starts_with(&format!("{lost} bytes left out here: no room in the store (")));
    assert!(reason(&store, "x.txt").contains("(there was no room: the files of the"));
    // There is no room for anything else.
    refused(&put(&store, "y", &[b'y'; 9000]).env("CTXFS_QUOTA", "500000").run());
    assert!(fs::read(store.plain("c7", "y.txt")).unwrap().len() < 9000);
}

#[test]
fn the_cap_is_that_of_the_mount_in_the_same_words() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        let mut mount = TestMount::of(&store, mode, &["--max-artifact", "1000"]);
        let mut file = fs::File::create(mount.tool("c7").join("mount.txt")).unwrap();
        file.write_all(&[b'x'; 1000]).unwrap();
        file.write_all(b"x").unwrap_err();
        drop(file);
        assert_eq!(mount.end(Signal::TERM), Some(0));
        let full = put(&store, "put", &[b'x'; 1002]).env("CTXFS_MAX_ARTIFACT", "1000").run();
        assert!(refused(&full).ends_with(": the artifact has reached its cap of 1000 bytes\n"));
        let of_mount = reason(&store, "mount.txt");
        let of_put = of_mount.replace("1000 bytes)", "1000 bytes; 2 bytes more were not kept)");
        assert_eq!(reason(&store, "put.txt"), of_put, "{mode:?}");
        let plain = |name: &str| fs::read(store.plain("c7", name)).unwrap();
        assert_eq!(plain("put.txt"), plain("mount.txt"));
    }
}

#[test]
fn a_disk_that_is_nearly_full_takes_no_more() {
    let store = TestStore::new();
    let told = refused(&put(&store, "x", b"text").env("CTXFS_MIN_FREE", "1000000TiB").run());
    assert!(told.contains("the store's disk has less than "), "{told}");
    assert!(reason(&store, "x.txt").contains("there was no room"));
}

#[test]
fn old_outputs_give_way_if_a_rule_says_so() {
    let store = TestStore::new();
    store.put("c7", "old", &vec![b'x'; 600_000]);
    let new = put(&store, "new", &vec![b'y'; 700_000]).env("CTXFS_QUOTA", "1000000");
    new.env("CTXFS_KEEP_CONVERSATION", "1000000").stdout();
    assert!(!store.plain("c7", "old.txt").exists());
    assert_eq!(fs::read(store.plain("c7", "new.txt")).unwrap(), vec![b'y'; 700_000]);
}

#[test]
fn a_disk_that_fails_is_told() {
    let disk = FaultyDisk::new();
    let store = disk.store();
    for (fault, why) in [
        (Fault::room(10), "there was no room: No space left"),
        (Fault::error(Call::Write, libc::EIO).after(1), "the disk failed: "),
    ] {
        disk.fail(fault.of("x.txt"));
        let output = vec![b'x'; 1_000_000];
        let told = refused(&put(store, "x", &output).env("CTXFS_MIN_FREE", "0").run());
        assert!(told.contains("the part received is in `artifacts/tool/x.txt`: "), "{told}");
        assert!(disk.mend() > 0);
        assert!(reason(store, "x.txt").contains(why), "{}", reason(store, "x.txt"));
        let kept = disk.truth("c7", "x.txt");
        assert!(!kept.is_empty() && output.starts_with(&kept), "{} bytes", kept.len());
        fs::remove_file(store.plain("c7", "x.txt")).unwrap();
    }
}
