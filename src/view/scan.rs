//! Finds lines in content of any size with bounded memory, and finds the ends of characters and
//! strings.

use std::io;

use ctxfs_core::model::{Content, Subject, place_before_line};

// Number of bytes that are read at once. It is large enough to make the overhead of a read call
// small.
const READ_BYTES: usize = 1 << 20;
// Maximum number of bytes that are searched backward for the start of a line.
const MAX_BACK_BYTES: u64 = 64 << 20;
// Maximum number of bytes in which lines are counted. Counting them takes seconds.
const MAX_COUNTED_BYTES: u64 = 8 << 30;

/// The result of a search for the start of a line: the offset of its first byte, the information
/// that the content has fewer lines, or the offset at which time ran out.
pub(super) enum LineStart {
    At(u64),
    Beyond,
    OutOfTime(u64),
}

pub(super) fn line_start(
    content: &dyn Content,
    line: u64,
    expired: &dyn Fn() -> bool,
) -> io::Result<LineStart> {
    let mut block = vec![0; if line > 1 { READ_BYTES } else { 0 }];
    let known = place_before_line(content, line - 1)?;
    let mut missing = line - 1 - known.newlines;
    let mut offset = known.offset;
    while missing > 0 {
        if expired() {
            return Ok(LineStart::OutOfTime(offset));
        }
        let got = content.read_at(offset, &mut block)?;
        if got == 0 {
            return Ok(LineStart::Beyond);
        }
        let newlines = newlines(&block[..got]);
        offset += if newlines < missing { got as u64 } else { after_newline(&block, missing) };
        missing = missing.saturating_sub(newlines);
    }
    Ok(if offset < content.len() { LineStart::At(offset) } else { LineStart::Beyond })
}

/// Returns the number of lines. Uses the analysis if it is complete, and counts the lines
/// otherwise. Returns `None` if counting would take too long.
pub(super) fn count_lines(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
) -> io::Result<Option<u64>> {
    count_lines_from(subject, NewlineCount::default(), expired)
}

