//! Recognizes output that was made for a terminal: output with colours, or with progress that
//! overwrites itself.
//!
//! A frame of progress is the text between two carriage returns. However, a carriage return may
//! also end a line, as in a table from an old Macintosh, in HL7, or on a serial console. A frame
//! therefore counts as overwritten only if it loses nothing but numbers, bars and blanks. For
//! example, `Reading... done` overwrites `Reading... 9%`, and `verify: 17%|#### |` overwrites
//! `verify:  8%|##  |`. A frame with other words is kept, unless it is plainly progress. A frame
//! that tells of an error, a name or a total is kept in any case.

use memchr::{memchr, memchr2};

use crate::materialize::{failure, magic};

const ESCAPE: u8 = 0x1b;
// Number of similar frames in a row that are progress even without a percentage or a rate.
const FRAMES: usize = 3;

/// Returns true if a text that begins with `start` was made for a terminal: it has an escape
/// sequence, or a line that is redrawn repeatedly after carriage returns.
///
/// A carriage return alone is not enough, because it may be a line end, a part of data, or white
/// space in a document.
pub(super) fn is_for_terminal(start: &[u8]) -> bool {
    memchr2(ESCAPE, b'\r', start).is_some()
        && magic::iso_2022(start).is_none()
        && (memchr(ESCAPE, start).is_some() || has_frames(start))
}

/// Returns true if frames of progress overwrite each other. This is so for two frames that show a
/// percentage or a rate, and for several frames in a row that differ only in numbers. The second
/// case counts only if the text has a newline. Without one, the frames may be ordinary lines that
/// end with a carriage return.
///
/// Text after the last newline or carriage return is not examined, because it may continue.
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
            let is_next = is_drawn_over(before, frame, Redraw::Over);
            let is_sure = is_next && shows_progress(before) && shows_progress(frame);
            alike = if is_next { alike + 1 } else { 1 };
            before = frame;
            is_sure || (has_newline && alike == FRAMES)
        })
    })
}

// Minimum number of bytes at the start in which two similar frames agree.
const ALIKE: usize = 4;
// Number of digits in each group except the first of a number such as `1,234,567`.
const GROUP: usize = 3;
// Minimum length of a bar.
const BAR: usize = 3;
// Maximum number of letters in the unit of a number, such as `12MiB` or `3s`.
const UNIT: usize = 6;

/// The way in which a frame is drawn: over the text before it, or after that text was erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Redraw {
    #[default]
    Over,
    Erased,
}

/// Returns true if nothing but progress is lost when a terminal draws `after` over `before`. This is
/// the case if `after` is the next frame of the same progress, or if progress is erased.
///
/// Records are never overwritten, even if they differ only in numbers: `1,Ann` and `2,Ann`.
pub(super) fn is_drawn_over(before: &[u8], after: &[u8], redraw: Redraw) -> bool {
    let (old, new) = (before.trim_ascii(), after.trim_ascii());
    if old.is_empty() {
        return true;
    }
    if new.is_empty() {
        return after.len() >= columns(old) && is_erasable(old);
    }
    if redraw == Redraw::Over && is_record(old) {
        return false;
    }
    if has_words_of(new, old) {
        return true;
    }
    if redraw == Redraw::Erased {
        return is_erasable(old);
    }
    let is_form_alike = || form(before).is_some() && form(before) == form(after);
    is_form_alike() && shows_progress(old) && shows_progress(new) && !tells(old, new)
}

// Returns true if the frame is progress, and tells nothing that a reader may look for.
fn is_erasable(frame: &[u8]) -> bool {
    is_progress(frame) && !tells(frame, b"")
}

// Returns true if the frame has a percentage, a rate, a bar or a spinner, or ends as an unfinished
// sentence.
fn is_progress(frame: &[u8]) -> bool {
    let is_bar = |run: &[u8]| b"=#-.*>".contains(&run[0]) && run.iter().all(|it| *it == run[0]);
    let is_spinner = || FrameWords(frame).next().is_none() || symbol(frame) > 1;
    let ends_open = || frame.ends_with(b"...") || frame.ends_with("\u{2026}".as_bytes());
    shows_progress(frame) || frame.windows(BAR).any(is_bar) || ends_open() || is_spinner()
}

/// Returns true if `old` tells something that `new` does not: an error, the name of a file or a
/// host, or the end of its progress.
fn tells(old: &[u8], new: &[u8]) -> bool {
    let is_lost = |word: &[u8]| memchr::memmem::find(new, word).is_none();
    let is_end = memchr::memmem::find(old, b"100%").is_some() && is_lost(b"100%");
    (is_end && !new.is_empty())
        || words(old).any(|word| is_name(word) && is_lost(word))
        || failure::is_error(old)
}

