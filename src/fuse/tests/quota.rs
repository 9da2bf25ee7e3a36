//! The quota of a conversation: which files count, when they count, and which writers it stops.

use std::ffi::OsStr;

use super::fixture::{Fixture, ME, errno};
use crate::{Fh, Ino, OpenMode, RenameMode, Result};
use ctxfs_engine::EngineOptions;
use ctxfs_engine::quota::fixture::of_new_conversation;

const MIB: u64 = 1 << 20;

/// Returns a filesystem whose conversation `c1` has 4 MiB left.
fn fixture() -> Fixture {
    let quota = Some(of_new_conversation(4 * MIB));
    Fixture::with(EngineOptions { quota, ..EngineOptions::default() })
}

/// Creates a file at a path below the root.
fn create(fixture: &Fixture, path: &str) -> Result<Fh> {
    let (dir, name) = path.rsplit_once('/').unwrap();
    let dir = fixture.find(dir)?.attr.ino;
    let mode = OpenMode { flags: libc::O_RDWR };
    Ok(fixture.fs.create(dir, OsStr::new(name), 0o600, mode, ME)?.1.fh)
}

fn mkdir(fixture: &Fixture, path: &str) -> Result<()> {
    let (dir, name) = path.rsplit_once('/').unwrap();
    let dir = fixture.find(dir)?.attr.ino;
    fixture.fs.mkdir(dir, OsStr::new(name), 0o700, ME).map(|_| ())
}

/// Writes blocks of 64 KiB from `offset` on until one is refused. Returns the number of bytes
/// written.
fn fill(fixture: &Fixture, fh: Fh, offset: u64) -> u64 {
    let mut written = 0;
    loop {
        match fixture.write(fh, offset + written, &vec![b'x'; 1 << 16]) {
            Ok(count) => written += u64::from(count),
            Err(error) => {
                assert_eq!(error.errno().0, libc::EDQUOT);
                return written;
            }
        }
        assert!(written < 64 * MIB, "nothing stops it");
    }
}

/// Checks that nearly the whole quota could be written, and no more.
fn check(written: u64) {
    assert!((3 * MIB..=4 * MIB).contains(&written), "{written}");
}

#[test]
fn every_file_counts_wherever_it_is() {
    for path in [
        "c1/artifacts/tool/x.txt",
        "c1/artifacts/tool/x.tmp",
        "c1/artifacts/tool/.x",
        "c1/artifacts/x",
        "c1/x",
        "c1/history/archive/x",
        "c1/history/summary/x",
        "c1/catalog/x",
        "c1/catalog/tools/x.json",
    ] {
        let fixture = fixture();
        let fh = create(&fixture, path).unwrap();
        check(fill(&fixture, fh, 0));
        let other = create(&fixture, "c1/artifacts/tool/other.txt");
        assert!(other.map_or(0, |fh| fill(&fixture, fh, 0)) < MIB / 2, "{path}");
        fixture.close(fh);
    }
}

#[test]
fn a_hole_counts_once_it_is_written() {
    let fixture = fixture();
    let fh = create(&fixture, "c1/artifacts/tool/x.txt").unwrap();
    let ino = fixture.ino("x.txt");
    fixture.set_len(ino, 200 * MIB).unwrap();
    check(fill(&fixture, fh, MIB));
    fixture.write(fh, MIB, &vec![b'y'; 1 << 20]).unwrap();
    // Makes another hole, far from the first.
    assert_eq!(errno(fixture.write(fh, 100 * MIB, &vec![b'x'; 1 << 20])), libc::EDQUOT);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fixture.fs.fallocate(fh, MIB, 2 * MIB, punch).unwrap();
    fixture.write(fh, 100 * MIB, &vec![b'x'; 1 << 20]).unwrap();
    // A new length takes no room, not even in the middle of a block.
    let blocks = (110 * MIB..).step_by(4096);
    let full = blocks.map(|at| fixture.write(fh, at, &[b'z'; 4096])).find(Result::is_err);
    assert_eq!(errno(full.unwrap()), libc::EDQUOT);
    fixture.set_len(ino, 200 * MIB + 1).unwrap();
    fixture.set_len(ino, 150 * MIB + 1).unwrap();
    fixture.close(fh);
}

#[test]
fn what_is_reserved_counts_and_can_be_written() {
    let fixture = fixture();
    let fh = create(&fixture, "c1/artifacts/tool/x.txt").unwrap();
    let allocate = |offset, length, mode| fixture.fs.fallocate(fh, offset, length, mode);
    assert_eq!(errno(allocate(0, 5 * MIB, 0)), libc::EDQUOT);
    allocate(0, 3 * MIB, 0).unwrap();
    assert_eq!(errno(allocate(3 * MIB, 2 * MIB, 0)), libc::EDQUOT);
    let other = create(&fixture, "c1/artifacts/tool/y.txt").unwrap();
    assert!(fill(&fixture, other, 0) <= MIB);
    for block in 0..3 {
        fixture.write(fh, block * MIB, &vec![b'x'; 1 << 20]).unwrap();
    }
    // Blocks beyond the end of a file could hide holes in it.
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    assert_eq!(errno(allocate(100 * MIB, 1, keep)), libc::EOPNOTSUPP);
    fixture.close(other);
    fixture.close(fh);
}

