//! The protocol between a view and the process that runs its filter.
//!
//! The process first receives the [`FilterRequest`] as a line of JSON. For each value it then
//! receives a line of words, `value depth line length`, followed by the value itself. `large line`,
//! `bad line lines` or `broken offset line` may take the place of a value. The process sends frames: one byte for
//! the type, four bytes for the length (least significant byte first), and a text. It sends the
//! messages `large`, `bad` and `broken` back when it reads them, so that notices do not depend on how far
//! ahead the sender was.

use std::io;
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

// Number of bytes before the text of a frame.
const FRAME_HEAD_BYTES: usize = 5;
// A longer text violates the protocol.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The filter to run, and its options. `programs` has the whole filter first, followed by its rest
/// after each step of its path.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is one of jq's switches")]
pub(super) struct FilterRequest {
    pub(super) programs: Vec<String>,
    pub(super) raw: bool,
    pub(super) compact: bool,
    pub(super) slurp: bool,
    pub(super) null_input: bool,
    pub(super) sorted: bool,
}

impl FilterRequest {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }

    pub(super) fn read(input: &mut dyn BufRead) -> io::Result<Self> {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }
}

/// The next input of a filter: a value, a note that a value is too large to be sent or that lines
/// from `line` on are not JSON, or the end of valid JSON. `depth` is the number of path steps that led to a value. `line` is the line of the
/// value, or of the value around it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterInput {
    Value { depth: usize, line: u64, text: Vec<u8> },
    Large { line: u64 },
    Bad { line: u64, lines: u64 },
    Broken { offset: u64, line: u64 },
}

// Announces a value of `length` bytes, which must follow.
pub(super) fn announce(
    out: &mut dyn Write,
    (depth, line): (usize, u64),
    length: u64,
) -> io::Result<()> {
    writeln!(out, "value {depth} {line} {length}")
}

pub(super) fn leave_out(out: &mut dyn Write, line: u64) -> io::Result<()> {
    writeln!(out, "large {line}")
}

pub(super) fn pass_over(out: &mut dyn Write, line: u64, lines: u64) -> io::Result<()> {
    writeln!(out, "bad {line} {lines}")
}

pub(super) fn break_off(out: &mut dyn Write, offset: u64, line: u64) -> io::Result<()> {
    writeln!(out, "broken {offset} {line}")
}

// Reads the next input. Returns `None` at the end.
pub(super) fn read_input(input: &mut dyn BufRead) -> io::Result<Option<FilterInput>> {
    let mut head = String::new();
    if input.read_line(&mut head)? == 0 {
        return Ok(None);
    }
    let (word, numbers) = head.trim_end().split_once(' ').unwrap_or_default();
    Ok(Some(match (word, numbers_of(numbers).as_deref()) {
        ("value", Some(&[depth, line, length])) => {
            let size = |number: u64| usize::try_from(number).map_err(io::Error::other);
            let mut text = vec![0; size(length)?];
            input.read_exact(&mut text)?;
            FilterInput::Value { depth: size(depth)?, line, text }
        }
        ("large", Some(&[line])) => FilterInput::Large { line },
        ("bad", Some(&[line, lines])) => FilterInput::Bad { line, lines },
        ("broken", Some(&[offset, line])) => FilterInput::Broken { offset, line },
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }))
}

pub(super) fn numbers_of(words: &str) -> Option<Vec<u64>> {
    words.split(' ').map(|word| word.parse().ok()).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    // The filter starts with the value on the line in the text.
    Begin,
    // A part of a result.
    Part,
    // The last part of a result.
    Last,
    // The filter failed on the value. The text is the reason.
    Failed,
    // The filter does not compile. The text is the reason.
    NoFilter,
    // The value on the line in the text was omitted.
    Large,
    // Lines are not JSON, and were passed over: the first of them and their number.
    Bad,
    // There is no valid JSON from the byte and line in the text on.
    Broken,
}

