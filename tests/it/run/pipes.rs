//! Filters in the shell of an agent: what comes in is stored, what goes out is theirs.
//!
//! `CTXFS_PIPELINES` sets the number of random pipelines.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;

use crate::support::{Command, Output, TestStore, holds};

/// Enough for an input to be stored, with an error in its middle.
const FAILING: &str = "{ seq 1000; echo 'error: the real reason'; seq 5; }";

/// Runs a command as a host that starts it with `bash -c`.
fn shell(store: &TestStore, command: &str) -> Command {
    of_host(store, "claude-code", command)
}

fn of_host(store: &TestStore, host: &str, command: &str) -> Command {
    let shell = ["--host", host, "-c", "c7", "--id", "x", "--", "bash", "-c", command];
    store.ctxfs("shell", &shell)
}

/// Returns the line with which Claude Code runs a command, after a snapshot of the user's shell.
fn with_snapshot(store: &TestStore, snapshot: &str, command: &str) -> String {
    let dir = store.scratch("home").join("shell-snapshots");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("snapshot.sh"), snapshot).unwrap();
    let source = format!("source {}/snapshot.sh 2>/dev/null || true", dir.display());
    let command = shlex::try_quote(command).unwrap();
    format!("{source} && eval {command} < /dev/null && pwd -P >| /dev/null")
}

/// Makes a program in a directory of its own, and returns a `PATH` that begins with that.
fn with_program(store: &TestStore, name: &str, text: &str) -> OsString {
    let dir = store.scratch("bin");
    fs::write(dir.join(name), text).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(dir).chain(std::env::split_paths(&path))).unwrap()
}

/// Returns what a command printed, with its standard error after its standard output.
fn all(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &output.stderr].concat()).unwrap()
}

/// Returns the stored inputs of filters.
fn inputs(store: &TestStore) -> Vec<String> {
    let entries = fs::read_dir(store.path().join("context/c7/artifacts/tool"));
    let files = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut inputs: Vec<_> = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    inputs.sort();
    inputs
}

fn input() -> String {
    let lines = |range: std::ops::RangeInclusive<u32>| range.map(|number| format!("{number}\n"));
    let error = std::iter::once("error: the real reason\n".to_owned());
    lines(1..=1000).chain(error).chain(lines(1..=5)).collect()
}

#[test]
fn a_line_tells_of_errors_that_a_filter_drops() {
    for (filter, shown, notice) in [
        ("tail -2", "4\n5\n", "1,004 lines before these"),
        ("grep 99.", "990\n991\n992\n993\n994\n995\n996\n997\n998\n999\n", "996 lines not shown"),
        ("sed -n 2,3p", "2\n3\n", "1,004 lines not shown"),
        (
            "awk '/77/'",
            "77\n177\n277\n377\n477\n577\n677\n770\n771\n772\n773\n774\n775\n776\n777\n778\n779\n877\n977\n",
            "987 lines not shown",
        ),
        ("{ egrep 1000 | cat; }", "1000\n", "1,005 lines not shown"),
    ] {
        let store = TestStore::new();
        let output = shell(&store, &format!("{FAILING} | {filter}")).run();
        let file = "c7/artifacts/tool/x-pipe.txt.errors\n";
        let notice = format!("{shown}[ctxfs] {notice}: 1 error; ");
        let text = all(&output);
        assert_eq!(output.code, 0, "{output}");
        assert!(text.starts_with(&notice) && text.ends_with(file), "{filter}: {output}");
        assert_eq!(inputs(&store), [input()], "{filter}");
    }
}

