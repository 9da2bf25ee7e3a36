//! The end of an output that passes a limit.

use std::collections::VecDeque;

/// The most bytes of a [`Tail`].
const MOST: usize = 256 * 1024;
/// The bytes in which a newline is looked for, so that a cut falls between two lines.
const NEAR: usize = 4096;

/// The last bytes of a stream, at most 256 KiB.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    dropped: u64,
}

impl Tail {
    /// Adds bytes at the end. Those that are too many drop out at the beginning.
    pub fn add(&mut self, bytes: &[u8]) {
        let more = &bytes[bytes.len().saturating_sub(MOST)..];
        let over = (self.bytes.len() + more.len()).saturating_sub(MOST);
        self.bytes.drain(..over);
        self.bytes.extend(more);
        self.dropped += (over + bytes.len() - more.len()) as u64;
    }

    /// Returns the number of bytes that dropped out.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the bytes.
    pub fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

/// Returns the line that stands for `count` bytes which are not there.
pub fn left_out(count: u64, why: &str) -> String {
    format!("[ctxfs] {count} bytes left out here: {why}\n")
}

/// Returns the length of `head` without a line that was cut off at its end, if a line ends shortly
/// before, else without a character that was cut off.
pub fn whole_lines_before(head: &[u8]) -> usize {
    let from = head.len().saturating_sub(NEAR);
    if let Some(newline) = head[from..].iter().rposition(|byte| *byte == b'\n') {
        return from + newline + 1;
    }
    let begins = head.iter().rev().take(4).position(|byte| !is_inside_char(*byte));
    match begins {
        Some(back) if head[head.len() - 1 - back] >= 0xC0 => head.len() - 1 - back,
        _ => head.len(),
    }
}

/// Returns the number of bytes at the beginning of `tail` that belong to a line that was cut off,
/// if a line ends shortly after, else to a character that was cut off.
pub fn cut_line_of(tail: &[u8]) -> usize {
    let near = &tail[..tail.len().min(NEAR)];
    if let Some(newline) =
        near.iter().position(|byte| *byte == b'\n').filter(|at| at + 1 < tail.len())
    {
        return newline + 1;
    }
    near.iter().take(3).take_while(|byte| is_inside_char(**byte)).count()
}

fn is_inside_char(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_stay_however_they_came() {
        let bytes: Vec<u8> = (0..MOST * 3).map(|at| (at / 7 % 251) as u8).collect();
        for step in [1000, 65_536, MOST - 1, MOST, MOST + 1, MOST * 3] {
            let mut tail = Tail::default();
            bytes.chunks(step).for_each(|piece| tail.add(piece));
            assert_eq!((tail.dropped(), tail.bytes()), (MOST as u64 * 2, &bytes[MOST * 2..]));
        }
        let mut tail = Tail::default();
        tail.add(&bytes[..MOST]);
        assert_eq!((tail.dropped(), tail.bytes()), (0, &bytes[..MOST]));
    }

    #[test]
    fn cuts_fall_between_lines_or_at_least_characters() {
        assert_eq!(whole_lines_before(b"one\ntwo"), 4);
        assert_eq!(whole_lines_before(b"one\n"), 4);
        assert_eq!(whole_lines_before(b"one"), 3);
        assert_eq!(whole_lines_before("on\u{20ac}".as_bytes()), 2);
        assert_eq!(whole_lines_before(&"\u{20ac}".as_bytes()[..2]), 0);
        assert_eq!(whole_lines_before(b""), 0);
        assert_eq!(cut_line_of(b"ne\ntwo\n"), 3);
        assert_eq!(cut_line_of(b"two\n"), 0);
        assert_eq!(cut_line_of(&"\u{20ac}x".as_bytes()[1..]), 2);
        assert_eq!(cut_line_of(&[0x80; 9]), 3);
        assert_eq!(cut_line_of(b""), 0);
    }
}
