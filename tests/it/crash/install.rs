//! `ctxfs install`, killed before any of its calls: each settings file is the old one or the new
//! one, and another run completes it.

use std::path::Path;

use crate::crash::stops::{Call, calls, traced, was_killed};
use crate::install::Home;
use crate::support::{Command, Output};

const CONFIG: &str = ".codex/config.toml";
/// The servers of the host are in it too.
const SERVERS: &str = "# mine\na = 1\n\n[mcp_servers.s]\ncommand = \"x\" # c\n";
const HOOKS: &str = ".codex/hooks.json";

fn home() -> Home {
    let home = Home::new();
    home.write(CONFIG, SERVERS);
    home.write(HOOKS, "{\n  // mine\n  \"a\": 1\n}\n");
    home
}

fn run(home: &Home, arguments: &[&str], call: Option<&Call>, trace: &Path) -> Output {
    let options = call.map(Call::options).map_or(Vec::new(), Vec::from);
    let words = ["install"].iter().chain(arguments).map(|word| (*word).to_owned());
    let command: Command = traced(&options, trace, &words.collect::<Vec<_>>());
    home.in_home(command).run()
}

/// Returns the texts of both files.
fn texts(home: &Home) -> [String; 2] {
    [home.read(CONFIG), home.read(HOOKS)]
}

fn killed_anywhere(arguments: &[&str], least: usize, prepare: fn(&Home)) {
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace");
    let whole = home();
    prepare(&whole);
    let old = texts(&whole);
    let output = run(&whole, arguments, None, &trace);
    assert_eq!(output.code, 0, "{output}");
    let new = texts(&whole);
    let calls = calls(&trace, ".codex");
    let mut stopped = 0;
    for call in calls {
        let home = home();
        prepare(&home);
        // The store, which a file names, is in the home.
        let here = |text: &String| text.replace(&path(&whole), &path(&home));
        let output = run(&home, arguments, Some(&call), &trace);
        stopped += usize::from(was_killed(&output));
        let wanted = [[&old[0], &new[0]], [&old[1], &new[1]]].map(|texts| texts.map(here));
        for (found, wanted) in texts(&home).iter().zip(&wanted) {
            assert!(wanted.contains(found), "{call}: {found}");
        }
        let output = home.install(arguments).run();
        assert_eq!(output.code, 0, "{call}: {output}");
        assert_eq!(texts(&home), new.each_ref().map(here), "{call}");
        home.install(&["codex", "--remove"]).stdout();
        home.install(&["mcp", "codex", "--remove"]).stdout();
        assert_eq!(texts(&home), texts(&self::home()), "{call}");
    }
    assert!(stopped >= least, "stopped {stopped} times");
}

fn path(home: &Home) -> String {
    home.path("").to_str().unwrap().to_owned()
}

#[test]
fn install() {
    killed_anywhere(&["codex"], 20, |_| {});
}

#[test]
fn remove() {
    killed_anywhere(&["codex", "--remove"], 20, |home| {
        home.install(&["codex"]).stdout();
    });
}

#[test]
fn install_mcp() {
    killed_anywhere(&["mcp", "codex"], 10, |_| {});
}

#[test]
fn remove_mcp() {
    killed_anywhere(&["mcp", "codex", "--remove"], 10, |home| {
        home.install(&["mcp", "codex"]).stdout();
    });
}

#[test]
fn remove_of_what_was_created() {
    let scratch = tempfile::tempdir().unwrap();
    let trace = scratch.path().join("trace");
    let installed = || {
        let home = Home::new();
        home.install(&["codex"]).stdout();
        home
    };
    let arguments = ["codex", "--remove"];
    assert_eq!(run(&installed(), &arguments, None, &trace).code, 0);
    for call in calls(&trace, ".codex") {
        let home = installed();
        run(&home, &arguments, Some(&call), &trace);
        home.install(&arguments).stdout();
        assert!(home.tree().is_empty(), "{call}: {:?}", home.tree().keys());
    }
}
