//! Changes that the times of a coarse disk do not show.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::disk::view;
use crate::support::{FaultyDisk, Mode, TestMount, eventually};

const LINES: usize = 300;

/// Returns an output in which each line says the number. All have one length.
fn output(number: usize) -> String {
    format!("line of state {number:02}\n").repeat(LINES)
}

fn two_mounts(disk: &FaultyDisk) -> [TestMount; 2] {
    [Mode::Cached, Mode::Cached].map(|mode| TestMount::of(disk.store(), mode, &[]))
}

fn overwrite(path: &Path, text: &str) {
    File::options().write(true).open(path).unwrap().write_all_at(text.as_bytes(), 0).unwrap();
}

/// Checks that the file and what is computed from it show the state `number`.
fn shows(path: &Path, number: usize) {
    let state = format!("state {number:02}");
    assert!(fs::read_to_string(path).unwrap() == output(number), "the file of {number}");
    for suffix in [".tail", ".summary", ".lines/7+2", ".grep/line"] {
        let text = String::from_utf8(view(path, suffix).unwrap()).unwrap();
        let (found, all) = (text.matches(&state).count(), text.matches("state ").count());
        assert!(found > 0 && found == all, "{suffix} of {number}: {text}");
    }
}

/// What one mount overwrites shows in the other at once, many times a second.
#[test]
fn an_overwrite_in_one_mount_shows_in_the_other() {
    let disk = FaultyDisk::with_coarse_times();
    let [one, two] = two_mounts(&disk);
    let path = one.artifact("c7", "x.txt", output(0).as_bytes());
    let there = two.path().join("c7/artifacts/tool/x.txt");
    let whole = File::open(&there).unwrap();
    shows(&there, 0);
    for number in 1..20 {
        overwrite(if number % 3 == 0 { &there } else { &path }, &output(number));
        shows(&there, number);
        shows(&path, number);
        let mut bytes = vec![0; output(number).len()];
        whole.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == output(number).as_bytes(), "an open file of {number}");
    }
}

/// What is recorded of an artifact is of its last bytes, whoever overwrote it in the second in
/// which it was closed.
#[test]
fn the_record_is_of_the_last_bytes() {
    let disk = FaultyDisk::with_coarse_times();
    let [one, two] = two_mounts(&disk);
    let path = one.artifact("c7", "x.txt", output(0).as_bytes());
    let there = two.path().join("c7/artifacts/tool/x.txt");
    shows(&there, 0);
    // As a program does that knows nothing of either mount.
    let plain = disk.store().plain("c7", "x.txt");
    for number in 1..4 {
        overwrite(&plain, &output(number));
        shows(&path, number);
    }
    eventually("it is recorded", || {
        let manifest = disk.store().path().join("context/c7/manifest.jsonl");
        fs::read_to_string(manifest).unwrap_or_default().contains(r#""analysis":{"#)
    });
    drop([one, two]);
    let again = TestMount::of(disk.store(), Mode::Cached, &[]);
    shows(&again.path().join("c7/artifacts/tool/x.txt"), 3);
}
