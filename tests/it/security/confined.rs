//! Every thread of the server is confined, and the server still serves and ends as it should.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::Value;

use crate::support::{Command, Mode, TestMount, TestStore, eventually};

fn status(mount: &TestMount) -> Value {
    serde_json::from_slice(&fs::read(mount.path().join(".ctxfs/status.json")).unwrap()).unwrap()
}

/// Returns a field of the kernel's status of a process or thread.
fn field(status: &Path, name: &str) -> String {
    let text = fs::read_to_string(status).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
}

fn threads(pid: u32) -> Vec<std::path::PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.map(|task| task.unwrap().path().join("status")).collect()
}

/// `CAP_CHOWN`, `_DAC_OVERRIDE`, `_FOWNER`, `_FSETID` and `_LEASE`; for passthrough `_SYS_ADMIN`.
const SERVING: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 28;
const SYS_ADMIN: u64 = 1 << 21;

#[test]
fn every_thread_has_few_rights_and_gains_none() {
    for (mode, rights) in [(Mode::Passthrough, SERVING | SYS_ADMIN), (Mode::Cached, SERVING)] {
        let mount = TestMount::new(mode);
        mount.artifact("c7", "x.txt", b"text\n");
        let threads = threads(mount.pid());
        assert!(threads.len() > 10, "{}", threads.len());
        for thread in threads {
            assert_eq!(field(&thread, "NoNewPrivs"), "1");
            for set in ["CapPrm", "CapEff", "CapBnd"] {
                let found = u64::from_str_radix(&field(&thread, set), 16).unwrap();
                assert_eq!(found & !rights, 0, "{set} {found:x}, {mode:?}");
            }
        }
    }
}

#[test]
fn what_holds_was_tried_and_is_told() {
    let mount = TestMount::new(Mode::Passthrough);
    let status = status(&mount);
    for what in ["files", "network", "signals", "noNewPrivileges", "memory"] {
        assert_eq!(status["confinement"][what], true, "{what}");
    }
    assert!(status["confinement"]["landlock"].as_u64().unwrap() >= 6);
    let told = Command::ctxfs().arg("doctor").run();
    let told = String::from_utf8(told.stdout).unwrap();
    let here = format!("{}: only its store, no network, no signals,", mount.path().display());
    assert!(told.lines().any(|line| line.contains(&here)), "{told}");
    let told = Command::ctxfs().args(["doctor", "--json"]).run();
    let report: Value = serde_json::from_slice(&told.stdout).unwrap();
    let of = |check: &&Value| check["found"].as_str().unwrap().starts_with(&here);
    let check = report["checks"].as_array().unwrap().iter().find(of).unwrap();
    assert_eq!((&check["name"], &check["level"]), (&"confinement".into(), &"ok".into()));
}

#[test]
fn it_can_be_turned_off() {
    let store = Arc::new(TestStore::new());
    let mount = TestMount::of(&store, Mode::Passthrough, &["--confine", "off"]);
    assert_eq!(status(&mount)["confinement"]["files"], false);
    assert_eq!(field(Path::new(&format!("/proc/{}/status", mount.pid())), "NoNewPrivs"), "0");
    let told = String::from_utf8(Command::ctxfs().arg("doctor").run().stdout).unwrap();
    let here = format!("{}: the server is not confined: files", mount.path().display());
    assert!(told.lines().any(|line| line.contains(&here)), "{told}");
}

/// Its memory is closed: it leaves no core file, and only root can attach a debugger.
#[test]
fn its_memory_is_its_own() {
    let mount = TestMount::new(Mode::Cached);
    let limits = fs::read_to_string(format!("/proc/{}/limits", mount.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_ascii_whitespace().nth(4), Some("0"), "{core}");
    // The kernel gives what belongs to a process that may not be dumped to root; here both are.
    assert_eq!(status(&mount)["confinement"]["memory"], true);
}

/// A filter process has no file and no capability, and no way to get one.
#[test]
fn a_filter_has_nothing() {
    let mut filter = Command::ctxfs()
        .args(["helper", "\"run-filter\""])
        .with(|inner| {
            inner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        })
        .spawn();
    let status = format!("/proc/{}/status", filter.id());
    let limit = |name: &str| {
        let limits = fs::read_to_string(format!("/proc/{}/limits", filter.id())).unwrap();
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line[name.len()..].split_ascii_whitespace().next().unwrap().to_owned()
    };
    eventually("it has limited itself", || limit("Max open files") == "3");
    assert_eq!(field(Path::new(&status), "NoNewPrivs"), "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(Path::new(&status), set), "0000000000000000", "{set}");
    }
    assert_eq!((limit("Max file size"), limit("Max core file size")), ("0".into(), "0".into()));
    filter.kill().unwrap();
    filter.wait().unwrap();
}

/// A confined server starts filters, learns how writers end, and reads the files of other
/// processes.
#[test]
fn it_serves_all_the_same() {
    let mount = TestMount::new(Mode::Passthrough);
    let json = mount.artifact("c7", "x.json", br#"{"a": [1, 2]}"#);
    let filtered = fs::read(json.with_file_name("x.json.jq/.a[1]")).unwrap();
    assert_eq!(filtered, b"2\n");
    let made = "mv $1/x.json $1/../terminal/y.log; mkdir $1/../../more; rmdir $1/../../more; \
                chmod 640 $1/../terminal/y.log; chown 1:1 $1/../terminal/y.log";
    Command::shell(made, &[&mount.tool("c7")]).stdout();
    assert!(!mount.said().contains("not confined"), "{}", mount.said());
}
