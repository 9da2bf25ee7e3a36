//! The shape of a line: the line with `x` for words that no rule knows, and `1` for numbers.
//!
//! The rules judge the shape. What most lines of an output share is so decided once, whatever
//! names, paths and numbers are in it.

use crate::materialize::failure::vocabulary;
use crate::materialize::failure::vocabulary::SHORT;
use crate::materialize::likeness::Class;
use crate::materialize::likeness::exact;
use crate::materialize::likeness::word;

/// The fewest digits of a hexadecimal number.
const HEX_DIGITS: usize = 4;
/// The most letters or digits in a row that are kept: as many as a rule counts.
const RUN: usize = 20;
/// Words of which is remembered if a rule knows them; a power of two.
const WORDS: usize = 2048;

/// Makes the shapes of lines. Keeps its buffers from one line to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeBuilder {
    shape: Vec<u8>,
    /// Hashes of words, each with its last bit set if a rule knows the word.
    words: Vec<u64>,
}

impl ShapeBuilder {
    /// Returns the shape of `line`.
    pub(super) fn of(&mut self, line: &[u8]) -> &[u8] {
        self.shape.clear();
        let mut at = 0;
        while let Some(&first) = line.get(at) {
            let (length, class) = word(&line[at..]);
            if length == 0 {
                self.shape.push(first);
                at += 1;
                continue;
            }
            let before = at.checked_sub(1).map(|before| line[before]);
            self.add(&line[at..at + length], class, before, line.get(at + length).copied());
            at += length;
        }
        &self.shape
    }

    /// Adds a word that stands between two bytes.
    fn add(&mut self, word: &[u8], class: Class, before: Option<u8>, after: Option<u8>) {
        if class.is_decimal() {
            self.add_number(word, before, after);
        } else if word.len() <= SHORT {
            self.shape.extend_from_slice(word);
        } else if let Some(unit) = unit(word) {
            self.add_quantity(unit);
        } else if class.is_hex() && word.len() >= HEX_DIGITS && !word[0].is_ascii_uppercase() {
            self.shape.extend_from_slice(b"1x");
        } else if self.is_known(word) {
            self.shape.extend_from_slice(word);
        } else {
            self.add_unknown(word);
        }
    }

    /// Adds a number. Rules tell 0, 500 to 599, and the two digits of a time from other numbers.
    fn add_number(&mut self, digits: &[u8], before: Option<u8>, after: Option<u8>) {
        let is_of_time = before == Some(b':') || after == Some(b':');
        let shape: &[u8] = match digits {
            b"0" if before != Some(b'.') => b"0",
            [b'5', _, _] => b"511",
            [_, _] if is_of_time => b"11",
            _ => b"1",
        };
        self.shape.extend_from_slice(shape);
    }

    /// Adds a number with its unit, such as `240ms`.
    fn add_quantity(&mut self, unit: &[u8]) {
        self.shape.push(b'1');
        self.shape.extend_from_slice(unit);
    }

    /// Adds a word by its capitals and its digits. A row of small letters is one letter. A word
    /// without small letters, such as `E0382` or `EISDIR`, keeps its first letter.
    fn add_unknown(&mut self, word: &[u8]) {
        let mut last = 0;
        let is_small = |byte: &u8| byte.is_ascii_lowercase();
        let mut run = 0;
        for byte in word {
            let kind = match byte {
                b'0'..=b'9' => b'1',
                b'A'..=b'Z' => b'X',
                _ => b'x',
            };
            run = if kind == last { run + 1 } else { 0 };
            if last == 0 && !word.iter().any(is_small) {
                self.shape.push(*byte);
            } else if run == 0 || (kind != b'x' && run < RUN) {
                self.shape.push(kind);
            }
            last = kind;
        }
    }

    /// Returns true if a rule may know `word`.
    fn is_known(&mut self, word: &[u8]) -> bool {
        if self.words.is_empty() {
            self.words.resize(WORDS, 0);
        }
        let hash = exact(word);
        let entry = &mut self.words[hash as usize / 2 % WORDS];
        if *entry | 1 != hash | 1 {
            *entry = hash & !1 | u64::from(vocabulary::has(word));
        }
        *entry & 1 == 1
    }
}

/// Returns the letters after the digits of `word`, if those are short enough for a unit.
fn unit(word: &[u8]) -> Option<&[u8]> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = &word[digits..];
    let is_unit = digits > 0 && unit.len() <= SHORT && unit.iter().all(u8::is_ascii_alphabetic);
    is_unit.then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_no_rule_tells_apart_have_one_shape() {
        for (line, shape) in [
            (
                r#"10.0.3.7 - - [23/Nov/2026:10:07:59] "GET /v1/items/72 HTTP/1.1" 503 9"#,
                r#"1.1.1.1 - - [1/Nov/1:11:11:11] "GET /v1/x/1 HTTP/1.1" 511 1"#,
            ),
            (
                "ERROR batch 0 failed: ConnectionError at 0x7f3c",
                "ERROR x 0 failed: ConnectionError at 1x1x1x",
            ),
            ("app.rs: E0425 in commit 9fceb02d0ae598e95", "app.rs: E1111 in x 1x"),
            ("caf\u{e9} 0 00 05 5 50 5000 1.0", "caf\u{e9} 0 1 1 1 1 1 1.1"),
            ("Build failed in 242ms", "Build failed in 1ms"),
            ("", ""),
        ] {
            let mut shapes = ShapeBuilder::default();
            for _ in 0..2 {
                let found = String::from_utf8(shapes.of(line.as_bytes()).to_vec()).unwrap();
                assert_eq!(found, shape, "{line}");
            }
        }
    }
}
