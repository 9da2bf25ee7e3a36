//! The plug-in for Claude Code in this checkout, which is a marketplace.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::install::Home;

fn parsed(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_marketplace_leads_to_the_plug_in() {
    let marketplace = parsed(".claude-plugin/marketplace.json");
    let plugins = marketplace["plugins"].as_array().unwrap();
    assert_eq!(plugins.len(), 1);
    assert!(marketplace["owner"]["name"].is_string());
    let dir = plugins[0]["source"].as_str().unwrap().strip_prefix("./").unwrap();
    let plugin = parsed(&format!("{dir}/.claude-plugin/plugin.json"));
    assert_eq!(plugin["name"], plugins[0]["name"]);
    assert_eq!(plugin["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn the_plug_in_has_the_hooks_that_are_installed() {
    let home = Home::new();
    home.install(&["claude-code"]).stdout();
    let installed = home.read(".claude/settings.json");
    let installed = installed.replace(env!("CARGO_BIN_EXE_ctxfs"), "ctxfs");
    let installed: Value = serde_json::from_str(&installed).unwrap();
    let hooks = parsed("plugins/claude-code/hooks/hooks.json");
    assert_eq!(hooks["hooks"], installed["hooks"]);
}
