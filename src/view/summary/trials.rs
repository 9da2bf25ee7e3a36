//! Tries the searches that a summary may offer, all of them in one pass over the output.

use std::io;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use ctxfs_core::model::Content;

/// Number of context lines on either side of a line.
pub(super) const CONTEXT_LINES: usize = 3;
/// Number of lines whose positions are kept.
pub(super) const FEW_LINES: u64 = 10;
/// Maximum number of texts, which are the bits of a set.
pub(super) const MAX_TEXTS: usize = 64;
const BLOCK_BYTES: usize = 256 << 10;
const SHORT_CONTENT: u64 = 64 << 10;
// Maximum length in bytes of a text.
const TEXT_BYTES: usize = 256;
// Number of bytes that are read on either side of a line for its context.
const REACH: u64 = 4096;
// Length in bytes of the number that a search prints before a line.
const NUMBER_BYTES: u64 = 8;

/// A text to search for. If `is_word` is true, upper and lower case are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchText {
    pub(super) text: String,
    pub(super) is_word: bool,
}

/// The lines that have any text of a set: their number, at least the bytes that a search prints of
/// them, and the ranges of the first [`FEW_LINES`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FoundLines {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) first: Vec<Range<u64>>,
}

/// Returns the lines of `content` for each of `sets`. Bit `n` of a set stands for the text number
/// `n`. Reads the content once. A text of more than [`TEXT_BYTES`] bytes is found nowhere.
pub(super) fn find_lines(
    content: &dyn Content,
    texts: &[SearchText],
    sets: &[u64],
) -> io::Result<Vec<FoundLines>> {
    let patterns = texts.iter().map(|it| it.text.as_bytes());
    let patterns = patterns.map(|it| if it.len() > TEXT_BYTES { b"\n\n" } else { it });
    // In short content, a search takes less time than building a faster searcher.
    let is_short = content.len() <= SHORT_CONTENT;
    let kind = is_short.then_some(AhoCorasickKind::NoncontiguousNFA);
    let searcher = AhoCorasick::builder().ascii_case_insensitive(true).kind(kind).build(patterns);
    let searcher = searcher.map_err(io::Error::other)?;
    let mut found = vec![FoundLines::default(); sets.len()];
    // The line that is being searched: its start, and its texts.
    let (mut start, mut has) = (0, 0_u64);
    let mut offset = 0;
    while offset < content.len() {
        let block = content.bytes(offset, BLOCK_BYTES + TEXT_BYTES)?;
        let own = block.len().min(BLOCK_BYTES);
        let mut end_line = |range: Range<u64>, has: u64| {
            let hit = found.iter_mut().zip(sets).filter(|(_, set)| has & **set != 0);
            hit.for_each(|(lines, _)| lines.add(range.clone()));
        };
        let mut at = 0;
        for hit in searcher.find_overlapping_iter(&block).filter(|hit| hit.start() < own) {
            if let Some(newline) = memchr::memchr(b'\n', &block[at..hit.start().max(at)]) {
                end_line(start..offset + (at + newline) as u64, has);
                let last = memchr::memrchr(b'\n', &block[..hit.start()]).unwrap_or(0);
                (start, has) = (offset + last as u64 + 1, 0);
            }
            at = at.max(hit.start());
            let text = &texts[hit.pattern().as_usize()];
            let is_same = text.is_word || block[hit.range()] == *text.text.as_bytes();
            has |= u64::from(is_same) << hit.pattern().as_u32();
        }
        if let Some(newline) = memchr::memchr(b'\n', &block[at..own]) {
            end_line(start..offset + (at + newline) as u64, has);
            let last = memchr::memrchr(b'\n', &block[..own]).unwrap_or(0);
            (start, has) = (offset + last as u64 + 1, 0);
        }
        offset += own.max(1) as u64;
        if offset >= content.len() {
            end_line(start..content.len(), has);
        }
    }
    Ok(found)
}

impl FoundLines {
    fn add(&mut self, range: Range<u64>) {
        self.count += 1;
        self.bytes += range.end - range.start + NUMBER_BYTES;
        if self.count <= FEW_LINES {
            self.first.push(range);
        }
    }

    /// Returns at least the number of bytes that a search prints with [`CONTEXT_LINES`] around each
    /// line. There must be at most [`FEW_LINES`].
    pub(super) fn bytes_with_context(&self, content: &dyn Content) -> io::Result<u64> {
        let mut sum = self.bytes;
        for Range { start, end } in &self.first {
            let from = start.saturating_sub(REACH);
            let above = content.bytes(from, (start - from) as usize)?;
            let below = content.bytes(*end, REACH as usize)?;
            let first = memchr::memrchr_iter(b'\n', &above).nth(CONTEXT_LINES).unwrap_or(0);
            let last = memchr::memchr_iter(b'\n', &below).nth(CONTEXT_LINES);
            let bytes = above.len() - first + last.unwrap_or(below.len());
            sum += bytes as u64 + 2 * CONTEXT_LINES as u64 * NUMBER_BYTES;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &str, texts: &[(&str, bool)], sets: &[u64]) -> Vec<Vec<String>> {
        let texts: Vec<SearchText> = texts
            .iter()
            .map(|(text, is_word)| SearchText { text: (*text).to_owned(), is_word: *is_word })
            .collect();
        let bytes = content.as_bytes().to_vec();
        let found = find_lines(&bytes, &texts, sets).unwrap();
        let text =
            |range: &Range<u64>| content[range.start as usize..range.end as usize].to_owned();
        found.iter().map(|lines| lines.first.iter().map(text).collect()).collect()
    }

    #[test]
    fn lines_with_any_text_of_a_set_are_found_once() {
        let content = "KeyError: a KeyError\nnothing\nkeyerror\n\nKey\nlast ValueError";
        let texts = [("KeyError", false), ("keyerror", true), ("ValueError", false)];
        let found = lines(content, &texts, &[1, 2, 5, 0]);
        assert_eq!(found[0], ["KeyError: a KeyError"]);
        assert_eq!(found[1], ["KeyError: a KeyError", "keyerror"]);
        assert_eq!(found[2], ["KeyError: a KeyError", "last ValueError"]);
        assert!(found[3].is_empty());
    }

    #[test]
    fn blocks_do_not_matter() {
        for before in [BLOCK_BYTES - 5, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1] {
            let first = "x".repeat(before);
            let found =
                lines(&format!("{first}ERROR a\n\nERROR b\nc\n"), &[("ERROR", false)], &[1]);
            assert_eq!(found, [[format!("{first}ERROR a"), "ERROR b".to_owned()]]);
            let found = lines(&format!("{first}\nERROR a\nc"), &[("ERROR", false)], &[1]);
            assert_eq!(found, [["ERROR a"]]);
        }
        assert!(lines("", &[("a", true)], &[1])[0].is_empty());
    }

    #[test]
    fn context_is_measured() {
        let content = b"1\n2\n3\n4\nERROR\n6\n7\n8\n9\n".to_vec();
        let text = SearchText { text: "ERROR".to_owned(), is_word: false };
        let found = &find_lines(&content, &[text], &[1]).unwrap()[0];
        let bytes = found.bytes_with_context(&content).unwrap();
        let printed = "2-2\n3-3\n4-4\n5:ERROR\n6-6\n7-7\n8-8\n".len() as u64;
        assert!((printed..2 * printed + 40).contains(&bytes), "{bytes}");
        assert_eq!((found.count, found.bytes), (1, 5 + NUMBER_BYTES));
    }
}
