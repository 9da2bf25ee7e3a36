//! The number of lines, and the length of the longest.

use crate::materialize::block::Block;
use crate::materialize::text::{CharCounter, count_valid};

/// Counts lines and the characters of the longest line.
///
/// Characters are counted only in lines with more bytes than the longest line has characters: no
/// other line can be longer.
#[derive(Debug, Clone, Default)]
pub(super) struct LineCounter {
    newlines: u64,
    longest: u64,
    open_bytes: u64,
    open: CharCounter,
}

impl LineCounter {
    /// Takes the next bytes. `valid` is true if the whole lines in them are known to be UTF-8.
    pub(super) fn push(&mut self, block: Block<'_>, valid: bool) {
        let Block { bytes, newlines } = block;
        let mut start = 0;
        for end in newlines.iter().map(|end| *end as usize) {
            self.end_line(&bytes[start..end], valid);
            start = end + 1;
        }
        self.open_bytes += (bytes.len() - start) as u64;
        self.open.push(&bytes[start..]);
    }

    /// Returns the number of newlines so far.
    pub(super) fn newlines(&self) -> u64 {
        self.newlines
    }

    /// Returns the number of lines so far. The last one counts with or without its newline.
    pub(super) fn count(&self) -> u64 {
        self.newlines + u64::from(self.open_bytes > 0)
    }

    /// Returns the characters of the longest line.
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
                    found.push(Block::new(part, &mut Vec::new()), step % 2 == 0);
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
