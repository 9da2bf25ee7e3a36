//! Analysis states: a limited number is kept, and each conversation gets a share.

use std::ffi::OsStr;

use super::fixture::{Fixture, ME};
use crate::{Fh, Ino, OpenMode};

/// Number of states that are kept.
const MOST: usize = 32;
const FILES: usize = 100;
/// Number of lines that make the analysis state of a file worth keeping.
const LINES: usize = 16_384;

/// Returns the number of bytes of a file that have been analysed.
fn seen(fixture: &Fixture, ino: Ino) -> u64 {
    fixture.fs.0.nodes.get(ino).unwrap().as_file().unwrap().state.analysed()
}

/// Writes a file without closing it, and reads its summary.
fn live(fixture: &Fixture, dir: &str, name: &str) -> (Ino, Fh) {
    let parent = fixture.find(dir).unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY };
    let (entry, opened) = fixture.fs.create(parent, OsStr::new(name), 0o600, mode, ME).unwrap();
    fixture.write(opened.fh, 0, "line\n".repeat(LINES).as_bytes()).unwrap();
    let view = fixture.find(&format!("{dir}/{name}.summary")).unwrap().attr.ino;
    assert!(!fixture.read_ino(view).unwrap().is_empty());
    (entry.attr.ino, opened.fh)
}

#[test]
fn one_conversation_does_not_push_out_another() {
    let fixture = Fixture::new();
    fixture.fs.mkdir(Ino::ROOT, OsStr::new("c2"), 0o700, ME).unwrap();
    let (other, _) = live(&fixture, "c2/artifacts/tool", "x.txt");
    let many: Vec<(Ino, Fh)> = (0..FILES)
        .map(|number| live(&fixture, "c1/artifacts/tool", &format!("{number}.txt")))
        .collect();
    let kept = many.iter().filter(|(ino, _)| seen(&fixture, *ino) > 0).count();
    assert_eq!(kept, MOST - 1);
    assert!(seen(&fixture, many[FILES - 1].0) > 0, "the one that was used last stays");
    assert!(seen(&fixture, other) > 0);
    // A file whose state was evicted is analysed again.
    let (first, fh) = many[0];
    assert_eq!(seen(&fixture, first), 0);
    fixture.write(fh, 5 * LINES as u64, b"another\n").unwrap();
    assert_eq!(fixture.meta("0.txt")["analysis"]["lines"], LINES + 1);
    for (_, fh) in &many {
        fixture.close(*fh);
    }
    fixture.settle();
    for number in [0, 50, FILES - 1] {
        let record = fixture.record(&format!("{number}.txt")).unwrap();
        assert!(record.analysis.is_some_and(|found| found.bytes == record.size), "{number}");
    }
}

/// Such a state would hold memory for as long as the kernel refers to the file, and would displace
/// the state of a larger file.
#[test]
fn the_analysis_of_a_short_file_is_not_kept() {
    let fixture = Fixture::new();
    let parent = fixture.find("c1/artifacts/tool").unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY };
    let (entry, opened) = fixture.fs.create(parent, OsStr::new("x.txt"), 0o600, mode, ME).unwrap();
    fixture.write(opened.fh, 0, b"line\n").unwrap();
    assert_eq!(fixture.meta("x.txt")["analysis"]["lines"], 1);
    assert_eq!(seen(&fixture, entry.attr.ino), 0);
    fixture.write(opened.fh, 5, b"another\n").unwrap();
    assert_eq!(fixture.meta("x.txt")["analysis"]["lines"], 2);
}

/// A file that is larger than one analysis step is sealed completely, even if its state is evicted
/// between two steps.
#[test]
fn what_is_pushed_out_is_sealed_all_the_same() {
    let fixture = Fixture::new();
    let large = "line of text\n".repeat(400_000);
    let names: Vec<String> = (0..3).map(|number| format!("large-{number}.txt")).collect();
    for name in &names {
        std::fs::write(fixture.plain(name), &large).unwrap();
        let fh = fixture.open(fixture.ino(name), libc::O_WRONLY).unwrap().fh;
        fixture.write(fh, 0, b"LINE").unwrap();
        fixture.close(fh);
    }
    for number in 0..MOST {
        live(&fixture, "c1/artifacts/tool", &format!("{number}.txt"));
    }
    fixture.settle();
    for name in &names {
        let record = fixture.record(name).unwrap();
        assert!(record.analysis.is_some_and(|found| found.bytes == large.len() as u64), "{name}");
    }
}
