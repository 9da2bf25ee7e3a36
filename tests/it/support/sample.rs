//! Sample outputs.

use std::fmt::Write as _;

/// Returns a build log: `lines` lines of some 60 bytes, every 40th an error, some not ASCII.
pub(crate) fn log(lines: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in 1..=lines {
        let level = if number % 40 == 0 { "ERROR" } else { "INFO " };
        let who = if number % 7 == 0 { "gr\u{fc}n" } else { "green" };
        let seconds = number * 17 % 86_400;
        writeln!(text, "{seconds:05} {level} {who} request {number} of path=/api/v{}", number % 5)
            .unwrap();
    }
    text.into_bytes()
}

/// Returns the lines `first..=last`, from 1, with their newlines.
pub(crate) fn lines_of(text: &[u8], first: usize, last: usize) -> Vec<u8> {
    text.split_inclusive(|byte| *byte == b'\n')
        .skip(first - 1)
        .take(last + 1 - first)
        .collect::<Vec<_>>()
        .concat()
}
