//! Runs that went wrong once, shrunk, on the core and on both kinds of mount.

use super::core;
use super::mount;
use super::operations::Ask;
use super::operations::How;
use super::operations::Mode::Exchange;
use super::operations::Op;
use super::operations::Op::Close;
use super::operations::Op::Exit;
use super::operations::Op::Mkdir;
use super::operations::Op::Open;
use super::operations::Op::Rename;
use super::operations::Op::Settle;
use super::operations::Op::View;

const A: &str = "c1/artifacts/tool/a";
const B: &str = "c1/artifacts/tool/b.txt";

fn check(ops: &[Op]) {
    core::check(ops);
    mount::check(false, ops);
    mount::check(true, ops);
}

const fn close(handle: usize) -> Op {
    Close { handle, late: 0 }
}

/// Its record stayed behind, under the directory's name.
#[test]
fn a_file_changes_places_with_a_directory() {
    check(&[Open(B, How::REPLACE), close(0), Settle, Mkdir(A), Rename(B, A, Exchange)]);
}

/// The records of the second one stayed where they were.
#[test]
fn directories_change_places() {
    let (first, second) = ("c1/artifacts/tool/sub", "c1/history");
    let inside = "c1/artifacts/tool/sub/a.txt";
    let ops = [Open(inside, How::REPLACE), close(0), Settle];
    check(&[&ops[..], &[Rename(first, second, Exchange)]].concat());
    check(&[&ops[..], &[Rename(second, first, Exchange)]].concat());
}

/// It took over what the writer of the other had said.
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
