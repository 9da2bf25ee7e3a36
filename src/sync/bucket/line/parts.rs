//! Ranges of a larger artifact whose bytes come with its record.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bucket::frame;

/// What a member of an archive has beside its content, at most: a header and padding.
pub(super) const AROUND: usize = 1024;
/// The most bytes of an artifact that come with its record, although it has an object.
pub const PARTS_BYTES: u64 = 8 << 20;
/// The most ranges that these are.
const MOST: usize = 256;

/// Ranges of an artifact whose bytes are in the segment, one after the other, although all of it is
/// in an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Where their frame begins, counted from the end of the records' frame.
    pub at: u64,
    /// The bytes of the frame.
    pub packed: u64,
    /// BLAKE3 of their bytes, in lower-case hexadecimal.
    pub digest: String,
    /// Where each begins in the artifact, and where it ends. They are in order, and apart.
    pub ranges: Vec<(u64, u64)>,
}

impl Parts {
    /// Returns how many bytes they are.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns the range with the byte at `offset`, and the place of its first byte among those of
    /// all parts.
    pub fn around(&self, offset: u64) -> Option<(Range<u64>, u64)> {
        let mut before = 0;
        for (start, end) in &self.ranges {
            if (*start..*end).contains(&offset) {
                return Some((*start..*end, before));
            }
            before += end - start;
        }
        None
    }

    /// Returns true if they can be those of an artifact of `length` bytes.
    pub(super) fn are_possible(&self, length: u64) -> bool {
        let most = frame::most_packed(PARTS_BYTES as usize + AROUND) as u64;
        let (mut after, mut size) = (0, 0);
        let mut ranges = self.ranges.iter();
        let are_apart = ranges.all(|(start, end)| {
            let is_next = after <= *start && start < end && *end <= length;
            if is_next {
                size += end - start;
                after = *end;
            }
            is_next
        });
        are_apart
            && (1..=MOST).contains(&self.ranges.len())
            && size <= PARTS_BYTES
            && (1..=most).contains(&self.packed)
            && is_digest(&self.digest)
    }
}

pub(super) fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 2 * blake3::OUT_LEN && text.bytes().all(is_digit)
}
