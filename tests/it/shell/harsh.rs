//! Commands that try to get in the way, and places where little is left to work with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{logs, shell};
use crate::support::{Command, TestStore};

/// Whatever a command does to itself and to its streams, a host sees it as without ctxfs.
#[test]
fn commands_that_get_in_the_way() {
    let scripts = [
        "exec >&-; echo lost; exit 3",
        "exec >&- 2>&-; sleep 0.1; exit 3",
        "exec <&- >&- 2>&-; exit 4",
        "echo '[ctxfs] The output goes on.'; echo '[ctxfs] The complete output is stored'; exit 1",
        "set -e; trap 'echo bye' EXIT; echo a; false; echo b",
        "trap 'echo term; exit 5' TERM; kill -TERM $$; echo after",
        "trap '' PIPE; yes | head -n 1; echo $?",
        "yes | head -n 3000 | tail -n 1; yes | head -c 5000000 | wc -c",
        "set -m; sleep 600 & kill %1; wait; echo $?",
        "(trap '' HUP; exec sleep 600) >/dev/null 2>&1 & kill $!; wait $!; echo $?",
        "cat <<X\n$(seq 3)\nX",
        "printf '\\0\\377\\376'; printf '\\303'; exit 2",
        "printf 'a\\rb\\rc'; printf '\\033[31mred'",
        "tail() { echo mine; }; cat() { echo mine; }; seq 9 | tail -n 1; echo x | cat",
        "exec sh -c 'echo replaced; exit 6'",
        "exec /no/such/program",
        "/no/such/program",
        "exit 255",
        "cd /; rm -rf \"$D\"; pwd; echo gone",
        "ulimit -f 0; echo x",
        "stty 2>&1; tty; test -t 0; echo $?",
    ];
    for script in scripts {
        let dir = tempfile::tempdir().unwrap();
        let store = TestStore::new();
        let below = dir.path().join("d");
        let set = |command: Command| {
            fs::create_dir_all(&below).unwrap();
            command.current_dir(&below).env("D", &below).run()
        };
        let bare = set(Command::new("bash").args(["-c", script]));
        let with = set(shell(&store, "x", &[], &["bash", "-c", script]));
        assert_eq!(with, bare, "{script}");
    }
}

/// Files of the place where a command runs do not come between.
#[test]
fn programs_of_the_directory_are_not_run() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ctxfs", "bash", "sh", "cat", "mapfile", "seq"] {
        let path = dir.path().join(name);
        fs::write(&path, "#!/bin/sh\necho planted\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(dir.path().join("ctxfs.toml"), "store = \"planted\"\n").unwrap();
    let store = TestStore::new();
    let script = "/usr/bin/seq 2000; exit 1";
    let command = shell(&store, "x", &[], &["/bin/bash", "-c", script]).current_dir(dir.path());
    let output = command.run();
    assert!(output.code == 1 && output.stdout.ends_with(b"\n2000\n"), "{output}");
    assert_eq!(logs(&store), ["x.log"]);
    assert!(!dir.path().join("planted").exists());
}

/// Where it cannot work, the command runs without it.
#[test]
fn where_little_is_left() {
    let script = "seq 3; echo error >&2; exit 7";
    let limits = ["-n 5", "-n 9", "-n 12", "-n 16", "-n 20", "-f 0", "-f 1"];
    for limit in limits {
        let store = TestStore::new();
        let set = format!("ulimit {limit}; exec \"$@\"");
        let set = ["-c", &set, "sh"];
        let bare = Command::new("sh").args(["-c", script]).below("sh", &set).run();
        let with = shell(&store, "x", &[], &["sh", "-c", script]).below("sh", &set);
        assert_eq!(with.run(), bare, "{limit}");
    }
}

/// A store that cannot be used, or that others own.
#[test]
fn where_nothing_can_be_stored() {
    let script = "seq 3; echo error >&2; exit 7";
    let bare = Command::new("sh").args(["-c", script]).run();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    fs::create_dir_all(at("newer")).unwrap();
    fs::write(at("newer/VERSION"), "99999\n").unwrap();
    fs::create_dir_all(at("odd")).unwrap();
    fs::write(at("odd/context"), "").unwrap();
    fs::create_dir_all(at("linked/context")).unwrap();
    std::os::unix::fs::symlink("/proc", at("linked/context/c7")).unwrap();
    for name in ["file", "file/below", "dangling", "loop", "newer", "odd", "linked"] {
        let command = Command::ctxfs().args(["shell", "-c", "c7", "--store"]).arg(at(name));
        let with = command.args(["--", "sh", "-c", script]).run();
        assert_eq!(with, bare, "{name}");
    }
    let wrong = [
        ("CTXFS_QUOTA", "much"),
        ("CTXFS_CONFIG", "/no/such/file"),
        ("CTXFS_STORE", "relative"),
        ("CTXFS_HOOKS_REPLACE", "never"),
        ("HOME", "/dev/null"),
    ];
    for (name, value) in wrong {
        let command = Command::ctxfs().args(["shell", "-c", "c7", "--", "sh", "-c", script]);
        let with = command.current_dir(dir.path()).env(name, value).run();
        assert_eq!(with, bare, "{name}={value}");
    }
    for conversation in ["a/b", "..", "", "\n", ".ctxfs"] {
        let command = Command::ctxfs().args(["shell", "-c", conversation, "--store"]);
        let with = command.arg(at("store")).args(["--", "sh", "-c", script]).run();
        assert_eq!(with, bare, "{conversation:?}");
    }
}
