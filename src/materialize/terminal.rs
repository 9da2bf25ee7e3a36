//! Output that was made for a terminal: coloured, or with progress that overwrites itself.

use std::mem;

use memchr::memchr;
use memchr::memchr2;

use crate::materialize::magic;

const ESCAPE: u8 = 0x1b;
/// Bytes at the start of two frames of progress that are alike.
const ALIKE: usize = 4;

/// Returns true if content that begins with `start` was made for a terminal: it has an escape
/// sequence, or a line that is written again and again after carriage returns. Once true, it is
/// true for any longer `start`.
///
/// A carriage return alone does not tell: it may stand in data, or be white space of a document.
pub(super) fn is_for_terminal(start: &[u8]) -> bool {
    let Some(first) = memchr2(ESCAPE, b'\r', start) else { return false };
    let text = &start[..memchr(0, start).unwrap_or(start.len())];
    (memchr(ESCAPE, text).is_some() || has_frames(text)) && !magic::begins_binary(&start[..first])
}

/// Returns true if a line has two frames alike, one after the other.
fn has_frames(text: &[u8]) -> bool {
    if matches!(text.trim_ascii_start(), [b'{' | b'[' | b'<', ..]) {
        return false;
    }
    text.split(|byte| *byte == b'\n').any(|line| {
        let frames = line.split(|byte| *byte == b'\r').filter(|frame| !frame.is_empty());
        let mut forms = frames.map(form);
        let mut before = forms.next().flatten();
        forms.any(|form| form.is_some() && mem::replace(&mut before, form) == form)
    })
}

/// Returns the start of a frame, with one sign for digits and blanks. None if it is short.
fn form(frame: &[u8]) -> Option<[u8; ALIKE]> {
    let start = *frame.first_chunk::<ALIKE>()?;
    Some(start.map(|byte| if byte == b' ' || byte.is_ascii_digit() { b'0' } else { byte }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_progress_are_made_for_a_terminal() {
        for text in [
            &b"\x1b[31merror\x1b[0m: no\n"[..],
            b"Reading package lists... 0%\r\rReading package lists... 0%\r\r\n",
            b"Receiving objects:  10% (1/10)\rReceiving objects:  20% (2/10)\r",
            b"done\n  0     0\r 50  1234\r100  2345\n",
        ] {
            assert!(is_for_terminal(text), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn data_is_not() {
        for text in [
            &b""[..],
            b"plain\n",
            b"line\r\nline\r\nline\r\n",
            b"line\r\r\nline\r\r\n",
            b"Ann,12\rJoe,15\rBea,99\r",
            b"a\rb\rc\n",
            b"[\r\"same 1\",\r\"same 2\",\r\"same 3\"]",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x1b[0m",
            b"\x7fELF\0\x1b[0m",
        ] {
            assert!(!is_for_terminal(text), "{}", text.escape_ascii());
        }
    }
}
