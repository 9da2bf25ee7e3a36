//! Cached facts about a file are dropped as soon as they may be out of date.

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::XattrFlags;

use super::fixture::Fixture;
use crate::{Node, RenameMode};
use ctxfs_core::model::{Component, Record};
use ctxfs_engine::{EngineOptions, Source};
use ctxfs_store::{FileClock, Stat, Store, Time, set_attribute, stat_file};

/// Returns the facts version of `name` as if its last change was `seconds` seconds after the epoch.
fn version(fixture: &Fixture, name: &str, seconds: i64) -> u64 {
    let node = fixture.fs.0.nodes.get(fixture.ino(name)).unwrap();
    let stat = stat_file(File::open(fixture.plain(name)).unwrap()).unwrap();
    let changed = Time { seconds, nanos: 0 };
    facts(fixture, &node, &Stat { ctime: changed, ..stat })
}

fn facts(fixture: &Fixture, node: &Node, stat: &Stat) -> u64 {
    let file = Arc::clone(node.as_file().unwrap());
    Source::present(fixture.fs.engine(), file, stat, 0).unwrap().1.facts
}

/// Sets an attribute of `name` without the filesystem noticing.
fn say(fixture: &Fixture, name: &str, tool: &str) {
    let file = File::open(fixture.plain(name)).unwrap();
    let name = OsStr::new("user.ctx.tool");
    set_attribute(&file, name, tool.as_bytes(), XattrFlags::empty()).unwrap();
}

/// Adds a record of `name` as another process would.
fn record(fixture: &Fixture, name: &str, change: impl FnOnce(&mut Record)) {
    let store = Store::open(fixture.dir.path()).unwrap();
    let conversation = store.conversation(&Component::new("c1").unwrap()).unwrap().unwrap();
    let mut record = fixture.record(name).unwrap();
    change(&mut record);
    conversation.manifest().append(&[record]).unwrap();
}

#[test]
fn attributes_are_read_again_when_the_time_of_the_last_change_is_another() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    fixture.settle();
    let before = version(&fixture, "a.txt", 100);
    say(&fixture, "a.txt", "exec");
    assert_eq!(version(&fixture, "a.txt", 100), before, "remembered");
    let after = version(&fixture, "a.txt", 101);
    assert_ne!(after, before);
}

#[test]
fn a_change_of_just_now_is_not_relied_upon() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    fixture.settle();
    let fixture = Fixture::of(Fixture::serve(&fixture.dir, EngineOptions::default()), &fixture);
    fixture.fs.engine().store().date_by(FileClock::of_steps(Duration::from_hours(1)));
    let stat = stat_file(File::open(fixture.plain("a.txt")).unwrap()).unwrap();
    let node = fixture.fs.0.nodes.get(fixture.ino("a.txt")).unwrap();
    // Several changes within one step of the clock: the time stays the same, the attribute does
    // not.
    let mut seen = Vec::new();
    for tool in ["one", "two", "three"] {
        say(&fixture, "a.txt", tool);
        seen.push(facts(&fixture, &node, &stat));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn records_of_other_processes_are_seen() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    fixture.put("b.txt", b"one\n");
    fixture.settle();
    let before = version(&fixture, "a.txt", 100);
    record(&fixture, "b.txt", |record| record.generation += 1);
    assert_eq!(version(&fixture, "a.txt", 100), before);
    record(&fixture, "a.txt", |record| record.provenance.tool = Some("exec".into()));
    let provenance = version(&fixture, "a.txt", 100);
    assert_ne!(provenance, before);
    record(&fixture, "a.txt", |record| record.generation += 1);
    assert_ne!(version(&fixture, "a.txt", 100), provenance);
}

#[test]
fn a_writer_is_seen_while_it_writes_and_after() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    let first = version(&fixture, "a.txt", 100);
    let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
    let second = version(&fixture, "a.txt", 100);
    assert_ne!(second, first, "the next generation");
    fixture.close(fh);
    fixture.settle();
    assert_eq!(version(&fixture, "a.txt", 100), second, "sealing changes nothing");
}

#[test]
fn a_file_that_moves_is_another() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    fixture.settle();
    let before = version(&fixture, "a.txt", 100);
    fixture.rename("a.txt", "b.txt", RenameMode::Replace).unwrap();
    assert_ne!(version(&fixture, "b.txt", 100), before);
    fixture.rename("b.txt", "a.txt", RenameMode::Replace).unwrap();
    assert_eq!(version(&fixture, "a.txt", 100), before);
}
