//! Removes escape sequences and overwritten progress from text that was made for a terminal.
//!
//! Erased text is removed. A frame of progress is removed if the next frame is drawn over it. Any
//! other text before a carriage return is kept, together with the carriage return. An escape
//! sequence ends at the latest at the end of its line, so line numbers do not change. Bytes are
//! only removed, never changed. If the text is as long as the log, the two are therefore equal.

use std::mem;
use std::ops::Range;

use anstream::adapter::StripBytes;
use memchr::memchr;

use crate::materialize::terminal::is_drawn_over;

/// Maximum number of bytes of a line that are held back because a carriage return may follow. In a
/// longer line, nothing is overwritten.
const HELD: usize = 64 * 1024;

/// Removes escape sequences and overwritten text from a stream. The result does not depend on how
/// the stream was split.
#[derive(Debug, Clone, Default)]
pub(super) struct EscapeStripper {
    printer: PlainPrinter,
    controlled: bool,
    start: FrameStart,
    // True if the line is too long to be held. Nothing in it is overwritten, and its first part was
    // already passed on.
    long: bool,
    // The frame before `held`. `held` may be drawn over it.
    before: Vec<u8>,
    // The text since the last carriage return, which may still be overwritten.
    held: Vec<u8>,
}

// The control that precedes the next text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FrameStart {
    #[default]
    None,
    // A carriage return: the text begins a frame.
    Return,
    // An erased line, or a cursor moved to the first column: the text overwrites the line.
    Anew,
}

impl FrameStart {
    fn after(self, print: &Print<'_>) -> Self {
        match (self, print) {
            (Self::None, Print::Return(_)) => Self::Return,
            (_, Print::Anew) | (Self::Return, Print::EraseRest) => Self::Anew,
            (start, _) => start,
        }
    }
}

impl EscapeStripper {
    /// Takes the next bytes. Appends to `out` the text that can no longer be overwritten.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if self.is_fresh() {
            let clean = rest.iter().position(|byte| is_control(*byte)).unwrap_or(rest.len());
            let lines = memchr::memrchr(b'\n', &rest[..clean]).map_or(0, |at| at + 1);
            out.extend_from_slice(&rest[..lines]);
            rest = &rest[lines..];
        }
        while let Some(at) = memchr::memchr(b'\n', rest) {
            if !self.is_fresh() || !print_simple(&rest[..at], out) {
                self.inside(&rest[..at], out);
                self.end_frame(out);
                out.extend_from_slice(&self.before);
                self.before.clear();
                let Self { before, held, .. } = mem::take(self);
                *self = Self { before, held, ..Self::default() };
            }
            out.push(b'\n');
            rest = &rest[at + 1..];
        }
        self.inside(rest, out);
    }

    // Returns the rest of the text if the stream ends here.
    pub(super) fn tail(&self) -> Vec<u8> {
        let mut tail = Vec::new();
        keep_frame(&self.before, &self.held, &mut tail);
        tail.extend_from_slice(&self.held);
        tail
    }

    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.held.is_empty()
    }

    // Returns true at the beginning of a line.
    pub(super) fn is_fresh(&self) -> bool {
        !self.controlled && !self.long && self.is_empty()
    }

    fn inside(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let clean =
            if self.controlled { Some(0) } else { bytes.iter().position(|b| is_control(*b)) };
        let (text, controlled) = bytes.split_at(clean.unwrap_or(bytes.len()));
        self.text(text, out);
        if controlled.is_empty() {
            return;
        }
        self.controlled = true;
        let mut printer = mem::take(&mut self.printer);
        printer.push(controlled, |print| match print {
            Print::Text(text) => self.text(text, out),
            _ => self.start = self.start.after(&print),
        });
        self.printer = printer;
    }

    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match mem::take(&mut self.start) {
            FrameStart::None => {}
            FrameStart::Return if self.long => out.push(b'\r'),
            FrameStart::Return => self.end_frame(out),
            FrameStart::Anew => {
                self.end_frame(out);
                self.before.clear();
            }
        }
        if self.before.len() + self.held.len() + bytes.len() > HELD && !self.long {
            self.long = true;
            if !self.before.is_empty() {
                out.append(&mut self.before);
                out.push(b'\r');
            }
            out.append(&mut self.held);
        }
        if self.long {
            out.extend_from_slice(bytes);
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    fn end_frame(&mut self, out: &mut Vec<u8>) {
        keep_frame(&self.before, &self.held, out);
        mem::swap(&mut self.before, &mut self.held);
        self.held.clear();
    }
}

