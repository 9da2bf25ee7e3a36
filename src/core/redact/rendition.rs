//! The renditions of a text: the forms in which readers may see it.
//!
//! A terminal does not show escape sequences, a summary omits them, a filter prints the text of a
//! JSON string without its escapes, and a text in UTF-16 is decoded. A secret must be found in each
//! of these forms, and masked in the original bytes. A rendition therefore records the source range
//! of each of its bytes.
//!
//! JSON may occur anywhere in a text, so its escapes are decoded anywhere. Decoding is repeated,
//! because a JSON string may itself contain JSON.

use std::ops::Range;

use crate::materialize::json::{LONGEST_ESCAPE, escaped_char};
use crate::materialize::{escape_length, text_parts};

/// Number of times that JSON escapes are decoded. For example, a message contains the output of a
/// tool, the output contains an HTTP response, and the response contains a document.
const LEVELS: usize = 5;
const ESCAPE: u8 = 0x1b;
// Number of bytes that are checked for a control character at once.
const CHUNK: usize = 64;

/// A text that was made from an original by omitting and decoding parts. `places` has the source
/// range in the original for each byte of `text`.
pub(super) struct Rendition {
    pub(super) text: Vec<u8>,
    places: Vec<SourceRange>,
}

// A range in a window of content. A window is far smaller than 4 GiB.
#[derive(Clone, Copy)]
struct SourceRange {
    start: u32,
    end: u32,
}

// Removes parts of a rendition. Returns `None` if the text would not change.
type Strip = fn(&Rendition) -> Option<Rendition>;

/// Calls `visit` with each rendition of `bytes` that differs from `bytes`. There are at most 23
/// renditions, and none is longer than `bytes`.
pub(super) fn each_rendition(bytes: &[u8], visit: &mut dyn FnMut(&Rendition)) {
    let strips: [Strip; 3] = [Rendition::cleaned, Rendition::on_terminal, Rendition::without_nuls];
    let mut left = strips.to_vec();
    let mut decoded = Rendition::of(bytes);
    for level in 0..=LEVELS {
        left.retain(|strip| {
            let Some(stripped) = strip(&decoded) else { return true };
            stripped.each_stripped(level, *strip, visit);
            false
        });
        match decoded.decoded().filter(|_| level < LEVELS) {
            Some(next) => decoded = next,
            None => break,
        }
        visit(&decoded);
    }
}

impl Rendition {
    fn of(bytes: &[u8]) -> Self {
        let places = (0..bytes.len() as u32).map(|at| SourceRange { start: at, end: at + 1 });
        Self { text: bytes.to_vec(), places: places.collect() }
    }

    /// Returns the range of the original from which `part` of the text was made. `part` must not be
    /// empty.
    pub(super) fn original(&self, part: &Range<usize>) -> Range<usize> {
        self.places[part.start].start as usize..self.places[part.end - 1].end as usize
    }

    /// Calls `visit` with this text, which is stripped and has been decoded `level` times. Then
    /// repeatedly decodes the text, strips it, and calls `visit` with the result.
    fn each_stripped(&self, level: usize, strip: Strip, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        let Some(decoded) = self.decoded().filter(|_| level < LEVELS) else { return };
        let stripped = strip(&decoded).unwrap_or(decoded);
        stripped.each_stripped(level + 1, strip, visit);
    }

    // Returns the text without escape sequences, as views clean it.
    fn cleaned(&self) -> Option<Self> {
        let mut cleaned = Self::empty();
        let (mut at, mut kept, mut line_end) = (0, 0, 0);
        while let Some(escape) = memchr::memchr(ESCAPE, &self.text[at..]).map(|next| at + next) {
            if line_end <= escape {
                let rest = &self.text[escape..];
                line_end = escape + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            }
            let length = escape_length(&self.text[escape..line_end]);
            if length > 0 {
                cleaned.copy(self, kept..escape);
                kept = escape + length;
            }
            at = escape + length.max(1);
        }
        cleaned.unless_same(self, kept)
    }

