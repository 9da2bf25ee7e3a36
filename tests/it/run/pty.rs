//! Commands on a terminal of their own, and users at a terminal.

use super::{plain, run};
use crate::support::{Terminal, TestStore, eventually};

fn lines(output: &[u8]) -> Vec<&str> {
    std::str::from_utf8(output).unwrap().lines().collect()
}

#[test]
fn the_command_has_a_terminal() {
    let store = TestStore::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && tty && : </dev/tty && exit 9";
    let output = run(&store, "x", &["--pty"], &["sh", "-c", script]).run();
    let said = lines(&output.stdout);
    assert_eq!((output.code, said[0]), (9, "24 80"));
    assert!(said[1].starts_with("/dev/pts/"), "{said:?}");
    assert_eq!(std::fs::read(plain(&store, "x.log")).unwrap(), output.stdout);
}

#[test]
fn input_that_is_no_terminal_is_typed_and_ends() {
    let store = TestStore::new();
    for (input, wanted) in [(&b"one\ntwo\n"[..], vec!["one", "two"]), (b"half", vec!["half"])] {
        let output = run(&store, "x", &["--pty"], &["cat"]).stdin(input).run();
        assert_eq!((output.code, lines(&output.stdout)), (0, wanted));
    }
    let long = "line of text\n".repeat(20_000);
    let output = run(&store, "x", &["--pty"], &["wc", "-l"]).stdin(long).run();
    assert_eq!((output.code, lines(&output.stdout)), (0, vec!["20000"]));
}

#[test]
fn a_person_sees_it_live_and_can_answer() {
    let store = TestStore::new();
    for more in ["", "--pty"] {
        let scratch = store.scratch("screen");
        let script = "stty size; printf \"who? \"; read -r name; echo hello, $name";
        let line = format!(
            "stty -a > before; {} run --store {} -c c7 --id x {more} -- sh -c '{script}'; \
             stty -a > after; echo ended with $?; cat",
            env!("CARGO_BIN_EXE_ctxfs"),
            store.path().display(),
        );
        let terminal = Terminal::start(&scratch, &scratch, &line);
        terminal.screen_when("it asks", |screen| screen.contains("30 100\nwho?"));
        terminal.keys(&["Ann", "Enter"]);
        let screen =
            terminal.screen_when("the command ends", |screen| screen.contains("ended with 0"));
        // Seen once: what went by live is not printed again.
        assert_eq!(screen.matches("hello, Ann").count(), 1, "{screen}");
        let read = |name| std::fs::read_to_string(scratch.join(name)).unwrap();
        assert_eq!(read("before"), read("after"));
        std::fs::remove_file(plain(&store, "x.log")).unwrap();
    }
}

#[test]
fn a_terminal_that_is_resized_resizes_the_commands() {
    let store = TestStore::new();
    let scratch = store.scratch("screen");
    let script = "trap \"stty size\" WINCH; echo ready; while :; do sleep 0.05; done";
    let line = format!(
        "{} run --store {} -c c7 --id x --pty -- sh -c '{script}'",
        env!("CARGO_BIN_EXE_ctxfs"),
        store.path().display(),
    );
    let terminal = Terminal::start(&scratch, &scratch, &line);
    terminal.screen_when("the command is ready", |screen| screen.contains("ready"));
    terminal.resize(90, 20);
    terminal.screen_when("the command knows", |screen| screen.contains("20 90"));
    terminal.keys(&["C-c"]);
    terminal.ended();
}

#[test]
fn in_the_background_the_terminal_is_left_alone() {
    let store = TestStore::new();
    let scratch = store.scratch("screen");
    let line = format!(
        "set -m; stty -a > before; {} run --store {} -c c7 --id x --pty -- \
         sh -c 'echo begun; sleep 0.5' & sleep 0.3; stty -a > during; wait; stty -a > after; \
         echo all done; cat",
        env!("CARGO_BIN_EXE_ctxfs"),
        store.path().display(),
    );
    let terminal = Terminal::start(&scratch, &scratch, &line);
    terminal.screen_when("it has ended", |screen| screen.contains("all done"));
    let read = |name| std::fs::read_to_string(scratch.join(name)).unwrap();
    assert_eq!(read("before"), read("during"));
    assert_eq!(read("before"), read("after"));
    eventually("the log is there", || plain(&store, "x.log").exists());
    assert_eq!(std::fs::read(plain(&store, "x.log")).unwrap(), b"begun\r\n");
}
