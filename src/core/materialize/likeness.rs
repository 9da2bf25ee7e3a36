//! A hash of a line that ignores numbers. Lines with equal hashes have the same wording and differ
//! only in numbers.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;

// Minimum number of hexadecimal digits. A shorter word, such as `3d` or `1e5`, is not a number.
const HEX_DIGITS: usize = 4;
// Minimum number of characters of a group of a UUID. A group may consist of letters only.
const GROUP: usize = 4;

const DIGIT: u8 = 1;
const HEX: u8 = 2;
const LETTER: u8 = 4;

// The classes of the bytes in a word, one bit per class.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordClass(u8);

impl WordClass {
    pub(super) fn is_decimal(self) -> bool {
        self.0 == DIGIT
    }

    pub(super) fn is_hex(self) -> bool {
        self.0 == DIGIT | HEX
    }
}

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' | b'A'..=b'F' => HEX,
            b'g'..=b'z' | b'G'..=b'Z' => LETTER,
            _ => 0,
        };
        byte += 1;
    }
    classes
}

// Represents a number in a hash.
const NUMBER: u64 = 1 << 32;

// Maximum number of bytes that [`LikenessHasher::head`] hashes, and maximum number of words of a
// line whose last word it leaves out. Lines with equal heads have the same form.
const HEAD_BYTES: usize = 48;
const HEAD_WORDS: usize = 4;

/// Hashes lines, ignoring decimal and hexadecimal numbers, times and UUIDs. Reuses its buffer for
/// the next line. Hashes are the same in every process.
#[derive(Debug, Clone, Default)]
pub struct LikenessHasher {
    buffer: Vec<u8>,
}

impl LikenessHasher {
    /// Returns a hash that is equal for lines that differ only in numbers.
    pub fn of(&mut self, line: &[u8]) -> u64 {
        self.buffer.clear();
        without_numbers(line, &mut self.buffer);
        exact(&self.buffer)
    }

    // Returns another hash that is equal for lines that differ only in numbers, at a fraction of
    // the cost of `of`.
    pub(super) fn quick(&mut self, line: &[u8]) -> u64 {
        let mut rest = line;
        let (mut hash, mut last, mut joined) = (0, 0, false);
        while let Some(&first) = rest.first() {
            if CLASS[usize::from(first)] == 0 {
                joined &= first == b'-' && last == NUMBER;
                last = u64::from(first);
                hash = mixed(hash, last);
                rest = &rest[1..];
                continue;
            }
            let (length, WordClass(classes)) = word(rest);
            let (word, after) = rest.split_at(length);
            rest = after;
            joined = is_number(word, classes) || (joined && classes == HEX && length == GROUP);
            last = if joined {
                NUMBER
            } else if classes & DIGIT == 0 {
                exact(word)
            } else {
                self.buffer.clear();
                without_digits(word, &mut self.buffer);
                exact(&self.buffer)
            };
            hash = mixed(hash, last);
        }
        hash
    }

    /// Returns a hash of the beginning of the line that was last passed to [`of`](Self::of). If the
    /// line has few words, the hash covers all words except the last.
    pub(super) fn head(&self) -> u64 {
        let line = self.buffer.as_slice();
        let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).count();
        let last = memchr::memrchr(b' ', line).filter(|_| words <= HEAD_WORDS);
        exact(&line[..last.unwrap_or(line.len()).min(HEAD_BYTES)])
    }
}

