//! Clients that do their worst: the server stays small, and others are served.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{fs, thread};

use serde_json::Value;

use crate::support::{Client, Mode, TestMount, eventually};

pub(super) fn status(mount: &TestMount) -> Value {
    serde_json::from_slice(&fs::read(mount.path().join(".ctxfs/status.json")).unwrap()).unwrap()
}

/// Returns the resident memory of the server, in MiB.
pub(super) fn memory(mount: &TestMount) -> u64 {
    mebibytes(mount, "VmRSS:")
}

/// Returns the most that it was, in MiB.
pub(super) fn peak(mount: &TestMount) -> u64 {
    mebibytes(mount, "VmHWM:")
}

fn mebibytes(mount: &TestMount, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", mount.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

fn threads(mount: &TestMount) -> usize {
    fs::read_dir(format!("/proc/{}/task", mount.pid())).unwrap().count()
}

#[test]
fn any_number_of_patterns_costs_the_same() {
    // The kernel is told to drop names that exceed 16,384.
    const FIRST: usize = 17_000;
    const ALL: usize = 42_000;
    let mount = TestMount::new(Mode::Cached);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let ask = |number: usize| {
        let view = path.with_file_name(format!("x.txt.grep/pattern {number}"));
        assert_eq!(fs::metadata(&view).unwrap().len(), 0, "{number}");
    };
    (0..FIRST).for_each(ask);
    // The threads that compute views start with the first job.
    status(&mount);
    let (before, running) = (memory(&mount), threads(&mount));
    (FIRST..ALL).for_each(ask);
    eventually("names of views are forgotten", || {
        status(&mount)["nodes"].as_u64().unwrap() < 20_000
    });
    let after = memory(&mount);
    assert!(after < before + 24, "{before} MiB, then {after} MiB");
    assert!(threads(&mount) <= running, "{running} threads, then {}", threads(&mount));
    // What is used again is found again.
    ask(0);
    assert_eq!(fs::read(path.with_file_name("x.txt.grep/text")).unwrap(), b"1:text\n");
}

/// The kernel keeps the names of the views that a file had before it was renamed or removed.
#[test]
fn views_of_names_that_are_gone_are_forgotten() {
    let mount = TestMount::new(Mode::Cached);
    let first = mount.artifact("c7", "x.txt", b"text\n");
    let name = |number: u32| first.with_file_name(format!("x-{number}.txt"));
    let ask = |path: &Path, view: &str| {
        fs::metadata(format!("{}.{view}", path.display())).unwrap();
    };
    // Somewhat fewer than are dropped.
    (0..14_000).for_each(|number| ask(&first, &format!("grep/pattern {number}")));
    fs::rename(&first, name(0)).unwrap();
    for number in 0..2_000 {
        ask(&name(number), "summary");
        fs::rename(name(number), name(number + 1)).unwrap();
    }
    for number in 5_000..7_000 {
        fs::write(name(number), b"text\n").unwrap();
        ask(&name(number), "summary");
        fs::remove_file(name(number)).unwrap();
    }
    eventually("names of views are forgotten", || {
        status(&mount)["nodes"].as_u64().unwrap() < 15_000
    });
}

/// A kernel that drops the name of a file detaches what is mounted on it.
#[test]
fn what_is_mounted_on_a_file_stays() {
    let mount = TestMount::new(Mode::Cached);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let (file, late) =
        (mount.artifact("c7", "f.txt", b"file\n"), path.with_file_name("y.txt.tail"));
    // It is a view now, and a file later.
    mount.artifact("c7", "y.txt", b"view\n");
    assert_eq!(fs::read(&late).unwrap(), b"view\n");
    fs::remove_file(path.with_file_name("y.txt")).unwrap();
    fs::write(&late, b"file\n").unwrap();
    let over = mount.store().scratch("over").join("over");
    fs::write(&over, b"over\n").unwrap();
    for file in [&file, &late] {
        assert_eq!(fs::read(file).unwrap(), b"file\n");
        rustix::mount::mount_bind(&over, file).unwrap();
    }
    for number in 0..21_000 {
        let view = path.with_file_name(format!("x.txt.grep/pattern {number}"));
        assert_eq!(fs::metadata(&view).unwrap().len(), 0, "{number}");
    }
    eventually("names of views are forgotten", || {
        status(&mount)["nodes"].as_u64().unwrap() < 20_000
    });
    for file in [&file, &late] {
        assert_eq!(fs::read(file).unwrap(), b"over\n", "{}", file.display());
        rustix::mount::unmount(file, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn views_that_are_opened_and_not_read() {
    const OPEN: usize = 3000;
    let mount = TestMount::new(Mode::Cached);
    let line = format!("{}\n", "line ".repeat(200));
    let path = mount.artifact("c7", "x.txt", line.repeat(8000).as_bytes());
    let before = memory(&mount);
    let open = format!(
        "held = [os.open(f'{{path}}.lines/{{n}}-{{n + 40}}', os.O_RDONLY) for n in range(1, {OPEN})]\n\
         total = sum(os.fstat(fd).st_size for fd in held)\n\
         assert total > 100 << 20, total"
    );
    let client = Client::with_descriptors(&open, &path);
    let after = memory(&mount);
    assert!(status(&mount)["openHandles"].as_u64().unwrap() >= OPEN as u64 - 1);
    assert!(after < before + 80, "{before} MiB, then {after} MiB");
    // What went to the disk is read like the rest.
    let text = String::from_utf8(fs::read(path.with_file_name("x.txt.lines/7777-7778")).unwrap());
    assert_eq!(text.unwrap().lines().count(), 2);
    drop(client);
    eventually("all is let go", || status(&mount)["openHandles"].as_u64().unwrap() < 5);
}

/// One conversation has more endless filters than run at a time. Another one gets its turn.
#[test]
fn one_conversation_does_not_hold_up_another() {
    let mount = TestMount::new(Mode::Cached);
    let bad = mount.artifact("c7", "x.json", b"{\"a\": 1}");
    let good = mount.artifact("c8", "x.json", b"{\"a\": 1}");
    thread::scope(|scope| {
        let endless: Vec<_> = (0..6)
            .map(|number| {
                let view =
                    bad.with_file_name(format!("x.json.jq/last(range({number}; 1000000000000))"));
                scope.spawn(move || fs::read(view).ok())
            })
            .collect();
        eventually("as many as may run do", || filters(mount.pid()) == 2);
        for number in 0..5 {
            let view = good.with_file_name(format!("x.json.jq/.a + {number}"));
            assert_eq!(fs::read(view).unwrap(), format!("{}\n", number + 1).as_bytes());
            assert!(filters(mount.pid()) <= 3);
        }
        // In the order of asking, the other would have waited for all but the last of these.
        let ended = endless.iter().filter(|asked| asked.is_finished()).count();
        assert!(ended <= 2, "{ended} have ended");
    });
}

/// Returns the number of filter processes of a server.
fn filters(server: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{server}/task")).unwrap();
    let children = |task: fs::DirEntry| {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let named = |pid: &&str| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "ctxfs-jq\n")
        };
        children.split_ascii_whitespace().filter(named).count()
    };
    tasks.map(|task| children(task.unwrap())).sum()
}

#[test]
fn many_live_logs() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7").with_file_name("terminal");
    let before = memory(&mount);
    let open = "made = os.O_CREAT | os.O_WRONLY | os.O_APPEND\n\
                held = [os.open(f'{path}/{n}.log', made, 0o600) for n in range(3000)]\n\
                for fd in held: os.write(fd, b'line\\n')";
    let client = Client::with_descriptors(open, &dir);
    let path = mount.artifact("c8", "x.txt", b"text\n");
    assert_eq!(fs::read(path.with_file_name("x.txt.tail")).unwrap(), b"text\n");
    let sealed = || fs::read_to_string(mount.path().join("c8/manifest.json")).unwrap();
    eventually("another is sealed meanwhile", || sealed().contains("mimeType"));
    let after = memory(&mount);
    assert!(after < before + 64, "{before} MiB, then {after} MiB");
    drop(client);
    let mut all = String::new();
    for number in [0, 1500, 2999] {
        write!(all, "{}", fs::read_to_string(dir.join(format!("{number}.log.tail"))).unwrap())
            .unwrap();
    }
    assert_eq!(all, "line\nline\nline\n");
}

#[test]
fn nobody_fills_the_log() {
    let mount = TestMount::new(Mode::Cached);
    mount.tool("c7");
    let messages = mount.path().join("c7/history/messages.jsonl");
    for _ in 0..3000 {
        // Half a message is set aside, which is worth a warning.
        fs::File::options()
            .append(true)
            .create(true)
            .open(&messages)
            .unwrap()
            .write_all(b"{\"role\":")
            .unwrap();
    }
    // A file is closed before its server has done what follows from that.
    eventually("the log has the first lines", || mount.said().lines().count() >= 500);
    let lines = mount.said().lines().count();
    assert!((500..2500).contains(&lines), "{lines} lines");
}
