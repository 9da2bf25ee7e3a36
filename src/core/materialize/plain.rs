//! Removes escape sequences and overwritten progress from text that was made for a terminal.
//!
//! A line of the log is a sequence of frames: pieces of text that carriage returns, erased lines
//! and moves of the cursor separate. Each frame is drawn in a row of the screen. A frame is removed
//! if the next frame in its row is drawn over it and it tells nothing more than that one. Any other
//! frame is kept, followed by a carriage return.
//!
//! An escape sequence ends at the latest at the end of its line, so line numbers do not change.
//! Apart from these carriage returns, bytes are only removed, never changed.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use anstream::adapter::StripBytes;
use memchr::memchr;

use crate::materialize::terminal::{Redraw, is_drawn_over};

/// Maximum number of bytes of a line that are held back because they may be drawn over. In a longer
/// line, nothing is overwritten.
const HELD: usize = 64 * 1024;
/// Maximum number of frames that are held back. It is more than a screen has rows.
const MAX_FRAMES: usize = 128;

/// Removes escape sequences and overwritten text from a stream. The result does not depend on how
/// the stream was split.
#[derive(Debug, Clone, Default)]
pub(super) struct EscapeStripper {
    printer: PlainPrinter,
    controlled: bool,
    line: DrawnLine<()>,
    // Number of frames that were removed in the lines so far.
    overdrawn: u64,
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
        while let Some(at) = memchr(b'\n', rest) {
            if !self.is_fresh() || !self.print_simple(&rest[..at], out) {
                self.inside(&rest[..at], out);
                self.line.finish(&mut (out, ()));
                let (overdrawn, spare) = (self.overdrawn(), mem::take(&mut self.line.spare));
                let line = DrawnLine { spare, ..DrawnLine::default() };
                *self = Self { line, overdrawn, ..Self::default() };
            }
            out.push(b'\n');
            rest = &rest[at + 1..];
        }
        self.inside(rest, out);
    }

    /// Appends the rest of the text if the stream ends here.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.line.finish(&mut (out, ()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.held == 0
    }

    // Returns true at the beginning of a line.
    pub(super) fn is_fresh(&self) -> bool {
        !self.controlled && !self.line.long && self.is_empty()
    }

    /// Returns the number of frames of progress that were drawn over and removed.
    pub(super) fn overdrawn(&self) -> u64 {
        self.overdrawn + self.line.overdrawn
    }

    fn inside(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let clean =
            if self.controlled { Some(0) } else { bytes.iter().position(|b| is_control(*b)) };
        let (text, controlled) = bytes.split_at(clean.unwrap_or(bytes.len()));
        self.line.text(text, (), &mut (&mut *out, ()));
        if controlled.is_empty() {
            return;
        }
        self.controlled = true;
        let Self { printer, line, .. } = self;
        printer.push(controlled, |print| match print {
            Print::Text(text) => line.text(text, (), &mut (&mut *out, ())),
            Print::Control(control, _) => line.control(control, 0),
        });
    }

    /// Appends the text of a line to `out` if the line has no controls except colours, or none
    /// except carriage returns. For any other line, returns false and appends nothing.
    fn print_simple(&mut self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let ended = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
        let text = &line[..ended];
        if line.len() > HELD || !is_plain(text) {
            return false;
        }
        match (memchr(ESCAPE, text), memchr(b'\r', text)) {
            (None, None) => out.extend_from_slice(text),
            (None, Some(_)) => self.overdrawn += print_frames(text, out),
            (Some(_), None) => return print_coloured(text, out),
            (Some(_), Some(_)) => return false,
        }
        true
    }
}

/// The places in the log from which text comes, or nothing if they are not needed.
trait Places: Default + Clone {
    fn append(&mut self, other: &mut Self);
    fn push_return(&mut self, at: usize);
}

impl Places for () {
    fn append(&mut self, (): &mut Self) {}
    fn push_return(&mut self, _: usize) {}
}

impl Places for Vec<TextPart> {
    fn append(&mut self, other: &mut Self) {
        for part in other.drain(..) {
            keep(self, part);
        }
    }

    fn push_return(&mut self, at: usize) {
        let log = at..at + 1;
        keep(self, TextPart { log, is_return: true });
    }
}

/// A frame. `end` is the place of the control after it. A frame is `settled` if it was drawn over
/// and is kept.
#[derive(Debug, Clone, Default)]
struct Frame<P> {
    row: i64,
    text: Vec<u8>,
    places: P,
    end: usize,
    redraw: Redraw,
    settled: bool,
}

