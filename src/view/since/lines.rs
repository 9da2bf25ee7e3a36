//! The line difference of two outputs, as `diff -u` prints it.
//!
//! Two lines are equal if [`alike`](super::alike::alike) says so. Both outputs are read once, in windows
//! of whole lines, so memory is bounded for outputs of any size. A window ends before its last
//! change if that change may go on in the next window.

use std::io;

use gix_imara_diff::{Algorithm, Diff, InternedInput};

use crate::grep::page;
use crate::range::TextPosition;
use crate::since::alike::alike;
use ctxfs_core::model::Content;

// Maximum numbers of lines and bytes of each output in a window, which takes a few MB.
const WINDOW_LINES: usize = 1 << 16;
const WINDOW_BYTES: u64 = 16 << 20;
const READ_BYTES: usize = 256 << 10;
// A longer line is compared in parts of this many bytes.
const LINE_BYTES: usize = 64 << 10;
// Number of equal lines that are shown before and after a change.
const CONTEXT_LINES: usize = 3;

/// The line difference of two outputs. `removed` and `added` are the numbers of lines up to the
/// point where the comparison ended, and `end` is the reason why it ended there. `long` is the first
/// line of which only a window is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineDiff {
    pub(super) removed: u64,
    pub(super) added: u64,
    pub(super) end: DiffEnd,
    pub(super) long: Option<TextPosition>,
}

/// The reason why a comparison ended: at the end of both outputs, because there was no more room or
/// time, or because the lines of a window have nothing in common. The lines are the next ones of the
/// earlier and of the later output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffEnd {
    Whole,
    Room([u64; 2]),
    Time([u64; 2]),
    Apart([u64; 2]),
}

/// Compares two outputs. Appends at most `room` bytes of hunks to `out`, or none if `out` is `None`.
pub(super) fn compare(
    contents: [&dyn Content; 2],
    room: usize,
    expired: &dyn Fn() -> bool,
    out: Option<&mut Vec<u8>>,
) -> io::Result<LineDiff> {
    let mut sides = contents.map(OpenSide::new);
    let mut hunks = Hunks { contents, out, room, open: None, trail: Vec::new(), long: None };
    let mut diff = LineDiff { removed: 0, added: 0, end: DiffEnd::Whole, long: None };
    loop {
        let [old, new] = &mut sides;
        if old.window.is_empty() && new.window.is_empty() {
            skip_equal(old, new, expired)?;
        }
        let ended = [old.fill()?, new.fill()?];
        let at = [&*old, &*new].map(OpenSide::next_line);
        if expired() {
            diff.end = DiffEnd::Time(at);
            break;
        }
        let windows = sides.each_ref().map(|side| side.window.as_slice());
        let step = WindowDiff::of(windows, ended);
        if step.lines == [0; 2] {
            if ended != [true; 2] {
                diff.end = DiffEnd::Apart(at);
            }
            break;
        }
        diff.removed += step.changes.iter().map(|[old, _]| old.len() as u64).sum::<u64>();
        diff.added += step.changes.iter().map(|[_, new]| new.len() as u64).sum::<u64>();
        if let Some(at) = hunks.add(windows, &step)? {
            diff.end = DiffEnd::Room(at);
            break;
        }
        for (side, lines) in sides.iter_mut().zip(step.lines) {
            side.window.drain(..lines);
        }
    }
    hunks.close()?;
    diff.long = hunks.long;
    Ok(diff)
}

/// A line, or a part of a long line. `length` includes the newline if the line `ends` here.
#[derive(Debug, Clone, Copy)]
struct ComparedLine {
    offset: u64,
    length: u32,
    ends: bool,
    number: u64,
    key: u64,
}

/// An output from which lines are taken. `block` has the bytes from `offset` on, of which the first
/// `used` are in the window or were dropped from it. `number` is the number of the next line.
struct OpenSide<'a> {
    content: &'a dyn Content,
    window: Vec<ComparedLine>,
    block: Vec<u8>,
    offset: u64,
    used: usize,
    number: u64,
}

impl<'a> OpenSide<'a> {
    fn new(content: &'a dyn Content) -> Self {
        Self { content, window: Vec::new(), block: Vec::new(), offset: 0, used: 0, number: 1 }
    }

    fn next_line(&self) -> u64 {
        self.window.first().map_or(self.number, |line| line.number)
    }

    /// Fills the window. Returns true if the last line is in it.
    fn fill(&mut self) -> io::Result<bool> {
        let is_within = |side: &Self| {
            let from = side.window.first().map_or(u64::MAX, |line| line.offset);
            let bytes = (side.offset + side.used as u64).saturating_sub(from);
            side.window.len() < WINDOW_LINES && bytes < WINDOW_BYTES
        };
        while is_within(self) {
            let Some(line) = self.line()? else { return Ok(true) };
            self.window.push(line);
        }
        Ok(false)
    }

