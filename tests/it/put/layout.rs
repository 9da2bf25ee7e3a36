//! The tool-output layout.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::{Command, TestStore, listing, log};

const DAY: Duration = Duration::from_hours(24);

/// Puts an output into the layout, as a host that runs in `dir` does.
fn put(dir: &Path, more: &[&str], output: &[u8]) -> Command {
    let command = Command::ctxfs().args(["put", "--layout", "tool-output"]).args(more);
    command.env("CTXFS_STORE", dir.join("no-store")).current_dir(dir).stdin(output)
}

fn envelope(printed: &[u8]) -> serde_json::Value {
    serde_json::from_slice(printed).unwrap()
}

/// Returns true if a name is `tool_<8 digits>_<6 digits>_<tool>.json`.
fn is_named(name: &str, tool: &str) -> bool {
    let shape: String = name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == format!("tool_00000000_000000_{tool}.json")
}

#[test]
fn outputs_are_files_of_that_name() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    let output = log(5000);
    let printed = put(&dir, &["--tool", "Read"], &output).stdout();
    let names = listing(&dir.join("tool-output"));
    assert!(names.len() == 1 && is_named(&names[0], "Read"), "{names:?}");
    assert_eq!(fs::read(dir.join("tool-output").join(&names[0])).unwrap(), output);
    let envelope = envelope(&printed);
    let path = envelope["data"]["truncation"]["full_output_path"].as_str().unwrap();
    assert_eq!(path, format!("tool-output/{}", names[0]));
    // What is short goes unchanged, and is kept all the same.
    assert_eq!(put(&dir, &["--tool", "a/b"], b"short").stdout(), b"short");
    let names = listing(&dir.join("tool-output"));
    assert!(names.iter().any(|name| is_named(name, "a_b")), "{names:?}");
    assert_eq!(listing(&dir), ["tool-output"]);
}

#[test]
fn the_environment_names_the_directory() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    let elsewhere = dir.join("a/b");
    let printed =
        put(&dir, &["--format", "preview"], &log(5000)).env("TOOL_OUTPUT_DIR", &elsewhere).text();
    let name = listing(&elsewhere).pop().unwrap();
    let path = elsewhere.join(name);
    assert!(printed.ends_with(&format!("\n\n[Full output: {}]\n", path.display())), "{printed}");
}

#[test]
fn many_at_once_lose_nothing() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    let outputs: Vec<String> = (0..12).map(|number| format!("output {number}")).collect();
    std::thread::scope(|scope| {
        for output in &outputs {
            scope.spawn(|| put(&dir, &["--tool", "Read"], output.as_bytes()).stdout());
        }
    });
    let dir = dir.join("tool-output");
    let read = |name: &String| fs::read_to_string(dir.join(name)).unwrap();
    let mut kept: Vec<String> = listing(&dir).iter().map(read).collect();
    kept.sort();
    let mut outputs = outputs;
    outputs.sort();
    assert_eq!(kept, outputs);
}

#[test]
fn old_files_of_the_layout_expire_and_nothing_else() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    let outputs = dir.join("tool-output");
    fs::create_dir(&outputs).unwrap();
    let aged = |name: &str, days: u32| -> PathBuf {
        let path = outputs.join(name);
        File::create(&path).unwrap().set_modified(SystemTime::now() - DAY * days).unwrap();
        path
    };
    let old = aged("tool_20260113_153045_Read.json", 8);
    let new = aged("tool_20260113_153046_Read.json", 6);
    let others = [
        aged("notes.md", 900),
        aged("tool_20260113_153045_Read.json.bak", 900),
        aged("tool_report.json", 900),
    ];
    put(&dir, &[], b"text").stdout();
    assert!(!old.exists() && new.exists());
    put(&dir, &[], b"text").env("TOOL_OUTPUT_RETENTION_DAYS", "5").stdout();
    assert!(!new.exists());
    let newer = aged("tool_20260113_153047_Read.json", 1);
    put(&dir, &[], b"text").env("TOOL_OUTPUT_RETENTION_DAYS", "0").stdout();
    assert!(!newer.exists());
    assert!(others.iter().all(|path| path.exists()));
    assert_eq!(listing(&outputs).len(), others.len() + 3, "what was just written stays");
}

#[test]
fn with_a_conversation_it_is_in_the_store_too() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    let output = log(5000);
    let put = |format: &str| {
        let path = store.path().display().to_string();
        let more = ["--store", &path, "-c", "c7", "--call", "9f3k", "--format", format];
        put(&dir, &more, &output).text()
    };
    let printed = put("envelope");
    let name = listing(&dir.join("tool-output")).pop().unwrap();
    assert_eq!(fs::read(dir.join("tool-output").join(&name)).unwrap(), output);
    assert_eq!(fs::read(store.plain("c7", "9f3k.txt")).unwrap(), output);
    assert!(printed.contains(&format!("\"full_output_path\":\"tool-output/{name}\"")));
    assert!(put("summary").contains("ref: ctx://c7/artifacts/tool/9f3k.txt"));
}

#[test]
fn without_one_there_is_nothing_to_name() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    for format in ["summary", "handle", "ref", "json"] {
        let refused = put(&dir, &["--format", format], b"text").run();
        assert!(refused.code == 2 && refused.stdout.is_empty(), "{format}: {refused}");
    }
    assert!(listing(&dir).is_empty());
}

#[test]
fn a_stand_in_of_the_layout_comes_back_unchanged() {
    let store = TestStore::new();
    let dir = store.scratch("host");
    let small = |output: &[u8]| put(&dir, &[], output).env("TOOL_OUTPUT_MAX_BYTES", "200").stdout();
    let stand_in = small(&log(100));
    assert_eq!(small(&stand_in), stand_in);
    fs::remove_dir_all(dir.join("tool-output")).unwrap();
    assert_ne!(small(&stand_in), stand_in, "it refers to nothing");
}
