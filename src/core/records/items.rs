//! The items of a JSON array: the first array of objects in the content.

use std::io;
use std::ops::ControlFlow;

use crate::records::fields::Field;
use crate::records::record::{RECORD_BYTES, Record};
use crate::records::window::Window;

/// Returns true if `text` begins as a JSON object or array.
pub(super) fn is_json(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    matches!(text.first(), Some(b'{' | b'['))
}

/// Returns the offset of the first array of objects in `sample`, unless the sample is JSON Lines.
pub(super) fn start(sample: &[u8]) -> Option<usize> {
    if !is_json(sample) {
        return None;
    }
    let (mut at, mut depth) = (0, 0_usize);
    while at < sample.len() {
        match sample[at] {
            b'"' => at = string_end(sample, at)?,
            b'[' if sample[at + 1..].trim_ascii_start().first() == Some(&b'{') => return Some(at),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return None;
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the offset of the quote that ends the string at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
    }
}

/// The position in an array: the depth of brackets inside the current item, and whether it is
/// inside a string.
#[derive(Default)]
struct Brackets {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

/// Calls `visit` with each item of the array that begins at `start`. Of an item that is longer than
/// [`RECORD_BYTES`], `text` is empty.
pub(super) fn each(
    window: &mut Window<'_>,
    start: u64,
    visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
) -> io::Result<Option<u64>> {
    let (mut at, mut number, mut line) = (0_u64, 0, 1);
    let mut item: Option<(u64, u64)> = None;
    let mut brackets = Brackets::default();
    loop {
        let keep = item.map_or(at, |(from, _)| from.max(at.saturating_sub(RECORD_BYTES as u64)));
        if window.from(at).is_empty() && !window.fill(keep)? {
            return Ok(window.is_late().then_some(at));
        }
        for byte in window.from(at) {
            at += 1;
            line += u64::from(*byte == b'\n');
            if at <= start + 1 {
                continue;
            }
            if !brackets.take(*byte) {
                if item.is_none() && !byte.is_ascii_whitespace() {
                    item = Some((at - 1, line));
                }
                continue;
            }
            if let Some((start, line)) = item.take() {
                number += 1;
                let is_long = at - 1 - start > RECORD_BYTES as u64;
                let text = if is_long { &[][..] } else { window.between(start, at - 1) };
                let text = text.trim_ascii_end();
                let end = if is_long { at - 1 } else { start + text.len() as u64 };
                let (depth, inner, header) = (0, &[][..], None);
                let record = Record { number, line, start, end, text, depth, inner, header };
                if visit(&record).is_break() {
                    return Ok(None);
                }
            }
            if *byte == b']' {
                return Ok(None);
            }
        }
    }
}

impl Brackets {
    /// Takes the next byte. Returns true for the comma or bracket that ends an item.
    fn take(&mut self, byte: u8) -> bool {
        if self.is_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_string = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.is_string = true,
            b'[' | b'{' => self.depth += 1,
            b',' => return self.depth == 0,
            b']' | b'}' if self.depth == 0 => return true,
            b']' | b'}' => self.depth -= 1,
            _ => {}
        }
        false
    }
}

/// Returns the members of an object. A value that is no object is one field without a name.
pub(super) fn fields(record: &[u8]) -> Vec<Field> {
    if record.first() != Some(&b'{') {
        return vec![Field::unnamed(record)];
    }
    let (mut fields, mut brackets) = (Vec::new(), Brackets::default());
    let mut from = 1;
    for (at, byte) in record.iter().enumerate().skip(1) {
        if brackets.take(*byte) || at + 1 == record.len() {
            let end = if at + 1 == record.len() && *byte != b'}' { at + 1 } else { at };
            fields.extend(member(record, (from, end)));
            from = at + 1;
        }
    }
    fields
}

/// Returns the member at `place`: `"name": value`.
fn member(record: &[u8], (from, end): (usize, usize)) -> Option<Field> {
    let text = record[from..end].trim_ascii();
    let key_end = text.first().filter(|first| **first == b'"').and_then(|_| string_end(text, 0));
    let Some(key_end) = key_end else {
        return (!text.is_empty()).then(|| Field::new(String::new(), text, (from, end)));
    };
    let name = String::from_utf8_lossy(&text[1..key_end]).into_owned();
    let value = text[key_end + 1..].trim_ascii_start();
    let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii();
    Some(Field::new(name, value, (from, end)))
}
