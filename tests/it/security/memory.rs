//! Clients that make the server hold as much as they can: it stays small, loses nothing, serves
//! others meanwhile, and is as small as before afterwards.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::{fs, thread};

use rustix::fs::XattrFlags;
use serde_json::{Value, json};

use super::bounds::{memory, peak, status};
use crate::support::{Client, Mode, TestMount, eventually, listing};

/// What a client may add to the memory of the server, in MiB: the share of one conversation, which
/// is 32, and as much again for what the server holds while it works.
const MOST: u64 = 64;

/// Asserts that a server that held `before` MiB holds little more, also for other conversations.
fn assert_small(mount: &TestMount, before: u64) {
    let after = memory(mount);
    assert!(after < before + MOST, "{before} MiB, then {after} MiB");
    assert!(status(mount)["heldBytes"].as_u64().unwrap() <= 33 << 20);
}

/// Waits until the server holds next to nothing.
fn assert_let_go(mount: &TestMount) {
    eventually("all is let go", || status(mount)["heldBytes"].as_u64().unwrap() < 1 << 20);
}

#[test]
fn messages_that_are_not_finished() {
    const WRITERS: usize = 200;
    let mount = TestMount::new(Mode::Cached);
    let log = mount.tool("c7").join("../../history/messages.jsonl");
    let other = mount.tool("c8").join("../../history/messages.jsonl");
    fs::write(&other, b"{\"role\":\"user\"}\n").unwrap();
    let before = memory(&mount);
    let open = format!(
        "held = [os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) for _ in range({WRITERS})]\n\
         for fd in held: assert os.write(fd, b'{{' * 1_000_000) == 1_000_000"
    );
    let client = Client::with_descriptors(&open, &log);
    let mut writer = fs::File::options().append(true).open(&other).unwrap();
    writer.write_all(b"{\"role\":").unwrap();
    writer.write_all(b"\"tool\"}\n").unwrap();
    assert_eq!(fs::read_to_string(&other).unwrap().lines().count(), 2);
    assert_small(&mount, before);
    drop(client);
    assert_let_go(&mount);
    // No byte is lost, wherever it was held.
    let torn = fs::read(log.with_extension("torn")).unwrap();
    let lines = torn.split(|byte| *byte == b'\n').filter(|line| line.len() == 1_000_000);
    assert_eq!((lines.count(), torn.len()), (WRITERS, WRITERS * 1_000_001));
    assert!(memory(&mount) < before + MOST);
}

#[test]
fn directories_that_are_opened_and_not_read_to_their_end() {
    const FILES: usize = 4000;
    const READERS: usize = 150;
    let mount = TestMount::new(Mode::Cached);
    let dir = mount.tool("c7");
    let long = "x".repeat(100);
    for number in 0..FILES {
        fs::write(mount.store().plain("c7", &format!("{number}-{long}.txt")), b"text").unwrap();
    }
    mount.artifact("c8", "x.txt", b"text\n");
    let before = memory(&mount);
    let open = format!(
        "held = [os.scandir(path) for _ in range({READERS})]\n\
         begun = [next(names).name for names in held]\n\
         rest = [begun[-1]] + [entry.name for entry in held[-1]]\n\
         assert len(rest) == len(set(rest)) == {}, len(rest)",
        4 * FILES
    );
    let client = Client::with_descriptors(&open, &dir);
    assert_eq!(listing(&mount.tool("c8")).len(), 4);
    assert_small(&mount, before);
    drop(client);
    assert_let_go(&mount);
    assert!(memory(&mount) < before + MOST);
    assert_eq!(listing(&dir).len(), 4 * FILES);
}

