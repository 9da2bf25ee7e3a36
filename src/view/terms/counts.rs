//! One pass over an artifact that counts its words.

use std::io;

use crate::terms::words;
use ctxfs_core::materialize::frequent::Frequent;
use ctxfs_core::model::Content;

// About 10 MB.
pub(super) const MOST_WORDS: usize = 1 << 16;
// About a second of reading. Of a larger artifact, evenly spaced samples are read.
pub(super) const MOST_BYTES: u64 = 32 << 20;
const SAMPLE_BYTES: u64 = 256 << 10;
// A sample begins and ends between two words if there is a gap in this many bytes.
const MARGIN: usize = 512;
// Longer lines are divided into units of this many bytes.
const UNIT: usize = 512;

/// The words of an artifact, with their counts. `units` are lines, or parts of longer ones; `lines`
/// and `bytes` are what was read; `stopped` is the byte at which time ran out.
pub(super) struct WordCounts {
    words: Frequent<Vec<u8>, WordStats>,
    pub(super) units: u64,
    pub(super) lines: u64,
    pub(super) bytes: u64,
    pub(super) stopped: Option<u64>,
    escaped: bool,
}

/// The counts of a word: the line of its first occurrence, if lines are counted, the number of
/// units with the word, and the last of them.
#[derive(Debug, Clone, Copy)]
struct WordStats {
    line: Option<u64>,
    units: u64,
    unit: u64,
}

pub(super) struct Term<'a> {
    pub(super) text: &'a [u8],
    pub(super) times: u64,
    // Lines in which it occurs.
    pub(super) units: u64,
    pub(super) line: Option<u64>,
}

impl WordCounts {
    /// Reads `content`, or samples of it, until time runs out.
    pub(super) fn take(
        content: &dyn Content,
        escaped: bool,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let words = Frequent::new(MOST_WORDS);
        let mut counts = Self { words, units: 0, lines: 0, bytes: 0, stopped: None, escaped };
        if is_sampled(content.len()) {
            counts.sample(content, expired)?;
        } else {
            counts.whole(content, expired)?;
        }
        Ok(counts)
    }

    /// Returns the number of words, including names, or `None` if there are more than
    /// [`MAX_WORDS`].
    pub(super) fn words(&self) -> Option<u64> {
        self.words.is_complete().then_some(self.words.key_count() as u64)
    }

    /// Returns all words that are counted, in no order.
    pub(super) fn terms(&self) -> impl Iterator<Item = Term<'_>> {
        self.words.iter().map(|(text, count)| Term {
            text,
            times: count.times,
            units: count.value.units,
            line: count.value.line,
        })
    }

    fn whole(&mut self, content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<()> {
        let mut offset = 0;
        while offset < content.len() {
            if expired() {
                self.stopped = Some(offset);
                break;
            }
            let bytes = content.bytes(offset, SAMPLE_BYTES as usize)?;
            let ends = offset + bytes.len() as u64 == content.len();
            let sample = if ends { &bytes[..] } else { &bytes[..last_gap(&bytes)] };
            if sample.is_empty() {
                break;
            }
            self.add(sample, true);
            offset += sample.len() as u64;
        }
        self.bytes = offset;
        self.lines += u64::from(offset > 0 && content.bytes(offset - 1, 1)? != b"\n");
        Ok(())
    }

    fn sample(&mut self, content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<()> {
        let count = MOST_BYTES / SAMPLE_BYTES;
        let step = (content.len() - SAMPLE_BYTES) / (count - 1);
        for offset in (0..count).map(|at| at * step) {
            if expired() {
                self.stopped = Some(offset);
                break;
            }
            let bytes = content.bytes(offset, SAMPLE_BYTES as usize)?;
            let start = if offset == 0 { 0 } else { first_gap(&bytes) };
            let end = last_gap(&bytes).max(start);
            self.add(&bytes[start..end], offset == 0);
            self.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    // If `numbered`, all lines before the sample were counted.
    fn add(&mut self, sample: &[u8], numbered: bool) {
        let mut lines = 0;
        for line in sample.split(|byte| *byte == b'\n') {
            let number = numbered.then_some(self.lines + lines + 1);
            let first = self.units;
            words::each(line, self.escaped, |at, word| {
                let unit = first + (at / UNIT) as u64;
                let known = || WordStats { line: number, units: 0, unit: u64::MAX };
                let count = self.words.add(word, 1, known);
                count.value.units += u64::from(count.value.unit != unit);
                count.value.unit = unit;
            });
            self.units += (line.len() / UNIT) as u64 + 1;
            lines += 1;
        }
        self.lines += lines - 1;
    }
}

// Of a longer content only samples are read.
pub(super) fn is_sampled(length: u64) -> bool {
    length > MOST_BYTES
}

// After the last byte near the end that is part of no word, or the end if there is none.
fn last_gap(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(MARGIN);
    let gap = bytes[from..].iter().rposition(|byte| words::is_gap(*byte));
    gap.map_or(bytes.len(), |at| from + at + 1)
}

// After the first byte near the start that is part of no word, or the start if there is none.
fn first_gap(bytes: &[u8]) -> usize {
    bytes.iter().take(MARGIN).position(|byte| words::is_gap(*byte)).map_or(0, |at| at + 1)
}
