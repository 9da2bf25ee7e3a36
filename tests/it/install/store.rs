//! The store that hooks and the unit use is the one of the person who installs them.

use std::path::Path;

use serde_json::{Value, json};

use crate::install::Home;
use crate::support::Command;

const HOSTS: [&str; 6] = ["claude-code", "codex", "opencode", "gemini-cli", "copilot", "pi"];
const SETTINGS: &str = ".claude/settings.json";

/// Returns the command line of the hook of Claude Code.
fn line(home: &Home) -> String {
    let settings: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    let calls = &settings["hooks"]["PostToolUse"][0]["hooks"];
    calls[0]["command"].as_str().unwrap().to_owned()
}

fn bare() -> String {
    format!("{} hook claude-code", env!("CARGO_BIN_EXE_ctxfs"))
}

/// Returns the path of a store, as the option has it.
fn option(store: &Path) -> [&str; 2] {
    ["--store", store.to_str().unwrap()]
}

#[test]
fn a_store_that_is_given_is_named() {
    let home = Home::new();
    let store = home.path("my data");
    let told = home.install(&[&["claude-code"][..], &option(&store)].concat()).run().to_string();
    assert_eq!(line(&home), format!("{} --store '{}'", bare(), store.display()));
    assert!(told.contains(&format!("`ctxfs mount --store '{}' /ctx`", store.display())), "{told}");

    // By the environment alike, and the hook stores there without it.
    let again = home.install(&["claude-code"]).env("CTXFS_STORE", &store).text();
    assert!(again.starts_with("nothing to change"), "{again}");
    let event = json!({
        "session_id": "s1", "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_use_id": "toolu_01", "tool_input": {},
        "tool_response": { "stdout": "line\n".repeat(20_000), "stderr": "" },
    });
    let line = line(&home);
    let hook = home.in_home(Command::new("sh").args(["-c", &line]));
    let answer = hook.stdin(event.to_string()).text();
    assert!(answer.contains("updatedToolOutput"), "{answer}");
    assert!(store.join("context/s1/artifacts/tool/toolu_01.txt").exists());
    assert!(!home.path(".local/share/ctxfs").exists());
}

#[test]
fn a_store_that_is_named_stays_until_another_is_given() {
    for host in HOSTS {
        let home = Home::new();
        let store = home.path("data");
        home.install(&[&[host][..], &option(&store)].concat()).stdout();
        let again = home.install(&[host]).text();
        assert!(again.starts_with("nothing to change"), "{host}: {again}");
        let listed = home.install(&[]).text();
        let row = listed.lines().find(|line| line.starts_with(host)).unwrap();
        assert!(row.contains("yes        -"), "{listed}");

        let default = home.path(".local/share/ctxfs");
        home.install(&[&[host][..], &option(&default)].concat()).stdout();
        for (path, (_, bytes)) in home.tree() {
            let text = String::from_utf8(bytes).unwrap();
            let is_named = text.contains(store.to_str().unwrap()) || text.contains("--store");
            assert!(!is_named, "{}: {text}", path.display());
        }
    }
}

#[test]
fn what_names_a_store_is_removed_without_naming_it() {
    for host in HOSTS {
        let home = Home::new();
        home.install(&[&[host][..], &option(&home.path("data"))].concat()).stdout();
        let remove = home.install(&[host, "--remove"]);
        remove.env("CTXFS_STORE", home.path("another")).stdout();
        assert!(home.tree().is_empty(), "{host}: {:?}", home.tree().keys());
    }
}

#[test]
fn a_store_in_the_settings_is_found_and_not_named() {
    let home = Home::new();
    let store = home.path("data");
    home.write(".config/ctxfs/ctxfs.toml", format!("store = '{}'\n", store.display()));
    home.install(&["claude-code"]).stdout();
    assert_eq!(line(&home), bare());
    home.install(&["codex"]).stdout();
    assert!(home.read(".codex/config.toml").contains(store.to_str().unwrap()));

    let given = home.write("given.toml", "store = 'other'\n");
    home.install(&["claude-code", "--config", given.to_str().unwrap()]).stdout();
    let other = home.path("other").canonicalize().unwrap_or(home.path("other"));
    assert_eq!(line(&home), format!("{} --store {}", bare(), other.display()));
}

#[test]
fn the_unit_and_the_plug_ins_name_it() {
    let home = Home::new();
    home.write("runtime/systemd/private", "");
    let store = home.path("data");
    let run = |host: &str| {
        let install = home.install(&[&[host][..], &option(&store)].concat());
        install.env("XDG_RUNTIME_DIR", home.path("runtime")).stdout();
    };
    run("opencode");
    run("pi");
    let shown = store.display();
    let unit = home.read(".config/systemd/user/ctxfs.service");
    let start = format!("ctxfs mount --foreground --store {shown} /ctx\n");
    assert!(unit.contains(&start), "{unit}");
    let plugin = home.read(".config/opencode/plugins/ctxfs.js");
    let arguments = format!("const ARGUMENTS = [\"hook\", \"opencode\", \"--store\", \"{shown}\"]");
    assert!(plugin.contains(&arguments), "{plugin}");
    let extension = home.read(".pi/agent/extensions/ctxfs.ts");
    assert!(extension.contains(&format!("[\"hook\", \"pi\", \"--store\", \"{shown}\"];")));
}
