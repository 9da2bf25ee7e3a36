//! Finding words in long texts.

use std::io;
use std::io::Read;

use memchr::memmem;

use crate::message::BLOCK;
use ctxfs_core::model::Content;

/// Returns true if `word` is in what `reader` reads.
pub(super) fn contains(mut reader: impl Read, word: &[u8]) -> io::Result<bool> {
    let finder = memmem::Finder::new(word);
    let (mut block, mut kept) = (vec![0; BLOCK + word.len()], 0);
    loop {
        let count = reader.read(&mut block[kept..])?;
        let end = kept + count;
        if count == 0 || finder.find(&block[..end]).is_some() {
            return Ok(count > 0);
        }
        kept = end.min(word.len() - 1);
        block.copy_within(end - kept..end, 0);
    }
}

/// A search for one word from one place after another.
pub(super) struct TextFinder<'a> {
    text: &'a dyn Content,
    finder: memmem::Finder<'static>,
    /// A part of the text, and its offset.
    block: Vec<u8>,
    start: u64,
}

impl<'a> TextFinder<'a> {
    pub(super) fn new(text: &'a dyn Content, word: &[u8]) -> Self {
        let finder = memmem::Finder::new(word).into_owned();
        Self { text, finder, block: Vec::new(), start: 0 }
    }

    /// Returns the offset of the first word at `from` or after it, which is after all before.
    pub(super) fn find(&mut self, mut from: u64) -> io::Result<Option<u64>> {
        let overlap = self.finder.needle().len() as u64 - 1;
        loop {
            let skipped = usize::try_from(from - self.start).unwrap_or(usize::MAX);
            let rest = self.block.get(skipped..).unwrap_or_default();
            if let Some(at) = self.finder.find(rest) {
                return Ok(Some(from + at as u64));
            }
            let end = self.start + self.block.len() as u64;
            if end >= self.text.len() && end > 0 {
                return Ok(None);
            }
            from = from.max(end.saturating_sub(overlap));
            self.start = from;
            self.block = self.text.bytes(from, BLOCK)?;
            if self.block.is_empty() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LogLine;

    #[test]
    fn words_are_found_across_blocks() {
        let word = b"<word>";
        for before in [0, 1, BLOCK - 6, BLOCK - 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 2] {
            let text = [&b"<".repeat(before)[..], word, &b"x".repeat(BLOCK), word, b"y"].concat();
            assert!(contains(&text[..], word).unwrap());
            assert!(!contains(&text[..before + 5], word).unwrap());
            let line = LogLine::from(text);
            let mut finder = TextFinder::new(&line, word);
            let second = (before + 6 + BLOCK) as u64;
            assert_eq!(finder.find(0).unwrap(), Some(before as u64));
            assert_eq!(finder.find(before as u64).unwrap(), Some(before as u64));
            assert_eq!(finder.find(before as u64 + 1).unwrap(), Some(second));
            assert_eq!(finder.find(second + 6).unwrap(), None);
        }
        assert_eq!(TextFinder::new(&LogLine::from(Vec::new()), word).find(0).unwrap(), None);
    }
}