/// The state of a line. The last of `frames` is being drawn; the others may still be drawn over.
///
/// `row` is the row of the cursor, counted from where the line begins, and `drawn` the row of the
/// last text. `start` and `end` tell of the controls since then: how the next text is drawn, and the
/// place of the first of them. `spare` is an empty buffer for the next frame. `long` is true if the
/// line is too long to be held: nothing in it is overwritten, and its first part was already passed on.
#[derive(Debug, Clone, Default)]
struct DrawnLine<P> {
    frames: VecDeque<Frame<P>>,
    held: usize,
    row: i64,
    drawn: i64,
    saved_row: i64,
    start: Option<Redraw>,
    end: usize,
    spare: Vec<u8>,
    long: bool,
    overdrawn: u64,
}

/// The first row of the screen, for sequences that name a row. It is far from the rows that are
/// counted from the line.
const FIRST_ROW: i64 = 1 << 32;

impl<P: Places> DrawnLine<P> {
    fn control(&mut self, control: Control, at: usize) {
        match control {
            Control::Return => self.start = self.start.or(Some(Redraw::Over)),
            Control::Anew => self.start = Some(Redraw::Erased),
            Control::EraseRest if self.start.is_some() => self.start = Some(Redraw::Erased),
            Control::EraseRest => return,
            Control::Rows(rows) => self.row = self.row.saturating_add(rows.into()),
            Control::Row(row) => self.row = FIRST_ROW + i64::from(row),
            Control::Save => self.saved_row = self.row,
            Control::Restore => self.row = self.saved_row,
        }
        if self.end == 0 {
            self.end = at;
        }
    }

    fn text(&mut self, bytes: &[u8], mut places: P, out: &mut (&mut Vec<u8>, P)) {
        if bytes.is_empty() {
            return;
        }
        let end = mem::take(&mut self.end);
        let is_moved = mem::replace(&mut self.drawn, self.row) != self.row;
        match self.start.take() {
            None if !is_moved => {}
            _ if self.long => push_return(out, end),
            start => self.begin_frame(start.unwrap_or_default(), end, out),
        }
        if self.held + bytes.len() > HELD && !self.long {
            self.pass_all_on(out);
            self.long = true;
        }
        if self.long {
            out.0.extend_from_slice(bytes);
            out.1.append(&mut places);
            return;
        }
        self.held += bytes.len();
        if self.frames.is_empty() {
            self.push_frame(Redraw::Over);
        }
        let Some(frame) = self.frames.back_mut() else { return };
        frame.text.extend_from_slice(bytes);
        frame.places.append(&mut places);
    }

    fn begin_frame(&mut self, redraw: Redraw, end: usize, out: &mut (&mut Vec<u8>, P)) {
        if let Some(last) = self.frames.back_mut() {
            last.end = end;
        }
        self.settle();
        while self.frames.len() >= MAX_FRAMES || self.frames.front().is_some_and(|it| it.settled) {
            self.pass_on(out);
            push_return(out, mem::take(&mut self.end));
        }
        self.push_frame(redraw);
    }

    fn push_frame(&mut self, redraw: Redraw) {
        let (row, text) = (self.row, mem::take(&mut self.spare));
        self.frames.push_back(Frame { row, text, redraw, ..Frame::default() });
    }

    // Removes the frame that the last frame is drawn over, or settles it.
    fn settle(&mut self) {
        let Some(last) = self.frames.back() else { return };
        let earlier = self.frames.len() - 1;
        let under = |frame: &Frame<P>| frame.row == last.row && !frame.settled;
        let Some(at) = self.frames.range(..earlier).rposition(under) else { return };
        if is_drawn_over(&self.frames[at].text, &last.text, last.redraw) {
            self.overdrawn += 1;
            let Some(frame) = self.frames.remove(at) else { return };
            self.held -= frame.text.len();
            self.keep_spare(frame.text);
        } else {
            self.frames[at].settled = true;
        }
    }