// Returns the number of lines like `count_lines`, but starts counting at `counted`.
pub(super) fn count_lines_from(
    subject: &Subject<'_>,
    counted: NewlineCount,
    expired: &dyn Fn() -> bool,
) -> io::Result<Option<u64>> {
    let (content, analysis) = (subject.content, subject.analysis);
    if analysis.bytes == content.len() {
        return Ok(Some(analysis.lines));
    }
    let known = content.lines_before(content.len())?;
    let (mut offset, mut newlines) = if known.offset > counted.offset {
        (known.offset, known.newlines)
    } else {
        (counted.offset, counted.newlines)
    };
    let most = content.len().min(offset.saturating_add(MAX_COUNTED_BYTES));
    let mut block =
        vec![0; READ_BYTES.min(usize::try_from(most.saturating_sub(offset)).unwrap_or(READ_BYTES))];
    while offset < most && !expired() {
        let got = content.read_at(offset, &mut block)?;
        if got == 0 {
            break;
        }
        newlines += self::newlines(&block[..got]);
        offset += got as u64;
    }
    if offset < content.len() {
        return Ok(None);
    }
    let last = content.bytes(offset.saturating_sub(1), 1)?;
    Ok(Some(newlines + u64::from(last.first().is_some_and(|last| *last != b'\n'))))
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NewlineCount {
    pub(super) offset: u64,
    pub(super) newlines: u64,
}

// Returns the number of bytes up to and including the newline number `count`, which must exist.
fn after_newline(block: &[u8], count: u64) -> u64 {
    let nth = usize::try_from(count - 1).unwrap_or(usize::MAX);
    memchr::memchr_iter(b'\n', block).nth(nth).map_or(block.len(), |at| at + 1) as u64
}

/// Returns the start of the line that contains the byte before `offset`. That line must be the last
/// line of the subject. Returns `None` if the start is too far away.
pub(super) fn start_of_last(subject: &Subject<'_>, offset: u64) -> io::Result<Option<u64>> {
    let Some(start) = last_line(subject)?.filter(|start| *start <= offset) else {
        return start_before(subject.content, offset);
    };
    let farthest = MAX_BACK_BYTES - u64::from(start > 0);
    Ok((offset - start <= farthest).then_some(start))
}

fn last_line(subject: &Subject<'_>) -> io::Result<Option<u64>> {
    let analysis = subject.analysis;
    if analysis.bytes != subject.content.len() {
        return subject.content.last_line();
    }
    let noted = analysis.shortcuts.as_ref().and_then(|shortcuts| shortcuts.last_line);
    Ok(noted.or_else(|| (analysis.lines == 1).then_some(0)))
}

/// Returns the start of the line that contains the byte before `offset`. Returns `None` if the
/// start is too far away.
pub(super) fn start_before(content: &dyn Content, offset: u64) -> io::Result<Option<u64>> {
    let mut end = offset;
    while end > 0 && offset - end < MAX_BACK_BYTES {
        let start = end.saturating_sub(READ_BYTES as u64);
        let block = content
            .bytes(start, READ_BYTES.min(usize::try_from(end - start).unwrap_or(READ_BYTES)))?;
        if let Some(at) = memchr::memrchr(b'\n', &block) {
            return Ok(Some(start + at as u64 + 1));
        }
        end = start;
    }
    Ok((end == 0).then_some(0))
}

// Returns the offset `count` characters after `at`. Counts at most four bytes as one character.
pub(super) fn forward(line: &[u8], at: usize, count: usize) -> usize {
    let most = line.len().min(at.saturating_add(4 * count));
    let starts = line[at..most].iter().enumerate().filter(|(_, byte)| !continues(**byte));
    starts.map(|(index, _)| at + index).nth(count).unwrap_or(most)
}

pub(super) fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

// Returns the last offset at or before `at` where a character of `bytes` begins.
pub(super) fn char_floor(bytes: &[u8], at: usize) -> usize {
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| continues(*byte));
    (at.saturating_sub(3)..=at).rev().find(|at| !inside(at)).unwrap_or(at)
}

// Returns the first offset at or after `at` where a character of `bytes` begins.
pub(super) fn char_ceiling(bytes: &[u8], at: usize) -> usize {
    let inside = |at: &usize| bytes.get(*at).is_some_and(|byte| continues(*byte));
    (at..=at + 3).find(|at| !inside(at)).unwrap_or(at)
}

// Returns the length of the JSON string at the start of `bytes`, including its quotes.
pub(super) fn json_string_length(bytes: &[u8]) -> Option<usize> {
    Some(json_string_end(&bytes[1..])? + 2)
}

// Returns the offset of the quote that closes a string.
pub(super) fn json_string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found);
        }
        at = found + 2;
    }
}

