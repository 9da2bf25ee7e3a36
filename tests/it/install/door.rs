//! Commands of hosts run under `ctxfs shell`: the programs that `ctxfs install` writes, as the hosts
//! start them, and the variables that name them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::install::Home;
use crate::support::{Command, Output};

const SETTINGS: &str = ".claude/settings.json";
const CONFIG: &str = ".codex/config.toml";
const PREFIX: &str = "CLAUDE_CODE_SHELL_PREFIX";
/// A command whose reason stands at the end of what no host shows whole.
const FAILING: &str = "seq 1 40000; echo 'error: the real reason'; exit 3";

/// Runs a shell of Codex, with the variable of the settings, and without one that the tests have.
fn codex(home: &Home, arguments: &[&str]) -> Output {
    let config: toml::Table = home.read(CONFIG).parse().unwrap();
    let program = config["shell_environment_policy"]["set"]["BASH_ENV"].as_str().unwrap();
    bash(home, arguments, Some(program))
}

fn bash(home: &Home, arguments: &[&str], program: Option<&str>) -> Output {
    // One stream, as the host shows it.
    let all = ["-c", "exec /bin/bash \"$@\" 2>&1", "sh"];
    let command = home.in_home(Command::new("/bin/sh").args(all).args(arguments));
    let command = command.env("CODEX_SESSION_ID", "s1").env("SHLVL", "1").stdin("the input\n");
    // The functions for filters are the one thing that the shell has besides.
    let command = command.env("CTXFS_HOOKS_PIPES", "false");
    command
        .with(|inner| {
            inner.env_remove("BASH_ENV").env_remove("CTXFS_STORE");
            inner.envs(program.map(|program| ("BASH_ENV", program)));
        })
        .run()
}

/// Runs a command of the model as Claude Code does, or else one of its own.
fn claude_code(home: &Home, command: &str, agent: &str) -> Output {
    let settings: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    let program = settings["env"][PREFIX].as_str().unwrap();
    let command = home.in_home(Command::new(program).arg(command)).env("AI_AGENT", agent);
    let command = command.env("CLAUDE_CODE_SESSION_ID", "s1").env("SHELL", "/bin/bash");
    command
        .with(|inner| {
            inner.env_remove("CTXFS_STORE");
        })
        .run()
}

const AGENT: &str = "claude-code_2-1-332_agent";
const HARNESS: &str = "claude-code_2-1-332_harness";

fn of_model(command: &str) -> String {
    let command = shlex::try_quote(command).unwrap();
    format!("true /h/.claude/shell-snapshots/x.sh && eval {command}")
}

/// Returns the logs of the session.
fn logs(home: &Home) -> Vec<PathBuf> {
    let dir = home.path(".local/share/ctxfs/context/s1/artifacts/terminal");
    let logs = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    logs.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

fn check_failing(home: &Home, output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.code, 3, "{output}");
    assert!(text.contains("\n[ctxfs] ") && text.contains("the real reason"), "{text}");
    assert!(text.len() < 10_000, "{text}");
    let [log] = &logs(home)[..] else { panic!("{:?}", logs(home)) };
    let kept = fs::read_to_string(log).unwrap();
    assert!(kept.starts_with("1\n2\n") && kept.ends_with("the real reason\n"));
}

#[test]
fn codex_keeps_a_failing_command() {
    for options in ["-c", "-lc"] {
        let home = Home::new();
        home.install(&["codex"]).stdout();
        check_failing(&home, &codex(&home, &[options, FAILING]));
    }
}

#[test]
fn claude_code_keeps_a_failing_command() {
    let home = Home::new();
    home.install(&["claude-code"]).stdout();
    check_failing(&home, &claude_code(&home, &of_model(FAILING), AGENT));
}

/// The host sets up the environment in one shell, which becomes that of the command.
#[test]
fn codex_with_a_snapshot() {
    let home = Home::new();
    home.install(&["codex"]).stdout();
    let command = shlex::try_quote(FAILING).unwrap();
    let line = format!("__CODEX_SNAPSHOT_OVERRIDE_0=x\nexport X=1\nexec '/bin/bash' -c {command}");
    check_failing(&home, &codex(&home, &["-c", &line]));
    let told = home.in_home(Command::ctxfs().args(["ls", "s1"])).text();
    assert!(told.contains("seq 1 40000") && !told.contains("SNAPSHOT"), "{told}");
}