    // Passes the first frame on. Its end is the place of the carriage return that follows it.
    fn pass_on(&mut self, (text, places): &mut (&mut Vec<u8>, P)) {
        let Some(mut frame) = self.frames.pop_front() else { return };
        self.held -= frame.text.len();
        self.end = frame.end;
        text.extend_from_slice(&frame.text);
        places.append(&mut frame.places);
        self.keep_spare(frame.text);
    }

    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare = buffer;
    }

    fn finish(&mut self, out: &mut (&mut Vec<u8>, P)) {
        self.settle();
        self.pass_all_on(out);
    }

    fn pass_all_on(&mut self, out: &mut (&mut Vec<u8>, P)) {
        while !self.frames.is_empty() {
            self.pass_on(out);
            if !self.frames.is_empty() {
                push_return(out, self.end);
            }
        }
        self.end = 0;
    }
}

fn push_return<P: Places>((text, places): &mut (&mut Vec<u8>, P), at: usize) {
    text.push(b'\r');
    places.push_return(at);
}

fn is_control(byte: u8) -> bool {
    matches!(byte, 1..=8 | 11..=31 | 127)
}

/// Returns the text of a complete log, without escape sequences and overwritten text. See
/// [`text_parts`] for the positions of the text in the log.
pub fn strip_escapes(bytes: &[u8]) -> Vec<u8> {
    let (mut stripper, mut out) = (EscapeStripper::default(), Vec::with_capacity(bytes.len()));
    stripper.push(bytes, &mut out);
    stripper.finish(&mut out);
    out
}

/// A control that changes where the next text is drawn.
///
/// - `Return`: a carriage return. Text that follows may overwrite the line.
/// - `Anew`: the line is erased, or the cursor moves to the first column. Text that follows
///   overwrites the line.
/// - `EraseRest`: the line is erased from the cursor on. After a carriage return, this is all of it.
/// - `Rows`, `Row`: the cursor moves by rows, or to a row.
/// - `Save`, `Restore`: the cursor moves back to where it was saved.
#[derive(Debug, Clone, Copy)]
enum Control {
    Return,
    Anew,
    EraseRest,
    Rows(i16),
    Row(i16),
    Save,
    Restore,
}

/// Finds the escape sequences that change where text is drawn. The stream may be split anywhere.
#[derive(Debug, Clone, Copy, Default)]
enum ControlScanner {
    #[default]
    Text,
    Escape,
    // After `ESC [`. `first` is the first argument, and `more` is true if another one follows.
    Arguments {
        first: Option<i16>,
        more: bool,
    },
    Other,
}

// A larger argument moves the cursor as far as this one.
const MAX_ARGUMENT: i16 = 999;

