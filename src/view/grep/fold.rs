//! A reader that passes content to the searcher and splits very long lines into pieces.
//!
//! The searcher holds whole lines in memory. A line of more than [`PIECE`] bytes is therefore
//! passed as several lines, each of which repeats the last [`OVERLAP`] bytes of the previous one.
//! [`LineMap`] maps these lines back to lines and columns of the content. A match that starts in an
//! overlap is found in two pieces, but belongs to only one of them. A match that is longer than the
//! overlap and crosses the end of a piece is missed or shortened. `^` and `$` can match inside a
//! folded line, where a piece begins or ends.

use std::cell::{Cell, RefCell};
use std::io;
use std::io::Read;

use crate::grep::read_ahead::{Gap, ReadAhead};
use crate::range::TextPosition;
use crate::scan::{self, LineStart, NewlineCount};
use ctxfs_core::model::Content;

// Size in bytes of a piece of a line.
pub(super) const PIECE: usize = 1 << 20;
// Size in bytes of the overlap of two pieces of a line.
pub(super) const OVERLAP: usize = 64 << 10;
// Number of bytes that are read at once. Time is checked as often.
const READ_BYTES: usize = 256 << 10;
// The same for a matcher that may be slow.
const SLOW_READ_BYTES: usize = 4 << 10;

// Number of folds to keep for lines that were read but not searched yet. The searcher searches
// everything it has before it reads more. The only exception is the start, where it reads three
// bytes to look for a byte order mark.
const UNSEARCHED_FOLDS: usize = 4;
// The byte order mark of UTF-8. It is not treated as text, as in ripgrep.
pub(super) use ctxfs_core::materialize::json::BOM;

/// Maps the searcher's lines to lines of the content, and has the reading position. The reader and
/// the report share it.
pub(super) struct LineMap {
    folds: RefCell<Vec<Fold>>,
    now: Cell<ReadPosition>,
    pub(super) out_of_time: Cell<bool>,
    pub(super) failed: Cell<bool>,
}

// Maps the searcher's line `seen` to byte `column` (from 0) of `line`. The following lines map one
// to one.
#[derive(Clone, Copy)]
struct Fold {
    seen: u64,
    line: u64,
    column: u64,
    start: PieceStart,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceStart {
    // At the start of a line.
    Line,
    // Inside a line, where the query begins.
    Asked,
    // Inside a line that is searched in pieces.
    LinePiece,
}

#[derive(Clone, Copy)]
struct ReadPosition {
    offset: u64,
    seen: u64,
    line: u64,
    column: u64,
    // Offset up to which `seen` and `line` count newlines. The searcher counts lines itself, so
    // most searches need no other count.
    counted: u64,
}

impl ReadPosition {
    fn count(&mut self, block: &[u8]) {
        let newlines = scan::newlines(block);
        self.counted += block.len() as u64;
        self.line += newlines;
        self.seen += newlines;
    }
}

/// A line of the searcher: a line of the content or a piece of one. `next` is the offset in the
/// piece at which the next piece of the same line begins.
#[derive(Clone, Copy)]
pub(super) struct LinePiece {
    pub(super) line: u64,
    column: u64,
    start: PieceStart,
    pub(super) next: Option<usize>,
}

impl LinePiece {
    pub(super) fn is_line(&self) -> bool {
        self.start == PieceStart::Line && self.next.is_none()
    }

    pub(super) fn is_first(&self) -> bool {
        self.start != PieceStart::LinePiece
    }

    // Returns true if the line begins before this piece.
    pub(super) fn is_inside(&self) -> bool {
        self.start != PieceStart::Line
    }

    /// Returns true if a match that starts at `at` belongs to this piece. A match in an overlap is
    /// found in two pieces, but belongs to only one.
    pub(super) fn owns(&self, at: usize) -> bool {
        (at > 0 || self.is_first()) && self.next.is_none_or(|next| at <= next)
    }

    // Returns the position in the content of byte `at` of this piece.
    pub(super) fn position(&self, at: usize) -> TextPosition {
        TextPosition { line: self.line, column: self.column + at as u64 + 1 }
    }
}

impl LineMap {
    /// Returns the line map for a search that begins at byte `offset` of the content. `from` is the
    /// position of this byte. If its line begins with a byte order mark, `skipped` is the length of
    /// the mark, and the column of `from` does not count the mark.
    pub(super) fn new(offset: u64, from: TextPosition, skipped: u64) -> Self {
        let start = if from.column == 1 { PieceStart::Line } else { PieceStart::Asked };
        let column = from.column - 1 + skipped;
        let fold = Fold { seen: 1, line: from.line, column, start };
        Self {
            folds: RefCell::new(vec![fold]),
            now: Cell::new(ReadPosition {
                offset,
                seen: 1,
                line: from.line,
                column,
                counted: offset,
            }),
            out_of_time: Cell::new(false),
            failed: Cell::new(false),
        }
    }

