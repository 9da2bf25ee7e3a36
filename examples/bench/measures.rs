//! Measurements. Each function runs one round in one place.

use std::fs;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::place::Place;
use crate::table::Table;

pub(crate) const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
/// Bytes of the large files.
const LARGE: usize = 256 * MIB;
/// Number of listed and searched artifacts.
const LISTED: usize = 10_000;

/// Returns the seconds that `work` takes.
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Measures throughput, with bytes that need no analysis.
pub(crate) fn large_file(place: &Place, round: usize, table: &mut Table) {
    let name = format!("large-{round}");
    let dir = place.fresh(&name);
    let buffer = vec![b'\n'; MIB + 2 * PAGE];
    let aligned = buffer.as_ptr().align_offset(PAGE);
    let rows = [
        ("256 MB written in 1 MiB, from a buffer between two pages", aligned + PAGE / 2),
        ("256 MB written in 1 MiB, from whole pages", aligned),
    ];
    for (what, start) in rows {
        let path = dir.join(format!("{start}.bin"));
        let block = &buffer[start..start + MIB];
        let time = seconds(|| {
            let mut file = File::create_new(&path).unwrap();
            for _ in 0..LARGE / MIB {
                file.write_all(block).unwrap();
            }
        });
        table.add(what, "ms", place.kind, time * 1e3);
    }
    let path = dir.join(format!("{aligned}.bin"));
    let rows = [
        ("256 MB read in 1 MiB", MIB),
        ("256 MB read again in 1 MiB", MIB),
        ("256 MB read again in 64 KiB", 64 << 10),
        ("256 MB read again in 4 KiB", 4 << 10),
    ];
    for (what, size) in rows {
        let mut block = vec![0; size];
        let time = seconds(|| {
            let mut file = File::open(&path).unwrap();
            while file.read(&mut block).unwrap() > 0 {
                black_box(&block);
            }
        });
        table.add(what, "ms", place.kind, time * 1e3);
    }
    place.clear(&name);
}

/// Creates the artifacts that [`conversation`] searches.
pub(crate) fn fill_conversation(place: &Place) {
    let dir = place.fresh("searched");
    for number in 0..LISTED {
        let mut output = log(20_000, 10);
        if number % 100 == 7 {
            output.extend_from_slice(b"connection timeout\n");
        }
        fs::write(dir.join(format!("{number}.txt")), &output).unwrap();
    }
}

/// Measures searches of 10,000 artifacts of 20 KB, for a word that few have and one that all have.
pub(crate) fn conversation(place: &Place, table: &mut Table) {
    let dir = place.folder("searched");
    let rows = [
        (
            "10,000 artifacts of 20 KB: `.grep/timeout`, in 100 of them (plain: `rg -n timeout`)",
            "10,000 artifacts of 20 KB: `.grep/timeout` again",
            "timeout",
        ),
        (
            "10,000 artifacts of 20 KB: `.grep/ERROR`, in all of them (plain: `rg -n ERROR`)",
            "10,000 artifacts of 20 KB: `.grep/ERROR` again",
            "ERROR",
        ),
    ];
    for (first, again, word) in rows.into_iter().filter(|_| !place.is_bare()) {
        // This change invalidates the cached result of the last search.
        fs::write(dir.join("new.txt"), word).unwrap();
        place.settle();
        for what in [first, again] {
            let time = if place.has_views() {
                seconds(|| run(&["cat"], &dir.join(".grep").join(word)))
            } else {
                seconds(|| run(&["rg", "-n", word], &dir))
            };
            table.add(what, "ms", place.kind, time * 1e3);
        }
    }
    let time = seconds(|| run(&["rg", "-n", "timeout"], &dir));
    table.add(
        "10,000 artifacts of 20 KB: `rg -n timeout` on the files",
        "ms",
        place.kind,
        time * 1e3,
    );
}

/// Creates the artifacts that [`listing`] lists.
pub(crate) fn fill(place: &Place) {
    let dir = place.fresh("listed");
    for number in 0..LISTED {
        fs::write(dir.join(format!("{number}.txt")), b"a short output\n").unwrap();
    }
}

/// Measures the listing of 10,000 artifacts; a mount lists three views beside each.
pub(crate) fn listing(place: &Place, table: &mut Table) {
    let dir = place.folder("listed");
    let time = seconds(|| {
        let found = fs::read_dir(&dir).unwrap().flatten().count();
        assert!(found >= LISTED);
    });
    table.add("10,000 artifacts: names", "ms", place.kind, time * 1e3);
    let time = seconds(|| {
        for entry in fs::read_dir(&dir).unwrap() {
            black_box(entry.unwrap().metadata().unwrap().len());
        }
    });
    table.add("10,000 artifacts: names and sizes, as `ls -l`", "ms", place.kind, time * 1e3);
}

/// Reports the peak memory of the daemon over all measurements.
pub(crate) fn memory(place: &Place, table: &mut Table) {
    if let Some(memory) = place.memory() {
        table.add("resident memory of the daemon, at most", "MB", place.kind, memory);
    }
}

/// Runs `program PATH` and reads its output through a pipe, as an agent does.
pub(crate) fn run(program: &[&str], path: &Path) {
    let mut command = Command::new(program[0]);
    let output = command.args(&program[1..]).arg(path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
}

/// Returns a log of exactly `bytes` bytes. Every line whose number is a multiple of `errors` is an
/// error.
pub(crate) fn log(bytes: usize, errors: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 100);
    for number in 1.. {
        let level = if number % errors == 0 { "ERROR" } else { "INFO" };
        writeln!(text, "2026-01-13T15:30:45.{number:06}Z {level} worker: request {number} done")
            .unwrap();
        if text.len() >= bytes {
            break;
        }
    }
    text.truncate(bytes - 1);
    text.push(b'\n');
    text
}
