//! The places of lines in a file of any length, for readers who jump about in it.
//!
//! A file of gigabytes is read once, in steps, and has a mark every megabyte or so. From then on a
//! line is found by reading what lies between two marks.

use std::io;

use crate::FileId;
use crate::sync::Mutex;
use ctxfs_core::model::{Content, LinesBefore, place_before_line};
use ctxfs_store::Stat;

/// Bytes between two marks, at first.
const SPACING: u64 = 1 << 20;
/// The most marks of a file. When there are more, every other one is dropped.
const MOST: usize = 4096;
/// Bytes that one step counts.
const STEP: u64 = 8 << 20;
/// Bytes that are read at once.
const BLOCK: usize = 1 << 20;
/// Bytes by which a file is known again after it has changed: its first, and the last that were
/// counted.
const KNOWN: usize = 256;

/// The lines of a file, as far as they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that are counted.
    pub bytes: u64,
    /// Newlines in them.
    pub newlines: u64,
}

/// The places of lines of one file.
#[derive(Default)]
pub(super) struct LineIndex(Mutex<Marks>);

#[derive(Default)]
struct Marks {
    /// The file as it was last seen; `None` before the first time.
    seen: Option<(FileId, u64, i64)>,
    spacing: u64,
    /// `(bytes, newlines in them)`, in order.
    places: Vec<(u64, u64)>,
    counted: Counted,
    /// The first bytes, and those before the last one that is counted.
    start: Vec<u8>,
    end: Vec<u8>,
}

impl LineIndex {
    /// Makes this the index of the file that `stat` describes, which has the bytes `content`. What
    /// was counted stays if the file has only grown since.
    pub(super) fn meet(&self, stat: &Stat, content: &dyn Content) -> io::Result<()> {
        let seen = (FileId::of(stat), stat.size, stat.mtime.as_nanos());
        let mut marks = self.0.lock();
        if marks.seen == Some(seen) {
            return Ok(());
        }
        if !marks.still_holds(seen.0, content)? {
            *marks = Marks { spacing: SPACING, ..Marks::default() };
        }
        marks.seen = Some(seen);
        Ok(())
    }

    /// Returns how far the lines are counted.
    pub(super) fn counted(&self) -> Counted {
        self.0.lock().counted
    }

    /// Counts the lines of the next few megabytes.
    pub(super) fn step(&self, content: &dyn Content) -> io::Result<Counted> {
        let known = content.lines_before(content.len())?;
        let mut marks = self.0.lock();
        marks.take(known);
        let goal = content.len().min(marks.counted.bytes.saturating_add(STEP));
        let mut block = vec![0; BLOCK];
        while marks.counted.bytes < goal {
            let most = block.len().min((goal - marks.counted.bytes) as usize);
            let got = content.read_at(marks.counted.bytes, &mut block[..most])?;
            if got == 0 {
                break;
            }
            marks.push(&block[..got]);
        }
        Ok(marks.counted)
    }

    /// Returns the offset of `line`, from 1, if the lines before it are counted.
    pub(super) fn offset_of(&self, content: &dyn Content, line: u64) -> io::Result<Option<u64>> {
        let newlines = line.saturating_sub(1);
        if newlines == 0 {
            return Ok(Some(0));
        }
        let known = place_before_line(content, newlines)?;
        let (mut offset, before) = {
            let marks = self.0.lock();
            if marks.counted.newlines < newlines && known.offset == 0 {
                return Ok(None);
            }
            marks.mark(|mark| mark.1 < newlines).max((known.offset, known.newlines))
        };
        let mut missing = newlines - before;
        let mut block = vec![0; BLOCK];
        loop {
            let got = content.read_at(offset, &mut block)?;
            let nth = usize::try_from(missing - 1).unwrap_or(usize::MAX);
            if let Some(at) = memchr::memchr_iter(b'\n', &block[..got]).nth(nth) {
                return Ok(Some(offset + at as u64 + 1));
            }
            if got == 0 {
                return Ok(None);
            }
            missing -= newlines_in(&block[..got]);
            offset += got as u64;
        }
    }

    /// Returns the number of the line that the byte at `offset` is in, if what is before it is
    /// counted.
    pub(super) fn line_at(&self, content: &dyn Content, offset: u64) -> io::Result<Option<u64>> {
        let known = content.lines_before(offset)?;
        let (mut at, mut newlines) = {
            let marks = self.0.lock();
            if marks.counted.bytes < offset && known.offset == 0 {
                return Ok(None);
            }
            marks.mark(|mark| mark.0 <= offset).max((known.offset, known.newlines))
        };
        let mut block = vec![0; BLOCK];
        while at < offset {
            let most = block.len().min((offset - at) as usize);
            let got = content.read_at(at, &mut block[..most])?;
            if got == 0 {
                return Ok(None);
            }
            newlines += newlines_in(&block[..got]);
            at += got as u64;
        }
        Ok(Some(newlines + 1))
    }
}