fn words(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_inside =
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    frame.split(move |byte| !is_inside(*byte))
}

// Returns true for names such as `a.bin`, `src/main.rs` and `big_file`, but not for `1.2MB/s` and
// `file/s`.
fn is_name(word: &[u8]) -> bool {
    let is_letter = |byte: u8| byte >= 0x80 || byte.is_ascii_alphabetic();
    let joins = |part: &[u8]| b"._/".contains(&part[1]) && is_letter(part[0]) && is_letter(part[2]);
    let rate = [&b"/s"[..], b"/sec", b"/min", b"/h"].iter().any(|end| word.ends_with(end));
    !rate && word != b"N/A" && word.windows(3).any(joins)
}

// Returns true if the frame has a percentage or a rate.
fn shows_progress(frame: &[u8]) -> bool {
    frame.windows(2).any(|pair| {
        (pair[0].is_ascii_digit() && pair[1] == b'%') || (pair == b"/s" && frame.len() > 2)
    })
}

// Returns the approximate width, with one column per character.
fn columns(frame: &[u8]) -> usize {
    frame.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

// Returns the first bytes, with a `0` for each digit and blank. Returns `None` for a short frame.
fn form(frame: &[u8]) -> Option<[u8; ALIKE]> {
    let start = *frame.first_chunk::<ALIKE>()?;
    Some(start.map(|byte| if byte == b' ' || byte.is_ascii_digit() { b'0' } else { byte }))
}

fn has_words_of(frame: &[u8], before: &[u8]) -> bool {
    let mut words = FrameWords(frame);
    FrameWords(before)
        .all(|old| words.next().is_some_and(|new| memchr::memmem::find(new, old).is_some()))
}

/// Returns true if a text has fields, such as `1,Ann` or `OBX|1||x`. Commas between the digits of a
/// number do not separate fields.
fn is_record(text: &[u8]) -> bool {
    let is_field = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 0x80;
    text.windows(3).enumerate().any(|(at, part)| {
        let [before, separator, after] = [part[0], part[1], part[2]];
        let is_empty = separator == after && is_field(before);
        matches!(separator, b',' | b';' | b'|' | b'\t')
            && ((is_field(before) && is_field(after)) || is_empty)
            && !(separator == b',' && is_group(&text[at..]))
    })
}

// Returns true for a digit, a comma and a group of exactly three digits.
fn is_group(text: &[u8]) -> bool {
    let digits = text[2..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    text[0].is_ascii_digit() && digits == GROUP
}

/// Iterates over the words of a frame. A word is a run of letters that is not the unit of a number.
/// `N/A` is not a word, because it may stand for a number.
struct FrameWords<'t>(&'t [u8]);

impl<'t> Iterator for FrameWords<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let mut is_after_number = false;
        loop {
            let rest = self.0;
            let first = *rest.first()?;
            let length = letters(rest);
            let is_unit = is_after_number && (length <= UNIT);
            if let Some(after) = rest.strip_prefix(b"N/A") {
                self.0 = after;
            } else if length > 0 {
                self.0 = &rest[length..];
                if !is_unit {
                    return Some(&rest[..length]);
                }
                // A rate is a unit, too: `12 MB/s`.
                is_after_number = self.0.first() == Some(&b'/');
                self.0 = self.0.strip_prefix(b"/").unwrap_or(self.0);
            } else {
                is_after_number = first.is_ascii_digit()
                    || (first == b' ' && is_after_number && begins_with_unit(&rest[1..]));
                self.0 = &rest[symbol(rest)..];
            }
        }
    }
}

fn letters(text: &[u8]) -> usize {
    let mut length = 0;
    while let Some(byte) = text.get(length)
        && (byte.is_ascii_alphabetic() || (*byte >= 0x80 && symbol(&text[length..]) == 1))
    {
        length += 1;
    }
    length
}

/// Returns the length in bytes of the symbol at the start of `text`. Bars and spinners consist of
/// characters from U+2000 to U+2FFF and above U+FFFF, which have more than one byte.
fn symbol(text: &[u8]) -> usize {
    let length = match text[0] {
        0xe2 => 3,
        0xf0 => 4,
        _ => 1,
    };
    length.min(text.len())
}