    pub(super) fn piece(&self, seen: u64) -> LinePiece {
        let folds = self.folds.borrow();
        let after = match folds.as_slice() {
            [_] => 1,
            more => more.partition_point(|fold| fold.seen <= seen),
        };
        let fold = folds[after - 1];
        let follows = |next: &&Fold| next.seen == seen + 1 && next.start == PieceStart::LinePiece;
        let next = folds.get(after).filter(follows);
        let (line, column, start) = match seen - fold.seen {
            0 => (fold.line, fold.column, fold.start),
            further => (fold.line + further, 0, PieceStart::Line),
        };
        let next = next.map(|next| usize::try_from(next.column - column).unwrap_or(usize::MAX));
        LinePiece { line, column, start, next }
    }

    // Returns the number of pieces in which the line that ends with `seen` was searched.
    pub(super) fn pieces(&self, seen: u64) -> u64 {
        let folds = self.folds.borrow();
        let last = folds.partition_point(|fold| fold.seen <= seen);
        let back = folds[..last].iter().rev().zip(0..);
        let of_line = back.take_while(|(fold, back)| {
            fold.start == PieceStart::LinePiece && fold.seen + back == seen
        });
        of_line.count() as u64 + 1
    }

    /// Moves the reading position to the end of `gap`, which begins at the start of a line. All
    /// lines before the gap must have been counted. Drops the folds of lines that were searched and
    /// are not context of lines after the gap.
    fn skip(&self, gap: Gap) {
        let mut now = self.now.get();
        now.offset += gap.length as u64;
        now.counted = now.offset;
        now.line += gap.lines;
        self.now.set(now);
        let mut folds = self.folds.borrow_mut();
        let old = folds.len().saturating_sub(UNSEARCHED_FOLDS);
        folds.drain(..old);
        folds.push(Fold { seen: now.seen, line: now.line, column: 0, start: PieceStart::Line });
    }

    pub(super) fn settle(&self, content: &dyn Content) -> io::Result<()> {
        let mut now = self.now.get();
        while now.counted < now.offset {
            let most = usize::try_from(now.offset - now.counted).unwrap_or(usize::MAX);
            let block = content.bytes(now.counted, most.min(PIECE))?;
            if block.is_empty() {
                break;
            }
            now.count(&block);
        }
        self.now.set(now);
        Ok(())
    }

    pub(super) fn offset(&self) -> u64 {
        self.now.get().offset
    }

    pub(super) fn counted(&self) -> NewlineCount {
        let now = self.now.get();
        NewlineCount { offset: now.counted, newlines: now.line - 1 }
    }

    /// Returns the start of the line, or piece of a line, that was read last.
    /// [`settle`](Self::settle) must be called first.
    pub(super) fn position(&self) -> TextPosition {
        let now = self.now.get();
        TextPosition { line: now.line, column: now.column + 1 }
    }
}

/// The place where a search begins. `Beyond` means that the content ends before that place.
/// `OutOfTime` has the offset at which time ran out before the place was found.
pub(super) enum SearchStart {
    At(LineMap),
    Beyond,
    OutOfTime(u64),
}

/// Finds the place where a search begins: `from`, or else the start of the content without its byte
/// order mark.
pub(super) fn start(
    content: &dyn Content,
    from: Option<TextPosition>,
    expired: &dyn Fn() -> bool,
) -> io::Result<SearchStart> {
    let from = from.unwrap_or(TextPosition { line: 1, column: 1 });
    Ok(match scan::line_start(content, from.line, expired)? {
        LineStart::At(0) if from.column == 1 && content.bytes(0, 3)? == BOM => {
            SearchStart::At(LineMap::new(3, from, 3))
        }
        LineStart::At(offset) => {
            let column = from.column - 1;
            SearchStart::At(LineMap::new(offset.saturating_add(column), from, 0))
        }
        LineStart::Beyond => SearchStart::Beyond,
        LineStart::OutOfTime(offset) => SearchStart::OutOfTime(offset),
    })
}

/// The reader that is passed to the searcher. It splits long lines into pieces, and skips lines
/// that the searcher need not see. When time runs out it reports the end of the content.
pub(super) struct FoldedReader<'a> {
    content: &'a dyn Content,
    ahead: ReadAhead<'a>,
    line_map: &'a LineMap,
    expired: &'a dyn Fn() -> bool,
    // Maximum number of bytes that are read at once.
    most: usize,
    // Number of bytes of the current piece that were passed on.
    length: usize,
    // True if the piece has to end at the current position.
    ending: bool,
}

