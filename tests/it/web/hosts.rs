//! Conversations and outputs of other hosts, by way of a bucket that the page itself cannot reach.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::*;
use crate::remote::large;
use crate::remote::server::{SECRET, Server};
use crate::support::{Command, TestStore, eventually, signal};

/// A store that has sent the conversation `c7`, and another one with a page.
struct Scene {
    server: Server,
    one: TestStore,
    other: Arc<TestStore>,
    log: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let log = large("log");
        let scene = Self {
            server: Server::start(),
            one: TestStore::new(),
            other: Arc::new(TestStore::new()),
            log,
        };
        scene.one.put("c7", "log", &scene.log);
        let message = "{\"role\":\"user\",\"content\":\"why did it fail\"}\n";
        scene.one.ctxfs("log", &["append", "c7"]).stdin(message).stdout();
        scene.send("small");
        scene
    }

    /// Stores an output, and sends what there is.
    fn send(&self, name: &str) {
        self.one.put("c7", name, b"few words\n");
        self.server.environment(self.one.ctxfs("push", &[])).stdout();
    }

    fn page(&self) -> Served {
        let set =
            |command: Command| self.server.environment(command).env("CTXFS_REMOTE_POLL", "1s");
        Served::with(&self.other, &[], set)
    }

    /// Serves a page that has opened the conversation.
    fn opened(&self) -> Served {
        let page = self.page();
        eventually("it opens", || page.try_get("/c/c7").status == 200);
        page
    }
}

/// Returns the processes below one, with their names.
fn below(pid: u32) -> Vec<(u32, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let children =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let mut found = Vec::new();
    for child in children.iter().flat_map(|line| line.split_whitespace()) {
        let child: u32 = child.parse().unwrap();
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        found.push((child, line.split('\0').take(1).collect()));
        found.extend(below(child));
    }
    found
}

fn names(pid: u32) -> Vec<String> {
    let mut names: Vec<String> = below(pid).into_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    names
}

/// Returns true unless a process has ended, reaped or not.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

#[test]
fn what_other_hosts_have_is_shown() {
    let scene = Scene::new();
    let page = scene.page();
    for what in ["files", "network", "signals", "noNewPrivileges", "memory"] {
        assert_eq!(page.told["confinement"][what], true, "{what}");
    }
    eventually("it is listed", || {
        let front = page.get("/");
        front.has("on other hosts") && front.has("href=\"/c/c7\"") && front.has("1 conversation")
    });
    assert!(!scene.other.path().join("context/c7").exists(), "a listing fetches nothing");
    eventually("it opens", || page.try_get("/c/c7").status == 200);
    let shown = page.get("/c/c7");
    for text in ["why did it fail", "small.txt", "log.txt"] {
        assert!(shown.has(text), "{text}: {}", shown.text());
    }
    assert!(page.get("/c/c7/o/artifacts/tool/log.txt").has("log: line 0 of a log"));
    assert!(page.get("/c/c7/o/artifacts/tool/log.txt?line=15001").has("log: line 15000 of a log"));
    assert!(page.get("/c/c7/raw/artifacts/tool/log.txt").body == scene.log);
    assert!(!scene.other.plain("c7", "log.txt").exists(), "its bytes are elsewhere");
    scene.send("later");
    eventually("what comes later is shown", || page.get("/c/c7/outputs").has("later.txt"));
    eventually("it is here now", || !page.get("/").has("on other hosts"));
}

#[test]
fn with_only_nothing_else_is_asked_for() {
    let scene = Scene::new();
    scene.other.put("mine", "one", b"my text\n");
    let set = |command: Command| scene.server.environment(command);
    let page = Served::with(&scene.other, &["--only", "mine"], set);
    assert!(!page.get("/").has("href=\"/c/c7\""));
    assert_eq!(page.try_get("/c/c7").status, 404);
    page.get("/c/mine");
    assert!(!scene.other.path().join("context/c7").exists());
}

