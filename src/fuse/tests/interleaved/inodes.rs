//! Inode numbers: look-ups concurrent with forgets, renames and removals.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::super::fixture::{Fixture, ME, errno};
use super::{Work, together, under_schedules};
use crate::{Ino, RenameMode};

/// The errors for a name that is gone in the meantime or leads to a different file.
const GONE: [i32; 2] = [libc::ENOENT, libc::ESTALE];

/// Looks up `name`, uses its inode number, and forgets it.
fn visit(fixture: &Fixture, name: &str) {
    let found = match fixture.fs.lookup(fixture.tool, OsStr::new(name), ME) {
        Ok(found) => found.attr.ino,
        Err(error) => return assert!(GONE.contains(&error.errno().0), "{name}: {error}"),
    };
    let known = fixture.fs.0.nodes.get(found).expect("a number that is not forgotten");
    let lookups = known.lookups.load(Relaxed);
    assert!((1..100).contains(&lookups), "{name} is known {lookups} times");
    drop(known);
    match fixture.attr(found) {
        Ok(attr) => assert_eq!(attr.ino, found),
        Err(error) => assert_eq!(error.errno().0, libc::ESTALE, "{name}: {error}"),
    }
    fixture.fs.forget(found, 1);
}

fn visits(name: &'static str) -> Work {
    Box::new(move |fixture| (0..3).for_each(|_| visit(fixture, name)))
}

fn renames(from: &'static str, to: &'static str, mode: RenameMode) -> Work {
    Box::new(move |fixture| fixture.rename(from, to, mode).unwrap())
}

/// Returns a filesystem in which `names` were created, sealed and forgotten, and the number of its
/// nodes.
fn with_files(names: &[&str]) -> (Arc<Fixture>, usize) {
    let fixture = Arc::new(Fixture::new());
    for name in names {
        let ino = fixture.put(name, b"one\ntwo\n");
        // The kernel counts two look-ups: one for the creation and one for the look-up itself.
        fixture.settle();
        fixture.fs.forget(ino, 2);
        assert_eq!(errno(fixture.attr(ino)), libc::ESTALE, "{name} is still known");
    }
    let before = fixture.fs.status().nodes;
    (fixture, before)
}

/// With two threads, the last forget of one thread often removes the node that the other is about
/// to find.
#[test]
fn a_number_holds_until_it_is_forgotten() {
    under_schedules(|| {
        let (fixture, before) = with_files(&["a.txt"]);
        together(&fixture, vec![visits("a.txt"), visits("a.txt")]);
        assert_eq!(fixture.fs.status().nodes, before);
    });
}

#[test]
fn views_hold_the_number_of_their_file() {
    under_schedules(|| {
        let (fixture, before) = with_files(&["a.txt"]);
        together(&fixture, vec![visits("a.txt.tail"), visits("a.txt.tail"), visits("a.txt.grep")]);
        assert_eq!(fixture.fs.status().nodes, before);
    });
}

#[test]
fn a_number_never_leads_to_a_dead_name() {
    under_schedules(|| {
        let (fixture, before) = with_files(&["a.txt"]);
        let held = fixture.ino("a.txt");
        let work = vec![
            visits("a.txt"),
            renames("a.txt", "b.txt", RenameMode::Replace),
            visits("b.txt"),
            visits("a.txt.tail"),
        ];
        together(&fixture, work);
        assert_eq!(stands(&fixture, held).as_deref(), Some("b.txt"));
        assert_eq!(fixture.read_ino(held).unwrap(), b"one\ntwo\n");
        fixture.settle();
        fixture.fs.forget(held, 1);
        assert_eq!(fixture.fs.status().nodes, before);
    });
}

#[test]
fn two_that_change_places_know_where_they_are() {
    under_schedules(|| {
        let (fixture, before) = with_files(&["a.txt", "b.txt"]);
        let (a, b) = (fixture.ino("a.txt"), fixture.ino("b.txt"));
        let work =
            vec![visits("a.txt"), renames("a.txt", "b.txt", RenameMode::Exchange), visits("b.txt")];
        together(&fixture, work);
        assert_eq!(stands(&fixture, a).as_deref(), Some("b.txt"));
        assert_eq!(stands(&fixture, b).as_deref(), Some("a.txt"));
        fixture.settle();
        fixture.fs.forget(a, 1);
        fixture.fs.forget(b, 1);
        assert_eq!(fixture.fs.status().nodes, before);
    });
}

#[test]
fn a_removed_file_stands_nowhere() {
    under_schedules(|| {
        let (fixture, before) = with_files(&["a.txt"]);
        let held = fixture.ino("a.txt");
        let removes: Work = Box::new(|fixture| fixture.unlink("a.txt").unwrap());
        together(&fixture, vec![visits("a.txt"), removes, visits("a.txt.summary")]);
        assert_eq!(stands(&fixture, held), None);
        assert_eq!(errno(fixture.attr(held)), libc::ESTALE);
        fixture.settle();
        fixture.fs.forget(held, 1);
        assert_eq!(fixture.fs.status().nodes, before);
    });
}

/// Returns the current name of the node with this inode number.
fn stands(fixture: &Fixture, ino: Ino) -> Option<String> {
    let link = fixture.fs.0.nodes.get(ino).unwrap().as_file().unwrap().link.get()?;
    Some(link.name.into_string().unwrap())
}
