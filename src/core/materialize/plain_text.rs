//! The text of stored bytes as a [`Content`]: decoded, and without escape sequences. Reading begins
//! at checkpoints in the bytes.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::materialize::reading::TextDecoder;
use crate::model::{Content, Reading, read_pieces};

/// Number of bytes per read. A read call costs little compared with the analysis of so many bytes,
/// and they fit into the second-level cache.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
const STEP: usize = 64 * 1024;
// Initial number of log bytes between two checkpoints.
const SPACING: u64 = 256 * 1024;
// Number of log bytes between two checkpoints for readers of small parts of the text.
const DENSE: u64 = 8 * 1024;
/// Maximum number of checkpoints. When it is reached, every other checkpoint is dropped, so a log
/// may have any length.
const MOST: usize = 4096;

/// A position in the log from which the text can be read. `raw` is its offset in the log, and
/// `plain` its offset in the text. `decoder` is the state at this position, and holds no text.
#[derive(Debug, Clone, Default)]
struct Checkpoint {
    raw: u64,
    plain: u64,
    decoder: TextDecoder,
}

/// Positions in a log from which its text can be read, in one [`Reading`]. They are valid for any log
/// that begins with the same bytes. Clones share the positions.
#[derive(Debug, Clone, Default)]
pub struct Checkpoints {
    reading: Reading,
    list: Arc<Vec<Checkpoint>>,
}

impl Checkpoints {
    /// Reads `content` until its end or until `expired` returns true. Returns the checkpoints and
    /// the number of bytes read.
    pub fn of(
        content: &dyn Content,
        reading: Reading,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<(Self, u64)> {
        let (mut extractor, mut text) = (TextExtractor::new(reading), Vec::new());
        loop {
            let block = content.bytes(extractor.raw, BLOCK_BYTES)?;
            if block.is_empty() || expired() {
                return Ok((extractor.checkpoints(), extractor.raw));
            }
            extractor.push(&block, &mut text);
            text.clear();
        }
    }

    /// Returns these checkpoints if they are of `reading`, and none otherwise.
    #[must_use]
    pub fn of_reading(self, reading: Reading) -> Self {
        if self.reading == reading { self } else { Self::none(reading) }
    }

    /// Returns no checkpoints: the text is read from the beginning.
    pub fn none(reading: Reading) -> Self {
        Self { reading, list: Arc::default() }
    }

    /// Returns checkpoints of `content`, about 8 KiB apart, from which the text can be read without
    /// any state. See [`at`](Self::at).
    pub fn dense(content: &dyn Content, reading: Reading) -> io::Result<Self> {
        let (mut extractor, mut text) = (TextExtractor::new(reading), Vec::new());
        extractor.spacing = DENSE;
        loop {
            let block = content.bytes(extractor.raw, BLOCK_BYTES)?;
            if block.is_empty() {
                break;
            }
            for piece in block.chunks(DENSE as usize) {
                extractor.push(piece, &mut text);
                text.clear();
            }
        }
        let fresh = extractor.checkpoints.iter().filter(|each| each.decoder.is_fresh());
        Ok(Self { reading, list: Arc::new(fresh.cloned().collect()) })
    }

    /// Returns checkpoints at positions that [`dense`](Self::dense) found. Each item of `places` is
    /// an offset in the log, and the matching offset in the text. Positions that are out of order or
    /// exceed the maximum number are ignored.
    pub fn at(places: &[(u64, u64)], reading: Reading) -> Self {
        let mut checkpoints: Vec<Checkpoint> = Vec::new();
        for (raw, plain) in places.iter().take(MOST) {
            let decoder = TextDecoder::from(reading, *raw);
            let next = Checkpoint { raw: *raw, plain: *plain, decoder };
            let is_after = |last: &Checkpoint| last.raw < next.raw && last.plain <= next.plain;
            if next.plain <= 2 * next.raw && checkpoints.last().is_none_or(is_after) {
                checkpoints.push(next);
            }
        }
        Self { reading, list: Arc::new(checkpoints) }
    }

    /// Returns which part of a log has to be read to get the range `text` of its text. The log has
    /// `length` bytes. The first value is where to start: an offset in the log, and the matching
    /// offset in the text. The second value is a range of the log; nothing outside this range is
    /// read.
    pub fn around(&self, text: &Range<u64>, length: u64) -> ((u64, u64), Range<u64>) {
        let start = self.before(text.start, length);
        let after = self.list.partition_point(|checkpoint| checkpoint.plain < text.end);
        let end = self.list.get(after).map_or(length, |checkpoint| checkpoint.raw + STEP as u64);
        ((start.raw, start.plain), start.raw..end.min(length))
    }

    /// Returns the last checkpoint before or at both offsets: `plain` in the text, and `raw` in the
    /// log.
    fn before(&self, plain: u64, raw: u64) -> Checkpoint {
        let is_before = |each: &Checkpoint| each.plain <= plain && each.raw <= raw;
        let past = self.list.partition_point(is_before);
        let start = || Checkpoint { raw: 0, plain: 0, decoder: TextDecoder::new(self.reading) };
        past.checked_sub(1).map_or_else(start, |at| self.list[at].clone())
    }
}

// Extracts the text of a log and records checkpoints.
#[derive(Debug, Clone)]
pub(super) struct TextExtractor {
    pub(super) decoder: TextDecoder,
    raw: u64,
    plain: u64,
    checkpoints: Arc<Vec<Checkpoint>>,
    spacing: u64,
}

impl TextExtractor {
    pub(super) fn new(reading: Reading) -> Self {
        let (decoder, checkpoints) = (TextDecoder::new(reading), Arc::default());
        Self { decoder, raw: 0, plain: 0, checkpoints, spacing: SPACING }
    }