#[test]
fn nothing_is_said_of_what_was_seen_or_is_no_error() {
    for (command, stored) in [
        (format!("{FAILING} | tail -7"), true),
        (format!("{FAILING} | grep -n reason"), true),
        (format!("{FAILING} | tail -2 2>/dev/null"), true),
        (format!("x=$({FAILING} | tail -2 2>&1); echo \"$x\""), true),
        (format!("{FAILING} | tail -2 |& cat"), true),
        ("seq 1000 | tail -2".to_owned(), true),
        ("seq 200 | sed 's/^/error: /' | tail -2".to_owned(), true),
        ("seq 10 | sed 's/^/error: no file /' | tail -2".to_owned(), false),
        (format!("{FAILING} | tail -2000"), false),
        (format!("{FAILING} | awk '{{print 1}}'"), false),
        (format!("{FAILING} | env tail -2"), false),
        (format!("{FAILING} | xargs -n 2000 echo | wc -l"), false),
        (format!("{FAILING} | tail -2 > /dev/null"), false),
        (format!("bash -c \"{FAILING} | tail -2\""), false),
    ] {
        let store = TestStore::new();
        let output = shell(&store, &command).run();
        assert_eq!(output.code, 0, "{command}: {output}");
        assert!(!all(&output).contains("[ctxfs]"), "{command}: {output}");
        assert_eq!(inputs(&store).len(), usize::from(stored), "{command}");
    }
}

#[test]
fn a_line_names_what_was_dropped_of_a_command_that_failed_without_a_reason() {
    let store = TestStore::new();
    let failing = "set -o pipefail; (seq 1000; exit 7)";
    let output = shell(&store, &format!("{failing} | tail -1")).run();
    let line = "[ctxfs] nothing here says why it failed; all that came into `| tail -1`: ";
    assert_eq!((output.code, &*output.stdout), (7, &b"1000\n"[..]), "{output}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with(line) && told.ends_with("c7/artifacts/tool/x-pipe.txt\n"), "{told}");
    for command in [
        &format!("{failing} | tail -1; echo 'error: it is said'; exit 7"),
        &format!("{FAILING} | tail -1; exit 7"),
        "seq 1000 | grep x",
        "seq 1000 | tail -1",
        "seq 10 | tail -1; exit 7",
    ] {
        let store = TestStore::new();
        let output = shell(&store, command).run();
        assert!(!all(&output).contains("nothing here"), "{command}: {output}");
    }
}

#[test]
fn functions_of_a_snapshot_filter() {
    let snapshot = "shopt -s expand_aliases\n\
                    function grep { local _a=1; (exec -a ugrep grep --color=always \"$@\"); return; }\n\
                    alias tail='tail -n 1' grep=nonsense local=nonsense\nunalias grep\n";
    let store = TestStore::new();
    let line = with_snapshot(&store, snapshot, &format!("{FAILING} | grep 1000 | tail; type rgx"));
    let output = shell(&store, &line).run();
    let text = all(&output);
    let shown = "\u{1b}[01;31m\u{1b}[K1000\u{1b}[m\u{1b}[K\n";
    assert!(text.contains(shown) && text.contains("1,005 lines not shown: 1 error; "), "{output}");
    assert!(text.contains("bash: line 1: type: rgx: not found\n"), "{output}");
    assert_eq!((output.code, inputs(&store)), (1, vec![input()]));
}

/// The snapshot of Claude Code has functions for filters that are not installed.
#[test]
fn functions_of_a_snapshot_without_programs() {
    let store = TestStore::new();
    let snapshot = "function rg { (exec -a rg $GREP \"$@\"); }\n\
                    function grep { (exec -a grep $GREP \"$@\"); }\n";
    let bin = store.scratch("bin");
    let place = |name: &str| Command::shell(&format!("command -v {name}"), &[]).text();
    for name in ["bash", "cat", "rm", "seq", "tail"] {
        symlink(place(name).trim(), bin.join(name)).unwrap();
    }
    for command in [
        "seq 2000 | rg 1000 | cat; echo ${PIPESTATUS[@]}",
        "seq 3000 | grep 1000 | rg -c 1 | cat; tail -1 </dev/null; type -p rg grep",
        "rm -rf $XDG_STATE_HOME/ctxfs; seq 2000 | rg 1000 | cat; echo ${PIPESTATUS[@]}",
        "set -r; seq 2000 | rg 1000 | cat; echo ${PIPESTATUS[1]}",
    ] {
        let line = with_snapshot(&store, snapshot, command);
        let state = store.scratch("state");
        let run = |command: Command| {
            let command = command.env("GREP", place("grep").trim()).env("PATH", &bin);
            command.env("XDG_STATE_HOME", &state).run()
        };
        let without = run(Command::new("bash").args(["-c", &line]));
        let with = run(shell(&store, &line));
        // Messages of bash name the file of a function.
        let is_same = (with.code, &with.stdout) == (without.code, &without.stdout);
        assert!(is_same, "{command}\n{with}\n{without}");
    }
    assert_eq!(inputs(&store).len(), 2, "both functions are kept");
}

/// Bash itself runs a program that has no form which the kernel knows, and says why it cannot run
/// another one.
#[test]
fn a_filter_without_a_form_is_a_script() {
    let store = TestStore::new();
    let script =
        "[[ $1 == -1 ]] && echo \"$0 $# $SHLVL $_\"\nwhile read -r a; do b=$a; done; echo $b\n";
    for text in [script, "", "#!/nowhere/sh\n", "#!/\n"] {
        let path = with_program(&store, "tail", text);
        let command = "seq 2000 | tail -1; seq 2000 | tail -1 | cat; tail -1 </dev/null; \
                       echo $? ${PIPESTATUS[@]}; exec grep -c 1 <<<1";
        let without = Command::new("bash").args(["-c", command]).env("PATH", &path).run();
        let with = of_host(&store, "gemini-cli", command).env("PATH", &path).run();
        assert_eq!(with, without, "{text}");
    }
}

#[test]
fn a_setting_turns_it_off() {
    let store = TestStore::new();
    store.user_settings("[hooks]\npipes = false\n");
    let output = shell(&store, &format!("{FAILING} | tail -2; type tail")).run();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("4\n5\ntail is /"), "{output}");
    assert_eq!(inputs(&store), [""; 0]);
}

