//! The mount that the hook starts at the beginning of a session.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Machine, SESSION};
use crate::support::{Command, eventually, is_mounted, log, processes_of};

const HOSTS: [&str; 6] = ["claude-code", "codex", "gemini-cli", "copilot", "opencode", "pi"];

/// A mountpoint. Whatever is mounted there ends with it.
struct Mountpoint(PathBuf);

impl Drop for Mountpoint {
    fn drop(&mut self) {
        Command::ctxfs().arg("umount").arg(&self.0).run();
        eventually("the server has ended", || processes_of(&self.0).is_empty());
    }
}

/// Returns the event of a session that begins.
fn begun(host: &str) -> Value {
    match host {
        "copilot" => json!({ "sessionId": SESSION, "timestamp": 1, "source": "new" }),
        "opencode" | "pi" => json!({ "conv": SESSION, "event": "new" }),
        _ => {
            json!({ "session_id": SESSION, "cwd": "/p", "hook_event_name": "SessionStart", "source": "startup" })
        }
    }
}

fn hook(machine: &Machine, host: &str, dir: &Path) -> Command {
    let hook = machine.hook(host).env("CTXFS_HOOKS_MOUNT", "true").env("CTXFS_MOUNT", dir);
    hook.stdin(begun(host).to_string())
}

/// Returns how often something is mounted on `dir`.
fn mounts(dir: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.split(' ').nth(4) == dir.to_str()).count()
}

#[test]
fn sessions_that_begin_together_start_one_mount() {
    let machine = Machine::new();
    let dir = Mountpoint(machine.store.scratch("mnt"));
    std::thread::scope(|scope| {
        for host in HOSTS {
            let hook = hook(&machine, host, &dir.0);
            scope.spawn(move || {
                let output = hook.run();
                assert!(output.code == 0 && output.stdout.is_empty(), "{host}: {output}");
            });
        }
    });
    eventually("the store is mounted", || is_mounted(&dir.0));
    eventually("the hooks have ended", || processes_of(&dir.0).len() <= 3);
    assert_eq!(mounts(&dir.0), 1);
    // A later session leaves it as it is.
    let server = processes_of(&dir.0);
    assert!(hook(&machine, "codex", &dir.0).stdout().is_empty());
    assert_eq!((mounts(&dir.0), processes_of(&dir.0)), (1, server));
    // The paths of stand-ins work at once.
    let put = machine.store.ctxfs("put", &["-c", SESSION, "--call", "x"]);
    let told = put.stdin(log(5000)).text();
    let file = told.lines().find_map(|line| line.strip_prefix("file:   ")).unwrap();
    let file = file.split("    ").next().unwrap();
    assert_eq!(fs::read(file).unwrap(), log(5000), "{told}");
}

#[test]
fn what_cannot_be_mounted_is_told() {
    let machine = Machine::new();
    let file = machine.home.join("file");
    fs::write(&file, "").unwrap();
    for host in HOSTS {
        // A machine that is busy may take longer than the hook waits.
        let mut told = String::new();
        eventually("the model is told", || {
            told = hook(&machine, host, &file).text();
            !told.is_empty()
        });
        let answer: Value = serde_json::from_str(&told).unwrap();
        let text = match host {
            "copilot" => &answer["additionalContext"],
            "opencode" | "pi" => &answer["text"],
            _ => &answer["hookSpecificOutput"]["additionalContext"],
        };
        let text = text.as_str().unwrap();
        assert!(
            text.contains("is not mounted: the mountpoint `") && text.ends_with(".\n"),
            "{text}"
        );
        let view = format!(" view --store {} PATH`", machine.store.path().display());
        assert!(text.contains(&view) && text.lines().count() == 1, "{text}");
        assert_eq!(machine.last(), format!("{host} told"));
    }
}

#[test]
fn files_are_not_hidden() {
    let machine = Machine::new();
    let dir = Mountpoint(machine.store.scratch("mnt"));
    fs::write(dir.0.join("notes"), "mine").unwrap();
    let told = hook(&machine, "claude-code", &dir.0).text();
    assert!(told.contains("is not empty"), "{told}");
    assert!(!is_mounted(&dir.0) && processes_of(&dir.0).is_empty());
}

#[test]
fn nothing_is_mounted_where_that_is_turned_off() {
    let machine = Machine::new();
    let dir = Mountpoint(machine.store.scratch("mnt"));
    for host in HOSTS {
        let hook = hook(&machine, host, &dir.0).env("CTXFS_HOOKS_MOUNT", "false");
        assert!(hook.stdout().is_empty(), "{host}");
    }
    assert!(!is_mounted(&dir.0) && processes_of(&dir.0).is_empty());
}
