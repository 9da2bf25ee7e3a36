//! Views are cheap to look up, computed once and never changed.

use std::ffi::OsStr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use super::fixture::{Fixture, ME, errno};
use ctxfs_engine::EngineOptions;

fn computed(fixture: &Fixture) -> u64 {
    fixture.fs.engine().counters().views_computed.load(Relaxed)
}

/// Returns enough lines that a view of them is computed on a worker.
fn large() -> Vec<u8> {
    "a line of some length, to be searched\n".repeat(10_000).into_bytes()
}

#[test]
fn finding_a_view_computes_nothing_and_asking_its_size_does() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\ntwo\n");
    fixture.settle();
    let before = computed(&fixture);
    let found = fixture.lookup("a.txt.grep/t").unwrap();
    assert_eq!((found.attr.size, found.attr_ttl), (0, Duration::ZERO));
    assert_eq!(computed(&fixture), before);
    let attr = fixture.attr(found.attr.ino).unwrap();
    // The permissions are those of the file, which only its owner may read.
    assert_eq!((attr.size, attr.perm), (6, 0o400));
    assert_eq!(fixture.read_ino(found.attr.ino).unwrap(), b"2:two\n");
    assert_eq!(computed(&fixture), before + 1);
    let again = fixture.lookup("a.txt.grep/t").unwrap();
    assert_eq!((again.attr.ino, again.attr.size), (found.attr.ino, 6));
    assert!(!again.attr_ttl.is_zero());
    assert!(again.entry_ttl.is_zero());
}

#[test]
fn a_view_has_one_number_a_generation() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, b"one\n").unwrap();
    let live = fixture.ino("a.txt.tail");
    assert_eq!(fixture.ino("a.txt.tail"), live);
    fixture.close(fh);
    fixture.settle();
    assert_eq!(fixture.ino("a.txt.tail"), live, "sealing changes nothing");
    assert_ne!(fixture.ino("a.txt.head"), live);
    let fh = fixture.open(fixture.ino("a.txt"), libc::O_WRONLY).unwrap().fh;
    fixture.write(fh, 0, b"two\n").unwrap();
    assert_ne!(fixture.ino("a.txt.tail"), live, "as long, and another text");
    fixture.close(fh);
}

/// Holds even if no client looks up the file itself.
#[test]
fn a_view_that_is_known_is_computed_once() {
    let fixture = Fixture::new();
    let file = fixture.put("a.txt", b"one\n");
    fixture.settle();
    // Two look-ups are counted: one for the creation and one for the look-up itself.
    fixture.fs.forget(file, 2);
    let before = computed(&fixture);
    let view = fixture.ino("a.txt.grep/o");
    assert_eq!(fixture.read_ino(view).unwrap(), b"1:one\n");
    assert_eq!(fixture.ino("a.txt.grep/o"), view);
    assert_eq!(fixture.text("a.txt.grep/o"), "1:one\n");
    assert_eq!(computed(&fixture), before + 1);
}

#[test]
fn a_view_that_is_known_keeps_its_bytes() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    let view = fixture.ino("a.txt.tail");
    let fh = fixture.open(view, libc::O_RDONLY).unwrap().fh;
    fixture.set_len(ino, 2).unwrap();
    assert_eq!(fixture.read_fh(fh), b"one\n");
    assert_eq!(fixture.read_ino(view).unwrap(), b"one\n");
    fixture.drop_text(view);
    assert_eq!(errno(fixture.open(view, libc::O_RDONLY)), libc::ESTALE);
    assert_eq!(fixture.read_fh(fh), b"one\n");
    fixture.fs.release(fh).unwrap();
    assert_eq!(fixture.text("a.txt.tail"), "on");
}

#[test]
fn a_view_that_was_dropped_comes_back_only_as_it_was() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    let exit = OsStr::new("user.ctx.exit_code");
    fixture.fs.setxattr(ino, exit, b"1", 0).unwrap();
    let view = fixture.ino("a.txt.meta.json");
    let bytes = fixture.read_ino(view).unwrap();
    fixture.drop_text(view);
    assert_eq!(fixture.read_ino(view).unwrap(), bytes);
    // A different text of the same length.
    fixture.fs.setxattr(ino, exit, b"2", 0).unwrap();
    fixture.drop_text(view);
    assert_eq!(errno(fixture.open(view, libc::O_RDONLY)), libc::ESTALE);
    assert_eq!(fixture.meta("a.txt")["exit_code"], 2);
}

#[test]
fn a_view_that_ran_out_of_time_is_tried_again() {
    let options = EngineOptions { view_deadline: Duration::ZERO, ..EngineOptions::default() };
    let fixture = Fixture::with(options);
    fixture.put("a.txt", &large().repeat(20));
    let first = fixture.ino("a.txt.grep/nowhere");
    assert!(fixture.read_ino(first).unwrap().starts_with(b"# "));
    assert_ne!(fixture.ino("a.txt.grep/nowhere"), first);
    assert!(fixture.fs.engine().counters().views_out_of_time.load(Relaxed) > 0);
}

#[test]
fn many_who_ask_at_once_get_one_computation() {
    for _ in 0..20 {
        let fixture = Arc::new(Fixture::new());
        fixture.put("a.txt", &large());
        fixture.settle();
        let view = fixture.ino("a.txt.grep/searched");
        let barrier = Arc::new(Barrier::new(8));
        let ask = |_| {
            let (fixture, barrier) = (Arc::clone(&fixture), Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                fixture.attr(view).unwrap().size
            })
        };
        let threads: Vec<_> = (0..8).map(ask).collect();
        let sizes: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(sizes.iter().all(|size| *size == sizes[0] && *size > 0), "{sizes:?}");
        assert_eq!(computed(&fixture), 1);
    }
}

