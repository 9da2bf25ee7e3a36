//! Secrets that are planted wherever a writer can put them, and everything that a reader can ask
//! for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::XattrFlags;

use super::{KEY, of_user};
use crate::support::{Mode, TestMount, TestStore, eventually};

const PASSWORD: &str = "correct-horse-battery-staple";
/// What is asked of each file, as the end of its name.
const VIEWS: [&str; 24] = [
    ".summary",
    ".tail",
    ".head",
    ".grep/e",
    ".grep/-m0 -o .*",
    ".grep/-C9 -i AKIA",
    ".lines/1-90",
    ".errors",
    ".terms",
    ".wrap",
    ".wrap.tail",
    ".shape",
    ".jq/-n -c [inputs]",
    ".jq/-r ..",
    ".jq/-m0 -c .",
    ".pages/0001",
    ".pretty",
    ".pretty.grep/e",
    ".meta.json",
    ".ref.json",
    ".envelope.json",
    ".handle",
    ".preview",
    ".jq/-r ..|strings|fromjson?",
];
const ATTRIBUTES: [&str; 6] = [
    "user.ctx.call",
    "user.ctx.tool",
    "user.ctx.server",
    "user.ctx.args",
    "user.ctx.mime",
    "user.note",
];
const FILES: [&str; 5] = [
    "artifacts/tool/text.txt",
    "artifacts/tool/data.json",
    "artifacts/tool/lines.jsonl",
    "artifacts/terminal/s1.log",
    "history/messages.jsonl",
];

/// Returns text with each secret in each form.
fn text() -> String {
    let (first, rest) = KEY.split_at(9);
    format!(
        "error: {KEY}\n\x1b[01;31m\x1b[K{first}\x1b[m\x1b[K{rest} in colours\n\
         postgres://app:{PASSWORD}@db\npostgres:\\/\\/app:{PASSWORD}@db\n\
         postgres://app:correct-\x1b[1mhorse\x1b[0m-battery-staple@db\n\
         \\u0020\\u0041{} \x1b]8;;https://app:{PASSWORD}@db\x07link\x1b]8;;\x07\n\
         10%\r20% {first}\x07{rest}\n",
        &KEY[1..]
    )
}

/// Returns JSON with the secrets as names, values, and in a string that holds JSON.
fn json() -> String {
    let inner = serde_json::json!({ "text": text(), "id": KEY }).to_string();
    let value = serde_json::json!({ "inner": inner, "text": text(), KEY: { "id": KEY }, "list": [
        { "id": KEY, "db": format!("postgres://app:{PASSWORD}@db") },
    ] });
    value.to_string().replace("://", ":\\/\\/").replace("\"AKI", "\"\\u0041KI")
}

/// Plants the secrets in all places of the conversation `c7`.
fn plant(mount: &TestMount) {
    let tool = mount.tool("c7");
    let conversation = tool.ancestors().nth(2).unwrap().to_owned();
    let messages = format!(
        "{{\"role\":\"user\",\"content\":{}}}\n{{\"role\":\"tool\",\"toolName\":\"{KEY}\",\"content\":{}}}\n",
        serde_json::Value::from(text()),
        serde_json::Value::from(json()),
    );
    for (path, content) in [
        (FILES[0], text()),
        (FILES[1], json() + "\n"),
        (FILES[2], (json() + "\n").repeat(3)),
        (FILES[3], text()),
        (FILES[4], messages),
    ] {
        let path = conversation.join(path);
        fs::write(&path, content).unwrap();
        if path.starts_with(conversation.join("artifacts")) {
            for name in ATTRIBUTES {
                let value = format!("x {KEY} postgres:\\/\\/app:{PASSWORD}@db");
                rustix::fs::setxattr(&path, name, value.as_bytes(), XattrFlags::empty()).unwrap();
            }
        }
    }
    fs::write(conversation.join("history/archive/old.md"), text()).unwrap();
}

/// Returns what a reader may see of a text: as it is, without escape sequences, and each of them
/// with the escapes of JSON decoded, up to five times.
fn seen(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let decoded = |text: &String| {
        let text =
            text.replace("\\u0041", "A").replace("\\u001b", "\x1b").replace("\\u0007", "\x07");
        text.replace("\\u0020", " ").replace("\\/", "/").replace("\\\"", "\"").replace("\\\\", "\\")
    };
    let plain = |text: &String| {
        let parts = text.split('\x1b');
        let parts = parts.map(|part| match part.strip_prefix('[') {
            Some(rest) => {
                rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').get(1..)
            }
            None => Some(part),
        });
        parts.flatten().collect::<String>().replace('\x07', "")
    };
    let mut seen = vec![text];
    for level in 0..5 {
        seen.push(decoded(&seen[level]));
    }
    let more: Vec<String> = seen.iter().map(plain).collect();
    seen.extend(more);
    seen
}

#[track_caller]
fn assert_hidden(text: &[u8], what: &str) {
    for seen in seen(text) {
        let shown = [KEY, PASSWORD].into_iter().find(|secret| seen.contains(secret));
        assert!(shown.is_none(), "{what} shows {shown:?}:\n{seen:.4000}");
    }
}

