//! Views of logs of increasing size, compared with the programs that they replace.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::measures::{MIB, log, run, seconds};
use crate::place::{Kind, Place};
use crate::table::Table;

/// Sizes of the logs of each round, in MiB. `HUGE` is the size of the log that is written only
/// once.
const SIZES: [usize; 2] = [1, 100];
const HUGE: usize = 10_000;
/// Number of lines that a search finds in a log of 100 MiB or more. There are so few that the
/// search shows them all, and must read the whole log.
const ERRORS: usize = 100;

/// Name, view, and command on the plain file, for each row. `{line}` is a line in the middle of the
/// log, and `{end}` is a line shortly after it.
const VIEWS: [(&str, &str, &[&str]); 9] = [
    ("`.summary` right after close (plain: `wc`)", ".summary", &["wc"]),
    ("`.summary` again (plain: `wc`)", ".summary", &["wc"]),
    ("`.tail` (plain: `tail -n 200`)", ".tail", &["tail", "-n", "200"]),
    ("`.tail` again", ".tail", &["tail", "-n", "200"]),
    (
        "`.lines/` in the middle (plain: `sed -n`)",
        ".lines/{line}+9",
        &["sed", "-n", "{line},+8p;{end}q"],
    ),
    ("`.grep/ERROR` (plain: `rg -n ERROR`)", ".grep/ERROR", &["rg", "-n", "ERROR"]),
    ("`.grep/ERROR` again", ".grep/ERROR", &["rg", "-n", "ERROR"]),
    (
        "`.grep/ERROR.*0 done` (plain: `rg -n`)",
        ".grep/ERROR.*0 done",
        &["rg", "-n", "ERROR.*0 done"],
    ),
    ("`.grep/-i error` (plain: `rg -n -i`)", ".grep/-i error", &["rg", "-n", "-i", "error"]),
];

/// Measures writing and reading logs of 1 and 100 MiB.
pub(crate) fn logs(place: &Place, round: usize, table: &mut Table) {
    for size in SIZES {
        let name = format!("log-{round}-{size}");
        let path = place.fresh(&name).join("x.txt");
        let label = format!("{size} MiB log");
        let (lines, time) = written(&path, size);
        table.add(&format!("{label}: written in 1 MiB"), "ms", place.kind, time * 1e3);
        if !place.is_bare() {
            look(&label, place.kind, &path, lines, table);
        }
        let time = seconds(|| run(&["rg", "-n", "ERROR"], &path));
        let what = format!("{label}: `rg -n ERROR` on the file itself");
        table.add(&what, "ms", place.kind, time * 1e3);
        place.clear(&name);
    }
}

/// Measures a log of 10,000 MiB once. To save space, the file in the store is also used as the
/// plain file.
pub(crate) fn huge(program: &Path, dir: &Path, table: &mut Table) {
    let own = dir.join("huge");
    let store = own.join("store");
    fs::create_dir(&own).unwrap();
    let label = format!("{},000 MiB log", HUGE / 1000);
    let place = Place::over(&store, program, &own, Kind::Passthrough);
    let path = place.fresh("c0").join("x.txt");
    let (lines, time) = written(&path, HUGE);
    table.add(&format!("{label}: written in 1 MiB"), "ms", place.kind, time * 1e3);
    look(&label, place.kind, &path, lines, table);
    memory(&label, &place, table);
    let plain = Place::over(&store, program, &own, Kind::Plain);
    look(&label, plain.kind, &plain.stored("c0").join("x.txt"), lines, table);
    drop(place);
    // Mount again, because a new mount has not analyzed the log while it was written.
    let place = Place::over(&store, program, &own, Kind::Cached);
    for (row, view, _) in &VIEWS[2..7] {
        let path = format!("{}{}", path.display(), placed(view, lines));
        let time = seconds(|| run(&["cat"], Path::new(&path)));
        table.add(&format!("{label}: {row}"), "ms", place.kind, time * 1e3);
    }
    memory(&label, &place, table);
    drop(place);
    fs::remove_dir_all(&own).unwrap();
    rustix::fs::sync();
}

fn memory(label: &str, place: &Place, table: &mut Table) {
    let what = format!("{label}: resident memory of the daemon, at most");
    table.add(&what, "MB", place.kind, place.memory().unwrap());
}

fn look(label: &str, kind: Kind, path: &Path, lines: usize, table: &mut Table) {
    for (row, view, program) in VIEWS {
        let time = if kind == Kind::Plain {
            let program: Vec<_> = program.iter().map(|word| placed(word, lines)).collect();
            let program: Vec<_> = program.iter().map(String::as_str).collect();
            seconds(|| run(&program, path))
        } else {
            let view = format!("{}{}", path.display(), placed(view, lines));
            seconds(|| run(&["cat"], Path::new(&view)))
        };
        table.add(&format!("{label}: {row}"), "ms", kind, time * 1e3);
    }
}

/// Replaces `{line}` and `{end}` in `word` by line numbers in the middle of `lines` lines.
fn placed(word: &str, lines: usize) -> String {
    let line = lines / 2;
    word.replace("{line}", &line.to_string()).replace("{end}", &(line + 9).to_string())
}

/// Writes a log of `size` MiB. Returns the number of lines, and the time in seconds.
fn written(path: &Path, size: usize) -> (usize, f64) {
    let (with, without) = (log(MIB, 10_000), log(MIB, usize::MAX));
    let lines = |block: &[u8]| memchr::memchr_iter(b'\n', block).count();
    let each = size.div_ceil(ERRORS);
    let mut all = 0;
    let counts = (lines(&with), lines(&without));
    let time = seconds(|| {
        let mut file = File::create(path).unwrap();
        for number in 0..size {
            let has_error = number % each == 0;
            all += if has_error { counts.0 } else { counts.1 };
            file.write_all(if has_error { &with } else { &without }).unwrap();
        }
    });
    (all, time)
}
