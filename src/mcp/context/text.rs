//! Text of a file, as much as a model may have at once.

use std::io;

use crate::shelf::OpenShelf;
use ctxfs_core::model::Content;

/// The most bytes, where the limits have none.
const MOST: u64 = 1 << 20;

/// Returns the most bytes of an answer.
pub(super) fn most_bytes(open: &OpenShelf) -> u64 {
    open.engine.limits(None).max_inline_bytes.clamp(4, MOST)
}

/// A part of a file that begins and ends between characters.
pub(super) struct Slice {
    pub(super) offset: u64,
    /// The offset to go on at; `None` at the end.
    pub(super) next: Option<u64>,
    pub(super) text: String,
    pub(super) is_binary: bool,
}

impl Slice {
    pub(super) fn read(file: &dyn Content, offset: u64, limit: u64) -> io::Result<Self> {
        // A character has at most four bytes.
        let mut bytes = file.bytes(offset, limit.max(4) as usize)?;
        let begins = |byte: &u8| byte & 0xC0 != 0x80;
        let skipped = bytes.iter().take(3).take_while(|byte| offset > 0 && !begins(byte)).count();
        bytes.drain(..skipped);
        let offset = offset + skipped as u64;
        let whole = offset + bytes.len() as u64 >= file.len();
        if !whole {
            bytes.truncate(end_of_last(&bytes));
        }
        let end = offset + bytes.len() as u64;
        let is_binary = memchr::memchr(0, &bytes).is_some();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { offset, next: (end < file.len()).then_some(end), text, is_binary })
    }
}

/// Returns the end of the last whole character.
fn end_of_last(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3)..bytes.len();
    for at in tail.rev() {
        let needs = match bytes[at] {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => 1,
        };
        return if at + needs > bytes.len() { at } else { bytes.len() };
    }
    bytes.len()
}

/// Returns the text of a view, cut to `most` bytes. Says so if it is cut.
pub(super) fn shown(file: &dyn Content, most: u64) -> io::Result<String> {
    let slice = Slice::read(file, 0, most)?;
    let Some(next) = slice.next else { return Ok(slice.text) };
    let total = file.len();
    Ok(format!("{}\n# cut: the first {next} of {total} bytes are shown\n", slice.text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_stay_whole() {
        let text = "a\u{e9}\u{20ac}\u{1f600}z".repeat(20);
        let file: &[u8] = text.as_bytes();
        for limit in 4..20 {
            let (mut at, mut all) = (0, String::new());
            loop {
                let slice = Slice::read(&file, at, limit).unwrap();
                assert!(slice.text.len() as u64 <= limit && !slice.text.contains('\u{fffd}'));
                all += &slice.text;
                match slice.next {
                    Some(next) => at = next,
                    None => break,
                }
            }
            assert_eq!(all, text);
        }
        assert_eq!(Slice::read(&file, 2, 100).unwrap().offset, 3);
        assert_eq!(Slice::read(&file, 1 << 40, 100).unwrap().next, None);
        let broken: &[u8] = b"\x80\x80\x80\x80\x80\x80\x80\x80";
        assert_eq!(Slice::read(&broken, 0, 4).unwrap().next, Some(4));
    }

    #[test]
    fn what_is_cut_says_so() {
        let file: &[u8] = b"one two three";
        assert_eq!(shown(&file, 100).unwrap(), "one two three");
        assert_eq!(shown(&file, 8).unwrap(), "one two\n# cut: the first 8 of 13 bytes are shown\n");
    }
}
