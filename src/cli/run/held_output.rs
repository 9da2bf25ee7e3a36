//! The beginning and the end of an output, held in memory in case that the store fails.

use ctxfs_core::model::Limits;
use ctxfs_engine::{Tail, cut_line_of, left_out, whole_lines_before};

/// The most bytes of the beginning.
const HEAD: usize = 64 * 1024;

/// The first 64 KiB of an output, and the last 256 KiB of what follows.
#[derive(Debug, Default)]
pub(super) struct HeldOutput {
    head: Vec<u8>,
    tail: Tail,
}

impl HeldOutput {
    /// Adds bytes at the end.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend(head);
        self.tail.add(rest);
    }

    /// Returns true if no byte of the output is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.tail.dropped() == 0
    }

    /// Returns true if it is the whole output, and within `limits`.
    pub(super) fn is_short(&self, limits: &Limits) -> bool {
        let length = self.head.len() as u64;
        let chars = || String::from_utf8_lossy(&self.head).chars().count() as u64;
        self.head.len() < HEAD && limits.are_kept_by(length, chars())
    }

    /// Returns the output. A line stands in place of missing bytes, with their number and the reason
    /// `why`.
    pub(super) fn text(self, why: &str) -> Vec<u8> {
        let Self { head, mut tail } = self;
        let dropped = tail.dropped();
        let tail = tail.bytes();
        if dropped == 0 {
            return [&head, tail].concat();
        }
        let (kept, skipped) = (whole_lines_before(&head), cut_line_of(tail));
        let missing = (head.len() - kept + skipped) as u64 + dropped;
        let newline = if head[..kept].ends_with(b"\n") { "" } else { "\n" };
        let mark = format!("{newline}{}", left_out(missing, why));
        [&head[..kept], mark.as_bytes(), &tail[skipped..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = HEAD + 256 * 1024;

    fn held(bytes: &[u8], step: usize) -> HeldOutput {
        let mut held = HeldOutput::default();
        bytes.chunks(step).for_each(|piece| held.add(piece));
        held
    }

    #[test]
    fn what_fits_is_whole() {
        for length in [0, 1, HEAD - 1, HEAD, HEAD + 1, MOST - 1, MOST] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            for step in [999, 65_536, MOST] {
                let held = held(&bytes, step);
                assert!(held.is_whole(), "{length}");
                assert_eq!(held.text("why"), bytes);
            }
        }
    }

    #[test]
    fn a_line_stands_for_the_middle_and_the_rest_is_there() {
        let lines = "a line of an output\n".repeat(50_000);
        let long = "x".repeat(MOST + 1);
        for text in [lines, long] {
            let held = held(text.as_bytes(), 65_536);
            assert!(!held.is_whole());
            let shown = String::from_utf8(held.text("no room")).unwrap();
            let (head, rest) = shown.split_once("[ctxfs] ").unwrap();
            let (mark, tail) = rest.split_once('\n').unwrap();
            let count = mark.strip_suffix(" bytes left out here: no room").unwrap();
            let head = head.strip_suffix('\n').unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail) && shown.len() < MOST + 100);
            let newline = usize::from(text.contains('\n'));
            let missing = text.len() - head.len() - newline - tail.len();
            assert_eq!(count.parse::<usize>().unwrap(), missing);
        }
    }
}
