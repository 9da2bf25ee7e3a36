//! Shrunk runs that found bugs, on the core and on both kinds of mount. The comments describe the
//! bugs.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use super::operations::Mode::{Exchange, Replace};
use super::operations::Op::{
    Close, Exit, Forget, Hold, Mkdir, Open, Rename, Settle, TruncatePath, Utimes, View, Write,
};
use super::operations::{Ask, How, Op, Text};
use super::{core, mount};
use crate::support::{Command, Mode as Kind, TestMount, within};

const A: &str = "c1/artifacts/tool/a";
const B: &str = "c1/artifacts/tool/b.txt";

fn check(ops: &[Op]) {
    core::check(ops);
    for kind in Kind::ALL {
        mount::check(kind, ops);
    }
}

const fn close(handle: usize) -> Op {
    Close { handle, late: 0 }
}

/// Its record stayed behind, under the directory's name.
#[test]
fn a_file_changes_places_with_a_directory() {
    check(&[Open(B, How::REPLACE), close(0), Settle, Mkdir(A), Rename(B, A, Exchange)]);
}

/// Its record told of other bytes than those of that time, and lost its analysis.
#[test]
fn an_attribute_follows_a_time() {
    check(&[Open(A, How::REPLACE), close(0), Settle, Utimes(A, 228_901_302), Exit(A, 1), Settle]);
}

/// The disk notes a rename as a change of the file, and its record does not follow that.
#[test]
fn an_attribute_follows_a_name_and_a_time() {
    let ops = [Open(B, How::REPLACE), close(0), Settle, Rename(B, A, Replace)];
    let time = Utimes(A, 1);
    check(&[&ops[..], &[time]].concat());
    check(&[&ops[..], &[time, Exit(A, 1)]].concat());
}

/// The records of the second directory stayed at their paths.
#[test]
fn directories_change_places() {
    let (first, second) = ("c1/artifacts/tool/sub", "c1/history");
    let inside = "c1/artifacts/tool/sub/a.txt";
    let ops = [Open(inside, How::REPLACE), close(0), Settle];
    check(&[&ops[..], &[Rename(first, second, Exchange)]].concat());
    check(&[&ops[..], &[Rename(second, first, Exchange)]].concat());
}

/// The directory was forgotten before the file that had been renamed into it, so the file was
/// recorded under its old path.
#[test]
fn directories_change_places_while_a_file_is_open() {
    let inside = "c1/artifacts/tool/sub/a.tail";
    let exchange = Rename("c1/artifacts/tool/sub", "c1/history", Exchange);
    check(&[Open(B, How::REPLACE), Rename(B, inside, Replace), Forget, exchange, close(0)]);
}

/// It took over the provenance of the other file.
#[test]
fn a_scratch_file_changes_places_with_an_artifact() {
    let scratch = "c1/artifacts/tool/x.tmp";
    let ops = [
        Open(A, How::REPLACE),
        Open(scratch, How::REPLACE),
        close(0),
        close(0),
        Exit(A, 3),
        Settle,
    ];
    check(&[&ops[..], &[Rename(A, scratch, Exchange), View(A, Ask::Meta)]].concat());
    check(&[&ops[..], &[Rename(scratch, A, Exchange), View(A, Ask::Meta)]].concat());
}

/// It was recorded without its analysis.
#[test]
fn a_file_that_is_created_for_reading() {
    check(&[Open(A, How { create: true, ..How::READ }), Exit(A, 0)]);
}

/// Its record said live for ever, under the old name of its directory.
#[test]
fn a_directory_moves_while_its_file_is_being_recorded() {
    for late in 0..8 {
        let ops = [Open(A, How::REPLACE), Rename("c1/artifacts/tool", "c1/history/a", Replace)];
        check(&[&ops[..], &[Close { handle: 0, late }]].concat());
    }
}

/// A file that was cut while it was being sealed kept the analysis of its old bytes.
#[test]
fn a_file_is_cut_while_it_is_being_sealed() {
    let text = Text::Lines(290);
    for _ in 0..8 {
        let ops = [Open(A, How::BOTH), Write { handle: 0, at: 0, text }, close(0)];
        check(&[&ops[..], &[TruncatePath(A, 18)]].concat());
    }
}

/// Its views still named the old path.
#[test]
fn views_know_that_a_directory_has_moved() {
    let ops = [Open(A, How::REPLACE), close(0), Settle, Hold(A, Ask::Meta)];
    let moved = "c1/history/a/a";
    let ops = [&ops[..], &[Rename("c1/artifacts/tool", "c1/history/a", Replace)]].concat();
    check(&[&ops[..], &[View(moved, Ask::Meta)]].concat());
}

/// Sealing counted as a change, because it recorded the attributes.
#[test]
fn views_keep_their_number_when_their_file_is_sealed() {
    let scratch = "c1/artifacts/tool/x.tmp";
    let hold = Hold(A, Ask::Tail);
    check(&[Open(A, How::REPLACE), Exit(A, 1), hold, close(0), Settle, hold]);
    let ops = [Open(scratch, How::REPLACE), Exit(scratch, 1), close(0), Settle];
    check(&[&ops[..], &[Rename(scratch, A, Replace), hold, Settle, hold]].concat());
}

/// Starting the program closed a copy of the descriptor in the middle of execve, where the kernel
/// lets nobody look at the process. The daemon looked, to learn if it was being killed, and both
/// waited.
#[test]
fn a_program_starts_while_an_artifact_is_open() {
    let mount = TestMount::new(Kind::Cached);
    let path = mount.tool("c1").join("a.txt");
    let started = within(Duration::from_secs(10), move || {
        let mut file = File::create(&path).unwrap();
        for _ in 0..50 {
            file.write_all(b"line\n").unwrap();
            assert_eq!(Command::new("true").run().code, 0);
        }
    });
    assert_eq!(started, Some(()));
}
