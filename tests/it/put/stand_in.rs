//! The texts that go to the model.

use std::fs;

use crate::support::{Command, Mode, TestMount, TestStore, listing, log};

/// The formats that stand in for an output, and the views that print the same.
const FORMATS: [(&str, &str); 4] = [
    ("summary", "summary"),
    ("envelope", "envelope.json"),
    ("handle", "handle"),
    ("preview", "preview"),
];

fn put(store: &TestStore, call: &str, more: &[&str], output: &[u8]) -> Vec<u8> {
    let arguments = ["--conversation", "c7", "--call", call];
    store.ctxfs("put", &[&arguments, more].concat()).stdin(output).stdout()
}

#[test]
fn little_goes_unchanged_and_is_kept() {
    let store = TestStore::new();
    for (number, output) in
        [&b""[..], b"one\ntwo", b"\xff\0\x1b[31m\r\n", b"{\"a\": 1}"].into_iter().enumerate()
    {
        for (format, _) in FORMATS {
            let call = format!("{format}-{number}");
            assert_eq!(put(&store, &call, &["--format", format], output), output, "{call}");
            assert_eq!(store.view(&format!("c7/artifacts/tool/{call}")), output, "{call}");
        }
    }
    assert_eq!(listing(&store.plain("c7", "")).len(), 16);
}

#[test]
fn the_limit_of_each_format_decides() {
    let store = TestStore::new();
    let limits = [("summary", 8000), ("envelope", 51_200), ("handle", 12_288), ("preview", 51_200)];
    for (format, limit) in limits {
        for (size, goes) in [(limit - 1, true), (limit, true), (limit + 1, false)] {
            let output = vec![b'x'; size];
            let printed = put(&store, "x", &["--format", format], &output);
            assert_eq!(printed == output, goes, "{format}: {size} bytes");
        }
    }
    let lines = |count| b"x\n".repeat(count);
    for (count, goes) in [(1999, true), (2000, true), (2001, false)] {
        let printed = put(&store, "x", &["--format", "envelope"], &lines(count));
        assert_eq!(printed == lines(count), goes, "{count} lines");
    }
}

#[test]
fn a_stand_in_that_saves_little_is_not_made() {
    let store = TestStore::new();
    // Paragraphs without errors, of which a stand-in shows head and tail.
    let line = |n: usize| format!("{n} {}\n", "lorem ipsum dolor sit amet ".repeat(n % 5 + 1));
    let output = |bytes: usize| -> Vec<u8> {
        (1..).flat_map(|n| line(n).into_bytes()).take(bytes).collect()
    };
    let (mut whole, mut replaced) = (0, 0);
    for bytes in [8100, 8500, 9000, 10_000, 12_000, 16_000] {
        let call = format!("c{bytes}");
        let printed = put(&store, &call, &[], &output(bytes));
        let stand_in = store.view(&format!("c7/artifacts/tool/{call}.summary"));
        let pays = 3 * stand_in.len() <= 2 * bytes;
        assert_eq!(printed, if pays { stand_in } else { output(bytes) }, "{bytes} bytes");
        *(if pays { &mut replaced } else { &mut whole }) += 1;
        assert_eq!(store.view(&format!("c7/artifacts/tool/{call}")), output(bytes));
    }
    assert!(replaced > 0, "{whole} of 6 are whole");
    // A limit that a user sets is one for what may be replaced; a stand-in still has to pay.
    let small = b"one\ntwo\n".repeat(20);
    let put = |format: &str| {
        let arguments = ["-c", "c7", "--format", format];
        let put = store.ctxfs("put", &arguments).stdin(&*small);
        put.env("CTXFS_MAX_INLINE_CHARS", "10").env("TOOL_OUTPUT_MAX_BYTES", "10").stdout()
    };
    assert_eq!(put("summary"), small);
    // A response has the limits of its protocol.
    assert_ne!(put("envelope"), small);
}

/// Returns `command` with `suffix` added to its last word.
fn with_suffix(command: &str, suffix: &str) -> String {
    let word = command.strip_suffix('\'');
    word.map_or(format!("{command}'{suffix}'"), |word| format!("{word}{suffix}'"))
}

