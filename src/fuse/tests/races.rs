//! Concurrent operations of many threads.

use std::ffi::OsStr;
use std::sync::Arc;
use std::thread;

use super::fixture::{Fixture, ME};
use crate::Ino;

const THREADS: usize = 4;
const ROUNDS: usize = 400;

/// Runs `work` on several threads. Each thread gets its number.
fn together(fixture: &Arc<Fixture>, work: fn(&Fixture, usize)) {
    let run = |number| {
        let fixture = Arc::clone(fixture);
        thread::spawn(move || (0..ROUNDS).for_each(|_| work(&fixture, number)))
    };
    let threads: Vec<_> = (0..THREADS).map(run).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Looks up a name, uses its inode number, and forgets it.
fn visit(fixture: &Fixture, parent: Ino, name: &str) {
    let found = fixture.fs.lookup(parent, OsStr::new(name), ME).unwrap();
    fixture.attr(found.attr.ino).unwrap();
    fixture.fs.forget(found.attr.ino, 1);
}

#[test]
fn a_number_holds_from_its_lookup_until_it_is_forgotten() {
    let fixture = Arc::new(Fixture::new());
    let file = fixture.put("a.txt", b"one\ntwo\n");
    fixture.settle();
    // Two look-ups are counted: one for the creation and one for the look-up itself.
    fixture.fs.forget(file, 2);
    let before = fixture.fs.status();
    together(&fixture, |fixture, number| {
        visit(fixture, fixture.tool, ["a.txt", "a.txt.tail", "a.txt.grep"][number % 3]);
    });
    assert_eq!(fixture.fs.status(), before);
}

#[test]
fn writers_and_readers_of_one_artifact() {
    let fixture = Arc::new(Fixture::new());
    let file = fixture.put("a.txt", b"one\n");
    together(&fixture, |fixture, number| {
        if number == 0 {
            let ino = fixture.ino("a.txt");
            let fh = fixture.open(ino, libc::O_WRONLY | libc::O_APPEND).unwrap().fh;
            let end = fixture.attr(ino).unwrap().size;
            fixture.write(fh, end, b"two\n").unwrap();
            fixture.close(fh);
        } else {
            let text = fixture.text("a.txt.tail");
            assert!(text.ends_with('\n') && text.len() % 4 == 0, "{text:?}");
        }
    });
    fixture.settle();
    let size = fixture.attr(file).unwrap().size;
    assert_eq!(size, 4 + 4 * ROUNDS as u64);
    let record = fixture.record("a.txt").unwrap();
    assert_eq!((record.size, record.analysis.unwrap().bytes), (size, size));
}

#[test]
fn names_come_and_go() {
    let fixture = Arc::new(Fixture::new());
    together(&fixture, |fixture, number| {
        let (name, other) = (format!("{number}.txt"), format!("{number}.log"));
        fixture.put(&name, b"one\n");
        fixture.rename(&name, &other, crate::RenameMode::Replace).unwrap();
        assert_eq!(fixture.text(&format!("{other}.tail")), "one\n");
        fixture.unlink(&other).unwrap();
    });
    fixture.settle();
    assert_eq!(fixture.list(fixture.tool), Vec::<String>::new());
    for number in 0..THREADS {
        assert_eq!(fixture.record(&format!("{number}.txt")), None);
        assert_eq!(fixture.record(&format!("{number}.log")), None);
    }
}

/// Only the bytes change, while other threads search.
#[test]
fn a_search_sees_what_was_written_before_it() {
    let fixture = Arc::new(Fixture::new());
    let folder = OsStr::new("folder");
    fixture.fs.mkdir(fixture.tool, folder, 0o700, super::fixture::ME).unwrap();
    let logs = ["a.log", "b.log"].map(|name| fixture.create(name, libc::O_WRONLY).unwrap());
    fixture.settle();
    let count = |fixture: &Fixture, log: &str| {
        let found = fixture.text(".grep/-c line");
        let mine = found.lines().find_map(|line| line.strip_prefix(log)?.strip_prefix(':'));
        mine.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    thread::scope(|scope| {
        for (log, fh) in ["a.log", "b.log"].into_iter().zip(logs) {
            let fixture = &fixture;
            scope.spawn(move || {
                for round in 0..ROUNDS as u64 {
                    fixture.write(fh, 5 * round, b"line\n").unwrap();
                    assert_eq!(count(fixture, log), round + 1);
                }
            });
        }
        scope.spawn(|| (0..ROUNDS).map(|_| count(&fixture, "a.log")).max());
    });
    for fh in logs {
        fixture.close(fh);
    }
}