#[test]
fn a_filter_filters_whatever_the_command_has_set() {
    let store = TestStore::new();
    for (command, expected) in [
        ("declare -r word=x tool=y; seq 2000 | grep 1999 | wc -l", "1\n"),
        ("readonly words=1 options=3 flags=1; seq 1500 | tail -1 | cat", "1500\n"),
        ("ulimit -n 12; seq 2000 | tail -2 | cat", "1999\n2000\n"),
        ("ulimit -s 64; seq 2000 | tail -1 | cat", "2000\n"),
    ] {
        let output = shell(&store, command).run();
        assert_eq!((output.code, all(&output)), (0, expected.to_owned()), "{command}");
    }
}

/// Prints the last signals of each set of a process.
const SIGNALS: &str = "sed -n 's/^\\(Sig...\\).*\\(......\\)$/\\1 \\2/p'";

/// Prints what filters that are kept and others get of signals.
fn signals(set: &str) -> String {
    let own = format!("{SIGNALS} /proc/self/status");
    format!(
        "{set} seq 9 | sed -n 1r/proc/self/status | env {SIGNALS}; {own}; {own} | cat; exec {own}"
    )
}

#[test]
fn what_the_command_sets_defines_and_traps_changes_nothing() {
    let store = TestStore::new();
    let builtins = "command declare local exec exit wait shift return set eval trap ulimit shopt";
    let functions = builtins.replace(' ', " { echo mine; }; function ");
    let functions = format!("function {functions} {{ echo mine; }};");
    for command in [
        &*format!("{functions} seq 2000 | tail -1 | cat; seq 2000 | grep -c 1 | cat"),
        "set -E; trap 'echo ERR $?' ERR; seq 2000 | grep x | cat; grep x /dev/null; echo $?",
        "set -E; trap 'echo ERR $?' ERR; seq 2000 | grep x; (grep x /dev/null; echo after)",
        "set -o pipefail -e; trap 'echo ERR $?' ERR; seq 2000 | grep x | cat; echo not here",
        "set -k; seq 2000 | tail -1 | cat; seq 2000 | grep -c 1",
        "trap '' PIPE; seq 99999 2>&- | grep 1 2>&- | head -1; echo ${PIPESTATUS[@]}",
        "seq 2000 | tail -1 | { trap '' TERM; cat; }; trap 'echo bye' EXIT; seq 2000 | tail -1",
        "export -f tail 2>&-; bash -c 'seq 2000 | tail -1 | cat; type -t tail >&-'",
        "seq 2000 | { [[ ab =~ b ]]; tail -1; echo ${BASH_REMATCH[0]} ${FUNCNAME[0]} $LINENO; }",
        "seq 3 | { tail -n 0k; cat; }; IFS=x; seq 3 | { tail -n 0; cat; }",
        "IFS=0123456789; seq 2000 | tail -1; FUNCNEST=1; seq 2000 | tail -1",
        "set -r; seq 2000 | tail -1; enable -n wait exec command; seq 2000 | tail -2",
        "set -a; seq 2000 | awk 'END{for (k in ENVIRON) if (k ~ /ctxfs/) print k}'; echo",
        "seq 2000 | { trap 'echo C' CHLD; tail -1; }; set -m; seq 2000 | { set -m; tail -1; }",
        "seq 2000 | { coproc cat; tail -1; } 2>&1; trap 'echo D $BASH_COMMAND' DEBUG; seq 9 | tail -1",
        "tail() { cat & wait; }; seq 2000 | tail | grep -c 1; command -v tail",
        "echo a >&2; seq 2000 | no-such-filter 2>&1 | tail -1; hash -r; seq 2000 | tail -1",
        "ulimit -t 60; seq 2000 | tail -1; ulimit -u 4000; seq 2000 | tail -1; umask 777; seq 2000 | tail -1",
        "tail -f /dev/null | grep '[' 2>&-; echo ${PIPESTATUS[@]}",
        "{ sleep 0.3; echo b; echo survived >&2; } 2>&1 | grep '[' 2>&-; echo ${PIPESTATUS[@]}",
        "{ sleep 0.3; echo 1; sleep 0.3; echo 2; echo alive; } | grep --line-buffered . | true; echo ${PIPESTATUS[@]}",
        "{ sleep 0.5; echo hi; } | tail -1 & sleep 0.2; kill -STOP $!; sleep 0.6; echo stopped; kill -CONT $!; wait",
        "(sleep 0.4; echo hi) | { trap 'echo U' TERM; tail -1; echo $?; } & sleep 0.2; kill -TERM $!; wait $!; echo $?",
        "yes | rg y | head -2; echo ${PIPESTATUS[@]}",
        "seq 2000 | tail -1; rm -rf $XDG_STATE_HOME; seq 2000 | tail -2; seq 2000 | (tail -3)",
        "ulimit -f 0; seq 2000 | tail -1; seq 300000 | grep -c 1 | cat; echo ${PIPESTATUS[@]}",
        "trap '' CHLD; seq 2000 | tail -1 | cat; seq 2000 | grep -c 1; echo ${PIPESTATUS[@]}",
        "trap '' PIPE; yes | grep y 2>&1 | head -1; echo ${PIPESTATUS[@]}; exec grep -c 1 <<<1",
        "seq 2000 | (exec -a x tail -1) | cat; seq 9 | (exec -a x tail -n x) 2>&1 | cat",
        "tail -1 <&- 2>&1; echo $?; grep x <&- 2>&1; echo $?; seq 9 | { tail -1 <&-; } 2>&1 | cat",
        "seq 2000 | tail -1 2>&1 >&-; seq 9 | grep -c 1 2>&1 >&-; echo $?; sed -n p 2>&1 <&- >&-",
        "seq 9 | awk 'END{print system(\"test -e /proc/self/fd/2\")}' 2>&- | cat",
        "seq 9 | exec tail -1 2>&- | cat; seq 9 | tail -n x 2>&- | cat; echo ${PIPESTATUS[1]}",
        // Too few descriptors are left for the pipes, or for what starts the filter.
        "for m in {24..31}; do seq 2000 | { for ((i = 3; i < m; i++)); do eval \"exec $i</dev/null\"; done; ulimit -n 32; tail -1; } | cat; done",
        "export -n PATH; seq 2000 | tail -1 | cat; exec -c tail -1 /proc/sys/kernel/ostype",
        &signals(""),
        &signals("trap '' PIPE;"),
        &signals("trap '' CHLD TERM;"),
        &signals("trap 'echo trapped' PIPE USR1;"),
    ] {
        let without = Command::new("bash").args(["-c", command]).run();
        let with = of_host(&store, "gemini-cli", command).run();
        let is_same = (with.code, &with.stdout) == (without.code, &without.stdout);
        assert!(is_same, "{command}\n{with}\n{without}");
    }
}