    pub(super) fn reading(&self) -> Reading {
        self.decoder.reading
    }

    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let (before, after) = bytes.split_at(self.decoder.boundary(bytes));
        self.decode(before, out);
        self.checkpoint();
        self.decode(after, out);
    }

    pub(super) fn length(&self) -> u64 {
        let mut rest = Vec::new();
        self.decoder.finish(&mut rest);
        self.plain + rest.len() as u64
    }

    pub(super) fn overdrawn(&self) -> u64 {
        self.decoder.finish(&mut Vec::new())
    }

    pub(super) fn checkpoints(&self) -> Checkpoints {
        Checkpoints { reading: self.reading(), list: Arc::clone(&self.checkpoints) }
    }

    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        self.decoder.push(bytes, out);
        self.raw += bytes.len() as u64;
        self.plain += (out.len() - before) as u64;
    }

    fn checkpoint(&mut self) {
        let last = self.checkpoints.last().map_or(0, |checkpoint| checkpoint.raw);
        if self.raw < last + self.spacing || !self.decoder.is_empty() {
            return;
        }
        let checkpoints = Arc::make_mut(&mut self.checkpoints);
        if checkpoints.len() == MOST {
            let mut number = 0;
            checkpoints.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.spacing *= 2;
        }
        let (raw, plain, decoder) = (self.raw, self.plain, self.decoder.clone());
        checkpoints.push(Checkpoint { raw, plain, decoder });
    }
}

/// Maximum number of cached blocks. The blocks cover the distance between two checkpoints. Reading
/// backwards or at random therefore does not read blocks repeatedly.
const KEPT: usize = 16;

/// The text of a log, as a [`Content`].
///
/// A read that continues a recent read processes only the bytes that it needs. Any other read
/// starts at the last checkpoint before its offset.
pub struct PlainText<C> {
    log: C,
    checkpoints: Checkpoints,
    length: u64,
    recent: Mutex<VecDeque<Arc<PlainBlock>>>,
}

struct PlainBlock {
    start: u64,
    bytes: Vec<u8>,
    raw: u64,
    decoder: TextDecoder,
    is_last: bool,
}

impl PlainBlock {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn at(checkpoint: Checkpoint) -> Self {
        let Checkpoint { raw, plain, decoder } = checkpoint;
        Self { start: plain, bytes: Vec::new(), raw, decoder, is_last: false }
    }
}

impl<C: Content> PlainText<C> {
    /// Returns the text of `log` in `reading`. Reads the log to its end.
    pub fn whole(log: C, reading: Reading) -> io::Result<Self> {
        let (checkpoints, _) = Checkpoints::of(&log, reading, &|| false)?;
        Self::new(log, checkpoints)
    }

    /// Returns the text of `log`. `checkpoints` must belong to this log, to a prefix of it, or to a
    /// longer log that begins with it. Reads the log from the last checkpoint to the end to
    /// determine the length of the text.
    pub fn new(log: C, checkpoints: Checkpoints) -> io::Result<Self> {
        let mut block = PlainBlock::at(checkpoints.before(u64::MAX, log.len()));
        while !block.is_last {
            block = next_block(&log, &block)?;
        }
        Ok(Self::of_length(log, checkpoints, block.end()))
    }

    /// Does the same as [`new`](Self::new) for a text whose `length` is already known, and
    /// therefore reads nothing.
    pub fn of_length(log: C, checkpoints: Checkpoints, length: u64) -> Self {
        Self { log, checkpoints, length, recent: Mutex::default() }
    }

    // Returns the block that contains `offset`, which must be less than the length.
    fn block(&self, offset: u64) -> io::Result<Arc<PlainBlock>> {
        let mut block = self.nearest(offset);
        while block.end() <= offset && !block.is_last {
            block = Arc::new(next_block(&self.log, &block)?);
            self.keep(&block);
        }
        Ok(block)
    }