// Appends `before` and a carriage return to `out`, unless `after` is drawn over `before`.
fn keep_frame(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    if !before.is_empty() && !after.is_empty() && !is_drawn_over(before, after) {
        out.extend_from_slice(before);
        out.push(b'\r');
    }
}

fn is_control(byte: u8) -> bool {
    matches!(byte, 1..=8 | 11..=31 | 127)
}

/// Returns the text of a complete log, without escape sequences and overwritten text. See
/// [`text_ranges`] for the positions of the text in the log.
pub fn strip_escapes(bytes: &[u8]) -> Vec<u8> {
    let (mut stripper, mut out) = (EscapeStripper::default(), Vec::with_capacity(bytes.len()));
    stripper.push(bytes, &mut out);
    out.extend_from_slice(&stripper.tail());
    out
}

/// Finds the escape sequences after which the line is drawn again. The stream may be split
/// anywhere.
#[derive(Debug, Clone, Copy, Default)]
enum RedrawScanner {
    #[default]
    Text,
    Escape,
    // After `ESC [` and at most one digit. The value is that digit, or a space if there is none
    // yet.
    Argument(u8),
    Other,
}

impl RedrawScanner {
    // Splits `bytes` after each escape sequence that lets the line be drawn again. Calls `each`
    // with each part and the effect of the sequence at its end. The last part may have no such
    // sequence.
    fn split(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8], Option<Print<'static>>)) {
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            if matches!(self, Self::Text) {
                match memchr(0x1b, &bytes[at..]) {
                    Some(escape) => at += escape,
                    None => break,
                }
            }
            at += 1;
            if let Some(end) = self.ends_with(bytes[at - 1]) {
                each(&bytes[from..at], Some(end));
                from = at;
            }
        }
        each(&bytes[from..], None);
    }

    fn ends_with(&mut self, byte: u8) -> Option<Print<'static>> {
        let before = *self;
        *self = match (before, byte) {
            (_, 0x1b) => Self::Escape,
            (Self::Escape, b'[') => Self::Argument(b' '),
            (Self::Argument(b' '), b'0'..=b'9') => Self::Argument(byte),
            (Self::Argument(_) | Self::Other, 0x20..=0x3f) => Self::Other,
            _ => Self::Text,
        };
        match (before, byte) {
            // `ESC [ G` and `ESC [ 1 G` move the cursor to the first column. `ESC [ 2 K` erases the
            // whole line.
            (Self::Argument(b' ' | b'0' | b'1'), b'G') | (Self::Argument(b'2'), b'K') => {
                Some(Print::Anew)
            }
            // `ESC [ K` erases the rest of the line. After a carriage return, this is the whole
            // line.
            (Self::Argument(b' ' | b'0'), b'K') => Some(Print::EraseRest),
            _ => None,
        }
    }
}

enum Print<'a> {
    // A carriage return. Text that follows may overwrite the line.
    Return(&'a [u8]),
    // The line is redrawn: text that follows overwrites it.
    Anew,
    EraseRest,
    Text(&'a [u8]),
}

#[derive(Debug, Clone, Default)]
struct PlainPrinter {
    escapes: StripBytes,
    starts: RedrawScanner,
}

impl PlainPrinter {
    fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Print<'_>)) {
        let Self { escapes, starts } = self;
        starts.split(bytes, |part, end| {
            print_part(escapes, part, &mut each);
            end.into_iter().for_each(&mut each);
        });
    }
}

