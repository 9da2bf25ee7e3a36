//! Lines that have colours, or that are written anew after carriage returns, and nothing else.

use memchr::memchr;

use crate::materialize::plain::{HELD, keep_frame};

const ESCAPE: u8 = 0x1b;

/// Appends what a terminal shows of a whole line to `out`. Returns false, and appends nothing, if
/// the line is not so simple.
pub(super) fn print(line: &[u8], out: &mut Vec<u8>) -> bool {
    let ended = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
    let text = &line[..ended];
    if line.len() > HELD || !is_plain(text) {
        return false;
    }
    match (memchr(ESCAPE, text), memchr(b'\r', text)) {
        (None, None) => out.extend_from_slice(text),
        (None, Some(_)) => print_frames(text, out),
        (Some(_), None) => return print_coloured(text, out),
        (Some(_), Some(_)) => return false,
    }
    true
}

/// Returns true if the line has no control characters but escape, carriage return and white space,
/// and is UTF-8 without those above ASCII.
fn is_plain(line: &[u8]) -> bool {
    // A fold without an early exit, which compiles to vector instructions.
    let has_control = line.iter().fold(false, |found, byte| found | is_other_control(*byte));
    let is_text = || line.is_ascii() || (!line.contains(&0xc2) && str::from_utf8(line).is_ok());
    !has_control && is_text()
}

fn is_other_control(byte: u8) -> bool {
    matches!(byte, 1..=8 | 11 | 12 | 14..=26 | 28..=31 | 127)
}

/// Appends the frames of a line that are not drawn over.
fn print_frames(line: &[u8], out: &mut Vec<u8>) {
    let mut frames = line.split(|byte| *byte == b'\r').filter(|frame| !frame.is_empty());
    let mut last = frames.next().unwrap_or_default();
    for frame in frames {
        keep_frame(last, frame, out);
        last = frame;
    }
    out.extend_from_slice(last);
}

/// Appends a line without its colours. Returns false, and appends nothing, if it has other
/// sequences.
fn print_coloured(line: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut rest = line;
    while let Some(at) = memchr(ESCAPE, rest) {
        out.extend_from_slice(&rest[..at]);
        let Some(length) = colour_length(&rest[at + 1..]) else {
            out.truncate(start);
            return false;
        };
        rest = &rest[at + 1 + length..];
    }
    out.extend_from_slice(rest);
    true
}

/// Returns the length of `[1;31m`, if `sequence` begins with one.
fn colour_length(sequence: &[u8]) -> Option<usize> {
    let arguments = sequence.strip_prefix(b"[")?;
    let length =
        arguments.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    (arguments.get(length) == Some(&b'm')).then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::materialize::plain::EscapeStripper;

    /// Returns the text of a line by way of the printer.
    fn printed(line: &[u8]) -> Vec<u8> {
        let (mut stripper, mut out) = (EscapeStripper::default(), Vec::new());
        stripper.inside(line, &mut out);
        out.extend_from_slice(&stripper.tail());
        out
    }

    #[test]
    fn lines_with_colours_or_frames_are_simple() {
        for (line, shown) in [
            ("\x1b[1;31merror\x1b[0m: no", Some("error: no")),
            ("10%\r20%\r\x1b[32m30%\x1b[m\r", None),
            ("10%\r20%\rdone\r20%", Some("done\r20%")),
            ("10%\r20%\r\r", Some("20%")),
            ("\r", Some("")),
            ("plain\t\u{2713}", Some("plain\t\u{2713}")),
            ("a\x1b[2K", None),
            ("a\x08b", None),
            ("a\u{9b}31m", None),
        ] {
            let mut out = b"kept ".to_vec();
            let is_simple = print(line.as_bytes(), &mut out);
            assert_eq!(out.strip_prefix(b"kept ").unwrap(), shown.unwrap_or("").as_bytes());
            assert_eq!(is_simple, shown.is_some(), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn they_are_shown_as_the_printer_shows_them(
            parts in prop::collection::vec(
                prop_oneof![
                    4 => prop::sample::select(vec![
                        "\x1b[0m", "\x1b[1;31m", "\x1b[", "\x1b", "\r", "m", "text ", "\t", "\0", "10%",
                        "\u{e9}", "\u{2713}", "\u{9b}", "\x1b[38;5;1m",
                    ]).prop_map(|part| part.as_bytes().to_vec()),
                    1 => prop::collection::vec(any::<u8>(), 0..4),
                ],
                0..12,
            ),
        ) {
            let mut line = parts.concat();
            line.retain(|byte| *byte != b'\n');
            let mut out = Vec::new();
            if print(&line, &mut out) {
                prop_assert_eq!(out, printed(&line));
            }
        }
    }
}