impl Marks {
    /// Returns the last mark that `is_before`, or the beginning.
    fn mark(&self, is_before: impl Fn(&(u64, u64)) -> bool) -> (u64, u64) {
        let past = self.places.partition_point(is_before);
        past.checked_sub(1).map_or((0, 0), |at| self.places[at])
    }

    /// Returns true if the bytes that are counted are still those of the file.
    fn still_holds(&self, file: FileId, content: &dyn Content) -> io::Result<bool> {
        let is_same = self.seen.is_some_and(|(seen, ..)| seen == file);
        if !is_same || content.len() < self.counted.bytes {
            return Ok(false);
        }
        let end = self.counted.bytes - self.end.len() as u64;
        Ok(content.bytes(0, self.start.len())? == self.start
            && content.bytes(end, self.end.len())? == self.end)
    }

    /// Goes on from a place that the content knows, if that is further on.
    fn take(&mut self, known: LinesBefore) {
        if known.offset > self.counted.bytes {
            self.counted = Counted { bytes: known.offset, newlines: known.newlines };
            self.end.clear();
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.counted.bytes == self.start.len() as u64 {
            let room = KNOWN.saturating_sub(self.start.len()).min(bytes.len());
            self.start.extend_from_slice(&bytes[..room]);
        }
        self.end = bytes[bytes.len().saturating_sub(KNOWN)..].to_vec();
        self.counted.bytes += bytes.len() as u64;
        self.counted.newlines += newlines_in(bytes);
        let last = self.places.last().map_or(0, |mark| mark.0);
        if self.counted.bytes < last + self.spacing {
            return;
        }
        if self.places.len() == MOST {
            let mut number = 0;
            self.places.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.spacing *= 2;
        }
        self.places.push((self.counted.bytes, self.counted.newlines));
    }
}

fn newlines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_store::Time;

    fn stat(size: usize, seconds: i64) -> Stat {
        let mtime = Time { seconds, nanos: 0 };
        Stat { size: size as u64, mtime, ..Stat::imagined() }
    }

    fn counted(index: &LineIndex, content: &[u8], seconds: i64) -> Counted {
        let content = content.to_vec();
        index.meet(&stat(content.len(), seconds), &content).unwrap();
        loop {
            let before = index.counted();
            if index.step(&content).unwrap() == before {
                return before;
            }
        }
    }

    fn sample(lines: u64) -> Vec<u8> {
        (1..=lines).flat_map(|line| format!("line {line}\n").into_bytes()).collect()
    }

    #[test]
    fn lines_are_found_by_number_and_by_offset() {
        let content = sample(1_000_000);
        let index = LineIndex::default();
        assert_eq!(index.offset_of(&content, 1).unwrap(), Some(0));
        assert_eq!(index.offset_of(&content, 2).unwrap(), None, "nothing is counted");
        assert_eq!(counted(&index, &content, 1).newlines, 1_000_000);
        for line in [1, 2, 77, 99_999, 131_072, 999_999, 1_000_000] {
            let offset = index.offset_of(&content, line).unwrap().unwrap();
            let text = content.bytes(offset, 20).unwrap();
            assert!(text.starts_with(format!("line {line}\n").as_bytes()), "{line}");
            assert_eq!(index.line_at(&content, offset).unwrap(), Some(line));
            assert_eq!(index.line_at(&content, offset + 3).unwrap(), Some(line));
        }
        let end = content.len() as u64;
        assert_eq!(index.offset_of(&content, 1_000_001).unwrap(), Some(end));
        assert_eq!(index.offset_of(&content, 1_000_002).unwrap(), None);
    }

    #[test]
    fn what_grows_is_counted_on_and_what_changes_is_counted_anew() {
        let index = LineIndex::default();
        let mut content = sample(1000);
        assert_eq!(counted(&index, &content, 1).newlines, 1000);
        content.extend(sample(10));
        index.meet(&stat(content.len(), 2), &content).unwrap();
        assert_eq!(index.counted().newlines, 1000, "kept");
        assert_eq!(counted(&index, &content, 2).newlines, 1010);
        let other = b"\n".repeat(content.len());
        index.meet(&stat(other.len(), 3), &other).unwrap();
        assert_eq!(index.counted(), Counted::default());
        assert_eq!(counted(&index, b"a\nb", 4), Counted { bytes: 3, newlines: 1 });
    }

    #[test]
    fn marks_are_bounded() {
        let mut marks = Marks { spacing: 1, ..Marks::default() };
        for _ in 0..3 * MOST {
            marks.push(b"x\n");
        }
        assert!(marks.places.len() <= MOST);
        assert!(marks.spacing > 1);
        assert_eq!(marks.mark(|mark| mark.0 <= 5000).0 % 2, 0);
    }
}