impl ControlScanner {
    // Splits `bytes` after each escape sequence that changes where text is drawn. Calls `each` with
    // each part and the effect of the sequence at its end. The last part may have no such sequence.
    fn split(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8], Option<Control>)) {
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            if matches!(self, Self::Text) {
                match memchr(ESCAPE, &bytes[at..]) {
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

    fn ends_with(&mut self, byte: u8) -> Option<Control> {
        let before = mem::take(self);
        match (before, byte) {
            (_, ESCAPE) => *self = Self::Escape,
            (Self::Escape, b'[') => *self = Self::Arguments { first: None, more: false },
            (Self::Escape, b'M') => return Some(Control::Rows(-1)),
            (Self::Escape, b'7') => return Some(Control::Save),
            (Self::Escape, b'8') => return Some(Control::Restore),
            (Self::Arguments { first, more: false }, b'0'..=b'9') => {
                let first = first.unwrap_or(0) * 10 + i16::from(byte - b'0');
                *self = Self::Arguments { first: Some(first.min(MAX_ARGUMENT)), more: false };
            }
            (Self::Arguments { first, .. }, b'0'..=b'9' | b';') => {
                *self = Self::Arguments { first, more: true };
            }
            (Self::Arguments { .. } | Self::Other, 0x20..=0x3f) => *self = Self::Other,
            (Self::Arguments { first, more }, _) => return control(byte, first, more),
            _ => {}
        }
        None
    }
}

// Returns the effect of the sequence `ESC [` with this first argument and this last byte.
fn control(byte: u8, first: Option<i16>, more: bool) -> Option<Control> {
    let count = first.unwrap_or(0).max(1);
    Some(match (byte, first.unwrap_or(0)) {
        (b'H' | b'f', _) => Control::Row(count),
        _ if more => return None,
        (b'G', 0 | 1) | (b'K', 2) => Control::Anew,
        (b'K' | b'J', 0) => Control::EraseRest,
        (b'A' | b'F', _) => Control::Rows(-count),
        (b'B' | b'E', _) => Control::Rows(count),
        (b'd', _) => Control::Row(count),
        (b's', _) => Control::Save,
        (b'u', _) => Control::Restore,
        _ => return None,
    })
}

// A control has the bytes at its end.
enum Print<'a> {
    Control(Control, &'a [u8]),
    Text(&'a [u8]),
}

#[derive(Debug, Clone, Default)]
struct PlainPrinter {
    escapes: StripBytes,
    controls: ControlScanner,
}

impl PlainPrinter {
    fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Print<'_>)) {
        let Self { escapes, controls } = self;
        controls.split(bytes, |part, end| {
            let mut printed = part.as_ptr();
            print_part(escapes, part, &mut |print| {
                if let Print::Text(text) = print {
                    printed = text.as_ptr_range().end;
                }
                each(print);
            });
            // After the first byte of a broken character, an escape byte is text.
            let is_text = !part.is_empty() && printed == part.as_ptr_range().end;
            if let Some(control) = end.filter(|_| !is_text) {
                each(Print::Control(control, &part[part.len() - 1..]));
            }
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
            // `strip_next` would remove NUL bytes, which are text.
            [0] => each(Print::Text(one)),
            _ => match escapes.strip_next(one).next() {
                Some(b"\r") => each(Print::Control(Control::Return, one)),
                Some(text) => each(Print::Text(text)),
                None => {}
            },
        }
        rest = after;
    }
}

const ESCAPE: u8 = 0x1b;

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

// Returns the number of frames that were drawn over.
fn print_frames(line: &[u8], out: &mut Vec<u8>) -> u64 {
    let mut frames = line.split(|byte| *byte == b'\r').filter(|frame| !frame.is_empty());
    let mut last = frames.next().unwrap_or_default();
    let mut overdrawn = 0;
    for frame in frames {
        if is_drawn_over(last, frame, Redraw::Over) {
            overdrawn += 1;
        } else {
            out.extend_from_slice(last);
            out.push(b'\r');
        }
        last = frame;
    }
    out.extend_from_slice(last);
    overdrawn
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

/// A part of the text of a log. It consists of the bytes `log` of the log, or of a carriage return
/// that stands for a control there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct TextPart {
    pub log: Range<usize>,
    pub is_return: bool,
}

/// Returns the parts of the text that [`strip_escapes`] returns for `log`, in order. Adjacent parts
/// are joined.
pub fn text_parts(log: &[u8]) -> Vec<TextPart> {
    let mut kept = Vec::new();
    let mut start = 0;
    while start < log.len() {
        let newline = memchr(b'\n', &log[start..]).map(|at| start + at);
        let end = newline.unwrap_or(log.len());
        kept = parts_of_line(log, start..end, kept);
        let newline = end..newline.map_or(end, |newline| newline + 1);
        keep(&mut kept, TextPart { log: newline, is_return: false });
        start = end + 1;
    }
    kept
}

// Appends the parts of a line to `kept`.
fn parts_of_line(log: &[u8], range: Range<usize>, kept: Vec<TextPart>) -> Vec<TextPart> {
    let place = |bytes: &[u8]| bytes.as_ptr() as usize - log.as_ptr() as usize;
    let part = |bytes: &[u8]| {
        let log = place(bytes)..place(bytes) + bytes.len();
        vec![TextPart { log, is_return: false }]
    };
    let bytes = &log[range];
    let clean = bytes.iter().position(|byte| is_control(*byte)).unwrap_or(bytes.len());
    let (mut line, mut text) = (DrawnLine::default(), Vec::new());
    let mut out = (&mut text, kept);
    line.text(&bytes[..clean], part(&bytes[..clean]), &mut out);
    PlainPrinter::default().push(&bytes[clean..], |print| match print {
        Print::Text([]) => {}
        Print::Text(bytes) => line.text(bytes, part(bytes), &mut out),
        Print::Control(control, bytes) => line.control(control, place(bytes)),
    });
    line.finish(&mut out);
    out.1
}

// Appends a part, or joins it to the last part if the two are adjacent.
fn keep(kept: &mut Vec<TextPart>, part: TextPart) {
    match kept.last_mut() {
        _ if part.log.is_empty() => {}
        Some(last) if last.log.end == part.log.start && !last.is_return && !part.is_return => {
            last.log.end = part.log.end;
        }
        _ => kept.push(part),
    }
}

#[cfg(test)]
mod tests;
