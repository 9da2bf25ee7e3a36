//! First searches of large logs for literals, compared with `rg -n`. The literals are in no line,
//! in hardly any, in few, or in many lines. Searches are case-sensitive or ignore case.
//!
//! Each round searches for other literals of the same frequency, so that the server has no cached
//! result. The whole log is in the page cache.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::measures::seconds;
use crate::place::{Kind, Place};
use crate::table;

/// Bytes of the logs.
const SIZES: [usize; 2] = [100_000_000, 256_000_000];
/// Number of literals of each frequency, and therefore the maximum number of rounds.
const MOST_ROUNDS: usize = 22;
/// Letters of the literals. Each line has a worker named by a letter. Every second line ends with
/// all letters.
const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz";
/// Number of lines after which a rare literal appears again.
const RARE: usize = 1_000_000;

/// Function that returns the literal of a round.
type Literal = fn(usize) -> String;

/// Names of the frequencies, and the literals of each.
const LITERALS: [(&str, Literal); 4] = [
    ("in no line", |round| format!("absent-{}", letter(round))),
    ("in 1 line of 1,000,000", |round| format!("seldom-{}", letter(round))),
    ("in 1 line of 26", |round| format!("worker-{}", letter(round))),
    ("in every other line", |round| ALPHABET[round..round + 5].to_owned()),
];

/// A row of the table: a search, and its times in milliseconds.
struct Row {
    what: String,
    options: &'static [&'static str],
    literal: Literal,
    views: Vec<f64>,
    programs: Vec<f64>,
}

/// Measures all searches. Returns a Markdown table.
pub(crate) fn table(program: &Path, dir: &Path, rounds: usize) -> String {
    let own = dir.join("searches");
    fs::create_dir(&own).unwrap();
    let place = Place::over(&own.join("store"), program, &own, Kind::Passthrough);
    let mut table = String::from(
        "| first search for a literal | `.grep` | `rg -n` | to `rg` |\n|---|---:|---:|---:|\n",
    );
    for size in SIZES {
        table.extend(measured(&place, size, rounds.min(MOST_ROUNDS)).iter().map(Row::markdown));
    }
    let memory = place.memory().unwrap();
    drop(place);
    fs::remove_dir_all(&own).unwrap();
    table + &format!("\nResident memory of the daemon, at most: {memory:.0} MB.\n")
}

fn measured(place: &Place, size: usize, rounds: usize) -> Vec<Row> {
    let path = place.fresh("searched").join("x.txt");
    write(&path, size);
    place.settle();
    let mut rows = rows(size);
    for round in 0..rounds {
        for row in &mut rows {
            row.measure(&path, round);
        }
    }
    place.clear("searched");
    rows
}

fn rows(size: usize) -> Vec<Row> {
    let cases: [(&str, &[&str]); 2] = [("", &[]), (", `-i`", &["-i"])];
    let row = |case: (&str, &'static [&'static str]), literal: (&str, Literal)| Row {
        what: format!("{} MB, {}{}", size / 1_000_000, literal.0, case.0),
        options: case.1,
        literal: literal.1,
        views: Vec::new(),
        programs: Vec::new(),
    };
    cases.into_iter().flat_map(|case| LITERALS.map(|literal| row(case, literal))).collect()
}

impl Row {
    /// Measures the program and the view in one round. Rounds alternate which of the two is first.
    fn measure(&mut self, path: &Path, round: usize) {
        let literal = (self.literal)(round);
        let words = [self.options, &[literal.as_str()]].concat();
        let view = format!("{}.grep/{}", path.display(), words.join(" "));
        for turn in 0..2 {
            if (turn + round).is_multiple_of(2) {
                let program = [&["rg", "-n"], words.as_slice()].concat();
                self.programs.push(milliseconds(&program, path));
            } else {
                self.views.push(milliseconds(&["cat"], view.as_ref()));
            }
        }
    }

    fn markdown(&self) -> String {
        let ratios = self.views.iter().zip(&self.programs).map(|(view, program)| view / program);
        format!(
            "| {} | {:.1} ms | {:.1} ms | {:.2} |\n",
            self.what,
            table::median(&self.views).unwrap(),
            table::median(&self.programs).unwrap(),
            table::median(&ratios.collect::<Vec<_>>()).unwrap(),
        )
    }
}

/// Runs `program PATH`. A search may find nothing.
fn milliseconds(program: &[&str], path: &Path) -> f64 {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(path).stdin(Stdio::null());
    let time = seconds(|| assert!(command.output().unwrap().status.code() < Some(2)));
    time * 1e3
}

fn letter(number: usize) -> &'static str {
    let at = number % ALPHABET.len();
    &ALPHABET[at..=at]
}

/// Writes a log of `size` bytes.
fn write(path: &Path, size: usize) {
    let mut text = Vec::with_capacity(size + 200);
    for number in 0.. {
        write!(text, "2026-01-13T15:30:45.{:06}Z INFO request {number}", number * 37 % 1_000_000)
            .unwrap();
        write!(text, " done in {} ms by worker-{}", number % 97, letter(number)).unwrap();
        if number % 2 == 1 {
            write!(text, " {ALPHABET}").unwrap();
        }
        if let seldom @ 0..26 = number % RARE {
            write!(text, " seldom-{}", letter(seldom)).unwrap();
        }
        text.push(b'\n');
        if text.len() >= size {
            break;
        }
    }
    text.truncate(size);
    File::create(path).unwrap().write_all(&text).unwrap();
}
