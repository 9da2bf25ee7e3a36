//! Frames of progress: what a line shows between two carriage returns, and whether the next frame
//! is drawn over it.
//!
//! A carriage return may also end a line: of a table from an old Macintosh, of HL7, of a serial
//! console. So text is only taken to be drawn over where nothing but numbers, bars and blanks is
//! lost: `Reading... 9%` by `Reading... done`, `verify:  8%|##  |` by `verify: 17%|#### |`. Whatever
//! has other words stays.

/// Bytes at the start of two frames of progress that are alike.
const ALIKE: usize = 4;
/// Digits in each group but the first of a number like `1,234,567`.
const GROUP: usize = 3;
/// Most letters of a unit that follows a number: `12MiB`, `3s`.
const UNIT: usize = 6;

/// Returns true if a terminal that draws `after` over `before` takes nothing from its reader: the
/// next frame of the same progress, or blanks that erase it.
///
/// Records are never drawn over, even if they differ in numbers only: `1,Ann` and `2,Ann`.
pub(super) fn is_drawn_over(before: &[u8], after: &[u8]) -> bool {
    let (old, new) = (before.trim_ascii(), after.trim_ascii());
    if old.is_empty() {
        return true;
    }
    if new.is_empty() {
        return after.len() >= columns(old);
    }
    if is_record(old) {
        return false;
    }
    let is_form_alike = || form(before).is_some() && form(before) == form(after);
    has_words_of(new, old) || (is_form_alike() && shows_progress(old) && shows_progress(new))
}

/// Returns true if a frame has what only progress has: a percentage or a rate.
pub(super) fn shows_progress(frame: &[u8]) -> bool {
    frame.windows(2).any(|pair| {
        (pair[0].is_ascii_digit() && pair[1] == b'%') || (pair == b"/s" && frame.len() > 2)
    })
}

/// Returns the number of columns that a frame takes, about.
fn columns(frame: &[u8]) -> usize {
    frame.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Returns the start of a frame, with one sign for digits and blanks. None if it is short.
fn form(frame: &[u8]) -> Option<[u8; ALIKE]> {
    let start = *frame.first_chunk::<ALIKE>()?;
    Some(start.map(|byte| if byte == b' ' || byte.is_ascii_digit() { b'0' } else { byte }))
}

/// Returns true if the words of `frame` begin with those of `before`.
fn has_words_of(frame: &[u8], before: &[u8]) -> bool {
    let mut words = Words(frame);
    Words(before)
        .all(|old| words.next().is_some_and(|new| memchr::memmem::find(new, old).is_some()))
}

/// Returns true if a text has fields: `1,Ann`, `OBX|1||x`. The commas of a number are none.
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

/// Returns true if `text` begins with a digit, a comma and a group of digits.
fn is_group(text: &[u8]) -> bool {
    let digits = text[2..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    text[0].is_ascii_digit() && digits == GROUP
}

/// The words of a text: runs of letters, without the units of numbers. What a number may be
/// replaced by, `N/A`, is none.
struct Words<'t>(&'t [u8]);

impl<'t> Iterator for Words<'t> {
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

/// Returns the length of the letters that `text` begins with.
fn letters(text: &[u8]) -> usize {
    let mut length = 0;
    while let Some(byte) = text.get(length)
        && (byte.is_ascii_alphabetic() || (*byte >= 0x80 && symbol(&text[length..]) == 1))
    {
        length += 1;
    }
    length
}

/// Returns the length of the sign that `text` begins with: more than one byte for what bars and
/// spinners are drawn with beyond ASCII, U+2000 to U+2FFF and those above U+FFFF.
fn symbol(text: &[u8]) -> usize {
    let length = match text[0] {
        0xe2 => 3,
        0xf0 => 4,
        _ => 1,
    };
    length.min(text.len())
}

/// Returns true if `text` begins with a unit of bytes or of time.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, drawn_over: bool) {
        let found = is_drawn_over(before.as_bytes(), after.as_bytes());
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
            ("file 30: failed", "               "),
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
        ] {
            check(before, after, false);
        }
    }
}