    // Returns the text as a terminal shows it: without control characters and overwritten text.
    fn on_terminal(&self) -> Option<Self> {
        if !self.is_more_than_coloured() {
            return None;
        }
        let parts = text_parts(&self.text);
        let kept: usize = parts.iter().map(|part| part.log.len()).sum();
        (kept < self.text.len()).then(|| {
            let mut shown = Self::empty();
            for part in parts {
                shown.copy(self, part.log);
                if part.is_return {
                    shown.text.pop();
                    shown.text.push(b'\r');
                }
            }
            shown
        })
    }

    // Returns the text without NUL bytes, as text in UTF-16 and UTF-32 is decoded.
    fn without_nuls(&self) -> Option<Self> {
        let (mut narrow, mut kept) = (Self::empty(), 0);
        for nul in memchr::memchr_iter(0, &self.text) {
            narrow.copy(self, kept..nul);
            kept = nul + 1;
        }
        narrow.unless_same(self, kept)
    }

    /// Returns true if a terminal may omit more of the text than `cleaned` does. This is the case
    /// if the text has control characters that are neither line ends nor part of sequences that
    /// every reader omits.
    fn is_more_than_coloured(&self) -> bool {
        let mut at = 0;
        while let Some(control) = next_control(&self.text[at..]) {
            let length = plain_length(&self.text[at + control..]);
            if length == 0 {
                return true;
            }
            at += control + length;
        }
        false
    }

    // Returns the text with its JSON escapes decoded, or `None` if it has none.
    fn decoded(&self) -> Option<Self> {
        let mut decoded = Self::empty();
        let (mut at, mut kept) = (0, 0);
        while let Some(escape) = memchr::memchr(b'\\', &self.text[at..]).map(|next| at + next) {
            // A backslash after ESC ends a terminal sequence and is not a JSON escape. JSON
            // contains no ESC character.
            let is_terminator = escape > 0 && self.text[escape - 1] == ESCAPE;
            let Some((character, length)) =
                escaped_char(&self.text[escape..]).filter(|_| !is_terminator)
            else {
                at = escape + 1;
                continue;
            };
            decoded.copy(self, kept..escape);
            let (start, end) = (self.places[escape], self.places[escape + length - 1]);
            let place = SourceRange { start: start.start, end: end.end };
            decoded.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            decoded.places.resize(decoded.text.len(), place);
            at = escape + length;
            kept = at;
        }
        decoded.unless_same(self, kept)
    }

    fn empty() -> Self {
        Self { text: Vec::new(), places: Vec::new() }
    }

    fn copy(&mut self, of: &Self, part: Range<usize>) {
        self.text.extend_from_slice(&of.text[part.clone()]);
        self.places.extend_from_slice(&of.places[part]);
    }

    // Appends the rest of `of` from `kept` on. Returns `None` if the result would equal `of`.
    fn unless_same(mut self, of: &Self, kept: usize) -> Option<Self> {
        (kept > 0).then(|| {
            self.copy(of, kept..of.text.len());
            self
        })
    }
}

// Returns the position of the first control character other than a blank or a newline.
fn next_control(text: &[u8]) -> Option<usize> {
    let is_control =
        |byte: &u8| *byte == 0x7f || (*byte < b' ' && !matches!(*byte, b'\n' | b'\t' | 0));
    let mut at = 0;
    for chunk in text.chunks(CHUNK) {
        // Without a branch for each byte, this takes only a few instructions per 32 bytes.
        if chunk.iter().fold(false, |has, byte| has | is_control(byte)) {
            return chunk.iter().position(is_control).map(|control| at + control);
        }
        at += chunk.len();
    }
    None
}

/// Returns the length of what every reader omits at the start of `text`: a carriage return before a
/// newline, or a complete escape sequence. Returns 0 if there is neither.
fn plain_length(text: &[u8]) -> usize {
    if text.starts_with(b"\r\n") {
        return 1;
    }
    let length = if text.starts_with(b"\x1b[") { escape_length(text) } else { 0 };
    let is_whole = length > 2 && matches!(text[length - 1], b'@'..=b'~');
    if is_whole { length } else { 0 }
}

