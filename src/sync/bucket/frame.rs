//! Single zstd frames in memory. The reader of a frame states the maximum size of the content.
//!
//! A frame cannot make a reader allocate more than this maximum. A frame that announces larger
//! content is refused, and the whole content is decompressed in one step, without a window buffer.

use std::cell::RefCell;
use std::fmt;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use crate::bucket::FormatError;

/// Returns the maximum size in bytes of a frame whose content has the given size.
pub(super) use zstd_safe::compress_bound as most_packed;

/// The default level of zstd, which compresses about as fast as a disk writes.
const LEVEL: i32 = 3;
const CUT: usize = zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode::ZSTD_error_srcSize_wrong as usize;

thread_local! {
    /// Thread-local, because creating a decompressor takes longer than unpacking a small frame.
    static UNPACKER: RefCell<Decompressor<'static>> =
        RefCell::new(Decompressor::new().expect("there is memory to unpack with"));
}

pub(super) struct Packer {
    compressor: Compressor<'static>,
    frame: Vec<u8>,
}

impl Packer {
    pub(super) fn new(checksum: bool) -> Self {
        let mut compressor = Compressor::new(LEVEL).expect("zstd has this level");
        compressor.include_checksum(checksum).expect("zstd has checksums");
        Self { compressor, frame: Vec::new() }
    }

    pub(super) fn pack(&mut self, content: &[u8]) -> &[u8] {
        self.frame.clear();
        self.frame.reserve(most_packed(content.len()));
        let packed = self.compressor.compress_to_buffer(content, &mut self.frame);
        packed.expect("the frame has room for any content of this length");
        &self.frame
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, FormatError> {
    match zstd_safe::find_frame_compressed_size(bytes) {
        Ok(length) => Ok(Some(length)),
        Err(code) if code.wrapping_neg() == CUT => Ok(None),
        Err(_) => Err(FormatError::damaged("there should be a zstd frame")),
    }
}

/// Unpacks `frame`, which must be exactly one frame with `size` bytes of content.
pub(super) fn unpack(
    frame: &[u8],
    size: usize,
    what: &'static str,
) -> Result<Vec<u8>, FormatError> {
    let content = unpack_at_most(frame, size, what)?;
    if content.len() != size {
        return Err(FormatError::damaged(format!("{what} has another size than it should")));
    }
    Ok(content)
}

/// Unpacks `frame`, which must be exactly one frame with at most `most` bytes of content.
pub(super) fn unpack_at_most(
    frame: &[u8],
    most: usize,
    what: &'static str,
) -> Result<Vec<u8>, FormatError> {
    let wrong = || FormatError::damaged(format!("{what} is not one whole zstd frame"));
    if length(frame).map_err(|_| wrong())? != Some(frame.len()) {
        return Err(wrong());
    }
    let said = zstd_safe::get_frame_content_size(frame).map_err(|_| wrong())?;
    if said.is_some_and(|said| said > most as u64) {
        return Err(FormatError::TooLarge { what, most: most as u64 });
    }
    let capacity = said.map_or(most, |said| said as usize);
    let unpacked = UNPACKER.with_borrow_mut(|unpacker| unpacker.decompress(frame, capacity));
    unpacked.map_err(|_| FormatError::damaged(format!("{what} cannot be unpacked")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Returns a frame whose header does not state the size of the content.
    fn silent(content: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL).unwrap();
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut packer = Packer::new(true);
        for content in [&b""[..], b"x", &b"\x07".repeat(300_000)] {
            let frame = packer.pack(content).to_vec();
            assert_eq!(packer.pack(content), frame);
            assert_eq!(unpack(&frame, content.len(), "it").unwrap(), content);
            assert_eq!(unpack_at_most(&frame, 1 << 20, "it").unwrap(), content);
            assert!(frame.len() <= most_packed(content.len()));
            let mut wrong = frame.clone();
            *wrong.last_mut().unwrap() ^= 1;
            assert!(unpack(&wrong, content.len(), "it").is_err());
            assert_eq!(unpack(&frame, content.len(), "it").unwrap(), content, "after an error");
            let long = [&frame, &b"more"[..]].concat();
            assert_eq!(length(&long), Ok(Some(frame.len())));
            assert!(unpack(&long, content.len(), "it").is_err());
        }
    }

    #[test]
    fn every_cut_asks_for_more_and_is_refused() {
        let frame = Packer::new(true).pack(&b"abc".repeat(3000)).to_vec();
        for end in 0..frame.len() {
            assert_eq!(length(&frame[..end]), Ok(None), "{end}");
            assert!(unpack(&frame[..end], 9000, "it").is_err(), "{end}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let bomb = vec![0; 64 << 20];
        let said = Packer::new(false).pack(&bomb).to_vec();
        let refused = unpack(&said, 1000, "it").unwrap_err();
        assert_eq!(refused, FormatError::TooLarge { what: "it", most: 1000 });
        assert!(unpack(&silent(&bomb), 1000, "it").is_err());
        assert_eq!(unpack(&silent(b"silent"), 6, "it").unwrap(), b"silent");
        assert!(unpack(&silent(b"silent"), 7, "it").is_err());
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        // The second is a skippable frame. The last one has a block of an undefined type.
        for bytes in [
            &b"tar"[..],
            b"\x50\x2a\x4d\x18\x00\x00\x00\x00",
            b"\x28\xb5\x2f\xfd\x20\x01\x07\x00\x00",
        ] {
            assert!(unpack(bytes, 1, "it").is_err(), "{bytes:?}");
        }
        let mut frame = Packer::new(true).pack(b"some text, some text").to_vec();
        *frame.last_mut().unwrap() ^= 1;
        assert!(unpack(&frame, 20, "it").is_err(), "the checksum is wrong");
        let two = [Packer::new(true).pack(b"a"), Packer::new(true).pack(b"b")].concat();
        assert!(unpack(&two, 2, "it").is_err());
    }
}