/// A profile that sets what another shell would not have, and the commands that tell of it.
const PROFILE: &str = "\
echo the profile
of_profile() { echo \"function $1\"; }
plain='a b
c'
list=(1 '2 x' 3)
readonly FIXED=5
export EXPORTED=yes
shopt -s expand_aliases extglob
alias ll='echo alias'
trap 'echo the end' EXIT
long=$(bash -c 'printf %9000s x; echo; seq 1 9000')
export LENGTH=${#long}
";
const COMMANDS: &[&str] = &[
    "echo hi",
    "exit 3",
    "echo \"$0 -- $@ $# $-\"",
    "false; echo $?",
    "echo \"$SHLVL ${BASH_ENV-none} $BASH_EXECUTION_STRING\"",
    "bash -c 'echo ${BASH_ENV-none} $SHLVL'",
    "no_such_command",
    "cat <<X\nhere $EXPORTED\nX",
    "set -e; false; echo not here",
    "trap 'echo bye' EXIT; echo a",
    "exec echo replaced",
    "of_profile 1; echo \"$plain\" \"${list[1]}\" $FIXED $LENGTH; ll x",
    "[[ aab == +(a)b ]] && echo matched",
    "shopt; set -o; alias; declare -F; compgen -v | grep -i ctxfs",
    "cat",
    "echo $((1 / 0)); echo not here",
    "echo $LINENO\necho $LINENO",
    "printf '\\xff\\xfe'",
    "cd /; pwd; umask; ulimit -n",
    "of_user; echo $USERS",
    "env -i /bin/bash -c 'echo empty'",
    "(exit 7) & wait $!; echo $?",
];

/// Whatever a command does, it does as without ctxfs.
#[test]
fn a_command_runs_as_codex_would_run_it() {
    let home = Home::new();
    home.write(".bash_profile", PROFILE);
    let theirs = home.write("their env", "of_user() { echo user; }\nUSERS=1\n");
    let theirs = theirs.to_str().unwrap();
    home.install(&["codex"]).stdout();
    let other = Home::new();
    other.write(".bash_profile", PROFILE);
    let set = format!("[shell_environment_policy]\nset = {{ BASH_ENV = \"{theirs}\" }}\n");
    other.write(CONFIG, set);
    other.install(&["codex"]).stdout();
    let cases = COMMANDS.iter().flat_map(|&command| {
        let all = ["-c", "-lc", "-euc"].map(|options| vec![options, command]);
        all.into_iter().chain([vec!["-c", command, "name", "a b", ""]])
    });
    for arguments in cases {
        for (home, bare) in [(&home, None), (&other, Some(theirs))] {
            let (bare, with) = (bash(home, &arguments, bare), codex(home, &arguments));
            assert_eq!(
                (with.code, &with.stdout),
                (bare.code, &bare.stdout),
                "{arguments:?}: {with}"
            );
        }
    }
}

/// Without the program, or with one that cannot be run, commands run by themselves.
#[test]
fn without_ctxfs_commands_run_by_themselves() {
    let home = Home::new();
    let program = home.write("bin/ctxfs", "");
    // A process of another test that starts meanwhile must not have it open for writing.
    Command::new("cp").args([env!("CARGO_BIN_EXE_ctxfs").as_ref(), program.as_os_str()]).stdout();
    let mode = |mode| fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
    mode(0o755);
    for host in ["codex", "claude-code"] {
        let install = Command::new(&program).without_settings().args(["install", host]);
        home.in_home(install).stdout();
    }
    let check = || {
        let output = codex(&home, &["-c", FAILING]);
        assert_eq!(output.code, 3, "{output}");
        let text = String::from_utf8_lossy(&output.stdout);
        // A shell may say why the program cannot be run.
        assert!(text.contains("1\n2\n3\n") && text.ends_with("reason\n"), "{output}");
        let output = claude_code(&home, &of_model(FAILING), AGENT);
        assert_eq!(output.code, 3, "{output}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1\n2\n3\n") && text.ends_with("reason\n"), "{output}");
    };
    mode(0o644);
    check();
    fs::write(&program, b"\x7fELF, but no program").unwrap();
    mode(0o755);
    check();
    fs::remove_file(&program).unwrap();
    check();
    fs::create_dir(&program).unwrap();
    check();
}

/// The program of the prefix is a script of `sh`, to which another shell's builtin is a program.
#[test]
fn no_program_of_the_path_is_run_before_the_command() {
    let home = Home::new();
    home.install(&["claude-code"]).stdout();
    for name in ["shopt", "bash", "sh", "trap", "exec", "set", "ctxfs", "command", "builtin"] {
        let planted = home.write(&format!("planted/{name}"), "#!/bin/sh\necho planted >&2\n");
        fs::set_permissions(&planted, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", home.path("planted").display(), env!("PATH"));
    let settings: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    let program = settings["env"][PREFIX].as_str().unwrap();
    let command = Command::new(program).without_settings().arg(of_model("seq 9 | tail -1"));
    let command = home.in_home(command).env("AI_AGENT", AGENT).env("SHELL", "/bin/bash");
    let output = command.env("CLAUDE_CODE_SESSION_ID", "s1").env("PATH", path).run();
    assert_eq!((&*output.stdout, &*output.stderr), (&b"9\n"[..], &b""[..]), "{output}");
}

/// A host without an adapter has the variable in its own environment, as has the shell above it.
#[test]
fn any_host_that_runs_bash() {
    let home = Home::new();
    let print = ["shell", "--bash-env"];
    let text = home.in_home(Command::ctxfs().args(print)).text();
    let file = home.write("ctxfs-shell.bash", text);
    // An interactive shell that has started the host.
    let host = Command::new("/bin/bash").without_settings().args(["--norc", "-i"]);
    let host = home.in_home(host).stdin("sh -c 'bash -c \"$FAILING\" 2>&1'; exit $?\n");
    let host = host.env("FAILING", FAILING).env("CTXFS_CONVERSATION", "s1").env("SHLVL", "1");
    check_failing(&home, &host.env("BASH_ENV", &file).run());
    let once = [("CTXFS_CONVERSATION", "s1"), ("BASH_ENV", file.to_str().unwrap())];
    let bare =
        home.in_home(Command::new("/bin/bash").args(["-c", "echo ${BASH_ENV-none} $(seq 9)"]));
    let bare = once.into_iter().fold(bare, |bare, (name, value)| bare.env(name, value));
    assert_eq!(bare.stdout(), b"none 1 2 3 4 5 6 7 8 9\n");
}

/// Servers and hooks keep their own streams, and are asked and answered while they run.
#[test]
fn what_is_no_command_of_the_model_runs_untouched() {
    let home = Home::new();
    home.install(&["claude-code"]).stdout();
    let long = "seq 1 40000";
    for (command, agent) in [(long, HARNESS), (&*of_model(long), HARNESS), (long, AGENT)] {
        let output = claude_code(&home, command, agent);
        assert!(output.stdout.ends_with(b"\n40000\n"), "{output}");
    }
    let output = claude_code(&home, "readlink /proc/$PPID/exe; exec cat /proc/$$/comm", HARNESS);
    assert!(output.stdout.ends_with(b"cat\n"), "{output}");
    assert!(logs(&home).is_empty());
}

#[test]
fn a_prefix_of_the_user_stays_in_force() {
    let home = Home::new();
    let theirs = home.write("their prefix", "#!/bin/sh\necho \"theirs $#\"\nexec sh -c \"$2\"\n");
    fs::set_permissions(&theirs, PermissionsExt::from_mode(0o755)).unwrap();
    let prefix = format!("{} -x", theirs.display());
    let before = json!({ "env": { "A": "1", PREFIX: prefix } }).to_string();
    home.write(SETTINGS, &before);
    home.install(&["claude-code"]).stdout();
    let again = home.install(&["claude-code"]).text();
    assert!(again.starts_with("nothing to change"), "{again}");
    for (command, agent) in [("echo hi".to_owned(), HARNESS), (of_model("echo hi"), AGENT)] {
        let output = claude_code(&home, &command, agent);
        assert_eq!(output.stdout, b"theirs 2\nhi\n", "{output}");
    }
    home.install(&["claude-code", "--remove"]).stdout();
    assert_eq!(home.read(SETTINGS), before);

    // Without the copy of the settings, too.
    home.install(&["claude-code"]).stdout();
    fs::remove_file(home.path(".claude/settings.json.ctxfs.bak")).unwrap();
    home.install(&["claude-code", "--remove"]).stdout();
    let left: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    assert_eq!(left["env"][PREFIX], prefix);
}

/// The settings of the host hide it from its commands.
#[test]
fn a_variable_of_the_environment_stays_in_force() {
    let home = Home::new();
    let theirs = home.write("env", "of_user() { echo user; }\n");
    home.install(&["codex"]).env("BASH_ENV", &theirs).stdout();
    let again = home.install(&["codex"]).text();
    assert!(again.starts_with("nothing to change"), "{again}");
    let output = codex(&home, &["-c", "of_user; echo $BASH_ENV"]);
    assert_eq!(output.stdout, format!("user\n{}\n", theirs.display()).as_bytes(), "{output}");
    home.install(&["codex", "--remove"]).stdout();
    assert!(!home.path(".codex").exists());
}

#[test]
fn a_home_with_an_odd_name() {
    let base = Home::new();
    let home = base.below("a b's \"q\" $x `y` \\z");
    for host in ["codex", "claude-code"] {
        home.install(&[host]).stdout();
    }
    check_failing(&home, &codex(&home, &["-c", FAILING]));
    fs::remove_dir_all(home.path(".local/share/ctxfs/context/s1")).unwrap();
    check_failing(&home, &claude_code(&home, &of_model(FAILING), AGENT));
}

#[test]
fn a_path_that_claude_code_would_cut() {
    let base = Home::new();
    let home = base.below("a -b");
    let before = home.tree();
    let output = home.install(&["claude-code"]).run();
    assert_eq!(output.code, 2, "{output}");
    assert!(output.to_string().contains("CLAUDE_CONFIG_DIR"), "{output}");
    assert_eq!(home.tree(), before);
}

#[test]
fn a_store_that_is_given_is_named() {
    let home = Home::new();
    let store = home.path("my 'data'");
    let arguments = |host| ["--store", store.to_str().unwrap(), host];
    for host in ["codex", "claude-code"] {
        home.install(&arguments(host)).stdout();
    }
    assert_eq!(codex(&home, &["-c", FAILING]).code, 3);
    assert_eq!(claude_code(&home, &of_model(FAILING), AGENT).code, 3);
    let logs = fs::read_dir(store.join("context/s1/artifacts/terminal")).unwrap();
    assert_eq!(logs.count(), 2);
    assert!(!home.path(".local/share/ctxfs/context/s1").exists());
    let config = home.read(CONFIG);
    assert!(config.contains("my 'data'/context\"]"), "{config}");
}

/// A program of a project lies where commands in the project cannot write, and settings that all
/// who work on the project share do not name it.
#[test]
fn in_a_project() {
    let home = Home::new();
    for host in ["codex", "claude-code"] {
        home.install(&[host, "--project"]).stdout();
    }
    let shared = home.read("project/.claude/settings.json");
    assert!(!shared.contains(PREFIX), "{shared}");
    let local: Value =
        serde_json::from_str(&home.read("project/.claude/settings.local.json")).unwrap();
    let program = Path::new(local["env"][PREFIX].as_str().unwrap());
    assert_eq!(program.parent(), Some(&*home.path(".claude")));
    assert_eq!(fs::metadata(program).unwrap().permissions().mode() & 0o777, 0o755);
    let config: toml::Table = home.read("project/.codex/config.toml").parse().unwrap();
    let program = config["shell_environment_policy"]["set"]["BASH_ENV"].as_str().unwrap();
    assert_eq!(Path::new(program).parent(), Some(&*home.path(".codex")));
    assert_eq!(fs::metadata(program).unwrap().permissions().mode() & 0o777, 0o644);
}

/// Earlier installations replaced commands in a hook, and let commands write all of the store.
#[test]
fn what_an_earlier_installation_left() {
    let home = Home::new();
    let line = format!("{} hook codex", env!("CARGO_BIN_EXE_ctxfs"));
    let call = json!([{ "type": "command", "command": line, "timeout": 60 }]);
    let group = |matcher: &str| json!([{ "matcher": matcher, "hooks": call }]);
    let hooks = json!({ "hooks": { "PreToolUse": group("Bash"), "PostToolUse": group("mcp__.*"),
        "SessionStart": [{ "hooks": call }] } });
    home.write(".codex/hooks.json", hooks.to_string());
    let store = home.path(".local/share/ctxfs");
    let roots = format!(
        "model = \"x\"\n\n[sandbox_workspace_write]\nwritable_roots = [\"/a\", \"{}\"]\n",
        store.display()
    );
    home.write(CONFIG, roots);
    assert!(home.install(&[]).text().contains("differs"));
    home.install(&["codex"]).stdout();
    assert!(!home.read(".codex/hooks.json").contains("PreToolUse"));
    let config: toml::Table = home.read(CONFIG).parse().unwrap();
    let roots = config["sandbox_workspace_write"]["writable_roots"].as_array().unwrap();
    let outputs = store.join("context");
    assert_eq!(roots, &["/a".into(), toml::Value::from(outputs.to_str().unwrap())]);
    home.install(&["codex", "--remove"]).stdout();
    let left = "model = \"x\"\n\n[sandbox_workspace_write]\nwritable_roots = [\"/a\"]\n";
    assert_eq!(home.read(CONFIG), left);
    assert!(!home.path(".codex/hooks.json").exists());
}

/// The sandbox may write a directory only if it is there.
#[test]
fn the_store_is_there_before_the_settings_name_it() {
    let home = Home::new();
    home.install(&["codex", "--print"]).stdout();
    assert!(!home.path(".local").exists());
    home.install(&["codex"]).stdout();
    assert!(home.path(".local/share/ctxfs/context").is_dir());
    home.write(".local/share/ctxfs/context/c1/artifacts/tool/a.txt", "a\n");
    home.install(&["codex", "--remove"]).stdout();
    assert_eq!(home.read(".local/share/ctxfs/context/c1/artifacts/tool/a.txt"), "a\n");
}