#[test]
fn directories_and_empty_files_count() {
    let fixture = fixture();
    let made =
        (0..100_000).take_while(|number| mkdir(&fixture, &format!("c1/catalog/{number}")).is_ok());
    let made = made.count() as u64;
    assert!((256..=4 * MIB / 512).contains(&made), "{made}");
    assert_eq!(errno(mkdir(&fixture, "c1/catalog/more")), libc::EDQUOT);
    let fixture = self::fixture();
    mkdir(&fixture, "c1/catalog/a").unwrap();
    let dir = fixture.find("c1/catalog/a").unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_RDONLY };
    let make = |number: u64| {
        let name = format!("{number}.tmp");
        let made = fixture.fs.create(dir, OsStr::new(&name), 0o600, mode, ME);
        made.map(|(_, opened)| fixture.close(opened.fh))
    };
    let made = (0..100_000).take_while(|number| make(*number).is_ok()).count() as u64;
    assert!((256..=4 * MIB / 512).contains(&made), "{made}");
    assert_eq!(errno(make(made + 1)), libc::EDQUOT);
}

#[test]
fn attributes_count() {
    let fixture = fixture();
    let fh = create(&fixture, "c1/artifacts/tool/x.txt").unwrap();
    fill(&fixture, fh, 0);
    let ino = fixture.ino("x.txt");
    let refused = (0..20).any(|number| {
        let name = format!("user.{number}");
        let set = fixture.fs.setxattr(ino, OsStr::new(&name), &[b'x'; 3000], 0);
        set.is_err_and(|error| error.errno().0 == libc::EDQUOT)
    });
    assert!(refused, "60,000 bytes of attributes fit into a full conversation");
    fixture.close(fh);
}

#[test]
fn what_is_unlinked_counts_until_it_is_closed() {
    for replace in [false, true] {
        let fixture = fixture();
        let fh = create(&fixture, "c1/artifacts/tool/x.txt").unwrap();
        fixture.write(fh, 0, &vec![b'x'; 1 << 20]).unwrap();
        if replace {
            fixture.put("y.txt", b"y");
            fixture.rename("y.txt", "x.txt", RenameMode::Replace).unwrap();
        } else {
            fixture.unlink("x.txt").unwrap();
        }
        // The file has no name left but can still be written.
        check(MIB + fill(&fixture, fh, MIB));
        let other = create(&fixture, "c1/artifacts/tool/z.txt");
        assert!(other.as_ref().map_or(0, |fh| fill(&fixture, *fh, 0)) < MIB / 2);
        fixture.close(fh);
        // The sealing thread may hold the file open for a moment.
        let other = other.or_else(|_| {
            std::iter::repeat_with(|| create(&fixture, "c1/artifacts/tool/z.txt"))
                .take(5000)
                .inspect(|_| std::thread::sleep(std::time::Duration::from_millis(1)))
                .find(Result::is_ok)
                .unwrap()
        });
        let other = other.unwrap();
        let mut written = fill(&fixture, other, 0);
        for _ in 0..5000 {
            if written >= 3 * MIB {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
            written += fill(&fixture, other, written);
        }
        check(written);
        fixture.close(other);
    }
}

#[test]
fn what_moves_to_another_conversation_counts_there() {
    let fixture = fixture();
    fixture.fs.mkdir(Ino::ROOT, OsStr::new("c2"), 0o700, ME).unwrap();
    let c2 = fixture.find("c2/artifacts/tool").unwrap().attr.ino;
    for name in ["x.txt", "y.txt"] {
        fixture.put(name, &vec![b'x'; 1 << 20]);
    }
    let full = create(&fixture, "c2/artifacts/tool/full.tmp").unwrap();
    fill(&fixture, full, 0);
    let to_c2 = |name: &str| {
        let name = OsStr::new(name);
        fixture.fs.rename(fixture.tool, name, c2, name, RenameMode::Replace)
    };
    assert_eq!(errno(to_c2("x.txt")), libc::EDQUOT);
    mkdir(&fixture, "c1/artifacts/tool/d").unwrap();
    fixture.rename("y.txt", "d.txt", RenameMode::Replace).unwrap();
    let d = fixture.find("c1/artifacts/tool/d").unwrap().attr.ino;
    let moved = fixture.fs.rename(
        fixture.tool,
        OsStr::new("d.txt"),
        d,
        OsStr::new("y"),
        RenameMode::Replace,
    );
    moved.unwrap();
    assert_eq!(errno(to_c2("d")), libc::EDQUOT);
    fixture.fs.unlink(c2, OsStr::new("full.tmp"), 0).unwrap();
    fixture.close(full);
    to_c2("x.txt").unwrap();
    to_c2("d").unwrap();
}

#[test]
fn many_writers_share_what_is_left() {
    let fixture = fixture();
    let handles: Vec<Fh> =
        (0..16).map(|n| create(&fixture, &format!("c1/artifacts/tool/{n}.txt")).unwrap()).collect();
    let written: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> =
            handles.iter().map(|fh| scope.spawn(|| fill(&fixture, *fh, 0))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    // Bytes of concurrent writes count twice for a moment.
    assert!((2 * MIB..=4 * MIB).contains(&written), "{written}");
    for fh in handles {
        fixture.close(fh);
    }
}

#[test]
fn a_message_log_counts() {
    let fixture = fixture();
    let history = fixture.find("c1/history").unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY | libc::O_APPEND };
    let name = OsStr::new("messages.jsonl");
    let log = fixture.fs.create(history, name, 0o600, mode, ME).unwrap().1.fh;
    let message = format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "x".repeat(1 << 16));
    let append = |text: &str| fixture.fs.write(log, 0, text.as_bytes(), mode, None);
    let appended = (0..100_000).take_while(|_| append(&message).is_ok()).count() as u64;
    check(appended << 16);
    assert_eq!(errno(append(&message)), libc::EDQUOT);
    fixture.fs.unlink(history, name, 0).unwrap();
    fixture.close(log);
    // A measurement of the disk does not find an unfinished line.
    let log = fixture.fs.create(history, name, 0o600, mode, ME).unwrap().1.fh;
    let part = "x".repeat(1 << 16);
    let append = |text: &str| fixture.fs.write(log, 0, text.as_bytes(), mode, None);
    append("{\"role\":\"user\",\"content\":\"").unwrap();
    let appended = (0..100_000).take_while(|_| append(&part).is_ok()).count() as u64;
    check(appended << 16);
    let other = create(&fixture, "c1/artifacts/tool/x.txt");
    assert!(other.map_or(0, |fh| fill(&fixture, fh, 0)) < MIB / 2);
    append("\"}\n").unwrap_or_default();
    fixture.fs.release(log).unwrap_or_default();
}