fn read_all(mount: &TestMount, has_masks: bool) {
    let conversation = mount.path().join("c7");
    let mut paths: Vec<PathBuf> = Vec::new();
    for file in FILES {
        paths.extend(VIEWS.map(|view| conversation.join(format!("{file}{view}"))));
    }
    for path in [
        "c7/history/messages.json",
        "c7/history/archive/old.md.summary",
        "c7/manifest.json",
        "c7/.grep/e",
        "c7/.grep/-m0 -o .*",
        "c7/artifacts/terminal/.grep/-C9 AKIA",
        "README.md",
        ".ctxfs/status.json",
        ".ctxfs/metrics",
    ] {
        paths.push(mount.path().join(path));
    }
    let mut masked = 0;
    for path in paths {
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_hidden(&text, &path.display().to_string());
        masked += usize::from(memchr(&text, b"[redacted:aws-key]"));
    }
    assert!(!has_masks || masked > 70, "only {masked} texts show masks");
    assert_hidden(mount.said().as_bytes(), "the log of the server");
}

fn memchr(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Asserts that what the commands print shows no secret.
fn ask_commands(store: &TestStore) {
    for (command, arguments) in [
        ("ls", &["c7"][..]),
        ("ls", &["--json", "c7"]),
        ("log", &["c7"]),
        ("log", &["--json", "c7"]),
        ("stats", &["c7"]),
        ("stats", &["--json"]),
        ("view", &["c7/artifacts/tool/text.txt.summary"]),
        ("view", &["c7/history/messages.json"]),
        ("view", &["c7/manifest.json"]),
        ("view", &["c7/artifacts/tool/data.json.jq/-r .inner"]),
    ] {
        let output = store.ctxfs(command, arguments).run();
        assert_eq!(output.code, 0, "{command}: {output}");
        assert_hidden(&output.stdout, &format!("ctxfs {command} {arguments:?}"));
        assert_hidden(&output.stderr, &format!("ctxfs {command} {arguments:?}"));
    }
    for format in ["summary", "envelope", "handle", "preview", "ref", "json"] {
        let arguments = ["-c", "c8", "--tool", KEY, "--args", KEY, "--format", format, "--always"];
        for output in [text(), json()] {
            let put = store.ctxfs("put", &arguments).stdin(output).run();
            assert_hidden(&put.stdout, &format!("ctxfs put --format {format}"));
        }
    }
    let error = store.ctxfs("log", &["append", "c8"]).stdin(format!("{{\"role\":\"{KEY}\"}}\n"));
    assert_hidden(&error.run().stderr, "an error");
}

/// Returns the files below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn nothing_shows_a_planted_secret() {
    for mode in Mode::ALL {
        let store: Arc<TestStore> = of_user("redact = \"views\"\nlog = \"trace\"\n");
        let mount = TestMount::of(&store, mode, &[]);
        plant(&mount);
        read_all(&mount, true);
        ask_commands(&store);
        for file in files(&store.path().join("cache")) {
            assert_hidden(&fs::read(&file).unwrap(), &file.display().to_string());
        }
        let archive = store.scratch("out").join("c7.ctxfs");
        let export = store.ctxfs("export", &["c7", "-o", archive.to_str().unwrap()]).run();
        let said = String::from_utf8(export.stderr).unwrap();
        assert!(said.contains("as they were written"), "{said}");
        let written = fs::read_to_string(mount.path().join("c7").join(FILES[0])).unwrap();
        assert_eq!(written, text(), "the file is as it was written");
    }
}

#[test]
fn nothing_stores_a_planted_secret() {
    let store: Arc<TestStore> = of_user("redact = \"stored\"\n");
    let mut mount = TestMount::of(&store, Mode::Passthrough, &[]);
    plant(&mount);
    let shows = |file: &PathBuf| {
        let seen = seen(&fs::read(file).unwrap_or_default());
        seen.iter().any(|text| text.contains(KEY) || text.contains(PASSWORD))
    };
    eventually("all files are masked", || !files(&store.path()).iter().any(shows));
    read_all(&mount, true);
    ask_commands(&store);
    mount.end(rustix::process::Signal::TERM);
    let archive = store.scratch("out").join("c7.ctxfs");
    store.ctxfs("export", &["c7", "-o", archive.to_str().unwrap()]).stdout();
    let other = TestStore::new();
    other.ctxfs("import", &[archive.to_str().unwrap()]).stdout();
    for file in files(&store.path()).into_iter().chain(files(&other.path())) {
        let name = file.display().to_string();
        assert_hidden(&fs::read(&file).unwrap(), &name);
        for attribute in ATTRIBUTES {
            let mut value = [0; 1000];
            let length = rustix::fs::getxattr(&file, attribute, &mut value[..]).unwrap_or(0);
            assert_hidden(&value[..length], &format!("{attribute} of {name}"));
        }
    }
}

/// A mount without redaction records the sizes of views, which masks and their notice change.
#[test]
fn sizes_of_views_without_masks_are_not_used_for_views_with_masks() {
    let mount = TestMount::new(Mode::Passthrough);
    mount.artifact("c7", "a.txt", text().as_bytes());
    mount.settle();
    for view in [".summary", ".tail", ".grep/e"] {
        let path = format!("c7/artifacts/tool/a.txt{view}");
        let shown = mount.store().ctxfs("view", &[&path]).env("CTXFS_REDACT", "views").stdout();
        assert_hidden(&shown, &path);
        assert!(memchr(&shown, b"[redacted:aws-key]"), "{path} shows no mask");
    }
}