/// Returns the JSON escape in `bytes` that begins before `at` and ends after it.
pub(super) fn escape_around(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let starts = at.saturating_sub(LONGEST_ESCAPE - 1)..at;
    starts.filter(|start| bytes[*start] == b'\\').find_map(|start| {
        let before = bytes[..start].iter().rev();
        let backslashes = before.take_while(|byte| **byte == b'\\').count();
        let (_, length) = escaped_char(&bytes[start..]).filter(|_| backslashes % 2 == 0)?;
        (start + length > at).then(|| start..start + length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<String> {
        let mut texts = Vec::new();
        each_rendition(bytes, &mut |rendition| {
            assert_eq!(rendition.text.len(), rendition.places.len());
            assert!(rendition.text.len() <= bytes.len());
            texts.push(String::from_utf8_lossy(&rendition.text).into_owned());
        });
        texts
    }

    #[test]
    fn a_text_that_all_readers_see_alike_has_no_rendition() {
        for text in ["", "plain\n\ttext", "\u{20ac}", r"C:\Windows\q"] {
            assert_eq!(texts(text.as_bytes()), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn escapes_of_json_are_decoded_to_some_depth() {
        assert_eq!(texts(br#""a\/\u0041\n\"\u00e9""#), ["\"a/A\n\"\u{e9}\""]);
        assert_eq!(
            texts(br"\ud83d\ude00 \ud83d \u12 \ude00"),
            ["\u{1f600} \u{fffd} \\u12 \u{fffd}"]
        );
        let nested = ["\\\\/", "\\/", "/"];
        assert_eq!(texts(br"\\\/"), &nested[1..]);
        assert_eq!(texts(&b"\\".repeat(15)).len(), 4);
    }

    #[test]
    fn escape_sequences_are_left_out() {
        // Colours are omitted by both a cleaning view and a terminal. For other sequences, either
        // of them may omit more than the other.
        assert_eq!(texts(b"a\x1b[1mb\x1b[0m\r\n"), ["ab\r\n"]);
        assert_eq!(texts(b"\x1b]8;;u\x1b\\/a\n"), ["/a\n", "/a\n"]);
        assert_eq!(texts(b"10%\rcd\n"), ["cd\n"]);
        assert!(texts(b"ab\rcd\n").is_empty(), "no progress is drawn over");
        assert_eq!(texts(b"a\x08\x07b\r\n"), ["ab\n"]);
    }

    #[test]
    fn text_of_two_bytes_a_character_is_narrowed() {
        assert_eq!(texts(b"A\0K\0I\0A\0"), ["AKIA"]);
        assert_eq!(texts(b"\0A\0K"), ["AK"]);
    }

    #[test]
    fn one_may_hold_the_other() {
        assert!(texts(br"a\u001b[1mb").contains(&"ab".to_owned()));
        assert!(texts(b"a\\\x1b[1m/b").contains(&"a/b".to_owned()));
        assert!(texts(b"\\\\\x1b[1mu0041\\u001b[0mB").contains(&"AB".to_owned()));
    }

    #[test]
    fn places_are_those_of_the_original() {
        let bytes = b"x\x1b[1m\\u0041\x1b[0mB\\/";
        each_rendition(bytes, &mut |rendition| {
            let Some(at) = memchr::memmem::find(&rendition.text, b"AB/") else { return };
            assert_eq!(rendition.original(&(at..at + 3)), 5..bytes.len());
            assert_eq!(rendition.original(&(at..at + 1)), 5..11);
        });
    }

    #[test]
    fn renditions_are_few_and_no_longer_than_the_text() {
        for piece in [
            &b"\\"[..],
            b"\x1b",
            b"\x1b[m",
            b"\x1b]",
            b"\\u001b",
            b"\\u005c",
            b"\r",
            b"\\\x1b[m",
            b"\0\\",
        ] {
            assert!(texts(&piece.repeat(10_000)).len() <= 23);
        }
    }
}
