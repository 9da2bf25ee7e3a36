//! Where in a log its text stands.

use std::io;
use std::sync::Arc;

use crate::materialize::BLOCK_BYTES;
use crate::materialize::plain::Stripper;
use crate::model::Content;

/// Bytes of the log between two marks, at first.
const SPACING: u64 = 256 * 1024;
/// Marks that are kept; of more, every other one goes, so a log may have any length.
const MOST: usize = 4096;

/// A place from which the text can be read on.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark {
    /// Bytes of the log before it.
    pub(super) raw: u64,
    /// Bytes of the text before it.
    pub(super) plain: u64,
    /// Holds nothing.
    pub(super) stripper: Stripper,
}

/// Places in a log from which its text can be read on; good for any log that begins with the same
/// bytes.
#[derive(Debug, Clone, Default)]
pub struct Marks(Arc<Vec<Mark>>);

impl Marks {
    /// Reads all of `content`, as long as there is time, and says how much that was.
    pub fn of(content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<(Self, u64)> {
        let (mut plainer, mut text) = (Plainer::default(), Vec::new());
        loop {
            let block = content.bytes(plainer.raw, BLOCK_BYTES)?;
            if block.is_empty() || expired() {
                return Ok((plainer.marks(), plainer.raw));
            }
            plainer.push(&block, &mut text);
            text.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The last one that is not past `plain` bytes of the text, nor past `raw` bytes of the log.
    pub(super) fn before(&self, plain: u64, raw: u64) -> Mark {
        let past = self.0.partition_point(|mark| mark.plain <= plain && mark.raw <= raw);
        past.checked_sub(1).map(|at| self.0[at].clone()).unwrap_or_default()
    }
}

/// Makes text of a log, and marks.
#[derive(Debug, Clone)]
pub(in crate::materialize) struct Plainer {
    stripper: Stripper,
    raw: u64,
    plain: u64,
    marks: Arc<Vec<Mark>>,
    pub(super) spacing: u64,
}

impl Plainer {
    /// Adds to `out` what is certain of the text.
    pub(in crate::materialize) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // Only where nothing is held can a mark be: at the end of a line.
        let lines = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.strip(&bytes[..lines], out);
        self.mark();
        self.strip(&bytes[lines..], out);
    }

    /// What comes out at the end, beyond what is certain.
    pub(in crate::materialize) fn tail(&self) -> &[u8] {
        self.stripper.tail()
    }

    /// Bytes of the text.
    pub(in crate::materialize) fn length(&self) -> u64 {
        self.plain + self.tail().len() as u64
    }

    pub(in crate::materialize) fn marks(&self) -> Marks {
        Marks(Arc::clone(&self.marks))
    }

    fn strip(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        self.stripper.push(bytes, out);
        self.raw += bytes.len() as u64;
        self.plain += (out.len() - before) as u64;
    }

    fn mark(&mut self) {
        let last = self.marks.last().map_or(0, |mark| mark.raw);
        if self.raw < last + self.spacing || !self.stripper.tail().is_empty() {
            return;
        }
        let marks = Arc::make_mut(&mut self.marks);
        if marks.len() == MOST {
            let mut number = 0;
            marks.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.spacing *= 2;
        }
        let (raw, plain, stripper) = (self.raw, self.plain, self.stripper.clone());
        marks.push(Mark { raw, plain, stripper });
    }
}

impl Default for Plainer {
    fn default() -> Self {
        let (stripper, marks) = (Stripper::default(), Arc::default());
        Self { stripper, raw: 0, plain: 0, marks, spacing: SPACING }
    }
}
