//! Signals: each reaches the command once.

use rustix::process::Signal;

use super::{plain, run, says, start};
use crate::support::{Terminal, TestStore, eventually, signal};

/// Counts the signals of each kind. Ends a moment after the last one of the kind that `argv[1]`
/// names.
const COUNTER: &str = "
import signal, sys, time
def note(number, frame):
    print(signal.Signals(number).name, flush=True)
    last = time.monotonic() + 0.3
    if number == signal.Signals[sys.argv[1]]:
        while time.monotonic() < last: time.sleep(0.01)
        sys.exit(7)
for name in ['INT', 'TERM', 'HUP', 'QUIT', 'USR1', 'USR2', 'WINCH']:
    signal.signal(signal.Signals['SIG' + name], note)
print('ready', flush=True)
while True: time.sleep(10)
";

#[test]
fn signals_go_to_the_command() {
    let store = TestStore::new();
    let rows = [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
    ];
    for more in [&[][..], &["--pty"], &["--split"]] {
        let ready = if more == ["--pty"] { "ready\r\n" } else { "ready\n" };
        // Together, as each of them waits.
        let children = rows.map(|(sent, name)| {
            (start(&store, name, more, &["python3", "-c", COUNTER, name]), sent, name)
        });
        for (child, sent, name) in &children {
            says(&store, &format!("{name}.log"), ready.as_bytes());
            signal(child.id(), *sent);
        }
        for (mut child, _, name) in children {
            let log = format!("{name}.log");
            assert_eq!(child.wait().unwrap().code(), Some(7), "{name} {more:?}");
            let said = std::fs::read_to_string(plain(&store, &log)).unwrap();
            assert_eq!(said.lines().collect::<Vec<_>>(), ["ready", name], "{more:?}");
            std::fs::remove_file(plain(&store, &log)).unwrap();
        }
    }
}

#[test]
fn a_signal_that_ends_the_command_is_told_as_shells_do() {
    let store = TestStore::new();
    let rows = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)];
    for (sent, code) in rows {
        let id = format!("x{code}");
        let script = "ulimit -c 0; echo ready; exec sleep 1000";
        let mut child = start(&store, &id, &[], &["sh", "-c", script]);
        says(&store, &format!("{id}.log"), b"ready\n");
        signal(child.id(), sent);
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn a_command_that_closed_its_output_gets_signals_too() {
    let store = TestStore::new();
    let script = "echo ready; exec >/dev/null 2>&1; exec sleep 1000";
    let mut child = start(&store, "x", &[], &["sh", "-c", script]);
    says(&store, "x.log", b"ready\n");
    eventually("the command ends", || {
        signal(child.id(), Signal::TERM);
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let store = TestStore::new();
    for more in ["", "--pty"] {
        let scratch = store.scratch("screen");
        std::fs::write(scratch.join("counter.py"), COUNTER).unwrap();
        let line = format!(
            "{} run --store {} -c c7 --id x {more} -- python3 counter.py SIGINT; echo ended with $?; cat",
            env!("CARGO_BIN_EXE_ctxfs"),
            store.path().display(),
        );
        let terminal = Terminal::start(&scratch, &scratch, &line);
        terminal.screen_when("the command is ready", |screen| screen.contains("ready"));
        terminal.keys(&["C-c"]);
        terminal.screen_when("the command ends", |screen| screen.contains("ended with 7"));
        let said = std::fs::read_to_string(plain(&store, "x.log")).unwrap();
        assert_eq!(said.matches("SIGINT").count(), 1, "{said}");
        assert_eq!(terminal.screen().matches("SIGINT").count(), 1);
        std::fs::remove_file(plain(&store, "x.log")).unwrap();
    }
}

#[test]
fn stopped_and_let_go_on_with_the_command() {
    let store = TestStore::new();
    let script = "echo ready; while :; do sleep 0.02; done";
    let mut child = start(&store, "x", &[], &["sh", "-c", script]);
    says(&store, "x.log", b"ready\n");
    let state = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let command = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    signal(child.id(), Signal::TSTP);
    eventually("both are stopped", || (state(child.id()), state(command)) == ('T', 'T'));
    signal(child.id(), Signal::CONT);
    eventually("both go on", || state(child.id()) != 'T' && state(command) != 'T');
    signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn what_the_command_sends_to_its_group_is_not_sent_again() {
    let store = TestStore::new();
    let script = "
import os, signal, time
count = 0
def note(number, frame):
    global count
    count += 1
signal.signal(signal.SIGTERM, note)
os.kill(0, signal.SIGTERM)
time.sleep(0.3)
print(count)
";
    let output = run(&store, "x", &[], &["python3", "-c", script]).run();
    assert_eq!((output.code, &*output.stdout), (0, &b"1\n"[..]));
}
