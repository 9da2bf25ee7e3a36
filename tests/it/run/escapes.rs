//! Logs with escape sequences: the bytes keep them, and views show the text.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::{plain, run};
use crate::support::{Mode, TestMount, TestStore, eventually};

/// Views that show nothing but the text.
const VIEWS: &[&str] = &[
    "tail",
    "head",
    "lines/2-40",
    "lines/-3",
    "grep/^error",
    "grep/-i -C2 FAILED$",
    "grep/-c line",
    "errors",
    "terms",
    "wrap",
    "pages/0001",
    "wrap.grep/error",
];

/// Returns a log in colours, with a progress bar, and its text.
fn colourful(lines: usize) -> (String, String) {
    let (mut log, mut text) = (String::new(), String::new());
    for number in 0..lines {
        let line = match number % 10 {
            3 => format!("error: number {number} has failed"),
            7 => format!("step {number} failed"),
            _ => format!("line {number} of a log that is long enough to be looked at"),
        };
        writeln!(text, "{line}").unwrap();
        match number % 3 {
            0 => write!(log, "\x1b[31m{line}\x1b[0m\r\n").unwrap(),
            1 => writeln!(log, "10%\r\x1b[K 50%\r\x1b]0;title {number}\x07{line}").unwrap(),
            _ => writeln!(log, "{line}").unwrap(),
        }
    }
    (log, text)
}

/// Returns the view beside `x.log`, as if that were `y.log`.
fn view(dir: &Path, name: &str, view: &str) -> String {
    fs::read_to_string(dir.join(format!("{name}.{view}"))).unwrap().replace("x.log", "y.log")
}

fn compare(dir: &Path, told: &str) {
    for name in VIEWS {
        assert_eq!(view(dir, "x.log", name), view(dir, "y.log", name), "{name}, {told}");
    }
    let summary = |name| -> Vec<String> {
        let lines = view(dir, name, "summary");
        let known = |line: &&str| {
            !["tool: ", "call: ", "size: ", "shown: all of it"]
                .iter()
                .any(|it| line.starts_with(it))
        };
        lines.lines().filter(known).map(str::to_owned).collect()
    };
    assert_eq!(summary("x.log"), summary("y.log"), "{told}");
}

#[test]
fn views_of_what_was_made_for_a_terminal_show_its_text() {
    for mode in Mode::ALL {
        for (folder, lines) in [("terminal", 30), ("terminal", 30_000), ("tool", 30_000)] {
            let mount = TestMount::new(mode);
            fs::create_dir(mount.path().join("c7")).unwrap();
            let dir = mount.path().join("c7/artifacts").join(folder);
            let (log, text) = colourful(lines);
            fs::write(dir.join("x.log"), &log).unwrap();
            fs::write(dir.join("y.log"), &text).unwrap();
            compare(&dir, &format!("{lines} lines, just written, {mode:?}"));
            let manifest = || fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
            eventually("both are sealed", || manifest().matches("mimeType").count() == 2);
            compare(&dir, &format!("{lines} lines, sealed, {mode:?}"));
            assert_eq!(fs::read_to_string(dir.join("x.log")).unwrap(), log);
            let pages = fs::read_dir(dir.join("x.log.pages")).unwrap().count();
            assert_eq!(pages, fs::read_dir(dir.join("y.log.pages")).unwrap().count());
            let size = format!("{} without terminal escapes and ", grouped(text.len()));
            assert!(view(&dir, "x.log", "summary").contains(&size));
            let meta: serde_json::Value =
                serde_json::from_str(&view(&dir, "x.log", "meta.json")).unwrap();
            assert_eq!(
                (&meta["size"], &meta["analysis"]["plain"]),
                (&log.len().into(), &text.len().into())
            );
            // A search of the whole conversation sees the text, too.
            let found = fs::read_to_string(mount.path().join("c7/.grep/-c ^error")).unwrap();
            let count = lines / 10;
            for name in ["x.log", "y.log"] {
                assert!(found.contains(&format!("artifacts/{folder}/{name}:{count}\n")), "{found}");
            }
        }
    }
}