#[test]
fn a_removed_conversation_is_no_way_around_it() {
    let fixture = fixture();
    fixture.fs.mkdir(Ino::ROOT, OsStr::new("c2"), 0o700, ME).unwrap();
    let fh = create(&fixture, "c2/x").unwrap();
    let c2 = fixture.find("c2").unwrap().attr.ino;
    fixture.fs.unlink(c2, OsStr::new("x"), 0).unwrap();
    fixture.fs.rmdir(Ino::ROOT, OsStr::new("c2")).unwrap();
    let written = fill(&fixture, fh, 0);
    assert!(written <= 5 * MIB, "{written}");
    fixture.close(fh);
}

#[test]
fn a_file_above_its_cap_can_shrink_and_have_holes() {
    let options = EngineOptions { max_artifact: Some(MIB), ..EngineOptions::default() };
    let fixture = Fixture::with(options);
    std::fs::write(fixture.plain("x.txt"), vec![b'x'; 3 << 20]).unwrap();
    let ino = fixture.ino("x.txt");
    let fh = fixture.open(ino, libc::O_RDWR).unwrap().fh;
    let allocate = |offset, length, mode| fixture.fs.fallocate(fh, offset, length, mode);
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    allocate(2 * MIB, MIB, libc::FALLOC_FL_PUNCH_HOLE | keep).unwrap();
    allocate(2 * MIB, 8 * MIB, libc::FALLOC_FL_PUNCH_HOLE | keep).unwrap();
    allocate(MIB, 2 * MIB, keep).unwrap();
    assert_eq!(errno(allocate(2 * MIB, 2 * MIB, 0)), libc::EFBIG);
    assert_eq!(errno(allocate(2 * MIB, 2 * MIB, keep)), libc::EFBIG);
    fixture.write(fh, 2 * MIB, b"in place").unwrap();
    assert_eq!(errno(fixture.write(fh, 3 * MIB, b"x")), libc::EFBIG);
    fixture.set_len(ino, 2 * MIB).unwrap();
    assert_eq!(errno(fixture.set_len(ino, 3 * MIB)), libc::EFBIG);
    let zero = libc::FALLOC_FL_ZERO_RANGE;
    match allocate(MIB, MIB, zero) {
        Ok(()) => {}
        // Not every disk supports this.
        Err(error) => assert_eq!(error.errno().0, libc::EOPNOTSUPP),
    }
    fixture.close(fh);
}