#[test]
fn without_a_mount_a_stand_in_names_a_command_that_works() {
    let store = TestStore::new();
    for (conversation, call) in [("c7", "x"), ("it's $c", "a b;c")] {
        let put = |format: &str| {
            let arguments = ["-c", conversation, "--call", call, "--format", format];
            store.ctxfs("put", &arguments).stdin(log(5000)).text()
        };
        let shell = |line: &str| Command::shell(line, &[]).without_settings().stdout();
        let summary = put("summary");
        let file = summary.lines().find_map(|line| line.strip_prefix("file:   ")).unwrap();
        let (command, note) = file.split_once("    ").unwrap();
        assert!(command.contains("ctxfs view --store "), "{file}");
        assert!(note.contains("added to the path, in quotes"), "{file}");
        assert_eq!(shell(command), log(5000), "{file}");
        let lines =
            log(5000).split_inclusive(|byte| *byte == b'\n').take(3).collect::<Vec<_>>().concat();
        assert_eq!(shell(&with_suffix(command, ".lines/1-3")), lines, "{file}");
        // What a view names goes on in the same way.
        let found = shell(&with_suffix(command, ".grep/-i e|o"));
        let found = String::from_utf8(found).unwrap();
        let on = found.lines().next().unwrap().split_once("Go on: ").unwrap().1;
        let on = on.split("    ").next().unwrap();
        assert!(!shell(on).is_empty(), "{on}");
        assert!(put("preview").trim_end().ends_with(&format!("[Full output: {command}]")));
        let envelope: serde_json::Value = serde_json::from_str(&put("envelope")).unwrap();
        let text = envelope["text"].as_str().unwrap();
        assert!(text.contains(&format!("All of it: `{command}`. To go on: add `.grep/PATTERN`")));
        let path = &envelope["data"]["truncation"]["full_output_path"];
        assert!(path.as_str().unwrap().starts_with(&format!("ctx://{conversation}/")), "{path}");
        // A stand-in that comes back is none of a new output.
        for format in ["summary", "envelope", "preview"] {
            let text = put(format);
            let again = store.ctxfs("put", &["-c", "c8", "--format", format]).stdin(&*text);
            let again =
                again.env("CTXFS_MAX_INLINE_CHARS", "10").env("TOOL_OUTPUT_MAX_BYTES", "10");
            assert_eq!(again.env("CTXFS_MESSAGE_THRESHOLD", "10").text(), text, "{format}");
        }
    }
}

/// Hosts run a line that begins with `ctxfs view` without a question.
#[test]
fn a_line_that_views_makes_nothing_and_takes_no_settings() {
    let store = TestStore::new();
    let name = store.put("c7", "x", b"text\n");
    let (path, settings) = (format!("c7/artifacts/tool/{name}"), store.scratch("s").join("s.toml"));
    fs::write(&settings, "").unwrap();
    let root = store.path();
    let (root, settings) = (root.to_str().unwrap(), settings.to_str().unwrap());
    let view = |words: &[&str]| Command::ctxfs().args(words).run();
    assert_eq!(view(&["view", "--store", root, &path]).stdout, b"text\n");
    assert_eq!(view(&["--config", settings, "view", "--store", root, &path]).stdout, b"text\n");
    for words in [["view", "--config", settings, &path], ["view", &path, "--config", settings]] {
        let output = view(&[&words[..], &["--store", root]].concat());
        assert!(output.code == 2 && output.stdout.is_empty(), "{output}");
    }
    let joined = format!("--config={settings}");
    assert_eq!(view(&["view", &joined, "--store", root, &path]).code, 2);
    let dir = store.scratch("dir");
    for dir in [dir.join("new"), dir.clone()] {
        let output = view(&["view", "--store", dir.to_str().unwrap(), &path]);
        assert_eq!(output.code, 1, "{output}");
    }
    assert!(listing(&dir).is_empty());
}

#[test]
fn put_prints_what_the_mount_shows() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let output = log(5000);
        for (format, view) in FORMATS {
            let printed = put(mount.store(), format, &["--format", format], &output);
            let path = mount.path().join(format!("c7/artifacts/tool/{format}.txt.{view}"));
            let shown = fs::read(path).unwrap();
            assert_eq!(
                String::from_utf8(printed).unwrap(),
                String::from_utf8(shown).unwrap(),
                "{mode:?} {format}"
            );
        }
    }
}