/// Returns the hash of the bytes with their numbers. It is the same in every process.
pub fn exact(bytes: &[u8]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

#[inline]
pub(super) fn mixed(hash: u64, next: u64) -> u64 {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(hash.rotate_left(23) ^ next ^ 0x2545_f491_4f6c_dd1d) * ODD;
    product as u64 ^ (product >> 64) as u64
}

fn without_numbers(line: &[u8], text: &mut Vec<u8>) {
    let mut rest = line;
    // True if the previous word was a number and is followed by a dash.
    let mut joined = false;
    while let Some(&first) = rest.first() {
        if CLASS[usize::from(first)] == 0 {
            text.push(first);
            rest = &rest[1..];
            joined &= first == b'-' && text.ends_with(b"0-");
            continue;
        }
        let (length, WordClass(classes)) = word(rest);
        let (word, after) = rest.split_at(length);
        rest = after;
        joined = is_number(word, classes) || (joined && classes == HEX && length == GROUP);
        if joined {
            text.push(b'0');
        } else if classes & DIGIT == 0 {
            text.extend_from_slice(word);
        } else {
            without_digits(word, text);
        }
    }
}

// Returns the length of the leading run of letters and digits, and the classes of its bytes.
pub(super) fn word(bytes: &[u8]) -> (usize, WordClass) {
    let mut classes = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match CLASS[usize::from(*byte)] {
            0 => return (at, WordClass(classes)),
            class => classes |= class,
        }
    }
    (bytes.len(), WordClass(classes))
}

fn is_number(word: &[u8], classes: u8) -> bool {
    let is_hex = |(length, WordClass(classes))| length > 0 && classes & LETTER == 0;
    match classes {
        DIGIT => true,
        classes if classes == DIGIT | HEX => word.len() >= HEX_DIGITS,
        _ => word.strip_prefix(b"0x").is_some_and(|digits| is_hex(self::word(digits))),
    }
}

fn without_digits(word: &[u8], text: &mut Vec<u8>) {
    let mut digits = false;
    for byte in word {
        let digit = byte.is_ascii_digit();
        match (digit, digits) {
            (true, true) => {}
            (true, false) => text.push(b'0'),
            (false, _) => text.push(*byte),
        }
        digits = digit;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(line: &str) -> String {
        let mut text = Vec::new();
        without_numbers(line.as_bytes(), &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_are_left_out() {
        let cases = [
            ("GET /health 200", "GET /health 0"),
            ("2026-11-21T10:00:02.113Z INFO took 17ms", "0-0-0T0:0:0.0Z INFO took 0ms"),
            ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit 0"),
            ("id 5f0c3a1e-beef-4d2a-9c11-00aa11bb22cc end", "id 0-0-0-0-0 end"),
            ("at 0x7ffe12ab, 0xbeef, +0x1b2", "at 0, 0, +0"),
            ("1e5 3d utf8 sha256 x86_64", "0e0 0d utf0 sha0 x0_0"),
            ("face the facade of bad deeds", "face the facade of bad deeds"),
            ("a 1-beef", "a 0-0"),
            ("gr\u{fc}n 12", "gr\u{fc}n 0"),
            ("", ""),
        ];
        for (line, text) in cases {
            assert_eq!(plain(line), text, "{line}");
        }
    }

    proptest! {
        #[test]
        fn both_hashes_tell_the_same_lines_apart(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "0", "12", "-", "beef", "9f3a", "0x1f", "a1", "a", "ms", "x", " ", "1e5", "\u{e9}",
                ]),
                0..6,
            ),
            others in prop::collection::vec(
                prop::sample::select(vec!["0", "7", "-", "dead", "0x2", "a9", "a", "x", " "]),
                0..6,
            ),
        ) {
            let (one, other) = (parts.concat(), others.concat());
            let mut likeness = LikenessHasher::default();
            let (by_text, quick) = [LikenessHasher::of, LikenessHasher::quick]
                .map(|hash| {
                    hash(&mut likeness, one.as_bytes()) == hash(&mut likeness, other.as_bytes())
                })
                .into();
            prop_assert_eq!(by_text, quick);
        }
    }

    #[test]
    fn lines_are_alike_or_not() {
        let mut likeness = LikenessHasher::default();
        assert_eq!(likeness.of(b"request 17 took 3ms"), likeness.of(b"request 4 took 1999ms"));
        assert_ne!(likeness.of(b"request 17 took 3ms"), likeness.of(b"request 17 took 3s"));
        assert_ne!(exact(b"request 17"), exact(b"request 18"));
    }
}
