//! Generates `docs/SETTINGS.md` from the table of settings.

use std::fmt::Write as _;

use crate::settings::file::{SettingsFile, USER_TABLES};
use crate::settings::table::{ROWS, SettingGroup, SettingRow};
use ctxfs_core::redact::SETS;

const PAGE: &str = include_str!("document.md");

fn markdown() -> String {
    PAGE.replace("{places}", &table(SettingGroup::Places))
        .replace("{mount}", &table(SettingGroup::Mount))
        .replace("{keep}", &table(SettingGroup::Keep))
        .replace("{limits}", &table(SettingGroup::Limits))
        .replace("{gateway}", &table(SettingGroup::Gateway))
        .replace("{hooks}", &table(SettingGroup::Hooks))
        .replace("{extract}", &table(SettingGroup::Extract))
        .replace("{remote}", &table(SettingGroup::Remote))
        .replace("{sets}", &sets())
        .replace("{users}", &users())
}

fn table(group: SettingGroup) -> String {
    let mut table =
        "| key | value | default | environment | flag |\n|---|---|---|---|---|\n".to_owned();
    for row in ROWS.iter().filter(|row| row.group == group) {
        table += &line(row);
    }
    table.push('\n');
    for row in ROWS.iter().filter(|row| row.group == group) {
        let _ = writeln!(table, "- `{}`: {}", row.name, row.about);
    }
    table.trim_end().to_owned()
}

fn line(row: &SettingRow) -> String {
    let default = row
        .default_value()
        .map_or("below".to_owned(), |value| format!("`{}`", row.kind.to_toml(&value)));
    let flag = row.flag.map(|flag| format!("`{flag}`")).unwrap_or_default();
    let (name, allowed, variable) = (row.name, row.kind.allowed(), row.variable);
    format!("| `{name}` | {allowed} | {default} | `{variable}` | {flag} |\n")
}

// Lists the settings that the store's own file cannot set.
fn users() -> String {
    let tables = USER_TABLES.iter().map(|table| format!("`[{table}]`"));
    let is_in_table =
        |row: &&SettingRow| matches!(row.group, SettingGroup::Extract | SettingGroup::Remote);
    let rows = ROWS.iter().filter(|row| !row.key.counts_from_store() && !is_in_table(row));
    tables.chain(rows.map(|row| format!("`{}`", row.name))).collect::<Vec<_>>().join(", ")
}

fn sets() -> String {
    let mut table = "| set | finds |\n|---|---|\n".to_owned();
    for set in SETS {
        let _ = writeln!(table, "| `{}` | {} |", set.name, set.about);
    }
    table.trim_end().to_owned()
}

#[test]
fn the_page_in_docs_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SETTINGS.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == markdown(),
        "docs/SETTINGS.md is stale: UPDATE_DOCS=1 cargo test -p ctxfs-cli"
    );
}

#[test]
fn its_examples_are_settings_files() {
    let examples: Vec<&str> = PAGE.split("```toml\n").skip(1).collect();
    assert!(examples.len() >= 3);
    for example in examples {
        let text = example.split("```").next().unwrap();
        let read = SettingsFile::parse("docs/SETTINGS.md".as_ref(), text);
        assert!(read.is_ok(), "{text}: {}", read.unwrap_err());
    }
}