/// Progress does not take other text with it.
#[test]
fn what_is_not_progress_is_found() {
    let numbered: Vec<String> = (1..=100).map(|number| format!("log line {number}\n")).collect();
    let numbered = numbered.concat();
    let log = format!("{numbered}row 1\rrow 2\rERROR row 3\rrow 4\rrow 5\n{numbered}");
    let progress = "start\ncopy 10%\rcopy 20%\rERROR: no\rcopy 30%\r\nend\n";
    let row = |row: u32, text: &str| format!("\x1b[{row}A\x1b[2K\r{text}\r\x1b[{row}B");
    let pull = [
        "latest: Pulling from library/thing\r\na: Pulling fs layer\r\nb: Pulling fs layer\r\n",
        &row(2, "a: Downloading 10%"),
        &row(1, "b: Downloading 10%"),
        &row(2, "a: Downloading 90%"),
        &row(1, "b: FAILED: checksum mismatch"),
        &row(2, "a: Pull complete"),
        "1 of 2 layers failed\r\n",
    ]
    .concat();
    let mount = TestMount::new(Mode::ALL[0]);
    let dir = mount.tool("c7");
    for (name, text) in [("log.txt", &*log), ("p.txt", progress), ("pull.txt", &*pull)] {
        fs::write(dir.join(name), text).unwrap();
    }
    assert_eq!(
        view(&dir, "log.txt", "grep/ERROR"),
        "101:row 1\rrow 2\rERROR row 3\rrow 4\rrow 5\n"
    );
    assert_eq!(view(&dir, "p.txt", "grep/ERROR"), "2:copy 20%\rERROR: no\rcopy 30%\n");
    let summary = view(&dir, "p.txt", "summary");
    assert!(summary.contains("shown: all of it as a terminal shows it, 3 lines"), "{summary}");
    assert!(summary.contains(" without terminal escapes and 1 frame drawn over)"), "{summary}");
    let last = "4:b: FAILED: checksum mismatch\ra: Pull complete\r1 of 2 layers failed\n";
    assert_eq!(view(&dir, "pull.txt", "grep/complete|checksum"), last);
    for part in ["summary", "find/checksum mismatch", "errors", "tail"] {
        assert!(view(&dir, "pull.txt", part).contains("FAILED: checksum mismatch"), "{part}");
    }
}

/// Data is shown as it is.
#[test]
fn escapes_far_from_the_start_and_returns_in_data_stay() {
    let mount = TestMount::new(Mode::ALL[0]);
    let dir = mount.tool("c7");
    let late = format!("{}\x1b[31mred\n", "a line of text\n".repeat(5000));
    for (name, text) in [("late.txt", late.as_str()), ("mixed.csv", "id\n1,Ann\n2,Joe\r3,Bea\r")] {
        fs::write(dir.join(name), text).unwrap();
        assert!(text.ends_with(&view(&dir, name, "lines/-1")), "{name}");
    }
}

/// Its form shows only when it has been looked at already.
#[test]
fn an_output_that_turns_out_to_be_for_a_terminal() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let mut writer = fs::File::create(dir.join("x.txt")).unwrap();
        writer.write_all("plain\n".repeat(2000).as_bytes()).unwrap();
        assert!(view(&dir, "x.txt", "summary").contains(" 2,000 lines"));
        writer.write_all(b"10%\r100%\n\x1b[31merror\x1b[0m: it failed\n").unwrap();
        assert_eq!(view(&dir, "x.txt", "lines/2001-2002"), "100%\nerror: it failed\n");
        assert!(view(&dir, "x.txt", "summary").contains("\n2002: error: it failed\n"));
    }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The log grows by pieces that end anywhere.
#[test]
fn views_of_a_growing_log_are_right_at_any_moment() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        fs::create_dir(mount.path().join("c7")).unwrap();
        let dir = mount.path().join("c7/artifacts/terminal");
        let (log, text) = colourful(2000);
        let mut writer = fs::File::create(dir.join("x.log")).unwrap();
        let text: Vec<&str> = text.lines().collect();
        let mut lines = 0;
        for piece in log.as_bytes().chunks(7013) {
            writer.write_all(piece).unwrap();
            lines += piece.split(|byte| *byte == b'\n').count() - 1;
            let all = view(&dir, "x.log", "lines/-100000");
            assert!(!all.contains(['\x1b', '\r']), "{all:?}");
            assert!(all.lines().rev().take(2).any(|line| line == text[lines - 1]), "{all:?}");
            let errors = text[..lines].iter().filter(|line| line.starts_with("error")).count();
            let found = view(&dir, "x.log", "grep/-c ^error.*failed$");
            assert_eq!(found, format!("{errors}\n"));
            let told = view(&dir, "x.log", "errors");
            assert!(told.contains("error: number 3 has failed"), "{told}");
        }
    }
}

#[test]
fn little_goes_unchanged_and_much_as_text() {
    let store = TestStore::new();
    let (log, text) = colourful(3000);
    let scratch = store.scratch("log").join("log");
    let command = ["cat", scratch.to_str().unwrap()];
    let little = "\x1b[31mred\x1b[0m\r\n";
    fs::write(&scratch, little).unwrap();
    assert_eq!(run(&store, "l", &[], &command).text(), little);
    fs::write(&scratch, &log).unwrap();
    let shown = run(&store, "m", &["--always"], &command).text();
    assert!(!shown.contains(['\x1b', '\r']), "{shown}");
    assert_eq!(fs::read_to_string(plain(&store, "m.log")).unwrap(), log);
    let view = store.view("c7/artifacts/terminal/m.log.summary");
    assert_eq!(shown, String::from_utf8(view).unwrap());
    let all = store.view("c7/artifacts/terminal/m.log.grep/-m0 ^error");
    let errors = text.lines().filter(|line| line.starts_with("error")).count();
    assert_eq!(String::from_utf8(all).unwrap().lines().count(), errors);
}
