//! Files that another process moves or removes in the store while they are written through a mount.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::support::{Mode, TestMount, TestStore, eventually};

/// Returns the last record of a path in a conversation, or null.
fn record(mount: &TestMount, conversation: &str, path: &str) -> Value {
    let manifest = conversation_of(mount, conversation).join("manifest.jsonl");
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let records = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records.into_iter().find(|record| record["path"] == path).unwrap_or_default()
}

fn state(mount: &TestMount, conversation: &str, path: &str) -> String {
    record(mount, conversation, path)["state"].as_str().unwrap_or("none").to_owned()
}

fn conversation_of(mount: &TestMount, conversation: &str) -> PathBuf {
    mount.store().path().join("context").join(conversation)
}

fn tool(name: &str) -> String {
    format!("artifacts/tool/{name}")
}

/// Begins an artifact in `c7`, and waits until it is recorded as live.
fn begin(mount: &TestMount, name: &str) -> File {
    let mut file = File::create_new(mount.tool("c7").join(name)).unwrap();
    file.write_all(b"one\n").unwrap();
    eventually("it is live", || state(mount, "c7", &tool(name)) == "live");
    file
}

/// Ends an artifact of one line.
fn end(mut file: File) {
    file.write_all(b"two\n").unwrap();
    drop(file);
}

/// Waits until the artifact is recorded as sealed with both lines.
fn await_sealed(mount: &TestMount, conversation: &str, path: &str) -> Value {
    eventually("it is sealed", || {
        let record = record(mount, conversation, path);
        record["state"] == "sealed"
            && record["analysis"]["digest"] == blake3::hash(b"one\ntwo\n").to_hex().as_str()
    });
    record(mount, conversation, path)
}

#[test]
fn what_is_moved_while_it_is_written_is_recorded_where_it_is() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let file = begin(&mount, "a.txt");
        let created = record(&mount, "c7", &tool("a.txt"))["created"].clone();
        let (old, new) = (mount.store().plain("c7", "a.txt"), mount.store().plain("c7", "b.txt"));
        fs::rename(old, new).unwrap();
        end(file);
        let sealed = await_sealed(&mount, "c7", &tool("b.txt"));
        assert_eq!((&sealed["generation"], &sealed["created"]), (&Value::from(1), &created));
        assert_eq!(state(&mount, "c7", &tool("a.txt")), "gone", "{mode:?}");
    }
}

#[test]
fn a_look_up_moves_the_record_of_what_is_being_written() {
    let mount = TestMount::new(Mode::Passthrough);
    let file = begin(&mount, "a.txt");
    let sub = mount.store().plain("c7", "sub");
    fs::create_dir(&sub).unwrap();
    fs::rename(mount.store().plain("c7", "a.txt"), sub.join("b.txt")).unwrap();
    assert_eq!(fs::metadata(mount.tool("c7").join("sub/b.txt")).unwrap().len(), 4);
    eventually("it is live there", || state(&mount, "c7", &tool("sub/b.txt")) == "live");
    assert_eq!(state(&mount, "c7", &tool("a.txt")), "gone");
    end(file);
    await_sealed(&mount, "c7", &tool("sub/b.txt"));
}

#[test]
fn the_records_of_a_directory_that_is_moved_follow_where_it_is_written() {
    let mount = TestMount::new(Mode::Passthrough);
    fs::create_dir(mount.tool("c7").join("sub")).unwrap();
    let file = begin(&mount, "sub/a.txt");
    fs::rename(mount.store().plain("c7", "sub"), mount.store().plain("c7", "other")).unwrap();
    end(file);
    await_sealed(&mount, "c7", &tool("other/a.txt"));
    assert_eq!(state(&mount, "c7", &tool("sub/a.txt")), "gone");
}

#[test]
fn what_is_moved_to_another_conversation_is_recorded_there() {
    for options in [&[][..], &["--only", "c7"][..]] {
        let store = Arc::new(TestStore::new());
        store.put("c8", "other", b"other\n");
        let mount = TestMount::of(&store, Mode::Passthrough, options);
        let dir = match options {
            [] => mount.tool("c7"),
            _ => mount.path().join("artifacts/tool"),
        };
        let mut file = File::create_new(dir.join("a.txt")).unwrap();
        file.write_all(b"one\n").unwrap();
        eventually("it is live", || state(&mount, "c7", &tool("a.txt")) == "live");
        fs::rename(store.plain("c7", "a.txt"), store.plain("c8", "b.txt")).unwrap();
        end(file);
        eventually("it left", || state(&mount, "c7", &tool("a.txt")) == "gone");
        if options.is_empty() {
            await_sealed(&mount, "c8", &tool("b.txt"));
        } else {
            // This mount has nothing to do there.
            assert_eq!(state(&mount, "c8", &tool("b.txt")), "none");
        }
    }
}

