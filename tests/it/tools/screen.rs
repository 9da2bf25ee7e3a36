//! Programs that want a terminal: the screen over the mount is the screen over a plain copy.

use std::fs;
use std::path::Path;

use super::matrix;
use super::matrix::Subject;
use crate::support::Mode;
use crate::support::Terminal;
use crate::support::need;

/// One program: its command, the keys that go to its end, and a mark that it has got there.
struct Row {
    program: &'static str,
    command: &'static str,
    keys: &'static [&'static str],
    /// Part of the screen then; where it is empty, the text's last words, or its first without keys.
    mark: &'static str,
}

const ROWS: &[Row] = &[
    Row { program: "less", command: "LESSHISTFILE=- less -S", keys: &[], mark: "" },
    Row { program: "less", command: "LESSHISTFILE=- less -S", keys: &["G"], mark: "(END)" },
    Row {
        program: "less",
        command: "LESSHISTFILE=- less -S +F",
        keys: &[],
        mark: "Waiting for data",
    },
    Row {
        program: "vim",
        command: "vim -Nu NONE -n -R --cmd 'set nowrap'",
        keys: &["G"],
        mark: "",
    },
    Row { program: "nano", command: "nano --ignorercfiles --view", keys: &["M-/"], mark: "" },
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
            let expected = screen(row, subject, &subject.twin, &scratch, None);
            screen(row, subject, &subject.dir, &scratch, Some(&expected));
        }
        vim_writes_a_copy(subject, &scratch);
    }
}

/// The screen at the end of the file: once it shows the mark, or once it is `expected`.
fn screen(
    row: &Row,
    subject: &Subject,
    dir: &Path,
    scratch: &Path,
    expected: Option<&str>,
) -> String {
    let name = subject.name.rsplit('/').next().unwrap();
    let parent = dir.join(&subject.name).parent().unwrap().to_owned();
    let terminal = Terminal::start(scratch, &parent, &format!("{} ./{name}", row.command));
    let text = fs::read_to_string(subject.twin.join(&subject.name)).unwrap();
    let first = words(text.lines().next().unwrap());
    let last = words(text.lines().last().unwrap());
    terminal.screen_when("the file is shown", |screen| {
        screen.contains(&first) || screen.contains(&last)
    });
    terminal.keys(&[&["C-l"], row.keys].concat());
    let mark = match (row.mark, row.keys) {
        ("", []) => &first,
        ("", _) => &last,
        (mark, _) => mark,
    };
    let told = format!("{} {:?} on {}", row.program, row.keys, subject.name);
    match expected {
        Some(expected) => terminal.screen_when(&told, |screen| body(screen) == body(expected)),
        None => terminal.screen_when(&told, |screen| screen.contains(mark) && settled(&terminal)),
    }
}

fn vim_writes_a_copy(subject: &Subject, scratch: &Path) {
    let copy = scratch.join("copy");
    let parent = subject.dir.join(&subject.name).parent().unwrap().to_owned();
    let name = subject.name.rsplit('/').next().unwrap();
    let terminal = Terminal::start(scratch, &parent, &format!("vim -Nu NONE -n ./{name}"));
    terminal.keys(&[":set shm=aoOtTWAIF", "Enter", ":w! ", copy.to_str().unwrap(), "Enter"]);
    terminal.keys(&[":q!", "Enter"]);
    terminal.ended();
    let expected = fs::read(subject.twin.join(&subject.name)).unwrap();
    assert!(fs::read(&copy).unwrap() == expected, "vim's copy of {}", subject.name);
    fs::remove_file(copy).unwrap();
}

/// Some words of a line that fit on the screen.
fn words(line: &str) -> String {
    line.chars().take(60).collect::<String>().trim_end().to_owned()
}

/// The text on a screen, without the lines in which programs talk of themselves.
fn body(screen: &str) -> Vec<&str> {
    let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
    lines[1..lines.len().saturating_sub(3).max(1)].to_vec()
}

fn settled(terminal: &Terminal) -> bool {
    let before = terminal.screen();
    std::thread::sleep(std::time::Duration::from_millis(30));
    terminal.screen() == before
}