#[test]
fn only_takes_a_conversation_that_others_have() {
    let scene = Scene::new();
    let set = |command: Command| scene.server.environment(command);
    let page = Served::with(&scene.other, &["--only", "c7"], set);
    assert!(page.get("/c/c7").has("small.txt"));
    let absent = set(scene.other.ctxfs("web", &["--only", "none"])).run();
    assert_eq!(absent.code, 1, "{absent}");
    assert!(absent.to_string().contains("none came from the bucket"), "{absent}");
}

#[test]
fn without_the_bucket_what_is_here_is_shown_and_nobody_waits_long() {
    let store = Arc::new(TestStore::new());
    store.put("c8", "one", b"some text\n");
    let page = Served::with(&store, &[], |command| {
        command
            .env("CTXFS_REMOTE_URL", "s3://bkt/pre")
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
            .env("AWS_ACCESS_KEY_ID", "AKTEST")
            .env("AWS_SECRET_ACCESS_KEY", "a key")
            .env("AWS_REGION", "eu-1")
    });
    let start = Instant::now();
    assert!(page.get("/").has("c8"));
    assert!(page.get("/c/c8").has("one.txt"));
    assert!(page.get("/c/c8/o/artifacts/tool/one.txt").has("some text"));
    assert_eq!(page.try_get("/c/none").status, 404);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    eventually("it is known that the bucket is away", || {
        let start = Instant::now();
        page.get("/c/c8/outputs");
        start.elapsed() < Duration::from_millis(500)
    });
    let start = Instant::now();
    for _ in 0..20 {
        page.get("/c/c8/outputs");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn bytes_that_cannot_be_had_are_not_waited_for_long() {
    let scene = Scene::new();
    let page = scene.opened();
    drop(scene.server);
    let start = Instant::now();
    for line in [5000, 15_000, 25_000] {
        let shown = page.try_get(&format!("/c/c7/o/artifacts/tool/log.txt?line={line}"));
        assert!(!shown.has(&format!("log: line {} of a log", line - 1)), "{line}");
    }
    assert!(page.get("/").has("c7"));
    assert!(start.elapsed() < Duration::from_secs(25), "{:?}", start.elapsed());
}

#[test]
fn what_is_beside_the_page_starts_when_needed_and_ends_with_it() {
    let scene = Scene::new();
    let mut page = scene.page();
    assert_eq!(names(page.pid()), ["ctxfs"], "what starts the others");
    let environ = fs::read(format!("/proc/{}/environ", page.pid())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&environ).contains(SECRET), "it forgets the keys");
    eventually("it opens", || page.try_get("/c/c7").status == 200);
    assert!(page.get("/c/c7/raw/artifacts/tool/log.txt").body == scene.log);
    let beside = ["ctxfs", "ctxfs-look", "ctxfs-remote", "ctxfs-remote"];
    assert_eq!(names(page.pid()), beside);
    for (pid, _) in below(page.pid()).iter().filter(|(_, name)| name != "ctxfs") {
        signal(*pid, Signal::KILL);
    }
    scene.send("later");
    eventually("they are started again", || page.get("/c/c7/outputs").has("later.txt"));
    let all = below(page.pid());
    assert!(all.iter().any(|(_, name)| name == "ctxfs-look"), "{all:?}");
    page.end(Signal::KILL);
    eventually("they end", || !all.iter().any(|(pid, _)| runs(*pid)));
}

#[test]
fn the_page_says_that_what_starts_the_others_is_lost() {
    let scene = Scene::new();
    let page = scene.opened();
    assert!(!page.get("/").has("start-beside"));
    for (pid, _) in below(page.pid()) {
        signal(pid, Signal::KILL);
    }
    eventually("it is said", || page.get("/").has("start `ctxfs web` again"));
    assert!(page.get("/c/c7").has("small.txt"), "what is here is shown");
}

#[test]
fn without_a_bucket_nothing_is_beside_the_page() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    let page = Served::new(&store, &[]);
    page.get("/");
    assert_eq!(names(page.pid()), [""; 0]);
}
