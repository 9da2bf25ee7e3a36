//! Limits: each door asks cap, quota and free room, and says the same.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use rustix::io::Errno;

use super::{ctxfs, log_below, message, mounted, recorded};
use crate::support::{Mode, TestStore, errno, eventually};

/// A limit that an output of 1 MB passes: its setting, what the kernel's callers get, and what is
/// said of it.
const LIMITS: [(&str, &str, Errno, &str); 3] = [
    ("CTXFS_MAX_ARTIFACT", "100000", Errno::FBIG, "reached its cap of 100000 bytes"),
    ("CTXFS_QUOTA", "100000", Errno::DQUOT, "reached their quota of 100000 bytes"),
    (
        "CTXFS_MIN_FREE",
        "1000000000000000",
        Errno::NOSPC,
        "disk has less than 1000000000000000 bytes left",
    ),
];

/// Why the artifact is incomplete, as its record says.
fn incomplete(store: &TestStore, path: &str) -> Option<String> {
    let record = recorded(store, path)?;
    Some(record["why"].as_str().or(record["incomplete"].as_str())?.to_owned())
}

#[test]
fn every_door_asks_the_same_limits_and_says_the_same() {
    let output = b"a line of an output\n".repeat(50_000);
    for (setting, value, number, words) in LIMITS {
        let settings = [(setting, value)];

        let store = Arc::new(TestStore::new());
        let mount = mounted(&store, Mode::Passthrough, &settings);
        let mut file = File::create_new(mount.tool("c7").join("x.txt")).unwrap();
        assert_eq!(errno(file.write_all(&output)), number, "{setting}");
        drop(file);
        let path = "artifacts/tool/x.txt";
        eventually("it is sealed", || incomplete(&store, path).is_some());
        let why = incomplete(&store, path).unwrap();
        assert!(why.contains(words), "{setting}: {why}");

        let log = File::options().append(true).create(true).open(log_below(mount.path()));
        let appended = log.unwrap().write_all(&message(&output));
        assert_eq!(errno(appended), number, "{setting}");
        drop(mount);

        let store = TestStore::new();
        let put = ctxfs(&store, "put", &["-c", "c7", "--call", "x"], &settings);
        let put = put.stdin(output.clone()).run();
        let said = String::from_utf8_lossy(&put.stderr).into_owned();
        assert!(put.code == 1 && said.contains(words), "{setting}: {put}");
        // Of what `put` cannot keep whole it keeps the end too, and says what is missing.
        let of_put = incomplete(&store, path).unwrap();
        assert!(of_put.starts_with(&why), "put, {setting}: {of_put}");

        let appended = ctxfs(&store, "log", &["append", "c7"], &settings);
        let appended = appended.stdin(message(&output)).run();
        let said = String::from_utf8_lossy(&appended.stderr).into_owned();
        assert!(appended.code == 1 && said.contains(words), "{setting}: {appended}");

        let command = "yes a line of an output | head -n 50000; exit 7";
        let arguments = ["-c", "c8", "--id", "x", "--", "sh", "-c", command];
        let run = ctxfs(&store, "run", &arguments, &settings).run();
        assert_eq!(run.code, 7, "the command goes on: {run}");
        let printed = String::from_utf8_lossy(&run.stdout).into_owned();
        // Where nothing is stored, the output itself is printed, as far as memory holds it.
        let is_told = printed.contains("INCOMPLETE") || printed.contains(" bytes left out here: ");
        assert!(is_told && printed.contains(words), "{setting}: {printed}");
    }
}