// Returns true if `text` begins with a unit of bytes or time.
fn begins_with_unit(text: &[u8]) -> bool {
    let word = &text[..letters(text)];
    let prefixed = word.strip_prefix(b"k").or_else(|| {
        let is_prefix = word.first().is_some_and(|first| b"KMGT".contains(first));
        is_prefix.then(|| &word[1..])
    });
    let base = prefixed.unwrap_or(word);
    let base = base.strip_prefix(b"i").unwrap_or(base);
    matches!(base, b"B" | b"b" | b"bit" | b"bits" | b"bytes") || matches!(word, b"s" | b"ms")
}

/// Returns the length of the escape sequence at the start of `raw`, such as a colour, a cursor
/// movement or a title. Returns 0 if there is none.
pub fn escape_length(raw: &[u8]) -> usize {
    match raw {
        [0x1b, b'[', rest @ ..] => {
            let parameters = rest.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
            2 + parameters + usize::from(parameters < rest.len())
        }
        [0x1b, b']', rest @ ..] => title_length(rest) + 2,
        [0x1b, b' '..=b'~', ..] => 2,
        _ => 0,
    }
}

// Returns the length of a title with its terminator, BEL or ESC `\`, or 0 if there is no
// terminator.
fn title_length(rest: &[u8]) -> usize {
    let end = rest.iter().position(|byte| matches!(byte, 0x07 | 0x1b));
    match end.map(|end| (end, &rest[end..])) {
        Some((end, [0x1b, b'\\', ..])) => end + 2,
        Some((end, [0x07, ..])) => end + 1,
        _ => 0,
    }
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
            b"\x1b$B$3$s\x1b(B\n",
            b"[\r\"same 1\",\r\"same 2\",\r\"same 3\"]",
        ] {
            assert!(!is_for_terminal(text), "{}", text.escape_ascii());
        }
    }

    #[track_caller]
    fn check(before: &str, after: &str, drawn_over: bool) {
        let found = is_drawn_over(before.as_bytes(), after.as_bytes(), Redraw::Over);
        assert_eq!(found, drawn_over, "{before:?}, {after:?}");
    }

    #[test]
    fn progress_is_drawn_over() {
        for (before, after) in [
            ("10%", "20%"),
            (" 50%", "error: after the last frame"),
            ("Reading... 9%", "Reading... done"),
            ("Counting objects: 1", "Counting objects: 12, done."),
            (
                "Writing objects: 100% (2/2)",
                "Writing objects: 100% (2/2), 9 bytes | 9 KiB/s, done.",
            ),
            ("frame=  1 size=N/A bitrate=N/A", "frame= 30 Lsize=  690kB bitrate= 4.1kbits/s"),
            (
                "verify:  0%|    | 0/60 [00:00<?, ?file/s]",
                "verify:  8%|\u{2588}   | 5/60 [00:00<00:01]",
            ),
            ("\u{2839} Installing", "\u{2838} Installing"),
            ("0% [Working]", "0% [Connecting to host]"),
            ("  0     0", " 50  1234"),
            (" 1,234,567  12%  1.2MB/s", " 2,234,567  24%  999kB/s"),
            ("512 KB of 3 MB", "1.2 MB of 3 MB"),
            ("12 MB/s left", "999 kB/s left"),
            ("file 30: 4%", "               "),
            ("0% [Working]", "              "),
            ("   ", "x"),
            ("", "x"),
            ("same", "same"),
        ] {
            check(before, after, true);
        }
    }

    #[test]
    fn other_text_is_not() {
        for (before, after) in [
            ("a", "b"),
            ("Ann", "Joe"),
            ("row 2", "ERROR row 3"),
            ("ERROR row 3", "row 4"),
            ("Progress 10%", "ERROR: the disk is 100% full"),
            ("ERROR: the disk is 100% full", "Progress 20%"),
            ("10:00:01 INFO start", "10:00:02 INFO end"),
            ("1,name1,city1", "2,name2,city2"),
            ("1,2", "3,4"),
            ("1,Ann,10%", "2,Ann,20%"),
            ("OBX|1|NM||90|mg/dL", "OBX|2|NM||95|mg/dL"),
            ("PID|1||77", "PID|2||78"),
            ("1;2", "1;2"),
            ("1\tx", "2\tx"),
            ("Copying a.txt", "Copying b.txt"),
            ("an error that is long", "   "),
            ("file 30: failed", "               "),
            ("copy 10% a.bin", "copy 20% b.bin"),
            ("copy 20% FAILED: no space", "copy 30%"),
            ("get base 100% 3 MB", "get next 1% 1 MB"),
        ] {
            check(before, after, false);
        }
    }
}
