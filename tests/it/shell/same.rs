//! A host sees the process that it started: streams, signals, exit status, what it inherits.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::Signal;

use super::{logs, shell};
use crate::support::{Command, TestStore, eventually, signal};

#[test]
fn each_stream_goes_to_its_own() {
    let store = TestStore::new();
    let script = "echo out; echo err >&2; seq 9 | sed s/^/out/; seq 9 | sed s/^/err/ >&2; exit 4";
    let bare = Command::new("sh").args(["-c", script]).run();
    let with = shell(&store, "x", &[], &["sh", "-c", script]).run();
    assert_eq!(with, bare);
    assert_eq!(logs(&store), ["x.log"]);
    let long = "seq 600; seq 600 >&2; seq 601 1200; seq 601 1200 >&2";
    let bare = Command::new("sh").args(["-c", long]).run();
    assert_eq!(shell(&store, "y", &[], &["sh", "-c", long]).run(), bare);
    // Of what is too long, the model gets one text.
    let long = "seq 5000; seq 5000 >&2";
    let with = shell(&store, "z", &[], &["sh", "-c", long]).run();
    let printed = String::from_utf8([with.stdout, with.stderr].concat()).unwrap();
    assert!(printed.contains("[ctxfs] The output goes on.") && printed.len() < 8144, "{printed}");

    // One file gets both in the order in which they were written.
    let words = ["-c", "exec \"$@\" 2>&1", "sh"];
    let line = shell(&store, "w", &[], &["sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2"]);
    assert_eq!(line.below("sh", &words).stdout(), b"1\n2\n3\n4\n");
}

#[test]
fn a_signal_that_ends_the_command_is_the_end() {
    let store = TestStore::new();
    for number in [1, 2, 3, 6, 9, 10, 11, 13, 14, 15] {
        let script = format!("ulimit -c 0; echo begun; kill -{number} $$; sleep 600");
        let output = shell(&store, "x", &[], &["sh", "-c", &script]).run();
        assert_eq!((output.code, &*output.stdout), (-number, &b"begun\n"[..]), "{output}");
    }
}

#[test]
fn the_command_ends_with_it() {
    let store = TestStore::new();
    let piped = |inner: &mut std::process::Command| {
        inner.stdin(Stdio::null()).stdout(Stdio::piped());
    };
    let script = "echo $$; exec sleep 600";
    let mut child = shell(&store, "x", &[], &["sh", "-c", script]).with(piped).spawn();
    let (mut told, mut byte) = (String::new(), [0]);
    let mut printed = child.stdout.take().unwrap();
    while !told.ends_with('\n') {
        printed.read_exact(&mut byte).unwrap();
        told.push(char::from(byte[0]));
    }
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    let process = format!("/proc/{}", told.trim());
    eventually("the command has ended", || !std::path::Path::new(&process).exists());
}

/// Without a reader, a command ends as it would.
#[test]
fn nobody_reads() {
    let store = TestStore::new();
    let script = "\"$@\" | head -n 1; echo ${PIPESTATUS[0]}";
    let line = shell(&store, "x", &[], &["sh", "-c", "yes; echo $? >&2"]);
    let output = line.below("bash", &["-c", script, "bash"]).run();
    assert_eq!(output.stdout, b"y\n0\n", "{output}");
}

/// When standard output has lost its reader, standard error still arrives, with its length as by
/// itself, or as a stand-in.
#[test]
fn one_stream_loses_its_reader() {
    let store = TestStore::new();
    for lines in [5, 900, 9000] {
        let command = format!("echo out; sleep 0.2; seq {lines} >&2; echo out; sleep 0.2; exit 3");
        let script = "\"$@\" | head -c 1 >/dev/null; echo ${PIPESTATUS[0]}";
        let words = ["-c", script, "bash"];
        let bare = Command::new("sh").args(["-c", &command]).below("bash", &words).run();
        let with = shell(&store, "x", &[], &["sh", "-c", &command]).below("bash", &words).run();
        assert_eq!(with.stdout, bare.stdout, "{lines}");
        if lines < 9000 {
            assert_eq!(with.stderr, bare.stderr, "{lines}");
        } else {
            let told = String::from_utf8_lossy(&with.stderr);
            assert!(told.starts_with("1\n2\n") && told.contains("\n[ctxfs] The output"), "{told}");
        }
    }
}

#[test]
fn the_command_inherits_what_it_would() {
    let store = TestStore::new();
    let script = "umask; ulimit -n; ulimit -f; pwd; echo \"$A\"; cat <&5; cat; echo $-; \
                  s=$(sed -n 's/^SigIgn:.//p' /proc/self/status); echo $((0x$s & 0xffff))";
    let set = "umask 077; ulimit -n 64; ulimit -f 100000; cd /; export A=1; trap '' HUP INT PIPE USR1; \
               exec \"$@\" 5</proc/sys/kernel/ostype";
    let words = ["-c", set, "sh"];
    let bare = Command::new("sh").args(words).args(["sh", "-c", script]).stdin("input\n").run();
    let with = shell(&store, "x", &[], &["sh", "-c", script]).below("sh", &words);
    assert_eq!(with.stdin("input\n").run(), bare);
}

/// Descriptors that are closed stay so.
#[test]
fn a_command_without_streams() {
    let store = TestStore::new();
    // Other descriptors may come from tests that run beside this one.
    let fds = "sh -c 'ls -d /proc/self/fd/[012]'";
    let script = format!("cat; echo out; echo $?; echo err >&2; echo $?; {fds}; grep x; exit 3");
    let script = script.as_str();
    for closed in ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"] {
        let set = format!("exec \"$@\" {closed}");
        let bare = Command::new("bash").args(["-c", &set, "bash", "bash", "-c", script]).run();
        let with =
            shell(&store, "x", &[], &["bash", "-c", script]).below("bash", &["-c", &set, "bash"]);
        assert_eq!(with.run(), bare, "{closed}");
    }
}

#[test]
fn a_terminal_stays_with_the_command() {
    let store = TestStore::new();
    let script = "test -t 1 && test -t 2 && seq 3000";
    let place = store.path();
    let line = ["shell", "--store", place.to_str().unwrap(), "-c", "c7", "--", "sh", "-c", script];
    let line = [&[env!("CARGO_BIN_EXE_ctxfs")], &line[..]].concat();
    let line = shlex::try_join(line).unwrap();
    let output = Command::new("script").without_settings().args(["-qec", &line, "/dev/null"]);
    let printed = output.text();
    assert!(printed.ends_with("\n2999\r\n3000\r\n"), "{printed}");
    assert_eq!(logs(&store), [""; 0]);
}
