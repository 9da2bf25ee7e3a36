//! The places of a log's text in its bytes.

use std::ops::Range;

use crate::materialize::plain::HELD;
use crate::materialize::plain::PlainPrinter;
use crate::materialize::plain::Print;
use crate::materialize::plain::is_control;

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

/// Returns the parts of a line, without its newline, that are not overwritten.
fn ranges_of_line(log: &[u8], line: Range<usize>) -> Vec<Range<usize>> {
    let (mut kept, mut length, mut returned) = (Vec::new(), 0, false);
    let clean = log[line.clone()].iter().position(|byte| is_control(*byte));
    let clean = clean.map_or(line.end, |at| line.start + at);
    let mut text = |part: Range<usize>, returned: bool| {
        if returned && length <= HELD {
            kept.clear();
            length = 0;
        }
        length += part.len();
        keep(&mut kept, part);
    };
    text(line.start..clean, false);
    PlainPrinter::default().push(&log[clean..line.end], |print| match print {
        Print::Return => returned = true,
        Print::Text([]) => {}
        Print::Text(bytes) => {
            let start = bytes.as_ptr() as usize - log.as_ptr() as usize;
            text(start..start + bytes.len(), std::mem::take(&mut returned));
        }
    });
    kept
}

/// Appends a part, to the last one if it follows that.
fn keep(kept: &mut Vec<Range<usize>>, part: Range<usize>) {
    match kept.last_mut() {
        _ if part.is_empty() => {}
        Some(last) if last.end == part.start => last.end = part.end,
        _ => kept.push(part),
    }
}