/// A command in a sandbox cannot make the links.
#[test]
fn the_start_of_a_session_makes_the_links() {
    let store = TestStore::new();
    let state = store.scratch("state");
    let event = r#"{"hook_event_name":"SessionStart","session_id":"s1","source":"startup"}"#;
    let hook = store.ctxfs("hook", &["codex"]).env("XDG_STATE_HOME", &state).stdin(event);
    hook.env("CTXFS_HOOKS_MOUNT", "false").stdout();
    let links = state.join("ctxfs/filters");
    assert_eq!(
        fs::read_link(links.join("tail")).unwrap().to_str(),
        Some(env!("CARGO_BIN_EXE_ctxfs"))
    );
    let before = fs::symlink_metadata(links.join("tail")).unwrap().modified().unwrap();
    let command = shell(&store, "seq 2000 | tail -1").env("XDG_STATE_HOME", &state);
    assert_eq!(command.stdout(), b"2000\n");
    let after = fs::symlink_metadata(links.join("tail")).unwrap().modified().unwrap();
    assert_eq!((inputs(&store).len(), after), (1, before));
}

/// A filter in the background ends by a signal to it, and what writes to it ends, too.
#[test]
fn a_signal_to_a_filter_ends_it() {
    let store = TestStore::new();
    for signal in ["TERM", "KILL", "HUP"] {
        let command = format!(
            "{{ echo $BASHPID >&3; while echo y; do sleep 0.02; done; }} 3>pid | grep x & \
             sleep 0.5; kill -{signal} $!; wait $!; echo $?; \
             for i in {{1..500}}; do kill -0 $(<pid) || break; sleep 0.02; done 2>&-; echo $((i < 500))"
        );
        let run = |command: Command| {
            let dir = store.scratch(signal);
            command.current_dir(&dir).run()
        };
        let without = run(Command::new("bash").args(["-c", &command]));
        let with = run(shell(&store, &command));
        assert_eq!(with.stdout, without.stdout, "{with}\n{without}");
        assert!(with.stdout.ends_with(b"\n1\n"), "{with}");
    }
}

