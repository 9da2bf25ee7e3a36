//! Objects: the bytes of one larger artifact each, packed in blocks that can be read separately.
//!
//! An object is a sequence of zstd frames, one per block of 1 MiB of content; the last block may be
//! shorter. `zstd -d` unpacks all of it. A separate table has 48 bytes per block:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | end of the block's frame in the object, little-endian |
//! | 32 | BLAKE3 of the block's content |
//! | 8 | newlines in the content before the block, little-endian |

mod blocks;
mod packer;

use crate::bucket::{FormatError, frame};

pub use blocks::Blocks;
pub use packer::{BlockPacker, PackedObject};

///+ Bytes of content in a block; the last one may have fewer.
pub const BLOCK_BYTES: u64 = 1 << 20;

///+ Unpacks `frame`, the frame of block number `block`, and checks its digest.
pub fn unpack_block(frame: &[u8], block: usize, blocks: &Blocks) -> Result<Vec<u8>, FormatError> {
    let what = "a block of an object";
    let Some(digest) = blocks.digest_of(block) else {
        return Err(FormatError::damaged("there are fewer blocks"));
    };
    let content = frame::unpack(frame, blocks.bytes_of(block) as usize, what)?;
    if blake3::hash(&content) != *digest {
        return Err(FormatError::damaged(format!("{what} has another digest than it should")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
