//! Secrets are masked in views and, with the corresponding option, on the disk.

use std::ffi::OsStr;
use std::fs;
use std::sync::Arc;

use super::fixture::Fixture;
use ctxfs_core::model::Component;
use ctxfs_core::redact::{BLOCK, SETS, SecretRules};
use ctxfs_engine::{EngineOptions, Redaction};

const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");
const MASK: &str = "[redacted:aws-key]**";

pub(super) fn fixture(stored: bool) -> Fixture {
    let rules = Arc::new(SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap());
    Fixture::with(EngineOptions {
        redaction: Some(Redaction { rules, stored }),
        ..EngineOptions::default()
    })
}

#[test]
fn views_show_masks_and_the_file_is_as_it_was_written() {
    let fixture = fixture(false);
    let text = format!("id {KEY}\nend\n");
    fixture.put("a.txt", text.as_bytes());
    for sealed in [false, true] {
        if sealed {
            fixture.settle();
        }
        let tail = fixture.text("a.txt.tail");
        assert_eq!(tail, format!("# 1 secret is redacted (aws-key 1)\nid {MASK}\nend\n"));
        assert_eq!(fixture.text("a.txt.grep/AKIA"), "");
        assert_eq!(fixture.text("a.txt.grep/end"), "2:end\n");
        let summary = fixture.text("a.txt.summary");
        assert!(summary.contains("redacted: 1 secret (aws-key 1)") && !summary.contains(KEY));
    }
    assert_eq!(fixture.text("a.txt"), text);
    assert_eq!(fs::read_to_string(fixture.plain("a.txt")).unwrap(), text);
}

#[test]
fn arguments_and_keys_of_json_are_masked() {
    let fixture = fixture(false);
    let ino = fixture.put("a.json", format!("[{{\"{KEY}\": {{\"ok\": false}}}}]\n").as_bytes());
    let args = format!("{{\"id\": \"{KEY}\"}}");
    fixture.fs.setxattr(ino, OsStr::new("user.ctx.args"), args.as_bytes(), 0).unwrap();
    let meta = fixture.meta("a.json");
    assert_eq!(meta["args"], format!("{{\"id\": \"{MASK}\"}}"));
    // The secret occurs in the arguments, in the shape, in the path of a reported error, and twice
    // in the query.
    assert_eq!(meta["redacted"]["aws-key"], 5, "{meta:#}");
    assert!(!meta.to_string().contains(KEY), "{meta}");
    assert!(!fixture.text("a.json.summary").contains(KEY));
}

/// The line that counts the masks is part of the view, and counts as a line in views of that view.
#[test]
fn views_of_views_show_the_masks_of_the_view() {
    let fixture = fixture(false);
    let text = format!(
        "{{\"id\": \"{KEY}\", \"end\": \"long enough to be told from text\"}}\n{{\"level\":oops}}\n"
    );
    fixture.put("a.json", text.as_bytes());
    let first = "# 1 secret is redacted (aws-key 1)\n";
    let fault =
        "# line 2 is not JSON from byte column 10 on; that stands as it is, here in line 8\n";
    let value =
        format!("{{\n  \"id\": \"{MASK}\",\n  \"end\": \"long enough to be told from text\"\n}}\n");
    let pretty = fixture.text("a.json.pretty");
    assert_eq!(pretty, format!("{first}{fault}{value}{{\n  \"level\": oops}}\n"));
    assert_eq!(fixture.text("a.json.pretty.lines/8"), "  \"level\": oops}\n");
    assert_eq!(fixture.text("a.json.pretty.grep/AKIA"), "");
    assert_eq!(
        fixture.text("a.json.pretty.grep/\"id\""),
        format!("{first}4:  \"id\": \"{MASK}\",\n")
    );
}

#[test]
fn what_is_stored_is_masked_when_it_is_closed() {
    let fixture = fixture(true);
    // The secrets cross block boundaries, and there are more blocks than one step handles.
    let mut bytes = "a line of a log\n".repeat(20 * BLOCK as usize / 16).into_bytes();
    let places = [0, BLOCK as usize - 7, 3 * BLOCK as usize, bytes.len() - KEY.len() - 1];
    for at in places {
        bytes[at..at + KEY.len()].copy_from_slice(KEY.as_bytes());
        bytes[at + KEY.len()] = b'\n';
    }
    for at in places.iter().filter(|at| **at > 0) {
        bytes[at - 1] = b' ';
    }
    fixture.put("a.txt", &bytes);
    fixture.settle();
    let stored = fs::read(fixture.plain("a.txt")).unwrap();
    for at in places {
        bytes[at..at + KEY.len()].copy_from_slice(MASK.as_bytes());
    }
    let other = stored.iter().zip(&bytes).position(|(is, want)| is != want);
    assert_eq!((stored.len(), other), (bytes.len(), None), "only the secrets are masked");
    let record = fixture.record("a.txt").unwrap();
    assert_eq!(record.analysis.unwrap().digest, blake3_of(&bytes));
    let tail = fixture.text("a.txt.tail");
    assert!(tail.starts_with("# 1 secret is redacted (aws-key 1)\n"), "{}", &tail[..80]);
}

