
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::bucket::frame;

///+ Overhead of an archive member: header and padding.
pub(super) const AROUND: usize = 1024;
///+ Maximum bytes of an artifact with an object that are also sent with its record.
pub const PARTS_BYTES: u64 = 8 << 20;
const MOST: usize = 256;

///+ Ranges of a larger artifact whose bytes are in the segment as well, concatenated, so that short
///+ views need no request for the object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    ///+ Start of their frame, relative to the end of the records' frame.
    pub at: u64,
    ///+ Bytes of the frame.
    pub packed: u64,
    ///+ BLAKE3 of the concatenated bytes, in lower-case hexadecimal.
    pub digest: String,
    ///+ Start and end of each range in the artifact; sorted and disjoint.
    pub ranges: Vec<(u64, u64)>,
}

impl Parts {
    ///+ Returns the number of bytes in all ranges.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    ///+ Returns the range that contains `offset`, and the offset of its first byte in the
    ///+ concatenated bytes.
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
