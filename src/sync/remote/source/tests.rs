//! Content that a push sends, on a real disk.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::bucket::LINE_BYTES;
use crate::remote::files::tests::scene::{Scene, digest, soon};

const A: &str = "artifacts/tool/a.txt";

fn try_open(scene: &Scene, path: &str) -> Option<OpenedFile> {
    let found = scene.found(path);
    LocalSource::new(&scene.conversation).open(path, found.key, found.version).unwrap()
}

#[test]
fn a_file_is_sent_with_all_that_is_known_of_it() {
    let scene = Scene::new();
    let record = scene.put("a", "one\n");
    fs::set_permissions(scene.at(A), fs::Permissions::from_mode(0o640)).unwrap();
    let mut opened = soon(|| try_open(&scene, A));
    let mut text = String::new();
    opened.file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), opened.mode), ("one\n", 0o640));
    let sent = opened.record;
    assert_eq!((&sent.provenance, sent.created), (&record.provenance, record.created));
    assert_eq!(sent.analysis, record.analysis);
    assert!(sent.file.is_none() && sent.owner.is_none() && sent.far.is_none());
    assert_eq!(opened.attributes["user.ctx.tool"], "exec");
}

#[test]
fn a_file_without_a_record_is_analysed() {
    let scene = Scene::new();
    scene.write("catalog/index.json", "{}");
    let opened = soon(|| try_open(&scene, "catalog/index.json"));
    assert_eq!(opened.record.analysis.unwrap().digest, digest(b"{}"));
    assert_eq!((opened.record.state, opened.record.size), (ArtifactState::Sealed, 2));
}

#[test]
fn what_is_not_as_it_was_is_left() {
    let scene = Scene::new();
    scene.put("a", "one\n");
    let source = LocalSource::new(&scene.conversation);
    let found = scene.found(A);
    let open = |path: &str| source.open(path, found.key, found.version).unwrap();
    assert!(open("artifacts/tool/b.txt").is_none());
    assert!(open("../c7/artifacts/tool/a.txt").is_none());
    assert!(soon(|| open(A)).mode > 0);
    let writer = fs::OpenOptions::new().append(true).open(scene.at(A)).unwrap();
    assert!(open(A).is_none(), "somebody writes it");
    drop(writer);
    scene.write(A, "another");
    assert!(open(A).is_none(), "it was changed");
}

fn own(offset: u64, text: &str) -> OwnLine {
    let (length, text) = (text.len() as u64, Some(text.as_bytes().to_vec()));
    let after = LogPosition { offset: offset + length + 1, ..LogPosition::default() };
    OwnLine { offset, length, text, after }
}

/// Returns the lines without what identifies their log.
fn plain(lines: Vec<OwnLine>) -> Vec<OwnLine> {
    let plain = |line: OwnLine| {
        let after = LogPosition { offset: line.after.offset, ..LogPosition::default() };
        OwnLine { after, ..line }
    };
    lines.into_iter().map(plain).collect()
}

#[test]
fn messages_follow_each_other_until_the_log_is_another() {
    let scene = Scene::new();
    let source = LocalSource::new(&scene.conversation);
    let start = LogPosition::default();
    assert_eq!(source.message_lines(&start).unwrap(), (Vec::new(), start));
    scene.write("history/messages.jsonl", "{\"a\":1}\n  \n{\"b\":2}\n{\"torn");
    let (lines, at) = source.message_lines(&start).unwrap();
    assert_eq!(plain(lines), [own(0, "{\"a\":1}"), own(11, "{\"b\":2}")]);
    assert_eq!(source.message_lines(&at).unwrap(), (Vec::new(), at));
    let log = scene.at("history/messages.jsonl");
    let mut open = fs::OpenOptions::new().append(true).open(&log).unwrap();
    open.write_all(b"\":3}\n").unwrap();
    let (lines, end) = source.message_lines(&at).unwrap();
    assert_eq!(plain(lines), [own(19, "{\"torn\":3}")]);
    assert!(end.offset > at.offset && (end.inode, end.born) == (at.inode, at.born));
    scene.write("history/other", "{\"c\":4}\n");
    fs::rename(scene.at("history/other"), log).unwrap();
    assert_eq!(plain(source.message_lines(&end).unwrap().0), [own(0, "{\"c\":4}")]);
}

#[test]
fn many_messages_come_in_parts() {
    let scene = Scene::new();
    let line = |digit: usize| format!("{{\"x\":\"{}\"}}\n", digit.to_string().repeat(3 << 20));
    let too_long = format!("{{\"x\":\"{}\"}}\n", "y".repeat(LINE_BYTES));
    let all = [line(1), too_long, line(2), line(3)].concat();
    scene.write("history/messages.jsonl", &all);
    let source = LocalSource::new(&scene.conversation);
    let (mut at, mut seen, mut too_long) = (LogPosition::default(), Vec::new(), Vec::new());
    loop {
        let (lines, next) = source.message_lines(&at).unwrap();
        if lines.is_empty() {
            break;
        }
        let (texts, others): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line.text.is_some());
        assert!(texts.len() <= 1, "two would be more than is taken at a time");
        seen.extend(texts.into_iter().map(|line| line.text.unwrap()[6]));
        too_long.extend(others.into_iter().map(|line| (line.offset, line.length)));
        at = next;
    }
    assert_eq!((seen.as_slice(), at.offset), (&b"123"[..], all.len() as u64));
    assert_eq!(too_long, [(line(1).len() as u64, LINE_BYTES as u64 + 8)]);
}