    fn line(&mut self) -> io::Result<Option<ComparedLine>> {
        let mut newline = self.newline();
        if newline.is_none() && self.block.len() - self.used < LINE_BYTES {
            self.offset += self.used as u64;
            self.used = 0;
            self.block = self.content.bytes(self.offset, READ_BYTES)?;
            newline = self.newline();
        }
        let rest = &self.block[self.used..];
        let text = &rest[..newline.unwrap_or(rest.len().min(LINE_BYTES))];
        let ends = newline.is_some();
        let length = text.len() + usize::from(ends);
        if length == 0 {
            return Ok(None);
        }
        let key = if ends { alike(text) } else { !alike(text) };
        let offset = self.offset + self.used as u64;
        let line = ComparedLine { offset, length: length as u32, ends, number: self.number, key };
        self.used += length;
        self.number += u64::from(ends);
        Ok(Some(line))
    }

    fn skip(&mut self, bytes: usize, lines: u64) {
        self.offset += (self.used + bytes) as u64;
        self.used = 0;
        self.block.clear();
        self.number += lines;
    }

    fn newline(&self) -> Option<usize> {
        let rest = &self.block[self.used..];
        memchr::memchr(b'\n', &rest[..rest.len().min(LINE_BYTES)])
    }
}

/// Skips bytes that both sides have, but for the lines that a hunk would show before a change.
fn skip_equal(
    old: &mut OpenSide<'_>,
    new: &mut OpenSide<'_>,
    expired: &dyn Fn() -> bool,
) -> io::Result<()> {
    loop {
        let from = [&*old, &*new].map(|side| side.offset + side.used as u64);
        let (one, other) =
            (old.content.bytes(from[0], READ_BYTES)?, new.content.bytes(from[1], READ_BYTES)?);
        let same = if one == other { one.len() } else { mismatch(&one, &other) };
        let mut newlines = memchr::memrchr_iter(b'\n', &one[..same]);
        let Some(end) = newlines.nth(CONTEXT_LINES) else { return Ok(()) };
        let lines = memchr::memchr_iter(b'\n', &one[..=end]).count() as u64;
        old.skip(end + 1, lines);
        new.skip(end + 1, lines);
        if same < one.len() || one.len() < READ_BYTES || expired() {
            return Ok(());
        }
    }
}

