//! Records that consist of whole lines: lines, stanzas and log entries.

use std::io;
use std::ops::ControlFlow;

use crate::records::fields::Field;
use crate::records::record::{RECORD_BYTES, Record};
use crate::records::window::Window;

/// Finds the end of the record at the start of some bytes, which are all that is left if the
/// argument is true. Returns the length of the record with all newlines up to the next record, or
/// `None` if the end is not among the bytes.
pub(super) type FindEnd<'a> = dyn Fn(&[u8], bool) -> Option<usize> + 'a;

/// Minimum number of stanzas, and maximum number that are examined.
const MIN_BLOCKS: usize = 2;
const MAX_BLOCKS: usize = 50;
/// Maximum length in bytes of the name before a colon.
const NAME_BYTES: usize = 40;
/// The time of a log entry begins within this many bytes of its line.
const TIME_WITHIN: usize = 40;

/// Calls `visit` with each record. A record whose end is not found within [`RECORD_BYTES`] ends with
/// its first line.
pub(super) fn each(
    window: &mut Window<'_>,
    find_end: &FindEnd<'_>,
    visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
) -> io::Result<Option<u64>> {
    let (mut at, mut line, mut number) = (0, 1, 0);
    loop {
        let bytes = window.from(at);
        let found = if bytes.is_empty() { None } else { find_end(bytes, window.ended()) };
        if found.is_none() && bytes.len() <= RECORD_BYTES && !window.ended() {
            if !window.fill(at)? && window.is_late() {
                return Ok(Some(at));
            }
            continue;
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let first_line = || memchr::memchr(b'\n', bytes).map(|newline| newline + 1);
        let (long, end) = if let Some(length) = found.or_else(first_line) {
            (None, at + length as u64)
        } else {
            let start = bytes[..bytes.len().min(RECORD_BYTES)].to_vec();
            (Some(start), line_end(window, at)?)
        };
        let text = long.as_deref().unwrap_or_else(|| window.between(at, end));
        let newlines = memchr::memchr_iter(b'\n', text).count() as u64;
        let shown = text.trim_ascii_end();
        number += 1;
        let record = Record {
            number,
            line,
            start: at,
            end: if long.is_some() { end } else { at + shown.len() as u64 },
            text: &shown[..shown.len().min(RECORD_BYTES)],
            depth: 0,
            inner: &[],
            header: None,
        };
        if visit(&record).is_break() {
            return Ok(None);
        }
        (at, line) = (end, line + newlines + u64::from(long.is_some()));
    }
}

/// Returns the offset after the line at `at`, and moves the window there.
fn line_end(window: &mut Window<'_>, at: u64) -> io::Result<u64> {
    let mut from = at;
    loop {
        if let Some(newline) = memchr::memchr(b'\n', window.from(from)) {
            return Ok(from + newline as u64 + 1);
        }
        from += window.from(from).len() as u64;
        if !window.fill(from)? {
            return Ok(from);
        }
    }
}

pub(super) fn line(bytes: &[u8], ends: bool) -> Option<usize> {
    let newline = memchr::memchr(b'\n', bytes).map(|newline| newline + 1);
    newline.or(ends.then_some(bytes.len()))
}

pub(super) fn stanza(bytes: &[u8], ends: bool) -> Option<usize> {
    block(bytes, ends, |line, is_after_blank| is_after_blank && !is_blank(line))
}

pub(super) fn entry(bytes: &[u8], ends: bool) -> Option<usize> {
    block(bytes, ends, |line, _| begins_with_time(line))
}

/// Returns the length of the block of lines at the start of `bytes`. It ends before the first line
/// for which `begins` is true. The second argument of `begins` is true after a blank line. A block
/// that is longer than [`RECORD_BYTES`] ends after the last line within this length, because the
/// time for all blocks has to be linear.
fn block(bytes: &[u8], ends: bool, begins: impl Fn(&[u8], bool) -> bool) -> Option<usize> {
    let is_long = bytes.len() > RECORD_BYTES;
    let bytes = &bytes[..bytes.len().min(RECORD_BYTES)];
    let (mut at, mut is_after_blank) = (0, false);
    while let Some(length) = memchr::memchr(b'\n', &bytes[at..]) {
        let line = &bytes[at..at + length];
        if at > 0 && begins(line, is_after_blank) {
            return Some(at);
        }
        // Blank lines before the first line belong to no block.
        is_after_blank = is_blank(line);
        at += length + 1;
    }
    if is_long {
        return (at > 0).then_some(at);
    }
    let is_next = at > 0 && at < bytes.len() && ends && begins(&bytes[at..], is_after_blank);
    if is_next {
        return Some(at);
    }
    ends.then_some(bytes.len())
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Returns true if `line` begins with a time of day, possibly after a date, a bracket or a level.
fn begins_with_time(line: &[u8]) -> bool {
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return false;
    }
    let start = &line[..line.len().min(TIME_WITHIN)];
    let digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let times = start.windows(8).enumerate().filter(|(_, time)| {
        time[2] == b':' && time[5] == b':' && digits(&time[..2]) && digits(&time[3..5])
    });
    let mut times = times.filter(|(_, time)| digits(&time[6..]));
    // Only a date, a weekday, a level and punctuation may be before it.
    times.next().is_some_and(|(at, _)| {
        start[..at].split(|byte| !byte.is_ascii_alphabetic()).all(|word| word.len() <= 8)
            && memchr::memchr_iter(b' ', &start[..at]).count() <= 4
    })
}

/// Returns the name before the colon of a `name: value` line.
fn name(line: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (line[..colon].trim_ascii(), &line[colon + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-./()#".contains(byte);
    let is_separate = value.first().is_none_or(u8::is_ascii_whitespace);
    let is_word = name.first().is_some_and(u8::is_ascii_alphabetic) && name.iter().all(is_name);
    (is_word && is_separate && name.len() <= NAME_BYTES).then_some(name)
}

pub(super) fn are_stanzas(sample: &[u8], whole: bool) -> bool {
    let (mut at, mut blocks, mut stanzas) = (0, 0, 0);
    while at < sample.len() && blocks < MAX_BLOCKS {
        let Some(length) = stanza(&sample[at..], whole) else { break };
        let lines = || sample[at..at + length].split(|byte| *byte == b'\n');
        let filled = lines().filter(|line| !is_blank(line)).count();
        let named = lines().filter(|line| name(line).is_some()).count();
        blocks += usize::from(filled > 0);
        stanzas += usize::from(named >= 2 && named * 2 >= filled);
        at += length;
    }
    blocks >= MIN_BLOCKS && stanzas * 10 >= blocks * 9
}

pub(super) fn are_entries(sample: &[u8]) -> bool {
    let mut lines = sample.split(|byte| *byte == b'\n').take(20 * MAX_BLOCKS);
    if !lines.next().is_some_and(begins_with_time) {
        return false;
    }
    let (mut begin, mut further) = (1, 0);
    for line in lines.filter(|line| !is_blank(line)) {
        if begins_with_time(line) {
            begin += 1;
        } else {
            further += 1;
        }
    }
    begin > MIN_BLOCKS && further > 0
}

/// Returns the fields of a stanza. A line that is no `name: value`, or is indented more than the
/// fields, continues the field before it.
pub(super) fn fields(record: &[u8]) -> Vec<Field> {
    let indent = |line: &[u8]| line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let lines = || record.split(|byte| *byte == b'\n');
    // The first line may stand out to the left, as it names the stanza.
    let own = lines().skip(1).filter(|line| name(line).is_some()).map(indent).min().unwrap_or(0);
    let mut fields: Vec<Field> = Vec::new();
    let mut at = 0;
    for line in lines() {
        let end = at + line.len();
        match name(line).filter(|_| indent(line) <= own) {
            Some(name) => {
                let value = &line[memchr::memchr(b':', line).map_or(0, |colon| colon + 1)..];
                let name = String::from_utf8_lossy(name).into_owned();
                fields.push(Field::new(name, value.trim_ascii(), (at, end)));
            }
            None => match fields.last_mut() {
                Some(last) => last.go_on(line.trim_ascii(), end),
                None => fields.push(Field::new(String::new(), line.trim_ascii(), (at, end))),
            },
        }
        at = end + 1;
    }
    fields
}
