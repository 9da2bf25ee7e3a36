//! The room that a file takes after a write, beyond what it took before.

use std::fs::File;
use std::io;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::stat::Stat;
use crate::usage::{BLOCK, whole_blocks};

/// The most pieces of data that are looked at in a range. What follows them counts as a hole.
const MOST_PIECES: usize = 1024;

/// Returns the most bytes by which the room of `file`, of which the disk says `stat`, grows when
/// `length` bytes at `offset` are written or reserved: those beyond its end and those in holes.
/// Overwriting takes no room.
///
/// Room that is reserved and not written yet counts as a hole where the file has others. It is
/// charged again until the next measurement, as no call of every disk tells the two apart.
pub fn growth_of_write(file: &File, stat: &Stat, offset: u64, length: u64) -> io::Result<u64> {
    let end = offset.saturating_add(length);
    let (first, last) = (offset / BLOCK * BLOCK, whole_blocks(end));
    let inside = last.min(whole_blocks(stat.size));
    let beyond = last - inside.clamp(first, last);
    let has_holes = stat.blocks.saturating_mul(512) < stat.size;
    if first < inside && has_holes {
        return Ok(beyond + holes(file, first, inside.min(stat.size))?);
    }
    Ok(beyond)
}

/// Returns the bytes of the holes from `from` to `end`, which is not beyond the end of the file.
fn holes(file: &File, from: u64, end: u64) -> io::Result<u64> {
    let (mut at, mut bytes) = (from, 0);
    for _ in 0..MOST_PIECES {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            // No data from there on.
            Err(Errno::NXIO) => end,
            data => data?.min(end),
        };
        bytes += data.saturating_sub(at);
        if data >= end {
            return Ok(bytes);
        }
        at = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        if at >= end {
            return Ok(bytes);
        }
    }
    Ok(bytes + (end - at))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::stat::stat_file;

    fn growth(file: &File, offset: u64, length: u64) -> u64 {
        growth_of_write(file, &stat_file(file).unwrap(), offset, length).unwrap()
    }

    #[test]
    fn what_is_there_is_overwritten_for_nothing() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(growth(&file, 0, 1), BLOCK);
        assert_eq!(growth(&file, 0, 0), 0);
        file.write_all_at(&[b'x'; 10_000], 0).unwrap();
        assert_eq!((growth(&file, 0, 10_000), growth(&file, 5000, 5000)), (0, 0));
        assert_eq!(growth(&file, 9999, 2), 0, "the last block has room");
        assert_eq!(growth(&file, 10_000, 10_000), 2 * BLOCK);
        assert_eq!(growth(&file, 1 << 40, 1), BLOCK, "a hole before it takes none");
        assert!(growth(&file, u64::MAX - 1, 5) > 0);
    }

    #[test]
    fn writing_in_a_hole_takes_room() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        assert_eq!(growth(&file, 1 << 20, 1 << 20), 1 << 20);
        file.write_all_at(&vec![b'x'; 1 << 16], 1 << 20).unwrap();
        assert_eq!(growth(&file, 1 << 20, 1 << 16), 0);
        assert_eq!(growth(&file, 1 << 20, 1 << 20), (1 << 20) - (1 << 16));
        assert_eq!(growth(&file, 0, 1 << 30), (1 << 30) - (1 << 16));
    }

    #[test]
    fn a_file_of_many_pieces_is_not_looked_at_to_its_end() {
        let file = tempfile::tempfile().unwrap();
        let pieces = 2 * MOST_PIECES as u64;
        file.set_len(2 * BLOCK * pieces).unwrap();
        for piece in 0..pieces {
            file.write_all_at(b"x", 2 * BLOCK * piece).unwrap();
        }
        let least = BLOCK * pieces;
        let all = growth(&file, 0, 2 * BLOCK * pieces);
        assert!(all > least && all <= 2 * least, "{all}");
    }
}