fn mismatch(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

type LineSpan = std::ops::Range<usize>;

/// The changes of a window, and the number of lines of each side up to which they are certain.
struct WindowDiff {
    changes: Vec<[LineSpan; 2]>,
    lines: [usize; 2],
}

impl WindowDiff {
    /// `ended` tells of each side whether its last line is in the window.
    fn of([old, new]: [&[ComparedLine]; 2], ended: [bool; 2]) -> Self {
        let mut input: InternedInput<u64> = InternedInput::default();
        input.update_before(old.iter().map(|line| line.key));
        input.update_after(new.iter().map(|line| line.key));
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_no_heuristic(&input);
        let lines = |range: std::ops::Range<u32>| range.start as usize..range.end as usize;
        let mut changes: Vec<[LineSpan; 2]> =
            diff.hunks().map(|hunk| [lines(hunk.before), lines(hunk.after)]).collect();
        let all = [old.len(), new.len()];
        let goes_on = |change: &[LineSpan; 2]| change[0].end == all[0] || change[1].end == all[1];
        let open = changes.pop_if(|change| ended != [true; 2] && goes_on(change));
        let lines = open.as_ref().map_or(all, |[old, new]| [old.start, new.start]);
        match open {
            // The rest of the shorter output is as near as it will be.
            Some(change) if lines == [0; 2] && ended != [false; 2] => {
                Self { changes: vec![change], lines: all }
            }
            _ => Self { changes, lines },
        }
    }
}

/// Prints hunks. `trail` are the equal lines since the last change, as many as may be shown.
struct Hunks<'a, 'o> {
    contents: [&'a dyn Content; 2],
    out: Option<&'o mut Vec<u8>>,
    room: usize,
    open: Option<OpenHunk>,
    trail: Vec<[ComparedLine; 2]>,
    long: Option<TextPosition>,
}

/// A hunk that may go on. `starts` are the numbers of its first lines, and `counts` the numbers of
/// its lines.
struct OpenHunk {
    starts: [u64; 2],
    counts: [u64; 2],
    body: Vec<u8>,
}

impl Hunks<'_, '_> {
    /// Adds the lines of a step. Returns the next line of each side if there is no more room.
    fn add(
        &mut self,
        [old, new]: [&[ComparedLine]; 2],
        step: &WindowDiff,
    ) -> io::Result<Option<[u64; 2]>> {
        if self.out.is_none() {
            return Ok(None);
        }
        let mut done = [0; 2];
        for [removed, added] in &step.changes {
            self.pass(&old[done[0]..removed.start], &new[done[1]..added.start])?;
            let (removed_lines, added_lines) = (&old[removed.clone()], &new[added.clone()]);
            self.begin([old, new].map(|side| side.first()), [removed_lines, added_lines])?;
            let sides = [(0, removed_lines, added_lines), (1, added_lines, removed_lines)];
            for (side, lines, others) in sides {
                for (index, line) in lines.iter().enumerate() {
                    if self.is_full() {
                        let next =
                            |lines: &[ComparedLine]| lines.first().map_or(0, |line| line.number);
                        let mut at = [next(removed_lines), next(added_lines)];
                        at[side] = line.number;
                        return Ok(Some(at));
                    }
                    self.print(side, line, others.get(index))?;
                }
            }
            done = [removed.end, added.end];
        }
        self.pass(&old[done[0]..step.lines[0]], &new[done[1]..step.lines[1]])?;
        Ok(None)
    }

    fn is_full(&self) -> bool {
        let printed = self.out.as_ref().map_or(0, |out| out.len());
        printed + self.open.as_ref().map_or(0, |open| open.body.len()) >= self.room
    }

    /// Takes lines that are equal on both sides.
    fn pass(&mut self, old: &[ComparedLine], new: &[ComparedLine]) -> io::Result<()> {
        for pair in old.iter().zip(new) {
            self.trail.push([*pair.0, *pair.1]);
            if self.open.is_some() && self.trail.len() > 2 * CONTEXT_LINES {
                self.close()?;
            }
            if self.open.is_none() && self.trail.len() > CONTEXT_LINES {
                self.trail.remove(0);
            }
        }
        Ok(())
    }

    /// Opens a hunk for a change, if none is open, and prints the equal lines before the change.
    fn begin(
        &mut self,
        firsts: [Option<&ComparedLine>; 2],
        change: [&[ComparedLine]; 2],
    ) -> io::Result<()> {
        let trail = std::mem::take(&mut self.trail);
        if self.open.is_none() {
            let start = |side: usize| {
                let known = trail.first().map(|pair| pair[side]);
                let known = known.or_else(|| change[side].first().copied());
                known.map_or(firsts[side].map_or(0, |line| line.number), |line| line.number)
            };
            let starts = [start(0), start(1)];
            self.open = Some(OpenHunk { starts, counts: [0; 2], body: Vec::new() });
        }
        trail.iter().try_for_each(|[_, new]| self.print(2, new, None))
    }

    /// Prints a line of the `side` 0 or 1, or of both. Of a long line, prints the window around the
    /// first byte in which `other` differs.
    fn print(
        &mut self,
        side: usize,
        line: &ComparedLine,
        other: Option<&ComparedLine>,
    ) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let read = |side: usize, line: &ComparedLine| {
            self.contents[side.min(1)].bytes(line.offset, line.length as usize)
        };
        let bytes = read(side, line)?;
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        open.body.push(b"-+ "[side]);
        if page::is_long(text) {
            let other = other.map(|other| read(1 - side, other)).transpose()?;
            let at = other.map_or(0, |other| mismatch(text, &other)).min(text.len());
            let window = page::window(text, at);
            let at = TextPosition { line: line.number, column: window.start as u64 + 1 };
            self.long.get_or_insert(at);
            open.body.extend_from_slice(format!("{}@{}:", at.line, at.column).as_bytes());
            open.body.extend_from_slice(&page::excerpt(text, &window, false, true));
        } else {
            open.body.extend_from_slice(text);
        }
        open.body.push(b'\n');
        if !line.ends {
            let is_end = line.offset + u64::from(line.length) == self.contents[side.min(1)].len();
            let mark: &[u8] = if is_end { b"\\ No newline at end of file\n" } else { b"" };
            open.body.extend_from_slice(mark);
        }
        open.counts[0] += u64::from(side != 1);
        open.counts[1] += u64::from(side != 0);
        Ok(())
    }

    /// Ends the open hunk with some of the equal lines after its last change.
    fn close(&mut self) -> io::Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        let shown = self.trail.len().min(CONTEXT_LINES);
        for [_, new] in self.trail.drain(..shown).collect::<Vec<_>>() {
            self.print(2, &new, None)?;
        }
        let (Some(hunk), Some(out)) = (self.open.take(), &mut self.out) else { return Ok(()) };
        let range = |side: usize| match hunk.counts[side] {
            0 => format!("{},0", hunk.starts[side].saturating_sub(1)),
            1 => hunk.starts[side].to_string(),
            count => format!("{},{count}", hunk.starts[side]),
        };
        out.extend_from_slice(format!("@@ -{} +{} @@\n", range(0), range(1)).as_bytes());
        out.extend_from_slice(&hunk.body);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