/// A caller that requests a view may panic. The worker that computed the view survives.
#[test]
fn a_panic_is_contained() {
    let fixture = Fixture::new();
    fixture.put("a.txt", &large());
    for asked in 0..8 {
        let view = fixture.ino(&format!("a.txt.grep/{asked}"));
        let (send, receive) = mpsc::channel::<()>();
        fixture.fs.getattr(view, ME, move |_| {
            let _dropped = send;
            panic!("a reply that fails");
        });
        receive.recv().unwrap_err();
    }
    assert_eq!(fixture.text("a.txt.lines/10000"), "a line of some length, to be searched\n");
}

#[test]
fn every_size_is_exact() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"{\"a\": [1, 2, 3]}\n");
    fixture.put("empty.txt", b"");
    fixture.put("binary.bin", b"\x7fELF\0\0\0\x01");
    let views = [
        ".summary",
        ".tail",
        ".head",
        ".lines/1",
        ".pages/0001",
        ".grep/a",
        ".meta.json",
        ".ref.json",
    ];
    for name in ["a.json", "empty.txt", "binary.bin"] {
        for view in views {
            let Ok(found) = fixture.lookup(&format!("{name}{view}")) else {
                panic!("{name}{view}")
            };
            let Ok(attr) = fixture.attr(found.attr.ino) else {
                // An empty file has neither a first line nor a page.
                assert_eq!(name, "empty.txt");
                assert!([".lines/1", ".pretty", ".pages/0001"].contains(&view), "{view}");
                continue;
            };
            let bytes = fixture.read_ino(found.attr.ino).unwrap();
            assert_eq!(attr.size, bytes.len() as u64, "{name}{view}");
        }
    }
}

#[test]
fn pages_are_listed_and_only_they_are_there() {
    let fixture = Fixture::new();
    let file = fixture.put("a.txt", &large());
    let names = fixture.list(fixture.ino("a.txt.pages"));
    assert_eq!(names.len(), 76);
    assert_eq!((names[0].as_str(), names[75].as_str()), ("0001", "0076"));
    let page = |name: &String| fixture.read(&format!("a.txt.pages/{name}")).unwrap();
    assert!(names.iter().flat_map(page).eq(large()));
    let beyond = fixture.ino("a.txt.pages/0077");
    assert_eq!(errno(fixture.attr(beyond)), libc::ENOENT);
    assert_eq!(errno(fixture.lookup("a.txt.pages/77")), libc::ENOENT);
    fixture.set_len(file, 0).unwrap();
    assert!(fixture.list(fixture.ino("a.txt.pages")).is_empty());
}

/// Ten gigabytes have two million pages. Their names are generated on demand, from any position.
#[test]
fn a_listing_of_pages_takes_no_memory() {
    let fixture = Fixture::new();
    let file = fixture.put("a.txt", b"x");
    fixture.set_len(file, 10_000_000_000).unwrap();
    let pages = fixture.ino("a.txt.pages");
    let fh = fixture.opendir(pages).unwrap();
    for (offset, expected) in [(2, "0001"), (1_000_001, "1000000"), (2_000_001, "2000000")] {
        let mut first = None;
        let take = |listed: crate::ListedName<'_>| {
            first = Some((listed.name.to_str().unwrap().to_owned(), listed.next));
            true
        };
        fixture.fs.readdir(pages, fh, offset, take).unwrap();
        assert_eq!(first, Some((expected.to_owned(), offset + 1)));
    }
    fixture.fs.readdir(pages, fh, 2_000_002, |_| panic!("there are no more")).unwrap();
    fixture.fs.releasedir(fh).unwrap();
}

#[test]
fn a_view_cannot_be_changed() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    let view = fixture.ino("a.txt.tail");
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC] {
        assert_eq!(errno(fixture.open(view, flags)), libc::EPERM);
    }
    assert_eq!(errno(fixture.set_len(view, 0)), libc::EPERM);
    let name = OsStr::new("user.x");
    assert_eq!(errno(fixture.fs.setxattr(view, name, b"1", 0)), libc::EPERM);
    assert_eq!(errno(fixture.fs.getxattr(view, name)), libc::ENODATA);
    assert_eq!(fixture.fs.listxattr(view).unwrap(), b"");
}

#[test]
fn without_a_program_for_them_no_filter_runs() {
    let fixture = Fixture::new();
    fixture.put("a.json", b"{\"a\": 1}\n");
    assert_eq!(fixture.read("a.json.jq/.a").unwrap(), b"# filters cannot run here\n");
}

#[test]
fn a_program_that_is_no_filter_is_said_to_have_failed() {
    let run = |command: &[&str]| {
        let filter_command = Some(command.iter().map(|word| (*word).into()).collect());
        let fixture = Fixture::with(EngineOptions { filter_command, ..EngineOptions::default() });
        fixture.put("a.json", b"{\"a\": 1}\n");
        fixture.read("a.json.jq/.a")
    };
    assert_eq!(run(&["sh", "-c", "echo why >&2; exit 3"]).unwrap(), b"# the filter failed (why)\n");
    let killed = b"# the filter failed (signal: 15 (SIGTERM))\n";
    assert_eq!(run(&["sh", "-c", "kill $$"]).unwrap(), killed);
    assert!(run(&["echo", "no frame"]).is_err());
    assert!(run(&["/nowhere/at/all"]).is_err());
}