#[test]
fn artifacts_of_any_size_are_masked_to_their_end() {
    let fixture = fixture(true);
    let block = BLOCK as usize;
    for size in [0, 25, block - 1, block, block + 1, block + 5000, 2 * block + 20_000] {
        let mut bytes = vec![b'.'; size];
        if let Some(at) = size.checked_sub(KEY.len()) {
            bytes[at..].copy_from_slice(KEY.as_bytes());
        }
        fixture.put("a.txt", &bytes);
        fixture.settle();
        let stored = fs::read(fixture.plain("a.txt")).unwrap();
        assert!(stored.len() == size && !String::from_utf8(stored).unwrap().contains(KEY));
        fixture.unlink("a.txt").unwrap();
    }
}

/// Returns the digest of `bytes` from a mount without redaction.
fn blake3_of(bytes: &[u8]) -> String {
    let plain = Fixture::new();
    plain.put("x.txt", bytes);
    plain.meta("x.txt")["analysis"]["digest"].as_str().unwrap().to_owned()
}

#[test]
fn what_is_appended_is_masked_with_what_came_before() {
    let fixture = fixture(true);
    let (first, rest) = KEY.split_at(9);
    fixture.put("a.log", format!("x\n{first}").as_bytes());
    fixture.settle();
    let fh = fixture.open(fixture.ino("a.log"), libc::O_WRONLY).unwrap().fh;
    let end = first.len() as u64 + 2;
    fixture.write(fh, end, format!("{rest}\ny\n").as_bytes()).unwrap();
    fixture.close(fh);
    fixture.settle();
    let stored = fs::read_to_string(fixture.plain("a.log")).unwrap();
    assert_eq!(stored, format!("x\n{MASK}\ny\n"));
    assert_eq!(fixture.meta("a.log")["generation"], 2);
}

#[test]
fn attributes_are_stored_masked_too() {
    let fixture = fixture(true);
    let ino = fixture.put("a.txt", b"x\n");
    let name = OsStr::new("user.ctx.args");
    fixture.fs.setxattr(ino, name, format!("--key {KEY}").as_bytes(), 0).unwrap();
    let stored = fixture.fs.getxattr(ino, name).unwrap();
    assert_eq!(stored, format!("--key {MASK}").as_bytes());
}

#[test]
fn scratch_is_masked_once_it_has_a_name() {
    let fixture = fixture(true);
    fixture.put("a.txt.tmp", KEY.as_bytes());
    fixture.settle();
    assert_eq!(fs::read_to_string(fixture.plain("a.txt.tmp")).unwrap(), KEY);
    fixture.rename("a.txt.tmp", "a.txt", crate::RenameMode::Replace).unwrap();
    fixture.settle();
    assert_eq!(fs::read_to_string(fixture.plain("a.txt")).unwrap(), MASK);
}

#[test]
fn what_a_mount_leaves_is_masked() {
    let fixture = fixture(true);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, KEY.as_bytes()).unwrap();
    fixture.close(fh);
    fixture.fs.shut_down();
    assert_eq!(fs::read_to_string(fixture.plain("a.txt")).unwrap(), MASK);
}

/// Many texts show the attributes that a writer sets on an output, and the metrics count outputs by
/// the tool attribute.
#[test]
fn what_a_writer_says_is_masked() {
    let fixture = fixture(false);
    let ino = fixture.put("a.txt", b"some text\n");
    for name in ["call", "tool", "server", "args", "mime"] {
        let name = format!("user.ctx.{name}");
        fixture.fs.setxattr(ino, OsStr::new(&name), format!("x {KEY}").as_bytes(), 0).unwrap();
    }
    fixture.settle();
    let views = ["summary", "meta.json", "ref.json", "envelope.json", "handle", "preview"];
    let mut texts: Vec<String> =
        views.iter().map(|view| fixture.text(&format!("a.txt.{view}"))).collect();
    let manifest = fixture.find("c1/manifest.json").unwrap().attr.ino;
    texts.push(String::from_utf8(fixture.read_ino(manifest).unwrap()).unwrap());
    let metrics = fixture.find(".ctxfs/metrics").unwrap().attr.ino;
    texts.push(String::from_utf8(fixture.read_ino(metrics).unwrap()).unwrap());
    let engine = fixture.fs.engine();
    let listed = engine.list_artifacts(&Component::new("c1").unwrap(), |row| format!("{row:?}"));
    texts.extend(listed.unwrap().rows);
    for text in &texts {
        assert!(!text.contains(KEY), "{text}");
    }
    let masked = texts.iter().filter(|text| text.contains(MASK)).count();
    assert_eq!(masked, 6, "summary, meta, reference, manifest, metrics, listing: {texts:#?}");
    let counts = fixture.dir.path().join("context/c1/.ctxfs-counts.jsonl");
    assert!(!fs::read_to_string(counts).unwrap().contains(KEY));
}

