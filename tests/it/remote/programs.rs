//! What commands tell programs, with `--json`, is as `docs/REMOTE.md` says.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::remote::Pair;

/// Returns the names of all fields of a value and of what is in it.
fn fields(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(values) => values.iter().flat_map(fields).collect(),
        Value::Object(values) => {
            let inner = values.values().flat_map(fields);
            values.keys().cloned().chain(inner).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Returns the names in backquotes of the row of a command, but for the command itself.
fn documented(command: &str) -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/REMOTE.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("### For programs").unwrap();
    let begin = format!("| `ctxfs {command}` |");
    let row = section.lines().find_map(|line| line.strip_prefix(&begin));
    let row = row.unwrap_or_else(|| panic!("{begin} is missing"));
    row.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_field_is_documented_and_no_other() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    // An object that nobody names.
    let objects = pair.bucket().join("conversations/c7/objects");
    fs::create_dir_all(&objects).unwrap();
    fs::write(objects.join(format!("{:032x}.zst", 7)), "nobody's").unwrap();
    let told = |command: &str, arguments: &[&str]| {
        let arguments = [arguments, &["--json"]].concat();
        let output = pair.ctxfs(&pair.one, command, &arguments).run();
        let value = serde_json::from_slice(&output.stdout);
        fields(&value.unwrap_or_else(|error| panic!("{command}: {error}: {output}")))
    };
    let mut listed = told("ls", &["--remote"]);
    listed.extend(told("ls", &["--remote", "c7"]));
    let pulled = told("pull", &["c7"]);
    let status = told("remote", &["status"]);
    pair.one.put("c7", "y", b"more\n");
    let pushed = told("push", &[]);
    let checked = told("remote", &["check"]);
    let tidied = told("remote", &["gc", "--dry-run"]);
    let purged = told("remote", &["purge", "--dry-run", "c7/artifacts/tool/x.txt"]);
    let all = [
        ("push", pushed),
        ("pull", pulled),
        ("ls --remote", listed),
        ("remote status", status),
        ("remote check", checked),
        ("remote gc", tidied),
        ("remote purge", purged),
    ];
    for (command, told) in all {
        let missing: Vec<_> = told.difference(&documented(command)).cloned().collect();
        assert!(!told.is_empty() && missing.is_empty(), "{command}: {missing:?}");
    }
}
