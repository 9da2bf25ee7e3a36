//! A log that is opened for append again and again.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::support::{Mode, TestMount};

/// Appends a line, as `>>` does, and returns its length.
fn append(log: &Path, number: usize) -> u64 {
    let line = format!("{number}: some line of a log, and nothing else\n");
    File::options().append(true).open(log).unwrap().write_all(line.as_bytes()).unwrap();
    line.len() as u64
}

/// The bytes of a short file: the state of its analysis is not kept, so each sealing analyses it anew.
const SHORT: u64 = 64 << 10;

/// Work is counted, not timed: each byte of a log that is no longer short is analysed once, however
/// often the log is sealed, and the manifest does not grow with the number of appends.
#[test]
fn ten_thousand_appends_cost_the_same_each() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        fs::create_dir(mount.path().join("c7")).unwrap();
        let log = mount.path().join("c7/artifacts/terminal/x.log");
        File::create(&log).unwrap();
        let analysed = || mount.status()["counters"]["bytesAnalysed"].as_u64().unwrap();
        let (mut written, mut short) = (0, None);
        for number in 0..10_000 {
            written += append(&log, number);
            if number % 1000 == 0 {
                let tail = fs::read_to_string(log.with_file_name("x.log.tail")).unwrap();
                assert!(tail.contains(&format!("{number}: some line")), "{tail}");
                mount.settle();
                if written > 2 * SHORT {
                    short.get_or_insert_with(|| (written, analysed()));
                }
            }
        }
        mount.settle();
        let counters = &mount.status()["counters"];
        let (written_before, analysed_before) = short.unwrap();
        assert_eq!(analysed() - analysed_before, written - written_before, "{counters}, {mode:?}");
        assert_eq!(counters["bytesWritten"], written);
        assert!(counters["sealed"].as_u64().unwrap() >= 10, "{counters}");
        let manifest = mount.store().path().join("context/c7/manifest.jsonl");
        let lines = fs::read_to_string(manifest).unwrap().lines().count();
        assert!(lines < 2000, "{lines} records");
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 10_000);
    }
}
