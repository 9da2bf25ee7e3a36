//! Reads of the attributes, bytes and names of many small files, and small writes.

use std::fs;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::measures::{log, run, seconds};
use crate::place::Place;
use crate::table::Table;

/// Number of listed and searched artifacts.
const ARTIFACTS: usize = 10_000;
/// Number of artifacts that are read one by one. `PASSES` is the number of reads of each.
const LOOKED_AT: usize = 1000;
const PASSES: usize = 20;
/// Number of small writes in a round.
const LINES: usize = 5000;
/// Number of files that are created in a round, of `BYTES` bytes each.
const CREATED: usize = 1000;
const BYTES: usize = 4096;

/// Returns the directory of a round. Each round has a new one, so that no access is cached.
fn name(round: usize) -> String {
    format!("looks-{round}")
}

/// Measures one round in one place.
pub(crate) fn looks(place: &Place, round: usize, table: &mut Table) {
    let dir = place.fresh(&name(round));
    let output = log(BYTES, 10);
    for number in 0..ARTIFACTS {
        fs::write(dir.join(format!("{number}.txt")), &output).unwrap();
    }
    place.settle();
    // Shortly after a change, file times cannot distinguish two states.
    std::thread::sleep(std::time::Duration::from_millis(100));
    for what in [
        "10,000 artifacts: names and sizes, as `ls -l`, first",
        "10,000 artifacts: names and sizes, as `ls -l`, later",
    ] {
        table.add(what, "ms", place.kind, seconds(|| list(&dir)) * 1e3);
    }
    let listed = seconds(|| run(&["ls", "-l"], &dir));
    let what = "10,000 artifacts: `ls -l`, which also asks for access lists and labels";
    table.add(what, "ms", place.kind, listed * 1e3);
    let names = seconds(|| run(&["ls", "-U"], &dir));
    table.add("10,000 artifacts: `ls -U`", "ms", place.kind, names * 1e3);
    let searched = seconds(|| run(&["rg", "-c", "ERROR"], &dir));
    table.add("10,000 artifacts of 4 KB: `rg -c`", "ms", place.kind, searched * 1e3);
    one_by_one(place, &dir, table);
    writes(place, &dir, table);
    place.clear(&name(round));
}

/// Reads the attributes of each listed name.
fn list(dir: &Path) {
    let mut count = 0;
    for entry in fs::read_dir(dir).unwrap() {
        black_box(entry.unwrap().metadata().unwrap().len());
        count += 1;
    }
    assert!(count >= ARTIFACTS);
}

/// Measures reads of artifacts one by one.
fn one_by_one(place: &Place, dir: &Path, table: &mut Table) {
    let paths: Vec<PathBuf> =
        (0..LOOKED_AT).map(|number| dir.join(format!("{}.txt", number * 10))).collect();
    let each = |look: &dyn Fn(&Path)| {
        let time = seconds(|| {
            for _ in 0..PASSES {
                for path in &paths {
                    look(path);
                }
            }
        });
        time * 1e6 / (PASSES * LOOKED_AT) as f64
    };
    let time = each(&|path| {
        black_box(fs::metadata(path).unwrap());
    });
    table.add("stat, of each of 1,000 artifacts 20 times", "us", place.kind, time);
    let time = each(&|path| {
        let mut bytes = [0; BYTES];
        File::open(path).unwrap().read_exact(&mut bytes).unwrap();
        black_box(bytes);
    });
    table.add(
        "open, read 4 KB, close, of each of 1,000 artifacts 20 times",
        "us",
        place.kind,
        time,
    );
}

fn writes(place: &Place, dir: &Path, table: &mut Table) {
    let mut file = File::options().create(true).append(true).open(dir.join("log.txt")).unwrap();
    let time = seconds(|| {
        for _ in 0..LINES {
            file.write_all(&[b'x'; 80]).unwrap();
        }
    });
    table.add("append of 80 bytes", "us", place.kind, time * 1e6 / LINES as f64);
    drop(file);
    let output = log(BYTES, 10);
    let time = seconds(|| {
        for number in 0..CREATED {
            fs::write(dir.join(format!("new-{number}.txt")), &output).unwrap();
        }
    });
    table.add("create, write 4 KB, close", "us", place.kind, time * 1e6 / CREATED as f64);
}