#[test]
fn always_prints_the_stand_in() {
    let store = TestStore::new();
    for (format, view) in FORMATS {
        let printed = put(&store, format, &["--format", format, "--always"], b"short\n");
        assert_eq!(printed, store.view(&format!("c7/artifacts/tool/{format}.{view}")), "{format}");
        assert_ne!(printed, b"short\n", "{format}");
    }
}

#[test]
fn a_stand_in_that_comes_back_goes_unchanged() {
    let store = TestStore::new();
    // So small limits that every stand-in is over them.
    let again = |call: &str, format: &str, input: &[u8]| {
        let arguments = ["--conversation", "c7", "--call", call, "--format", format];
        let put = store.ctxfs("put", &arguments).stdin(input);
        let put = put.env("CTXFS_MAX_INLINE_CHARS", "500");
        put.env("TOOL_OUTPUT_MAX_BYTES", "5000").stdout()
    };
    for (format, _) in FORMATS {
        let stand_in = again(&format!("{format}-1"), format, &log(5000));
        assert_eq!(again(&format!("{format}-2"), format, &stand_in), stand_in, "{format}");
        // It is kept as it is, too.
        assert_eq!(store.view(&format!("c7/artifacts/tool/{format}-2")), stand_in, "{format}");
    }
    // No shorter stand-in has room for a summary; an envelope need not be shorter.
    let envelope = again("s-1", "envelope", &log(5000));
    assert!(envelope.len() > 5000, "long enough to be replaced");
    fs::remove_file(store.plain("c7", "s-1.txt")).unwrap();
    let orphan = again("s-2", "envelope", &envelope);
    assert_ne!(orphan, envelope, "it refers to nothing");
}

#[test]
fn a_response_is_carried_over_or_left_alone() {
    let store = TestStore::new();
    let response = |skip: bool| {
        serde_json::json!({
            "status": "error", "data": {"content": "x".repeat(60_000)}, "text": "failed",
            "stats": {"time_ms": 7}, "context": {"cwd": "/work", "truncation_skip": skip},
            "error": {"code": "TIMEOUT"},
        })
    };
    let format = ["--format", "envelope", "--has-tool", "Task"];
    let skipped = response(true).to_string().into_bytes();
    assert_eq!(put(&store, "skipped", &format, &skipped), skipped);
    assert_eq!(fs::read(store.plain("c7", "skipped.json")).unwrap(), skipped);
    let before = response(false);
    let after = put(&store, "cut", &format, before.to_string().as_bytes());
    let after: serde_json::Value = serde_json::from_slice(&after).unwrap();
    for name in ["status", "stats", "context", "error"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    let path = after["data"]["truncation"]["full_output_path"].as_str().unwrap();
    assert!(path.ends_with("/c7/artifacts/tool/cut.json"), "{path}");
    assert!(after["text"].as_str().unwrap().contains("have a subagent (Task) process that file"));
}

#[test]
fn the_environment_sets_the_limits() {
    let store = TestStore::new();
    let run = |name: &str, value: &str| {
        let arguments = ["--conversation", "c7", "--call", "x", "--format", "envelope"];
        store.ctxfs("put", &arguments).stdin("one\ntwo\nthree\n").env(name, value)
    };
    for (name, value, kept) in
        [("TOOL_OUTPUT_MAX_LINES", "2", "one\ntwo\n"), ("TOOL_OUTPUT_MAX_BYTES", "5", "one\n")]
    {
        let printed: serde_json::Value =
            serde_json::from_slice(&run(name, value).stdout()).unwrap();
        assert_eq!(printed["data"]["preview"], kept, "{name}");
    }
    let both = run("TOOL_OUTPUT_MAX_LINES", "1").env("TOOL_OUTPUT_TRUNCATE_DIRECTION", "tail");
    let printed: serde_json::Value = serde_json::from_slice(&both.stdout()).unwrap();
    assert_eq!(printed["data"]["preview"], "three\n");
    for (name, value) in [
        ("TOOL_OUTPUT_MAX_LINES", "0"),
        ("TOOL_OUTPUT_MAX_BYTES", "many"),
        ("TOOL_OUTPUT_TRUNCATE_DIRECTION", "middle"),
        ("TOOL_OUTPUT_RETENTION_DAYS", "-1"),
    ] {
        let output = run(name, value).run();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.code == 2 && output.stdout.is_empty(), "{name}: {output}");
        assert!(told.contains(&format!("`{name}` cannot be `{value}`: expected ")), "{told}");
    }
}