const TAGS: [(u8, Tag); 8] = [
    (b'b', Tag::Begin),
    (b'p', Tag::Part),
    (b'l', Tag::Last),
    (b'f', Tag::Failed),
    (b'n', Tag::NoFilter),
    (b'o', Tag::Large),
    (b'j', Tag::Bad),
    (b'x', Tag::Broken),
];

pub(super) fn write_frame(out: &mut dyn Write, tag: Tag, text: &[u8]) -> io::Result<()> {
    let mark = TAGS.iter().find(|(_, other)| *other == tag).map_or(0, |(mark, _)| *mark);
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + text.len());
    frame.push(mark);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(text);
    out.write_all(&frame)
}

#[derive(Debug, Default)]
pub(super) struct FrameReader {
    kept: Vec<u8>,
}

impl FrameReader {
    /// Appends `bytes`, and calls `take` with each frame that is now complete. Stops and returns
    /// false if `take` returns false.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(Tag, &[u8]) -> io::Result<bool>,
    ) -> io::Result<bool> {
        self.kept.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((tag, text)) = frame(&self.kept[at..])? {
            at += FRAME_HEAD_BYTES + text.len();
            if !take(tag, text)? {
                return Ok(false);
            }
        }
        self.kept.drain(..at);
        Ok(true)
    }
}

// Returns the first frame in `bytes` if it is complete.
fn frame(bytes: &[u8]) -> io::Result<Option<(Tag, &[u8])>> {
    let Some((&[mark, a, b, c, d], rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    match TAGS.iter().find(|(other, _)| *other == mark) {
        Some((_, tag)) if length <= MAX_TEXT_BYTES => {
            Ok(rest.get(..length).map(|text| (*tag, text)))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a filter's answer makes no sense")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_as_they_were_sent() {
        let mut sent = Vec::new();
        for (depth, line, text) in [(0, 1, "{}"), (2, 7, ""), (1, 9, "[\n1]")] {
            announce(&mut sent, (depth, line), text.len() as u64).unwrap();
            sent.extend_from_slice(text.as_bytes());
        }
        leave_out(&mut sent, 12).unwrap();
        break_off(&mut sent, 900, 13).unwrap();
        let mut input = sent.as_slice();
        let seen: Vec<FilterInput> =
            std::iter::from_fn(|| read_input(&mut input).unwrap()).collect();
        let value = |depth, line, text: &str| FilterInput::Value { depth, line, text: text.into() };
        let want = [
            value(0, 1, "{}"),
            value(2, 7, ""),
            value(1, 9, "[\n1]"),
            FilterInput::Large { line: 12 },
            FilterInput::Broken { offset: 900, line: 13 },
        ];
        assert_eq!(seen, want);
        for bad in ["value 1 2\n", "value 1 2 9\nshort", "large x\n", "other 1\n", "\n"] {
            assert!(read_input(&mut bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn frames_do_not_depend_on_the_cuts() {
        let mut sent = Vec::new();
        for (tag, text) in [(Tag::Begin, "12"), (Tag::Part, "abc"), (Tag::Last, "")] {
            write_frame(&mut sent, tag, text.as_bytes()).unwrap();
        }
        for step in 1..=sent.len() {
            let mut seen = Vec::new();
            let mut frames = FrameReader::default();
            for piece in sent.chunks(step) {
                let whole = frames.push(piece, |tag, text| {
                    seen.push((tag, text.to_vec()));
                    Ok(true)
                });
                assert!(whole.unwrap());
            }
            let want =
                [(Tag::Begin, b"12".to_vec()), (Tag::Part, b"abc".to_vec()), (Tag::Last, vec![])];
            assert_eq!(seen, want, "by {step}");
        }
        for bad in [b"?\0\0\0\0", b"pxxxx"] {
            assert!(FrameReader::default().push(bad, |_, _| Ok(true)).is_err());
        }
    }
}
