//! The plug-in for Claude Code and Codex in this checkout, which is a marketplace of both.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::install::Home;
use crate::support::TestStore;

const PLUGIN: &str = "plugins/ctxfs";
const SKILL: &str = "plugins/ctxfs/skills/ctxfs/SKILL.md";

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn parsed(file: &str) -> Value {
    serde_json::from_str(&read(file)).unwrap()
}

#[test]
fn the_marketplaces_lead_to_the_plug_in() {
    let of_claude_code = parsed(".claude-plugin/marketplace.json");
    assert!(of_claude_code["owner"]["name"].is_string());
    let of_codex = parsed(".agents/plugins/marketplace.json");
    let sources =
        [&of_claude_code["plugins"][0]["source"], &of_codex["plugins"][0]["source"]["path"]];
    for (marketplace, source) in [&of_claude_code, &of_codex].into_iter().zip(sources) {
        assert_eq!(marketplace["plugins"].as_array().unwrap().len(), 1);
        assert_eq!(source.as_str().unwrap(), format!("./{PLUGIN}"));
    }
    for (manifest, marketplace) in [(".claude-plugin", of_claude_code), (".codex-plugin", of_codex)]
    {
        let plugin = parsed(&format!("{PLUGIN}/{manifest}/plugin.json"));
        assert_eq!(plugin["name"], marketplace["plugins"][0]["name"]);
        assert_eq!(plugin["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(plugin["license"], env!("CARGO_PKG_LICENSE"));
    }
}

#[test]
fn the_plug_in_has_the_hooks_that_are_installed() {
    for (host, settings, manifest) in [
        ("claude-code", ".claude/settings.json", ".claude-plugin"),
        ("codex", ".codex/hooks.json", ".codex-plugin"),
    ] {
        let home = Home::new();
        home.install(&[host]).stdout();
        let installed = home.read(settings).replace(env!("CARGO_BIN_EXE_ctxfs"), "ctxfs");
        let installed: Value = serde_json::from_str(&installed).unwrap();
        let plugin = parsed(&format!("{PLUGIN}/{manifest}/plugin.json"));
        let file = plugin["hooks"].as_str().unwrap().strip_prefix("./").unwrap();
        assert_eq!(parsed(&format!("{PLUGIN}/{file}"))["hooks"], installed["hooks"], "{host}");
    }
    // Hosts that look there take the hooks of one host for their own.
    assert!(!Path::new(env!("CARGO_MANIFEST_DIR")).join(PLUGIN).join("hooks/hooks.json").exists());
}

/// As Agent Skills have it: <https://agentskills.io/specification>.
#[test]
fn the_skill_is_one_page_with_a_name_and_a_description() {
    let skill = read(SKILL);
    let (front, page) = skill.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
    let fields: Vec<_> = front.lines().map(|line| line.split_once(": ").unwrap()).collect();
    let [("name", "ctxfs"), ("description", description)] = fields[..] else { panic!("{front}") };
    assert!((1..=1024).contains(&description.len()) && !description.contains(": "));
    assert!(page.lines().count() < 60 && page.split_whitespace().count() < 600);
}

/// Everything beside a file `F` that the skill names can be read.
#[test]
fn the_skill_names_what_can_be_read() {
    let store = TestStore::new();
    let lines: Vec<String> =
        (1..=200).map(|n| format!("line {n}: timeout, connection refused")).collect();
    let log = store.put("c1", "log", (lines.join("\n") + "\nERROR: no room\n").as_bytes());
    let json = store.put("c1", "doc", br#"{"users": [{"id": 1}]}"#);
    let skill = read(SKILL);
    let words = skill.split('`').skip(1).step_by(2).filter(|word| !word.contains('\n'));
    let views = words.filter_map(|word| word.split_once("F.").map(|(_, view)| view));
    let views: Vec<String> = views
        .map(|view| view.trim_end_matches('\'').replace("PATTERN", "timeout"))
        .map(|view| view.replace("WORDS", "connection refused").replace("FILTER", ".users[0].id"))
        .collect();
    assert!(views.len() >= 12, "{views:?}");
    for view in views {
        let is_json = ["shape", "jq"].iter().any(|kind| view.starts_with(kind));
        let name = if is_json { &json } else { &log };
        let text = store.view(&format!("c1/artifacts/tool/{name}.{view}"));
        let text = String::from_utf8(text).unwrap();
        assert!(!text.is_empty() && !text.starts_with("# not"), "{view}: {text}");
    }
}
