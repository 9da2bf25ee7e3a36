//! The places of a log's text in its bytes.

use std::mem;
use std::ops::Range;

use crate::materialize::frames::is_drawn_over;
use crate::materialize::plain::{FrameStart, HELD, PlainPrinter, Print, is_control};

/// Returns the parts of `log` that its text keeps, in order. No two of them touch.
///
/// Together they are what [`strip_escapes`](super::strip_escapes) returns.
pub fn text_ranges(log: &[u8]) -> Vec<Range<usize>> {
    let mut kept = Vec::new();
    let mut start = 0;
    while start < log.len() {
        let newline = memchr::memchr(b'\n', &log[start..]).map(|at| start + at);
        let end = newline.unwrap_or(log.len());
        for part in ranges_of_line(log, start..end) {
            keep(&mut kept, part);
        }
        keep(&mut kept, end..newline.map_or(end, |newline| newline + 1));
        start = end + 1;
    }
    kept
}

/// The text between two carriage returns.
#[derive(Default)]
struct Frame {
    parts: Vec<Range<usize>>,
    text: Vec<u8>,
}

/// The parts of a line that are not overwritten.
#[derive(Default)]
struct LineRanges {
    kept: Vec<Range<usize>>,
    before: Frame,
    held: Frame,
    /// The carriage return after `before`, and the one after `held`.
    returns: (usize, usize),
    start: FrameStart,
    long: bool,
}

/// Returns the parts of a line, without its newline, that are not overwritten: those that
/// `EscapeStripper` keeps.
fn ranges_of_line(log: &[u8], line: Range<usize>) -> Vec<Range<usize>> {
    let clean = log[line.clone()].iter().position(|byte| is_control(*byte));
    let clean = clean.map_or(line.end, |at| line.start + at);
    let mut ranges = LineRanges::default();
    ranges.text(log, line.start..clean);
    let place = |bytes: &[u8]| bytes.as_ptr() as usize - log.as_ptr() as usize;
    PlainPrinter::default().push(&log[clean..line.end], |print| match print {
        Print::Text([]) => {}
        Print::Text(bytes) => ranges.text(log, place(bytes)..place(bytes) + bytes.len()),
        _ => {
            if let (FrameStart::None, Print::Return(byte)) = (ranges.start, &print) {
                ranges.returns.1 = place(byte);
            }
            ranges.start = ranges.start.after(&print);
        }
    });
    ranges.end_frame();
    ranges.kept.append(&mut ranges.before.parts);
    ranges.kept
}

impl LineRanges {
    fn text(&mut self, log: &[u8], part: Range<usize>) {
        if part.is_empty() {
            return;
        }
        match mem::take(&mut self.start) {
            FrameStart::None => {}
            FrameStart::Return if self.long => self.keep_return(self.returns.1),
            FrameStart::Return => self.end_frame(),
            FrameStart::Anew => {
                self.end_frame();
                self.before = Frame::default();
            }
        }
        let held = self.before.text.len() + self.held.text.len();
        if held + part.len() > HELD && !self.long {
            self.long = true;
            if !self.before.text.is_empty() {
                self.keep_before();
            }
            self.kept.append(&mut self.held.parts);
        }
        if self.long {
            keep(&mut self.kept, part);
        } else {
            self.held.text.extend_from_slice(&log[part.clone()]);
            keep(&mut self.held.parts, part);
        }
    }

    fn end_frame(&mut self) {
        let (before, after) = (&self.before.text, &self.held.text);
        if !before.is_empty() && !after.is_empty() && !is_drawn_over(before, after) {
            self.keep_before();
        }
        self.before = mem::take(&mut self.held);
        self.returns.0 = self.returns.1;
    }

    fn keep_before(&mut self) {
        self.kept.append(&mut self.before.parts);
        self.keep_return(self.returns.0);
    }

    fn keep_return(&mut self, at: usize) {
        keep(&mut self.kept, at..at + 1);
    }
}

/// Appends a part, to the last one if it follows that.
fn keep(kept: &mut Vec<Range<usize>>, part: Range<usize>) {
    match kept.last_mut() {
        _ if part.is_empty() => {}
        Some(last) if last.end == part.start => last.end = part.end,
        _ => kept.push(part),
    }
}