impl<'a> FoldedReader<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        ahead: ReadAhead<'a>,
        line_map: &'a LineMap,
        expired: &'a dyn Fn() -> bool,
    ) -> Self {
        let most = if ahead.is_slow() { SLOW_READ_BYTES } else { READ_BYTES };
        Self { content, ahead, line_map, expired, most, length: 0, ending: false }
    }

    fn skip(&mut self) -> bool {
        let gap = self.ahead.gap(self.line_map.offset()).filter(|_| self.length == 0);
        gap.inspect(|gap| self.line_map.skip(*gap)).is_some()
    }

    // Updates the position for `chunk`, which has no line that is too long.
    fn pass(&mut self, chunk: &[u8]) {
        let mut now = self.line_map.now.get();
        now.offset += chunk.len() as u64;
        match memchr::memrchr(b'\n', chunk) {
            None => self.length += chunk.len(),
            Some(at) => {
                now.column = 0;
                self.length = chunk.len() - at - 1;
            }
        }
        if self.ahead.has_gaps() {
            now.count(chunk);
        }
        self.line_map.now.set(now);
    }

    // Returns the number of bytes of `chunk` that fit into the current piece. Returns `None` if the
    // first line of `chunk` fits as a whole.
    fn room(&self, chunk: &[u8]) -> Option<usize> {
        let room = PIECE - self.length;
        let long = chunk.len() > room && memchr::memchr(b'\n', &chunk[..=room]).is_none();
        long.then(|| scan::char_floor(chunk, room))
    }

    // Ends the piece, and moves back to the start of the next piece.
    fn fold(&mut self) -> io::Result<()> {
        self.line_map.settle(self.content)?;
        let mut now = self.line_map.now.get();
        let back = now.offset - OVERLAP as u64;
        let inside = scan::char_ceiling(&self.content.bytes(back, 4)?, 0) as u64;
        let overlap = OVERLAP as u64 - inside;
        now.column += self.length as u64 - overlap;
        now.offset -= overlap;
        now.counted = now.offset;
        now.seen += 1;
        self.line_map.now.set(now);
        self.line_map.folds.borrow_mut().push(Fold {
            seen: now.seen,
            line: now.line,
            column: now.column,
            start: PieceStart::LinePiece,
        });
        self.length = 0;
        self.ending = true;
        Ok(())
    }

    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.most);
        let got = self.ahead.read_at(self.line_map.offset(), &mut buffer[..most])?;
        let Some(keep) = self.room(&buffer[..got]) else {
            self.pass(&buffer[..got]);
            return Ok(got);
        };
        self.pass(&buffer[..keep]);
        self.fold()?;
        if keep > 0 { Ok(keep) } else { Ok(self.end_piece(buffer)) }
    }

    fn end_piece(&mut self, buffer: &mut [u8]) -> usize {
        self.ending = false;
        buffer[0] = b'\n';
        1
    }
}

impl Read for FoldedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.ending {
            return Ok(self.end_piece(buffer));
        }
        let mut skipped = true;
        while skipped {
            if (self.expired)() {
                self.line_map.out_of_time.set(true);
                return Ok(0);
            }
            skipped = self.skip();
        }
        self.next(buffer).inspect_err(|_| self.line_map.failed.set(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grep_regex::RegexMatcher;

    use crate::grep::matcher::LineMatcher;
    use crate::grep::read_ahead::{ReadAheadSizes, SearchSpec};
    use crate::query::SearchOptions;

    #[test]
    fn few_folds_are_kept_however_much_is_left_out() {
        let content = "fine\nfine\nfine\nbad\n".repeat(9000).into_bytes();
        let from = TextPosition { line: 1, column: 1 };
        let line_map = LineMap::new(0, from, 0);
        let (matcher, options) =
            (RegexMatcher::new_line_matcher("bad").unwrap(), SearchOptions::default());
        let matcher = LineMatcher::Linear(matcher);
        let sizes = ReadAheadSizes { content: 0, chunk: 10_000, block: 1000, min_gap: 10 };
        let mut read = 0;
        std::thread::scope(|scope| {
            let spec = SearchSpec { matcher: &matcher, options: &options, sizes };
            let ahead = ReadAhead::start(scope, &content, 0, spec, &|| false);
            let mut folded = FoldedReader::new(&content, ahead, &line_map, &|| false);
            while let count @ 1.. = folded.read(&mut [0; 4096]).unwrap() {
                read += count;
                assert!(line_map.folds.borrow().len() <= UNSEARCHED_FOLDS + 1);
            }
        });
        assert!(read < content.len() / 2, "{read}");
        assert_eq!(line_map.position(), TextPosition { line: 36_001, column: 1 });
    }
}
