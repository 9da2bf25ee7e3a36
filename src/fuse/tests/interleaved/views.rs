//! Views: one computation serves many readers, and no text is older than the bytes before the
//! look-up.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::super::fixture::Fixture;
use super::{Work, together, under_schedules};
use crate::Ino;
use ctxfs_engine::sync::atomic::AtomicU64;

fn computed(fixture: &Fixture) -> u64 {
    fixture.fs.engine().counters().views_computed.load(Relaxed)
}

/// Returns a filesystem with the sealed artifact `a.txt`.
fn with_artifact() -> Arc<Fixture> {
    let fixture = Arc::new(Fixture::new());
    fixture.put("a.txt", b"one\ntwo\n");
    fixture.settle();
    fixture
}

fn reads(ino: Ino, expected: &'static [u8]) -> Work {
    Box::new(move |fixture| assert_eq!(fixture.read_ino(ino).unwrap(), expected))
}

#[test]
fn many_readers_need_one_computation() {
    under_schedules(|| {
        let fixture = with_artifact();
        let view = fixture.ino("a.txt.tail");
        let before = computed(&fixture);
        let asks_size: Work = Box::new(move |fixture| {
            assert_eq!(fixture.attr(view).unwrap().size, 8);
        });
        let expected = b"one\ntwo\n";
        together(&fixture, vec![reads(view, expected), asks_size, reads(view, expected)]);
        assert_eq!(computed(&fixture), before + 1);
    });
}

/// Both computations run on the pool, and one needs the text of the other.
#[test]
fn a_view_of_a_view_waits_for_its_text() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        fixture.put("a.json", b"{\"id\": 1}\n");
        fixture.settle();
        let before = computed(&fixture);
        let pretty = fixture.ino("a.json.pretty");
        let search = fixture.ino("a.json.pretty.grep/id");
        let found = b"2:  \"id\": 1\n";
        let text = b"{\n  \"id\": 1\n}\n";
        together(&fixture, vec![reads(search, found), reads(pretty, text), reads(search, found)]);
        assert_eq!(computed(&fixture), before + 2);
    });
}

#[test]
fn nobody_waits_for_a_computation_that_failed() {
    under_schedules(|| {
        let fixture = with_artifact();
        let view = fixture.ino("a.txt.head");
        std::fs::remove_file(fixture.plain("a.txt")).unwrap();
        let fails = || -> Work {
            Box::new(move |fixture| {
                let error = fixture.attr(view).unwrap_err().errno().0;
                assert!([libc::ENOENT, libc::ESTALE, libc::EIO].contains(&error), "{error}");
            })
        };
        together(&fixture, vec![fails(), fails(), fails()]);
        // The next file with the same name has views again.
        fixture.put("a.txt", b"three\n");
        assert_eq!(fixture.read("a.txt.head").unwrap(), b"three\n");
    });
}

/// Every text has the same length, and many have the same time.
#[test]
fn a_view_is_never_older_than_its_look_up() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
        fixture.write(fh, 0, b"0\n").unwrap();
        let written = Arc::new(AtomicU64::new(0));
        let mut work: Vec<Work> = (0..2).map(|_| looks(&written)).collect();
        work.push(Box::new(move |fixture| {
            for number in 1..=3 {
                fixture.write(fh, 0, format!("{number}\n").as_bytes()).unwrap();
                written.store(number, Relaxed);
            }
            fixture.close(fh);
        }));
        together(&fixture, work);
        fixture.settle();
        assert_eq!(fixture.text("a.txt.tail"), "3\n");
    });
}

/// Looks a view up repeatedly.
fn looks(written: &Arc<AtomicU64>) -> Work {
    let written = Arc::clone(written);
    Box::new(move |fixture| {
        for _ in 0..2 {
            let least = written.load(Relaxed);
            let number: u64 = fixture.text("a.txt.tail").trim().parse().unwrap();
            assert!(number >= least, "{number} was shown when {least} was written");
        }
    })
}
