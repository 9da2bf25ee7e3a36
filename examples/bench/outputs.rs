//! Outputs of tool calls: many small files, and files that are written in small pieces.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::{fs, thread};

use crate::measures::{log, seconds};
use crate::place::Place;
use crate::table::Table;

/// Number of outputs in a round, by one or several writers.
const OUTPUTS: usize = 1000;
/// Number of concurrent writers.
const WRITERS: usize = 4;
/// Number of small writes in a round.
const LINES: usize = 5000;

/// Measures 1,000 outputs of 4 KB by one writer, then by four, with and without reading each.
pub(crate) fn outputs(place: &Place, round: usize, table: &mut Table) {
    let rows = [
        (1, false, "1,000 outputs of 4 KB: create, write, close"),
        (1, true, "the same, `.summary` read after each (plain: the file itself)"),
        (WRITERS, false, "four writers: create, write 4 KB, close; outputs a second"),
        (WRITERS, true, "the same, `.summary` read after each; outputs a second"),
    ];
    for (writers, looks, what) in rows.into_iter().filter(|row| !(row.1 && place.is_bare())) {
        let name = format!("outputs-{round}-{writers}-{looks}");
        let dir = place.fresh(&name);
        let view = looks.then_some(if place.has_views() { ".summary" } else { "" });
        let time = seconds(|| {
            thread::scope(|scope| {
                for writer in 0..writers {
                    let dir = &dir;
                    scope.spawn(move || leave(dir, writer, OUTPUTS / writers, view));
                }
            });
        });
        let (unit, figure) =
            if writers == 1 { ("ms", time * 1e3) } else { ("/s", OUTPUTS as f64 / time) };
        table.add(what, unit, place.kind, figure);
        place.clear(&name);
    }
}

/// Writes `count` outputs. Reads the view `view` of each, if given.
fn leave(dir: &Path, writer: usize, count: usize, view: Option<&str>) {
    let output = log(4096, 10);
    for number in 0..count {
        let path = dir.join(format!("{writer}-{number}.txt"));
        fs::write(&path, &output).unwrap();
        if let Some(view) = view {
            black_box(fs::read(format!("{}{view}", path.display())).unwrap());
        }
    }
}

/// Measures many small writes to one file.
pub(crate) fn small_writes(place: &Place, round: usize, table: &mut Table) {
    let name = format!("small-{round}");
    let path = place.fresh(&name).join("x.txt");
    let line = [b'x'; 80];
    let time = seconds(|| {
        let mut file = File::create(&path).unwrap();
        for _ in 0..LINES {
            file.write_all(&line).unwrap();
        }
    });
    table.add(
        "a write of 80 bytes, of 5,000 to one file",
        "us",
        place.kind,
        time * 1e6 / LINES as f64,
    );
    place.clear(&name);
}