/// The environment and the file descriptors of a command are those that it has by itself.
#[test]
fn programs_know_nothing_of_it() {
    let store = TestStore::new();
    let script = "env | sort | command grep -v -e ^_= -e ^CTXFS_; ls /proc/self/fd; \
                  bash -c 'type tail; ls /proc/self/fd'";
    let with = |theirs: Option<&str>, pipes: &str| {
        let command = shell(&store, script).env("CTXFS_HOOKS_PIPES", pipes);
        match theirs {
            Some(theirs) => command.env("BASH_ENV", theirs).run(),
            None => command.run(),
        }
    };
    let theirs = store.scratch("theirs").join("file");
    fs::write(&theirs, "echo theirs\n").unwrap();
    for theirs in [None, theirs.to_str(), Some("/nowhere")] {
        let [on, off] = ["true", "false"].map(|pipes| with(theirs, pipes));
        assert_eq!(on, off, "{theirs:?}");
    }
}

#[test]
fn nothing_runs_longer_and_a_writer_gets_its_signal() {
    let store = TestStore::new();
    for (command, expected) in [
        ("yes | grep y | head -2; echo ${PIPESTATUS[@]}", "y\ny\n141 141 0\n"),
        ("yes | awk '{print}' | head -1; echo ${PIPESTATUS[@]}", "y\n141 141 0\n"),
        ("yes | grep -q y; echo ${PIPESTATUS[@]}", "141 0\n"),
        ("yes | grep -E '(' 2>/dev/null; echo ${PIPESTATUS[@]}", "141 2\n"),
        ("yes | sed -n 2q; echo ${PIPESTATUS[@]}", "141 0\n"),
        ("(seq 3; exit 4) | tail -1; echo ${PIPESTATUS[@]}", "3\n4 0\n"),
        ("seq 9 | tail -z -n 1 | wc -c; seq 9 | rgx 1 2>/dev/null; echo $?", "18\n127\n"),
    ] {
        let output = shell(&store, command).run();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{command}");
    }
}

