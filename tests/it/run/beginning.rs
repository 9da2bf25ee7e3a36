//! The beginning of an output is passed on while its command runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use super::{plain, run};
use crate::support::TestStore;

/// Splits what was printed into the beginning of the output and the stand-in.
fn parted(printed: &[u8]) -> (String, String) {
    let printed = String::from_utf8(printed.to_vec()).unwrap();
    let at = printed.find("[ctxfs] ").unwrap_or_else(|| panic!("no stand-in: {printed}"));
    (printed[..at].to_owned(), printed[at..].to_owned())
}

fn numbers(last: usize) -> String {
    let numbers: Vec<String> = (1..=last).map(|number| number.to_string()).collect();
    numbers.join("\n") + "\n"
}

#[test]
fn it_comes_before_the_command_ends() {
    let store = TestStore::new();
    let piped = |inner: &mut std::process::Command| {
        inner.stdin(Stdio::piped()).stdout(Stdio::piped());
    };
    let script = "echo first; read go; printf half; read go; echo ' line'";
    let mut child = run(&store, "x", &[], &["sh", "-c", script]).with(piped).spawn();
    let mut input = child.stdin.take().unwrap();
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    input.write_all(b"go\n").unwrap();
    let mut half = [0; 4];
    printed.read_exact(&mut half).unwrap();
    assert_eq!(&half, b"half");
    input.write_all(b"go\n").unwrap();
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, " line\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_stand_in_does_not_repeat_it() {
    let store = TestStore::new();
    for script in ["seq 20000", "seq 20000 | while read n; do echo $n; done", "seq 20000; exit 3"] {
        let output = run(&store, "x", &[], &["sh", "-c", script]).run();
        let (beginning, stand_in) = parted(&output.stdout);
        let lines = beginning.lines().count();
        assert!(beginning == numbers(lines) && beginning.len() <= 2000, "{beginning}");
        assert!(beginning.len() > 1990, "{beginning}");
        let shown = format!("\nshown: lines 1-{lines} (above) and ");
        let hidden = format!("; lines {}-", lines + 1);
        assert!(stand_in.contains(&shown) && stand_in.contains(&hidden), "{stand_in}");
        assert!(!stand_in.contains("--- head") && stand_in.ends_with("\n20000\n"), "{stand_in}");
    }
    let one = |text: &str, beginning: &str| {
        let output = run(&store, "y", &[], &["printf", text]).run();
        let (printed, stand_in) = parted(&output.stdout);
        assert_eq!(printed, beginning);
        stand_in
    };
    let long = "x".repeat(2000);
    let stand_in = one(&long.repeat(20), &format!("{long}\n"));
    assert!(stand_in.contains("\nshown: line 1, byte columns 1-2,000 (above) and "), "{stand_in}");
    let stand_in = one(&format!("first\n{}", long.repeat(20)), "first\n");
    assert!(stand_in.contains("--- tail: line 2, "), "{stand_in}");
}

/// The first 2,000 characters are whole, and so is the rest.
#[test]
fn the_rest_of_a_short_output_follows() {
    let store = TestStore::new();
    for text in [numbers(1500), "\u{20ac}".repeat(2600), "\u{1f980}\n".repeat(1999)] {
        let output = run(&store, "x", &[], &["printf", "%s", &text]).run();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    }
}

#[test]
fn no_part_of_a_secret_comes_with_it() {
    let store = TestStore::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let cases = [1950, 1980, 1999, 2000, 2001, 14_000]
        .map(|before| [0, 4000, 40_000].map(|after| (before, after)));
    for (before, after) in cases.into_iter().flatten() {
        let text = format!("{} {token} {}\n", "x".repeat(before - 1), "y ".repeat(after / 2));
        // In two parts, of which the first ends in the secret.
        let half = before + 10;
        let script = "printf %s \"$1\"; sleep 0.05; printf '%s\\n' \"$2\"";
        let command = ["sh", "-c", script, "sh", &text[..half], text[half..].trim_end()];
        let command = run(&store, "x", &[], &command).env("CTXFS_REDACT", "views");
        let printed = String::from_utf8(command.run().stdout).unwrap();
        assert!(!printed.contains(&token[4..12]), "{before} {after}: {printed}");
        assert!(!printed.contains("ghp_a"), "{before} {after}: {printed}");
    }
}

#[test]
fn what_a_program_reads_has_no_beginning() {
    let store = TestStore::new();
    for more in [&["--always"][..], &["--format", "json"], &["--format", "envelope"]] {
        let output = run(&store, "x", more, &["seq", "20000"]).run();
        let begins =
            output.stdout.starts_with(b"[ctxfs] The complete") || output.stdout.starts_with(b"{");
        assert!(begins, "{more:?}: {output}");
    }
}

#[test]
fn a_binary_output_is_told_about() {
    let store = TestStore::new();
    let script = "echo text; printf '\\0'; head -c 20000 /dev/zero | tr '\\0' '\\1'; seq 20000";
    let output = run(&store, "x", &[], &["sh", "-c", script]).run();
    let (beginning, stand_in) = parted(&output.stdout);
    assert_eq!(beginning, "text\n");
    assert!(stand_in.contains("it is not text"), "{stand_in}");
    assert_eq!(std::fs::metadata(plain(&store, "x.log")).unwrap().len(), 128_900);
}
