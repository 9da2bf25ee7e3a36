//! The beginning of an output that is passed on while its command runs.

use std::io::{self, Write};

use crate::run::output::{HeldOutput, OutputStream};
use ctxfs_engine::Engine;

/// Maximum number of characters that are passed on before the command has ended.
const MOST: usize = 2000;

/// Passes the first 2,000 characters of an output on as they arrive, with secrets masked. If the
/// output goes on, they end after a whole line, or in a long line after a whole character. Nothing
/// is passed on from the first NUL byte on, because a binary output is only told about.
pub(crate) struct LiveBeginning<'a> {
    engine: &'a Engine,
    chars: usize,
    has_ended: bool,
    /// The bytes that were passed on.
    pub(crate) passed: Vec<u8>,
}

impl<'a> LiveBeginning<'a> {
    /// If `is_passed` is false, no byte is passed on.
    pub(crate) fn new(engine: &'a Engine, is_passed: bool) -> Self {
        Self { engine, chars: 0, has_ended: !is_passed, passed: Vec::new() }
    }

    /// Passes on the bytes that have arrived since the last call.
    pub(crate) fn pass(&mut self, held: &HeldOutput) {
        if self.has_ended || self.pass_fresh(held).is_err() {
            // The end of the output is printed when the command has ended, if that is possible.
            self.has_ended = true;
        }
    }

    fn pass_fresh(&mut self, held: &HeldOutput) -> io::Result<()> {
        let shown = self.engine.shown_so_far(held.head())?;
        let from = self.passed.len();
        let fresh = shown.get(from..).unwrap_or_default();
        let (length, chars) = first_chars(fresh, MOST - self.chars);
        self.chars += chars;
        self.has_ended = length < fresh.len();
        let end = from + length;
        self.passed.extend(&fresh[..length]);
        print(held, &shown[..end], from)
    }
}

/// Returns the length of the part of `bytes` that may be passed on, which has at most `most`
/// characters, and the number of its characters.
fn first_chars(bytes: &[u8], most: usize) -> (usize, usize) {
    let text = &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())];
    let starts = || (0..text.len()).filter(|at| text[*at] & 0xC0 != 0x80);
    let end = starts().nth(most).unwrap_or(text.len());
    let line = memchr::memrchr(b'\n', &text[..end]).map(|newline| newline + 1);
    let end = line.filter(|_| end < bytes.len()).unwrap_or(end);
    (end, starts().take_while(|at| *at < end).count())
}

/// Writes `shown`, the masked form of held bytes, from the offset `from` on. Each part goes to the
/// stream from which it came, also if the other stream has no reader.
pub(crate) fn print(held: &HeldOutput, shown: &[u8], from: usize) -> io::Result<()> {
    let (mut at, mut printed) = (0, Ok(()));
    for (stream, length) in held.parts() {
        let part = at.max(from)..(at + length).min(shown.len());
        at += length;
        let Some(part) = shown.get(part).filter(|part| !part.is_empty()) else { continue };
        let written = match stream {
            OutputStream::Stdout => write(&mut io::stdout().lock(), part),
            OutputStream::Stderr => write(&mut io::stderr().lock(), part),
        };
        printed = printed.and(written);
    }
    printed
}

fn write(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_after_a_line_or_a_character() {
        let line = "x".repeat(99) + "\n";
        let cases = [
            (String::new(), (0, 0)),
            ("a\nb".to_owned(), (3, 3)),
            (line.repeat(20), (2000, 2000)),
            (line.repeat(21), (2000, 2000)),
            ("\u{e9}".repeat(1950) + "\n" + &line, (3901, 1951)),
            ("\u{20ac}".repeat(2001), (6000, 2000)),
            ("a\nbc\0d\n".to_owned(), (2, 2)),
            ("\0".to_owned(), (0, 0)),
        ];
        for (text, part) in cases {
            assert_eq!(first_chars(text.as_bytes(), MOST), part, "{text}");
        }
        assert_eq!(first_chars(b"\x82\xac", 0), (2, 0), "the rest of a character");
    }
}
