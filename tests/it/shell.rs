//! `ctxfs shell`: a command of an agent, and what its model gets.

mod harsh;
mod same;
mod stored;

use std::fs;

use crate::support::{Command, TestStore};

/// `ctxfs shell -c c7 --id ID MORE -- COMMAND`.
fn shell(store: &TestStore, id: &str, more: &[&str], command: &[&str]) -> Command {
    let arguments = ["-c", "c7", "--id", id];
    store.ctxfs("shell", &[&arguments, more, &["--"], command].concat())
}

/// Returns the names in the folder of logs.
fn logs(store: &TestStore) -> Vec<String> {
    let entries = fs::read_dir(store.path().join("context/c7/artifacts/terminal"));
    let entries = entries.into_iter().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn remove_log(store: &TestStore, name: &str) {
    fs::remove_file(store.path().join("context/c7/artifacts/terminal").join(name)).unwrap();
}

/// The figures of the host decide, by how the command ended.
#[test]
fn what_a_host_shows_whole_is_printed() {
    let store = TestStore::new();
    let script = |chars: usize, code: i32| format!("seq 1 99999 | head -c {chars}; exit {code}");
    let cases = [
        ("--host=claude-code", 0, 30_000),
        ("--host=claude-code", 3, 11_010),
        ("--host=codex", 0, 10_000),
        ("--host=codex", 3, 10_000),
        ("--host=gemini-cli", 0, 40_000),
        ("", 0, 10_000),
        ("", 1, 10_000),
    ];
    let run = |host: &str, chars, code| {
        let host: Vec<&str> = host.split_terminator(' ').collect();
        let command = shell(&store, "x", &host, &["sh", "-c", &script(chars, code)]);
        let output = command.env("BASH_MAX_OUTPUT_LENGTH", "").run();
        assert_eq!(output.code, code, "{output}");
        output.stdout
    };
    for (host, code, most) in cases {
        assert_eq!(run(host, most, code).len(), most, "{host} {code}");
        remove_log(&store, "x.log");
        let printed = String::from_utf8(run(host, most + 1, code)).unwrap();
        let has_both = printed.starts_with("1\n2\n") && printed.contains("\n[ctxfs] The output");
        assert!(has_both && printed.len() <= 8144, "{host} {code}: {printed}");
        remove_log(&store, "x.log");
    }
    assert!(run("--host=claude-code", 5, 0).starts_with(b"1\n2\n3"));
    // A host that another version knows.
    let command = ["sh", "-c", "echo run; exit 4"];
    let output = shell(&store, "y", &["--host", "nobody"], &command).run();
    assert_eq!((output.code, &*output.stdout, &*output.stderr), (4, &b"run\n"[..], &b""[..]));
    let output = store.ctxfs("shell", &["--host", "nobody"]).run();
    assert_eq!(output.code, 2, "{output}");
}

#[test]
fn for_economy_a_host_gets_stand_ins_of_what_it_would_show_whole() {
    let store = TestStore::new();
    let run = |id: &str, script: &str| {
        let command = shell(&store, id, &["--host", "claude-code"], &["sh", "-c", script]);
        command.env("CTXFS_HOOKS_REPLACE", "long").stdout()
    };
    assert_eq!(run("short", "seq 1 1000").len(), 3893);
    assert!(String::from_utf8(run("long", "seq 1 5000")).unwrap().contains("[ctxfs] The output"));
    // Half of what this prints would be in its stand-in.
    let prose = "for n in $(seq 120); do echo \"$n $(printf 'lorem ipsum %.0s' $(seq $((n % 12 + 1))))\"; done";
    let printed = run("prose", prose);
    assert!(printed.starts_with(b"1 lorem") && printed.len() > 8000, "{}", printed.len());
}

/// Bash refuses the same with the file in `BASH_ENV` as without it.
#[test]
fn a_restricted_shell_runs_its_command_itself() {
    let store = TestStore::new();
    let dir = store.scratch("restricted");
    let file = dir.join("ctxfs-shell.bash");
    fs::write(&file, store.ctxfs("shell", &["--bash-env"]).stdout()).unwrap();
    let written = dir.join("written");
    let command = format!("echo no > {}", written.display());
    let bash = Command::new("bash").without_settings().env("BASH_ENV", &file);
    let output = bash.args(["-r", "-c", &command]).run();
    assert!(output.code != 0 && !written.exists(), "{output}");
}

#[test]
fn standard_error_passes_where_nobody_reads_standard_output() {
    let store = TestStore::new();
    let script =
        "\"$0\" --store \"$1\" shell -c c7 -- sh -c 'seq 30000; echo late >&2; exit 3' >/dev/null";
    let program = env!("CARGO_BIN_EXE_ctxfs");
    let output =
        Command::new("sh").without_settings().args(["-c", script, program]).arg(store.path()).run();
    assert_eq!((output.code, &*output.stderr), (3, &b"late\n"[..]), "{output}");
}

/// The process that starts the commands is the host.
#[test]
fn commands_of_one_host_share_a_conversation() {
    let store = TestStore::new();
    let twice = "\"$0\" shell -- seq 20000; \"$0\" shell -- seq 20000; exit 0";
    for _ in 0..2 {
        let host = Command::new("/bin/sh").without_settings();
        let host = host.args(["-c", twice, env!("CARGO_BIN_EXE_ctxfs")]);
        host.env("CTXFS_STORE", store.path()).stdout();
    }
    let conversations: Vec<_> = fs::read_dir(store.path().join("context"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("artifacts/terminal"))
        .collect();
    assert_eq!(conversations.len(), 2, "{conversations:?}");
    for logs in conversations {
        assert_eq!(fs::read_dir(logs).unwrap().count(), 2);
    }
}
