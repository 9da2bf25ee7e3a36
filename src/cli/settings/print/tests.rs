//! Tests.

use std::fs;
use std::path::Path;

use crate::settings::file::SettingsFile;

use super::*;

const FILE: &str = "max_lines = 5\nadvertise = \"/a \\\"b\\\"\\n\"\nquota = \"3 GiB\"\n\
    redact.sets = [\"aws\"]\nredact.rules = [{ name = \"r\", regex = 'a\\d\"{3,}' }]\n\
    [tool.\"github/*\"]\nmax_bytes = \"mirror\"\n[tool.\"shell/exec\"]\nmax_bytes = 7\n\
    [permissions]\n\"shell/*\" = \"deny\"\n[risk]\n\"fs/*\" = \"read\"\n";

fn loaded(text: &str) -> (Settings, Environment, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let environment = Environment { home: Some(dir.path().to_owned()), ..Environment::default() };
    let path = dir.path().join("x.toml");
    fs::write(&path, text).unwrap();
    (Settings::load(Some(&path), Vec::new(), &environment).unwrap(), environment, dir)
}

/// Removes the origins from the printed settings.
fn bare(page: &str) -> String {
    let line = |line: &str| line.split("  # ").next().unwrap_or_default().trim_end().to_owned();
    page.lines().map(line).collect::<Vec<String>>().join("\n")
}

#[test]
fn what_is_printed_is_a_file_of_the_same_settings() {
    let (settings, environment, _dir) = loaded(FILE);
    let page = toml(&settings, None, &environment);
    let (again, environment, _dir) = loaded(&page);
    assert_eq!(bare(&toml(&again, None, &environment)), bare(&page));
    assert!(page.contains("\nmax_lines = 5 ") && page.contains("x.toml:1\n"), "{page}");
    assert!(page.contains("\nquota = \"3 GiB\" "), "{page}");
    assert!(page.contains("# for \"github/*\", "), "{page}");
    let rule = page.lines().find(|line| line.starts_with("\"shell/*\" = \"deny\" "));
    assert!(rule.is_some_and(|line| line.ends_with("x.toml:11")), "{page}");
}

#[test]
fn for_a_tool_only_its_limits_are_printed() {
    let (settings, environment, _dir) = loaded(FILE);
    let page = toml(&settings, Some("shell/exec"), &environment);
    assert!(page.contains("max_bytes = 7 ") && page.contains("max_lines = 5 "), "{page}");
    assert!(!page.contains("quota") && !page.contains('['), "{page}");
    assert!(SettingsFile::parse(Path::new("x"), &page).is_ok());
    let value = json(&settings, Some("github/x"), &environment);
    assert_eq!(value["settings"]["max_bytes"]["value"], "mirror");
    assert_eq!(value["settings"]["max_bytes"]["origin"]["tool"], "github/*");
    assert_eq!(value["settings"]["max_bytes"]["origin"]["line"], 7);
}

#[test]
fn json_has_everything() {
    let (settings, environment, dir) = loaded(FILE);
    let value = json(&settings, None, &environment);
    assert_eq!(value["files"][0], dir.path().join("x.toml").to_string_lossy().as_ref());
    assert_eq!(value["settings"]["quota"]["value"], 3_u64 << 30);
    assert_eq!(value["settings"]["log"]["origin"]["kind"], "default");
    assert_eq!(value["settings"]["mountpoint"], serde_json::Value::Null);
    assert_eq!(value["redact"]["apply"]["value"], "views");
    assert_eq!(value["redact"]["rules"]["value"][0]["name"], "r");
    assert_eq!(value["tool"]["github/*"]["max_bytes"]["value"], "mirror");
    assert_eq!(value["permissions"]["shell/*"]["value"], "deny");
    assert_eq!(value["risk"]["fs/*"]["origin"]["line"], 13);
}

#[test]
fn the_template_sets_nothing_and_names_everything() {
    let page = template();
    let file = SettingsFile::parse(Path::new("x"), &page).unwrap();
    assert!(file.values.is_empty() && file.tools.is_empty() && file.redact.origin.is_none());
    let opened: String = page
        .lines()
        .filter_map(|line| line.strip_prefix("# ").or(line.strip_prefix('#')))
        .filter(|line| line.contains(" = ") || line.starts_with('['))
        .flat_map(|line| [line, "\n"])
        .collect();
    let file = SettingsFile::parse(Path::new("x"), &opened).unwrap();
    assert_eq!(file.values.len(), ROWS.len());
    assert!(!file.tools.is_empty() && file.redact.rules.is_some());
}