/// A filter whose output ends with its input is not waited for, and a large input is kept whole.
#[test]
fn a_large_input_is_kept() {
    let store = TestStore::new();
    let command = "{ seq 300000; echo 'fatal error: late'; seq 300000 500000; } | tail -1";
    let output = shell(&store, command).run();
    let text = all(&output);
    assert!(text.starts_with("500000\n[ctxfs] 500,001 lines before these: 1 error; "), "{output}");
    let [input] = &inputs(&store)[..] else { panic!("{output}") };
    assert_eq!(input.lines().count(), 500_002);
    let output = shell(&store, "yes | head -n 800000 | awk '{print}' | cksum").run();
    assert_eq!(output.stdout, Command::shell("yes | head -n 800000 | cksum", &[]).stdout());
    assert_eq!(inputs(&store).len(), 1, "nothing was dropped");
}

#[test]
fn without_a_store_a_filter_just_filters() {
    let store = TestStore::new();
    let path = store.path().display().to_string();
    let command = format!("rm -rf {path}; echo >{path}; {FAILING} | tail -2; echo $?; rm {path}");
    let output = shell(&store, &command).run();
    assert_eq!((output.code, &*output.stdout), (0, &b"4\n5\n0\n"[..]), "{output}");
}

// `@` is a source, `%` a filter, `!` one that reads all of its input: another one may end before its
// source has written, or after.
const FORMS: [&str; 28] = [
    "@ | %",
    "@ | % | %",
    "@ | % | % | %",
    "@ 2>&1 | %",
    "@ |& %",
    "x=$( @ | %); echo \"<$x>\"",
    "( @ | %)",
    "{ @ | %; }",
    "@ | { %; echo rest; }",
    "% < <(@)",
    "% <<<\"$( @)\"",
    "@ | % & wait",
    "if @ | %; then echo yes; else echo no; fi",
    "@ | % && echo yes || echo no",
    "set -e; @ | !; echo after",
    "set -o pipefail; @ | !; echo after $?",
    "set -eo pipefail; @ | ! | !; echo after",
    "set -u; @ | %",
    "f() { local a=1; @ | %; return 5; }; f",
    "@ | while read a; do echo \"$a\" | %; break; done",
    "for i in 1 2; do @ | %; done",
    "@ | %; echo ${#PIPESTATUS[*]} $?",
    "@ | % > /dev/null; echo $?",
    "@ | tee /dev/null | %",
    "@ | ! | sort | head -n 3",
    "shopt -s lastpipe; @ | %",
    "seq 99999 | ! | cksum",
    "seq 99999 | ! | ! | cksum",
];

const SOURCES: [&str; 20] = [
    "seq 9",
    "seq 1200",
    "seq 2000",
    "true",
    "false",
    "printf 'a\\nb'",
    "printf 'a\\0b\\nc\\n'",
    "printf '\\xff\\n\\xfe'",
    "(seq 1500; exit 3)",
    "{ seq 5; echo words >&2; seq 6; }",
    "for i in 1 2 3; do echo $i; seq 700; done",
    "head -c 5000 /dev/zero",
    "yes x | head -n 3000",
    "seq 2000 | sed 's/7$/error: no 7/'",
    "{ seq 50; seq 50 | tr -d '\\n'; }",
    "cat /dev/null",
    "no-such-command",
    "echo \"$0 $# $- $SHLVL\"",
    "seq 3 | tail -2",
    "seq 1000 | tac",
];

