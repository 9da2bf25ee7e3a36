//! The message log of a conversation that several hosts share, as the kernel sees it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::fixture::{Fixture, errno};
use crate::OpenMode;
use ctxfs_core::model::{Component, Content as _};
use ctxfs_engine::sync::Mutex;
use ctxfs_engine::{EngineOptions, Tree};
use ctxfs_store::Stat;
use ctxfs_store::message::{OtherMessages, Published};

const LOG: &str = "c1/history/messages.jsonl";

/// The messages of other hosts that a test sets: the lines, their edition, and the length of the
/// part of this host's log that they contain.
#[derive(Debug, Default)]
struct Said(Mutex<Option<(String, u64, u64)>>);

impl OtherMessages for Said {
    fn published(&self, _: &Component, _: &Stat) -> io::Result<Option<Arc<Published>>> {
        let Some((lines, edition, covers)) = self.0.lock().clone() else {
            return Ok(None);
        };
        let mut file = tempfile::tempfile()?;
        file.write_all(lines.as_bytes())?;
        let range = 0..lines.len() as u64;
        Ok(Some(Arc::new(Published::new(Arc::new(file), range, edition, covers))))
    }
}

struct Scene {
    fixture: Fixture,
    said: Arc<Said>,
}

fn line(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n")
}

impl Scene {
    /// Creates a conversation whose log on this host has the message `mine`.
    fn new() -> Self {
        let said = Arc::new(Said::default());
        let other_messages = Some(Arc::clone(&said) as Arc<dyn OtherMessages>);
        let fixture = Fixture::with(EngineOptions { other_messages, ..EngineOptions::default() });
        let scene = Self { fixture, said };
        fs::write(scene.plain(), line("mine")).unwrap();
        scene
    }

    fn plain(&self) -> PathBuf {
        self.fixture.dir.path().join("context").join(LOG)
    }

    fn say(&self, lines: &[&str], edition: u64, covers: u64) {
        let lines = lines.iter().map(|text| line(text)).collect();
        *self.said.0.lock() = Some((lines, edition, covers));
    }

    fn append(&self, text: &str) {
        let (fixture, entry) = (&self.fixture, self.fixture.find(LOG).unwrap());
        let flags = libc::O_WRONLY | libc::O_APPEND;
        let fh = fixture.open(entry.attr.ino, flags).unwrap().fh;
        let (mode, bytes) = (OpenMode { flags }, line(text));
        let written = fixture.fs.write(fh, entry.attr.size, bytes.as_bytes(), mode, None);
        assert_eq!(written.unwrap() as usize, bytes.len());
        fixture.close(fh);
    }

    /// Returns the inode number and the text of the log. Checks that the size was known before the
    /// open.
    fn log(&self) -> (u64, String) {
        let attr = self.fixture.find(LOG).unwrap().attr;
        let text = String::from_utf8(self.fixture.read_ino(attr.ino).unwrap()).unwrap();
        assert_eq!(attr.size, text.len() as u64);
        (attr.ino.0, text)
    }

    fn view(&self, name: &str) -> String {
        let ino = self.fixture.find(&format!("c1/history/{name}")).unwrap().attr.ino;
        let text = String::from_utf8(self.fixture.read_ino(ino).unwrap()).unwrap();
        assert_eq!(self.fixture.attr(ino).unwrap().size, text.len() as u64);
        text
    }
}

fn lines(texts: &[&str]) -> String {
    texts.iter().map(|text| line(text)).collect()
}

#[test]
fn what_others_said_is_no_hole() {
    let scene = Scene::new();
    fs::write(scene.plain(), "").unwrap();
    scene.say(&["theirs"], 1, 0);
    let attr = scene.fixture.find(LOG).unwrap().attr;
    assert_eq!((attr.size, attr.blocks), (line("theirs").len() as u64, 1));
}