#[test]
fn what_leaves_the_artifacts_or_the_store_is_recorded_nowhere() {
    let mount = TestMount::new(Mode::Passthrough);
    let archive = conversation_of(&mount, "c7").join("history/archive");
    let outside = mount.store().scratch("outside");
    for (number, to) in [archive.join("x"), outside.join("x")].into_iter().enumerate() {
        let name = format!("{number}.txt");
        let file = begin(&mount, &name);
        fs::rename(mount.store().plain("c7", &name), &to).unwrap();
        end(file);
        eventually("it left", || state(&mount, "c7", &tool(&name)) == "gone");
        assert_eq!(fs::read(&to).unwrap(), b"one\ntwo\n");
    }
    assert_eq!(state(&mount, "c7", "history/archive/x"), "none");
}

#[test]
fn what_is_removed_while_it_is_written_is_gone() {
    let mount = TestMount::new(Mode::Passthrough);
    let file = begin(&mount, "a.txt");
    fs::remove_file(mount.store().plain("c7", "a.txt")).unwrap();
    end(file);
    eventually("it is gone", || state(&mount, "c7", &tool("a.txt")) == "gone");
    // Others go on.
    end(begin(&mount, "a.txt"));
    await_sealed(&mount, "c7", &tool("a.txt"));
}

/// The new file at the old name is another one, whoever wrote it.
#[test]
fn a_file_at_the_old_name_keeps_its_own_record() {
    let mount = TestMount::new(Mode::Passthrough);
    let (file, name) = (begin(&mount, "a.txt"), tool("a.txt"));
    fs::rename(mount.store().plain("c7", "a.txt"), mount.store().plain("c7", "b.txt")).unwrap();
    // One that this mount writes.
    let mut other = File::create_new(mount.tool("c7").join("a.txt")).unwrap();
    other.write_all(b"one\n").unwrap();
    end(file);
    await_sealed(&mount, "c7", &tool("b.txt"));
    assert_eq!(state(&mount, "c7", &name), "live");
    end(other);
    await_sealed(&mount, "c7", &name);
    // One that another process puts there.
    let file = begin(&mount, "c.txt");
    fs::rename(mount.store().plain("c7", "c.txt"), mount.store().plain("c7", "d.txt")).unwrap();
    mount.store().put("c7", "c", b"another\n");
    end(file);
    await_sealed(&mount, "c7", &tool("d.txt"));
    let put = record(&mount, "c7", &tool("c.txt"));
    assert_eq!((&put["state"], &put["size"]), (&Value::from("sealed"), &Value::from(8)));
    // One that has no record.
    let file = begin(&mount, "e.txt");
    fs::rename(mount.store().plain("c7", "e.txt"), mount.store().plain("c7", "f.txt")).unwrap();
    fs::write(mount.store().plain("c7", "e.txt"), "another\n").unwrap();
    end(file);
    await_sealed(&mount, "c7", &tool("f.txt"));
    assert_eq!(state(&mount, "c7", &tool("e.txt")), "gone");
}

#[test]
fn what_replaces_another_artifact_is_its_next_generation() {
    let mount = TestMount::new(Mode::Passthrough);
    mount.artifact("c7", "b.txt", b"before\n");
    eventually("it is sealed", || state(&mount, "c7", &tool("b.txt")) == "sealed");
    for (name, generation) in [("a.txt", 2), (".scratch.tmp", 3)] {
        let mut file = File::create_new(mount.tool("c7").join(name)).unwrap();
        file.write_all(b"one\n").unwrap();
        if name == "a.txt" {
            eventually("it is live", || state(&mount, "c7", &tool(name)) == "live");
        }
        fs::rename(mount.store().plain("c7", name), mount.store().plain("c7", "b.txt")).unwrap();
        end(file);
        eventually("it is the next", || {
            record(&mount, "c7", &tool("b.txt"))["generation"] == generation
        });
        await_sealed(&mount, "c7", &tool("b.txt"));
    }
}
