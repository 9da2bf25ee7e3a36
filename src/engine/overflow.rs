//! The end of an output that does not fit into its artifact, and how it replaces part of the
//! artifact.

use std::collections::VecDeque;
use std::io;

use crate::{io_error_number, reason_of_loss};
use ctxfs_store::ArtifactWriter;

/// Maximum number of bytes of a [`Tail`].
const MOST: usize = 256 * 1024;
/// Maximum distance in bytes by which a cut is moved to a newline, so that it falls between two
/// lines.
const NEAR: usize = 4096;

/// The last bytes of a stream, at most 256 KiB.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    dropped: u64,
}

impl Tail {
    /// Adds bytes at the end. Drops the excess at the beginning.
    pub fn add(&mut self, bytes: &[u8]) {
        let more = &bytes[bytes.len().saturating_sub(MOST)..];
        let over = (self.bytes.len() + more.len()).saturating_sub(MOST);
        self.bytes.drain(..over);
        self.bytes.extend(more);
        self.dropped += (over + bytes.len() - more.len()) as u64;
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

/// Returns the line that replaces `count` missing bytes.
pub fn left_out(count: u64, why: &str) -> String {
    format!("[ctxfs] {count} bytes left out here: {why}\n")
}

/// Returns the length of `head` without an incomplete line at its end, if a newline is close to the
/// end. Otherwise returns the length without an incomplete character.
pub fn whole_lines_before(head: &[u8]) -> usize {
    let from = head.len().saturating_sub(NEAR);
    if let Some(newline) = head[from..].iter().rposition(|byte| *byte == b'\n') {
        return from + newline + 1;
    }
    let begins = head.iter().rev().take(4).position(|byte| !is_inside_char(*byte));
    match begins {
        Some(back) if head[head.len() - 1 - back] >= 0xC0 => head.len() - 1 - back,
        _ => head.len(),
    }
}

/// Returns the length of the incomplete line at the beginning of `tail`, if a newline is close to
/// the beginning. Otherwise returns the length of an incomplete character.
pub fn cut_line_of(tail: &[u8]) -> usize {
    let near = &tail[..tail.len().min(NEAR)];
    if let Some(newline) =
        near.iter().position(|byte| *byte == b'\n').filter(|at| at + 1 < tail.len())
    {
        return newline + 1;
    }
    near.iter().take(3).take_while(|byte| is_inside_char(**byte)).count()
}

fn is_inside_char(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The end of the output replaces at most the last 1/`PART` of the artifact.
const PART: u64 = 4;
/// Minimum number of bytes of the end of an output. A shorter end is not stored.
const LEAST: u64 = 4096;

/// The rest of an output after a failed write.
#[derive(Debug)]
pub(crate) struct Overflow {
    /// The error of the failed write.
    pub(crate) error: io::Error,
    pub(crate) tail: Tail,
}

/// The part of an output that is missing from its artifact.
#[derive(Debug)]
pub struct Loss {
    /// The reason, as given in the line that replaces the missing part.
    pub why: String,
    /// True if the artifact has the end of the output, after a line that replaces the missing part.
    pub has_end: bool,
}

impl Overflow {
    /// Stores the end of the output if the error is a limit or a full disk. Returns the loss, and
    /// the reason to put into the record.
    pub(crate) fn settle(&mut self, artifact: &mut ArtifactWriter) -> (Loss, String) {
        let reason = reason(&self.error);
        let number = io_error_number(&self.error);
        let (why, cut) = if [libc::EFBIG, libc::EDQUOT, libc::ENOSPC].contains(&number) {
            let why = format!("no room in the store ({})", self.error);
            let cut = self.store_end(artifact, &why).unwrap_or_else(|error| {
                tracing::debug!(%error, "the end of an output was not stored");
                None
            });
            (why, cut)
        } else {
            (reason.clone(), None)
        };
        let loss = Loss { why, has_end: cut.is_some() };
        if let Some(count) = cut {
            (loss, format!("{reason}; {count} bytes before its end are left out"))
        } else {
            let count = self.tail.dropped() + self.tail.bytes().len() as u64;
            (loss, format!("{reason}; {count} bytes more were not kept"))
        }
    }

    /// Replaces the last bytes of the artifact with the end of the output, after a line about the
    /// missing bytes. Returns the number of missing bytes, or `None` if the artifact is too small.
    fn store_end(&mut self, artifact: &mut ArtifactWriter, why: &str) -> io::Result<Option<u64>> {
        let written = artifact.written();
        let most = written / PART;
        if most < LEAST {
            return Ok(None);
        }
        let total = written + self.tail.dropped() + self.tail.bytes().len() as u64;
        let tail = self.tail.bytes();
        let end = &tail[tail.len().saturating_sub(most as usize)..];
        let end = &end[cut_line_of(end)..];
        let longest_mark = left_out(u64::MAX, why).len() + 1;
        let (offset, bytes) = artifact.bytes_before(written - (end.len() + longest_mark) as u64)?;
        let kept = whole_lines_before(&bytes);
        let head = offset + kept as u64;
        let missing = total - head - end.len() as u64;
        let newline = if bytes[..kept].ends_with(b"\n") { "" } else { "\n" };
        let mark = format!("{newline}{}", left_out(missing, why));
        artifact.replace_end(head, &[mark.as_bytes(), end].concat())?;
        Ok(Some(missing))
    }
}

pub(crate) fn reason(error: &io::Error) -> String {
    let known = reason_of_loss(io_error_number(error), error);
    known.unwrap_or_else(|| format!("the store failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_stay_however_they_came() {
        let bytes: Vec<u8> = (0..MOST * 3).map(|at| (at / 7 % 251) as u8).collect();
        for step in [1000, 65_536, MOST - 1, MOST, MOST + 1, MOST * 3] {
            let mut tail = Tail::default();
            bytes.chunks(step).for_each(|piece| tail.add(piece));
            assert_eq!((tail.dropped(), tail.bytes()), (MOST as u64 * 2, &bytes[MOST * 2..]));
        }
        let mut tail = Tail::default();
        tail.add(&bytes[..MOST]);
        assert_eq!((tail.dropped(), tail.bytes()), (0, &bytes[..MOST]));
    }

    #[test]
    fn cuts_fall_between_lines_or_at_least_characters() {
        assert_eq!(whole_lines_before(b"one\ntwo"), 4);
        assert_eq!(whole_lines_before(b"one\n"), 4);
        assert_eq!(whole_lines_before(b"one"), 3);
        assert_eq!(whole_lines_before("on\u{20ac}".as_bytes()), 2);
        assert_eq!(whole_lines_before(&"\u{20ac}".as_bytes()[..2]), 0);
        assert_eq!(whole_lines_before(b""), 0);
        assert_eq!(cut_line_of(b"ne\ntwo\n"), 3);
        assert_eq!(cut_line_of(b"two\n"), 0);
        assert_eq!(cut_line_of(&"\u{20ac}x".as_bytes()[1..]), 2);
        assert_eq!(cut_line_of(&[0x80; 9]), 3);
        assert_eq!(cut_line_of(b""), 0);
    }
}