#[test]
fn what_others_said_comes_first_and_what_is_appended_last() {
    let scene = Scene::new();
    let alone = scene.log();
    assert_eq!(alone.1, lines(&["mine"]));
    scene.say(&["theirs"], 1, 0);
    let (ino, text) = scene.log();
    assert!(ino != alone.0 && text == lines(&["theirs", "mine"]), "{text}");
    scene.append("more");
    assert_eq!(scene.log(), (ino, lines(&["theirs", "mine", "more"])));
    assert_eq!(fs::read_to_string(scene.plain()).unwrap(), lines(&["mine", "more"]));
    let covers = lines(&["mine", "more"]).len() as u64;
    scene.say(&["theirs", "mine", "more", "later"], 1, covers);
    assert_eq!(scene.log(), (ino, lines(&["theirs", "mine", "more", "later"])));
    assert_eq!(scene.fixture.attr(scene.fixture.find(LOG).unwrap().attr.ino).unwrap().ino.0, ino);
}

#[test]
fn who_has_the_log_open_keeps_it_when_a_message_comes_late() {
    let scene = Scene::new();
    scene.say(&["a", "b"], 1, 0);
    let old = scene.fixture.find(LOG).unwrap().attr.ino;
    let fh = scene.fixture.open(old, libc::O_RDONLY).unwrap().fh;
    scene.say(&["a", "late", "b"], 2, 0);
    let (new, text) = scene.log();
    assert!(new != old.0 && text == lines(&["a", "late", "b", "mine"]), "{text}");
    assert_eq!(scene.fixture.read_fh(fh), lines(&["a", "b", "mine"]).as_bytes());
    let size = scene.fixture.attr(old).unwrap().size;
    assert_eq!(size, lines(&["a", "b", "mine"]).len() as u64);
    scene.fixture.fs.release(fh).unwrap();
}

#[test]
fn views_are_of_what_all_said() {
    let scene = Scene::new();
    let tail = || scene.view("messages.jsonl.tail");
    assert_eq!(tail(), lines(&["mine"]));
    scene.say(&["theirs"], 1, 0);
    let all = lines(&["theirs", "mine"]);
    assert_eq!((tail(), scene.view("messages.jsonl.lines/1-2")), (all.clone(), all.clone()));
    assert_eq!(scene.view("messages.jsonl.grep/theirs").lines().count(), 1);
    let array = |text: &str| serde_json::from_str::<Vec<serde_json::Value>>(text).unwrap();
    assert_eq!(array(&scene.view("messages.json")).len(), 2);
    scene.say(&["others"], 2, 0);
    assert_eq!(tail(), lines(&["others", "mine"]));
    assert_eq!(array(&scene.view("messages.json"))[0]["content"], "others");
    scene.append("more");
    assert_eq!(tail(), lines(&["others", "mine", "more"]));
}

#[test]
fn a_log_is_only_appended_to() {
    let scene = Scene::new();
    scene.say(&["theirs"], 1, 0);
    let attr = scene.fixture.find(LOG).unwrap().attr;
    assert_eq!(errno(scene.fixture.set_len(attr.ino, 0)), libc::EPERM);
    scene.fixture.set_len(attr.ino, attr.size).unwrap();
    assert_eq!(fs::read_to_string(scene.plain()).unwrap(), lines(&["mine"]));
    let fh = scene.fixture.open(attr.ino, libc::O_WRONLY).unwrap().fh;
    assert_eq!(errno(scene.fixture.write(fh, 0, b"{}\n")), libc::EPERM);
    scene.fixture.write(fh, attr.size, line("more").as_bytes()).unwrap();
    scene.fixture.close(fh);
    assert_eq!(scene.log().1, lines(&["theirs", "mine", "more"]));
}

#[test]
fn both_doors_show_the_same() {
    let scene = Scene::new();
    scene.say(&["theirs"], 1, 0);
    let tree = Tree::new(Arc::clone(scene.fixture.fs.engine()));
    for name in ["messages.jsonl", "messages.json", "messages.jsonl.tail", "messages.jsonl.head"] {
        let opened = tree.open(&Path::new("c1/history").join(name)).unwrap();
        let text = opened.bytes(0, opened.len() as usize).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), scene.view(name), "{name}");
    }
}
