//! Failures of the disk while artifacts are recorded.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::Value;

use super::disk::{Ground, first_line, view};
use crate::support::{Call, Fault, Mode, TestMount, errno, eventually, log};

const MANIFEST: &str = "manifest.jsonl";

/// Returns the last whole record of an artifact in `c7`.
fn record(ground: &Ground, name: &str) -> Value {
    let manifest = ground.disk.store().path().join("context/c7").join(MANIFEST);
    let text = fs::read(manifest).unwrap_or_default();
    let records = text.split(|byte| *byte == b'\n').rev().filter_map(|line| {
        let record: Value = serde_json::from_slice(line).ok()?;
        record["path"].as_str()?.ends_with(name).then_some(record)
    });
    records.into_iter().next().unwrap_or_default()
}

fn is_sealed(ground: &Ground, name: &str, bytes: &[u8]) -> bool {
    let record = record(ground, name);
    record["state"] == "sealed"
        && record["analysis"]["digest"] == blake3::hash(bytes).to_hex().as_str()
}

/// Writes an artifact while `fault` is in force, and waits until the daemon meets it.
fn seal_during(ground: &Ground, fault: Fault) {
    // The conversation, and what it holds, is there before.
    ground.mount.artifact("c7", "before.txt", b"before\n");
    eventually("the first is sealed", || is_sealed(ground, "before.txt", b"before\n"));
    ground.disk.fail(fault);
    ground.mount.artifact("c7", "x.txt", &log(50));
    eventually("the disk has failed", || ground.disk.struck() > 0);
    // More than one try, if there are more.
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn sealing_catches_up_when_records_can_be_written_again() {
    for errno in [libc::EIO, libc::ENOSPC] {
        for call in [Call::Write, Call::Open] {
            let ground = Ground::new(Mode::Cached);
            seal_during(&ground, Fault::error(call, errno).of(MANIFEST));
            let path = ground.mount.path().join("c7/artifacts/tool/x.txt");
            match call {
                // What is not recorded is computed.
                Call::Write => assert!(first_line(&path).contains("complete output is stored")),
                // Where nobody knows what the records say, there is no view.
                _ => match view(&path, ".tail") {
                    Ok(tail) => assert_eq!(tail, log(50)),
                    Err(error) => assert_eq!(error.raw_os_error(), Some(errno)),
                },
            }
            assert!(ground.disk.mend() > 0);
            eventually("it is sealed", || is_sealed(&ground, "x.txt", &log(50)));
            assert!(first_line(&path).contains("complete output is stored"));
        }
    }
}

#[test]
fn a_record_that_is_cut_off_is_written_again() {
    let ground = Ground::new(Mode::Cached);
    seal_during(&ground, Fault::room(100).of(MANIFEST));
    assert!(ground.disk.mend() > 0);
    eventually("it is sealed", || is_sealed(&ground, "x.txt", &log(50)));
    assert!(is_sealed(&ground, "before.txt", b"before\n"));
    let manifest = fs::read(ground.mount.path().join("c7/manifest.json")).unwrap();
    let listed: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2);
}

#[test]
fn sealing_catches_up_when_an_artifact_can_be_read_again() {
    let ground = Ground::new(Mode::Cached);
    seal_during(&ground, Fault::error(Call::Read, libc::EIO).of("x.txt"));
    assert!(ground.disk.mend() > 0);
    eventually("it is sealed", || is_sealed(&ground, "x.txt", &log(50)));
}

#[test]
fn a_daemon_that_ends_while_nothing_can_be_recorded_keeps_all_bytes() {
    let full = Fault::error(Call::Write, libc::ENOSPC).of(MANIFEST);
    // Where it is recorded that the artifact is live, nobody knows that it was closed.
    for (live, says) in [(false, "complete output is stored"), (true, "INCOMPLETE")] {
        let mut ground = Ground::new(Mode::Cached);
        let path = ground.mount.tool("c7").join("x.txt");
        if !live {
            ground.disk.fail(full);
        }
        let mut file = File::create(&path).unwrap();
        if live {
            eventually("it is recorded", || record(&ground, "x.txt")["state"] == "live");
            ground.disk.fail(full);
        }
        file.write_all(&log(50)).unwrap();
        drop(file);
        eventually("the disk has failed", || ground.disk.struck() > 0);
        assert_eq!(ground.mount.end(Signal::TERM), Some(0));
        assert!(ground.disk.mend() > 0);
        let mount = TestMount::of(ground.disk.store(), Mode::Cached, &[]);
        let path = mount.path().join("c7/artifacts/tool/x.txt");
        assert_eq!(fs::read(&path).unwrap(), log(50));
        assert!(first_line(&path).contains(says), "{}", first_line(&path));
    }
}

