//! Counts characters and lines, and detects the encoding.

use chardetng::{EncodingDetector as PageDetector, Iso2022JpDetection, Utf8Detection};

use crate::materialize::block::ByteBlock;

// Maximum number of bytes of a UTF-8 sequence.
const LONGEST_SEQUENCE: usize = 4;
// Number of bytes by which the code page of a text is recognized, and how many of them are before the
// first byte that is not UTF-8.
const SAMPLE: usize = 16 << 10;
const BEFORE: usize = 28;

/// Counts characters in the same way as `String::from_utf8_lossy`: each maximal sequence that is
/// not UTF-8 counts as one character. `pending` is the beginning of a sequence that the next bytes
/// may complete.
#[derive(Debug, Clone, Default)]
pub(super) struct CharCounter {
    count: u64,
    seen: u64,
    first_invalid: Option<u64>,
    rejected: u64,
    pending: [u8; LONGEST_SEQUENCE],
    pending_length: usize,
}

impl CharCounter {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while self.pending_length > 0 && !bytes.is_empty() {
            if self.complete(bytes[0]) {
                bytes = &bytes[1..];
            }
        }
        if bytes.is_ascii() {
            self.accept(bytes);
        } else {
            self.push_mixed(bytes);
        }
    }

    // Returns the number of characters. A sequence without its end counts as one.
    pub(super) fn count(&self) -> u64 {
        self.count + u64::from(self.pending_length > 0)
    }

    // Adds `byte` to the pending sequence. Returns false if the byte does not belong to it.
    fn complete(&mut self, byte: u8) -> bool {
        self.pending[self.pending_length] = byte;
        let sequence = &self.pending[..=self.pending_length];
        match std::str::from_utf8(sequence) {
            Ok(_) => {
                self.count += 1;
                self.seen += sequence.len() as u64;
                self.pending_length = 0;
                true
            }
            Err(error) if error.error_len().is_none() => {
                self.pending_length += 1;
                true
            }
            Err(_) => {
                self.reject(self.pending_length);
                self.pending_length = 0;
                false
            }
        }
    }

    fn push_mixed(&mut self, bytes: &[u8]) {
        let Err(error) = simdutf8::compat::from_utf8(bytes) else {
            return self.accept(bytes);
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        self.accept(valid);
        let mut chunks = rest.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.accept(chunk.valid().as_bytes());
            self.push_invalid(chunk.invalid(), chunks.peek().is_none());
        }
    }

    // Counts an invalid sequence. The last sequence of a block is kept pending, because it may be
    // completed later.
    fn push_invalid(&mut self, bytes: &[u8], last: bool) {
        match std::str::from_utf8(bytes) {
            Ok(_) => {}
            Err(error) if last && error.error_len().is_none() => {
                self.pending[..bytes.len()].copy_from_slice(bytes);
                self.pending_length = bytes.len();
            }
            Err(_) => self.reject(bytes.len()),
        }
    }

    fn accept(&mut self, valid: &[u8]) {
        self.count += count_valid(valid);
        self.seen += valid.len() as u64;
    }

    fn reject(&mut self, length: usize) {
        self.first_invalid.get_or_insert(self.seen);
        self.rejected += 1;
        self.count += 1;
        self.seen += length as u64;
    }
}

fn count_valid(valid: &[u8]) -> u64 {
    let first_of_sequence = |byte: &&u8| **byte & 0xC0 != 0x80;
    let count =
        if valid.is_ascii() { valid.len() } else { valid.iter().filter(first_of_sequence).count() };
    count as u64
}

#[derive(Debug, Clone, Default)]
pub(super) struct EncodingDetector {
    pub(super) chars: CharCounter,
    has_high: bool,
    // Bytes from shortly before the first invalid sequence on. Until there is one, the last bytes.
    sample: Vec<u8>,
}

impl EncodingDetector {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.has_high = self.has_high || !bytes.is_ascii();
        let before = self.chars.first_invalid;
        let end = self.chars.seen + (self.chars.pending_length + bytes.len()) as u64;
        self.chars.push(bytes);
        if before.is_some() {
            let room = SAMPLE.saturating_sub(self.sample.len());
            self.sample.extend_from_slice(&bytes[..room.min(bytes.len())]);
            return;
        }
        let first = self.chars.first_invalid;
        let since = first.map_or(LONGEST_SEQUENCE, |first| (end - first) as usize);
        let left = since + BEFORE;
        let old = (self.sample.len() + bytes.len()).saturating_sub(left);
        self.sample.drain(..old.min(self.sample.len()));
        let from = bytes.len().saturating_sub(left);
        self.sample.extend_from_slice(&bytes[from..]);
        self.sample.truncate(SAMPLE);
    }

    /// Returns the code page that the text is most likely in. `None` if it is rather UTF-8 with some
    /// damage.
    pub(super) fn code_page(&self) -> Option<&'static str> {
        let CharCounter { count, seen, rejected, .. } = self.chars;
        if 2 * rejected <= seen - count.min(seen) {
            return None;
        }
        let mut pages = PageDetector::new(Iso2022JpDetection::Deny);
        pages.feed(&self.sample, true);
        Some(pages.guess(None, Utf8Detection::Deny).name())
    }

    pub(super) fn is_ascii(&self) -> bool {
        !self.has_high
    }

    // Returns true if the bytes so far are not UTF-8 as a whole. An incomplete character at the end
    // counts as invalid.
    pub(super) fn is_broken(&self) -> bool {
        self.chars.first_invalid.is_some() || self.chars.pending_length > 0
    }

    // Returns the offset of the first invalid sequence. Later bytes cannot change it.
    pub(super) fn first_invalid(&self) -> Option<u64> {
        self.chars.first_invalid
    }
}

