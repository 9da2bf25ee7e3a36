//! The part of an output that its artifact has no room for, and how its end gets into the artifact
//! all the same.

use std::io;

use crate::error::{io_error_number, reason_of_loss};
use crate::tail::{Tail, cut_line_of, left_out, whole_lines_before};
use ctxfs_store::ArtifactWriter;

/// The part of an artifact that gives way to the end of the output.
const PART: u64 = 4;
/// The least end that is worth it.
const LEAST: u64 = 4096;

/// The output from the first write on that failed.
#[derive(Debug)]
pub(super) struct Overflow {
    /// The error of that write.
    pub(super) error: io::Error,
    pub(super) tail: Tail,
}

/// The part of an output that is not in its artifact.
#[derive(Debug)]
pub struct Loss {
    /// The reason, as a line in place of the part tells it.
    pub why: String,
    /// True if the artifact has the end of the output, behind such a line.
    pub has_end: bool,
}

impl Overflow {
    /// Stores the end of the output if the error is a limit or a full disk. Returns the loss, and
    /// the reason for the record.
    pub(super) fn settle(&mut self, artifact: &mut ArtifactWriter) -> (Loss, String) {
        let reason = reason(&self.error);
        let number = io_error_number(&self.error);
        let (why, cut) = if [libc::EFBIG, libc::EDQUOT, libc::ENOSPC].contains(&number) {
            let why = format!("no room in the store ({})", self.error);
            let cut = self.store_end(artifact, &why);
            (
                why,
                cut.unwrap_or_else(|error| {
                    tracing::debug!(%error, "the end of an output was not stored");
                    None
                }),
            )
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

    /// Replaces the last bytes of the artifact with a line about the missing bytes and the end of the
    /// output. Returns the number of missing bytes, or `None` if the artifact is too small for that.
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

/// Returns why an output lacks its end after `error`.
pub(super) fn reason(error: &io::Error) -> String {
    let known = reason_of_loss(io_error_number(error), error);
    known.unwrap_or_else(|| format!("the store failed: {error}"))
}