    /// Returns the block from which to read on towards `offset`. This is the cached block or the
    /// checkpoint that is nearest to `offset`, but not after it. A checkpoint is returned as an
    /// empty block.
    fn nearest(&self, offset: u64) -> Arc<PlainBlock> {
        let recent = self.recent.lock();
        let kept = recent.iter().filter(|block| block.start <= offset).max_by_key(|b| b.start);
        let kept = kept.map(Arc::clone);
        drop(recent);
        if let Some(block) = kept.as_ref().filter(|block| offset < block.end() || block.is_last) {
            return Arc::clone(block);
        }
        let marked = PlainBlock::at(self.checkpoints.before(offset, self.log.len()));
        kept.filter(|block| block.start >= marked.start).unwrap_or_else(|| Arc::new(marked))
    }

    fn keep(&self, block: &Arc<PlainBlock>) {
        let mut recent = self.recent.lock();
        if recent.len() == KEPT {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(block));
    }
}

fn next_block(log: &dyn Content, block: &PlainBlock) -> io::Result<PlainBlock> {
    let (mut decoder, mut bytes) = (block.decoder.clone(), Vec::new());
    let read = log.bytes(block.raw, STEP)?;
    decoder.push(&read, &mut bytes);
    let is_last = read.is_empty();
    if is_last {
        decoder.finish(&mut bytes);
    }
    let raw = block.raw + read.len() as u64;
    Ok(PlainBlock { start: block.end(), bytes, raw, decoder, is_last })
}

impl<C: Content> Content for PlainText<C> {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.length, offset, buffer, |at, buffer| {
            let block = self.block(at)?;
            block.bytes.read_at(at - block.start, buffer)
        })
    }

    fn is_over(&self) -> bool {
        self.log.is_over()
    }
}

impl<C> std::fmt::Debug for PlainText<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainText").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bstr::ByteSlice as _;

    use super::*;
    use crate::materialize::plain::strip_escapes;

    const READING: Reading = Reading::TERMINAL;

    #[test]
    fn a_character_may_come_byte_by_byte() {
        let charset = crate::model::Charset::Utf32Le;
        let mut extractor = TextExtractor::new(Reading { charset, ..Reading::default() });
        let mut text = Vec::new();
        for byte in b"a\0\0\0b\0\0\0" {
            extractor.push(&[*byte], &mut text);
        }
        assert_eq!(text, b"ab");
    }

    #[test]
    fn checkpoints_are_bounded_and_reach_everywhere() {
        let line = b"\x1b[32msome line of a log\x1b[0m\n";
        let mut extractor = TextExtractor { spacing: 10, ..TextExtractor::new(READING) };
        let mut text = Vec::new();
        for _ in 0..10_000 {
            text.clear();
            extractor.push(line, &mut text);
        }
        let checkpoints = extractor.checkpoints();
        assert!(
            checkpoints.list.len() > 2000 && checkpoints.list.len() <= 4096,
            "{}",
            checkpoints.list.len()
        );
        for at in [0, 1, 100_000, 190_000, u64::MAX] {
            let checkpoint = checkpoints.before(at, u64::MAX);
            assert_eq!(checkpoint.plain / 19, checkpoint.raw / line.len() as u64);
            assert!(
                at.min(extractor.length()) - checkpoint.plain < 200,
                "{at}: {}",
                checkpoint.plain
            );
        }
    }

    #[test]
    fn a_part_of_a_text_is_read_from_a_place_near_it() {
        let line = |number: usize| format!("\x1b[3{}mline {number}\x1b[0m of a log\n", number % 8);
        let log = (0..60_000).map(line).collect::<Vec<_>>().concat().into_bytes();
        let text = strip_escapes(&log);
        let lines = Checkpoints::dense(&log, READING).unwrap();
        let middle = text.len() as u64 / 2;
        let wanted = middle..middle + 1000;
        let (place, around) = lines.around(&wanted, log.len() as u64);
        assert!(place.1 <= middle && middle - place.1 < 32 << 10, "{place:?}");
        assert!(around.start == place.0 && around.end - around.start < 160 << 10, "{around:?}");
        let end = text.len() as u64 - 10..text.len() as u64;
        let (last, to_end) = lines.around(&end, log.len() as u64);
        assert_eq!(to_end.end, log.len() as u64);
        // Bytes that are not read may have any value.
        let mut other = vec![b'?'; log.len()];
        for range in [around, to_end] {
            let range = range.start as usize..range.end as usize;
            other[range.clone()].copy_from_slice(&log[range]);
        }
        let shown =
            PlainText::new(other, Checkpoints::at(&[(0, 0), place, last], READING)).unwrap();
        assert_eq!(shown.len(), text.len() as u64);
        let part = &text[middle as usize..middle as usize + 1000];
        assert_eq!(shown.bytes(middle, 1000).unwrap().as_bstr(), part.as_bstr());
    }

    #[test]
    fn places_out_of_order_are_left_out() {
        let places = [(0, 0), (10, 5), (9, 7), (20, 4), (30, 40), (40, 9)];
        assert_eq!(Checkpoints::at(&places, READING).list.len(), 3);
    }
}
