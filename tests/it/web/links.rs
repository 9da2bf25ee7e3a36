//! Other commands name the page while it runs.

use std::fs;
use std::sync::Arc;

use rustix::process::Signal;

use super::*;
use crate::support::TestStore;

#[test]
fn doctor_names_the_page_that_runs() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    let mut page = Served::new(&store, &[]);
    let state = page.state.clone();
    let doctor = || {
        let told = store.ctxfs("doctor", &["--json"]).env("XDG_STATE_HOME", &state).run();
        String::from_utf8(told.stdout).unwrap()
    };
    let url = format!("http://{}/", page.address);
    assert!(doctor().contains(&url), "{}", doctor());
    let token = page.token.clone();
    for entry in fs::read_dir(state.join("ctxfs")).unwrap() {
        let path = entry.unwrap().path();
        assert!(!fs::read_to_string(&path).unwrap().contains(&token), "{}", path.display());
    }
    // Nobody but a person at a terminal is told.
    let quiet = store.ctxfs("ls", &[]).env("XDG_STATE_HOME", &state).run();
    assert!(!String::from_utf8(quiet.stderr).unwrap().contains(&url));
    page.end(Signal::TERM);
    assert!(!doctor().contains(&url));
}

#[test]
fn a_person_at_a_terminal_is_told() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    let page = Served::new(&store, &[]);
    let told = |environment: (&str, &str), arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_ctxfs");
        let command = format!("{program} {}", arguments.join(" "));
        let run = crate::support::Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("XDG_STATE_HOME", &page.state)
            .env("CTXFS_STORE", store.path())
            .env("TERM", "xterm")
            .env("VTE_VERSION", "")
            .env(environment.0, environment.1)
            .run();
        String::from_utf8(run.stdout).unwrap()
    };
    let url = format!("http://{}/", page.address);
    let plain = told(("X", "1"), &["ls"]);
    assert!(plain.contains(&format!("page: {url}")), "{plain}");
    let linked = told(("VTE_VERSION", "7000"), &["ls", "c7"]);
    assert!(linked.contains(&format!("\x1b]8;;{url}c/c7\x1b\\")), "{linked:?}");
    let run = told(("X", "1"), &["run", "-c", "c7", "--id", "log", "--", "seq", "9"]);
    assert!(run.contains(&format!("page: {url}c/c7/o/artifacts/terminal/log.log")), "{run}");
}