/// The record under the new name was written, and the one under the old name could not be.
#[test]
fn a_rename_that_is_recorded_on_one_side_leaves_nothing_there() {
    let ground = Ground::new(Mode::Cached);
    let path = ground.mount.artifact("c7", "x.txt", b"text\n");
    eventually("it is sealed", || is_sealed(&ground, "x.txt", b"text\n"));
    let there = ground.mount.tool("c8").join("x.txt");
    ground.disk.fail(Fault::error(Call::Write, libc::ENOSPC).of("c7/manifest.jsonl"));
    assert_eq!(errno(fs::rename(&path, &there)), Errno::NOSPC);
    assert!(ground.disk.mend() > 0);
    assert_eq!(fs::read(&path).unwrap(), b"text\n");
    // A later file of that name is not taken for the next generation of this one.
    fs::write(&there, b"another\n").unwrap();
    let meta = String::from_utf8(view(&there, ".meta.json").unwrap()).unwrap();
    assert!(meta.contains("\"generation\": 1,"), "{meta}");
    fs::remove_file(&there).unwrap();
    fs::rename(&path, &there).unwrap();
    assert_eq!(view(&there, ".tail").unwrap(), b"text\n");
}

#[test]
fn a_message_for_which_there_is_no_room_is_not_half_there() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        ground.mount.tool("c7");
        let log = ground.mount.path().join("c7/history/messages.jsonl");
        let line = |text: &str| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n");
        fs::write(&log, line("one")).unwrap();
        ground.disk.fail(Fault::room(10).of("messages.jsonl"));
        let mut file = File::options().append(true).open(&log).unwrap();
        let error = file.write_all(line("two").as_bytes()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{mode:?}");
        assert_eq!(fs::read_to_string(&log).unwrap(), line("one"));
        assert!(ground.disk.mend() > 0);
        file.write_all(line("three").as_bytes()).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&log).unwrap(), line("one") + &line("three"), "{mode:?}");
    }
}

#[test]
fn a_rename_whose_records_cannot_follow_is_taken_back() {
    for call in [Call::Write, Call::Open] {
        let ground = Ground::new(Mode::Cached);
        let dir = ground.mount.tool("c7");
        for (name, bytes) in [("x.txt", "text\n"), ("y.txt", "other\n")] {
            ground.mount.artifact("c7", name, bytes.as_bytes());
            eventually("it is sealed", || is_sealed(&ground, name, bytes.as_bytes()));
        }
        ground.disk.fail(Fault::error(call, libc::ENOSPC).of(MANIFEST));
        let (from, to, new) = (dir.join("x.txt"), dir.join("y.txt"), dir.join("z.txt"));
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        let cwd = rustix::fs::CWD;
        let exchanged = rustix::fs::renameat_with(cwd, &from, cwd, &to, exchange);
        assert_eq!(exchanged, Err(Errno::NOSPC));
        assert_eq!(errno(fs::rename(&from, &new)), Errno::NOSPC);
        assert!(ground.disk.mend() > 0);
        assert_eq!(
            (fs::read(&from).unwrap(), fs::read(&to).unwrap()),
            (b"text\n".to_vec(), b"other\n".to_vec())
        );
        assert!(!new.exists());
        // Nothing is taken for another one.
        eventually("both are recorded", || {
            is_sealed(&ground, "x.txt", b"text\n") && is_sealed(&ground, "y.txt", b"other\n")
        });
        fs::rename(&from, &new).unwrap();
        assert_eq!(view(&new, ".tail").unwrap(), b"text\n");
    }
}