pub(super) fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use ctxfs_core::model::LinesBefore;

    fn at(text: &str, line: u64) -> Option<u64> {
        match line_start(&Vec::from(text), line, &|| false).unwrap() {
            LineStart::At(offset) => Some(offset),
            LineStart::Beyond => None,
            LineStart::OutOfTime(_) => unreachable!(),
        }
    }

    #[test]
    fn lines_are_found() {
        assert_eq!(at("a\nbb\nc", 1), Some(0));
        assert_eq!(at("a\nbb\nc", 2), Some(2));
        assert_eq!(at("a\nbb\nc", 3), Some(5));
        assert_eq!(at("a\nbb\nc", 4), None);
        assert_eq!(at("a\n", 2), None);
        assert_eq!(at("", 1), None);
        assert_eq!(at("\n\n", 2), Some(1));
    }

    #[test]
    fn lines_are_found_across_blocks() {
        let text = format!("{}\n{}\nend\n", "x".repeat(READ_BYTES), "y".repeat(READ_BYTES - 1));
        assert_eq!(at(&text, 2), Some(READ_BYTES as u64 + 1));
        assert_eq!(at(&text, 3), Some(2 * READ_BYTES as u64 + 1));
        assert_eq!(at(&text, 4), None);
    }

    #[test]
    fn time_can_run_out() {
        let found = line_start(&b"a\nb\n".to_vec(), 2, &|| true).unwrap();
        assert!(matches!(found, LineStart::OutOfTime(0)));
    }

    #[test]
    fn lines_are_counted_from_where_they_are_not() {
        let count = |text: &str, counted, expired: bool| {
            let mut fixture = Fixture::new(text);
            fixture.analysis.bytes = u64::MAX;
            count_lines_from(&fixture.subject(), counted, &|| expired).unwrap()
        };
        let text = format!("{}\nend", "x\n".repeat(READ_BYTES));
        let lines = READ_BYTES as u64 + 2;
        let some = |offset| NewlineCount { offset, newlines: offset / 2 };
        for offset in [0, 2, READ_BYTES as u64, 2 * READ_BYTES as u64] {
            assert_eq!(count(&text, some(offset), false), Some(lines));
            assert_eq!(count(&text, some(offset), true), None);
        }
        assert_eq!(count("a\nb\n", some(4), true), Some(2));
        assert_eq!(count("a\nb\nc", NewlineCount { offset: 5, newlines: 2 }, true), Some(3));
        assert_eq!(count("", some(0), false), Some(0));
    }

    /// Content of which only the last byte and the number of lines before it are available.
    struct LastByte(u64);

    impl Content for LastByte {
        fn len(&self) -> u64 {
            1 << 40
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            assert_eq!((offset, buffer.len()), (self.len() - 1, 1), "nothing else is read");
            buffer[0] = b'x';
            Ok(1)
        }

        fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
            Ok(LinesBefore { offset, newlines: self.0 })
        }
    }

    #[test]
    fn lines_that_are_known_are_not_counted() {
        let fixture = Fixture::new("x");
        let subject = Subject { content: &LastByte(7), ..fixture.subject() };
        assert_eq!(count_lines(&subject, &|| false).unwrap(), Some(8));
    }

    #[test]
    fn starts_are_found_backwards() {
        let text = format!("a\n{}", "x".repeat(3 * READ_BYTES));
        let content: Vec<u8> = text.into();
        let start = |offset| start_before(&content, offset).unwrap();
        assert_eq!(start(content.len() as u64), Some(2));
        assert_eq!(start(2), Some(2));
        assert_eq!(start(1), Some(0));
        assert_eq!(start(0), Some(0));
    }

    /// Content in which only the starts of lines are available.
    struct Unread(u64, Option<u64>);

    impl Content for Unread {
        fn len(&self) -> u64 {
            self.0
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            panic!("nothing is read");
        }

        fn last_line(&self) -> io::Result<Option<u64>> {
            Ok(self.1)
        }
    }

    #[test]
    fn a_start_that_is_known_is_not_looked_for() {
        let fixture = Fixture::new("x");
        let start = |(length, known), offset| {
            let content = Unread(length, known);
            start_of_last(&Subject { content: &content, ..fixture.subject() }, offset).unwrap()
        };
        assert_eq!(start((1 << 40, Some(7)), MAX_BACK_BYTES + 6), Some(7));
        assert_eq!(start((1 << 40, Some(7)), MAX_BACK_BYTES + 7), None);
        assert_eq!(start((1 << 40, Some(0)), MAX_BACK_BYTES), Some(0));
        assert_eq!(start((1 << 40, Some(0)), MAX_BACK_BYTES + 1), None);
        assert_eq!(start((1, None), 1), Some(0), "its analysis has one line");
    }

    #[test]
    fn characters_are_not_split() {
        let text = "a\u{20ac}b".as_bytes();
        let floors: Vec<usize> = (0..=5).map(|at| char_floor(text, at)).collect();
        assert_eq!(floors, [0, 1, 1, 1, 4, 5]);
        let ceilings: Vec<usize> = (0..=5).map(|at| char_ceiling(text, at)).collect();
        assert_eq!(ceilings, [0, 1, 4, 4, 4, 5]);
        assert_eq!(char_floor(b"\x80\x80\x80\x80\x80\x80", 5), 5);
    }
}
