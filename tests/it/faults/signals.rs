//! Signals that ask for no end: of pipes, terminals, limits and debuggers.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::support::{Command, Mode, TestMount, TestStore, eventually, signal};

const HARMLESS: [Signal; 6] =
    [Signal::PIPE, Signal::XFSZ, Signal::WINCH, Signal::CONT, Signal::URG, Signal::CHILD];
/// The bit of SIGXFSZ in the masks of `/proc/PID/status`.
const BIT: u64 = 1 << (libc::SIGXFSZ - 1);

fn send_all(pid: u32) {
    for harmless in HARMLESS {
        signal(pid, harmless);
    }
}

/// Waits until the program runs: it has a handler for SIGXFSZ then.
fn wait_until_it_runs(pid: u32) {
    let is_caught = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
        Some(u64::from_str_radix(mask, 16).ok()? & BIT != 0)
    };
    eventually("the program runs", || is_caught() == Some(true));
}

fn start(store: &TestStore, arguments: &[&str]) -> Child {
    let command = Command::ctxfs().arg("--store").arg(store.path()).args(arguments);
    let piped = |inner: &mut std::process::Command| {
        inner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    };
    command.with(piped).spawn()
}

#[test]
fn commands_go_on_after_signals_that_ask_for_no_end() {
    let message = "{\"role\":\"user\",\"content\":\"x\"}\n";
    for (arguments, input) in [
        (&["put", "-c", "c7", "--call", "x"][..], "text\n"),
        (&["log", "append", "c7"], message),
        (&["run", "-c", "c7", "--id", "y", "--", "cat"], "text\n"),
        (&["mcp"], ""),
    ] {
        let store = TestStore::new();
        let mut child = start(&store, arguments);
        wait_until_it_runs(child.id());
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        send_all(child.id());
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}: {status}");
        let kept = match arguments[0] {
            "put" => "artifacts/tool/x.txt",
            "log" => "history/messages.jsonl",
            "run" => "artifacts/terminal/y.log",
            _ => continue,
        };
        let kept = fs::read_to_string(store.path().join("context/c7").join(kept)).unwrap();
        assert_eq!(kept, input.repeat(2), "{arguments:?}");
    }
}

#[test]
fn servers_go_on_after_signals_that_ask_for_no_end() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        send_all(mount.pid());
        fs::write(mount.tool("c7").join("x.txt"), "text\n").unwrap();
        let tail = fs::read_to_string(mount.tool("c7").join("x.txt.tail")).unwrap();
        assert_eq!(tail, "text\n", "{mode:?}");
    }
    let store = TestStore::new();
    let mut page = start(&store, &["web", "--listen", "127.0.0.1:0"]);
    wait_until_it_runs(page.id());
    send_all(page.id());
    assert!(page.try_wait().unwrap().is_none());
    eventually("the page ends as it is asked to", || {
        signal(page.id(), Signal::TERM);
        page.try_wait().unwrap().is_some()
    });
}
