//! What is measured. Each function takes one round in one place.

use std::fs;
use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

use crate::place::Place;
use crate::table::Table;

const MIB: usize = 1 << 20;
/// Bytes of the large files.
const LARGE: usize = 256 * MIB;
/// Artifacts that are listed, and that are searched.
const LISTED: usize = 10_000;

/// Seconds that `work` takes.
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// 1,000 outputs of 4 KB, as tool calls leave them.
pub(crate) fn outputs(place: &Place, round: usize, table: &mut Table) {
    let output = log(4096, 10);
    let name = format!("outputs-{round}");
    let dir = place.fresh(&name);
    let time = seconds(|| {
        for number in 0..1000 {
            fs::write(dir.join(format!("{number}.txt")), &output).unwrap();
        }
    });
    table.add("1,000 outputs of 4 KB: create, write, close", "ms", place.kind, time * 1e3);
    place.clear(&name);
    if place.is_bare() {
        return;
    }

    let dir = place.fresh(&name);
    let view = if place.has_views() { ".summary" } else { "" };
    let time = seconds(|| {
        for number in 0..1000 {
            fs::write(dir.join(format!("{number}.txt")), &output).unwrap();
            black_box(fs::read(dir.join(format!("{number}.txt{view}"))).unwrap());
        }
    });
    let what = "the same, `.summary` read after each (plain: the file itself)";
    table.add(what, "ms", place.kind, time * 1e3);
    place.clear(&name);
}

/// A chatty writer.
pub(crate) fn small_writes(place: &Place, round: usize, table: &mut Table) {
    let name = format!("small-{round}");
    let path = place.fresh(&name).join("x.txt");
    let line = [b'x'; 80];
    let time = seconds(|| {
        let mut file = File::create(&path).unwrap();
        for _ in 0..5000 {
            file.write_all(&line).unwrap();
        }
    });
    table.add("5,000 writes of 80 bytes to one file", "ms", place.kind, time * 1e3);
    place.clear(&name);
}

/// Throughput, without anything to analyse in the bytes.
pub(crate) fn large_file(place: &Place, round: usize, table: &mut Table) {
    let name = format!("large-{round}");
    let path = place.fresh(&name).join("x.bin");
    let block = vec![b'\n'; MIB];
    let time = seconds(|| write(&path, &block));
    table.add("256 MB written in 1 MiB", "ms", place.kind, time * 1e3);
    for what in ["256 MB read", "256 MB read again"] {
        let mut block = vec![0; MIB];
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

/// A log of 256 MB and its views, beside the programs that they stand for.
pub(crate) fn large_log(place: &Place, round: usize, table: &mut Table) {
    let name = format!("log-{round}");
    let path = place.fresh(&name).join("x.txt");
    // So few errors that `.grep/` shows them all, and has to read all for it.
    let block = log(MIB, 10_000);
    let time = seconds(|| write(&path, &block));
    table.add("256 MB log: written in 1 MiB", "ms", place.kind, time * 1e3);
    let rows: [(&str, &[&str], &str); 6] = [
        ("256 MB log: `.summary` right after close (plain: `wc`)", &["wc"], ".summary"),
        ("256 MB log: `.summary` again (plain: `wc`)", &["wc"], ".summary"),
        ("256 MB log: `.tail` (plain: `tail -n 200`)", &["tail", "-n", "200"], ".tail"),
        ("256 MB log: `.tail` again", &["tail", "-n", "200"], ".tail"),
        ("256 MB log: `.grep/ERROR` (plain: `rg -n ERROR`)", &["rg", "-n", "ERROR"], ".grep/ERROR"),
        ("256 MB log: `.grep/ERROR` again", &["rg", "-n", "ERROR"], ".grep/ERROR"),
    ];
    for (what, program, view) in rows.into_iter().filter(|_| !place.is_bare()) {
        let time = if place.has_views() {
            let view = format!("{}{view}", path.display());
            seconds(|| run(&["cat"], Path::new(&view)))
        } else {
            seconds(|| run(program, &path))
        };
        table.add(what, "ms", place.kind, time * 1e3);
    }
    let time = seconds(|| run(&["rg", "-n", "ERROR"], &path));
    table.add("256 MB log: `rg -n ERROR` on the file itself", "ms", place.kind, time * 1e3);
    place.clear(&name);
}

/// Makes what [`conversation`] searches.
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

/// A search of 10,000 artifacts of 20 KB: of a word that few have, and of one that all have.
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
        // So that what is kept of the last search is of no use.
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

/// Makes what [`listing`] lists.
pub(crate) fn fill(place: &Place) {
    let dir = place.fresh("listed");
    for number in 0..LISTED {
        fs::write(dir.join(format!("{number}.txt")), b"a short output\n").unwrap();
    }
}

/// A directory of 10,000 artifacts; a mount lists three views beside each.
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

/// What the daemon held at most, over all of the above.
pub(crate) fn memory(place: &Place, table: &mut Table) {
    if let Some(memory) = place.memory() {
        table.add("resident memory of the daemon, at most", "MB", place.kind, memory);
    }
}

fn write(path: &Path, block: &[u8]) {
    let mut file = File::create(path).unwrap();
    for _ in 0..LARGE / block.len() {
        file.write_all(block).unwrap();
    }
}

/// Runs `program PATH`; its output goes through a pipe, as an agent reads it.
fn run(program: &[&str], path: &Path) {
    let mut command = Command::new(program[0]);
    let output = command.args(&program[1..]).arg(path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
}

/// A log of exactly `bytes`, with one error in so many lines.
fn log(bytes: usize, errors: usize) -> Vec<u8> {
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
