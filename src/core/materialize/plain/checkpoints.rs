//! Checkpoints in a log, from which its text can be read.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::materialize::BLOCK_BYTES;
use crate::materialize::plain::{EscapeStripper, STEP};
use crate::model::Content;

/// Bytes of the log between two checkpoints, at first.
const SPACING: u64 = 256 * 1024;
/// The same, where few bytes are to be read for a part of the text.
const DENSE: u64 = 8 * 1024;
/// Checkpoints that are kept. When there are more, every other one is dropped, so a log may have
/// any length.
const MOST: usize = 4096;

/// A position in the log from which the text can be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Checkpoint {
    /// Bytes of the log before it.
    pub(super) raw: u64,
    /// Bytes of the text before it.
    pub(super) plain: u64,
    /// The state of the stripper, which holds no text here.
    pub(super) stripper: EscapeStripper,
}

/// Positions in a log from which its text can be read. They are valid for any log that begins with
/// the same bytes.
#[derive(Debug, Clone, Default)]
pub struct Checkpoints(Arc<Vec<Checkpoint>>);

impl Checkpoints {
    /// Reads `content` to its end or until `expired`. Returns its checkpoints and the bytes read.
    pub fn of(content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<(Self, u64)> {
        let (mut extractor, mut text) = (TextExtractor::default(), Vec::new());
        loop {
            let block = content.bytes(extractor.raw, BLOCK_BYTES)?;
            if block.is_empty() || expired() {
                return Ok((extractor.checkpoints(), extractor.raw));
            }
            extractor.push(&block, &mut text);
            text.clear();
        }
    }

    /// Returns the checkpoints of `content` that are beginnings of lines, close to each other.
    pub fn dense(content: &dyn Content) -> io::Result<Self> {
        let (mut extractor, mut text) = (TextExtractor::default(), Vec::new());
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
        let lines = extractor.checkpoints.iter().filter(|each| each.stripper.is_fresh());
        Ok(Self(Arc::new(lines.cloned().collect())))
    }

    /// Returns checkpoints at beginnings of lines. Each is given by the bytes of the log before it,
    /// and those of its text; those out of order, and too many, are left out.
    pub fn at(places: &[(u64, u64)]) -> Self {
        let mut checkpoints: Vec<Checkpoint> = Vec::new();
        for (raw, plain) in places.iter().take(MOST) {
            let stripper = EscapeStripper::default();
            let next = Checkpoint { raw: *raw, plain: *plain, stripper };
            let is_after = |last: &Checkpoint| last.raw < next.raw && last.plain <= next.plain;
            if next.plain <= next.raw && checkpoints.last().is_none_or(is_after) {
                checkpoints.push(next);
            }
        }
        Self(Arc::new(checkpoints))
    }

    /// Returns the place at which reading `text`, a range of the text, begins, and the bytes of the
    /// log, of `length` bytes, that are read for it at most if that is a checkpoint.
    pub fn around(&self, text: &Range<u64>, length: u64) -> ((u64, u64), Range<u64>) {
        let start = self.before(text.start, length);
        let after = self.0.partition_point(|checkpoint| checkpoint.plain < text.end);
        let end = self.0.get(after).map_or(length, |checkpoint| checkpoint.raw + STEP as u64);
        ((start.raw, start.plain), start.raw..end.min(length))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the last checkpoint that is not past `plain` bytes of the text nor past `raw` bytes
    /// of the log.
    pub(super) fn before(&self, plain: u64, raw: u64) -> Checkpoint {
        let past =
            self.0.partition_point(|checkpoint| checkpoint.plain <= plain && checkpoint.raw <= raw);
        past.checked_sub(1).map(|at| self.0[at].clone()).unwrap_or_default()
    }
}

/// Extracts the text of a log and records checkpoints.
#[derive(Debug, Clone)]
pub(crate) struct TextExtractor {
    stripper: EscapeStripper,
    raw: u64,
    plain: u64,
    checkpoints: Arc<Vec<Checkpoint>>,
    pub(super) spacing: u64,
}

impl TextExtractor {
    /// Takes the next bytes. Appends to `out` the text that cannot be overwritten any more.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // A checkpoint is possible only where no text is held: after a line.
        let lines = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.strip(&bytes[..lines], out);
        self.checkpoint();
        self.strip(&bytes[lines..], out);
    }

    /// Returns the text that is still held back, which follows at the end of the log.
    pub(crate) fn tail(&self) -> Vec<u8> {
        self.stripper.tail()
    }

    /// Returns the bytes of the text so far.
    pub(crate) fn length(&self) -> u64 {
        self.plain + self.tail().len() as u64
    }

    pub(crate) fn checkpoints(&self) -> Checkpoints {
        Checkpoints(Arc::clone(&self.checkpoints))
    }

    fn strip(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        self.stripper.push(bytes, out);
        self.raw += bytes.len() as u64;
        self.plain += (out.len() - before) as u64;
    }

    fn checkpoint(&mut self) {
        let last = self.checkpoints.last().map_or(0, |checkpoint| checkpoint.raw);
        if self.raw < last + self.spacing || !self.stripper.is_empty() {
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
        let (raw, plain, stripper) = (self.raw, self.plain, self.stripper.clone());
        checkpoints.push(Checkpoint { raw, plain, stripper });
    }
}

impl Default for TextExtractor {
    fn default() -> Self {
        let (stripper, checkpoints) = (EscapeStripper::default(), Arc::default());
        Self { stripper, raw: 0, plain: 0, checkpoints, spacing: SPACING }
    }
}
