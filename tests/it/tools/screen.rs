//! Programs that need a terminal: they show the known lines at the beginning and the end.

use std::fs;
use std::path::Path;

use super::matrix;
use super::matrix::Subject;
use crate::support::{Mode, Terminal, need};

/// The lines to find on the screen.
const LINES: usize = 8;
/// The characters of them to compare, as programs mark the place where they cut a line.
const WIDTH: usize = 60;

/// A program: its command, and the keys that go to the end of the file.
struct Row {
    command: &'static str,
    keys: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row { command: "LESSHISTFILE=- less -S", keys: &["G"] },
    Row { command: "LESSHISTFILE=- less -S", keys: &["F"] },
    Row { command: "vim -Nu NONE -n -R --cmd 'set nowrap'", keys: &["G"] },
    Row { command: "nano --ignorercfiles --view", keys: &["M-/"] },
];

#[test]
fn passthrough() {
    check(Mode::Passthrough);
}

#[test]
fn cached() {
    check(Mode::Cached);
}

fn check(mode: Mode) {
    for (program, package) in [("less", "less"), ("vim", "vim"), ("nano", "nano")] {
        need(program, package);
    }
    let subjects = matrix::subjects(mode);
    let scratch = subjects.mount.store().scratch("screen");
    for subject in &subjects.all {
        for row in ROWS {
            shows_both_ends(row, subject, &scratch);
        }
        vim_writes_a_copy(subject, &scratch);
    }
}

fn shows_both_ends(row: &Row, subject: &Subject, scratch: &Path) {
    let terminal = start(row.command, subject, scratch);
    let text = fs::read_to_string(subject.twin.join(&subject.name)).unwrap();
    let lines: Vec<String> = text.lines().map(start_of).collect();
    let count = lines.len().min(LINES);
    let told = format!("{}: {} shows", row.command, subject.name);
    let (head, tail) = (&lines[..count], &lines[lines.len() - count..]);
    terminal.screen_when(&format!("{told} its first lines"), |screen| shows(screen, head));
    terminal.keys(row.keys);
    terminal.screen_when(&format!("{told} its last lines"), |screen| shows(screen, tail));
}

fn vim_writes_a_copy(subject: &Subject, scratch: &Path) {
    let copy = scratch.join("copy");
    let terminal = start("vim -Nu NONE -n", subject, scratch);
    terminal.keys(&[":set shm=aoOtTWAIF", "Enter", ":w! ", copy.to_str().unwrap(), "Enter"]);
    terminal.keys(&[":q!", "Enter"]);
    terminal.ended();
    let expected = fs::read(subject.twin.join(&subject.name)).unwrap();
    assert!(fs::read(&copy).unwrap() == expected, "vim's copy of {}", subject.name);
    fs::remove_file(copy).unwrap();
}

/// Runs `command` on the file, in the directory of the file.
fn start(command: &str, subject: &Subject, scratch: &Path) -> Terminal {
    let path = subject.dir.join(&subject.name);
    let name = path.file_name().unwrap().to_str().unwrap();
    Terminal::start(scratch, path.parent().unwrap(), &format!("{command} ./{name}"))
}

/// Returns true if the screen has these lines, one after the other.
fn shows(screen: &str, lines: &[String]) -> bool {
    let screen: Vec<String> = screen.lines().map(start_of).collect();
    screen.windows(lines.len()).any(|window| window == lines)
}

fn start_of(line: &str) -> String {
    line.chars().take(WIDTH).collect::<String>().trim_end().to_owned()
}