fn print_part(escapes: &mut StripBytes, bytes: &[u8], each: &mut impl FnMut(Print<'_>)) {
    let mut rest = bytes;
    while !rest.is_empty() {
        // `strip_next` regards white space inside a sequence as its end, unless the white space is
        // passed alone.
        let alone = rest.iter().position(|byte| matches!(byte, 0 | b'\t' | 12 | b'\r'));
        let (run, after) = rest.split_at(alone.unwrap_or(rest.len()));
        escapes.strip_next(run).for_each(|text| each(Print::Text(text)));
        let (one, after) = after.split_at(after.len().min(1));
        match one {
            // NUL must be kept, because it shows that the content is not text.
            [0] => each(Print::Text(one)),
            _ => match escapes.strip_next(one).next() {
                Some(b"\r") => each(Print::Return(one)),
                Some(text) => each(Print::Text(text)),
                None => {}
            },
        }
        rest = after;
    }
}

const ESCAPE: u8 = 0x1b;

/// Appends the text of a line to `out` if the line has no controls except colours, or none except
/// carriage returns. For any other line, returns false and appends nothing. The caller must then
/// use [`EscapeStripper`].
fn print_simple(line: &[u8], out: &mut Vec<u8>) -> bool {
    let ended = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
    let text = &line[..ended];
    if line.len() > HELD || !is_plain(text) {
        return false;
    }
    match (memchr(ESCAPE, text), memchr(b'\r', text)) {
        (None, None) => out.extend_from_slice(text),
        (None, Some(_)) => print_frames(text, out),
        (Some(_), None) => return print_coloured(text, out),
        (Some(_), Some(_)) => return false,
    }
    true
}

/// Returns true if the line is UTF-8 and has no control characters except escape, carriage return
/// and white space. The control characters U+0080 to U+009F are not permitted either.
fn is_plain(line: &[u8]) -> bool {
    // A fold without an early exit compiles to vector instructions.
    let has_control = line.iter().fold(false, |found, byte| found | is_other_control(*byte));
    let is_text = || line.is_ascii() || (!line.contains(&0xc2) && str::from_utf8(line).is_ok());
    !has_control && is_text()
}

fn is_other_control(byte: u8) -> bool {
    matches!(byte, 1..=8 | 11 | 12 | 14..=26 | 28..=31 | 127)
}

fn print_frames(line: &[u8], out: &mut Vec<u8>) {
    let mut frames = line.split(|byte| *byte == b'\r').filter(|frame| !frame.is_empty());
    let mut last = frames.next().unwrap_or_default();
    for frame in frames {
        keep_frame(last, frame, out);
        last = frame;
    }
    out.extend_from_slice(last);
}

// Returns false and appends nothing if the line has sequences other than colours.
fn print_coloured(line: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut rest = line;
    while let Some(at) = memchr(ESCAPE, rest) {
        out.extend_from_slice(&rest[..at]);
        let Some(length) = colour_length(&rest[at + 1..]) else {
            out.truncate(start);
            return false;
        };
        rest = &rest[at + 1 + length..];
    }
    out.extend_from_slice(rest);
    true
}

// Returns the length of a colour sequence without its escape byte, such as `[1;31m`.
fn colour_length(sequence: &[u8]) -> Option<usize> {
    let arguments = sequence.strip_prefix(b"[")?;
    let length =
        arguments.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    (arguments.get(length) == Some(&b'm')).then_some(length + 2)
}

/// Returns the ranges of `log` that belong to its text, in order. Adjacent ranges are joined.
///
/// The bytes in these ranges are the text that [`strip_escapes`] returns.
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

// The ranges of the text between two carriage returns, and the text itself.
#[derive(Default)]
struct FrameParts {
    parts: Vec<Range<usize>>,
    text: Vec<u8>,
}

#[derive(Default)]
struct LineRanges {
    kept: Vec<Range<usize>>,
    before: FrameParts,
    held: FrameParts,
    // The positions of the carriage returns after `before` and after `held`.
    returns: (usize, usize),
    start: FrameStart,
    long: bool,
}

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
            FrameStart::Return if self.long => {
                keep(&mut self.kept, self.returns.1..self.returns.1 + 1);
            }
            FrameStart::Return => self.end_frame(),
            FrameStart::Anew => {
                self.end_frame();
                self.before = FrameParts::default();
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
        keep(&mut self.kept, self.returns.0..self.returns.0 + 1);
    }
}

// Appends a range, or joins it to the last range if the two are adjacent.
fn keep(kept: &mut Vec<Range<usize>>, part: Range<usize>) {
    match kept.last_mut() {
        _ if part.is_empty() => {}
        Some(last) if last.end == part.start => last.end = part.end,
        _ => kept.push(part),
    }
}

#[cfg(test)]
mod tests;
