//! A gateway that sees to a mount of its store.

use std::path::PathBuf;

use super::*;
use crate::support::{eventually, is_mounted, processes_of, server_of, signal};

/// A mountpoint that is free again with the test, and a place for the logs of its servers.
struct Place {
    store: Arc<TestStore>,
    dir: PathBuf,
    state: PathBuf,
}

impl Place {
    fn new() -> Self {
        let store = Arc::new(TestStore::new());
        let (dir, state) = (store.scratch("mnt"), store.scratch("state"));
        Self { store, dir, state }
    }

    fn gateway(&self, options: &[&str]) -> Gateway {
        let state = self.state.to_str().unwrap();
        let environment = [("XDG_STATE_HOME", state), ("CTXFS_MOUNT", self.dir.to_str().unwrap())];
        let mut gateway = Gateway::start(&self.store, options, &server(), &environment);
        gateway.shake_hands("2025-11-25");
        gateway
    }

    /// Returns the summary of a long result.
    fn summary(gateway: &mut Gateway, call: &str) -> String {
        let told = gateway.call_as(call, "text", &json!({"line": "x\n", "counts": [20_000]}));
        text(&told, 0).to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if is_mounted(&self.dir) {
            Command::ctxfs().arg("umount").arg(&self.dir).run();
        }
        for pid in processes_of(&self.dir) {
            signal(pid, Signal::KILL);
        }
    }
}

#[test]
fn summaries_name_paths_that_can_be_read_and_the_mount_stays() {
    let place = Place::new();
    let mut first = place.gateway(&["--mount"]);
    let summary = Place::summary(&mut first, "a1");
    let path = place.dir.join("c7/artifacts/tool/a1.txt");
    assert!(summary.contains(path.to_str().unwrap()), "{summary}");
    assert_eq!(std::fs::read(&path).unwrap().len(), 40_000);
    let server = server_of(&place.dir);
    assert_eq!(first.end(), 0);
    // Another gateway finds it there.
    let dir = place.dir.to_str().unwrap().to_owned();
    let mut second = place.gateway(&["--mount", &dir]);
    assert!(Place::summary(&mut second, "a2").contains(&dir));
    assert_eq!(server_of(&place.dir), server);
    drop(second);
    assert_eq!(std::fs::read(&path).unwrap().len(), 40_000, "it stays");
    Command::ctxfs().arg("umount").arg(&place.dir).stdout();
    eventually("the server ends", || processes_of(&place.dir).is_empty());
}

#[test]
fn a_dead_mount_is_mounted_anew() {
    let place = Place::new();
    let mut first = place.gateway(&["--mount"]);
    Place::summary(&mut first, "a1");
    assert_eq!(first.end(), 0);
    // The watchdogs first, so that the mount is left dead.
    for pid in processes_of(&place.dir) {
        signal(pid, Signal::STOP);
    }
    for pid in processes_of(&place.dir) {
        signal(pid, Signal::KILL);
    }
    eventually("all are gone", || processes_of(&place.dir).is_empty());
    let mut second = place.gateway(&["--mount"]);
    assert!(Place::summary(&mut second, "a2").contains(place.dir.to_str().unwrap()));
    assert_eq!(std::fs::read(place.dir.join("c7/artifacts/tool/a2.txt")).unwrap().len(), 40_000);
}

#[test]
fn where_nothing_can_be_mounted_the_context_tools_serve() {
    let place = Place::new();
    let file = place.store.scratch("file").join("file");
    std::fs::write(&file, "kept").unwrap();
    let mut gateway = place.gateway(&["--mount", file.to_str().unwrap()]);
    let summary = Place::summary(&mut gateway, "a1");
    assert!(summary.contains("ctx://c7/artifacts/tool/a1.txt"), "{summary}");
    let said = gateway.said();
    assert!(said.contains("no mount, so results are read by the context tools: "), "{said}");
    assert!(said.contains("is a file"), "{said}");
    let read = gateway.call("context_read", &json!({"ref": "a1", "lines": "1-1"}));
    assert_eq!(text(&read, 0), "x\n");
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

#[test]
fn a_mount_that_does_not_come_keeps_no_answer_from_the_client() {
    let place = Place::new();
    // Its log is a pipe that nobody reads, so opening it takes for ever.
    let name = place.dir.to_str().unwrap().trim_matches('/').replace('/', "-");
    std::fs::create_dir(place.state.join("ctxfs")).unwrap();
    Command::new("mkfifo").arg(place.state.join("ctxfs").join(name + ".log")).stdout();
    let began = std::time::Instant::now();
    let mut gateway = place.gateway(&["--mount"]);
    let answered = gateway.request("tools/list", &json!({}));
    assert!(answered["result"]["tools"].is_array(), "{answered}");
    let told = gateway.call("echo", &json!({}));
    assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
    assert!(began.elapsed() < Duration::from_mins(1));
    assert!(Place::summary(&mut gateway, "a1").contains("ctx://c7/artifacts/tool/a1.txt"));
}