/// Counts lines, and the characters of the longest line.
///
/// The characters of a line are counted only if the line has more bytes than the longest line has
/// characters. A line with fewer bytes cannot be longer.
#[derive(Debug, Clone, Default)]
pub(super) struct LineCounter {
    newlines: u64,
    longest: u64,
    open_bytes: u64,
    open: CharCounter,
}

impl LineCounter {
    // `valid` is true if all complete lines of the block are known to be UTF-8.
    pub(super) fn push(&mut self, block: ByteBlock<'_>, valid: bool) {
        let ByteBlock { bytes, newlines } = block;
        let mut start = 0;
        for end in newlines.iter().map(|end| *end as usize) {
            self.end_line(&bytes[start..end], valid);
            start = end + 1;
        }
        self.open_bytes += (bytes.len() - start) as u64;
        self.open.push(&bytes[start..]);
    }

    pub(super) fn newlines(&self) -> u64 {
        self.newlines
    }

    // Returns the number of lines. The last line is counted with or without a newline.
    pub(super) fn count(&self) -> u64 {
        self.newlines + u64::from(self.open_bytes > 0)
    }

    pub(super) fn longest(&self) -> u64 {
        self.longest.max(self.open.count())
    }

    #[inline]
    fn end_line(&mut self, rest: &[u8], valid: bool) {
        self.newlines += 1;
        if self.open_bytes == 0 && valid {
            if rest.len() as u64 > self.longest {
                self.longest = self.longest.max(count_valid(rest));
            }
            return;
        }
        if self.open_bytes + rest.len() as u64 > self.longest {
            self.open.push(rest);
            self.longest = self.longest.max(self.open.count());
            self.open = CharCounter::default();
        } else if self.open_bytes > 0 {
            self.open = CharCounter::default();
        }
        self.open_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_those_of_a_lossy_conversion() {
        let cases: [&[u8]; 9] = [
            b"",
            b"plain",
            "h\u{e9}llo \u{20ac} \u{1f600}".as_bytes(),
            b"\xff\xfe",
            b"a\xe2\x82b",
            b"\xe2\x82",
            b"\xf0\x9f\x98",
            b"\xed\xa0\x80",
            b"\xf0\x9f\xe2\x82\xac\xc3(",
        ];
        for bytes in cases {
            let expected = String::from_utf8_lossy(bytes).chars().count() as u64;
            for step in 1..=bytes.len().max(1) {
                let mut text = EncodingDetector::default();
                bytes.chunks(step).for_each(|part| text.push(part));
                assert_eq!(text.chars.count(), expected, "{bytes:?} by {step}");
                assert_eq!(text.is_broken(), std::str::from_utf8(bytes).is_err(), "{bytes:?}");
            }
        }
    }

    #[test]
    fn the_first_invalid_sequence_is_where_it_begins() {
        let mut text = EncodingDetector::default();
        text.push(b"ab\xe2");
        assert_eq!(text.first_invalid(), None);
        text.push(b"\x82c\xff");
        assert_eq!(text.first_invalid(), Some(2));
    }

    #[test]
    fn lines_and_the_longest() {
        let cases: [(&str, u64, u64); 8] = [
            ("", 0, 0),
            ("\n", 1, 0),
            ("a", 1, 1),
            ("a\n", 1, 1),
            ("a\nbcd", 2, 3),
            ("abc\n\nde\n", 3, 3),
            ("\u{e9}\u{e9}\u{e9}\nabcd\n", 2, 4),
            ("\u{20ac}\u{20ac}\nabc\nx", 3, 3),
        ];
        for (text, lines, longest) in cases {
            for step in 1..=text.len().max(1) {
                let mut found = LineCounter::default();
                for part in text.as_bytes().chunks(step) {
                    found.push(ByteBlock::new(part, &mut Vec::new()), step % 2 == 0);
                }
                assert_eq!(
                    (found.count(), found.longest()),
                    (lines, longest),
                    "{text:?} by {step}"
                );
            }
        }
    }
}
