use std::io;

use ctxfs_core::model::Content;

const BYTES: usize = 32 << 10;

/// A line of the content and its neighbours, without the last newline. Lines that were not read to
/// their ends are left out, except for the line itself; `ends` tells whether that one was.
pub(super) struct Around {
    pub(super) above: Option<Vec<u8>>,
    pub(super) below: Vec<u8>,
    pub(super) ends: bool,
}

impl Around {
    pub(super) fn read(content: &dyn Content, offset: u64) -> io::Result<Self> {
        let start = offset.saturating_sub(BYTES as u64);
        let length = usize::try_from(offset - start).unwrap_or(BYTES);
        let above = whole_above(&content.bytes(start, length)?, start > 0);
        let mut below = content.bytes(offset, BYTES)?;
        let complete = offset + below.len() as u64 == content.len();
        let last = memchr::memrchr(b'\n', &below);
        if let Some(last) = last.filter(|last| !complete || last + 1 == below.len()) {
            below.truncate(last);
        }
        Ok(Self { above, below, ends: complete || last.is_some() })
    }
}

fn whole_above(bytes: &[u8], cut: bool) -> Option<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\n")?;
    let from = if cut { memchr::memchr(b'\n', bytes)? + 1 } else { 0 };
    Some(bytes[from..].to_vec())
}
