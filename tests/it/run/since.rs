//! What changed since the last run of the same command: `X.since`, and its line in the stand-in.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regex::Regex;

use super::{record, run};
use crate::support::{Command, Mode, TestMount, TestStore, errno, eventually, need};

const TESTS: &str = "\
import unittest

class Sums(unittest.TestCase):
    def test_one(self):
        self.assertEqual(1 + 1, ONE)

    def test_three(self):
        self.assertEqual(1 + 2, 4)

    def test_zero(self):
        self.assertEqual(0 + 0, 0)
";

/// A directory with a program of tests, two of which fail.
struct Project {
    store: Arc<TestStore>,
    dir: PathBuf,
}

impl Project {
    fn new() -> Self {
        need("python3", "python3");
        let store = Arc::new(TestStore::new());
        let dir = store.scratch("project");
        let project = Self { store, dir };
        project.write("3");
        project
    }

    fn write(&self, one: &str) {
        fs::write(self.dir.join("test_sums.py"), TESTS.replace("ONE", one)).unwrap();
    }

    fn command(&self, id: &str, dir: &Path) -> Command {
        let command = ["python3", "-B", "-m", "unittest", "test_sums"];
        run(&self.store, id, &["--always"], &command).current_dir(dir)
    }

    /// Runs the tests, and returns the stand-in.
    fn test(&self, id: &str) -> String {
        String::from_utf8(self.command(id, &self.dir).run().stdout).unwrap()
    }

    fn view(&self, path: &str) -> Vec<u8> {
        self.store.ctxfs("view", &[&format!("c7/artifacts/terminal/{path}")]).stdout()
    }
}

/// Returns the text with `N` in place of the seconds since an earlier run.
fn any_age(text: &str) -> String {
    let age = Regex::new(r"\d+ s ago").unwrap();
    age.replace_all(text, "N s ago").into_owned()
}

fn logs(mount: &TestMount) -> PathBuf {
    mount.path().join("c7/artifacts/terminal")
}

#[test]
fn a_mended_failure_is_told() {
    let project = Project::new();
    let first = project.test("r1");
    assert!(first.contains("exit code 1") && !first.contains("since run"), "{first}");
    project.write("2");
    let second = project.test("r2");
    let line = "\nsince run 1 (N s ago): fixed 1, new 0, same 1    .since\n";
    assert!(any_age(&second).contains(line), "{second}");

    let mount = TestMount::of(&project.store, Mode::Passthrough, &["--advertise", "/ctx"]);
    let logs = logs(&mount);
    let since = fs::read_to_string(logs.join("r2.log.since")).unwrap();
    assert!(
        any_age(&since).starts_with("# since run 1 (r1.log, N s ago): fixed 1, new 0, same 1; "),
        "{since}"
    );
    let part = |from: &str, to: &str| {
        let (_, rest) = since.split_once(from).unwrap();
        rest.split_once(to).map_or(rest, |(part, _)| part).to_owned()
    };
    let fixed = part("--- fixed: 1, lines of r1.log ---\n", "--- ");
    assert!(fixed.contains("2 != 3") && fixed.contains("test_one"), "{since}");
    let same = part("--- same: 1, lines of r2.log ---\n", "--- ");
    assert!(same.contains("3 != 4") && same.contains("test_three"), "{since}");
    let lines = part("--- lines: - r1.log, + r2.log ---", "\u{0}");
    assert!(lines.contains("\n-AssertionError: 2 != 3\n"), "{since}");
    assert!(!lines.contains("3 != 4\n+") && !lines.contains("\n-Ran"), "{since}");

    let summary = fs::read_to_string(logs.join("r2.log.summary")).unwrap();
    assert!(any_age(&summary).contains(line), "{summary}");
    let seen = project.store.ctxfs("view", &["c7/artifacts/terminal/r2.log.since"]);
    assert_eq!(seen.env("CTXFS_ADVERTISE", "/ctx").stdout(), since.as_bytes());
    assert!(fs::read_to_string(logs.join("r1.log.since")).unwrap().starts_with("# no earlier run"));
}

#[test]
fn an_unchanged_output_is_told() {
    let store = TestStore::new();
    for id in ["r1", "r2"] {
        run(&store, id, &[], &["seq", "5000"]).run();
    }
    let printed = run(&store, "r3", &[], &["seq", "5000"]).run().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let line = "\nsince run 2 (N s ago): the same output as r2.log\n";
    assert!(any_age(&printed).contains(line), "{printed}");
    let since = store.ctxfs("view", &["c7/artifacts/terminal/r3.log.since"]).text();
    assert_eq!(any_age(&since), "# since run 2 (r2.log, N s ago): the same bytes\n");
}