/// No rule finds a part of a secret, so a cut-off key must not be shown.
#[test]
fn keys_that_a_shape_cuts_are_left_out() {
    let fixture = fixture(false);
    let long =
        format!("sk-{}-api03-{}", "ant", "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5kM7oP9rS1uV3xY5");
    let words = "an_ordinary_key_of_more_than_forty_characters";
    fixture.put("a.json", format!("{{\"{long}\": 1, \"{words}\": 2, \"end\": 3}}\n").as_bytes());
    assert!(!fixture.text("a.json.summary").contains(&long[..12]));
    let meta = fixture.meta("a.json");
    let shape = meta["analysis"]["json"]["shape"].as_str().unwrap();
    assert_eq!(shape, "{\"...\": int, ...: int, end: int}");
}

fn message_log(fixture: &Fixture, lines: &str) -> String {
    let history = fixture.find("c1/history").unwrap().attr.ino;
    let mode = crate::OpenMode { flags: libc::O_WRONLY | libc::O_APPEND };
    let name = OsStr::new("messages.jsonl");
    let fh = fixture.fs.create(history, name, 0o600, mode, super::fixture::ME).unwrap().1.fh;
    fixture.fs.write(fh, 0, lines.as_bytes(), mode, None).unwrap();
    fixture.close(fh);
    fixture.settle();
    fs::read_to_string(fixture.dir.path().join("context/c1/history/messages.jsonl")).unwrap()
}

fn messages() -> String {
    let escaped = format!(
        "{{\\\"db\\\": \\\"postgres:\\\\/\\\\/app:abc123def456@db\\\", \\\"id\\\": \\\"{KEY}\\\"}}"
    );
    format!(
        "{{\"role\":\"user\",\"content\":\"{KEY}\"}}\n{{\"role\":\"tool\",\"tool_call_id\":\"x {KEY}\",\
         \"toolName\":\"{KEY}\",\"content\":\"{escaped}\"}}\n"
    )
}

#[test]
fn messages_are_shown_masked() {
    let fixture = fixture(false);
    assert_eq!(message_log(&fixture, &messages()), messages(), "the log is as it was written");
    for name in ["messages.json", "messages.jsonl.tail", "messages.jsonl.pretty"] {
        let ino = fixture.find(&format!("c1/history/{name}")).unwrap().attr.ino;
        let text = String::from_utf8(fixture.read_ino(ino).unwrap()).unwrap();
        assert!(!text.contains(KEY) && !text.contains("abc123def456"), "{name}: {text}");
        assert!(text.contains(MASK), "{name}: {text}");
        if name == "messages.json" {
            let array: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(array[1]["role"], "tool");
        }
    }
}

#[test]
fn messages_are_stored_masked() {
    let fixture = fixture(true);
    let torn = format!("{{\"role\":\"user\",\"content\":\"{KEY}");
    let stored = message_log(&fixture, &messages());
    assert_eq!(stored.len(), messages().len());
    assert!(!stored.contains(KEY) && !stored.contains("abc123def456"), "{stored}");
    for line in stored.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect(line);
    }
    let log = fixture.find("c1/history/messages.jsonl").unwrap().attr.ino;
    let fh = fixture.open(log, libc::O_WRONLY | libc::O_APPEND).unwrap().fh;
    let mode = crate::OpenMode { flags: libc::O_WRONLY | libc::O_APPEND };
    fixture.fs.write(fh, 0, torn.as_bytes(), mode, None).unwrap();
    fixture.fs.release(fh).unwrap();
    let aside = fixture.dir.path().join("context/c1/history/messages.torn");
    let aside = fs::read_to_string(aside).unwrap();
    assert!(aside.contains(MASK) && !aside.contains(KEY), "{aside}");
}

#[test]
fn other_files_are_stored_masked() {
    let fixture = fixture(true);
    let archive = fixture.find("c1/history/archive").unwrap().attr.ino;
    let mode = crate::OpenMode { flags: libc::O_WRONLY };
    let created = fixture.fs.create(archive, OsStr::new("old.md"), 0o600, mode, super::fixture::ME);
    let fh = created.unwrap().1.fh;
    fixture.write(fh, 0, format!("it was {KEY}\n").as_bytes()).unwrap();
    fixture.close(fh);
    fixture.settle();
    let path = fixture.dir.path().join("context/c1/history/archive/old.md");
    assert_eq!(fs::read_to_string(path).unwrap(), format!("it was {MASK}\n"));
}

#[test]
fn a_log_is_stored_without_secrets_in_colours() {
    let fixture = fixture(true);
    let (first, rest) = KEY.split_at(9);
    let text = format!("id \x1b[01;31m\x1b[K{first}\x1b[m\x1b[K{rest}\n");
    fixture.put("a.txt", text.as_bytes());
    fixture.settle();
    let want = format!("id \x1b[01;31m\x1b[K{MASK}\x1b[m\x1b[K\n");
    assert_eq!(fs::read_to_string(fixture.plain("a.txt")).unwrap(), want);
}
