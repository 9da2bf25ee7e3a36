//! Output that was made for a terminal: coloured, or with progress that overwrites itself.

use memchr::{memchr, memchr2};

use crate::materialize::frames::{is_drawn_over, shows_progress};
use crate::materialize::magic;

const ESCAPE: u8 = 0x1b;
/// Frames in a row that are progress even if no percentage or rate tells so.
const FRAMES: usize = 3;

/// Returns true if content that begins with `start` was made for a terminal: it has an escape
/// sequence, or a line that is drawn again and again after carriage returns. Once true, it is
/// true for any longer `start`.
///
/// A carriage return alone does not tell: it may end lines, stand in data, or be white space of a
/// document.
pub(super) fn is_for_terminal(start: &[u8]) -> bool {
    let Some(first) = memchr2(ESCAPE, b'\r', start) else { return false };
    let text = &start[..memchr(0, start).unwrap_or(start.len())];
    (memchr(ESCAPE, text).is_some() || has_frames(text)) && !magic::begins_binary(&start[..first])
}

/// Returns true if frames of progress are drawn over each other: two that show how far it is, or
/// some that differ in numbers. The latter may also be lines of a text that has no newline.
///
/// What follows the last line end is not looked at, since it may go on.
fn has_frames(text: &[u8]) -> bool {
    if matches!(text.trim_ascii_start(), [b'{' | b'[' | b'<', ..]) {
        return false;
    }
    let has_newline = memchr(b'\n', text).is_some();
    let ended = memchr::memrchr2(b'\n', b'\r', text).map_or(0, |end| end + 1);
    text[..ended].split(|byte| *byte == b'\n').any(|line| {
        let mut frames = line.split(|byte| *byte == b'\r').filter(|it| !it.trim_ascii().is_empty());
        let Some(mut before) = frames.next() else { return false };
        let mut alike = 1;
        frames.any(|frame| {
            let is_next = is_drawn_over(before, frame);
            let is_sure = is_next && shows_progress(before) && shows_progress(frame);
            alike = if is_next { alike + 1 } else { 1 };
            before = frame;
            is_sure || (has_newline && alike == FRAMES)
        })
    })
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
            b"Counting objects: 1\rCounting objects: 2\rCounting objects: 3, done.\n",
            b"1,Ann\r2,Joe\n10% of 3\r20% of 3\r",
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
            b"id,name\r1,name1\r2,name2\r3,name3\r",
            b"id,share\n1,10%\r2,20%\r3,30%\n",
            b"OBX|1|NM||90|mg/dL\rOBX|2|NM||95|mg/dL\rOBX|3|NM||96|mg/dL\r",
            b"line 1\rline 2\rline 3\rline 4\r",
            b"a log\nrow 1\rrow 2\rERROR row 3\rrow 4\rrow 5\na log\n",
            b"10:00:01 INFO a\r10:00:02 INFO b\r10:00:03 ERROR c\r\n",
            b"[\r\"same 1\",\r\"same 2\",\r\"same 3\"]",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x1b[0m",
            b"\x7fELF\0\x1b[0m",
        ] {
            assert!(!is_for_terminal(text), "{}", text.escape_ascii());
        }
    }
}