const READING: [&str; 34] = [
    "tail",
    "tail -1",
    "tail -n 3",
    "tail -n +4",
    "tail -c 20",
    "tail -c +7",
    "tail -zn 1",
    "tail --lines=2",
    "tail -v",
    "grep 1",
    "grep -v 1",
    "grep -c 1",
    "grep -n 7",
    "grep -i ERROR",
    "grep -A 1 5$",
    "grep -B1 -A1 55",
    "grep -E '1|2'",
    "grep -o .$",
    "grep -e 1 -e 2",
    "grep -F '*'",
    "grep ''",
    "grep --color=always 99",
    "egrep 1 2>&1",
    "fgrep -v 1",
    "sed -n 1,3p",
    "sed -n '$p'",
    "sed -ne 1p",
    "sed -nE 's/(1)/<\\1>/p'",
    "sed 1d",
    "awk '{print $1}'",
    "awk -F1 '{print $2}'",
    "awk 'END{print NR}'",
    "awk -v n=2 'NR==n'",
    "command tail -1",
];

const OTHERS: [&str; 20] = [
    "tail -n 0",
    "tail -n x",
    "tail /dev/null",
    "tail -n 1 -",
    "tail -2 /dev/null -",
    "grep -E '('",
    "grep -q 1",
    "grep -m1 1",
    "grep",
    "grep 1 /dev/null",
    "grep -l 1",
    "sed -n 2q",
    "sed -n",
    "awk '{print; exit}'",
    "awk 'BEGIN{print 5}'",
    "awk '{'",
    "head -n 2",
    "\\tail -1",
    "xargs echo",
    "cat",
];

fn pipeline() -> impl Strategy<Value = String> {
    let filter = prop_oneof![3 => select(&READING[..]), 1 => select(&OTHERS[..])];
    let filters = (prop::array::uniform3(filter), prop::array::uniform3(select(&READING[..])));
    let sources = prop::array::uniform2(select(&SOURCES[..]));
    (select(&FORMS[..]), sources, filters).prop_map(|(form, sources, (any, reading))| {
        let (mut sources, mut any, mut reading) =
            (sources.into_iter(), any.into_iter(), reading.into_iter());
        let mut part = |c| match c {
            '@' => sources.next().unwrap(),
            '%' => any.next().unwrap(),
            '!' => reading.next().unwrap(),
            _ => "",
        };
        let mut text = String::new();
        for c in form.chars() {
            match part(c) {
                "" => text.push(c),
                part => text += part,
            }
        }
        text
    })
}

/// A random pipeline prints the same bytes and ends with the same status as without functions.
#[test]
fn what_goes_out_is_the_filter_s_own() {
    let set = std::env::var("CTXFS_PIPELINES").ok().and_then(|value| value.parse().ok());
    let config =
        Config { cases: set.unwrap_or(40), failure_persistence: None, ..Config::default() };
    holds(config, &pipeline(), |text| {
        let store = TestStore::new();
        let without = Command::new("bash").args(["-c", &text]).run();
        // It shows whole what all of these print, also of a command that failed.
        let with = of_host(&store, "gemini-cli", &text).run();
        let is_notice = |line: &&[u8]| {
            line.starts_with(b"[ctxfs] ")
                && (line.ends_with(b".errors\n") || line.ends_with(b".txt\n"))
        };
        // Several processes write to standard error, each at its own time.
        let errors = |output: &Output| {
            let lines = output.stderr.split_inclusive(|byte| *byte == b'\n');
            let mut bytes: Vec<u8> =
                lines.filter(|line| !is_notice(line)).flatten().copied().collect();
            bytes.sort_unstable();
            bytes
        };
        assert!(without.stdout.len() < 40_000, "{text}");
        let is_same = with.code == without.code && with.stdout == without.stdout;
        assert!(is_same && errors(&with) == errors(&without), "{text}\n{with}\n{without}");
    });
}