#[test]
fn a_run_has_a_number_and_a_name() {
    let project = Project::new();
    for id in ["r1", "r2", "r3"] {
        project.test(id);
        project.write("2");
    }
    let mount = TestMount::of(&project.store, Mode::Passthrough, &[]);
    let logs = logs(&mount);
    let text = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
    let since = text("r3.log.since");
    assert!(any_age(&since).starts_with("# since run 2 (r2.log, N s ago): the same "), "{since}");
    let numbered = text("r3.log.since-run/1");
    assert!(numbered.starts_with("# since run 1 (r1.log, "), "{numbered}");
    let named = text("r3.log.since-run/r1");
    assert_eq!(named.replace("# since r1.log (", "# since run 1 (r1.log, "), numbered);
    assert_eq!(text("r3.log.since-run/r1.log"), named);
    assert_eq!(project.view("r3.log.since-run/1").len(), numbered.len());
    project.store.put("c7", "call_1", b"something else\n");
    let other = text("r3.log.since-run/call_1");
    assert!(other.starts_with("# since call_1.txt (a later output): "), "{other}");
    for absent in ["3", "9", "nothing", "0"] {
        let read = fs::read(logs.join("r3.log.since-run").join(absent));
        assert_eq!(errno(read), rustix::io::Errno::NOENT, "{absent}");
    }
    assert_eq!(fs::read_dir(logs.join("r3.log.since-run")).unwrap().count(), 0);
    assert_eq!(errno(fs::write(logs.join("r3.log.since"), "x")), rustix::io::Errno::PERM);
}

#[test]
fn the_directory_is_part_of_the_command() {
    let project = Project::new();
    project.test("r1");
    let elsewhere = project.store.scratch("elsewhere");
    fs::copy(project.dir.join("test_sums.py"), elsewhere.join("test_sums.py")).unwrap();
    let printed = project.command("r2", &elsewhere).run().stdout;
    assert!(!String::from_utf8(printed).unwrap().contains("since run"));
    assert!(project.test("r3").contains("\nsince run 1 ("));
    let [one, two] = ["r1.log", "r2.log"].map(|name| record(&project.store, name));
    assert_eq!(one["directory"], project.dir.to_str().unwrap());
    assert_eq!(two["directory"], elsewhere.to_str().unwrap());
}

#[test]
fn a_removed_run_is_passed_over() {
    let project = Project::new();
    for id in ["r1", "r2", "r3"] {
        project.test(id);
    }
    let mount = TestMount::of(&project.store, Mode::Cached, &[]);
    let logs = logs(&mount);
    let since = logs.join("r3.log.since");
    assert!(fs::read_to_string(&since).unwrap().starts_with("# since run 2 (r2.log, "));
    fs::remove_file(logs.join("r2.log")).unwrap();
    let text = fs::read_to_string(&since).unwrap();
    assert!(text.starts_with("# since run 1 (r1.log, "), "{text}");
    // The record says what the stand-in said.
    let summary = fs::read_to_string(logs.join("r3.log.summary")).unwrap();
    assert!(any_age(&summary).contains("\nsince run 2 (N s ago): "), "{summary}");
    fs::write(logs.join("r1.log"), "other bytes\n").unwrap();
    // Until the file is sealed again, there is no earlier run that has ended.
    eventually("the changed output is compared", || {
        let text = fs::read_to_string(&since).unwrap();
        text.starts_with("# since run 1 (r1.log, ") && text.contains("\n-other bytes\n")
    });
}

#[test]
fn an_output_that_fewer_users_may_read_is_not_shown() {
    let project = Project::new();
    for id in ["r1", "r2"] {
        project.test(id);
    }
    let mount = TestMount::of(&project.store, Mode::Passthrough, &[]);
    let logs = logs(&mount);
    let mode = |name: &str, mode| {
        fs::set_permissions(logs.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let since = || fs::read_to_string(logs.join("r2.log.since")).unwrap();
    mode("r2.log", 0o644);
    assert!(
        since().starts_with("# the earlier output is not shown: its permissions "),
        "{}",
        since()
    );
    mode("r1.log", 0o644);
    assert!(since().starts_with("# since run 1 (r1.log, "), "{}", since());
}

#[test]
fn streams_are_compared_with_their_own() {
    let store = TestStore::new();
    for id in ["r1", "r2"] {
        run(&store, id, &["--split"], &["sh", "-c", "echo out; echo err >&2"]).run();
    }
    for stream in ["stdout", "stderr"] {
        let name = format!("r2.{stream}.log");
        assert_eq!(record(&store, &name)["since"]["change"], "same", "{name}");
        assert_eq!(
            record(&store, &name)["since"]["path"],
            format!("artifacts/terminal/r1.{stream}.log")
        );
    }
}