#[test]
fn tools_of_any_number_of_names() {
    const NAMES: usize = 1500;
    let mount = TestMount::new(Mode::Cached);
    let put = |conversation: &str, name: &str, tool: &str| {
        let mut file = fs::File::create(mount.tool(conversation).join(name)).unwrap();
        let attribute = "user.ctx.tool";
        rustix::fs::fsetxattr(file.as_fd(), attribute, tool.as_bytes(), XattrFlags::empty())
            .unwrap();
        file.write_all(b"text\n").unwrap();
    };
    for number in 0..3 {
        put("c8", &format!("{number}.txt"), "shell");
    }
    let long = "x".repeat(200);
    for number in 0..NAMES {
        put("c7", &format!("{number}.txt"), &format!("{number}-{long}"));
    }
    put("c7", "longest.txt", &"x".repeat(2000));
    let metrics = || fs::read_to_string(mount.path().join(".ctxfs/metrics")).unwrap();
    let stored = |metrics: &str| -> Vec<(String, usize)> {
        let lines = metrics.lines().filter_map(|line| {
            let (tool, times) =
                line.strip_prefix("ctxfs_stored_times_total{tool=\"")?.split_once("\"} ")?;
            Some((tool.to_owned(), times.parse().unwrap()))
        });
        lines.collect()
    };
    let all = |found: &[(String, usize)]| found.iter().map(|(_, times)| times).sum::<usize>();
    // A page of this length takes longer than sealing an output.
    mount.settle();
    eventually("all are counted", || all(&stored(&metrics())) == NAMES + 4);
    let (page, found) = (metrics(), stored(&metrics()));
    assert!(found.len() <= 501, "{} tools", found.len());
    assert!(page.len() < 3 << 20, "{} bytes", page.len());
    let named: BTreeSet<&str> = found.iter().map(|(tool, _)| tool.as_str()).collect();
    assert!(named.contains("shell") && named.contains("(other)"), "{named:?}");
}

/// A writer may say as much of a call as an attribute takes.
#[test]
fn records_of_any_length_are_held_one_at_a_time() {
    const FILES: usize = 450;
    let mount = TestMount::new(Mode::Cached);
    let tool = mount.tool("c7");
    let dir = mount.store().plain("c7", "a");
    fs::create_dir(&dir).unwrap();
    let args = "x".repeat(60_000);
    let mut records = String::new();
    for number in 0..FILES {
        fs::write(dir.join(format!("{number}.txt")), "text\n").unwrap();
        let record = json!({
            "path": format!("artifacts/tool/a/{number}.txt"),
            "generation": 1, "state": "sealed", "size": 5, "modified": 0, "created": number,
            "args": args,
        });
        records.extend([record.to_string(), "\n".to_owned()]);
    }
    fs::write(mount.store().plain("c7", "../../manifest.jsonl"), &records).unwrap();
    let found = || -> Vec<(String, u64)> {
        let manifest = fs::read(tool.join("../../manifest.json")).unwrap();
        let found: Vec<Value> = serde_json::from_slice(&manifest).unwrap();
        let of =
            |it: &Value| (it["id"].as_str().unwrap().into(), it["createdAt"].as_u64().unwrap());
        found.iter().map(of).collect()
    };
    let named = |dir: &str| -> Vec<(String, u64)> {
        let name = |number| format!("ctx://c7/artifacts/tool/{dir}/{number}.txt");
        (0..FILES as u64).map(|number| (name(number), number)).collect()
    };
    let before = peak(&mount);
    assert_eq!(found(), named("a"));
    let listed = peak(&mount);
    assert!(listed < before + 20, "{before} MiB, then {listed} MiB");
    fs::rename(tool.join("a"), tool.join("b")).unwrap();
    let moved = peak(&mount);
    assert!(moved < before + 20, "{before} MiB, then {moved} MiB");
    assert_eq!(found(), named("b"));
}

#[test]
fn large_outputs_that_were_analysed() {
    const OUTPUTS: usize = 5;
    const MOST_AFTER: u64 = 72;
    let line = |n: usize| format!("10:00:{n} ERROR request {n} failed: connection refused\n");
    let text: String = (0..40_000).map(line).collect();
    let mount = TestMount::new(Mode::Cached);
    let paths = (0..OUTPUTS).map(|n| mount.artifact("c7", &format!("{n}.txt"), text.as_bytes()));
    let paths: Vec<_> = paths.collect();
    thread::scope(|scope| {
        for path in &paths {
            scope.spawn(move || {
                for view in ["summary", "errors", "terms"] {
                    let name = path.file_name().unwrap().to_str().unwrap();
                    fs::read(path.with_file_name(format!("{name}.{view}"))).unwrap();
                }
            });
        }
    });
    assert!(memory(&mount) < MOST_AFTER, "{} MiB", memory(&mount));
}
